import { reveal } from "../shared/hidden.ts";
import { oneLine } from "../shared/text.ts";

const LONGEST = 72;

/** A little of what was seen: on one line, nothing that acts on a terminal, and nothing that may be a secret. */
export function excerpt(text: string): string {
  const shown = withoutSecrets(oneLine(text.slice(0, 400)));
  return oneLine(reveal(oneLine(shown, LONGEST)), LONGEST);
}

function withoutSecrets(text: string): string {
  return text
    .replace(/(:\/\/)[^\s/@]{1,100}@/g, "$1…@")
    .replace(
      /\b((?:[\w-]{0,30}(?:token|secret|passw(?:or)?d|api_?key|authorization|bearer))["']?\s{0,2}[=:]?\s{0,2}["']?)(?=[^\s"'$<{]{6})[^\s"']{1,200}/gi,
      "$1…",
    )
    .replace(/[A-Za-z0-9_+/=-]{20,}/g, (word) => (isSecretLike(word) ? `${word.slice(0, 4)}…` : word));
}

/** Letters and digits in no order that the parts of a path have. */
function isSecretLike(word: string): boolean {
  return word.split(/[/_=-]/).some((part) => part !== "" && !PART.test(part));
}

const PART = /^(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,15}|\d{1,5}|[a-z]{2,12}\d{1,3})$/;
