import { stemmer } from "stemmer";
import { isFunctionWord } from "../../skill/common-words.ts";

/**
 * A piece of text that a person takes for one: a word (`c++`, `naïve`, `データ`), a single character of a script that is written
 * without blanks, or a symbol.
 */
export interface TextToken {
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
export function foldText(text: string): string {
  if (isAsciiText(text)) return text.toLowerCase();
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
export function tokenize(text: string): TextToken[] {
  const found: TextToken[] = [];
  scanTokens(text, (from, to, { isSymbol, isTouching, isJoined, canStart }) => {
    const unit = text.slice(from, to);
    const isApart = !isTouching && (isSymbol || found.at(-1)?.isSymbol === true);
    found.push({ text: unit, from, key: isApart ? ` ${unit}` : unit, canStart, isSymbol, isTouching, isJoined });
  });
  return found;
}

/** What `visit` is told of a unit. Contract: one object for all of them, so it is read at once. */
interface TokenTraits {
  isSymbol: boolean;
  isTouching: boolean;
  isJoined: boolean;
  canStart: boolean;
  /** A character of a script that is written without blanks. */
  isAlone: boolean;
}

function scanTokens(text: string, visit: (from: number, to: number, look: TokenTraits) => void): void {
  const look: TokenTraits = { isSymbol: false, isTouching: false, isJoined: false, canStart: true, isAlone: false };
  let at = 0;
  while (at < text.length) {
    const kind = getKindAt(text, at);
    const from = at;
    at += getCharacterWidth(text, at);
    if (kind === BLANK) {
      look.isTouching = false;
      continue;
    }
    if (kind === SYMBOL && isJoiningMark(text, from, at)) {
      look.isTouching = false;
      look.isJoined = true;
      continue;
    }
    if (kind === WORD || kind === KATAKANA) {
      while (at < text.length && continuesToken(kind, getKindAt(text, at))) at += getCharacterWidth(text, at);
      if (kind === WORD) at = findSuffixEnd(text, at);
    } else if (kind !== SYMBOL) {
      while (at < text.length && getKindAt(text, at) === MARK) at += getCharacterWidth(text, at);
    }
    look.isSymbol = kind === SYMBOL;
    look.isAlone = kind === ALONE || kind === HANGUL;
    // Korean particles follow a word without a blank, so a phrase may end within a run but not begin there.
    look.canStart = kind !== HANGUL || from === 0 || getKindAt(text, from - 1) !== HANGUL;
    visit(from, at, look);
    look.isTouching = true;
    look.isJoined = false;
  }
}

const [BLANK, SYMBOL, WORD, KATAKANA, ALONE, HANGUL, MARK] = [0, 1, 2, 3, 4, 5, 6] as const;
type CharacterKind = 0 | 1 | 2 | 3 | 4 | 5 | 6;

const ASCII_KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  return /[a-z0-9]/i.test(character) ? WORD : /\s/.test(character) ? BLANK : SYMBOL;
});

function getKindAt(text: string, at: number): CharacterKind {
  const code = text.charCodeAt(at);
  if (code < 128) return ASCII_KINDS[code] as CharacterKind;
  const known = KIND_CACHE.get(code);
  if (known !== undefined) return known;
  const kind = classifyCharacter(String.fromCodePoint(text.codePointAt(at) ?? 0));
  if (code < 0xd800 || code > 0xdfff) KIND_CACHE.set(code, kind);
  return kind;
}

const KIND_CACHE = new Map<number, CharacterKind>();

