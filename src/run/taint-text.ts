/** A text as it is compared: as it stands, and with what is escaped in it written out. */
export function readings(text: string): string[] {
  const plain = folded(text);
  const open = ESCAPED.test(text) ? folded(unescaped(text)) : plain;
  return [...new Set([plain, open])].filter((form) => form !== "");
}

const ASCII = /^[\t\n\r\x20-\x7e]*$/;

/** One case, one blank, one form of each letter, and nothing that cannot be seen. */
function folded(text: string): string {
  const plain = ASCII.test(text) ? text : text.normalize("NFKC").replace(unseen(), "").replaceAll("\0", " ");
  return plain.toLowerCase().replace(/\s+/g, " ").trim();
}

const ESCAPED = /%[0-9a-f]{2}|\\[\\/"bfnrtux]|&(?:#|[a-z]{2,4};)/i;
const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'", nbsp: " " };
const WHITE = /\\[bfnrt]/g;

function unescaped(text: string): string {
  return text
    .replace(/(?:%[0-9a-f]{2})+/gi, decoded)
    .replace(/\\u\{([0-9a-f]{1,6})\}|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})/gi, (all, long, four, two) =>
      character(long ?? four ?? two, 16, all),
    )
    .replace(WHITE, " ")
    .replace(/\\([\\/"'])/g, "$1")
    .replace(/&#x([0-9a-f]{1,6});/gi, (all, code) => character(code, 16, all))
    .replace(/&#([0-9]{1,7});/g, (all, code) => character(code, 10, all))
    .replace(/&([a-z]{2,4});/gi, (all, name) => ENTITIES[String(name).toLowerCase()] ?? all);
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
const unseen = lazy("\\p{Default_Ignorable_Code_Point}|\\p{Cf}", "gu");

/** Unicode classes are slow to make: only who needs them does. */
function lazy(source: string, flags: string): () => RegExp {
  let made: RegExp | undefined;
  return () => {
    made ??= new RegExp(source, flags);
    return made;
  };
}
