import { stemmer } from "stemmer";
import { fold, scan } from "./units.ts";

/** The words of a text as the ranking counts them: stems, without words that say nothing, `fetchUrl` also as two, unspaced scripts in pairs. */
export function terms(text: string): string[] {
  const found: string[] = [];
  const folded = fold(withParts(text));
  let before = "";
  scan(folded, (from, to, { isSymbol, isAlone, isTouching }) => {
    const word = folded.slice(from, to);
    if (isAlone) found.push(before !== "" && isTouching ? before + word : word);
    else if (!isSymbol && !EMPTY.has(word)) found.push(stem(word));
    before = isAlone ? word : "";
  });
  return found;
}

/** What a word is reduced to: `deploying`, `deploys` and `deployed` are one. */
export function stem(word: string): string {
  let known = STEMS.get(word);
  if (known === undefined) {
    known = /^[a-z]{3,40}$/.test(word) ? stemmer(word) : word;
    if (STEMS.size < MOST_STEMS) STEMS.set(word, known);
  }
  return known;
}

const STEMS = new Map<string, string>();
const MOST_STEMS = 100_000;

/** Words that stand in every query and tell no skill from another. */
const EMPTY = new Set(
  `a about all also am an and any are as at be been but by can could did do does for from get give had has have hello help her here hey hi him
  his how i if in into is it its just let like me my need no not of ok okay on one or our out please she should so some than thanks that the their them
  then there these they this those to too up us use user using want was we were what when where which who why will with would yes you your`.split(
    /\s+/,
  ),
);

/** Whether a folded word says nothing about what is wanted. */
export function isEmptyWord(word: string): boolean {
  return EMPTY.has(word);
}

const IS_CAMEL = /[a-z\d][A-Z]|[A-Z]{2}[a-z]/;
const CAMEL = /\b[A-Za-z]*(?:[a-z\d][A-Z]|[A-Z]{2}[a-z])[A-Za-z\d]*/g;

/** `fetchUrl` is also `fetch` and `url`. */
function withParts(text: string): string {
  const written = IS_CAMEL.test(text) && text.match(CAMEL);
  if (!written) return text;
  const parts = written.map((word) => word.replace(/([a-z\d])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, "$1$2 "));
  return `${text} ${parts.join(" ")}`;
}
