import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { startModelServer } from "../support/model-server.ts";
import { ended, refused } from "../support/statistics-events.ts";
import { modelConfig } from "../support/use.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const ago = (ms: number) => new Date(Date.now() - ms).toISOString();

/** A home with three skills and these recorded uses. */
function place(work: (statistics: ReturnType<typeof createStatisticsStore>) => void = () => {}) {
  const cwd = temporaryFolder();
  const home = join(cwd, "home");
  const skills = ["alpha", "beta", "gamma"].map((name) => [`home/.skillet/skills/${name}/SKILL.md`, skillText(name)]);
  writeFiles(cwd, { ...Object.fromEntries(skills), "project/x": "" });
  work(createStatisticsStore(join(home, ".skillet")));
  const options = { cwd: join(cwd, "project"), env: { HOME: home, SKILLS_DIR: "none" } };
  return (args: string[], more: RunOptions = {}) => skillet(["stats", ...args], { ...options, ...more });
}

const used = () =>
  place(async (statistics) => {
    const usage = { inputTokens: 12_000, outputTokens: 3_000, cachedTokens: 0 };
    await statistics.record(ended("beta", { at: ago(5 * MINUTE_MS + 100), ms: 1234, cost: 0.5, usage }));
    await statistics.record(ended("beta", { at: ago(10 * MINUTE_MS), ms: 50, stop: "timeout", isError: true }));
    await statistics.record(ended("beta", { at: ago(20 * DAY_MS), ms: 70_000, stop: "error", isError: true }));
    await statistics.record(refused("beta", "untrusted"));
    await statistics.record({ type: "skill-loaded", skill: "alpha", source: "user" });
    await statistics.record(ended("gone", { at: ago(3 * DAY_MS + 100) }));
  });

