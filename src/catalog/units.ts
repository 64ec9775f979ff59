/**
 * A piece of text that a person takes for one: a word (`c++`, `naïve`, `データ`), a single character of a script that is written
 * without blanks, or a symbol.
 */
export interface Unit {
  text: string;
  /** Where it is in the folded text. */
  from: number;
  /** What the unit is called when it is not the first of a phrase: a blank beside a symbol counts, one between words does not. */
  key: string;
  /** A phrase may begin here. */
  canStart: boolean;
  isSymbol: boolean;
  /** Nothing stands between it and the unit before it. */
  isTouching: boolean;
  /** A hyphen or an underscore joins it to the unit before it. */
  isJoined: boolean;
}

/** Upper and lower case, full-width and composed forms made one. */
export function fold(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  return text
    .replace(/(\p{M}{30})\p{M}+/gu, "$1")
    .normalize("NFKC")
    .toLowerCase()
    .normalize("NFKC")
    .replaceAll("ß", "ss")
    .replaceAll("ς", "σ")
    .replaceAll("\u0307", "")
    .replaceAll("’", "'");
}

/** Cuts a folded text into units, in one pass. A hyphen or underscore between words separates them as a blank does. */
export function units(text: string): Unit[] {
  const found: Unit[] = [];
  scan(text, (from, to, { isSymbol, isTouching, isJoined, canStart }) => {
    const unit = text.slice(from, to);
    const isApart = !isTouching && (isSymbol || found.at(-1)?.isSymbol === true);
    found.push({ text: unit, from, key: isApart ? ` ${unit}` : unit, canStart, isSymbol, isTouching, isJoined });
  });
  return found;
}

/** What `visit` is told of a unit. Contract: one object for all of them, so it is read at once. */
export interface Look {
  isSymbol: boolean;
  isTouching: boolean;
  isJoined: boolean;
  canStart: boolean;
  /** A character of a script that is written without blanks. */
  isAlone: boolean;
}

export function scan(text: string, visit: (from: number, to: number, look: Look) => void): void {
  const look: Look = { isSymbol: false, isTouching: false, isJoined: false, canStart: true, isAlone: false };
  let at = 0;
  while (at < text.length) {
    const kind = kindAt(text, at);
    const from = at;
    at += widthAt(text, at);
    if (kind === BLANK) {
      look.isTouching = false;
      continue;
    }
    if (kind === SYMBOL && isJoint(text, from, at)) {
      look.isTouching = false;
      look.isJoined = true;
      continue;
    }
    if (kind === WORD || kind === KATAKANA) {
      while (at < text.length && goesOn(kind, kindAt(text, at))) at += widthAt(text, at);
      if (kind === WORD) at = suffixEnd(text, at);
    } else if (kind !== SYMBOL) {
      while (at < text.length && kindAt(text, at) === MARK) at += widthAt(text, at);
    }
    look.isSymbol = kind === SYMBOL;
    look.isAlone = kind === ALONE || kind === HANGUL;
    // Korean particles follow a word without a blank, so a phrase may end within a run but not begin there.
    look.canStart = kind !== HANGUL || from === 0 || kindAt(text, from - 1) !== HANGUL;
    visit(from, at, look);
    look.isTouching = true;
    look.isJoined = false;
  }
}

const [BLANK, SYMBOL, WORD, KATAKANA, ALONE, HANGUL, MARK] = [0, 1, 2, 3, 4, 5, 6] as const;
type Kind = 0 | 1 | 2 | 3 | 4 | 5 | 6;

const ASCII_KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  return /[a-z0-9]/i.test(character) ? WORD : /\s/.test(character) ? BLANK : SYMBOL;
});

function kindAt(text: string, at: number): Kind {
  const code = text.charCodeAt(at);
  if (code < 128) return ASCII_KINDS[code] as Kind;
  const known = KINDS.get(code);
  if (known !== undefined) return known;
  const kind = kindOf(String.fromCodePoint(text.codePointAt(at) ?? 0));
  if (code < 0xd800 || code > 0xdfff) KINDS.set(code, kind);
  return kind;
}

const KINDS = new Map<number, Kind>();

// Built when first needed: Unicode classes cost milliseconds, and plain text needs none.
const CLASSES = (() => {
  let classes: readonly (readonly [RegExp, Kind])[] | undefined;
  return () => {
    classes ??= [
      [/[\s\u200b]/u, BLANK],
      [/\p{M}/u, MARK],
      [/[\p{Script=Katakana}\u30fc]/u, KATAKANA],
      [/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u, ALONE],
      [/\p{Script=Hangul}/u, HANGUL],
      [/[\p{L}\p{N}]/u, WORD],
    ];
    return classes;
  };
})();

function kindOf(character: string): Kind {
  return CLASSES().find(([expression]) => expression.test(character))?.[1] ?? SYMBOL;
}

function goesOn(kind: Kind, next: Kind): boolean {
  return next === kind || next === MARK;
}

function widthAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff && at + 1 < text.length ? 2 : 1;
}

function isWordAt(text: string, at: number): boolean {
  return at >= 0 && at < text.length && kindAt(text, at) >= WORD;
}

const JOINTS = new Set(["-", "_", "\u2010", "\u2011"]);

function isJoint(text: string, from: number, to: number): boolean {
  return JOINTS.has(text.slice(from, to)) && isWordAt(text, from - 1) && isWordAt(text, to);
}

/** `c++` and `c#` are words of their own, also in `c++17`; `a+b` is none. */
function suffixEnd(text: string, at: number): number {
  let end = at;
  while (text[end] === "+" || text[end] === "#") end++;
  if (end === at) return at;
  const next = text.charCodeAt(end);
  const isDigit = next >= 48 && next <= 57;
  const last = text.charCodeAt(at - 1);
  if (last >= 48 && last <= 57) return at;
  if (isDigit) return text.slice(at, end) === "+" ? at : end;
  return isWordAt(text, end) ? at : end;
}

function isAscii(text: string): boolean {
  return ASCII.test(text);
}

const ASCII = /^[\0-\x7f]*$/;
