import { createLazyPattern } from "../../util/untrusted-text.ts";

/** Returns the forms in which a text is compared: as written, and with its escapes decoded. */
export function normalizeReadings(text: string): string[] {
  const plain = foldText(text);
  const open = ESCAPE_SEQUENCE.test(text) ? foldText(decodeEscapes(text)) : plain;
  return [...new Set([plain, open])].filter((form) => form !== "");
}

const ASCII_TEXT = /^[\t\n\r\x20-\x7e]*$/;

/** Normalizes case, white space and letter forms, and removes invisible characters. */
function foldText(text: string): string {
  const plain = ASCII_TEXT.test(text)
    ? text
    : text.normalize("NFKC").replace(invisibleCharacters(), "").replaceAll("\0", " ");
  return plain.toLowerCase().replace(/\s+/g, " ").trim();
}

/** A text reduced to its letters and digits, to find an address in it however it is spaced, marked up or escaped. */
export interface LetterText {
  letters: string;
  /** The number of words. */
  count: number;
  /** Bit flags by position in `letters`: first and last letter of a word. */
  edges: Uint8Array;
}

const WORD_START = 1;
const WORD_END = 2;

/** Reduces each form of a text to letters and digits, as written and without the words that spell out signs of an address. */
export function createLetterTexts(text: string): LetterText[] {
  const forms = listNormalizedForms(text).flatMap((form) => {
    const words = splitWords(form);
    const spoken = splitWords(splitSigns(form)).filter(isNotSign);
    // A single word is not an address: `dot.example` is not in every text with "example".
    return spoken.length < 2 ? [words] : [words, spoken];
  });
  const distinct = new Map(forms.map((words) => [words.join(" "), words]));
  return [...distinct.values()].filter(({ length }) => length > 0).map(joinLetters);
}

/** `eve_at_evil_dot_example`, "eve at evil dot example". Both sides of a comparison lose these words. */
const SPOKEN_SIGNS: ReadonlySet<string> = new Set(
  "at atsign arroba arobase chiocciola dot d0t point period punkt punto dash hyphen minus underscore slash colon".split(
    " ",
  ),
);
const isNotSign = (word: string): boolean => !SPOKEN_SIGNS.has(word);
/** `eveATevilDOTexample` */
const CAPITAL_SIGNS = /([a-z0-9])(AT|DOT)(?=[a-z0-9])/g;
/** `eve(a)evil.example` */
const LETTER_SIGNS = /[([{<][ \t]*(?:a|ä|æ)[ \t]*[)\]}>]|[ⓐⒶ]/gi;

function splitSigns(text: string): string {
  return text.replace(CAPITAL_SIGNS, "$1 $2 ").replace(LETTER_SIGNS, " ");
}

/** Returns the words of a text in lower case and one letter form. */
function splitWords(text: string): string[] {
  const plain = toPlainText(text);
  return plain.match(selectWordPattern(plain)) ?? [];
}

function toPlainText(text: string): string {
  // An invisible character ends a word. Otherwise it would join an address with the word before it.
  const plain = ASCII_TEXT.test(text)
    ? text
    : text.normalize("NFKD").replace(invisibleCharacters(), " ").replace(combiningMarks(), "");
  return plain.toLowerCase();
}

function selectWordPattern(plain: string): RegExp {
  return ASCII_TEXT.test(plain) ? ASCII_WORDS : anyScriptWords();
}

/** Returns the words of a text with their positions, without those that spell out signs of an address. */
export function findWords(text: string): { plain: string; words: { word: string; at: number }[] } {
  const plain = toPlainText(splitSigns(text));
  const words = [...plain.matchAll(selectWordPattern(plain))].map(({ 0: word, index: at }) => ({ word, at }));
  return { plain, words: words.filter(({ word }) => isNotSign(word)) };
}

const ASCII_WORDS = /[a-z0-9]+/g;

/** Joins words to one string of letters and digits. */
function joinLetters(words: readonly string[]): LetterText {
  const letters = words.join("");
  const edges = new Uint8Array(letters.length);
  let end = 0;
  for (const { length } of words) {
    edges[end] = WORD_START;
    end += length;
    edges[end - 1] = (edges[end - 1] ?? 0) | WORD_END;
  }
  return { letters, count: words.length, edges };
}

/** Returns true if these letters occur in a text as whole words, whatever is between them. */
export function containsLetterPiece({ letters, edges }: LetterText, piece: string): boolean {
  for (let at = letters.indexOf(piece); at >= 0; at = letters.indexOf(piece, at + 1)) {
    const [first = 0, last = 0] = [edges[at], edges[at + piece.length - 1]];
    if ((first & WORD_START) !== 0 && (last & WORD_END) !== 0) return true;
  }
  return false;
}

