import type { Skill } from "../skill/skill.ts";
import { extractFirstSentence, truncateLine } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { formatRemoteMark } from "./catalog.ts";

/** The longest description with `when_to_use` that is listed whole, in characters: the limit of the open standard. */
const MAX_WHOLE_LENGTH = 1024;
/** The part of a description that is read, in characters. */
const MAX_READ_LENGTH = 4096;

/** Returns the description and when to use the skill, as part of a prompt line. Shortens a long one, but never its cue. */
export function describeSkill(skill: Skill): string {
  const { description, manifest } = skill;
  const whole = sanitizeLine(
    manifest.whenToUse ? `${description} ${manifest.whenToUse}` : description,
    MAX_READ_LENGTH,
  );
  return whole.length <= MAX_WHOLE_LENGTH ? whole + formatRemoteMark(skill) : (listDescriptionVersions(skill)[0] ?? "");
}

/** Returns shorter and shorter versions of the description; the first counts as whole. */
export function listDescriptionVersions(skill: Skill): readonly string[] {
  const known = VERSIONS_CACHE.get(skill);
  if (known) return known;
  const { description, manifest } = skill;
  const derived = truncateLine(extractFirstSentence(description), manifest.briefDescription.length);
  const made = shortenDescription({
    description: sanitizeLine(description, MAX_READ_LENGTH),
    whenToUse: manifest.whenToUse && sanitizeLine(manifest.whenToUse, MAX_READ_LENGTH),
    brief: derived === manifest.briefDescription ? undefined : sanitizeLine(manifest.briefDescription, MAX_READ_LENGTH),
  });
  const fitting = made.filter(({ length }) => length <= MAX_WHOLE_LENGTH);
  // Parts that were separate may form a tag once they are joined.
  const versions = (fitting.length === 0 ? [fitDescription(made, MAX_WHOLE_LENGTH)] : fitting).map(
    (version) => sanitizeLine(version, MAX_WHOLE_LENGTH) + formatRemoteMark(skill),
  );
  VERSIONS_CACHE.set(skill, versions);
  return versions;
}

const VERSIONS_CACHE = new WeakMap<Skill, readonly string[]>();

/** Returns the description in at most `limit` characters if its cue allows it. */
export function describeSkillWithin(skill: Skill, limit: number): string {
  return fitDescription(listDescriptionVersions(skill), limit);
}

interface DescriptionInput {
  /** One line. */
  description: string;
  whenToUse?: string | undefined;
  /** A short summary by the author. */
  brief?: string | undefined;
}

/**
 * Returns shorter and shorter versions of a description, the whole first: a summary and when to use the skill. Examples, parentheses,
 * synonyms and adjectives are removed first. Every version has the "use when" part, and words are never cut.
 */
export function shortenDescription({ description, whenToUse, brief }: DescriptionInput): readonly string[] {
  const whole = [description, whenToUse ?? ""].filter((part) => part !== "").join(" ");
  const parts = splitDescription(description, whenToUse);
  const [whats, cues] = [buildWhatLevels(parts, brief), buildCueLevels(parts)];
  const plain = [...parts.what.map(removeExamples), ...parts.cues.map(removeCueExamples), ...parts.negative];
  const versions = [whole, plain.filter((part) => part !== "").join(" ")];
  for (const [what = 0, cue = 0] of readLevels(cues.length === 0 ? WITHOUT_CUE : WITH_CUE))
    versions.push(joinSentences(whats[what] ?? "", cues[cue] ?? ""));
  const needsCue = hasUseWhenCue(parts.cues[0] ?? "");
  let shortest = Number.POSITIVE_INFINITY;
  return versions.filter((version, index) => {
    const isShorter =
      version !== "" && version.length < shortest && (index === 0 || !needsCue || hasUseWhenCue(version));
    if (isShorter) shortest = version.length;
    return isShorter;
  });
}

/** Returns the longest version with at most `limit` characters, or the shortest one. */
export function fitDescription(versions: readonly string[], limit: number): string {
  return versions.find(({ length }) => length <= limit) ?? versions.at(-1) ?? "";
}

