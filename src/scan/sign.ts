import type { Found, Rule, Statement } from "./rule.ts";

/**
 * What a sign shows: that something is kept from the user (or may be), that data goes to a fixed address, that something private is read
 * or named, that something
 * lasting or unusual is done, that the user's approval is left out, that
 * people are asked for what opens their accounts, that a sentence has something sent, that it names what is intimate.
 */
export type SignKind =
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
  | NearSignKind
  | IntentSignKind;

/** Kinds of `rules/intent-signs.ts`: intents first, then effects. */
export type IntentSignKind =
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
export type NearSignKind =
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
export interface Sign {
  kind: SignKind;
  /** In lower case. A statement without any of them is not looked at. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: Statement): Found | undefined;
  /** `code`: counts only in what runs or is to be run, also in a sentence. `prose`: counts only outside of code. Defaults to both. */
  where?: "code" | "prose";
}

/** A rule over signs that are near each other. */
export interface CombinedRule extends Rule {
  /** One sign of each list must be there. The finding is reported where the first one is. */
  all: readonly (readonly SignKind[])[];
  /** The most lines between two of them. */
  within: number;
  /** Not reported where another rule already has a finding that is high. */
  isFallback?: boolean;
}

/** Where a sign was seen. */
export interface SignSeen {
  kind: SignKind;
  line: number;
  column: number;
  seen: string;
}

/** Contract: `signs` are of one file, at most a few dozen of each kind. */
export function findCombined({ all, within }: CombinedRule, signs: readonly SignSeen[]): SignSeen | undefined {
  const [own = [], ...others] = all;
  return signs.find(
    (sign) =>
      own.includes(sign.kind) &&
      others.every((kinds) =>
        signs.some((other) => kinds.includes(other.kind) && Math.abs(other.line - sign.line) <= within),
      ),
  );
}