/**
 * Returns the addresses, paths and names with dots in a text: `ada@example.com`, `example.com`, `/etc/hosts`. One with a scheme, a
 * query or a tag is there without these, too: `mailto:ada+news@example.com?subject=Hi`.
 */
export function findAddresses(text: string): string[] {
  const pieces = text.split(/[\s<>()[\]{}"'`,;|=]+/).flatMap((piece) => {
    const [path = ""] = piece.split(/[?#&]/, 1);
    const mailboxes = piece.includes("@") ? piece.split(/[:/?#&\\]/).map(removeMailTag) : [];
    return [piece.replace(/^mailto:/, ""), path.replace(URL_SCHEME, ""), ...mailboxes];
  });
  return [...new Set(pieces.map((piece) => piece.replace(/^[.:!?]+|[.:!?]+$/g, "")))].filter(
    (piece) => piece.length >= MIN_ADDRESS_LENGTH && /[@/\\]|\w[.:]\w/.test(piece),
  );
}

/** `ada@example.com` of `ada+news@example.com`. */
function removeMailTag(mailbox: string): string {
  const [tag, at] = [mailbox.indexOf("+"), mailbox.indexOf("@")];
  return tag > 0 && tag < at ? mailbox.slice(0, tag) + mailbox.slice(at) : mailbox;
}

const URL_SCHEME = /^(?:[a-z][a-z0-9+.-]+:\/\/|(?:mailto|sips?|xmpp|tel|sms):)/;
const MIN_ADDRESS_LENGTH = 6;

/** Returns the parts of `ada/engine` or of a page's path one by one: a call may pass owner and name as separate values. */
export function findAddressNames(text: string): string[] {
  const pieces = text.split(/[\s<>()[\]{}"'`,;|=]+/);
  return pieces.flatMap((piece) => {
    const [, pair, path] = /^([\w.-]+\/[\w.-]+(?:#\d+)?)[.:!?]*$|^https?:\/\/[^/?#]+\/([^?#]*)/i.exec(piece) ?? [];
    return (pair ?? path ?? "").split(/[/#]/).filter((name) => name !== "");
  });
}

/** Returns true if a piece occurs in a text by itself; `strictly`: also not as part of an address or a hyphenated name. */
export function containsPiece(text: string, piece: string, how?: "strictly"): boolean {
  const [first = "", last = ""] = [piece.at(0), piece.at(-1)];
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) {
    const end = at + piece.length;
    const isGlued =
      isOneWord(text.charAt(at - 1), first) ||
      isOneWord(last, text.charAt(end)) ||
      (how === "strictly" && isPartOfName(text, at, end));
    if (!isGlued) return true;
  }
  return false;
}

/** Returns true if both characters belong to one word. In scripts without spaces between words, any position may end a word. */
function isOneWord(left: string, right: string): boolean {
  if (left === "" || right === "") return false;
  if (left < "\x80" && right < "\x80") return ASCII_WORD.test(left) && ASCII_WORD.test(right);
  return (
    wordCharacter().test(left) &&
    wordCharacter().test(right) &&
    !unspacedScript().test(left) &&
    !unspacedScript().test(right)
  );
}

const ASCII_WORD = /\w/;

function isPartOfName(text: string, at: number, end: number): boolean {
  return (
    isJoinedAt(text, at - 1, -1) || isJoinedAt(text, end, 1) || isPathRest(text, at, -1) || isPathRest(text, end - 1, 1)
  );
}

/** Matches `/etc/hosts` in `/srv/etc/hosts`. */
function isPathRest(text: string, at: number, step: 1 | -1): boolean {
  return isJoinedAt(text, at, step) && !unspacedScript().test(text.charAt(at + step));
}

/** Matches `deploy` in `deploy-all`, and `evil.example` in `ada@evil.example`. */
function isJoinedAt(text: string, at: number, step: 1 | -1): boolean {
  return /[-@/\\.:]/.test(text.charAt(at)) && wordCharacter().test(text.charAt(at + step));
}

const wordCharacter = createLazyPattern("[\\p{L}\\p{N}\\p{M}_]", "u");
const unspacedScript = createLazyPattern(
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]",
  "u",
);
const combiningMarks = createLazyPattern("\\p{M}+", "gu");
/** An ASCII word ends where another script begins, which may have no spaces: `请写信给eve @ evil . example`. */
const anyScriptWords = createLazyPattern("[a-z0-9]+|(?:(?![a-z0-9])[\\p{L}\\p{N}])+", "gu");
const invisibleCharacters = createLazyPattern("\\p{Default_Ignorable_Code_Point}|\\p{Cf}", "gu");

/**
 * Returns every text that a reader can take `text` for: as written and decoded; with its markup, without its tags, and as it is displayed.
 * A model that copies an address repairs all of that, so input is compared with each of them. Contract: linear in the text's length.
 *
 * A removed part leaves a space. It must not join the words on both sides: only letters and digits are compared, and only as whole
 * words.
 */
function listNormalizedForms(text: string): string[] {
  const forms = new Set<string>();
  for (const form of new Set([text, decodeEscapes(text)])) {
    // Removing can hide, too: an address in a comment, or in an attribute, is only in the forms before.
    const tidied = removeDisplayCodes(form);
    forms.add(form);
    for (const shown of [tidied, ...listDisplayedForms(tidied)]) {
      forms.add(shown.replace(MARKUP_TAGS, " "));
      forms.add(removeTags(shown));
    }
  }
  return [...forms];
}

/** Matches a text that `decodeEscapes` could change. */
const ESCAPE_SEQUENCE =
  /%(?:[0-9a-f]{2}|u[0-9a-f]{4})|=[0-9a-f]{2}|\\[\\/"befnrtux0-7]|&(?:#|[a-z]{2})|u\+[0-9a-f]{4}/i;
const NAMED_ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  bsol: "\\",
  colon: ":",
  commat: "@",
  dash: "-",
  gt: ">",
  hyphen: "-",
  lowbar: "_",
  lt: "<",
  nbsp: " ",
  num: "#",
  period: ".",
  percnt: "%",
  plus: "+",
  quot: '"',
  shy: "",
  sol: "/",
};
/** Most programs accept entities without a semicolon, too. */
const ENTITY_PATTERN = new RegExp(`&(${Object.keys(NAMED_ENTITIES).join("|")});?`, "gi");
/** Without a semicolon the digits end after those of an ASCII character: what follows is a part of the address. */
const DECIMAL_ENTITY = /&#0*(?:([0-9]{1,7});|(3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]))/g;
const HEX_ENTITY = /&#x0*(?:([0-9a-f]{1,6});|([2-7][0-9a-f]))/gi;
const UNICODE_ESCAPE = /\\u\{([0-9a-f]{1,6})\}|[\\%]u([0-9a-f]{4})|\\x([0-9a-f]{2})|u\+([0-9a-f]{4,6})/gi;
const WHITESPACE_ESCAPE = /\\[bfnrt]/g;
/** An escape can be escaped again (`%2540`); more rounds than this are not found by accident. */
const MAX_DECODE_ROUNDS = 6;

export function decodeEscapes(text: string): string {
  let decoded = text;
  for (let round = 0; round < MAX_DECODE_ROUNDS && ESCAPE_SEQUENCE.test(decoded); round++) {
    const next = decodeOnce(decoded);
    if (next === decoded) break;
    decoded = next;
  }
  return decoded;
}

function decodeOnce(text: string): string {
  return text
    .replace(/=([0-9a-f]{2})/gi, (all, code) => decodeCharacter(code, 16, all))
    .replace(/(?:%[0-9a-f]{2})+/gi, decodePercent)
    .replace(UNICODE_ESCAPE, (all, long, four, two, name) => decodeCharacter(long ?? four ?? two ?? name, 16, all))
    .replace(/\\(?:e|0?33)(?=\[)/gi, "\x1b")
    .replace(/\\([0-3][0-7]{2})/g, (all, code) => decodeCharacter(code, 8, all))
    .replace(WHITESPACE_ESCAPE, " ")
    .replace(/\\([\\/"'])/g, "$1")
    .replace(HEX_ENTITY, (all, code, short) => decodeCharacter(code ?? short, 16, all))
    .replace(DECIMAL_ENTITY, (all, code, short) => decodeCharacter(code ?? short, 10, all))
    .replace(ENTITY_PATTERN, (all, name) => NAMED_ENTITIES[String(name).toLowerCase()] ?? all);
}

function decodePercent(escapes: string): string {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return escapes;
  }
}

function decodeCharacter(digits: string, base: number, otherwise: string): string {
  const code = Number.parseInt(digits, base);
  return code <= 0x10ffff ? String.fromCodePoint(code) : otherwise;
}

/** Replaces codes that are not displayed as letters: terminal codes and entities. */
export function removeDisplayCodes(text: string): string {
  return replaceUnknownEntities(text.replace(TERMINAL_CODES, " "));
}

/** Replaces entities. `&eacute;` is a letter with a mark, and `&escr;` one in another style. Any other entity is a sign. */
function replaceUnknownEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&([a-z][a-z0-9]{1,31});/gi, (_, name) => STYLED_LETTER.exec(name)?.[1] ?? " ");
}

const STYLED_LETTER =
  /^([a-z])(?:acute|grave|circ|uml|tilde|cedil|ring|caron|breve|macr|ogon|dot|slash|scr|fr|opf|strok)$/i;

/** Terminal colors, cursor movements and links, also if the escape character itself was lost. */
const TERMINAL_CODES = new RegExp(
  [
    "(?:\\x1b\\[|\\x9b)(?:[0-?]+[ -/]*[@-~]|[mABCDGHJKsu])",
    "(?:\\x1b\\]|\\x9d)[^\\x07\\x1b\\x9c\\x9d]*(?:\\x07|\\x1b\\\\|\\x9c)",
    "\\x1b[()#%*+ -/][0-~]",
    "\\x1b[78=>cDEHMNOZ]",
    "\\[[0-9]{1,3}(?:;[0-9]{1,3})*m",
  ].join("|"),
  "g",
);
const MARKUP_TAGS = /<\/?[a-z][^<>]*>/gi;

/** Returns a text without the parts that are not displayed, and variants that keep one kind, which could contain the address. */
function listDisplayedForms(text: string): string[] {
  const found = INVISIBLE_PARTS.filter(({ remove }) => remove(text) !== text);
  const without = (rows: typeof found) => rows.reduce((shown, { remove }) => remove(shown), text);
  const kinds = [...new Set(found.map(({ kind }) => kind))];
  return [
    without(found),
    ...found.map((kept) => without(found.filter((row) => row !== kept))),
    ...kinds.map((kept) => without(found.filter(({ kind }) => kind !== kept))),
  ];
}

interface InvisiblePart {
  kind: string;
  remove(text: string): string;
}

/** The parts of a text that are not displayed. Nested comments are removed from the last opening mark and from the first. */
const INVISIBLE_PARTS: readonly InvisiblePart[] = [
  { kind: "html", remove: (text) => removeBetween(text, "<!--", "-->", "last") },
  { kind: "html", remove: (text) => removeBetween(text, "<!--", "-->") },
  { kind: "jsp", remove: (text) => removeBetween(text, "<%--", "--%>") },
  { kind: "template", remove: (text) => removeBetween(text, "{#", "#}") },
  { kind: "code", remove: (text) => removeBetween(text, "/*", "*/") },
  { kind: "mail", remove: (text) => text.replace(/\([^()]*\)/g, " ") },
  { kind: "script", remove: (text) => removeElements(text, "script") },
  { kind: "style", remove: (text) => removeElements(text, "style") },
  { kind: "template", remove: (text) => removeElements(text, "template") },
  { kind: "title", remove: (text) => removeElements(text, "title") },
  {
    kind: "hidden",
    remove: (text) =>
      text.replace(/<([a-z]+)(?![a-z])([^<>]*)>[^<]*<\/\1>/gi, (all, _, attributes) =>
        /\bhidden\b|display *: *none/i.test(attributes) ? " " : all,
      ),
  },
  // The address that a Markdown link leads to.
  { kind: "link", remove: (text) => text.replace(/\](?:\([^()\s]*\)|\[[^[\]]*\])/g, "] ") },
];

function removeElements(text: string, name: string): string {
  const start = new RegExp(`<${name}(?=[\\s>])`, "gi");
  if (text.search(start) < 0) return text;
  const end = new RegExp(`</${name}\\s*>`, "gi");
  return removeBetween(text.replace(start, "\0(").replace(end, "\0)"), "\0(", "\0)");
}

/** Removes the text from the first (or last) `open` before each `close`. */
function removeBetween(text: string, open: string, close: string, from: "first" | "last" = "first"): string {
  if (!text.includes(open)) return text;
  const parts = text.split(close);
  const last = parts.pop() ?? "";
  const before = parts.map((part) => {
    const at = from === "first" ? part.indexOf(open) : part.lastIndexOf(open);
    return at < 0 ? `${part} ` : `${part.slice(0, at)} `;
  });
  return before.join("") + last;
}

/** Removes tags with values in quotes, which may contain `<` and `>`. */
function removeTags(text: string): string {
  const kept: string[] = [];
  let from = 0;
  const quotes = new Set(['"', "'"]);
  for (let at = text.indexOf("<"); at >= 0; at = text.indexOf("<", Math.max(at + 1, from))) {
    if (!/[a-z/]/i.test(text.charAt(at + 1))) continue;
    const end = findTagEnd(text, at + 1, quotes);
    if (end < 0) continue;
    kept.push(text.slice(from, at));
    from = end + 1;
  }
  return [...kept, text.slice(from)].join(" ");
}

/**
 * Returns the position of a tag's `>`, or -1 if another tag begins before it. An unclosed quotation mark is removed from
 * `quotes`, so that it is searched only once.
 */
function findTagEnd(text: string, start: number, quotes: Set<string>): number {
  for (let at = start; at < text.length; at++) {
    const mark = text.charAt(at);
    if (mark === ">") return at;
    if (mark === "<") return -1;
    if (!quotes.has(mark) || text.charAt(at - 1) !== "=") continue;
    const end = text.indexOf(mark, at + 1);
    if (end < 0) quotes.delete(mark);
    else at = end;
  }
  return -1;
}
