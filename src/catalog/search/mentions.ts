import { isCommonWord } from "../../skill/common-words.ts";
import type { TextToken } from "./tokenizer.ts";

/** How a query mentions a skill: as a request, as a refusal, by its exact name, or in passing. */
export interface Mention {
  as: "request" | "refusal" | "name" | "passing";
  /** The wording, with `NAME` for the name. */
  how: string;
}

/** The position of a name in a query: the tokens from `from` up to, not including, `to`. */
export interface NameSpan {
  from: number;
  to: number;
  /** True if it is written as the skill writes it, hyphens included: `code-review`, not "code review". */
  isExact: boolean;
  /** True if it has two meaningful words: `code-review`, but neither `deploy` nor `how-to`. */
  isDistinctive: boolean;
}

/** Classifies the mention of a name. Returns undefined for ordinary words that happen to be a name: "deploy it". */
export function readMention(
  text: readonly TextToken[],
  span: NameSpan,
  variables: ReadonlySet<string>,
): Mention | undefined {
  const { from, to, isExact, isDistinctive } = span;
  const sigil = findSigil(text, from, to, variables);
  if (sigil !== undefined) return createMention(`${sigil}NAME`, isRefused(text, from - 1));
  const skill = findSkillForm(text, from, to);
  const verb = skill && findVerbBefore(text, skill.from);
  if (skill && verb !== undefined) return createMention(skill.how, isRefused(text, verb + 1));
  if (skill && isRefused(text, skill.from)) return { as: "refusal", how: skill.how };
  if (isPartOfLongerName(text, from, to)) return isDistinctive ? { as: "passing", how: "NAME" } : undefined;
  const isName = isExact && isDistinctive;
  if (isName ? isRefused(text, from) || isDismissed(text, to) : areWordsRefused(text, from))
    return { as: "refusal", how: "NAME" };
  const isHeading = from === 0 && text[to]?.text === ":";
  if (isName) {
    const isRequested = isHeading || findVerbBefore(text, from) !== undefined;
    return { as: isRequested ? "request" : "name", how: "NAME" };
  }
  if (isDistinctive) return { as: "passing", how: "NAME" };
  // "summarize: …", but not "fix: …", which starts commit messages.
  const isRequested = isHeading && text.slice(from, to).some(({ text: word }) => !isCommonWord(word));
  return isRequested ? { as: "request", how: "NAME" } : undefined;
}

