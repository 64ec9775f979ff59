import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readEvalReports } from "../../src/eval/eval-report.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { MODEL, type ModelRequest, type Reply, startModelServer, type Turn } from "../support/model-server.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";
import { modelConfig } from "../support/use.ts";

const TASKS = `version: 1
trials: 6
cases:
  - name: total
    prompt: Write the sum of sales.csv to total.txt.
    files:
      sales.csv: "1\\n2\\n"
    graders:
      - file: { path: total.txt, equals: "3" }
      - command: { run: 'test "$(cat total.txt)" = "$(cat $SKILLET_EVALS/expected)"' }
      - answer: { contains: done, not_matches: "(?i)sorry" }
      - tool_used: bash
      - tool_order: [read_file, bash]
      - max_tokens: 1000
`;
const PRICES = `[prices."${MODEL}"]\ninput = 100000\noutput = 100000\n`;

/** An agent that succeeds only with the skill: then it writes the sum, otherwise it only answers. */
const agent: Turn = ({ instructions, results }): Reply => {
  if (!instructions.includes("Add up the lines")) return "done, I think";
  if (results.length === 0) return [{ tool: "read_file", input: { path: "sales.csv" } }];
  if (results.length === 1) return [{ tool: "bash", input: { command: "printf 3 > total.txt" } }];
  return "done";
};

interface TaskScene {
  tasks?: string;
  config?: string;
  files?: Record<string, string>;
  trusted?: readonly string[];
}

async function scene(
  turns: Turn,
  { tasks = TASKS, config = PRICES, files = {}, trusted = ["skills/sums"] }: TaskScene = {},
) {
  const server = await startModelServer("openai", turns);
  const home = temporaryFolder({ ".skillet/config.toml": `${modelConfig("openai", server)}\n${config}` });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  const cwd = temporaryFolder({
    "skills/sums/SKILL.md": skillText("sums", { body: "Add up the lines." }),
    "skills/sums/evals/tasks.yaml": tasks,
    "skills/sums/evals/expected": "3",
    ...files,
  });
  for (const path of trusted) await skillet(["trust", path, "--yes"], { cwd, env: { HOME: home } });
  const run = (...args: string[]) =>
    skillet(["eval", "skills/sums", "--level", "task", ...args], { cwd, env: { HOME: home, SKILLS_DIR: "none" } });
  return { server, home, cwd, run };
}

const isBaseline = ({ instructions }: ModelRequest) => !instructions.includes("Add up the lines");

