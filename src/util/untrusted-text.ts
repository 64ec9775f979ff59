import { formatCount, truncateLine } from "./text.ts";

/** Sanitizes untrusted text for a line of a prompt: one line, limited length, tags and invisible characters escaped. */
export function sanitizeLine(text: string, limit = 1024): string {
  return escapeLine(truncateLine(text, limit)).replace(/<(?=[a-z/!?]|[\s/<]*(?:\/|skill_))/gi, "&lt;");
}

const OWN_TAGS = /<(?=[\s/]*skill_(?:content|resource|files|scripts|output|context|input))/gi;

/** Wraps untrusted text in a tag that the text can neither close nor forge. Invisible characters are escaped and counted in a note. */
export function wrapInTag(tag: string, attributes: Readonly<Record<string, string>>, content: string): string {
  const { text, count: hidden } = escapeInvisible(content);
  const pairs = Object.entries(attributes).map(
    ([name, value]) => ` ${name}="${sanitizeLine(value).replaceAll('"', "&quot;")}"`,
  );
  const body = text.replace(OWN_TAGS, "&lt;");
  const note = hidden > 0 ? `[${formatCount(hidden, "hidden character")} in this text, written out as \\u{…}]\n` : "";
  return `<${tag}${pairs.join("")}>\n${note}${body}\n</${tag}>`;
}

/** A character that is invisible, or that changes how a terminal or a reader displays the text around it. */
export interface InvisibleCharacter {
  index: number;
  codePoint: number;
  kind: "control" | "hidden";
}

/** Finds all hidden and control characters, except those that emoji and scripts need in that position. */
export function findInvisible(text: string): InvisibleCharacter[] {
  if (PLAIN.test(text)) return [];
  const found: InvisibleCharacter[] = [];
  for (const match of text.matchAll(SUSPECT())) {
    const codePoint = match[0].codePointAt(0) ?? 0;
    if (isControl(codePoint)) found.push({ index: match.index, codePoint, kind: "control" });
    else if (!isLegitimate(text, match.index, codePoint)) found.push({ index: match.index, codePoint, kind: "hidden" });
  }
  return found;
}

/** Puts a text on one line and escapes every hidden or control character as `\u{202e}`: safe in a terminal and in a log line. */
export function escapeLine(text: string): string {
  if (ONE_PLAIN_LINE.test(text)) return text;
  return escapeInvisible(text).text.replace(/[\n\r\t]/g, (character) => WHITESPACE_ESCAPES[character] ?? character);
}

/** Escapes every hidden or control character, and returns their count. */
export function escapeInvisible(text: string): { text: string; count: number } {
  const hidden = findInvisible(text);
  let shown = "";
  let from = 0;
  for (const { index, codePoint } of hidden) {
    shown += text.slice(from, index) + escapeCodePoint(codePoint);
    from = index + (codePoint > 0xffff ? 2 : 1);
  }
  return { text: shown + text.slice(from), count: hidden.length };
}

export function escapeCodePoint(codePoint: number): string {
  return `\\u{${codePoint.toString(16)}}`;
}

const WHITESPACE_ESCAPES: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
// Characters that are never suspect. Building the pattern of suspect ones takes a millisecond on first use, and most texts do not need
// it, including those truncated with an ellipsis.
const PLAIN = /^[\t\n\r\x20-\x7e\xa0-\xac\xae-\u034e\u2010-\u2027\u202f-\u205f]*$/;
const ONE_PLAIN_LINE = /^[\x20-\x7e\xa0-\xac\xae-\u034e\u2010-\u2027\u202f-\u205f]*$/;

// Unicode's default-ignorable and format characters, C0 and C1 controls, line separators, lone surrogates.
const SUSPECT = createLazyPattern(
  "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\p{Surrogate}]",
  "gu",
);

function isControl(codePoint: number): boolean {
  return (
    codePoint < 0xa0 || codePoint === 0x2028 || codePoint === 0x2029 || (codePoint >= 0xd800 && codePoint <= 0xdfff)
  );
}

