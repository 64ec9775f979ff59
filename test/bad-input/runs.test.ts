import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { listMcpTools } from "../../src/agent/mcp-client/mcp-servers.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { createTestRun, EFFECT, ID, startOtherProcess } from "../store/run-scene.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { ended } from "../support/statistics-events.ts";
import { openToolset, openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";
import { useScene } from "../support/use.ts";
import { withGrowingLimit } from "../support/wait-for.ts";
import { AT, caller, createStartLines, forgeJournal, GOOD, homeWith, ODD, serverHost, TOKEN } from "./runs-scene.ts";

const ACTS = "\u{1b}[2J\u{1b}]0;gone\u{7}\r\u{202e}\u{9b}31m";

describe("a manipulated journal", () => {
  it("[Q-09] that is a link shows nothing of its target, and nothing is written there", async () => {
    const { home, runs } = homeWith({});
    const secret = join(temporaryFolder({ secret: forgeJournal(...createStartLines(ODD)) }), "secret");
    symlinkSync(secret, join(runs, `${ODD}.jsonl`));
    const before = readFileSync(secret, "utf8");
    for (const args of [["runs"], ["runs", "show", ODD], ["approve", ODD], ["cancel", ODD], ["resume", ODD]]) {
      const { stdout, stderr } = await skillet(args, { env: { HOME: home } });
      expect(stdout.replaceAll(/^! .*\n {2}Send it$/gm, "")).not.toContain("Send it");
      expect(stderr).not.toContain("mailer");
    }
    expect(readFileSync(secret, "utf8")).toBe(before);
  });

  it("[Q-23] prints no control sequence, wherever it is", async () => {
    const effect = { ...EFFECT, run: ODD, skill: ACTS, source: ACTS, location: ACTS, tool: ACTS, what: ACTS };
    const event = { run: ODD, skill: ACTS, at: AT };
    const at = "2026-01-02T03:04:06.000Z";
    const text = forgeJournal(
      ...createStartLines(ODD, { skill: ACTS, task: ACTS, workspace: `/${ACTS}` }),
      { type: "event", at, event: { ...event, type: "run-started", model: ACTS, tools: [], depth: 1, limits: {} } },
      { type: "event", at, event: { ...event, type: "tool-called", step: 1, tool: ACTS, input: { [ACTS]: ACTS } } },
      { type: "event", at, event: { ...event, type: "run-warned", code: ACTS, message: ACTS, fix: ACTS } },
      {
        type: "ask",
        at,
        name: "approval:1.1",
        approvalRequest: { ...effect, where: ACTS, amount: ACTS, reason: ACTS, input: ACTS },
      },
    );
    const { home } = homeWith({ [ODD]: text });
    const commands = [["runs"], ["runs", "show", ODD, "--full"], ["approve"], ["approve", ODD, "--deny", "no"]];
    for (const args of [...commands, ["runs", "--json"], ["runs", "show", ODD, "--json"]]) {
      const { stdout, stderr } = await skillet(args, { env: { HOME: home } });
      expect(stdout + stderr).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
    }
  });

  it("with very many lines is listed and shown", async () => {
    const event = {
      type: "tool-called",
      run: ODD,
      skill: "mailer",
      at: "2026-01-02T03:04:05.000Z",
      step: 1,
      tool: "x",
    };
    const line = forgeJournal({ type: "event", at: event.at, event: { ...event, input: {} } });
    const { home } = homeWith({
      [ODD]: forgeJournal(...createStartLines(ODD)) + line.repeat(IS_LONG ? 100_000 : 10_000),
    });
    expect((await skillet(["runs"], { env: { HOME: home } })).stdout).toContain(GOOD.slice(-8));
    expect((await skillet(["runs", "show", ODD], { env: { HOME: home } })).code).toBe(0);
  });

  it("accepts concurrent cancellations and answers, and holds one answer at most", async () => {
    const home = temporaryFolder();
    const runs = createRunStore(home);
    const journal = await runs.create(createTestRun());
    await journal.ask("approval:1.1", EFFECT);
    await journal.close();
    const attempt = (work: string) => startOtherProcess(home, `try { ${work} } catch (error) { say(error.code); }`);
    const answer = (isApproved: boolean) => attempt(`await runs.answer("${ID}", { isApproved: ${isApproved} });`);
    const cancel = () => attempt(`await runs.cancel("${ID}");`);
    const take = () => attempt(`await (await runs.resume("${ID}")).close();`);
    await Promise.all([answer(true), cancel(), answer(false), take(), answer(true), take()]);
    const { lines, corrupt } = await runs.read(ID);
    const types = lines.map(({ type }) => type).filter((type) => type === "answer" || type === "cancel");
    expect(corrupt).toEqual([]);
    expect([["answer", "cancel"], ["cancel"]]).toContainEqual(types);
    expect((await runs.find(ID)).state).toBe("cancelled");
  });
});

describe("a command that declares no write", () => {
  it("cannot change the workspace by any detour", async () => {
    const ways = [
      "echo a > one.txt",
      "cd /proc/self/root/$PWD && echo a > two.txt",
      "ln README.md three.txt; ln -s /tmp four",
      "mount -o remount,rw . ; echo a > five.txt",
      "unshare -Ur sh -c 'mount -o remount,rw . && echo a > six.txt'",
      "git init -q . ; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
      "for f in /proc/*/root$PWD /proc/*/cwd; do echo a > $f/seven.txt; done",
      "chmod 777 README.md; touch README.md; rm -f README.md; mv README.md eight",
      "setsid sh -c 'sleep 0.3; echo a > nine.txt' & disown",
      "sleep 0.6",
    ];
    const { use, found } = await useScene({ skills: { x: {} }, turns: () => "" });
    const before = readFileSync(join(found.workspace, "README.md"), "utf8");
    const asked: string[] = [];
    const { result } = await use(
      { skill: "x" },
      {
        models: { default: caller(...ways.map((command) => ({ tool: "bash", input: { command } }))) },
        approve: async ({ what }) => {
          asked.push(what);
          return { isApproved: false };
        },
      },
    );
    expect([result.stop, asked]).toEqual(["answer", []]);
    expect(readdirSync(found.workspace)).toEqual(["README.md"]);
    expect(readFileSync(join(found.workspace, "README.md"), "utf8")).toBe(before);
  });

  it("and a program that a skill's tool starts cannot either", async () => {
    const body = "return JSON.stringify(await ctx.sandbox.run(['sh', '-c', 'echo a > one.txt']))";
    const files = { "toolsets/index.ts": toolsetOf({ start: body }) };
    const { use, found } = await useScene({
      skills: { x: { more: 'toolsets: ["toolsets/index:Tools"]\n', files } },
      turns: () => "",
    });
    const { result } = await use({ skill: "x" }, { models: { default: caller({ tool: "x.start" }) } });
    expect(result.stop).toBe("answer");
    expect(existsSync(join(found.workspace, "one.txt"))).toBe(false);
  });
});

describe("a toolset in an odd file", () => {
  const NAMES = ["a b", "a#b", "a?b", "a%2eb", "ünï", "a'b"];
  it("[T-11] is found by any name", async () => {
    const files = NAMES.map((name, index) => [
      `toolsets/${name}.ts`,
      toolsetOf({ [`t${index}`]: `return "${index}"` }),
    ]);
    const references = NAMES.map((name) => `toolsets/${name}:Tools`);
    const { tools, problems } = await openToolset(ownSkill(Object.fromEntries(files), references));
    expect(problems).toEqual([]);
    expect(tools.map(({ name }) => name)).toEqual(NAMES.map((_, index) => `x.t${index}`));
  });

  it("[T-11] is read with a byte order mark, other line ends, a shebang, and TypeScript syntax", async () => {
    const one = (name: string, more = "") => toolsetOf({ [name]: "return '1'" }, more);
    const { tools, problems } = await openToolset(
      ownSkill(
        {
          "mark.ts": `\uFEFF${one("mark")}`,
          "ends.ts": one("ends").replaceAll("\n", "\r\n"),
          "shell.ts": `#!/usr/bin/env node\n${one("shell")}`,
          "types.ts": one(
            "types",
            "enum E { A = 4 } namespace N { export const x = E.A } export const n: number = N.x;",
          ),
          "cycle.ts": one("cycle", 'import "./round.ts";'),
          "round.ts": 'import "./cycle.ts"; export const round = 1;',
        },
        ["mark", "ends", "shell", "types", "cycle"].map((name) => `${name}:Tools`),
      ),
    );
    expect(problems).toEqual([]);
    expect(tools).toHaveLength(5);
  });

  it("[Q-09] that is a link is followed inside the folder, and never out of it", async () => {
    const body = 'try { await import("./more/helper.ts"); return "out" } catch { return "in" }';
    const scene = await discoverIn({
      ...ownSkill({ "lib/real.ts": toolsetOf({ one: body }) }, ["inside:Tools"]),
      "home/elsewhere.ts": "export const elsewhere = 1;",
    });
    const folder = join(scene.root, "home/.agent/skills/x");
    symlinkSync("lib/real.ts", join(folder, "inside.ts"));
    mkdirSync(join(folder, "more"));
    symlinkSync(join(scene.root, "home/elsewhere.ts"), join(folder, "more/helper.ts"));
    const { call } = await openToolsetIn(await scene.again());
    expect(await call("one")).toMatchObject({ isError: false, text: expect.stringMatching(/^in$/m) });
  });
});

describe("a toolset with odd results", () => {
  it("[T-13] provides no tools when reading it throws, and reports that", async () => {
    for (const text of [
      "export const Tools = [{ get name() { throw new Error('looked') } }];",
      "export const Tools = new Proxy([], { get() { throw new Error('looked') } });",
      "export class Tools { get tools() { throw new Error('looked') } }",
    ]) {
      const { problems, tools } = await openToolset(ownSkill({ "toolsets/index.ts": text }));
      expect([problems[0]?.message, tools]).toEqual([expect.stringContaining("looked"), []]);
    }
  });

  it("can return cycles, promises, or objects that throw when they are read", async () => {
    const { call } = await openToolset(
      ownSkill({
        "toolsets/index.ts": toolsetOf({
          round: "const m: any = {}; m.m = m; return { output: 'o', metadata: m }",
          large: "return { output: 'o', metadata: { n: 5n } } as any",
          later: "return { then(done: any) { done({ output: 'later' }) } } as any",
          thrown: "return { get output() { throw new Error('looked') } } as any",
        }),
      }),
    );
    expect(await call("round")).toMatchObject({ isError: false, text: expect.stringContaining("o") });
    expect(await call("large")).not.toHaveProperty("data");
    expect(await call("later")).toMatchObject({ text: expect.stringContaining("later") });
    expect(await call("thrown")).toMatchObject({ isError: true, text: expect.stringContaining("looked") });
  });

  it("[Q-24] leaks nothing, however often it is loaded and unloaded", async () => {
    const scene = await discoverIn(ownSkill({ "toolsets/index.ts": toolsetOf({ one: "return '1'" }) }));
    const session = openSession(scene.catalog, scene);
    const once = async () => {
      await session.load("x");
      session.unload("x");
    };
    const threads = () => readdirSync("/proc/self/task").length;
    const files = () => readdirSync("/proc/self/fd").length;
    await once();
    const before = { threads: threads(), files: files() };
    for (let times = 0; times < (IS_LONG ? 10 : 4); times++) await once();
    await expect.poll(threads).toBeLessThanOrEqual(before.threads);
    await expect.poll(files).toBeLessThanOrEqual(before.files);
  });
});

describe("an odd MCP server", () => {
  afterEach(closeMcpServers);

  const CALLS: Record<string, object> = {
    other: { isError: true, code: "mcp-timeout" },
    bytes: { isError: false, text: "a\ufffd\ufffd\ufffdb" },
    nothings: { isError: true, code: "mcp-failed" },
    asks: { isError: false, text: '["an error","an error","an error"]' },
  };
  for (const [kind, result] of Object.entries(CALLS)) {
    it(`has a result like any other: ${kind}`, async () => {
      const echoed = await withGrowingLimit(
        async (seconds) => {
          const { tools, problems } = await listMcpTools(serverHost(kind, { seconds }));
          return { problems, result: await tools.find(({ name }) => name === "web.echo")?.execute({}) };
        },
        ({ problems }) => problems.length === 0,
        { from: "code" in result && result.code === "mcp-timeout" ? 2 : 30 },
      );
      expect(echoed).toMatchObject({ problems: [], result });
    });
  }

  it("[Q-24] has a limit of pages, and no invalid tools", async () => {
    expect(await listMcpTools(serverHost("pages"))).toEqual({ tools: [], problems: [] });
    const { tools } = await listMcpTools(serverHost("nothings"));
    expect(tools.map(({ name }) => name)).toEqual(["web.__proto__", "web.echo"]);
  });

  it("[Q-22] does not leak its token to others", async () => {
    const heard: string[] = [];
    const other = await listening((request, response) => {
      heard.push(String(request.headers.authorization));
      response.writeHead(404).end();
    });
    const first = await listening((_, response) => response.writeHead(307, { location: other }).end());
    const { problems } = await listMcpTools(serverHost("", { url: first, token: TOKEN }));
    expect(problems).toMatchObject([{ code: "mcp-failed" }]);
    expect(JSON.stringify(problems)).not.toContain(TOKEN);
    expect(heard.filter((header) => header.includes(TOKEN))).toEqual([]);
  });
});

async function listening(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

describe("statistics", () => {
  it("[Q-23] accept any name, and print no control sequence of it", async () => {
    const home = temporaryFolder();
    const names = ["a'b\"c", "😀", "__proto__", "'; DROP TABLE uses; --", ACTS, "x".repeat(10_000)];
    const statistics = createStatisticsStore(join(home, ".skillet"));
    for (const name of names) await statistics.record(ended(name));
    expect(new Set((await statistics.perSkill()).map(({ skill }) => skill))).toEqual(new Set(names));
    for (const args of [["stats"], ["stats", "--json"]]) {
      const { code, stdout } = await skillet(args, { env: { HOME: home } });
      expect(code).toBe(0);
      expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
    }
  });
});
