import { decodeEscapes, ESCAPED, normalizedForms } from "./taint-normalize.ts";

/** A text as it is compared: as written, and with its escapes decoded. */
export function readings(text: string): string[] {
  const plain = folded(text);
  const open = ESCAPED.test(text) ? folded(decodeEscapes(text)) : plain;
  return [...new Set([plain, open])].filter((form) => form !== "");
}

const ASCII = /^[\t\n\r\x20-\x7e]*$/;

/** One case, one blank, one form of each letter, and nothing that cannot be seen. */
function folded(text: string): string {
  const plain = ASCII.test(text) ? text : text.normalize("NFKC").replace(unseen(), "").replaceAll("\0", " ");
  return plain.toLowerCase().replace(/\s+/g, " ").trim();
}

/** A text reduced to its letters and digits, to find an address in it however it is spaced, marked up or escaped. */
export interface LetterText {
  letters: string;
  /** How many words they are of. */
  count: number;
  /** Whether a letter is the first or the last of its word, by its place in `letters`. */
  edges: Uint8Array;
}

const STARTS = 1;
const ENDS = 2;

/** Reduces each form of a text to letters and digits, as written and without the words that stand for signs of an address. */
export function letterForms(text: string): LetterText[] {
  const forms = normalizedForms(text).flatMap((form) => {
    const words = wordsOf(form);
    const spoken = wordsOf(splitSigns(form)).filter(isNotSign);
    // One word is not an address: `dot.example` is not in every text with "example".
    return spoken.length < 2 ? [words] : [words, spoken];
  });
  const distinct = new Map(forms.map((words) => [words.join(" "), words]));
  return [...distinct.values()].filter(({ length }) => length > 0).map(lettersOf);
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

/** The words of a text in one case and one form. */
function wordsOf(text: string): string[] {
  const plain = plainOf(text);
  return plain.match(wordsIn(plain)) ?? [];
}

function plainOf(text: string): string {
  // What cannot be seen ends a word, or it would join an address with the word before it.
  const plain = ASCII.test(text) ? text : text.normalize("NFKD").replace(unseen(), " ").replace(marks(), "");
  return plain.toLowerCase();
}

function wordsIn(plain: string): RegExp {
  return ASCII.test(plain) ? ASCII_WORDS : wordsInAnyScript();
}

/** The words of a text with their places in it, without those that stand for signs of an address. */
export function placedWords(text: string): { plain: string; words: { word: string; at: number }[] } {
  const plain = plainOf(splitSigns(text));
  const words = [...plain.matchAll(wordsIn(plain))].map(({ 0: word, index: at }) => ({ word, at }));
  return { plain, words: words.filter(({ word }) => isNotSign(word)) };
}

const ASCII_WORDS = /[a-z0-9]+/g;

/** The letters and digits of words, without anything in between. */
function lettersOf(words: readonly string[]): LetterText {
  const letters = words.join("");
  const edges = new Uint8Array(letters.length);
  let end = 0;
  for (const { length } of words) {
    edges[end] = STARTS;
    end += length;
    edges[end - 1] = (edges[end - 1] ?? 0) | ENDS;
  }
  return { letters, count: words.length, edges };
}

/** Whether these letters are in a text as whole words, whatever stands between them. */
export function standsInLetters({ letters, edges }: LetterText, piece: string): boolean {
  for (let at = letters.indexOf(piece); at >= 0; at = letters.indexOf(piece, at + 1)) {
    const [first = 0, last = 0] = [edges[at], edges[at + piece.length - 1]];
    if ((first & STARTS) !== 0 && (last & ENDS) !== 0) return true;
  }
  return false;
}

/**
 * Returns the addresses, paths and names with dots in a text: `ada@example.com`, `example.com`, `/etc/hosts`. One with a scheme, a
 * query or a tag is there without these, too: `mailto:ada+news@example.com?subject=Hi`.
 */
export function addressesIn(text: string): string[] {
  const pieces = text.split(/[\s<>()[\]{}"'`,;|=]+/).flatMap((piece) => {
    const [path = ""] = piece.split(/[?#&]/, 1);
    const mailboxes = piece.includes("@") ? piece.split(/[:/?#&\\]/).map(withoutTag) : [];
    return [piece.replace(/^mailto:/, ""), path.replace(SCHEME, ""), ...mailboxes];
  });
  return [...new Set(pieces.map((piece) => piece.replace(/^[.:!?]+|[.:!?]+$/g, "")))].filter(
    (piece) => piece.length >= SHORTEST_ADDRESS && /[@/\\]|\w[.:]\w/.test(piece),
  );
}

/** `ada@example.com` of `ada+news@example.com`. */
function withoutTag(mailbox: string): string {
  const [tag, at] = [mailbox.indexOf("+"), mailbox.indexOf("@")];
  return tag > 0 && tag < at ? mailbox.slice(0, tag) + mailbox.slice(at) : mailbox;
}

const SCHEME = /^(?:[a-z][a-z0-9+.-]+:\/\/|(?:mailto|sips?|xmpp|tel|sms):)/;
const SHORTEST_ADDRESS = 6;

/** What `ada/engine` and the address of a page name one by one: whoever is told it has to give them so, an owner here and a name there. */
export function namesIn(text: string): string[] {
  const pieces = text.split(/[\s<>()[\]{}"'`,;|=]+/);
  return pieces.flatMap((piece) => {
    const [, pair, path] = /^([\w.-]+\/[\w.-]+(?:#\d+)?)[.:!?]*$|^https?:\/\/[^/?#]+\/([^?#]*)/i.exec(piece) ?? [];
    return (pair ?? path ?? "").split(/[/#]/).filter((name) => name !== "");
  });
}

/** Whether a piece stands in a text by itself; `strictly`: nor as a part of an address or of a name with hyphens. */
export function stands(text: string, piece: string, how?: "strictly"): boolean {
  const [first = "", last = ""] = [piece.at(0), piece.at(-1)];
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) {
    const end = at + piece.length;
    const isGlued =
      isOneWord(text.charAt(at - 1), first) ||
      isOneWord(last, text.charAt(end)) ||
      (how === "strictly" && isPart(text, at, end));
    if (!isGlued) return true;
  }
  return false;
}

/** Whether no word ends between these. Where a script has no blanks between words, any place may be such an end. */
function isOneWord(left: string, right: string): boolean {
  if (left === "" || right === "") return false;
  if (left < "\x80" && right < "\x80") return ASCII_WORD.test(left) && ASCII_WORD.test(right);
  return word().test(left) && word().test(right) && !unspaced().test(left) && !unspaced().test(right);
}

const ASCII_WORD = /\w/;

function isPart(text: string, at: number, end: number): boolean {
  return isJoined(text, at - 1, -1) || isJoined(text, end, 1) || isRest(text, at, -1) || isRest(text, end - 1, 1);
}

/** `/etc/hosts` in `/srv/etc/hosts`. */
function isRest(text: string, at: number, step: 1 | -1): boolean {
  return isJoined(text, at, step) && !unspaced().test(text.charAt(at + step));
}

/** `deploy` in `deploy-all`, `evil.example` in `ada@evil.example`. */
function isJoined(text: string, at: number, step: 1 | -1): boolean {
  return /[-@/\\.:]/.test(text.charAt(at)) && word().test(text.charAt(at + step));
}

const word = lazy("[\\p{L}\\p{N}\\p{M}_]", "u");
const unspaced = lazy(
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]",
  "u",
);
const marks = lazy("\\p{M}+", "gu");
/** A word of ASCII ends where another script begins, which may have no blanks: `请写信给eve @ evil . example`. */
const wordsInAnyScript = lazy("[a-z0-9]+|(?:(?![a-z0-9])[\\p{L}\\p{N}])+", "gu");
const unseen = lazy("\\p{Default_Ignorable_Code_Point}|\\p{Cf}", "gu");

/** Unicode classes are slow to make: only who needs them does. */
function lazy(source: string, flags: string): () => RegExp {
  let made: RegExp | undefined;
  return () => {
    made ??= new RegExp(source, flags);
    return made;
  };
}