const JOINING_SCRIPT = createLazyPattern(
  `[${matchScripts("Arabic Syriac Mandaic Nko Mongolian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Khmer Myanmar Tibetan")}]`,
);
const RIGHT_TO_LEFT = createLazyPattern(`[${matchScripts("Hebrew Arabic Syriac Thaana Nko")}]`);
const PICTURE = createLazyPattern("[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\p{Regional_Indicator}\\ufe0f]");
const TAKES_PRESENTATION = createLazyPattern("[\\p{Extended_Pictographic}\\p{Emoji}]");
const TAKES_VARIATION = createLazyPattern(`[0\\p{Sm}${matchScripts("Myanmar")}]`);
const LETTER = createLazyPattern("\\p{L}", "gu");
const MONGOLIAN = createLazyPattern(matchScripts("Mongolian"));
const HAN = createLazyPattern(matchScripts("Han"));

/** Returns true if the character has its intended function here. Contract: `codePoint` is at `index` of `text`. */
function isLegitimate(text: string, index: number, codePoint: number): boolean {
  const before = getCharacterBefore(text, index);
  const after = getCharacterAt(text, index + (codePoint > 0xffff ? 2 : 1));
  if (codePoint === 0x200d) {
    return (PICTURE().test(before) && PICTURE().test(after)) || JOINING_SCRIPT().test(before);
  }
  if (codePoint === 0x200c) return JOINING_SCRIPT().test(before) && after !== "\u200c";
  if (codePoint === 0x200e || codePoint === 0x200f || codePoint === 0x061c) return isNextToRightToLeft(text, index);
  if (codePoint === 0xfe0e || codePoint === 0xfe0f) return TAKES_PRESENTATION().test(before);
  if (codePoint >= 0xfe00 && codePoint <= 0xfe0d) {
    return HAN().test(before) || (codePoint === 0xfe00 && TAKES_VARIATION().test(before));
  }
  if (codePoint >= 0x180b && codePoint <= 0x180f) return MONGOLIAN().test(before) && codePoint !== 0x180e;
  if (codePoint >= 0xe0100 && codePoint <= 0xe01ef) return HAN().test(before);
  if (codePoint >= 0xe0020 && codePoint <= 0xe007f) return isInSubdivisionFlag(text, index);
  return false;
}

// The marks are next to punctuation, which has no direction: the nearest letter on either side decides.
function isNextToRightToLeft(text: string, index: number): boolean {
  const before =
    text
      .slice(Math.max(0, index - NEAR_CHARACTERS), index)
      .match(LETTER())
      ?.at(-1) ?? "";
  const after = text.slice(index, index + NEAR_CHARACTERS).match(LETTER())?.[0] ?? "";
  return RIGHT_TO_LEFT().test(before) || RIGHT_TO_LEFT().test(after);
}

const NEAR_CHARACTERS = 8;

// A black flag, two letters for the country, one to three for the subdivision, the end tag: anything longer carries hidden text.
const SUBDIVISION_FLAG = createLazyPattern(
  "\\u{1f3f4}[\\u{e0061}-\\u{e007a}]{2}[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{1,3}\\u{e007f}",
  "gu",
);
const MAX_FLAG_LENGTH = 14;

function isInSubdivisionFlag(text: string, index: number): boolean {
  const start = Math.max(0, index - MAX_FLAG_LENGTH);
  for (const flag of text.slice(start, index + MAX_FLAG_LENGTH).matchAll(SUBDIVISION_FLAG())) {
    const from = start + flag.index;
    if (from < index && index < from + flag[0].length) return true;
  }
  return false;
}

// Building Unicode classes would add milliseconds to every start, and plain text never needs them.
export function createLazyPattern(pattern: string, flags = "u"): () => RegExp {
  let expression: RegExp | undefined;
  return () => {
    expression ??= new RegExp(pattern, flags);
    return expression;
  };
}

function matchScripts(names: string): string {
  return names
    .split(" ")
    .map((name) => `\\p{Script=${name}}`)
    .join("");
}

function getCharacterBefore(text: string, index: number): string {
  const low = text.charCodeAt(index - 1);
  return text.slice(low >= 0xdc00 && low <= 0xdfff ? index - 2 : Math.max(0, index - 1), index);
}

function getCharacterAt(text: string, index: number): string {
  const codePoint = text.codePointAt(index);
  return codePoint === undefined ? "" : String.fromCodePoint(codePoint);
}

/** Escapes control characters in untrusted text, so that it cannot move the cursor or overwrite output. */
export function escapeForTerminal(text: string): string {
  return escapeInvisible(text.replace(/\r(?!\n)/g, "\n")).text;
}
