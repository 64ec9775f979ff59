import { globToPattern } from "../util/glob.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { isWithinOneEdit, truncateLine } from "../util/text.ts";
import { COMMON_EXTENSIONS, COMMON_FOLDERS, isCommonWord, isFunctionWord } from "./common-words.ts";
import type { ReportProblem } from "./manifest.ts";
import type { Triggers } from "./manifest-fields.ts";
import { analyzePattern, type PatternFacts } from "./pattern-parser.ts";

/** How many triggers of a kind are looked at. */
export const MAX_TRIGGERS: Readonly<Record<keyof Triggers | "paths", number>> = {
  keywords: 256,
  verbs: 256,
  patterns: 64,
  examples: 512,
  negative: 256,
  paths: 64,
};
/** How many words a phrase may have. */
const MAX_PHRASE_WORDS = 24;

/** Says of every trigger that cannot be used why not. What is said here is what matching leaves out. */
export function validateTriggers(
  data: JsonObject,
  triggers: Triggers | undefined,
  paths: readonly string[],
  report: ReportProblem,
): void {
  if (triggers) {
    reportUnknownKeys(data["triggers"], report);
    for (const kind of TRIGGER_KINDS) {
      if (triggers[kind].length > MAX_TRIGGERS[kind])
        report(
          "trigger-limit",
          "triggers",
          `"triggers" has ${triggers[kind].length} ${kind}, more than ${MAX_TRIGGERS[kind]}`,
        );
    }
    for (const kind of ["keywords", "verbs", "negative"] as const) {
      const odd = triggers[kind].filter((phrase) => !isTriggerPhrase(phrase));
      if (odd[0] !== undefined)
        report(
          "trigger-unusable",
          "triggers",
          `"triggers" has among its ${kind} "${truncateLine(odd[0], 64)}"${formatAndMore(odd)}, which is no word or short phrase`,
        );
    }
    reportPatterns("triggers", classifyPatterns(triggers.patterns), report);
  }
  if (paths.length > MAX_TRIGGERS.paths)
    report("trigger-limit", "paths", `"paths" has ${paths.length} globs, more than ${MAX_TRIGGERS.paths}`);
  reportPatterns("paths", classifyPatterns(paths, globToPattern), report);
}

/** Whether a text can be found as a word or phrase. */
export function isTriggerPhrase(text: string): boolean {
  if (!/[^\s_-]/.test(text)) return false;
  return (
    text.length < 2 * MAX_PHRASE_WORDS || (text.length <= 400 && text.trim().split(/\s+/).length <= MAX_PHRASE_WORDS)
  );
}

const TRIGGER_KINDS = [
  "keywords",
  "verbs",
  "patterns",
  "examples",
  "negative",
] as const satisfies readonly (keyof Triggers)[];

/** Patterns sorted by what becomes of them. */
interface ClassifiedPatterns {
  usable: readonly { text: string; pattern: string; needs: PatternFacts["needs"] }[];
  wrong: readonly { text: string; problem: string }[];
  /** They fit every query. */
  broad: readonly string[];
  /** Too dear together with those before them. */
  dear: readonly string[];
}

/** Contract: what is usable here is what matching uses, and the rest is what is said of a skill. */
export function classifyPatterns(texts: readonly string[], asPattern = (text: string) => text): ClassifiedPatterns {
  const sorted = {
    usable: [] as ClassifiedPatterns["usable"][number][],
    wrong: [] as { text: string; problem: string }[],
  };
  const [broad, dear]: [string[], string[]] = [[], []];
  let steps = 0;
  for (const text of texts.slice(0, MAX_TRIGGERS.patterns)) {
    const pattern = asPattern(text);
    const judged = analyzePattern(pattern);
    if ("problem" in judged) sorted.wrong.push({ text, problem: judged.problem });
    else if (judged.isBroad) broad.push(text);
    else if (steps + judged.size > MAX_PATTERN_STEPS) dear.push(text);
    else {
      steps += judged.size;
      sorted.usable.push({ text, pattern, needs: judged.needs });
    }
  }
  return { ...sorted, broad, dear };
}

/** How many steps a skill's patterns may unfold to together: in the worst case a query costs its length times that. */
const MAX_PATTERN_STEPS = 1000;

