import type { MatchSpan, ScanRule, ScanStatement } from "./rule.ts";

/**
 * The meaning of a signal: the skill hides something from the user (or may), sends data to a fixed address, reads or names
 * private data, performs a permanent or unusual action, skips the user's approval, asks people for credentials, contains a
 * sentence that sends something, or names intimate data.
 */
export type SignalKind =
  | "hides"
  | "downplays"
  | "secrecy"
  | "sends"
  | "private"
  | "personal"
  | "acts"
  | "unasked"
  | "asks"
  | "tells"
  | "intimate"
  | NearSignalKind
  | IntentSignalKind;

/** Kinds in `rules/intent-signals.ts`: intents first, then effects. */
export type IntentSignalKind =
  | "withholds"
  | "self-hiding"
  | "overrides"
  | "overrules"
  | "misleads"
  | "ships-out"
  | "saves-and-runs"
  | "fakes"
  | "begs-secret"
  | "names-secrets"
  | "takes-secrets"
  | "moves-money"
  | "destroys"
  | "opens-up";

/** Kinds in `rules/nearby-code-signals.ts` and `rules/nearby-text-signals.ts`. Each is named after its match. */
export type NearSignalKind =
  | "unknown-host"
  | "sends-unknown"
  | "unnamed-client"
  | "sending"
  | "fetching"
  | "numeric-address"
  | "file-host"
  | "drop-host"
  | "identity"
  | "env-dump"
  | "key-file"
  | "decoding"
  | "script-decoding"
  | "runs-text"
  | "from-pieces"
  | "background"
  | "hidden-place"
  | "runnable"
  | "lasting"
  | "watching"
  | "guard-off"
  | "elevating"
  | "gated"
  | "mining"
  | "name-lookup"
  | "text-record"
  | "prerequisite"
  | "release-link"
  | "code-host-release"
  | "terminal-paste"
  | "archive-lock"
  | "remote-run"
  | "obeys-remote"
  | "to-agent"
  | "encoded-words"
  | "decode-and-follow"
  | "left-out"
  | "when-asked"
  | "false-account"
  | "no-trace"
  | "harm-done"
  | "agent-file"
  | "standing-order"
  | "tells-data"
  | "whole-data"
  | "styled-away"
  | "trigger-word"
  | "deletes-home"
  | "guard-dialog"
  | "stretched-yes"
  | "prose-unknown"
  | "package-address"
  | "shell-socket"
  | "grants-rights"
  | "fixed-spender"
  | "destroys-all"
  | "no-confirm";

/** A weak signal. It is not reported on its own: `SIGNAL_RULES` define the combinations that matter. */
export interface ScanSignal {
  kind: SignalKind;
  /** In lower case. Statements without any of them are skipped. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: ScanStatement): MatchSpan | undefined;
  /** `code`: counts only in code, including inline code. `prose`: counts only outside of code. Defaults to both. */
  where?: "code" | "prose";
}

/** A rule over signals that are near each other. */
export interface SignalRule extends ScanRule {
  /** One signal of each list must occur. The finding is reported at the position of the first one. */
  all: readonly (readonly SignalKind[])[];
  /** The maximum number of lines between two signals. */
  within: number;
  /** If true, the rule is skipped where another rule already has a high finding. */
  isFallback?: boolean;
}

/** The position of a signal. */
export interface SeenSignal {
  kind: SignalKind;
  line: number;
  column: number;
  seen: string;
}

/** Contract: `signals` belong to one file, at most a few dozen of each kind. */
export function findCombinedSignal(
  { all, within }: SignalRule,
  signals: readonly SeenSignal[],
): SeenSignal | undefined {
  const [own = [], ...others] = all;
  return signals.find(
    (signal) =>
      own.includes(signal.kind) &&
      others.every((kinds) =>
        signals.some((other) => kinds.includes(other.kind) && Math.abs(other.line - signal.line) <= within),
      ),
  );
}