const SIGILS = new Set(["$", "/"]);
const QUOTES = new Set(['"', "'", "`", "“", "”", "‘", "«", "»", "*", ":"]);
/** Characters that may precede a name without making it part of a path or a longer name. */
const OPENERS = new Set([...QUOTES, "(", "[", "{", "<", ">", "|", "@", ",", ";", ".", "!", "?", "–", "—"]);
const NAMING_WORDS = new Set(["named", "called"]);
const ARTICLES = new Set(
  `a an any existing her his its my new our same that the their this your
  das dem den der deine die ein eine einen einem meine unsere
  el esta este la las los mi su una
  ce cette l le les ma mon notre une`.split(/\s+/),
);
const VERBS = new Set(
  `activate apply applying call calling employ execute executing follow following invoke invoking load loading open run running
  start starting through try trying use using utilize via with without
  benutz benutze benutzen lade laden mit nimm nutz nutze nutzen ohne starte starten verwende verwenden
  aplica aplicar apliques cargar cargues ejecuta ejecutar ejecute ejecutes invoca invocar invoques sin usa usar usen uses utiliza utilizar
  utilice utilices
  appliquer appliquez avec charger chargez employer exécute exécuter exécutez invoquer lancer lances lancez sans utilise utiliser utilises utilisez`.split(
    /\s+/,
  ),
);
const LIST_SEPARATORS = new Set([",", "and", "or", "&", "plus"]);
/** Words before a path, not before a command. */
const PATH_WORDS = new Set(
  "at cat cd directory endpoint folder from get in inside into ls mkdir of open path post put rm route under".split(
    " ",
  ),
);
const REFUSALS = new Set(
  `avoid avoiding dont exclude excluding ignore ignoring never no not omit omitting skip skipping stop without
  kein keine keinen keiner nicht nie niemals ohne
  evita evitar evite ignora jamás nunca omite sin
  jamais pas sans évite éviter évitez`.split(/\s+/),
);
/** With plain words, these state an absence rather than a refusal: "there is no report". */
const ABSENCES = new Set("no not stop without kein keine keinen keiner nicht ohne sin pas sans".split(" "));
/** "why not use" is a request. */
const REASONS = new Set(["why", "warum", "wieso", "qué", "pourquoi"]);
/** Two words that refuse what follows. */
const REFUSING_PAIRS = new Set(["instead of", "rather than", "anything but", "everything but"]);
/** The verbs of "don't", "won't", "shouldn't" …, and the words before "not". */
const AUXILIARIES = new Set(
  "can could couldn did didn do does doesn don may must mustn need needn shall shan should shouldn to will won would wouldn".split(
    " ",
  ),
);
/** Words allowed between a refusal and its object. */
const BETWEEN = new Set(
  "actually bother do doing ever even have need please really to want you bitte fall habilidad compétence de favor por".split(
    " ",
  ),
);
/** Words that may follow "nicht" after a refused name: "führe NAME nicht aus". */
const AFTER_NICHT = new Set(
  "an aus ausführen bitte benutzen ein einsetzen laden mehr nehmen nötig nutzen starten verwenden".split(" "),
);
/** "code-review is not needed". */
const DISMISSALS = new Set(
  "applied called invoked loaded necessary needed relevant required run used wanted necesaria necesario nécessaire requis".split(
    " ",
  ),
);
const MAX_DISTANCE = 16;

function createMention(how: string, isNot: boolean): Mention {
  return { as: isNot ? "refusal" : "request", how };
}

/** Returns the sigil right before a name. The name's words must be joined: `/deploy app` is not `deploy-app`. */
function findSigil(
  text: readonly TextToken[],
  from: number,
  to: number,
  variables: ReadonlySet<string>,
): string | undefined {
  const sigil = text[from - 1];
  if (!sigil || !SIGILS.has(sigil.text) || !text[from]?.isTouching || continuesAfter(text, to)) return undefined;
  const name = text.slice(from, to);
  if (!name.every((unit, index) => index === 0 || unit.isJoined || unit.isTouching)) return undefined;
  const before = text[from - 2];
  if (sigil.isTouching && (!before?.isSymbol || SIGILS.has(before.text) || before.text === "." || before.text === "~"))
    return undefined;
  // $PATH is a shell variable, even if there is a skill called path.
  if (sigil.text === "$")
    return variables.has(`$${name.map((unit) => unit.text.toUpperCase()).join("_")}`) ? undefined : "$";
  return PATH_WORDS.has(before?.text ?? "") ? undefined : "/";
}

/** Returns true if the name is only a prefix: `/deploy/x`, `/deploy.sh`, `/deploy-all`. */
function continuesAfter(text: readonly TextToken[], to: number): boolean {
  const [next, further] = [text[to], text[to + 1]];
  if (!next) return false;
  if (!next.isSymbol) return next.isJoined;
  if (!next.isTouching) return false;
  return next.text === "/" || (next.text === "." && further?.isTouching === true && !further.isSymbol);
}

/** Returns true if the name is part of a path, a URL or a longer name: `src/code-review`, `my-code-review`, `--code-review`. */
function isPartOfLongerName(text: readonly TextToken[], from: number, to: number): boolean {
  if (continuesAfter(text, to) || text[from]?.isJoined) return true;
  const [before, further] = [text[from - 1], text[from - 2]];
  if (!text[from]?.isTouching || !before) return false;
  if (!OPENERS.has(before.text)) return true;
  // Excludes `a.code-review` and `me@code-review`. "Done.code-review" is excluded too, but rare.
  return (before.text === "." || before.text === "@") && before.isTouching && further?.isSymbol === false;
}

