import { isWithinOneEdit, oneLine } from "../shared/text.ts";
import { type Data, isData } from "./data.ts";
import type { Triggers } from "./fields.ts";
import { globPattern } from "./glob.ts";
import type { Report } from "./manifest.ts";
import { judgePattern, type PatternFacts } from "./pattern.ts";

/** How many triggers of a kind are looked at. */
export const MOST_TRIGGERS: Readonly<Record<keyof Triggers | "paths", number>> = {
  keywords: 256,
  verbs: 256,
  patterns: 64,
  examples: 512,
  negative: 256,
  paths: 64,
};
/** How many words a phrase may have. */
const LONGEST_PHRASE = 24;

/** Says of every trigger that cannot be used why not. What is said here is what matching leaves out. */
export function judgeTriggers(
  data: Data,
  triggers: Triggers | undefined,
  paths: readonly string[],
  report: Report,
): void {
  if (triggers) {
    unknownKeys(data["triggers"], report);
    for (const kind of KINDS) {
      if (triggers[kind].length > MOST_TRIGGERS[kind])
        report(
          "trigger-limit",
          "triggers",
          `"triggers" has ${triggers[kind].length} ${kind}, more than ${MOST_TRIGGERS[kind]}`,
        );
    }
    for (const kind of ["keywords", "verbs", "negative"] as const) {
      const odd = triggers[kind].filter((phrase) => !isPhrase(phrase));
      if (odd[0] !== undefined)
        report(
          "trigger-unusable",
          "triggers",
          `"triggers" has among its ${kind} "${oneLine(odd[0], 64)}"${andMore(odd)}, which is no word or short phrase`,
        );
    }
    judgePatterns("triggers", sortPatterns(triggers.patterns), report);
  }
  if (paths.length > MOST_TRIGGERS.paths)
    report("trigger-limit", "paths", `"paths" has ${paths.length} globs, more than ${MOST_TRIGGERS.paths}`);
  judgePatterns("paths", sortPatterns(paths, globPattern), report);
}

/** Whether a text can be found as a word or phrase. */
export function isPhrase(text: string): boolean {
  if (!/[^\s_-]/.test(text)) return false;
  return text.length < 2 * LONGEST_PHRASE || (text.length <= 400 && text.trim().split(/\s+/).length <= LONGEST_PHRASE);
}

const KINDS = ["keywords", "verbs", "patterns", "examples", "negative"] as const satisfies readonly (keyof Triggers)[];

/** Patterns sorted by what becomes of them. */
export interface SortedPatterns {
  usable: readonly { text: string; pattern: string; needs: PatternFacts["needs"] }[];
  wrong: readonly { text: string; problem: string }[];
  /** They fit every query. */
  broad: readonly string[];
  /** Too dear together with those before them. */
  dear: readonly string[];
}

/** Contract: what is usable here is what matching uses, and the rest is what is said of a skill. */
export function sortPatterns(texts: readonly string[], asPattern = (text: string) => text): SortedPatterns {
  const sorted = { usable: [] as SortedPatterns["usable"][number][], wrong: [] as { text: string; problem: string }[] };
  const [broad, dear]: [string[], string[]] = [[], []];
  let steps = 0;
  for (const text of texts.slice(0, MOST_TRIGGERS.patterns)) {
    const pattern = asPattern(text);
    const judged = judgePattern(pattern);
    if ("problem" in judged) sorted.wrong.push({ text, problem: judged.problem });
    else if (judged.isBroad) broad.push(text);
    else if (steps + judged.size > MOST_STEPS) dear.push(text);
    else {
      steps += judged.size;
      sorted.usable.push({ text, pattern, needs: judged.needs });
    }
  }
  return { ...sorted, broad, dear };
}

/** How many steps a skill's patterns may unfold to together: in the worst case a query costs its length times that. */
const MOST_STEPS = 1000;

function judgePatterns(key: string, { wrong, broad, dear }: SortedPatterns, report: Report): void {
  const shown = (text: string | undefined) => `"${oneLine(text ?? "", 64)}"`;
  if (wrong.length > 0) {
    const each = wrong.slice(0, 3).map(({ text, problem }) => `${shown(text)} ${problem}`);
    report(
      "trigger-pattern",
      key,
      `"${key}" has patterns that cannot be used: ${each.join("; ")}${andMore(wrong.slice(2))}`,
    );
  }
  if (broad.length > 0)
    report("trigger-broad", key, `"${key}" has ${shown(broad[0])}${andMore(broad)}, which fits every query`);
  if (dear.length > 0)
    report(
      "trigger-limit",
      key,
      `"${key}" has patterns that repeat too much together; ${shown(dear[0])}${andMore(dear)} is left out`,
    );
}

function unknownKeys(triggers: unknown, report: Report): void {
  if (!isData(triggers)) return;
  for (const key of Object.keys(triggers)) {
    if ((KINDS as readonly string[]).includes(key)) continue;
    const meant = KINDS.find((kind) => isWithinOneEdit(key, kind));
    if (meant) report("key-misspelled", "triggers", `"triggers.${oneLine(key, 64)}" is not a known key`, meant);
    else report("key-unknown", "triggers", `"triggers.${oneLine(key, 64)}" is not a known key`);
  }
}

function andMore(items: readonly unknown[]): string {
  return items.length > 1 ? ` and ${items.length - 1} more` : "";
}