// Built when first needed: Unicode classes cost milliseconds, and plain text needs none.
const CLASSES = (() => {
  let classes: readonly (readonly [RegExp, CharacterKind])[] | undefined;
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

function classifyCharacter(character: string): CharacterKind {
  return CLASSES().find(([expression]) => expression.test(character))?.[1] ?? SYMBOL;
}

function continuesToken(kind: CharacterKind, next: CharacterKind): boolean {
  return next === kind || next === MARK;
}

function getCharacterWidth(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff && at + 1 < text.length ? 2 : 1;
}

function isWordAt(text: string, at: number): boolean {
  return at >= 0 && at < text.length && getKindAt(text, at) >= WORD;
}

const JOINING_MARKS = new Set(["-", "_", "\u2010", "\u2011"]);

function isJoiningMark(text: string, from: number, to: number): boolean {
  return JOINING_MARKS.has(text.slice(from, to)) && isWordAt(text, from - 1) && isWordAt(text, to);
}

/** `c++` and `c#` are words of their own, also in `c++17`; `a+b` is none. */
function findSuffixEnd(text: string, at: number): number {
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

function isAsciiText(text: string): boolean {
  return ASCII_TEXT.test(text);
}

const ASCII_TEXT = /^[\0-\x7f]*$/;

/** The words of a text as the ranking counts them: stems, without words that say nothing, `fetchUrl` also as two, unspaced scripts in pairs. */
export function extractTerms(text: string): string[] {
  const found: string[] = [];
  visitTerms(text, (term) => found.push(term));
  return found;
}

/** As `terms`, each with the word that it stands for. */
function visitTerms(text: string, visit: (term: string, word: string) => void): void {
  visitWords(text, (word) => {
    const term = toTerm(word);
    if (term !== undefined) visit(term, word);
  });
}

/** The words as they are written, which `termOf` reduces: whoever reads many texts does that once a word. */
export function visitWords(text: string, visit: (word: string) => void): void {
  const folded = removeClitics(foldText(splitCamelCase(text)));
  if (PLAIN_TEXT.test(folded)) {
    for (const word of folded.split(SEPARATORS)) if (word !== "") visit(word);
    return;
  }
  let before = "";
  scanTokens(folded, (from, to, { isSymbol, isAlone, isTouching }) => {
    const word = folded.slice(from, to);
    if (!isSymbol) visit(isAlone && before !== "" && isTouching ? before + word : word);
    before = isAlone ? word : "";
  });
}

/** What the ranking counts a word as; nothing for one that says nothing. */
export function toTerm(word: string): string | undefined {
  return isFunctionWord(word) ? undefined : stemWord(word);
}

function removeClitics(text: string): string {
  return text.includes("'") ? text.replace(CLITIC, "") : text;
}

/** What a word is reduced to: `deploying`, `deploys` and `deployed` are one. */
export function stemWord(word: string): string {
  let known = STEM_CACHE.get(word);
  if (known === undefined) {
    known = reduceWord(word);
    // A longer word is a slice that would keep the whole text it was cut from.
    if (word.length < 13 && STEM_CACHE.size < MAX_CACHED_STEMS) STEM_CACHE.set(word, known);
  }
  return known;
}

const STEM_CACHE = new Map<string, string>();
const MAX_CACHED_STEMS = 100_000;

function reduceWord(word: string): string {
  const plain = /^[a-z\d]*$/.test(word)
    ? word
    : word
        .normalize("NFD")
        .replace(/(?<=[a-z])\p{M}+/gu, "")
        .normalize("NFC");
  const known = SYNONYM_STEMS.get(plain);
  if (known !== undefined) return known;
  if (!/^[a-z]{3,40}$/.test(plain)) return plain;
  let american = plain;
  if (american.includes("is")) american = american.replace(/([a-z]{3})is(e[drs]?|ing|ations?)$/, "$1iz$2");
  if (american.includes("our")) american = american.replace(/([a-z]{3})our/, "$1or");
  const reduced = stemmer(american);
  return SYNONYM_STEMS.get(reduced) ?? reduced;
}

/** What people write for one thing, by word or stem. */
const SYNONYM_STEMS = new Map([
  ["ios", "ios"],
  ["macos", "macos"],
  ["k8s", "kubernet"],
  ["js", "javascript"],
  ["ts", "typescript"],
  ["postgresql", "postgr"],
  ["analysi", "analyz"],
  ["analys", "analyz"],
  ["analyt", "analyz"],
]);

// The engine's own split needs no warming up: most skills are read once, at the start.
const PLAIN_TEXT = /^[\0-"$-*,-\x7f]*$/;
const SEPARATORS = /[^a-z\d]+/;
const CLITIC = /'(?:s|t|d|m|ll|re|ve)\b/g;

const CAMEL = /\b[A-Za-z\d]*(?:[a-z\d][A-Z]|[A-Z]{2}[a-z])[A-Za-z\d]*/g;
const IS_CAMEL = /[a-z\d][A-Z]|[A-Z]{2}[a-z]/;

/** `fetchUrl` is also `fetch` and `url`; `PDFs` and `OAuth2` are what they are. */
function splitCamelCase(text: string): string {
  const written = IS_CAMEL.test(text) && text.match(CAMEL);
  if (!written) return text;
  const parts = written.flatMap((word) => {
    if (/^[A-Z]+s$/.test(word)) return [];
    return word.split(/(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/).filter((part) => part.length > 1);
  });
  return `${text} ${parts.join(" ")}`;
}