/** Pairs of summary level and cue level, from long to short. */
const WITH_CUE = "0-0 1-0 1-1 2-1 2-2 3-2 3-3 3-4 4-4 4-5 5-4 5-5 5-6";
const WITHOUT_CUE = "0-0 1-0 2-0 3-0 4-0";
/** The lengths of the compact levels, in characters. The last fits a line of about 15 tokens. */
const WHAT_LIMITS = [90, 60, 36];
const CUE_LIMITS = [160, 120, 92, 68, 54];

function readLevels(pairs: string): readonly (readonly number[])[] {
  return pairs.split(" ").map((pair) => pair.split("-").map(Number));
}

function buildWhatLevels({ what }: DescriptionParts, brief: string | undefined): readonly string[] {
  const plain = what.map(removeExamples).filter((sentence) => sentence !== "" && !EXAMPLE.test(sentence));
  const first = capitalize((brief ?? plain[0] ?? what[0] ?? "").replace(OPENING, ""));
  return [plain.join(" "), plain[0] ?? what[0] ?? "", ...WHAT_LIMITS.map((limit) => compactText(first, limit)), ""];
}

function buildCueLevels({ cues }: DescriptionParts): readonly string[] {
  if (cues.length === 0) return [];
  const plain = cues.map(removeCueExamples).map(capitalize);
  const [first = ""] = plain;
  const short = first.replace(...HEAD);
  const levels = CUE_LIMITS.map((limit) => compactText(first.length <= limit ? first : short, limit));
  return [plain.join(" "), first, ...levels];
}

const OPENING =
  /^(?:(?:this|the|a|an)(?: [\w-]+)? (?:skill|agent|tool|guide)(?: (?:that|which))?|(?:comprehensive |complete )?(?:guide|guidelines|skill|toolkit|tools?)) (?:provides?|helps?(?: you)?(?: to)?|enables?|allows?(?: you)? to|offers?|is (?:used )?(?:for|to)|for|to)\s+/i;
