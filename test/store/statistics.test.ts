import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { SkillError } from "../../src/errors/problem.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { createCatalogOf } from "../support/skills.ts";
import { ended, refused, started } from "../support/statistics-events.ts";
import { countSteps } from "../support/steps.ts";
import { useScene } from "../support/use.ts";

type Modules = typeof import("../../src/store/statistics.ts") & typeof import("../support/statistics-events.ts");

const TOKENS = { input: 100, output: 10, cached: 0 };
const DAY_MS = 24 * 60 * 60 * 1000;

describe("the statistics", () => {
  it("[S-30][W-14] count an ended run with its outcome, its duration, its model calls and its cost", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    const begun = new Date().toISOString();
    await statistics.record(started("greet", { run: "a", source: "user", model: "test/one" }));
    await statistics.record(
      ended("greet", { run: "a", iterations: 3, ms: 250, cost: 0.25, at: "2026-11-02T10:00:00.000Z" }),
    );
    await statistics.record(ended("greet", { run: "b", stop: "timeout", isError: true, ms: 50, cost: 0.5 }));
    await statistics.record({ type: "skill-loaded", skill: "greet", source: "workspace" });
    await statistics.record(refused("greet", "chat-type"));
    const [greet, ...others] = await statistics.perSkill();
    expect(others).toEqual([]);
    expect(greet).toMatchObject({
      skill: "greet",
      sources: ["user", "workspace"],
      runs: 2,
      loads: 1,
      refused: 1,
      outcomes: { answer: 1, timeout: 1 },
      iterations: 4,
      p50Ms: 50,
      p95Ms: 250,
      inputTokens: 20,
      outputTokens: 10,
      cost: 0.75,
    });
    expect([begun, greet?.lastUse, new Date().toISOString()].toSorted()[1]).toBe(greet?.lastUse);
  });

  it("[W-19] count real runs, including inner ones, which are counted once in total", async () => {
    const scene = await useScene({
      skills: { outer: {}, inner: {} },
      turns: [
        () => ({ calls: [{ tool: "use_skill", input: { skill: "inner", message: "go" } }], usage: TOKENS }),
        () => ({ text: "from within", usage: TOKENS }),
        () => ({ text: "done", usage: TOKENS }),
      ],
    });
    const statistics = createStatisticsStore(scene.found.home);
    const { result } = await scene.use({ skill: "outer", message: "go" }, { statistics });
    expect(result.content).toContain("done");
    const [inner, outer] = await statistics.perSkill();
    expect(inner).toMatchObject({
      skill: "inner",
      runs: 1,
      iterations: 1,
      outcomes: { answer: 1 },
      sources: ["~/.skillet/skills"],
    });
    expect(outer).toMatchObject({ skill: "outer", runs: 1, iterations: 2, outcomes: { answer: 1 } });
    expect([inner?.inputTokens, outer?.inputTokens]).toEqual([100, 300]);
    expect(await statistics.total()).toMatchObject({ runs: 2, inputTokens: 300, outputTokens: 30 });
  });

  it("[W-19] count loads of a session, but no conversation", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    const session = openSession(await createCatalogOf({ greet: {} }), { statistics });
    await session.load("greet");
    await statistics.record(started("", { run: "c", depth: 0 }));
    await statistics.record(ended("", { run: "c" }));
    expect(await statistics.perSkill()).toMatchObject([{ skill: "greet", runs: 0, loads: 1, outcomes: {} }]);
    expect((await statistics.perSkill())[0]).not.toHaveProperty("p50Ms");
  });

  it("[W-19] ignore a name without a skill", async () => {
    const scene = await useScene({ skills: { greet: {} }, turns: [] });
    const statistics = createStatisticsStore(scene.found.home);
    await scene.use({ skill: "sk-made-up" }, { statistics });
    expect(await statistics.perSkill()).toEqual([]);
  });

  it("count a resumed run once, with its original start", async () => {
    const home = temporaryFolder();
    const first = createStatisticsStore(home);
    await first.record(started("greet", { run: "w", source: "user" }));
    await first.record(ended("greet", { run: "w", stop: "waiting", isError: true, ms: 10 }));
    expect((await first.perSkill())[0]).not.toHaveProperty("p50Ms");
    const later = createStatisticsStore(home);
    await later.record(ended("greet", { run: "w", stop: "complete", ms: 30 }));
    expect(await later.perSkill()).toMatchObject([
      { runs: 1, outcomes: { complete: 1 }, sources: ["user"], p50Ms: 30 },
    ]);
  });

  it.each([
    [1, 1, 1],
    [2, 1, 2],
    [19, 10, 19],
    [20, 10, 19],
    [21, 11, 20],
    [100, 50, 95],
  ])("of %i durations have the median at rank %i, and the 95th percentile at rank %i", async (number, half, most) => {
    const statistics = createStatisticsStore(temporaryFolder());
    const times = Array.from({ length: number }, (_, index) => (index + 1) * 10);
    for (const ms of times.sort((a, b) => ((a * 7) % 11) - ((b * 7) % 11)))
      await statistics.record(ended("greet", { ms }));
    expect((await statistics.perSkill())[0]).toMatchObject({ p50Ms: half * 10, p95Ms: most * 10 });
  });

  it("start at the requested time", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    for (const day of [1, 2, 3]) await statistics.record(ended("greet", { at: `2026-11-0${day}T12:00:00.000Z` }));
    const since = new Date("2026-11-02T12:00:00.000Z");
    expect(await statistics.perSkill({ since })).toMatchObject([{ runs: 2 }]);
    expect((await statistics.total({ since })).runs).toBe(2);
    expect(await statistics.perSkill({ since: new Date("2026-12-01") })).toEqual([]);
  });

  it("[Q-22] contain no value of a secret, and no message text", async () => {
    const secret = "s3cr3t-value-of-mine";
    const scene = await useScene({
      skills: { keyed: { more: "env: [MY_KEY]\n", body: "Use it." } },
      config: `[skills.keyed]\nMY_KEY = "${secret}"\n`,
      turns: [() => `it is ${secret}`],
    });
    const statistics = createStatisticsStore(scene.found.home);
    await scene.use({ skill: "keyed", message: `words of mine, and ${secret}` }, { statistics });
    await scene.use({ skill: secret, message: "go" }, { statistics });
    expect(await statistics.perSkill()).toMatchObject([{ skill: "keyed" }]);
    for (const name of ["statistics.db", "statistics.db-wal"]) {
      const bytes = readFileSync(join(scene.found.home, name));
      expect(bytes.includes(secret)).toBe(false);
      expect(bytes.includes("words of mine")).toBe(false);
    }
  });
});

