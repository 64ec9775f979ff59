import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scanSkill } from "../../src/scan/scan.ts";
import { BEHAVIOR_HALVES, loadBehaviors } from "./behaviors/load-behaviors.ts";
import { type Labelled, subjectFrom } from "./carrier.ts";
import { HALVES, loadSecondSet, loadSets, type Sample } from "./sets/load-sets.ts";
import { loadVariants } from "./variants/load-variants.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/scan.md"), "utf8");

type Level = "high" | "medium" | "none";
const findLevel = (skill: Labelled): Level => {
  const weights = new Set(scanSkill(subjectFrom(skill)).map(({ weight }) => weight));
  return weights.has("high") ? "high" : weights.has("medium") ? "medium" : "none";
};
const toLabelled = ({ name, files }: Sample): Labelled => ({
  id: name,
  files: Object.fromEntries(files.map(({ path, text }) => [path, text])),
});

/** The share with its 95 % interval (Wilson), as the documentation has it. */
function formatShare(part: number, whole: number): string {
  const z = 1.96;
  const share = part / whole;
  const center = (share + z ** 2 / (2 * whole)) / (1 + z ** 2 / whole);
  const half = (z * Math.sqrt((share * (1 - share)) / whole + z ** 2 / (4 * whole ** 2))) / (1 + z ** 2 / whole);
  const percent = (value: number) => (100 * Math.min(1, Math.max(0, value))).toFixed(1);
  return `${part} of ${whole} (${percent(share)} %, ${percent(center - half)}–${percent(center + half)})`;
}

/** The number of high findings, and of high or medium ones, of the malicious, the ordinary and the hard ordinary skills of a set. */
function measure(list: readonly Sample[]) {
  const samples = list.map((sample) => ({ ...sample, level: findLevel(toLabelled(sample)) }));
  const count = (group: readonly (typeof samples)[number][]) => ({
    all: group.length,
    high: group.filter(({ level }) => level === "high").length,
    found: group.filter(({ level }) => level !== "none").length,
  });
  return {
    malicious: count(samples.filter(({ label }) => label === "malicious")),
    ordinary: count(samples.filter(({ label }) => label === "ordinary")),
    hard: count(samples.filter(({ isHard }) => isHard)),
  };
}

describe("the figures of the scanner on the evaluation set", () => {
  const measured = HALVES.map((half) => measure(loadSets([half])));
  const second = HALVES.map((half) => measure(loadSecondSet(half)));
  const behaviors = BEHAVIOR_HALVES.map((half) => measure(loadBehaviors(half)));

  it("match the pinned recall and false alarms", () => {
    expect(measured).toEqual(PINNED);
    expect(behaviors).toEqual(PINNED_BEHAVIORS);
    expect(second).toEqual(PINNED_SECOND);
  });

  it("are in the documentation, with intervals", () => {
    for (const { malicious, ordinary } of [...measured, ...behaviors, ...second])
      for (const { high, found, all } of [malicious, ordinary])
        for (const part of [high, found]) expect(page).toContain(formatShare(part, all));
  });

  it("include in the documentation the classes of the tuning half with misses", () => {
    const missed = loadSets(["tuning"]).filter(
      (sample) => sample.label === "malicious" && findLevel(toLabelled(sample)) !== "high",
    );
    const [, section = ""] = page.split("\n### Not high in the tuning half\n");
    const listed = [...(section.split("\n#")[0] ?? "").matchAll(/^\| `([a-z0-9-]+)` \| `([a-z0-9-]+)` \|/gm)];
    expect(listed.map(([, family, name]) => `${family}/${name}`).sort()).toEqual(
      missed.map((sample) => `${sample.class}/${sample.name}`).sort(),
    );
  });

  it("include in the documentation what is not high in the second tuning half", () => {
    const missed = loadSecondSet("tuning").filter(
      (sample) => sample.label === "malicious" && findLevel(toLabelled(sample)) !== "high",
    );
    const [, section = ""] = page.split("\n### Not high in the second tuning half\n");
    const listed = [...(section.split("\n#")[0] ?? "").matchAll(/^\| `([a-z0-9-]+)` \| `([a-z0-9-]+)` \|/gm)];
    expect(listed.map(([, family, name]) => `${family}/${name}`).sort()).toEqual(
      missed.map((sample) => `${sample.class}/${sample.name}`).sort(),
    );
  });

  it("include the variants for the rules, with every malicious one found and no false alarm", () => {
    const levels = (skills: readonly Labelled[]) => skills.map(findLevel);
    const malicious = levels(loadVariants("malicious"));
    expect(malicious.length).toBe(308);
    expect(malicious.filter((level) => level === "high").length).toBeGreaterThanOrEqual(261);
    expect(malicious.filter((level) => level !== "none").length).toBeGreaterThanOrEqual(285);
    expect(levels(loadVariants("ordinary")).filter((level) => level !== "none")).toEqual([]);
  });
});

/** In the order of `HALVES`. A change here changes what the documentation promises. */
const PINNED = [
  {
    malicious: { all: 88, high: 88, found: 88 },
    ordinary: { all: 204, high: 0, found: 0 },
    hard: { all: 91, high: 0, found: 0 },
  },
  {
    malicious: { all: 88, high: 83, found: 84 },
    ordinary: { all: 203, high: 1, found: 5 },
    hard: { all: 93, high: 1, found: 4 },
  },
];

/** Of the second set, in the order of `HALVES`. */
const PINNED_SECOND = [
  {
    malicious: { all: 81, high: 80, found: 80 },
    ordinary: { all: 167, high: 1, found: 3 },
    hard: { all: 0, high: 0, found: 0 },
  },
  {
    malicious: { all: 81, high: 63, found: 69 },
    ordinary: { all: 156, high: 9, found: 11 },
    hard: { all: 0, high: 0, found: 0 },
  },
];

/** In the order of `BEHAVIOR_HALVES`. */
const PINNED_BEHAVIORS = [
  {
    malicious: { all: 39, high: 39, found: 39 },
    ordinary: { all: 54, high: 0, found: 0 },
    hard: { all: 43, high: 0, found: 0 },
  },
  {
    malicious: { all: 38, high: 37, found: 38 },
    ordinary: { all: 54, high: 0, found: 0 },
    hard: { all: 44, high: 0, found: 0 },
  },
];
