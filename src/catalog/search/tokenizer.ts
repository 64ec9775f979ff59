import { stemmer } from "stemmer";
import { isFunctionWord } from "../../skill/common-words.ts";

/**
 * A token: a word (`c++`, `naïve`, `データ`), a single character of a script that is written without spaces, or a symbol.
 */
export interface TextToken {
  text: string;
  /** Its position in the folded text. */
  from: number;
  /** Its key when it is not the first of a phrase: a blank next to a symbol matters, one between words does not. */
  key: string;
  /** True if a phrase may start here. */
  canStart: boolean;
  isSymbol: boolean;
  /** True if it directly follows the previous token. */
  isTouching: boolean;
  /** True if a hyphen or an underscore joins it to the previous token. */
  isJoined: boolean;
}

/** Normalizes case, full-width and composed forms. */
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

/** Splits a folded text into tokens, in one pass. A hyphen or underscore between words separates them as a blank does. */
export function tokenize(text: string): TextToken[] {
  const found: TextToken[] = [];
  scanTokens(text, (from, to, { isSymbol, isTouching, isJoined, canStart }) => {
    const token = text.slice(from, to);
    const isApart = !isTouching && (isSymbol || found.at(-1)?.isSymbol === true);
    found.push({ text: token, from, key: isApart ? ` ${token}` : token, canStart, isSymbol, isTouching, isJoined });
  });
  return found;
}

/** The traits of a token. Contract: one object is reused for all of them, so read it at once. */
interface TokenTraits {
  isSymbol: boolean;
  isTouching: boolean;
  isJoined: boolean;
  canStart: boolean;
  /** True for a character of a script that is written without spaces. */
  isAlone: boolean;
}

function scanTokens(text: string, visit: (from: number, to: number, traits: TokenTraits) => void): void {
  const traits: TokenTraits = { isSymbol: false, isTouching: false, isJoined: false, canStart: true, isAlone: false };
  let at = 0;
  while (at < text.length) {
    const kind = getKindAt(text, at);
    const from = at;
    at += getCharacterWidth(text, at);
    if (kind === BLANK) {
      traits.isTouching = false;
      continue;
    }
    if (kind === SYMBOL && isJoiningMark(text, from, at)) {
      traits.isTouching = false;
      traits.isJoined = true;
      continue;
    }
    if (kind === WORD || kind === KATAKANA) {
      while (at < text.length && continuesToken(kind, getKindAt(text, at))) at += getCharacterWidth(text, at);
      if (kind === WORD) at = findSuffixEnd(text, at);
    } else if (kind !== SYMBOL) {
      while (at < text.length && getKindAt(text, at) === MARK) at += getCharacterWidth(text, at);
    }
    traits.isSymbol = kind === SYMBOL;
    traits.isAlone = kind === ALONE || kind === HANGUL;
    // Korean particles follow a word without a space, so a phrase may end within a run but not start there.
    traits.canStart = kind !== HANGUL || from === 0 || getKindAt(text, from - 1) !== HANGUL;
    visit(from, at, traits);
    traits.isTouching = true;
    traits.isJoined = false;
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

// Built on first use: Unicode classes cost milliseconds, and plain text needs none.
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

/** `c++` and `c#` are words, also in `c++17`; `a+b` is not. */
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

/** Extracts the terms of a text for the ranking: stems without function words, `fetchUrl` also as two, unspaced scripts as character pairs. */
export function extractTerms(text: string): string[] {
  const found: string[] = [];
  visitTerms(text, (term) => found.push(term));
  return found;
}

/** Visits the terms of a text, each with its word. */
function visitTerms(text: string, visit: (term: string, word: string) => void): void {
  visitWords(text, (word) => {
    const term = toTerm(word);
    if (term !== undefined) visit(term, word);
  });
}

/** Visits the words of a text as written. `toTerm` reduces them: callers that read many texts do that once per word. */
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

/** Returns the term of a word; undefined for a function word. */
export function toTerm(word: string): string | undefined {
  return isFunctionWord(word) ? undefined : stemWord(word);
}

function removeClitics(text: string): string {
  return text.includes("'") ? text.replace(CLITIC, "") : text;
}

/** Reduces a word to its stem: `deploying`, `deploys` and `deployed` are the same. */
export function stemWord(word: string): string {
  let known = STEM_CACHE.get(word);
  if (known === undefined) {
    known = reduceWord(word);
    // A longer word is a slice that would keep the whole source text in memory.
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

/** Spellings of the same thing, by word or stem. */
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

// The engine's own split needs no warm-up: most skills are read once, at start-up.
const PLAIN_TEXT = /^[\0-"$-*,-\x7f]*$/;
const SEPARATORS = /[^a-z\d]+/;
const CLITIC = /'(?:s|t|d|m|ll|re|ve)\b/g;

const CAMEL = /\b[A-Za-z\d]*(?:[a-z\d][A-Z]|[A-Z]{2}[a-z])[A-Za-z\d]*/g;
const IS_CAMEL = /[a-z\d][A-Z]|[A-Z]{2}[a-z]/;

/** Adds the parts of camel case: `fetchUrl` is also `fetch` and `url`; `PDFs` and `OAuth2` stay whole. */
function splitCamelCase(text: string): string {
  const camelWords = IS_CAMEL.test(text) && text.match(CAMEL);
  if (!camelWords) return text;
  const parts = camelWords.flatMap((word) => {
    if (/^[A-Z]+s$/.test(word)) return [];
    return word.split(/(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/).filter((part) => part.length > 1);
  });
  return `${text} ${parts.join(" ")}`;
}