describe("recent use", () => {
  it("contains the last used or loaded skills, each once, without refused ones", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    expect(await statistics.recent(10)).toEqual([]);
    for (const [hour, skill] of ["one", "two", "one", "three"].entries()) {
      await statistics.record(ended(skill, { at: `2026-11-02T0${hour}:00:00.000Z` }));
    }
    await statistics.record(refused("four", "disabled"));
    await statistics.record({ type: "skill-loaded", skill: "two", source: "user" });
    expect(await statistics.recent(10)).toEqual(["two", "three", "one"]);
    expect(await statistics.recent(1)).toEqual(["two"]);
  });

  it("in the same moment is ordered by the last write", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    const at = "2026-11-02T00:00:00.000Z";
    for (const skill of ["b", "a", "c"]) await statistics.record(ended(skill, { at }));
    expect(await statistics.recent(10)).toEqual(["c", "a", "b"]);
  });
});

describe("frequent use", () => {
  it("[A-03] is ordered by number, then by name, without refused runs", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    expect(await statistics.mostUsed?.(10)).toEqual([]);
    for (const skill of ["c", "b", "b", "a", "c", "b"]) await statistics.record(ended(skill));
    await statistics.record({ type: "skill-loaded", skill: "a", source: "here" });
    expect(await statistics.mostUsed?.(10)).toEqual(["b", "a", "c"]);
    expect(await statistics.mostUsed?.(1)).toEqual(["b"]);
  });

  it("[A-04] is read once per conversation: its prefix stays, whatever is used in it", async () => {
    const home = temporaryFolder();
    const many = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`skill-${index}`, {}]));
    const catalog = await createCatalogOf(many);
    const prefixOf = async (session: ReturnType<typeof openSession>) => (await session.disclose("hm")).prefix;
    const statistics = createStatisticsStore(home);
    await statistics.record(ended("skill-77"));
    const session = openSession(catalog, { statistics });
    const before = await prefixOf(session);
    expect(before).toMatch(/skill-77, .*and \d+ more: search_skills$/);
    expect(before).not.toMatch(/skill-99\b/);
    for (const skill of ["skill-99", "skill-99"]) await statistics.record(ended(skill));
    await session.load("skill-98");
    expect(await prefixOf(session)).toBe(before);
    expect(await prefixOf(openSession(catalog, { statistics }))).toMatch(/skill-77, .*skill-99, and/);
  });
});

