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

/** What a tool was called with, for those who look on: bounded, without secrets. What is left out is said: somebody may be agreeing to it. */
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

function more({ length }: readonly unknown[]): string[] {
  return length > MOST ? [`${grouped(length - MOST)} more`] : [];
}
