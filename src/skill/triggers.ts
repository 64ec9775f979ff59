import { globToPattern } from "../util/glob.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { isWithinOneEdit, truncateLine } from "../util/text.ts";
import { isCommonExtension, isCommonFolder, isCommonWord, isFunctionWord } from "./common-words.ts";
import type { ReportProblem } from "./manifest.ts";
import type { Triggers } from "./manifest-fields.ts";
import { analyzePattern, type PatternFacts } from "./pattern-parser.ts";

/** The maximum number of triggers of each kind; the rest is ignored. */
export const MAX_TRIGGERS: Readonly<Record<keyof Triggers | "paths", number>> = {
  keywords: 256,
  verbs: 256,
  patterns: 64,
  examples: 512,
  negative: 256,
  paths: 64,
};
/** The maximum number of words in a phrase. */
const MAX_PHRASE_WORDS = 24;

/** Reports every unusable trigger with its reason. Matching ignores exactly these. */
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
      const invalid = triggers[kind].filter((phrase) => !isTriggerPhrase(phrase));
      if (invalid[0] !== undefined)
        report(
          "trigger-unusable",
          "triggers",
          `"triggers" has among its ${kind} "${truncateLine(invalid[0], 64)}"${formatAndMore(invalid)}, which is not a word or short phrase`,
        );
    }
    reportPatterns("triggers", classifyPatterns(triggers.patterns), report);
  }
  if (paths.length > MAX_TRIGGERS.paths)
    report("trigger-limit", "paths", `"paths" has ${paths.length} globs, more than ${MAX_TRIGGERS.paths}`);
  reportPatterns("paths", classifyPatterns(paths, globToPattern), report);
}

/** Returns true if a text can be matched as a word or phrase. */
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

/** Patterns sorted by their use. */
interface ClassifiedPatterns {
  usable: readonly { text: string; pattern: string; needs: PatternFacts["needs"] }[];
  invalid: readonly { text: string; problem: string }[];
  /** They match every query. */
  broad: readonly string[];
  /** Too expensive together with those before them. */
  tooExpensive: readonly string[];
}

/** Contract: matching uses exactly the usable patterns; all others are reported. */
export function classifyPatterns(texts: readonly string[], asPattern = (text: string) => text): ClassifiedPatterns {
  const sorted = {
    usable: [] as ClassifiedPatterns["usable"][number][],
    invalid: [] as { text: string; problem: string }[],
  };
  const [broad, dear]: [string[], string[]] = [[], []];
  let steps = 0;
  for (const text of texts.slice(0, MAX_TRIGGERS.patterns)) {
    const pattern = asPattern(text);
    const analysis = analyzePattern(pattern);
    if ("problem" in analysis) sorted.invalid.push({ text, problem: analysis.problem });
    else if (analysis.isBroad) broad.push(text);
    else if (steps + analysis.size > MAX_PATTERN_STEPS) dear.push(text);
    else {
      steps += analysis.size;
      sorted.usable.push({ text, pattern, needs: analysis.needs });
    }
  }
  return { ...sorted, broad, tooExpensive: dear };
}

/** The maximum number of steps of all patterns of a skill: in the worst case, a query costs its length times this. */
const MAX_PATTERN_STEPS = 1000;

function reportPatterns(
  key: string,
  { invalid: wrong, broad, tooExpensive: dear }: ClassifiedPatterns,
  report: ReportProblem,
): void {
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
    report("trigger-broad", key, `"${key}" has ${shown(broad[0])}${formatAndMore(broad)}, which matches every query`);
  if (dear.length > 0)
    report(
      "trigger-limit",
      key,
      `"${key}" has patterns with too many repetitions in total; ${shown(dear[0])}${formatAndMore(dear)} is ignored`,
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

/** A phrase of this many words is specific, if one of them is not a function word. */
const LONG_PHRASE = 3;

/** Returns true if a keyword or a verb is too common to select a skill: "write", "find the", "where", but not "write tests". */
export function isCommonPhrase(phrase: string): boolean {
  const weighed = measurePhrase(phrase);
  return weighed.words > 0 && areStatsCommon(weighed);
}

/**
 * Returns true if the texts that a pattern needs are too common to select a skill. The most common alternative counts:
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

/** Returns true if a glob matches most files of a project: it has no folder or file name, only a common extension. */
export function isBroadGlob(glob: string): boolean {
  const folders = glob.replaceAll("\\", "/").split("/");
  const file = folders.pop() ?? "";
  if (!folders.every((folder) => /^[*.]*$/.test(folder) || isCommonFolder(folder.toLowerCase()))) return false;
  const [isWild, extension = "*"] = /^\*+(?:\.(.+))?$/.exec(file) ?? [];
  if (!isWild) return false;
  const extensions = extension.replace(/^\{(.*)\}$/, "$1").split(",");
  return extensions.every((one) => isCommonExtension(one.trim().toLowerCase()));
}

interface PhraseStats {
  words: number;
  /** The number of different words that are not function words. */
  content: number;
  /** True if one of them is not a common word. */
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

/** Splits a text into words. A word with other characters than letters, such as `c++` or `node.js`, is kept as written. */
function splitPhraseWords(text: string): string[] {
  return text
    .toLowerCase()
    .replaceAll("’", "'")
    .split(/[\s_-]+/)
    .map((word) => word.replace(/^["'(]+|["').,;:!?]+$/g, "").replace(/'(?:s|t|d|m|ll|re|ve)$/, ""))
    .filter((word) => /[^\d\W]|[^\0-\x7f]/.test(word));
}
