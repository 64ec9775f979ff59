import { execFileSync } from "node:child_process";
import { mkdirSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EFFECT } from "../store/run-scene.ts";
import { skillet } from "../support/command.ts";
import { moduleOf } from "../support/program.ts";
import { AT, createStartLines, forgeJournal, GOOD, homeWith, ODD } from "./runs-scene.ts";

const END = { type: "end", at: AT, stop: "answer", isError: false, iterations: 1, ms: 1, usage: {} };
const event = (more: object) => ({ type: "event", at: AT, event: { run: ODD, skill: "mailer", at: AT, ...more } });

/** Lines with a correct checksum that are invalid nonetheless. */
const FORGED: Record<string, readonly object[]> = {
  "no time": createStartLines(ODD, { at: 5 }),
  "an invalid time": createStartLines(ODD, { at: "then" }),
  "a skill with an invalid name": createStartLines(ODD, { skill: { a: 1 } }),
  "no task": createStartLines(ODD, { task: null }),
  "a workspace that is not a path": createStartLines(ODD, { workspace: 5 }),
  "no request": [...createStartLines(ODD).slice(0, 1), { type: "request", at: AT, request: null }],
  "an end without usage": [...createStartLines(ODD), END],
  "an end with an unknown reason": [...createStartLines(ODD), { ...END, stop: "gone" }],
  "an invalid event": [...createStartLines(ODD), { type: "event", at: AT }],
  "a call of nothing": [...createStartLines(ODD), event({ type: "tool-called" })],
  "a refusal without reasons": [...createStartLines(ODD), event({ type: "run-refused" })],
  "a run a thousand million deep": [...createStartLines(ODD), event({ type: "run-started", model: "m", depth: 1e9 })],
  "a question about nothing": [...createStartLines(ODD), { type: "ask", at: AT, name: "approval:1.1" }],
  "a question that cannot be shown": [
    ...createStartLines(ODD),
    { type: "ask", at: AT, name: "approval:1.1", approvalRequest: { ...EFFECT, what: { a: 1 }, source: undefined } },
  ],
};

describe("a journal with", () => {
  for (const [what, lines] of Object.entries(FORGED)) {
    it(`${what} is invalid, and does not hide other runs from the list`, async () => {
      const { home } = homeWith({ [ODD]: forgeJournal(...lines) });
      const run = (...args: string[]) => skillet(args, { env: { HOME: home } });
      const { code, stdout } = await run("runs");
      expect([code, stdout]).toEqual([0, expect.stringContaining(GOOD.slice(-8))]);
      expect(stdout).toMatch(/00000002 .*corrupt/);
      for (const args of [
        ["show", ODD],
        ["show", ODD, "--json"],
      ])
        expect((await run("runs", ...args)).stderr).not.toContain("bug in skillet");
      for (const [command = "", message] of [
        ["approve", "its journal is corrupt"],
        ["resume", "its journal is corrupt"],
      ])
        expect(await run(command, ODD)).toMatchObject({ code: 1, stderr: expect.stringContaining(message ?? "") });
    });
  }
});

describe("another file type in place of a journal", () => {
  it("[Q-24] a file of ten gigabytes is not read", async () => {
    const { home, runs } = homeWith({ [ODD]: forgeJournal(...createStartLines(ODD)) });
    truncateSync(join(runs, `${ODD}.jsonl`), 10e9);
    const { code, stdout } = await skillet(["runs"], { env: { HOME: home } });
    expect([code, stdout]).toEqual([0, expect.stringContaining(GOOD.slice(-8))]);
    const { stderr } = await skillet(["runs", "show", ODD], { env: { HOME: home } });
    expect(stderr).toContain("larger than 256 MiB");
  });

  it("a folder does not prevent removing others", async () => {
    const { home, runs } = homeWith({});
    mkdirSync(join(runs, `${ODD}.jsonl`));
    const { code, stdout } = await skillet(["runs", "prune", "--older-than", "0"], { env: { HOME: home } });
    expect([code, stdout]).toEqual([0, expect.stringContaining(GOOD.slice(-8))]);
  });

  it("a pipe in place of an owner file does not block", async () => {
    const { home, runs } = homeWith({ [ODD]: forgeJournal(...createStartLines(ODD)) });
    execFileSync("mkfifo", [join(runs, `${ODD}.owner`)]);
    const list = `import { createRunStore } from ${JSON.stringify(moduleOf("store/runs"))};
      process.stdout.write(String((await createRunStore(${JSON.stringify(join(home, ".skillet"))}).list()).length));`;
    const args = ["--input-type=module", "-e", list];
    expect(execFileSync(process.execPath, args, { encoding: "utf8", timeout: 45_000, stdio: "pipe" })).toBe("2");
  });
});