/** Finds a name that is called a skill: "the NAME skill", "the skill called NAME", "the deploy and NAME skills". */
function findSkillForm(
  text: readonly TextToken[],
  from: number,
  to: number,
): { how: string; from: number } | undefined {
  if (getWordAt(text, skipQuotes(text, to, 1)) === "skill" || endsList(text, from, to))
    return { how: "the NAME skill", from };
  let before = skipQuotes(text, from - 1, -1);
  if (NAMING_WORDS.has(getWordAt(text, before))) before = skipQuotes(text, before - 1, -1);
  return getWordAt(text, before) === "skill" ? { how: "the skill NAME", from: before } : undefined;
}

/** Returns true if the name is in a list before "skills": "the deploy and review skills". */
function endsList(text: readonly TextToken[], from: number, to: number): boolean {
  let isList = LIST_SEPARATORS.has(getWordAt(text, skipQuotes(text, from - 1, -1)));
  for (let at = to; at < Math.min(text.length, to + MAX_DISTANCE); at++) {
    const word = getWordAt(text, at);
    if (word === "skills" || word === "skill") return isList;
    if (LIST_SEPARATORS.has(word)) isList = true;
    else if (text[at]?.isSymbol && !QUOTES.has(word)) return false;
    else if (!isList) return false;
  }
  return false;
}

/** Returns the position of the verb before a name or a list of names: "use", in "use the deploy and review skills". */
function findVerbBefore(text: readonly TextToken[], from: number): number | undefined {
  let isList = false;
  for (
    let at = skipQuotes(text, from - 1, -1);
    at >= Math.max(0, from - MAX_DISTANCE);
    at = skipQuotes(text, at - 1, -1)
  ) {
    const word = getWordAt(text, at);
    if (VERBS.has(word)) return at;
    if (LIST_SEPARATORS.has(word)) isList = true;
    else if (!ARTICLES.has(word) && !isList) return undefined;
    else if (text[at]?.isSymbol) return undefined;
  }
  return undefined;
}

/**
 * Returns true if a refusal precedes the token at `end` in the same clause: "don't ever use the", "no need to run", "skip the". "why not use"
 * and "do not skip the" refuse nothing. In a list the refusal applies to each name: "don't run deploy-app or code-review".
 */
function isRefused(text: readonly TextToken[], end: number): boolean {
  const refusal = findRefusalBefore(text, end);
  return refusal !== undefined && findRefusalBefore(text, refusal.at) === undefined;
}

/** Returns true for "don't deploy", "do not use deploy", "skip deploy", but not "there is no report": an inexact name may be plain words. */
function areWordsRefused(text: readonly TextToken[], from: number): boolean {
  const refusal = findRefusalBefore(text, from);
  if (refusal === undefined || refusal.isInList || findRefusalBefore(text, refusal.at) !== undefined) return false;
  if (!ABSENCES.has(getWordAt(text, refusal.at)) || refusal.hasVerb) return true;
  return getWordAt(text, refusal.at) === "not" && AUXILIARIES.has(getWordAt(text, refusal.at - 1));
}

/**
 * Returns true if the user forbids what starts at `from`: "do not deploy the shop", "you must not". A report is not an order: "it does not
 * deploy the shop" and "I can't deploy the shop" may be exactly what the skill is for.
 */
export function isForbiddenByUser(text: readonly TextToken[], from: number): boolean {
  const refusal = findRefusalBefore(text, from);
  if (!refusal || refusal.isInList || findRefusalBefore(text, refusal.at) !== undefined) return false;
  // The first token of "do not" is "not", that of "don't" is "don".
  const isPlain = getWordAt(text, refusal.at) === "not";
  const at = isPlain ? refusal.at - 1 : refusal.at;
  const order = getWordAt(text, at);
  if (OBLIGATIONS.has(order)) return true;
  // "no uses …", "n'utilise pas …".
  if (order === "pas") return refusal.hasVerb || VERBS.has(getWordAt(text, at - 1));
  if (order === "no" && !refusal.hasVerb) return false;
  const before = text[at - 1];
  return (
    (isPlain ? order === "do" : ORDERS.has(order)) && (!before || before.isSymbol || BEFORE_ORDER.has(before.text))
  );
}

