import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RunResult } from "../../src/agent/run/run-result.ts";
import { Tool } from "../../src/skill/tool.ts";
import type { JournalLine } from "../../src/store/journal.ts";
import { moduleOf } from "../support/program.ts";
import { answerApprovals, eventsOf, useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

/** A tool whose calls wait until the test answers them, by the text of their input. */
function createDesk(isReadOnly: boolean) {
  const waiting = new Map<string, (answer: string) => void>();
  const tool = Tool.define(isReadOnly ? "look" : "change", {
    description: "Waits for an answer.",
    parameters: { type: "object", properties: { at: { type: "string" } } },
    ...(isReadOnly ? { isReadOnly } : {}),
    async execute({ at }) {
      const answer = await new Promise<string>((resolve) => waiting.set(String(at), resolve));
      if (answer === "fail") throw new Error(`nothing at ${at}`);
      return answer;
    },
  });
  return { tool, waiting };
}

describe("several calls of one model turn", () => {
  it("run concurrently if they are read-only, and their results keep the order of the calls", async () => {
    const { tool, waiting } = createDesk(true);
    const { use, server } = await useScene({
      skills: { x: {} },
      turns: [() => ["a", "b", "c"].map((at) => ({ tool: "look", input: { at } })), () => "Done."],
    });
    const used = use({ skill: "x" }, { tools: [tool], hasBuiltInTools: false });
    await waitFor(() => waiting.size === 3);
    waiting.get("c")?.("third");
    waiting.get("b")?.("fail");
    waiting.get("a")?.("first");
    const { result, events } = await used;
    expect(result.content).toBe("Done.");
    const contents = server.requests[1]?.results.map(({ content }) => /first|nothing at b|third/.exec(content)?.[0]);
    expect(contents).toEqual(["first", "nothing at b", "third"]);
    expect(eventsOf(events, "tool-called").map(({ call }) => call)).toEqual([1, 2, 3]);
    const ended = eventsOf(events, "tool-ended").map(({ call, isError }) => [call, isError]);
    expect(new Map(ended as [number, boolean][])).toEqual(
      new Map([
        [1, false],
        [2, true],
        [3, false],
      ]),
    );
  });

  it("wait for a call that is not read-only, and it waits for them", async () => {
    const [reader, writer] = [createDesk(true), createDesk(false)];
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => [
          { tool: "look", input: { at: "a" } },
          { tool: "look", input: { at: "b" } },
          { tool: "change", input: { at: "c" } },
          { tool: "look", input: { at: "d" } },
        ],
        () => "Done.",
      ],
    });
    const used = use({ skill: "x" }, { tools: [reader.tool, writer.tool], hasBuiltInTools: false });
    const begun = () => [...reader.waiting.keys(), ...writer.waiting.keys()].sort();
    await waitFor(() => begun().length === 2);
    for (const at of ["b", "a"]) {
      expect(begun()).toEqual(["a", "b"]);
      reader.waiting.get(at)?.("seen");
    }
    await waitFor(() => begun().length === 3);
    expect(begun()).toEqual(["a", "b", "c"]);
    writer.waiting.get("c")?.("changed");
    await waitFor(() => begun().length === 4);
    reader.waiting.get("d")?.("seen");
    expect((await used).result.content).toBe("Done.");
  });

  it("ask for approval one after the other, before the first call runs", async () => {
    const { tool, waiting } = createDesk(true);
    const asked: number[] = [];
    const { approve } = answerApprovals({ isApproved: true }, { isApproved: false }, { isApproved: true });
    let open = 0;
    const { use, server } = await useScene({
      skills: { x: { more: "allowed-tools: Write\n" } },
      turns: [() => ["a", "b", "c"].map((at) => ({ tool: "look", input: { at } })), () => "Done."],
    });
    const used = use(
      { skill: "x" },
      {
        tools: [tool],
        hasBuiltInTools: false,
        async approve(request) {
          expect(++open).toBe(1);
          expect(waiting.size).toBe(0);
          await new Promise((resolve) => setImmediate(resolve));
          open--;
          asked.push(asked.length);
          return approve(request);
        },
      },
    );
    await waitFor(() => waiting.size === 2);
    for (const answer of waiting.values()) answer("seen");
    expect((await used).result.content).toBe("Done.");
    expect(asked).toHaveLength(3);
    expect([...waiting.keys()]).toEqual(["a", "c"]);
    expect(server.requests[1]?.results[1]?.content).toContain("was not approved");
  });
});