describe("skillet stats", () => {
  it("[W-19][S-30] shows each skill with its runs: outcomes, durations and costs", async () => {
    const { code, stdout, stderr } = await used()([], { isTTY: true, columns: 80 });
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stripped(stdout)).toEqual([
      "skill     runs     p50     p95  tokens     cost  loads  last use",
      "beta         3   1.2 s   1 min     15k    $0.50      0  5 minutes ago",
      "  1 done, 1 failed, 1 at a limit, 1 refused",
      "gone         1  100 ms  100 ms      15        –      0  3 days ago",
      "  1 done",
      "alpha        0       –       –       –        –      1  just now",
      "total        4                     15k    $0.50      1",
      "",
      "never used: gamma",
    ]);
  });

  it("[W-19][S-30][T-03] counts uses of the commands, and ranks used skills first among equal matches", async () => {
    const server = await startModelServer("openai", [() => "hello", () => "hello"]);
    const more = "triggers:\n  keywords: [report]\n";
    const cwd = temporaryFolder({
      "home/.skillet/config.toml": modelConfig("openai", server),
      "project/x": "",
      "home/.skillet/skills/alpha/SKILL.md": skillText("alpha", { more }),
      "home/.skillet/skills/beta/SKILL.md": skillText("beta", { more }),
    });
    chmodSync(join(cwd, "home/.skillet/config.toml"), 0o600);
    const env = { HOME: join(cwd, "home"), SKILLS_DIR: "none" };
    const run = (...args: string[]) => skillet(args, { cwd: join(cwd, "project"), env });
    const order = async () => {
      const { stdout } = await run("explain", "the report", "--json");
      const { matches, shown } = JSON.parse(stdout);
      expect(matches.slice(0, 2).map(({ name }: { name: string }) => name)).toEqual(shown);
      return shown;
    };
    expect(await order()).toEqual(["alpha", "beta"]);
    for (const _ of [1, 2]) expect((await run("run", "beta", "go")).stdout).toBe("hello\n");
    const { stdout } = await run("stats", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      skills: [{ name: "beta", runs: 2, iterations: 2, outcomes: { answer: 2 }, sources: ["~/.skillet/skills"] }],
      neverUsed: expect.arrayContaining(["alpha"]),
    });
    expect(await order()).toEqual(["beta", "alpha"]);
    const said = (await run("explain", "the report")).stdout;
    expect(said).toMatch(/ 1 {2}beta .*keyword "report", used recently/);
    expect(said).not.toMatch(/alpha .*used recently/);
  });

  it("explains what to do when nothing was used yet", async () => {
    const { code, stdout, stderr } = await place()([]);
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toBe("no skill was used yet: run `skillet run alpha` or `skillet chat`\n");
  });

  it("counts from a given time", async () => {
    const run = used();
    expect(JSON.parse((await run(["--since", "7d", "--json"])).stdout)).toMatchObject({
      since: expect.stringMatching(/^20\d\d-.*Z$/),
      skills: [{ name: "beta", runs: 2 }, { name: "gone" }, { name: "alpha" }],
      total: { runs: 3 },
      neverUsed: ["gamma"],
    });
    const { stdout } = await run(["--since", "8m"]);
    expect(stripped(stdout)[1]).toMatch(/^beta +1 /);
    expect(stdout).toContain("not used since then: gamma");
    expect((await run(["--since", "1m"])).stdout).toMatch(/^alpha +0 /m);
    const day = ago(DAY_MS).slice(0, 10);
    expect(JSON.parse((await run(["--since", day, "--json"])).stdout).total.runs).toBe(2);
    const future = await run(["--since", "2999-01-01"]);
    expect(future).toMatchObject({ code: 0, stdout: "" });
    expect(future.stderr).toMatch(/no skill was used since 2.*: omit --since to count all runs/);
  });

  it.each(["", "soon", "7", "d", "-3d", "7y", "2026-13-01", "2026-02-31", "2026-11-01T99:00"])(
    "does not accept %j as a time, and gives an example",
    async (written) => {
      const { code, stderr, stdout } = await place()([`--since=${written}`]);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain("--since takes a time");
      expect(stderr).toContain("for example --since 7d");
    },
  );

  it("prints everything as JSON", async () => {
    const { stdout } = await used()(["--json"]);
    const { skills, total, neverUsed } = JSON.parse(stdout);
    expect(skills[0]).toMatchObject({
      name: "beta",
      runs: 3,
      refused: 1,
      outcomes: { answer: 1, error: 1, timeout: 1 },
      p50Ms: 1234,
      p95Ms: 70_000,
      iterations: 3,
      cost: 0.5,
    });
    expect(total).toEqual({ runs: 4, loads: 1, refused: 1, inputTokens: 12_030, outputTokens: 3015, cost: 0.5 });
    expect(neverUsed).toEqual(["gamma"]);
    const empty = await place()(["--json"]);
    expect(JSON.parse(empty.stdout)).toMatchObject({ skills: [], neverUsed: ["alpha", "beta", "gamma"] });
  });

  it("fits 80 columns, however long the names are", async () => {
    const long = `a${"-very".repeat(11)}-long`;
    const run = place(async (statistics) => {
      await statistics.record(ended(long, { at: ago(340 * DAY_MS), ms: 59_900, cost: 1234.5 }));
      await statistics.record(ended("beta"));
    });
    const { stdout } = await run([], { isTTY: true, columns: 80 });
    for (const line of stripped(stdout)) expect(line.length, line).toBeLessThanOrEqual(80);
    expect(stdout).toContain("11 months ago");
    expect((await run([])).stdout, "and a pipe gets them whole").toContain(long);
  });

  it("explains the fix for a file that cannot be read", async () => {
    const cwd = temporaryFolder({ "home/.skillet/statistics.db": "These are notes.\n".repeat(50) });
    const { code, stderr } = await skillet(["stats"], { cwd, env: { HOME: join(cwd, "home") } });
    expect(code).toBe(1);
    expect(stderr).toMatch(/The statistics in .*statistics\.db cannot be used: file is not a database/);
    expect(stderr).toContain("move it away");
  });
});

/** Removes colors and blanks at the end of lines. */
function stripped(text: string): string[] {
  const plain = text.replace(/\u001b\[\d+m/g, "");
  return plain
    .trimEnd()
    .split("\n")
    .map((line) => line.trimEnd());
}