describe("the order of matches", () => {
  const keywords = ["report"];
  const skills = { a: { keywords }, b: { keywords }, c: { keywords: ["weekly report"] }, d: {}, e: { keywords } };
  const tell = async (home: string, query: string) => {
    const session = openSession(await createCatalogOf(skills), { statistics: createStatisticsStore(home) });
    return (await session.disclose(query, { maxSkills: 5 })).shown.map(({ name }) => name);
  };

  it("[T-03] is mention, phrase, then last use in an earlier conversation, then the name", async () => {
    const home = temporaryFolder();
    const query = "use the d skill for the weekly report";
    expect(await tell(home, query)).toEqual(["d", "c", "a", "b", "e"]);
    const used = createStatisticsStore(home);
    await used.record(ended("b", { at: "2026-11-02T10:00:00.000Z" }));
    await used.record(ended("e", { at: "2026-11-02T11:00:00.000Z" }));
    expect(await tell(home, query)).toEqual(["d", "c", "e", "b", "a"]);
    expect(await tell(home, query), "and the same again").toEqual(["d", "c", "e", "b", "a"]);
  });

  it("[T-03] prefers skills loaded in this conversation to those that others used", async () => {
    const home = temporaryFolder();
    const statistics = createStatisticsStore(home);
    await statistics.record(ended("e"));
    const active = [{ name: "b", source: "inline", stamp: "older" }];
    const session = openSession(await createCatalogOf(skills), { statistics }, { active });
    expect((await session.disclose("report")).shown.map(({ name }) => name)).toEqual(["b", "e", "a"]);
  });
});

describe("the statistics file", () => {
  it("exists only after the first write, and for the user alone", async () => {
    const home = join(temporaryFolder(), ".skillet");
    const statistics = createStatisticsStore(home);
    expect(await statistics.perSkill()).toEqual([]);
    expect(await statistics.total()).toMatchObject({ runs: 0 });
    await statistics.record(started("greet"));
    expect(existsSync(home)).toBe(false);
    await statistics.record(ended("greet"));
    for (const name of ["", "statistics.db", "statistics.db-wal", "statistics.db-shm"]) {
      expect(statSync(join(home, name)).mode & 0o077, name).toBe(0);
    }
  });

  it("keeps a year", async () => {
    const home = temporaryFolder();
    const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString();
    const statistics = createStatisticsStore(home);
    for (const days of [400, 364]) await statistics.record(ended("greet", { at: daysAgo(days) }));
    expect(await createStatisticsStore(home).perSkill(), "the clock alone deletes nothing").toMatchObject([
      { runs: 2 },
    ]);
    await statistics.record(ended("greet", { at: daysAgo(1) }));
    expect(await createStatisticsStore(home).perSkill()).toMatchObject([{ runs: 2 }]);
  });

  it("[W-19] contains the writes of many concurrent programs, and loses none", { timeout: 120_000 }, async () => {
    const home = join(temporaryFolder(), "new");
    const count = IS_LONG ? 20 : 8;
    const said = await Promise.all(Array.from({ length: count }, (_, index) => writer(home, `p${index}`, 50)));
    expect(await createStatisticsStore(home).perSkill()).toMatchObject([
      { skill: "greet", runs: count * 50, iterations: count * 100 },
    ]);
    for (const stderr of said) {
      expect(stderr, "no warning that SQLite is experimental").not.toMatch(/sqlite|experimental/i);
      expect(stderr, "and every other").toContain("said by the test");
    }
  });

  it("is awaited when another program creates it at this moment", async () => {
    const home = temporaryFolder();
    // It releases the lock once the test has the file open, and so waits for it.
    const program = `
const { readdirSync, readlinkSync } = require("node:fs");
const { DatabaseSync } = require("node:sqlite");
const file = process.argv[1];
const database = new DatabaseSync(file);
database.exec("BEGIN IMMEDIATE");
console.log("held");
const linkOf = (name) => { try { return readlinkSync("/proc/" + process.ppid + "/fd/" + name); } catch {} };
const timer = setInterval(() => {
  if (!readdirSync("/proc/" + process.ppid + "/fd").some((name) => linkOf(name) === file)) return;
  database.exec("ROLLBACK");
  clearInterval(timer);
}, 20);`;
    const args = ["--no-warnings", "-e", program, join(home, "statistics.db")];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child.stdout, "data");
    const statistics = createStatisticsStore(home);
    await statistics.record(ended("greet"));
    expect(await statistics.perSkill()).toMatchObject([{ runs: 1 }]);
  });

  it("needs the same few steps per run, however many there were before", async () => {
    const homes = await Promise.all(
      [100, 200, 400].map(async (runs) => {
        const home = temporaryFolder();
        const statistics = createStatisticsStore(home);
        for (let run = 0; run < runs; run++) await statistics.record(ended("greet"));
        return home;
      }),
    );
    const counts = await countSteps(
      ["src/store/statistics.ts", "test/support/statistics-events.ts"],
      async ({ createStatisticsStore, started, ended }: Modules, home: string) => {
        const statistics = createStatisticsStore(home);
        await statistics.record(started("greet"));
        await statistics.record(ended("greet"));
      },
      homes,
    );
    expect(Math.max(...counts)).toBeLessThan(1000);
  });
});