/** Long openings of a cue, replaced by a short one. */
const HEAD: [RegExp, string] = [
  /^["'“*]?(?:(?:[\w-]+ ){0,5}?(?:should|must|can|may|needs to|is to|has to) (?:\w+ )?be (?:used|invoked|triggered|activated|applied|loaded|consulted|called) |(?:(?:make sure to|be sure to|always|please|you (?:should|must|can)) )*use (?:this|the|it)(?: [\w-]+)?(?: (?:skill|agent|tool|guide))? )(?=when|if|for|to|before|after|while|during|proactively|any ?time)/i,
  "Use ",
];

/** Capitalizes a text that starts in the middle of a sentence. Keeps names such as `iOS`. */
function capitalize(text: string): string {
  return /^[a-z]{2}/.test(text) && !UNSPACED.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** Joins two sentences, each with its final punctuation. */
function joinSentences(what: string, cue: string): string {
  const ended = (text: string) => {
    if (text === "" || /[.!?…。！？]["'”’)]*$/.test(text)) return text;
    return UNSPACED.test(text.slice(-1)) ? `${text}。` : `${text}.`;
  };
  return [ended(what), ended(cue)].filter((text) => text !== "").join(" ");
}

const EXAMPLE = /^["'“*]?(?:&lt;)?examples?\b/i;
/** The start of examples; they last to the end of the sentence, or to the next case. */
const EXAMPLES =
  /[\s,(]+(?:e\.g\.|i\.e\.|for example|for instance|such as|including|(?:(?:with )?(?:phrases|requests|questions|prompts|things|tasks|terms|keywords) )?like(?= ["'“‘])|z\.B\.|zum Beispiel|por ejemplo|par exemple|例如|例えば|如)[\s,:]*.*?(?=(?:,? or|,? and|[,;])(?: also)? (?:when|whenever|if|for|to)\b|[;—–]|[.!?]\s|[.!?。]*$)/gi;

function removeExamples(text: string): string {
  const open = text.replace(/\s*[（(]([^()（）]*)[)）]/g, (_, inside: string) =>
    hasUseWhenCue(inside) ? `, ${inside}` : "",
  );
  const tags = open.replace(/\s*&lt;examples?>.*?(?:&lt;\/examples?>|$)/gi, "");
  return tidyText(tags.replace(EXAMPLES, ""));
}

/** Keeps the examples if nothing else says when to use the skill. */
function removeCueExamples(cue: string): string {
  const rest = removeExamples(cue);
  return rest.split(" ").length >= Math.min(6, cue.split(" ").length) || !/\s/.test(cue) ? rest : tidyText(cue);
}

function tidyText(text: string): string {
  return text
    .replace(/\s+/g, " ")
    .replace(/ ([,.;:!?])(?=\s|$)/g, "$1")
    .replace(/,(?=[.;])/g, "")
    .replace(/[\s,;:–—-]+$/, "")
    .trim();
}

const ADJECTIVES =
  /\b(?:comprehensive|powerful|professional|production-(?:grade|ready)|high-quality|robust|modern|advanced|effective|efficient|easy|seamless|complete|full-featured|expert|detailed|various|specific|different|existing|well-structured|polished|beautiful|distinctive|complex|simple|proper|thorough|actionable|intelligent|smart|automated|structured|reliable|flexible|extensive|in-depth|best-practice|cutting-edge|state-of-the-art|elegant|rich|really|very|automatically|quickly|easily|properly|effectively|clear|concise|precise|consistent|readable),?\s+(?!and\b|or\b)(?=\w)/gi;
/** Words that a shortened text must not end with. */
const DANGLING =
  /[\s,;:–—-]+(?:a|an|the|to|of|or|and|with|for|in|on|at|by|from|as|that|which|when|whenever|if|is|are|be|any|all|its|their|your|this|these|such|like|into|about|via|using|user|wants?|needs?|asks?|der|die|das|und|oder|mit|für|von|zu|el|la|los|las|de|en|con|para|y|o|un|una|le|les|des|du|et|ou|pour|avec)$/i;
/** Points where a clause can end, before the words that start the next one. */
const CLAUSE =
  /\s(?=(?:or|and|when|that|which|while|so|with|using|from|by|via|und|oder|wenn|y|o|cuando|et|ou) )|\s?[—–]\s|\s--?\s/g;
const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;

const NO_VERB = "(?!(?:the|a|an|to|in|on|of|for|with|when|if|by|at|as|is|are|need|needs|any|all)\\b)";
/** Enumerations of similar words, shortened in steps: to the first and last; to the first alone, for verbs. */
const SYNONYMS: readonly (readonly [RegExp, string])[] = [
  [/(?<![\w-])([\w/-]+)(?:, [\w/-]+(?: (?:on|with|to|of|for|in))?)+,? (or|and) (?=[\w/-]+ \S)/g, "$1 $2 "],
  [new RegExp(`\\b(to "?[\\w-]+|[\\w-]+ing) (?:or|and) ${NO_VERB}[\\w-]+ (?=${NO_VERB}\\S)`, "g"), "$1 "],
];
/** The subject of a request is removed from the shortest cue only. */
const USER_ASKS_LIMIT = 60;
const USER_ASKS: readonly [RegExp, string] = [
  /\b(?:the |a )?users? (?:wants?|asks?|needs?|requests?)(?: you| for help)? to /g,
  "asked to ",
];

/** Shortens to `limit` characters if possible without cutting a word or a clause. */
function compactText(original: string, limit: number): string {
  const text = tidyText(original).replace(/[.。]$/, "");
  if (text.length <= limit) return text;
  if (UNSPACED.test(text)) return compactUnspaced(text, limit);
  const plain = tidyText(text.replace(ADJECTIVES, ""));
  if (plain.length <= limit) return plain;
  let shorter = plain;
  for (const [pattern, replacement] of limit < USER_ASKS_LIMIT ? [...SYNONYMS, USER_ASKS] : SYNONYMS) {
    shorter = shorter.replace(pattern, replacement);
    if (shorter.length <= limit) return shorter;
  }
  const items = splitItems(shorter);
  return dropItems(items, limit) ?? cutClause(shorter, limit);
}

/** Keeps whole clauses from the end, where the cue is in these languages. */
function compactUnspaced(text: string, limit: number): string {
  const clauses = text.split(/(?<=[，,；;])\s*/);
  let kept = clauses.at(-1) ?? text;
  for (const clause of clauses.slice(0, -1).reverse()) {
    if (clause.length + kept.length > limit || hasUseWhenCue(kept)) break;
    kept = clause + kept;
  }
  return clauses.length === 1 || (hasUseWhenCue(text) && !hasUseWhenCue(kept)) ? text : kept;
}

/** Splits an enumeration. A comma within quotes does not end an item. */
function splitItems(text: string): string[] {
  const items: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const mark = text[at];
    if (mark === '"' || mark === "“" || mark === "”") isQuoted = mark === "“" || (mark === '"' && !isQuoted);
    if (isQuoted || (mark !== "," && mark !== ";") || text[at + 1] !== " ") continue;
    if (/^ (?:wenn|falls|sobald|um|dass) /.test(text.slice(at + 1, at + 9))) continue;
    items.push(text.slice(start, at));
    start = at + 2;
  }
  items.push(text.slice(start));
  return items;
}

/** Keeps the first items and the last, which often has the common object; otherwise the first ones alone. */
function dropItems(items: readonly string[], limit: number): string | undefined {
  const last = items.at(-1) ?? "";
  const joins = /^(?:or|and|und|oder|y|o|et|ou)\s/i.test(last);
  for (let number = items.length - 2; number > 0 && joins; number--) {
    const first = items.slice(0, number).join(", ");
    const text = `${first}${number === 1 ? "" : ","} ${last}`;
    if (text.length <= limit) return text;
  }
  for (let number = items.length - 1; number > 0; number--) {
    const text = items.slice(0, number).join(", ");
    if (text.length <= limit)
      return text.length < SHORTEST_CLAUSE ? undefined : removeDangling(text.replace(STARTED_LIST, ""));
  }
  return undefined;
}

/** The first word of an enumeration after a colon. */
const STARTED_LIST = /(?<=^.{30,}):\s+\S+$/;

/** In characters: a shorter clause says too little. */
const SHORTEST_CLAUSE = 24;

function cutClause(text: string, limit: number): string {
  let best = "";
  for (const { index } of text.matchAll(CLAUSE)) {
    if (index > limit) break;
    const clause = text.slice(0, index);
    if (index >= Math.max(SHORTEST_CLAUSE, limit / 2) && !hasOpenQuote(clause)) best = clause;
  }
  if (best !== "") return removeDangling(best);
  const end = text.lastIndexOf(" ", limit - 1);
  const first = end === -1 ? text.indexOf(" ", limit) : end;
  if (first === -1) return text;
  const cut = removeDangling(text.slice(0, first));
  return hasOpenQuote(cut) ? `${cut}…"` : `${cut}…`;
}

function hasOpenQuote(text: string): boolean {
  return text.split('"').length % 2 === 0;
}

function removeDangling(text: string): string {
  let kept = text;
  for (let next = tidyText(kept.replace(DANGLING, "")); next !== kept; next = tidyText(kept.replace(DANGLING, "")))
    kept = next;
  return kept;
}

/** A description split into parts: sentences about what the skill does, and sentences about when to use it. */
export interface DescriptionParts {
  what: readonly string[];
  /** The sentences with a "use when" part, the most important first. */
  cues: readonly string[];
  /** When not to use it. */
  negative: readonly string[];
}

const STRONG = "(?:when(?:ever)?|any ?time|every time|each time|proactively|automatically|immediately|upon)";
const WEAK = "(?:for|to|if|before|after|while|during|on|in|as|where|with|at|by|even)";
const HINTS = "(?:(?:make sure to|be sure to|always|must|should|also|only|please|you (?:should|must|can)) )*";
const IT = "(?:(?:this|it|these)(?: [\\w-]+){0,2} |the (?:[\\w-]+ ){0,2}(?:skill|agent|tool|guide|command) )?";
const INVOKED = "(?:used|invoked|triggered|activated|applied|loaded|consulted|called|run)";

/**
 * One row per form in which authors write when to use a skill. Each starts at a clause. `needs` is in every sentence that matches the
 * pattern: most sentences match no row, and compiling all patterns takes milliseconds.
 */
const CUE_FORMS: readonly { form: string; needs: RegExp; pattern: string }[] = [
  { form: "Use when …", needs: /use/i, pattern: `${HINTS}use (?:[^\\s.;]+ ){0,5}?${STRONG}\\b` },
  { form: "Use this skill for …", needs: /use/i, pattern: `${HINTS}use ${IT}(?:also |only |\\w+ly )?${WEAK}\\b` },
  {
    form: "This skill should be used when …",
    needs: / be (?:\w+ )?(?:used|invoked|triggered|activated|applied|loaded|consulted|called|run)/i,
    pattern: `(?:[\\w-]+ ){0,5}?(?:should|must|can|may|needs to|is to|has to) (?:\\w+ )?be ${INVOKED}\\b`,
  },
  {
    form: "Is used when …",
    needs: /(?:used|invoked|triggered|activated|applied|loaded|consulted|called|run) (?:when|for|if|by)/i,
    pattern: `(?:(?:[\\w-]+ ){0,3}(?:is|are) )?(?:best )?${INVOKED} (?:when(?:ever)?|for|if|by)\\b`,
  },
  {
    form: "Triggers on …",
    needs: /trigger|invoke|activate|engage/i,
    pattern: `${HINTS}(?:auto-?)?(?:trigger|invoke|activate|engage)s? (?:[^\\s.;]+ ){0,4}?(?:${STRONG}|${WEAK})\\b`,
  },
  {
    form: "Apply when …",
    needs: /appl(?:y|ies)|load|consult|call|run|reach for/i,
    pattern: `${HINTS}(?:apply|applies|load|consult|call|run|reach for)s? (?:[^\\s.;]+ ){0,3}?${STRONG}\\b`,
  },
  {
    form: "Triggers: …",
    needs: /triggers?|use cases?|when to use/i,
    pattern:
      "(?:[\\w-]+ ){0,2}?(?:triggers?|use cases?|when to use)(?: (?:words?|phrases?|keywords?|scenarios?|conditions?))?(?: include| are|:)",
  },
  {
    form: "Ideal for …",
    needs: /(?:l|t|d|y|ry|e|ant) (?:for|when|if|to use|used)/i,
    pattern: `(?:is )?(?:ideal|perfect|great|best|useful|helpful|suitable|designed|intended|recommended|appropriate|well[- ]suited|handy|essential|required|needed|relevant|necessary|meant|mandatory) (?:for|when(?:ever)?|if|to use|used)\\b`,
  },
  {
    form: "For use when …",
    needs: /for (?:use|when)/i,
    pattern: "for (?:use )?(?:when(?:ever)?|use (?:in|with|by|on|for|during))\\b",
  },
  { form: "If the user …", needs: /if /i, pattern: "if (?:the |a |an )?(?:users?|you|someone|anyone)\\b" },
  {
    form: "Verwenden, wenn …",
    needs: /verwend|benutz|nutze|einsetz|einzusetzen|anwenden|aktiviere|(?:geeignet|ideal) für|wenn|falls/i,
    pattern:
      "(?:(?:diese[nrs]? \\S+ )?(?:zu )?(?:verwende[nt]?|benutze[nt]?|nutze[nt]?|einsetzen|anwenden|einzusetzen|aktiviere[nt]?)(?: [^\\s.,;]+){0,3},? (?:wenn|falls|sobald|für|um|bei|zum|zur|immer)|geeignet für|ideal für|wenn (?:der|die|das|du|sie|man|ein|eine|es|nutzer)|falls)(?![\\wäöü])",
  },
  {
    form: "Usar cuando …",
    needs: /usar|usa|úsal|úsese|utiliz|utilíc|emplear|activar|aplicar|invocar|cuando|ideal para/i,
    pattern:
      "(?:(?:usar|usa|úsal[oa]|úsese|utiliza|utilizar|utilícese|emplear|activar|aplicar|invocar)(?: (?:est[ae] )?\\S+){0,2}? (?:cuando|para|si|al|en)|se (?:usa|utiliza) (?:cuando|para)|cuando|ideal para)(?![\\wáéíóúñ])",
  },
  {
    form: "Utiliser quand …",
    needs: /utilise|activer|invoquer|quand|lorsqu|idéal pour/i,
    pattern:
      "(?:(?:à )?(?:utilise[rz]?|activer|invoquer)(?: \\S+){0,2}? (?:quand|lorsque?|pour|si|dès)|quand|lorsque|lorsqu['’]|idéal pour)(?![\\wàâéèêëîïôùûç])",
  },
  {
    form: "Usar quando …",
    needs: /use|usar|utiliz|acione|quando/i,
    pattern: "(?:(?:use|usar|utilize|utilizar|acione)(?: \\S+){0,2}? (?:quando|para|se|ao)|quando)(?![\\wáâãçéêíóôõú])",
  },
];
/** "when" at the start of a sentence, whatever follows. */
const WHEN = /^(?:when|whenever)\b/i;
/** In scripts without spaces, the whole clause is the cue. */
const UNSPACED_TEXT =
  /当[^。；]*?时|(?:在|需要)[^。；]*?时(?:使用|调用|触发|启用)|(?:适)?用于|适合|触发|何时使用|使用场景|(?:場合|とき|時|際|たい時)(?:に|は|、)?(?:使|利用|起動|呼|適用|必ず)|に使(?:用|う|って)|[을를할] ?때 ?(?:사용|호출|활성)/;
const NOT = /^(?:do not|don['’]t|never|not|skip|avoid)\b/i;
const CLAUSE_START = "(?<=^|[;:(]\\s?|,\\s|\\s[-–—]\\s|[–—])[\"'“*]?";

/** Splits a description, given as one line. `whenToUse` is a cue as written. */
export function splitDescription(description: string, whenToUse = ""): DescriptionParts {
  const [what, cues, triggers, negative]: string[][] = [[], [], [], []] as never;
  for (const sentence of splitSentences(description)) {
    if (NOT.test(sentence)) negative?.push(sentence);
    else {
      const at = findCueStart(sentence);
      if (at === -1) what?.push(sentence);
      else {
        const before = sentence.slice(0, at).replace(/[\s,;:(–—-]+$/, "");
        if (before !== "") what?.push(before);
        const cue = sentence.slice(at);
        // A list of phrases says less than a sentence about the situation.
        (/^["'“*]?(?:auto-?)?(?:\S+ )?triggers?\b/i.test(cue) ? triggers : cues)?.push(cue);
      }
    }
  }
  return {
    what: what ?? [],
    cues: [...splitSentences(whenToUse), ...(cues ?? []), ...(triggers ?? [])],
    negative: negative ?? [],
  };
}

/** Returns true if a text says when to use something. */
export function hasUseWhenCue(text: string): boolean {
  return splitSentences(text).some((sentence) => !NOT.test(sentence) && findCueStart(sentence) !== -1);
}

function findCueStart(sentence: string): number {
  if (WHEN.test(sentence) || UNSPACED_TEXT.test(sentence)) return 0;
  let start = -1;
  for (const { needs, pattern } of CUE_FORMS) {
    if (!needs.test(sentence)) continue;
    const index = getCuePattern(pattern).exec(sentence)?.index ?? -1;
    if (index !== -1 && (start === -1 || index < start)) start = index;
    if (start === 0) break;
  }
  return start;
}

function getCuePattern(pattern: string): RegExp {
  let found = CUE_PATTERNS.get(pattern);
  if (!found) {
    found = new RegExp(`${CLAUSE_START}(?:${pattern})`, "i");
    CUE_PATTERNS.set(pattern, found);
  }
  return found;
}

const CUE_PATTERNS = new Map<string, RegExp>();

const END = /[.!?…]+["'”’)\]*]*\s+|[。！？]["'”’）」]*\s*|\s+[•·▪]\s+/g;
const ABBREVIATION = /(?:^|[\s(])(?:e\.g|i\.e|vs|approx|incl|esp|z\.B|d\.h|bzw|p\.ej|no|nr|dr|mr|ms|st)\.\s*$/i;

function splitSentences(text: string): string[] {
  const found: string[] = [];
  let start = 0;
  for (const { 0: end, index } of text.matchAll(END)) {
    const next = index + end.length;
    const sentence = text.slice(start, next);
    const isInside = /\betc\.\s*$/i.test(sentence) && /^[a-z]/.test(text.slice(next, next + 1));
    if (isInside || ABBREVIATION.test(sentence)) continue;
    found.push(sentence.trim());
    start = next;
  }
  found.push(text.slice(start).trim());
  return found.filter((sentence) => sentence !== "");
}
