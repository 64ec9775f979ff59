import { describe, expect, it } from "vitest";
import type { ScanSubject } from "../../src/scan/finding.ts";
import { PAGE_RULES, TEXT_RULES } from "../../src/scan/rules.ts";
import { scanFiles, scanSkill } from "../../src/scan/scan.ts";
import { allowed } from "../support/slowness.ts";
import { subjectFrom } from "./carrier.ts";
import { PLAIN } from "./plain.ts";

/** An eighth of what is read of a file, and an eighth of what that may take: what is linear takes a tenth of it. */
const LENGTH = 2 ** 17;
const MOST_MS = 310;

/** Of the processor's time, the best of a few, since other work runs beside this. */
const timeOf = (work: () => void, tries = 3) =>
  Math.min(
    ...[...Array(tries).keys()].map(() => {
      const start = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(start);
      return (user + system) / 1000;
    }),
  );

const filled = (text: string) => text.repeat(Math.ceil(LENGTH / text.length)).slice(0, LENGTH);
const expectLinear = (path: string, text: string) => {
  const files = new Map([[path, { bytes: Buffer.from(filled(text)), executable: false }]]);
  const work = () => scanFiles(files);
  const first = timeOf(work, 1);
  const taken = first < MOST_MS ? first : timeOf(work);
  expect(taken, text.slice(0, 60)).toBeLessThan(allowed(MOST_MS, taken));
};

describe("the cost of scanning", () => {
  it("is well under a second for a thousand usual skills", () => {
    const cut = (text: string) => text.repeat(Math.ceil(4096 / text.length)).slice(0, 4096);
    const subjects = PLAIN.map((skill): ScanSubject => {
      const [own = "", other = "print(1)\n"] = Object.values(skill.files).map(String);
      const [, head = "", body = ""] = own.split("---\n");
      const files = {
        "SKILL.md": `---\n${head}---\n${cut(body)}`,
        "scripts/run.py": cut(other),
        "references/more.md": cut(body),
      };
      return subjectFrom({ id: skill.id, files });
    });
    const thousand = [...Array(1000).keys()].map((n) => subjects[n % subjects.length] as ScanSubject);
    const time = timeOf(() => thousand.forEach(scanSkill));
    expect(time).toBeLessThan(1500);
  });

  // A machine that is busy with other things is given ten times what it takes.
  it.each(TEXT_RULES.map((rule) => [rule.id, rule.words] as const))("is linear for %s", (_, words) => {
    const [word = ""] = words;
    const texts = [`${words.join(" ")} `, `${word} $( | "`, `${words.join("\n")}\n`];
    for (const text of texts) expectLinear("run.sh", text);
  });

  it.each(PAGE_RULES.map((rule) => [rule.id, rule.all.flat()] as const))("is linear for %s", (_, words) => {
    for (const path of ["run.sh", "package.json"]) {
      for (const between of [" ", "\n"]) expectLinear(path, words.join(between) + between);
    }
  });

  it.each([
    "\u200b",
    "\u{e0041}",
    "\u202e",
    "\x1b",
    "aа",
    "a\ufe0f",
    "`",
    '"',
    "```\n",
    "<!--",
    "\\\n",
    "|\n",
    "$(",
    "[//]: # ",
    'style="display',
    "A1+/",
  ])("is linear for a file full of %j", (text) => {
    for (const path of ["a.md", "a.sh"]) expectLinear(path, text);
  });
});
