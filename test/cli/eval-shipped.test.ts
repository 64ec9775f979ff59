import { chmodSync, cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readEvalReports } from "../../src/eval/eval-report.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { MODEL, startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

const shipped = join(import.meta.dirname, "../../skills/code-review");
const queries: { query: string; should_trigger: boolean }[] = JSON.parse(
  readFileSync(join(shipped, "evals/triggers.json"), "utf8"),
);

/** A reviewer that finds the defects with the skill, misses them without it, and selects the skill for its purpose. */
const reviewer: Turn = ({ tools, instructions, prompt, results }) => {
  if ("load_skill" in tools) {
    const isFor = queries.some(({ query, should_trigger }) => should_trigger && query === prompt);
    return isFor ? [{ tool: "load_skill", input: { skill: "code-review" } }] : "I can answer that.";
  }
  if (!instructions.includes("# Code review")) return "Looks good to me.";
  const [, file = ""] = /(\w+\.(?:js|py))/.exec(prompt) ?? [];
  if (results.length === 0) return [{ tool: "read_file", input: { path: file } }];
  if (file === "average.js") return "average.js:3: the loop goes one too far (<=), so the sum is NaN.";
  if (file === "search.py") return "search.py:5: command injection through shell=True; pass a list of arguments.";
  return "No findings.";
};

describe("a shipped skill, evaluated against a model on the loopback interface", () => {
  it("has a report at all four levels, and a page with charts", async () => {
    const server = await startModelServer("openai", reviewer);
    const prices = `[prices."${MODEL}"]\ninput = 3\noutput = 15\n`;
    const home = temporaryFolder({ ".skillet/config.toml": `${modelConfig("openai", server)}\n${prices}` });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
    const cwd = temporaryFolder({ "average.js": readFileSync(join(shipped, "evals/average.js"), "utf8") });
    chmodSync(cwd, 0o777);
    const run = (...args: string[]) => skillet(args, { cwd, env: { HOME: home } });

    expect((await run("eval", "code-review", "--ci", "--report", "route.xml")).code).toBe(0);
    expect(readFileSync(join(cwd, "route.xml"), "utf8")).toContain('<testsuite name="code-review"');

    const trigger = await run("eval", "code-review", "--level", "trigger", "-k", "1", "--ci", "--concurrency", "4");
    expect(trigger.stdout).toMatch(/picked +100 % /);
    expect(trigger.code).toBe(0);

    const task = await run(
      "eval",
      "code-review",
      "--level",
      "task",
      "--ci",
      "--report",
      "task.html",
      "--report",
      "task.md",
    );
    expect(task.stdout).toContain("skill    100 %  15/15");
    expect(task.stdout).toMatch(/helps {2}\+67 points/);
    expect(task.code).toBe(0);
    const page = readFileSync(join(cwd, "task.html"), "utf8");
    expect(page).toMatch(/helps<\/span> skill against none: \+67 points/);
    expect(page).toContain("<td>off-by-one</td>");
    expect(readFileSync(join(cwd, "task.md"), "utf8")).toContain("**skill against none: helps");

    const ran = await run("run", "code-review", "Review average.js.", "--record", "average.json");
    expect(ran.stderr).toContain("recorded in ");
    cpSync(shipped, join(cwd, "skills/code-review"), { recursive: true });
    cpSync(join(cwd, "average.json"), join(cwd, "skills/code-review/evals/recorded/average.json"));
    rmSync(join(home, ".skillet/config.toml"));
    const replay = await run("test", "skills/code-review");
    expect([replay.stdout, replay.code]).toEqual(["✓ code-review/average.json: 2 steps as recorded\n", 0]);
    const file = join(cwd, "skills/code-review/SKILL.md");
    writeFileSync(file, readFileSync(file, "utf8").replace("You change nothing.", "You change everything."));
    const changed = await run("test", "skills/code-review");
    expect(changed.stdout).toContain("step 1, prompt: the system prompt differs");
    expect(changed.code).toBe(1);

    const levels = readEvalReports(join(home, ".skillet")).map(({ level }) => level);
    expect(new Set(levels)).toEqual(new Set(["route", "trigger", "task", "replay"]));
  });
});
