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

const ESCAPED = /%[0-9a-f]{2}|=[0-9a-f]{2}|\\[\\/"bfnrtux]|&(?:#|[a-z]{2,6};)/i;
const ENTITIES: Readonly<Record<string, string>> = {
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
  quot: '"',
  shy: "",
  sol: "/",
};
const WHITE = /\\[bfnrt]/g;
/** An escape can be escaped again (`%2540`); more rounds than this are not found by accident. */
const MOST_ROUNDS = 3;

function decodeEscapes(text: string): string {
  let decoded = text;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const next = unescaped(decoded);
    if (next === decoded) break;
    decoded = next;
  }
  return decoded;
}

function unescaped(text: string): string {
  return text
    .replace(/=([0-9a-f]{2})/gi, (all, code) => character(code, 16, all))
    .replace(/(?:%[0-9a-f]{2})+/gi, decoded)
    .replace(/\\u\{([0-9a-f]{1,6})\}|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})/gi, (all, long, four, two) =>
      character(long ?? four ?? two, 16, all),
    )
    .replace(WHITE, " ")
    .replace(/\\([\\/"'])/g, "$1")
    .replace(/&#x([0-9a-f]{1,6});/gi, (all, code) => character(code, 16, all))
    .replace(/&#([0-9]{1,7});/g, (all, code) => character(code, 10, all))
    .replace(/&([a-z]{2,6});/gi, (all, name) => ENTITIES[String(name).toLowerCase()] ?? all);
}

function decoded(escapes: string): string {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return escapes;
  }
}

function character(digits: string, base: number, otherwise: string): string {
  const code = Number.parseInt(digits, base);
  return code <= 0x10ffff ? String.fromCodePoint(code) : otherwise;
}

/** A text reduced to its letters and digits, to find an address in it however it is spaced, marked up or escaped. */
export interface LetterText {
  letters: string;
  /** Whether a letter is the first or the last of its word, by its place in `letters`. */
  edges: Uint8Array;
}

const STARTS = 1;
const ENDS = 2;

/**
 * Reduces a text to letters and digits. Markup is removed, and "at" and "dot" are, where they stand for characters of an address, since a
 * model that copies an address repairs all of that.
 */
export function letterForms(text: string): LetterText[] {
  const plain = decodeEscapes(text).replace(TAGS, "");
  const spoken = plain.replace(SPOKEN_MARKS, "$1.");
  return [...new Set([plain, spoken])].map(lettersOf).filter(({ letters }) => letters !== "");
}

const TAGS = /<\/?[a-z!][^<>]{0,200}>/gi;
const SPOKEN_MARKS = /(\w)[ \t]*(?:[([{<][ \t]*(?:at|dot)[ \t]*[)\]}>]|[ \t](?:at|dot)[ \t])[ \t]*(?=\w)/gi;

/** The letters and digits of a text in one case and one form, without anything in between. */
function lettersOf(text: string): LetterText {
  const plain = ASCII.test(text) ? text : text.normalize("NFKD").replace(unseen(), "").replace(marks(), "");
  const words = plain.toLowerCase().match(ASCII.test(plain) ? ASCII_WORDS : wordsInAnyScript()) ?? [];
  const letters = words.join("");
  const edges = new Uint8Array(letters.length);
  let end = 0;
  for (const { length } of words) {
    edges[end] = STARTS;
    end += length;
    edges[end - 1] = (edges[end - 1] ?? 0) | ENDS;
  }
  return { letters, edges };
}

const ASCII_WORDS = /[a-z0-9]+/g;

/** Whether these letters are in a text as whole words, whatever stands between them. */
export function standsInLetters({ letters, edges }: LetterText, piece: string): boolean {
  for (let at = letters.indexOf(piece); at >= 0; at = letters.indexOf(piece, at + 1)) {
    const [first = 0, last = 0] = [edges[at], edges[at + piece.length - 1]];
    if ((first & STARTS) !== 0 && (last & ENDS) !== 0) return true;
  }
  return false;
}

/** What stands for a place or a person in a text: `ada@example.com`, `example.com`, `/etc/hosts`. */
export function addressesIn(text: string): string[] {
  return text
    .split(/[\s<>()[\]{}"'`,;|=]+/)
    .map((piece) => piece.replace(/^(?:mailto:|[.:!?]+)|[.:!?]+$/g, ""))
    .filter((piece) => piece.length >= SHORTEST_ADDRESS && /[@/\\]|\w[.:]\w/.test(piece));
}

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
const wordsInAnyScript = lazy("[\\p{L}\\p{N}]+", "gu");
const unseen = lazy("\\p{Default_Ignorable_Code_Point}|\\p{Cf}", "gu");

/** Unicode classes are slow to make: only who needs them does. */
function lazy(source: string, flags: string): () => RegExp {
  let made: RegExp | undefined;
  return () => {
    made ??= new RegExp(source, flags);
    return made;
  };
}
