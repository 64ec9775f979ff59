import type { Hiding } from "../shared/redact.ts";

const LONGEST = 2000;
const DEEPEST = 8;
const MOST = 100;

/** What a tool was called with, for those who look on: bounded, without secrets. */
export function shown(input: unknown, hiding: Hiding, depth = 0): unknown {
  if (typeof input === "string") {
    const text = hiding.text(input);
    return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  }
  if (input === null || typeof input !== "object") {
    const text = hiding.text(String(input));
    return text === String(input) ? input : text;
  }
  if (depth === DEEPEST) return "…";
  if (Array.isArray(input)) return input.slice(0, MOST).map((item) => shown(item, hiding, depth + 1));
  const entries = Object.entries(input).slice(0, MOST);
  return Object.fromEntries(entries.map(([key, value]) => [hiding.text(key), shown(value, hiding, depth + 1)]));
}
