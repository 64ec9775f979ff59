import { inLine } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { grouped } from "../shared/text.ts";

const LONGEST = 2000;
const DEEPEST = 8;
const MOST = 100;

/** The one thing that says most of a call; nothing where no name tells which it is. */
export function gistOf(input: unknown): string | undefined {
  const { command, path, url, skill } = Object(input) as Record<string, unknown>;
  return [command, path, url, skill].find((value) => typeof value === "string");
}

const LONGEST_ORIGIN = 120;

/** Where a text came from, a line each: a command is named as the model wrote it, in as many lines as it likes. */
export function shownOrigins(labels: readonly string[], hiding: Hiding): string[] {
  return labels.map((label) => inLine(hiding.text(label), LONGEST_ORIGIN));
}

/** What a tool was called with, for events and logs: bounded, without secrets. What is left out is marked. */
export function shown(input: unknown, hiding: Hiding, depth = 0): unknown {
  if (typeof input === "string") {
    const text = hiding.text(input);
    return text.length > LONGEST
      ? `${text.slice(0, LONGEST)}… (${grouped(text.length - LONGEST)} more characters)`
      : text;
  }
  if (input === null || typeof input !== "object") {
    const text = hiding.text(String(input));
    return text === String(input) ? input : text;
  }
  if (depth === DEEPEST) return "…";
  if (Array.isArray(input)) {
    return [...input.slice(0, MOST).map((item) => shown(item, hiding, depth + 1)), ...more(input)];
  }
  const entries = Object.entries(input);
  return Object.fromEntries([
    ...entries.slice(0, MOST).map(([key, value]) => [shown(key, hiding), shown(value, hiding, depth + 1)]),
    ...more(entries).map((said) => ["…", said]),
  ]);
}

/** The complete input of a call, for whoever approves it: nothing is left out, and only secrets are replaced. */
export function completeInput(input: unknown, hiding: Hiding, depth = 0): unknown {
  if (typeof input === "string") return hiding.text(input);
  if (input === null || typeof input !== "object") return shown(input, hiding);
  if (depth === MOST_NESTED) return hiding.text(JSON.stringify(input));
  if (Array.isArray(input)) return input.map((item) => completeInput(item, hiding, depth + 1));
  const complete: Record<string, unknown> = Object.create(null); // A key may be called `__proto__`.
  for (const [key, value] of Object.entries(input)) {
    // Two keys may look the same once secrets are replaced: none hides the other.
    const name = hiding.text(key);
    let shownKey = name;
    for (let number = 2; shownKey in complete; number++) shownKey = `${name} (${number})`;
    complete[shownKey] = completeInput(value, hiding, depth + 1);
  }
  return complete;
}

/** What is nested deeper is given as one text. */
const MOST_NESTED = 50;

/** The same, with no more than the beginning of each text: where there is no room for all of it, no long one leaves another unseen. */
export function withShortTexts(value: unknown, longest: number): unknown {
  if (typeof value === "string") {
    const text = value.slice(0, longest);
    return text === value ? value : `${text}… (${grouped(value.length - longest)} more characters)`;
  }
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => withShortTexts(item, longest));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withShortTexts(item, longest)]));
}

function more({ length }: readonly unknown[]): string[] {
  return length > MOST ? [`${grouped(length - MOST)} more`] : [];
}