describe("skillet eval --level task", () => {
  it("does the tasks with and without the skill, grades them and reports that it helps", async () => {
    const { run, server, home } = await scene(agent);
    const { code, stdout, stderr } = await run("--max-cost", "1000");
    expect(stderr).toContain("plan: 1 case, arms none, skill, 12 trials, with openai-compatible/test-model\n");
    expect(stderr).toContain(
      "sums: 6 pairs are too few to show any difference with a power of 80 %; 46 pairs show 30 points, if half of the trials pass without the skill",
    );
    expect(stderr).toContain("ceiling: $1000");
    expect(stdout).toContain("none       0 %  0/6  95 % 0-39 %");
    expect(stdout).toContain("skill    100 %  6/6  95 % 61-100 %");
    expect(stdout).toMatch(/helps {2}\+100 points, 95 % \+\d+ to \+100, p = 0\.031, 6 pairs: 6 gained, 0 lost/);
    expect(stdout).toContain("none: total.txt does not exist (6x)");
    expect(stdout).toContain("24 model calls, 240 input and 120 output tokens, $36.0000");
    expect(code).toBe(0);
    expect(server.requests).toHaveLength(24);
    expect(server.requests.slice(0, 1).map(isBaseline)).toEqual([true]);
    const tools = server.requests.map((request) => Object.keys(request.tools).sort().join());
    expect(new Set(tools).size, "both arms have the same tools").toBe(1);
    const [report] = readEvalReports(join(home, ".skillet"));
    expect(report).toMatchObject({ level: "task", model: "openai-compatible/test-model", passed: null });
    expect(report?.spent).toMatchObject({ calls: 24, dollars: 36, ceiling: 1000 });
    expect(report?.skills[0]?.cases[0]?.arms).toMatchObject({ none: { passed: 0, trials: 6 }, skill: { passed: 6 } });
  });

  it("prints only the plan with --dry-run, and estimates the cost from earlier evaluations", async () => {
    const { run, server } = await scene(agent);
    const before = await run("--dry-run");
    expect(before.code).toBe(0);
    expect(before.stdout).toBe("");
    expect(before.stderr).not.toContain("about $");
    expect(server.requests).toHaveLength(0);
    await run("--max-cost", "1000");
    const { stderr } = await run("--dry-run", "--effect", "0.2");
    // Six trials of the arm without the skill are reused: the other six cost three dollars each, on average over both arms.
    expect(stderr).toContain("12 trials, 6 of them known from before");
    expect(stderr).toContain("about $18.00, from 12 earlier trials");
    expect(stderr).toMatch(/\d+ pairs show 20 points/);
    expect(server.requests).toHaveLength(24);
  });

  it("reuses trials without the skill until the model or the case changes, and not with --fresh", async () => {
    const { run, server } = await scene(agent);
    const count = async (...args: string[]) => {
      const before = server.requests.length;
      await run("--max-cost", "1000", "-k", "2", ...args);
      return server.requests.slice(before).filter(isBaseline).length;
    };
    expect([await count(), await count(), await count("--fresh")]).toEqual([2, 0, 2]);
  });

  it("stops at the ceiling, reports what is finished, and continues with --resume", async () => {
    const { run, server } = await scene(agent);
    // A call costs 1.50: the fourth one reaches five dollars.
    const stopped = await run("--max-cost", "5", "--ci");
    expect(stopped.code).toBe(4);
    expect(stopped.stderr).toContain("✗ The ceiling of $5 is reached  [eval-ceiling]");
    expect(stopped.stderr).toMatch(/trials of \S+ did not finish: repeat the command with --resume/);
    expect(server.requests).toHaveLength(4);
    const { code, stdout } = await run("--max-cost", "1000", "--resume", "--ci");
    expect(code).toBe(0);
    expect(stdout).toContain("skill    100 %  6/6");
    // Each finished trial was made once: the two without the skill and the one with it that the ceiling let through.
    expect(server.requests.filter(isBaseline)).toHaveLength(6);
    expect(server.requests).toHaveLength(24);
  });

  it.each(IS_LONG ? [5, 9, 14] : [9])(
    "continues after `kill -9` in model call %i, and repeats no finished trial",
    async (call) => {
      const kill = new AbortController();
      let count = 0;
      const { run, server, cwd, home } = await scene((request) => {
        if (++count !== call) return agent(request);
        kill.abort();
        return { hangs: true };
      });
      const args = ["eval", "skills/sums", "--level", "task", "--max-cost", "1000"];
      const killed = await runSkilletProcess(args, {
        cwd,
        env: { HOME: home, SKILLS_DIR: "none" },
        killOn: kill.signal,
      });
      expect(killed.signal).toBe("SIGKILL");
      const [file = ""] = readdirSync(join(home, ".skillet/evals")).filter((name) => name.endsWith(".jsonl"));
      const lines = readFileSync(join(home, ".skillet/evals", file), "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      const finished = lines.filter(({ type }) => type === "trial").length;
      const before = server.requests.length;
      expect(finished).toBeGreaterThan(0);
      expect(finished).toBeLessThan(12);
      const { code, stdout } = await run("--max-cost", "1000", "--resume", "--json");
      expect(code).toBe(0);
      const starts = (requests: readonly ModelRequest[]) =>
        requests.filter(({ results }) => results.length === 0).length;
      expect(starts(server.requests.slice(before))).toBe(12 - finished);
      const report = JSON.parse(stdout);
      expect(report.id).toBe(file.replace(".trials.jsonl", ""));
      expect(report.skills[0].cases[0].arms).toMatchObject({ none: { trials: 6 }, skill: { passed: 6, trials: 6 } });
      // Calls of a trial that was cut off are paid for and count, except the call that got no answer.
      expect(report.spent.calls).toBe(server.requests.length - 1);
      // It is complete: there is nothing to resume.
      const again = await run("--max-cost", "1000", "--resume", "--dry-run");
      expect(again.stderr).toContain("no unfinished evaluation with this plan");
    },
  );

  it("stops at a ceiling of limits.cost, which counts for all runs of the day", async () => {
    const { run, server } = await scene(agent, { config: `${PRICES}[limits.cost]\nday = 5\n` });
    const { code, stderr } = await run("--max-cost", "1000");
    expect([code, stderr]).toEqual([4, expect.stringContaining("the limit of limits.cost.day  [cost-limit]")]);
    expect(server.requests).toHaveLength(4);
    expect((await run("--max-cost", "1000", "--resume")).code).toBe(4);
    expect(server.requests).toHaveLength(4);
  });

  it("fails in CI if the skill hurts or too few trials pass", async () => {
    const hurts: Turn = (request) => (isBaseline(request) ? "done" : "sorry");
    const tasks =
      "version: 1\ncases:\n  - name: say\n    prompt: Say done.\n    graders: [{ answer: { contains: done } }]\n";
    const { run } = await scene(hurts, { tasks, config: "" });
    const { code, stdout, stderr } = await run("--ci", "-k", "8");
    expect(stderr).toContain(
      "! openai-compatible/test-model has no price under [prices], so no ceiling in dollars holds",
    );
    expect(stdout).toContain("hurts  -100 points");
    expect(code).toBe(1);
  });

  it("shows the date of the prices, an estimate from earlier trials, and fewer trials than the file asks for", async () => {
    const { run, home, cwd } = await scene(agent, { config: `${PRICES}date = "2026-11-01"\n` });
    const first = await run("--max-cost", "1000", "-k", "2", "--report", "report.md", "--json");
    expect(first.stderr).toContain("4 trials, with ");
    expect(first.stderr).toContain("ceiling: $1000, with the prices of 2026-11-01");
    expect(JSON.parse(first.stdout).spent).toMatchObject({ calls: 8, priceDate: "2026-11-01" });
    expect(readFileSync(join(cwd, "report.md"), "utf8")).toMatch(/8 model calls, .* \(prices of 2026-11-01\)/);
    const plan = await run("--max-cost", "1000", "-k", "4", "--dry-run", "--fresh");
    expect(plan.stderr).toMatch(/about \$\d+\.\d\d, from 4 earlier trials/);
    const use = (...args: string[]) =>
      skillet(["run", "sums", "Add.", ...args], { cwd, env: { HOME: home, SKILLS_DIR: "skills" } });
    expect((await use()).stderr).not.toContain("earlier run");
    expect((await use()).stderr).toMatch(/· about \$\d+\.\d{4}, from 1 earlier run\n/);
    expect((await use("--dry-run")).stdout + (await use("--dry-run")).stderr).toContain("from 2 earlier runs");
  });

  it("exceeds the ceiling by at most one model call with 50 trials at once", async () => {
    const { run, server } = await scene(agent);
    const { code, stdout } = await run("--concurrency", "50", "-k", "50", "--max-cost", "20", "--json");
    expect(code).toBe(4);
    const { spent } = JSON.parse(stdout);
    const price = spent.dollars / spent.calls;
    expect(spent.calls).toBe(server.requests.length);
    expect(spent.dollars).toBeGreaterThanOrEqual(20);
    expect(spent.dollars - price).toBeLessThan(20);
  });

  it("compares with an old version and with a rival", async () => {
    const { run } = await scene(agent, {
      files: {
        "old/sums/SKILL.md": skillText("sums", { body: "Guess." }),
        "skills/adder/SKILL.md": skillText("adder", { body: "Add up the lines, too." }),
      },
      trusted: [],
    });
    const { stdout, stderr } = await run(
      "--old",
      "old/sums",
      "--rival",
      "adder",
      "--trust",
      "--max-cost",
      "1000",
      "--json",
    );
    expect(stderr).toContain("arms none, skill, old, rival, 24 trials");
    const [skill] = JSON.parse(stdout).skills;
    expect(skill.comparisons.map(({ baseline, arm, difference }: never) => [baseline, arm, difference])).toEqual([
      ["none", "skill", 1],
      ["old", "skill", 1],
      ["rival", "skill", 0],
    ]);
    // Three comparisons: the smallest p-value counts three times.
    expect(skill.comparisons[0].pValue).toBeCloseTo(0.09375, 5);
    expect(skill.comparisons[0].verdict).toBe("cannot tell");
  });

  it("starts each trial with the files of the case, and leaves nothing behind", async () => {
    const seen: string[] = [];
    const looks: Turn = ({ results }) => {
      if (results.length === 0)
        return [{ tool: "bash", input: { command: "ls -A; ls /; echo evals:$SKILLET_EVALS; echo x > made" } }];
      seen.push(results[0]?.content ?? "");
      return "done";
    };
    const tasks =
      "version: 1\ncases:\n  - name: look\n    prompt: Look.\n    folder: given\n    files: { b.txt: b }\n    graders: [{ file: { path: made } }, { file: { path: gone, exists: false } }]\n";
    const { run, cwd } = await scene(looks, { tasks, files: { "skills/sums/evals/given/sub/a.txt": "a" } });
    const { stdout } = await run("-k", "2", "--max-cost", "1000");
    expect(stdout).toContain("skill 2/2");
    expect(seen).toHaveLength(4);
    for (const text of seen) {
      expect(text).toContain("b.txt\nsub");
      expect(text).not.toContain("made");
      expect(text).toContain("evals:\n");
      expect(text).not.toMatch(/expected|skillet-evals/);
    }
    expect(readdirSync(join(cwd, "skills/sums/evals/given"))).toEqual(["sub"]);
    expect(readFileSync(join(cwd, "skills/sums/evals/given/sub/a.txt"), "utf8")).toBe("a");
  });

  it("judges a rubric twice with the order swapped, and reports how often the verdicts agree", async () => {
    const prompts: string[] = [];
    const judged: Turn = ({ instructions, prompt }) => {
      if (!instructions.startsWith("You judge")) return "a polite answer";
      prompts.push(prompt);
      // A judge that takes the verdict that is named first.
      return JSON.stringify({ reason: "it is first", verdict: prompt.includes('"pass" or "fail"') ? "pass" : "fail" });
    };
    const tasks =
      "version: 1\ncases:\n  - name: polite\n    prompt: Be polite.\n    graders: [{ rubric: It is polite. }]\n";
    const { run } = await scene(judged, { tasks });
    const { stdout } = await run("-k", "1", "--max-cost", "1000");
    expect(prompts).toHaveLength(4);
    expect(prompts[0]).toMatch(/The task was:[\s\S]*A good answer[\s\S]*The answer:/);
    expect(prompts[1]).toMatch(/The answer:[\s\S]*A good answer[\s\S]*The task was:/);
    expect(stdout).toContain("none: the judge disagrees with itself: it is first");
    expect(stdout).toContain("the judge agreed with itself in 0 of 2 rubric verdicts");
  });

  it("refuses a file that is not valid, naming the place and the schema", async () => {
    const check = async (tasks: string) => {
      const { run } = await scene(agent, { tasks });
      const { code, stderr } = await run();
      return [code, stderr.replace(/\S*\/tasks.yaml/g, "tasks.yaml")] as const;
    };
    expect(await check("version: 1\ncases: []\n")).toEqual([
      1,
      '✗ tasks.yaml: "cases" must NOT have fewer than 1 items  [eval-invalid]\n  docs/eval.md describes the format; to see its JSON Schema: skillet schema evals\n',
    ]);
    const graders = (text: string) => `version: 1\ncases:\n  - name: a\n    prompt: p\n    graders: [${text}]\n`;
    expect((await check(graders("{ name: only }")))[1]).toContain("a grader needs exactly one of file, answer");
    expect((await check(graders("{ fiel: x }")))[1]).toContain('"cases.0.graders.0.fiel" is unknown');
    expect((await check(`${graders("{ file: x }")}    folder: ../../secret\n`))[1]).toContain("is outside");
    const none = await scene(agent, { files: { "skills/plain/SKILL.md": skillText("plain") } });
    const { code, stderr } = await skillet(["eval", "skills/plain", "--level", "task"], {
      cwd: none.cwd,
      env: { HOME: none.home },
    });
    expect([code, stderr]).toEqual([1, expect.stringContaining("[eval-empty]")]);
  });

  it("does not run code of a skill that is not trusted", async () => {
    const { run, server } = await scene(agent, { trusted: [] });
    const { code, stderr } = await run();
    expect([code, stderr]).toEqual([1, expect.stringContaining("[untrusted]")]);
    expect(server.requests).toHaveLength(0);
  });
});
