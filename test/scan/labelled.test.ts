import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scanSkill } from "../../src/scan/scan.ts";
import { isHeldOut, type Labelled, subjectFrom } from "./carrier.ts";
import { heldOutHalf } from "./fresh.ts";
import { FRESH_HARMFUL } from "./fresh-harmful.ts";
import { FRESH_PLAIN } from "./fresh-plain.ts";
import { HARMFUL } from "./harmful.ts";
import { PLAIN } from "./plain.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/scan.md"), "utf8");

/** A finding above the severity of a hint. */
const isFound = (skill: Labelled) => scanSkill(subjectFrom(skill)).some(({ weight }) => weight !== "low");
const heldOut = (list: readonly Labelled[]) => list.filter(({ isSecond }, index) => isHeldOut(index) && !isSecond);
const countFound = (list: readonly Labelled[]) => list.filter(isFound).length;
const share = (part: number, whole: number) => `${part} of ${whole} (${((100 * part) / whole).toFixed(1)} %)`;

describe("the labeled set", () => {
  const missed = [...HARMFUL, ...FRESH_HARMFUL].filter((skill) => !isFound(skill));
  const alarmed = PLAIN.filter(isFound);
  const evasive = HARMFUL.filter(({ isEvasive }) => isEvasive);
  const hints = PLAIN.filter((skill) => scanSkill(subjectFrom(skill)).length > 0 && !isFound(skill));
  const figures = {
    recall: share(countFound(HARMFUL), HARMFUL.length),
    heldOutRecall: share(heldOut(HARMFUL).filter(isFound).length, heldOut(HARMFUL).length),
    evasiveRecall: share(evasive.filter(isFound).length, evasive.length),
    falseAlarms: share(alarmed.length, PLAIN.length),
    heldOutFalseAlarms: share(heldOut(PLAIN).filter(isFound).length, heldOut(PLAIN).length),
    onlyHints: share(hints.length, PLAIN.length),
    freshRecall: share(countFound(FRESH_HARMFUL), FRESH_HARMFUL.length),
    freshHeldOutRecall: share(countFound(heldOutHalf(FRESH_HARMFUL)), heldOutHalf(FRESH_HARMFUL).length),
    freshFalseAlarms: share(countFound(FRESH_PLAIN), FRESH_PLAIN.length),
    freshHeldOutFalseAlarms: share(countFound(heldOutHalf(FRESH_PLAIN)), heldOutHalf(FRESH_PLAIN).length),
  };

  it("is large, and has no duplicate skill", () => {
    expect(HARMFUL.filter(({ isEvasive }) => !isEvasive).length).toBeGreaterThanOrEqual(70);
    expect(evasive.length).toBeGreaterThanOrEqual(12);
    expect(PLAIN.length).toBeGreaterThanOrEqual(220);
    for (const list of [FRESH_HARMFUL, FRESH_PLAIN]) expect(list.length).toBe(60);
    const every = [...HARMFUL, ...PLAIN, ...FRESH_HARMFUL, ...FRESH_PLAIN];
    expect(new Set(every.map(({ id }) => id)).size).toBe(every.length);
    expect(new Set(every.map(({ files }) => JSON.stringify(files))).size).toBe(every.length);
    expect(new Set(HARMFUL.map(({ family }) => family)).size).toBe(11);
  });

  it("has high recall and few false alarms, also in the half that no rule was tuned against", () => {
    // biome-ignore lint/suspicious/noConsole: the figures are what this test is for.
    console.log(`scan: ${JSON.stringify(figures)}`);
    const recall = (list: readonly Labelled[]) => list.filter(isFound).length / list.length;
    expect(recall(HARMFUL)).toBeGreaterThan(0.93);
    expect(recall(heldOut(HARMFUL))).toBeGreaterThan(0.75);
    expect(recall(HARMFUL.filter(({ isEvasive }) => !isEvasive))).toBeGreaterThan(0.93);
    expect(alarmed.length / PLAIN.length).toBeLessThan(0.02);
    expect(heldOut(PLAIN).filter(isFound).length / heldOut(PLAIN).length).toBeLessThan(0.03);
  });

  it("has high recall for skills of another author", () => {
    expect(countFound(FRESH_HARMFUL)).toBeGreaterThanOrEqual(58);
    expect(countFound(heldOutHalf(FRESH_HARMFUL))).toBeGreaterThanOrEqual(28);
    expect(countFound(FRESH_PLAIN)).toBe(0);
  });

  it("has its figures, its misses and its false alarms in the documentation", () => {
    for (const [name, figure] of Object.entries(figures)) expect(page, name).toContain(figure);
    const listed = (heading: string) => {
      const [, section = ""] = page.split(`\n### ${heading}\n`);
      return [...(section.split("\n#")[0] ?? "").matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(([, id]) => id);
    };
    expect(listed("Missed").sort()).toEqual(missed.map(({ id }) => id).sort());
    const alarms = [...PLAIN, ...FRESH_PLAIN].filter(isFound);
    expect(listed("False alarms").sort()).toEqual(alarms.map(({ id }) => id).sort());
  });

  it("has a place in every finding of text", () => {
    for (const skill of [...HARMFUL, ...PLAIN, ...FRESH_HARMFUL, ...FRESH_PLAIN]) {
      const { files } = subjectFrom(skill);
      for (const { file, line, column, rule } of scanSkill(subjectFrom(skill))) {
        const text = Buffer.from(files.get(file)?.bytes ?? []).toString();
        if (line === undefined) expect(FILE_RULES, rule).toContain(rule);
        else
          expect(text.split("\n")[line - 1]?.length, `${skill.id} ${rule}`).toBeGreaterThanOrEqual((column ?? 1) - 1);
      }
    }
  });
});

const FILE_RULES = ["false-ending", "double-ending", "compiled", "archive", "partly-read"];
