import { findHidden, type Hidden, spell } from "../../shared/hidden.ts";
import type { Weight } from "../finding.ts";
import type { Rule } from "../rule.ts";

export interface HiddenFound {
  rule: Rule;
  weight: Weight;
  index: number;
  seen: string;
}

const HIDDEN_TEXT: Rule = {
  id: "hidden-text",
  weight: "high",
  title: "holds text that people cannot see and models can read",
  why: "Tag characters, variation selectors and zero-width characters in a row spell out words without showing any.",
  fix: "remove the characters; ask who put them there",
};
const HIDDEN_DIRECTION: Rule = {
  id: "hidden-direction",
  weight: "high",
  title: "turns the direction of its text around",
  why: "What is shown is then not what is there: a comment may be code, and one ending another.",
  fix: "remove the characters",
};
const TERMINAL_CODES: Rule = {
  id: "terminal-codes",
  weight: "high",
  title: "holds raw codes for a terminal",
  why: "They can conceal text, move the cursor and write to the clipboard of whoever prints the file.",
  fix: "remove them; code spells them out as \\033",
};
const HIDDEN_IN_WORD: Rule = {
  id: "hidden-in-word",
  weight: "medium",
  title: "has an invisible character in the middle of a word",
  why: "A word that is split like that cannot be searched for, and still reads the same.",
  fix: "remove it",
};
const LOOK_ALIKE: Rule = {
  id: "look-alike",
  weight: "medium",
  title: "writes a word with letters of two alphabets that look the same",
  why: "Such a word cannot be searched for, and passes for another name.",
  fix: "write it with the letters of one alphabet",
};
const HIDDEN_CHARACTER: Rule = {
  id: "hidden-character",
  weight: "low",
  title: "has an invisible character",
  why: "Often left over from copying; it has no business in a skill.",
  fix: "remove it",
};

export const HIDDEN_RULES: readonly Rule[] = [
  HIDDEN_TEXT,
  HIDDEN_DIRECTION,
  TERMINAL_CODES,
  HIDDEN_IN_WORD,
  LOOK_ALIKE,
  HIDDEN_CHARACTER,
];

const MOST = 200;
const MOST_HINTS = 20;

/** What cannot be seen in a text, or is not what it looks like. `isScript`: codes for a terminal may be meant there. */
export function hiddenIn(text: string, isScript: boolean): HiddenFound[] {
  const found: HiddenFound[] = [];
  const hidden = findHidden(text);
  let hints = 0;
  for (let at = 0; at < hidden.length && found.length < MOST; ) {
    const length = rowFrom(hidden, at);
    const item = hidden[at] as Hidden;
    const [rule, weight] = judge(text, item, length, isScript);
    const seen = length > 1 ? `${length} in a row from ${spell(item.codePoint)}` : spell(item.codePoint);
    at += length;
    // Hints must not use up what there is room for.
    if (weight !== "low" || hints++ < MOST_HINTS) found.push({ rule, weight, index: item.index, seen });
  }
  for (const { index } of text.matchAll(MIXED)) {
    if (found.length >= MOST) break;
    if (!isMixed(wordAt(text, index))) continue;
    const letter = FOREIGN.exec(text.slice(index, index + 2));
    found.push({ rule: LOOK_ALIKE, weight: "medium", index, seen: spell(letter?.[0].codePointAt(0) ?? 0) });
  }
  return found;
}

function judge(text: string, { index, codePoint }: Hidden, length: number, isScript: boolean): [Rule, Weight] {
  if (codePoint >= 0xe0000 && codePoint <= 0xe007f) return [HIDDEN_TEXT, "high"];
  if (isDirection(codePoint)) return [HIDDEN_DIRECTION, "high"];
  if (codePoint === 0x1b || codePoint === 0x9b) return [TERMINAL_CODES, isScript ? "medium" : "high"];
  if (length >= LONG_ROW && codePoint >= 0x200b) return [HIDDEN_TEXT, "high"];
  const isInside = isLetter(text.charCodeAt(index - 1)) && isLetter(text.charCodeAt(index + 1));
  if (isInside && (codePoint >= 0x200b || codePoint < 0x20)) return [HIDDEN_IN_WORD, "medium"];
  return [HIDDEN_CHARACTER, "low"];
}

const LONG_ROW = 4;

/** How many stand side by side. */
function rowFrom(hidden: readonly Hidden[], from: number): number {
  let at = from + 1;
  while (at < hidden.length) {
    const { index, codePoint } = hidden[at - 1] as Hidden;
    if (hidden[at]?.index !== index + (codePoint > 0xffff ? 2 : 1)) break;
    at++;
  }
  return at - from;
}

function isDirection(codePoint: number): boolean {
  return (codePoint >= 0x202a && codePoint <= 0x202e) || (codePoint >= 0x2066 && codePoint <= 0x2069);
}

function isLetter(code: number): boolean {
  return (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
}

const ALIKE = "аеорсухіјѕԁһАВЕКМНОРСТХІЈЅοΟΑΒΕΖΗΙΚΜΝΡΤΥΧ";
const FOREIGN = new RegExp(`[${ALIKE}]`);
const MIXED = new RegExp(`[A-Za-z][${ALIKE}]|[${ALIKE}][A-Za-z]`, "g");

/** A word of which each letter can be taken for a Latin one. */
function isMixed(word: string): boolean {
  return word.length >= 4 && /[A-Za-z].{0,64}[A-Za-z]/.test(word) && !new RegExp(`[^A-Za-z${ALIKE}]`).test(word);
}

const LONGEST_WORD = 32;

function wordAt(text: string, index: number): string {
  const before = /[A-Za-z\u0370-\u04ff]{0,32}$/.exec(text.slice(Math.max(0, index - LONGEST_WORD), index))?.[0] ?? "";
  const after = /^[A-Za-z\u0370-\u04ff]{0,32}/.exec(text.slice(index, index + LONGEST_WORD))?.[0] ?? "";
  return before + after;
}
