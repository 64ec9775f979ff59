import type { Unit } from "./units.ts";

/** How a query names a skill: as one to be used, as one not to be used, or by the way. */
export interface Mention {
  /** As it was said, `NAME` standing for the name. */
  how: string;
  isRefused: boolean;
}

/** What a name at units `from` to `to` of the query is mentioned as, or nothing when it is only a word among others. */
export function mentionAt(
  text: readonly Unit[],
  from: number,
  to: number,
  variables: ReadonlySet<string>,
): Mention | undefined {
  const sigil = sigilAt(text, from, to, variables);
  if (sigil !== undefined) return { how: `${sigil}NAME`, isRefused: isRefused(text, from - 1) };
  const after = skipQuotes(text, to, 1);
  if (wordAt(text, after) === "skill" || endsList(text, from, to))
    return asSaid("the NAME skill", text, verbBefore(text, from));
  let before = skipQuotes(text, from - 1, -1);
  if (NAMED.has(wordAt(text, before))) before = skipQuotes(text, before - 1, -1);
  return wordAt(text, before) === "skill" ? asSaid("the skill NAME", text, verbBefore(text, before)) : undefined;
}

const SIGILS = new Set(["$", "/"]);
const QUOTES = new Set(['"', "'", "`", "“", "”", "‘", "«", "»", "*", ":"]);
const NAMED = new Set(["named", "called"]);
const ARTICLES = new Set("a an existing her his its my new our same that the their this your".split(" "));
const VERBS = new Set(
  "activate apply call employ execute follow invoke load open run running start through try use using utilize via with without".split(
    " ",
  ),
);
const LISTED = new Set([",", "and", "or", "&", "plus"]);
/** What stands before a path, not before a command. */
const PLACES = new Set(
  "at cat cd directory endpoint folder from get in inside into ls mkdir of open path post put rm route under".split(
    " ",
  ),
);
const REFUSALS = new Set("avoid dont never no not stop without".split(" "));
/** What may stand between a refusal and what is refused. */
const BETWEEN = new Set("actually ever just please really simply to you".split(" "));
const FARTHEST = 16;

/** The sigil right before a name that is called by it. Inside, words are joined as the name is: `/deploy app` is no `deploy-app`. */
function sigilAt(text: readonly Unit[], from: number, to: number, variables: ReadonlySet<string>): string | undefined {
  const sigil = text[from - 1];
  if (!sigil || !SIGILS.has(sigil.text) || !text[from]?.isTouching || goesOn(text, to)) return undefined;
  const name = text.slice(from, to);
  if (!name.every((unit, index) => index === 0 || unit.isJoined || unit.isTouching)) return undefined;
  const before = text[from - 2];
  if (sigil.isTouching && (!before?.isSymbol || SIGILS.has(before.text) || before.text === "." || before.text === "~"))
    return undefined;
  // $PATH is a variable of the shell, also where somebody has a skill called path.
  if (sigil.text === "$")
    return variables.has(`$${name.map((unit) => unit.text.toUpperCase()).join("_")}`) ? undefined : "$";
  return PLACES.has(before?.text ?? "") ? undefined : "/";
}

/** The name is only the beginning: `/deploy/x`, `/deploy.sh`, `/deploy-all`. */
function goesOn(text: readonly Unit[], to: number): boolean {
  const [next, further] = [text[to], text[to + 1]];
  if (!next) return false;
  if (!next.isSymbol) return next.isJoined;
  if (!next.isTouching) return false;
  return next.text === "/" || (next.text === "." && further?.isTouching === true && !further.isSymbol);
}

/** The name is one of several before "skills": "the deploy and review skills". */
function endsList(text: readonly Unit[], from: number, to: number): boolean {
  let isList = LISTED.has(wordAt(text, skipQuotes(text, from - 1, -1)));
  for (let at = to; at < Math.min(text.length, to + FARTHEST); at++) {
    const word = wordAt(text, at);
    if (word === "skills" || word === "skill") return isList;
    if (LISTED.has(word)) isList = true;
    else if (text[at]?.isSymbol && !QUOTES.has(word)) return false;
    else if (!isList) return false;
  }
  return false;
}

/** Where the verb is that a name or a list of names belongs to: "use", in "use the deploy and review skills". */
function verbBefore(text: readonly Unit[], from: number): number | undefined {
  let isList = false;
  for (let at = skipQuotes(text, from - 1, -1); at >= Math.max(0, from - FARTHEST); at = skipQuotes(text, at - 1, -1)) {
    const word = wordAt(text, at);
    if (VERBS.has(word)) return at;
    if (LISTED.has(word)) isList = true;
    else if (!ARTICLES.has(word) && !isList) return undefined;
    else if (text[at]?.isSymbol) return undefined;
  }
  return undefined;
}

function asSaid(how: string, text: readonly Unit[], verb: number | undefined): Mention | undefined {
  return verb === undefined ? undefined : { how, isRefused: isRefused(text, verb + 1) };
}

/** "don't ever use the", "do not", "stop using", "without", but not "why not use", stand before the unit at `end`. */
function isRefused(text: readonly Unit[], end: number): boolean {
  for (let at = end - 1; at >= Math.max(0, end - FARTHEST); at--) {
    const word = wordAt(text, at);
    // "don't" is three units.
    if (word === "t" && wordAt(text, at - 1) === "'") return true;
    if (REFUSALS.has(word)) return wordAt(text, at - 1) !== "why";
    if (!VERBS.has(word) && !ARTICLES.has(word) && !BETWEEN.has(word)) return false;
  }
  return false;
}

function wordAt(text: readonly Unit[], at: number): string {
  return text[at]?.text ?? "";
}

function skipQuotes(text: readonly Unit[], from: number, step: 1 | -1): number {
  let at = from;
  while (text[at]?.isSymbol && QUOTES.has(wordAt(text, at))) at += step;
  return at;
}
