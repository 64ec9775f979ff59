import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import type { RunResult } from "../../src/agent/run/run-result.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { Tool } from "../../src/skill/tool.ts";
import type { JournalLine } from "../../src/store/journal.ts";
import { createMemoryRunStore, type MemoryRun } from "../../src/testing/memory-stores.ts";
import { moduleOf } from "../support/program.ts";
import { RUN_DRIVERS, scenesOver } from "../support/run-drivers.ts";
import { sampleSteps } from "../support/sample-steps.ts";
import { eventsOf, useScene } from "../support/use.ts";

/** A bank: it records every payment with its idempotency key. It gives no answer when `isOver` returns true. */
async function ledger(isOver: () => boolean): Promise<{ url: string; keys: string[] }> {
  const keys: string[] = [];
  const server = createServer(async (request, response) => {
    keys.push(await text(request));
    if (!isOver()) response.end("paid");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, keys };
}

const PROGRAM = `
  import { discover } from "${moduleOf("config/discover")}";
  import { resumeRun } from "${moduleOf("agent/run/resume-run")}";
  import { useSkill } from "${moduleOf("agent/run/use-skill")}";
  import { Tool } from "${moduleOf("skill/tool")}";
  const { workspace, HOME, bank, id } = JSON.parse(process.argv[1]);
  const found = await discover({ workspace, env: { HOME }, index: false });
  const pay = Tool.define("pay", {
    description: "Pays.",
    parameters: { type: "object", properties: { number: { type: "number" } } },
    async execute({ number }, { key }) {
      await (await fetch(bank, { method: "POST", body: key })).text();
      return "paid " + number;
    },
  });
  const host = { ...found, tools: [pay], hasBuiltInTools: false };
  const run = id ? resumeRun(found.catalog, host, id) : useSkill(found.catalog, host, { skill: "x", message: "Pay all." });
  console.log(JSON.stringify(await run));`;

describe("a run with a journal in a file", () => {
  it("[W-14] resumes after `kill -9` at a sample of twenty steps, and repeats no finished step", {
    timeout: 240_000,
  }, async () => {
    // The first two steps end with the third, before there is a request that a kill could wait for.
    const kills = sampleSteps(20, 5).map((step) => step + 2);
    let before = new Set<string>();
    let kill: () => void = () => {};
    // The next request, to the model or the bank, shows whether the next step of the sample was finished, and ends the program then.
    const isOver = () => {
      const next = kills.find((step) => step > before.size);
      const hasFinished = next !== undefined && readdirOrNone(folder).length > 0 && finished().size >= next;
      if (hasFinished) kill();
      return hasFinished;
    };
    const bank = await ledger(isOver);
    const { found, server } = await useScene({
      skills: { x: { more: "max_iterations: 20\n" } },
      turns({ results }) {
        if (isOver()) return { hangs: true };
        return results.length < 10 ? [{ tool: "pay", input: { number: results.length } }] : "All paid.";
      },
    });
    const folder = join(found.home, "runs");
    const linesNow = (): JournalLine[] => {
      const [file] = readdirSync(folder, { withFileTypes: true }).filter(({ name }) => name.endsWith(".jsonl"));
      return file
        ? [...readFileSync(join(folder, file.name), "utf8").matchAll(/.+\n/g)].map(([line]) => JSON.parse(line))
        : [];
    };
    const finished = () => new Set(linesNow().flatMap((line) => (line.type === "step" ? line.name : [])));
    let result: RunResult | undefined;
    let lives = 0;
    const repeated: string[] = [];
    while (!result && lives < 60) {
      lives++;
      before = lives === 1 ? new Set<string>() : finished();
      const [asked, paid] = [server.requests.length, bank.keys.length];
      const id = before.size === 0 ? undefined : (await found.runs.list())[0]?.id;
      const given = { workspace: found.workspace, HOME: join(found.root, "home"), bank: bank.url, id };
      const child = spawn(
        process.execPath,
        ["--no-warnings", "--input-type=module", "-e", PROGRAM, JSON.stringify(given)],
        {
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      kill = () => child.kill("SIGKILL");
      const said = text(child.stdout);
      await new Promise<void>((resolve) => child.once("close", () => resolve()));
      if ((await said) !== "") result = JSON.parse(await said);
      for (const { results } of server.requests.slice(asked)) {
        if (before.has(`model:${results.length + 1}`)) repeated.push(`model:${results.length + 1}`);
      }
      for (const key of bank.keys.slice(paid)) {
        const step = `tool:${key.split(":")[1]}`;
        if (before.has(step)) repeated.push(step);
      }
    }
    expect(repeated).toEqual([]);
    expect(lives).toBe(kills.length + 1);
    expect(result).toMatchObject({ stop: "answer", content: "All paid.", iterations: 11, usage: { inputTokens: 110 } });
    expect(new Set(bank.keys)).toEqual(new Set(Array.from({ length: 10 }, (_, n) => `${result?.run}:${n + 1}.1`)));
    expect(await found.runs.list()).toMatchObject([{ state: "ended", end: { stop: "answer", iterations: 11 } }]);
    // Only what was in flight at the kill is done again.
    expect(bank.keys.length - 10).toBeLessThan(lives);
  });

  it("continues when the journal cannot be written, and reports that", async () => {
    const { found, use } = await useScene({ skills: { x: {} }, turns: [() => "ok"] });
    const { writeFileSync } = await import("node:fs");
    writeFileSync(join(found.home, "runs"), "in the way");
    const { result, events } = await use({ skill: "x" });
    expect(result).toMatchObject({ stop: "answer", content: "ok" });
    expect(eventsOf(events, "run-warned")).toMatchObject([{ code: "journal-unwritable" }]);
  });
});

describe.each(RUN_DRIVERS)("a stored run, with runs in %s", (driver) => {
  const useScene = scenesOver(driver);

  it("can be resumed after an interruption or a model failure, and is ended once it has an answer", async () => {
    const { found, server } = await useScene({
      skills: { x: {} },
      config: "retries = 0\n",
      turns: [
        () => [{ tool: "bash", input: { command: "echo one" } }],
        () => ({ status: 401, message: "no such key" }),
        () => [{ tool: "bash", input: { command: "echo two" } }],
        () => "Done.",
      ],
    });
    const first = await useSkill(found.catalog, found, { skill: "x" });
    expect(first.stop).toBe("error");
    expect((await found.runs.find(first.run)).state).toBe("interrupted");
    const controller = new AbortController();
    const second = resumeRun(found.catalog, found, first.run, { signal: controller.signal });
    for await (const event of second) if (event.type === "tool-called") controller.abort();
    expect((await second).stop).toBe("aborted");
    expect((await found.runs.find(first.run)).state).toBe("interrupted");
    const third = await resumeRun(found.catalog, found, first.run);
    expect(third).toMatchObject({ stop: "answer", content: "Done.", run: first.run, iterations: 3 });
    expect(server.requests.at(-1)?.results.map(({ content }) => /one|two/.exec(content)?.[0])).toEqual(["one", "two"]);
    expect(await resumeRun(found.catalog, found, first.run)).toMatchObject({
      stop: "refused",
      refusals: [{ code: "run-ended" }],
    });
  });

  it("emits and stores each event once, also after it is resumed", async () => {
    const { found } = await useScene({
      skills: { outer: {}, inner: {} },
      config: "retries = 0\n",
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "Count." } }],
        () => "Counted.",
        () => ({ status: 500 }),
        () => "Done.",
      ],
    });
    const events = [];
    const first = useSkill(found.catalog, found, { skill: "outer" });
    for await (const event of first) events.push(event);
    const { run } = await first;
    const second = resumeRun(found.catalog, found, run);
    for await (const event of second) events.push(event);
    expect((await second).content).toBe("Done.");
    const started = eventsOf(events, "run-started").map(({ skill, isResumed = false }) => ({ skill, isResumed }));
    expect(started).toEqual([
      { skill: "outer", isResumed: false },
      { skill: "inner", isResumed: false },
      { skill: "outer", isResumed: true },
    ]);
    expect(await found.statistics.perSkill()).toMatchObject([
      { skill: "inner", runs: 1, outcomes: { answer: 1 }, sources: ["~/.skillet/skills"] },
      { skill: "outer", runs: 1, outcomes: { answer: 1 }, sources: ["~/.skillet/skills"] },
    ]);
    expect(eventsOf(events, "tool-called")).toHaveLength(1);
    const kept = (await found.runs.read(run)).lines.flatMap((line) => (line.type === "event" ? line.event : []));
    expect(eventsOf(kept, "run-started")).toHaveLength(2);
    expect(eventsOf(kept, "run-ended").map(({ skill }) => skill)).toEqual(["inner", "outer", "outer"]);
  });

  it("stops when another process cancels it", async () => {
    const { found } = await useScene({
      skills: { x: {} },
      turns: [() => [{ tool: "bash", input: { command: "sleep 300" } }]],
    });
    const run = useSkill(found.catalog, found, { skill: "x" });
    for await (const event of run) if (event.type === "tool-called") await found.runs.cancel(event.run);
    expect((await run).stop).toBe("aborted");
    expect((await found.runs.find((await run).run)).state).toBe("cancelled");
  });

  it("is not stored when it was refused before it began", async () => {
    const { found, use } = await useScene({ skills: { x: { more: "required_tools: [teleport]\n" } }, turns: [] });
    expect((await use({ skill: "x" })).result.stop).toBe("refused");
    expect(await found.runs.list()).toEqual([]);
  });
});

describe("a run whose lease was taken over", () => {
  it("stops, and records nothing more", async () => {
    const stored = new Map<string, MemoryRun>();
    const { found, server } = await useScene({
      skills: { x: {} },
      openRuns: () => createMemoryRunStore(stored),
      turns: [() => [{ tool: "pause", input: {} }]],
    });
    const elsewhere = createMemoryRunStore(stored);
    const pause = Tool.define("pause", {
      description: "Pauses until another process has taken over the run.",
      parameters: { type: "object" },
      async execute() {
        const [[id, { lease }] = ["", {}]] = stored;
        if (lease) lease.expiresAt = 0;
        await elsewhere.resume(id);
        return "paused";
      },
    });
    const result = await useSkill(found.catalog, { ...found, tools: [pause] }, { skill: "x" });
    expect(result).toMatchObject({ stop: "error", error: { code: "run-busy" } });
    expect(server.requests).toHaveLength(1);
    const { lines } = await elsewhere.read(result.run);
    expect(lines.at(-1)?.type).toBe("opened");
    expect((await elsewhere.find(result.run)).state).toBe("running");
  });
});

function readdirOrNone(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
