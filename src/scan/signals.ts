import type { MatchSpan, ScanRule, ScanStatement } from "./rule.ts";

/**
 * What a sign shows: that something is kept from the user (or may be), that data goes to a fixed address, that something private is read
 * or named, that something
 * lasting or unusual is done, that the user's approval is left out, that
 * people are asked for what opens their accounts, that a sentence has something sent, that it names what is intimate.
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

/** Kinds of `rules/intent-signs.ts`: intents first, then effects. */
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

/** Kinds of `rules/near-signs.ts`. Each is named after what is seen. */
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

/** A weak sign. It is not reported on its own: `COMBINED_RULES` name the signs that matter together. */
export interface ScanSignal {
  kind: SignalKind;
  /** In lower case. A statement without any of them is not looked at. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: ScanStatement): MatchSpan | undefined;
  /** `code`: counts only in what runs or is to be run, also in a sentence. `prose`: counts only outside of code. Defaults to both. */
  where?: "code" | "prose";
}

/** A rule over signs that are near each other. */
export interface SignalRule extends ScanRule {
  /** One sign of each list must be there. The finding is reported where the first one is. */
  all: readonly (readonly SignalKind[])[];
  /** The most lines between two of them. */
  within: number;
  /** Not reported where another rule already has a finding that is high. */
  isFallback?: boolean;
}

/** Where a sign was seen. */
export interface SeenSignal {
  kind: SignalKind;
  line: number;
  column: number;
  seen: string;
}

/** Contract: `signs` are of one file, at most a few dozen of each kind. */
export function findCombinedSignal({ all, within }: SignalRule, signs: readonly SeenSignal[]): SeenSignal | undefined {
  const [own = [], ...others] = all;
  return signs.find(
    (sign) =>
      own.includes(sign.kind) &&
      others.every((kinds) =>
        signs.some((other) => kinds.includes(other.kind) && Math.abs(other.line - sign.line) <= within),
      ),
  );
}
