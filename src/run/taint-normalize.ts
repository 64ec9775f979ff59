/**
 * Returns every text that a reader can take `text` for: as written and decoded; with its markup, without its tags, and as it is displayed.
 * A model that copies an address repairs all of that, so input is compared with each of them. Contract: linear in the text's length.
 *
 * What is removed leaves a blank. It must not join the words on both sides: only letters and digits are compared, and only as whole words.
 */
export function normalizedForms(text: string): string[] {
  const forms = new Set<string>();
  for (const form of new Set([text, decodeEscapes(text)])) {
    // Removing can hide, too: an address in a comment, or in an attribute, is only in the forms before.
    const tidied = tidyCodes(form);
    forms.add(form);
    for (const shown of [tidied, ...displayedForms(tidied)]) {
      forms.add(shown.replace(TAGS, " "));
      forms.add(removeTags(shown));
    }
  }
  return [...forms];
}

/** Whether `decodeEscapes` could change a text. */
export const ESCAPED = /%(?:[0-9a-f]{2}|u[0-9a-f]{4})|=[0-9a-f]{2}|\\[\\/"befnrtux0-7]|&(?:#|[a-z]{2})|u\+[0-9a-f]{4}/i;
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
  percnt: "%",
  plus: "+",
  quot: '"',
  shy: "",
  sol: "/",
};
/** Most programs read entities without a semicolon, too. */
const NAMED = new RegExp(`&(${Object.keys(ENTITIES).join("|")});?`, "gi");
/** Without a semicolon the digits end after those of an ASCII character: what follows is a part of the address. */
const DECIMAL = /&#0*(?:([0-9]{1,7});|(3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]))/g;
const HEXADECIMAL = /&#x0*(?:([0-9a-f]{1,6});|([2-7][0-9a-f]))/gi;
const UNICODE = /\\u\{([0-9a-f]{1,6})\}|[\\%]u([0-9a-f]{4})|\\x([0-9a-f]{2})|u\+([0-9a-f]{4,6})/gi;
const WHITE = /\\[bfnrt]/g;
/** An escape can be escaped again (`%2540`); more rounds than this are not found by accident. */
const MOST_ROUNDS = 6;

export function decodeEscapes(text: string): string {
  let decoded = text;
  for (let round = 0; round < MOST_ROUNDS && ESCAPED.test(decoded); round++) {
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
    .replace(UNICODE, (all, long, four, two, name) => character(long ?? four ?? two ?? name, 16, all))
    .replace(/\\(?:e|0?33)(?=\[)/gi, "\x1b")
    .replace(/\\([0-3][0-7]{2})/g, (all, code) => character(code, 8, all))
    .replace(WHITE, " ")
    .replace(/\\([\\/"'])/g, "$1")
    .replace(HEXADECIMAL, (all, code, short) => character(code ?? short, 16, all))
    .replace(DECIMAL, (all, code, short) => character(code ?? short, 10, all))
    .replace(NAMED, (all, name) => ENTITIES[String(name).toLowerCase()] ?? all);
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

/** Replaces codes that are not displayed as letters: those of terminals, and entities. */
export function tidyCodes(text: string): string {
  return replaceUnknownEntities(text.replace(TERMINAL_CODES, " "));
}

/** `&eacute;` is a letter with a mark, and `&escr;` one in another style. Any other entity is a sign. */
function replaceUnknownEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&([a-z][a-z0-9]{1,31});/gi, (_, name) => STYLED_LETTER.exec(name)?.[1] ?? " ");
}

const STYLED_LETTER =
  /^([a-z])(?:acute|grave|circ|uml|tilde|cedil|ring|caron|breve|macr|ogon|dot|slash|scr|fr|opf|strok)$/i;

/** Colors, cursor movements and links of terminals, also where the escape character itself was lost. */
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
const TAGS = /<\/?[a-z][^<>]*>/gi;

/** A text without the parts that are not displayed; and with those of one kind, which could contain the address. */
function displayedForms(text: string): string[] {
  const found = INVISIBLE.filter(({ remove }) => remove(text) !== text);
  const without = (rows: typeof found) => rows.reduce((shown, { remove }) => remove(shown), text);
  const kinds = [...new Set(found.map(({ kind }) => kind))];
  return [
    without(found),
    ...found.map((kept) => without(found.filter((row) => row !== kept))),
    ...kinds.map((kept) => without(found.filter(({ kind }) => kind !== kept))),
  ];
}

interface Invisible {
  kind: string;
  remove(text: string): string;
}

/** Parts of a text that are not displayed. Comments: also where one opens in another, from the last opening mark and from the first. */
const INVISIBLE: readonly Invisible[] = [
  { kind: "html", remove: (text) => removeBetween(text, "<!--", "-->", "last") },
  { kind: "html", remove: (text) => removeBetween(text, "<!--", "-->") },
  { kind: "jsp", remove: (text) => removeBetween(text, "<%--", "--%>") },
  { kind: "template", remove: (text) => removeBetween(text, "{#", "#}") },
  { kind: "code", remove: (text) => removeBetween(text, "/*", "*/") },
  { kind: "mail", remove: (text) => text.replace(/\([^()]*\)/g, " ") },
  ...["script", "style", "template", "title"].map((kind) => {
    const start = new RegExp(`<${kind}(?=[\\s>])`, "gi");
    const end = new RegExp(`</${kind}\\s*>`, "gi");
    return {
      kind,
      remove: (text: string) =>
        text.search(start) >= 0 ? removeBetween(text.replace(start, "\0(").replace(end, "\0)"), "\0(", "\0)") : text,
    };
  }),
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
    const end = endOfTag(text, at + 1, quotes);
    if (end < 0) continue;
    kept.push(text.slice(from, at));
    from = end + 1;
  }
  return [...kept, text.slice(from)].join(" ");
}

/** The place of a tag's `>`, or -1 where another tag begins before. A quotation mark that is never closed is removed from `quotes`: it is not looked for twice. */
function endOfTag(text: string, start: number, quotes: Set<string>): number {
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
