import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = import.meta.dirname;

/** Helpers that wait on behalf of tests, fixtures that no test runs, and this file, which contains examples. */
const SKIPPED = /^(?:fixtures|scan\/sets)\/|(?:^|\/)(?:support|node_modules)\/|^no-wall-time\.test\.ts$/;

/** A line of a test that depends on how fast the machine is. */
interface Finding {
  line: number;
  code: string;
  fix: string;
}

const COUNT = "count work (test/support/steps.ts), or show by the order of events what the time stands for";
const WAIT = "wait for a condition (waitFor in test/support/wait-for.ts), or for an event that comes later";

const CLOCK = String.raw`\b(?:performance|Date)\.now\(\)`;
/** Elapsed time, also where it is rounded. */
const ELAPSED = String.raw`(?:Math\.\w+\(\s*)?${CLOCK}\s*-`;
/** The argument of an assertion, as far as it is on one line. */
const ASSERTED = String.raw`\bexpect(?:\.\w+)?\([^;\n]*`;

interface Rule {
  pattern: RegExp;
  fix: string;
}

const RULES: readonly Rule[] = [
  { pattern: new RegExp(`${ASSERTED}${CLOCK}\\s*[-<>]`, "g"), fix: COUNT },
  // Results of the program have their own duration.
  { pattern: /\bexpect\((?:[\w?]+\.)*ms\b[^;\n]*\)\s*\.(?:not\.)?toBeLessThan/g, fix: COUNT },
  {
    pattern: /\bnew Promise(?:<[^>\n]*>)?\(\s*\(?(\w+)\)?\s*=>\s*(?:void\s|\{)?\s*setTimeout\(\s*\1,\s*[\d_]+/g,
    fix: WAIT,
  },
  { pattern: /\bawait (?:sleep|after|delay|pause|setTimeout)\(\s*[\d_.]+/g, fix: WAIT },
  {
    pattern: /\bsetTimeout\(\(\) => [\w.]*\b(?:abort|kill|end|destroy|close|write\w*)\([^;\n]*, *[\d_]+\)/g,
    fix: WAIT,
  },
];

/** Variables that hold elapsed time, and lists of it. */
const TIMED = [new RegExp(`\\b(\\w+)\\s*=\\s*${ELAPSED}`, "g"), new RegExp(`\\b(\\w+)\\.push\\(\\s*${ELAPSED}`, "g")];

/** Returns the lines of a test that compare elapsed time in an assertion, or sleep for a fixed time. */
function findWallTime(text: string): Finding[] {
  const timed = TIMED.flatMap((pattern) => [...text.matchAll(pattern)].map(([, name = ""]) => name));
  const rules = timed.map((name) => ({ pattern: new RegExp(`${ASSERTED}\\b${name}\\b`, "g"), fix: COUNT }));
  const findings = [...RULES, ...rules].flatMap(({ pattern, fix }) =>
    [...text.matchAll(pattern)].map(({ 0: code, index }) => ({ line: lineAt(text, index), code, fix })),
  );
  return [...new Map(findings.map((finding) => [finding.line, finding])).values()].sort((a, b) => a.line - b.line);
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}

/** Lines that may stay, with what they contain and the reason. */
const EXCEPTIONS: readonly { file: string; code: string; reason: string }[] = [
  {
    file: "config/live-settings.test.ts",
    code: "await sleep(60",
    reason: "a process looks at its files every 50 ms at most: this is longer, and longer still does no harm",
  },
  {
    file: "config/live-settings.test.ts",
    code: "await sleep(20",
    reason: "a pause between two looks of a process that waits for a condition",
  },
  {
    file: "store/runs.test.ts",
    code: "setTimeout(resolve, 2",
    reason: "a pause between two looks of a process that waits for nineteen others",
  },
];

const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => /\.(?:ts|mjs|js)$/.test(path) && !SKIPPED.test(path));

describe("tests", () => {
  it("neither compare elapsed time nor sleep for a fixed time", () => {
    const used = new Set<object>();
    const problems = files.flatMap((file) =>
      findWallTime(readFileSync(join(root, file), "utf8")).flatMap(({ line, code, fix }) => {
        const exception = EXCEPTIONS.find((one) => one.file === file && code.includes(one.code));
        if (exception) used.add(exception);
        return exception ? [] : [`test/${file}:${line} has ${code}: ${fix}`];
      }),
    );
    expect(problems).toEqual([]);
    expect(
      EXCEPTIONS.filter((exception) => !used.has(exception)),
      "exceptions without a need",
    ).toEqual([]);
  });

  it.each([
    "expect(performance.now() - start).toBeLessThan(5000);",
    "expect(Date.now() - start, title).toBeLessThan(5000);",
    'expect([stdout, performance.now() - start > 1500]).toEqual(["", true]);',
    "await expect.poll(() => Date.now() - start).toBeLessThan(9);",
    "const took = performance.now() - start;\nexpect(took).toBeLessThan(9);",
    "times.push(Math.round(performance.now() - start));\nexpect(Math.min(...times)).toBeLessThan(45);",
    "expect(result.ms).toBeLessThan(5000);",
    "await new Promise((resolve) => setTimeout(resolve, 100));",
    "new Promise<void>((done) => { setTimeout(done, 7_000) });",
    "await sleep(1500);",
    "setTimeout(() => controller.abort(), 1000);",
  ])("that break this rule are found: %s", (text) => {
    expect(findWallTime(text)).toHaveLength(1);
  });

  it.each([
    "await waitFor(() => Date.now() - newest > ms);",
    "const at = new Date(Date.now() - 60_000);\nexpect(at).toBeDefined();",
    "await sleep(seconds * 1100);",
    "await new Promise((resolve) => setImmediate(resolve));",
    "expect(result).toMatchObject({ ms: expect.any(Number) });",
  ])("can involve time otherwise: %s", (text) => {
    expect(findWallTime(text)).toEqual([]);
  });
});