const OBLIGATIONS = new Set(["must", "mustn", "should", "shouldn"]);
const ORDERS = new Set(["avoid", "don", "dont", "evita", "never", "no", "nunca", "évite", "évitez"]);
const BEFORE_ORDER = new Set(["and", "but", "just", "now", "please", "so", "then", "favor", "pero", "y"]);

interface RefusalSpan {
  /** The index of its first token. */
  at: number;
  /** True if a verb such as "use" is between it and the name. */
  hasVerb: boolean;
  isInList: boolean;
}

function findRefusalBefore(text: readonly TextToken[], end: number): RefusalSpan | undefined {
  let [hasVerb, list] = [false, ""];
  for (let at = end - 1; at >= Math.max(0, end - MAX_DISTANCE); at--) {
    const [word, before] = [getWordAt(text, at), getWordAt(text, at - 1)];
    const found = { hasVerb, isInList: list !== "" };
    // "don't" is three tokens. "why don't you" and "can't we" are requests.
    if (word === "t" && before === "'" && AUXILIARIES.has(getWordAt(text, at - 2))) {
      const isQuestion =
        /^(?:you|we)$/.test(getWordAt(text, at + 1)) && !/^(?:ever|dare)$/.test(getWordAt(text, at + 2));
      return isQuestion ? undefined : { at: at - 2, ...found };
    }
    if (REFUSALS.has(word) && (list !== "and" || hasVerb))
      return REASONS.has(before === "ne" ? getWordAt(text, at - 2) : before) ? undefined : { at, ...found };
    if (REFUSING_PAIRS.has(`${before} ${word}`)) return { at: at - 1, ...found };
    if (text[at]?.isSymbol ? QUOTES.has(word) && word !== ":" : ARTICLES.has(word) || BETWEEN.has(word)) continue;
    if (VERBS.has(word)) hasVerb = true;
    else if (!hasVerb && (word === "or" || word === "nor" || word === "and")) list = word;
    else if (list === "" || hasVerb || text[at]?.isSymbol) return undefined;
  }
  return undefined;
}

/** Returns true if a dismissal follows the name: "is not needed", "should not be used", "isn't required". */
function isDismissed(text: readonly TextToken[], to: number): boolean {
  let at = skipQuotes(text, to, 1);
  if (/^skills?$/.test(getWordAt(text, at))) at = skipQuotes(text, at + 1, 1);
  const further = text[at + 1];
  if (getWordAt(text, at) === "nicht" && (!further || further.isSymbol || AFTER_NICHT.has(further.text))) return true;
  let isNot = false;
  for (let end = at + 6; at < end; at++) {
    const word = getWordAt(text, at);
    if (
      word === "not" ||
      word === "never" ||
      word === "no" ||
      word === "pas" ||
      (word === "t" && getWordAt(text, at - 1) === "'")
    )
      isNot = true;
    else if (DISMISSALS.has(word)) return isNot;
    else if (word !== "'" && !BEFORE_DISMISSAL.test(word)) return false;
  }
  return false;
}

const BEFORE_DISMISSAL =
  /^(?:is|isn|are|aren|was|wasn|be|really|should|shouldn|must|mustn|will|won|need|needn|to|does|doesn|do|es|est|n)$/;

function getWordAt(text: readonly TextToken[], at: number): string {
  return text[at]?.text ?? "";
}

function skipQuotes(text: readonly TextToken[], from: number, step: 1 | -1): number {
  let at = from;
  while (text[at]?.isSymbol && QUOTES.has(getWordAt(text, at))) at += step;
  return at;
}