function reportPatterns(key: string, { wrong, broad, dear }: ClassifiedPatterns, report: ReportProblem): void {
  const shown = (text: string | undefined) => `"${truncateLine(text ?? "", 64)}"`;
  if (wrong.length > 0) {
    const each = wrong.slice(0, 3).map(({ text, problem }) => `${shown(text)} ${problem}`);
    report(
      "trigger-pattern",
      key,
      `"${key}" has patterns that cannot be used: ${each.join("; ")}${formatAndMore(wrong.slice(2))}`,
    );
  }
  if (broad.length > 0)
    report("trigger-broad", key, `"${key}" has ${shown(broad[0])}${formatAndMore(broad)}, which fits every query`);
  if (dear.length > 0)
    report(
      "trigger-limit",
      key,
      `"${key}" has patterns that repeat too much together; ${shown(dear[0])}${formatAndMore(dear)} is left out`,
    );
}

function reportUnknownKeys(triggers: unknown, report: ReportProblem): void {
  if (!isJsonObject(triggers)) return;
  for (const key of Object.keys(triggers)) {
    if ((TRIGGER_KINDS as readonly string[]).includes(key)) continue;
    const meant = TRIGGER_KINDS.find((kind) => isWithinOneEdit(key, kind));
    if (meant) report("key-misspelled", "triggers", `"triggers.${truncateLine(key, 64)}" is not a known key`, meant);
    else report("key-unknown", "triggers", `"triggers.${truncateLine(key, 64)}" is not a known key`);
  }
}

function formatAndMore(items: readonly unknown[]): string {
  return items.length > 1 ? ` and ${items.length - 1} more` : "";
}

/** This many words in a row are specific, whatever they are, if one of them is not a function word. */
const LONG_PHRASE = 3;

/** Whether a keyword or a verb is too common to select a skill: "write", "find the", "where", but not "write tests". */
export function isCommonPhrase(phrase: string): boolean {
  const weighed = measurePhrase(phrase);
  return weighed.words > 0 && areStatsCommon(weighed);
}

/**
 * Whether the texts that a pattern needs are too common to select a skill. Of alternatives the most common one counts:
 * `(invoice|write)` matches "write". Digits and symbols count as a word, so `issue #\d+` needs two.
 */
export function isCommonPattern(needs: PatternFacts["needs"]): boolean {
  const sets = new Map(needs.map((set) => [set.join("|"), set]));
  const total: PhraseStats = { words: 0, content: 0, isSelective: false };
  for (const set of sets.values()) {
    const weighed = set.map(measurePhrase);
    total.words += Math.min(...weighed.map(({ words }) => words));
    total.content += Math.min(...weighed.map(({ content }) => content));
    total.isSelective ||= weighed.every((one) => !areStatsCommon(one));
  }
  return areStatsCommon(total);
}

/** Whether a glob matches most files of a project: it has no folder or file name, only a common extension. */
export function isBroadGlob(glob: string): boolean {
  const folders = glob.replaceAll("\\", "/").split("/");
  const file = folders.pop() ?? "";
  if (!folders.every((folder) => /^[*.]*$/.test(folder) || COMMON_FOLDERS.has(folder.toLowerCase()))) return false;
  const [isWild, extension = "*"] = /^\*+(?:\.(.+))?$/.exec(file) ?? [];
  if (!isWild) return false;
  const extensions = extension.replace(/^\{(.*)\}$/, "$1").split(",");
  return extensions.every((one) => COMMON_EXTENSIONS.has(one.trim().toLowerCase()));
}

interface PhraseStats {
  words: number;
  /** How many different ones are not function words. */
  content: number;
  /** One of them is not a common word. */
  isSelective: boolean;
}

function areStatsCommon({ words, content, isSelective }: PhraseStats): boolean {
  return !isSelective && content < 2 && !(content === 1 && words >= LONG_PHRASE);
}

function measurePhrase(text: string): PhraseStats {
  const words = splitPhraseWords(text);
  const content = new Set(words.filter((word) => !isFunctionWord(word)));
  if (words.length === 0 && /\S/.test(text)) return { words: 1, content: 1, isSelective: false };
  return {
    words: words.length,
    content: content.size,
    isSelective: [...content].some((word) => !isCommonWord(word)),
  };
}

/** The words of a text. One with other characters than letters, such as `c++` or `node.js`, stays as it is written. */
function splitPhraseWords(text: string): string[] {
  return text
    .toLowerCase()
    .replaceAll("’", "'")
    .split(/[\s_-]+/)
    .map((word) => word.replace(/^["'(]+|["').,;:!?]+$/g, "").replace(/'(?:s|t|d|m|ll|re|ve)$/, ""))
    .filter((word) => /[^\d\W]|[^\0-\x7f]/.test(word));
}