describe("a tool with an effect", () => {
  it("cannot be declared read-only", () => {
    const parts = { description: "Sends.", parameters: { type: "object" }, execute: () => "sent" } as const;
    expect(() => Tool.define("send", { ...parts, effect: "outside", isReadOnly: true })).toThrow(
      'Tool.define("send"): a tool with an `effect` is not read-only',
    );
    expect(Tool.define("look", { ...parts, isReadOnly: true }).isReadOnly).toBe(true);
  });
});

/** A library that holds back every answer until the test releases it. */
async function library() {
  const keys: string[] = [];
  const open = new Map<string, ServerResponse>();
  const server = createServer(async (request, response) => {
    const key = await text(request);
    keys.push(key);
    open.set(key.split(":")[1] ?? "", response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, keys, open };
}

const PROGRAM = `
  import { discover } from "${moduleOf("config/discover")}";
  import { resumeRun } from "${moduleOf("agent/run/resume-run")}";
  import { useSkill } from "${moduleOf("agent/run/use-skill")}";
  import { Tool } from "${moduleOf("skill/tool")}";
  const { workspace, HOME, url, id } = JSON.parse(process.argv[1]);
  const found = await discover({ workspace, env: { HOME }, index: false });
  const look = Tool.define("look", {
    description: "Looks something up.",
    parameters: { type: "object" },
    isReadOnly: true,
    async execute(_, { key }) {
      const response = await fetch(url, { method: "POST", body: key });
      if (!response.ok) throw new Error("not found");
      return response.text();
    },
  });
  const host = { ...found, tools: [look], hasBuiltInTools: false };
  const run = id ? resumeRun(found.catalog, host, id) : useSkill(found.catalog, host, { skill: "x" });
  console.log(JSON.stringify(await run));`;

describe("a run that is killed during three concurrent read-only calls", () => {
  it("[W-14] repeats no finished call, including the one that failed", { timeout: 120_000 }, async () => {
    const shelf = await library();
    const { found, server } = await useScene({
      skills: { x: {} },
      turns: [() => [1, 2, 3].map((number) => ({ tool: "look", input: { number } })), () => "Read."],
    });
    const start = (id?: string) => {
      const given = { workspace: found.workspace, HOME: join(found.root, "home"), url: shelf.url, id };
      const args = ["--no-warnings", "--input-type=module", "-e", PROGRAM, JSON.stringify(given)];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
      onTestFinished(() => void child.kill("SIGKILL"));
      const printed = text(child.stdout);
      return { child, printed, closed: new Promise((resolve) => child.once("close", resolve)) };
    };
    const first = start();
    // Each waits for an answer: they run concurrently.
    await waitFor(() => shelf.keys.length === 3);
    shelf.open.get("1.3")?.end("page 3");
    shelf.open.get("1.2")?.writeHead(404).end();
    await waitFor(() => ["tool:1.2", "tool:1.3"].every((name) => listSteps(found.home).includes(name)));
    first.child.kill("SIGKILL");
    await first.closed;
    expect(listSteps(found.home)).not.toContain("tool:1.1");
    const id = (await found.runs.list())[0]?.id ?? "";

    const second = start(id);
    await waitFor(() => shelf.keys.length === 4);
    shelf.open.get("1.1")?.end("page 1");
    await second.closed;
    const result = JSON.parse(await second.printed) as RunResult;
    expect(result).toMatchObject({ run: id, stop: "answer", content: "Read.", iterations: 2 });
    expect(shelf.keys.slice(0, 3).sort()).toEqual([1, 2, 3].map((number) => `${id}:1.${number}`));
    expect(shelf.keys.slice(3)).toEqual([`${id}:1.1`]);
    expect(server.requests).toHaveLength(2);
    const results = server.requests[1]?.results.map(({ content }) => /page \d|not found/.exec(content)?.[0]);
    expect(results).toEqual(["page 1", "not found", "page 3"]);
    expect(
      listSteps(found.home)
        .filter((name) => name.startsWith("tool:"))
        .sort(),
    ).toEqual(["tool:1.1", "tool:1.2", "tool:1.3"]);
  });
});

/** Reads the names of the finished steps in the only journal. */
function listSteps(home: string): string[] {
  const folder = join(home, "runs");
  const file = readdirSync(folder).find((name) => name.endsWith(".jsonl"));
  const lines = file ? [...readFileSync(join(folder, file), "utf8").matchAll(/.+\n/g)] : [];
  return lines
    .map(([line]) => JSON.parse(line) as JournalLine)
    .flatMap((line) => (line.type === "step" ? line.name : []));
}
