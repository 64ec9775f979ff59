import { nearest, oneLine } from "../shared/text.ts";
import { type Data, isData } from "./data.ts";
import type { Triggers } from "./fields.ts";
import { globPattern } from "./glob.ts";
import type { Report } from "./manifest.ts";
import { judgePattern } from "./pattern.ts";

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
export const LONGEST_PHRASE = 24;

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
    judgePatterns(triggers.patterns, "triggers", (pattern) => pattern, report);
  }
  judgePatterns(paths, "paths", globPattern, report);
}

/** Whether a text can be found as a word or phrase. */
export function isPhrase(text: string): boolean {
  return /[^\s_-]/.test(text) && text.length <= 400 && text.trim().split(/\s+/).length <= LONGEST_PHRASE;
}

const KINDS = ["keywords", "verbs", "patterns", "examples", "negative"] as const satisfies readonly (keyof Triggers)[];

function judgePatterns(
  written: readonly string[],
  key: string,
  asPattern: (text: string) => string,
  report: Report,
): void {
  const wrong: { text: string; problem: string }[] = [];
  const broad: string[] = [];
  for (const text of written.slice(0, MOST_TRIGGERS.patterns)) {
    const judged = judgePattern(asPattern(text));
    if ("problem" in judged) wrong.push({ text, problem: judged.problem });
    else if (judged.isBroad) broad.push(text);
  }
  const [first] = wrong;
  if (first)
    report(
      "trigger-pattern",
      key,
      `"${key}" has the pattern "${oneLine(first.text, 64)}", which ${first.problem}${andMore(wrong)}`,
    );
  if (broad[0] !== undefined)
    report("trigger-broad", key, `"${key}" has "${oneLine(broad[0], 64)}"${andMore(broad)}, which fits every query`);
}

function unknownKeys(triggers: unknown, report: Report): void {
  if (!isData(triggers)) return;
  for (const key of Object.keys(triggers)) {
    if ((KINDS as readonly string[]).includes(key)) continue;
    const meant = nearest(key, KINDS);
    if (meant) report("key-misspelled", "triggers", `"triggers.${oneLine(key, 64)}" is not a known key`, meant);
    else report("key-unknown", "triggers", `"triggers.${oneLine(key, 64)}" is not a known key`);
  }
}

function andMore(items: readonly unknown[]): string {
  return items.length > 1 ? ` and ${items.length - 1} more` : "";
}