describe("an unusable statistics file", () => {
  const fails = async (home: string): Promise<SkillError> => {
    const statistics = createStatisticsStore(home);
    // If each run waited for the file, this would take half an hour.
    for (let number = 0; number < 900; number++) await statistics.record(ended("greet"));
    expect(await statistics.recent(10)).toEqual([]);
    try {
      await statistics.perSkill();
    } catch (error) {
      if (error instanceof SkillError) return error;
      throw error;
    }
    throw new Error("it did not fail");
  };

  it("is ignored: it does not change, and the fix is reported", async () => {
    const home = temporaryFolder({ "statistics.db": "These are notes of mine.\n".repeat(100) });
    const { code, message, fix } = await fails(home);
    expect(code).toBe("statistics-unusable");
    expect(message).toContain(join(home, "statistics.db"));
    expect(fix).toBe("move it away: the next use creates a new one");
    expect(readFileSync(join(home, "statistics.db"), "utf8")).toMatch(/^These are notes of mine/);
  });

  it("can be of a newer version", async () => {
    const home = temporaryFolder();
    const database = new DatabaseSync(join(home, "statistics.db"));
    database.exec("PRAGMA user_version = 99");
    database.close();
    const { message, fix } = await fails(home);
    expect(message).toContain("written by another version");
    expect(fix).toContain("use the newest skillet");
  });

  it("can have foreign tables, which do not change", async () => {
    const home = temporaryFolder();
    const database = new DatabaseSync(join(home, "statistics.db"));
    database.exec("CREATE TABLE theirs (it TEXT)");
    expect((await fails(home)).message).toContain("another program");
    const tables = database.prepare("SELECT name FROM sqlite_schema").all();
    database.close();
    expect(tables).toEqual([{ name: "theirs" }]);
  });

  it("can be locked by another program", async () => {
    const home = temporaryFolder();
    const database = new DatabaseSync(join(home, "statistics.db"));
    database.exec("BEGIN EXCLUSIVE");
    const { message, fix } = await fails(home);
    database.exec("ROLLBACK");
    database.close();
    expect(message).toContain("locked");
    expect(fix).toContain("another program has locked it");
  });

  it("can be a folder", async () => {
    const home = temporaryFolder({ "statistics.db/x": "" });
    expect(await fails(home)).toMatchObject({
      code: "statistics-unusable",
      fix: expect.stringContaining("check the mode"),
    });
  });

  it("can be read-only, and breaks no run", async () => {
    const home = temporaryFolder();
    await writer(home, "first", 2);
    chmodSync(join(home, "statistics.db"), 0o444);
    chmodSync(home, 0o555);
    const { code, stderr } = await asOrdinary(["one", "1"], home);
    chmodSync(home, 0o755);
    expect(stderr).toContain("said by the test");
    expect(code).toBe(0);
    expect(await createStatisticsStore(home).perSkill()).toMatchObject([{ runs: 2 }]);
  });

  it("can be in a folder that cannot be created, which breaks no run either", async () => {
    const folder = temporaryFolder({ file: "" });
    const scene = await useScene({ skills: { greet: {} }, turns: [() => "hello"] });
    const statistics = createStatisticsStore(join(folder, "file", "home"));
    const { result } = await scene.use({ skill: "greet", message: "go" }, { statistics });
    expect(result).toMatchObject({ content: "hello", isError: false });
    expect(await statistics.recent(10)).toEqual([]);
  });
});

const WRITER = join(import.meta.dirname, "../support/statistics-writer.ts");

async function writer(home: string, name: string, count: number): Promise<string> {
  const { code, stderr } = await run(process.execPath, [WRITER, home, name, String(count)]);
  expect(code, stderr).toBe(0);
  return stderr;
}

/** As an ordinary user, whom modes restrict. */
function asOrdinary([name = "", count = ""]: string[], home: string): Promise<{ code: number | null; stderr: string }> {
  const isRoot = process.getuid?.() === 0;
  const drop = isRoot ? ["/usr/bin/setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"] : [];
  const [program = "", ...args] = [...drop, process.execPath, WRITER, home, name, count];
  return run(program, args);
}

function run(program: string, args: string[]): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(program, args, { cwd: "/", env: {}, stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, stderr })));
}
