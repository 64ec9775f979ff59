import { stemmer } from "stemmer";
import { isFunctionWord } from "../skill/common-words.ts";
import { fold, scan } from "./units.ts";

/** The words of a text as the ranking counts them: stems, without words that say nothing, `fetchUrl` also as two, unspaced scripts in pairs. */
export function terms(text: string): string[] {
  const found: string[] = [];
  eachTerm(text, (term) => found.push(term));
  return found;
}

/** As `terms`, each with the word that it stands for. */
export function eachTerm(text: string, visit: (term: string, word: string) => void): void {
  eachWord(text, (word) => {
    const term = termOf(word);
    if (term !== undefined) visit(term, word);
  });
}

/** The words as they are written, which `termOf` reduces: whoever reads many texts does that once a word. */
export function eachWord(text: string, visit: (word: string) => void): void {
  const folded = withoutClitics(fold(withParts(text)));
  if (PLAIN.test(folded)) {
    for (const word of folded.split(SEPARATORS)) if (word !== "") visit(word);
    return;
  }
  let before = "";
  scan(folded, (from, to, { isSymbol, isAlone, isTouching }) => {
    const word = folded.slice(from, to);
    if (!isSymbol) visit(isAlone && before !== "" && isTouching ? before + word : word);
    before = isAlone ? word : "";
  });
}

/** What the ranking counts a word as; nothing for one that says nothing. */
export function termOf(word: string): string | undefined {
  return isFunctionWord(word) ? undefined : stem(word);
}

function withoutClitics(text: string): string {
  return text.includes("'") ? text.replace(CLITIC, "") : text;
}

/** What a word is reduced to: `deploying`, `deploys` and `deployed` are one. */
export function stem(word: string): string {
  let known = STEMS.get(word);
  if (known === undefined) {
    known = reduce(word);
    // A longer word is a slice that would keep the whole text it was cut from.
    if (word.length < 13 && STEMS.size < MOST_STEMS) STEMS.set(word, known);
  }
  return known;
}

const STEMS = new Map<string, string>();
const MOST_STEMS = 100_000;

function reduce(word: string): string {
  const plain = /^[a-z\d]*$/.test(word)
    ? word
    : word
        .normalize("NFD")
        .replace(/(?<=[a-z])\p{M}+/gu, "")
        .normalize("NFC");
  const known = SAME.get(plain);
  if (known !== undefined) return known;
  if (!/^[a-z]{3,40}$/.test(plain)) return plain;
  let american = plain;
  if (american.includes("is")) american = american.replace(/([a-z]{3})is(e[drs]?|ing|ations?)$/, "$1iz$2");
  if (american.includes("our")) american = american.replace(/([a-z]{3})our/, "$1or");
  const reduced = stemmer(american);
  return SAME.get(reduced) ?? reduced;
}

/** What people write for one thing, by word or stem. */
const SAME = new Map([
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
const PLAIN = /^[\0-"$-*,-\x7f]*$/;
const SEPARATORS = /[^a-z\d]+/;
const CLITIC = /'(?:s|t|d|m|ll|re|ve)\b/g;

const CAMEL = /\b[A-Za-z\d]*(?:[a-z\d][A-Z]|[A-Z]{2}[a-z])[A-Za-z\d]*/g;
const IS_CAMEL = /[a-z\d][A-Z]|[A-Z]{2}[a-z]/;

/** `fetchUrl` is also `fetch` and `url`; `PDFs` and `OAuth2` are what they are. */
function withParts(text: string): string {
  const written = IS_CAMEL.test(text) && text.match(CAMEL);
  if (!written) return text;
  const parts = written.flatMap((word) => {
    if (/^[A-Z]+s$/.test(word)) return [];
    return word.split(/(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/).filter((part) => part.length > 1);
  });
  return `${text} ${parts.join(" ")}`;
}
