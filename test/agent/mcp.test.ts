import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { checkMcpServers, listMcpTools } from "../../src/agent/mcp-client/mcp-servers.ts";
import { createHostRedactor } from "../../src/agent/run/redaction.ts";
import { wrapHostTool } from "../../src/agent/tools/tool-output.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS, type McpSettings } from "../../src/config/settings.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { temporaryFolder } from "../support/folder.ts";
import { startMcpHttpServer } from "../support/mcp-http.ts";
import { moduleOf } from "../support/program.ts";
import { waitFor, withGrowingLimit } from "../support/wait-for.ts";

const PROGRAM = join(import.meta.dirname, "../support/mcp-server.ts");

afterEach(closeMcpServers);

interface Place {
  host: Host;
  /** Requests that the servers received. */
  log(): string[];
}

function place(servers: Record<string, Partial<McpSettings> & { kind?: string }>, env = {}): Place {
  const home = temporaryFolder();
  const log = join(home, "log.txt");
  const mcp = Object.entries(servers).map(([name, { kind = "usual", ...more }]) => [
    name,
    {
      ...(more.url === undefined ? { command: [process.execPath, PROGRAM, kind] } : {}),
      ...more,
      env: new Map([["MCP_LOG", log], ...(more.env ?? [])]),
    },
  ]);
  const host: Host = { settings: { ...DEFAULT_SETTINGS, mcp: new Map(mcp as [string, McpSettings][]) }, home, env };
  return { host, log: () => lines(log) };
}

function lines(file: string): string[] {
  try {
    return readFileSync(file, "utf8").trim().split("\n");
  } catch {
    return [];
  }
}

async function usual(settings: Partial<McpSettings> & { kind?: string } = {}) {
  const there = place({ web: settings });
  const { tools, problems } = await listMcpTools(there.host);
  expect(problems).toEqual([]);
  return { ...there, tools, tool: (name: string) => toolIn(tools, name) };
}

function toolIn(tools: readonly Tool[], name: string): Tool {
  const tool = tools.find((one) => one.name === name);
  if (!tool) throw new Error(`there is no ${name} among ${tools.map((one) => one.name).join(", ")}`);
  return tool;
}

describe("tools of a stdio MCP server", () => {
  it("are named after the server, declare their effects, and are called", async () => {
    const { tool } = await usual({ autoApprove: ["add"] });
    const look = tool("web.look");
    expect(look).toMatchObject({ description: "Looks.", category: "mcp", inputSchema: { required: ["text"] } });
    expect(look.effect).toBeUndefined();
    expect(tool("web.add").effect).toBeUndefined();
    expect(await tool("web.send").effect?.({})).toEqual({
      on: "outside",
      what: "Send a text",
      where: "web",
      isReversible: false,
    });
    expect(await look.execute({ text: "it" })).toEqual({ text: "looked at it", isError: false });
  });

  it("can be removed when the server announces it", async () => {
    const { tool } = await usual();
    expect(await tool("web.add").effect?.({})).toMatchObject({ isReversible: true, what: "add" });
  });

  it("get only the configured environment, outside any workspace", async () => {
    process.env["OUR_SECRET"] = "hush-hush";
    const { host } = place(
      { web: { env: new Map(Object.entries({ API_TOKEN: "env:REAL", PLAIN: "x" })) } },
      { REAL: "t0ken-value" },
    );
    const { tools } = await listMcpTools(host);
    const { text } = await toolIn(tools, "web.say_env").execute({});
    delete process.env["OUR_SECRET"];
    const env = JSON.parse(text);
    expect(env).toMatchObject({ API_TOKEN: "t0ken-value", PLAIN: "x", FOLDER: host.home });
    expect(env["PATH"]).toBe(process.env["PATH"]);
    expect(Object.keys(env)).not.toContain("OUR_SECRET");
    expect(Object.keys(env)).not.toContain("VITEST");
  });

  it("have their secrets redacted like all others", async () => {
    const { host } = place(
      { web: { env: new Map([["API_TOKEN", "env:REAL"]]) }, far: { url: "http://x", token: "far-token" } },
      { REAL: "t0ken-value" },
    );
    const redactor = createHostRedactor(host);
    expect(redactor.redact("t0ken-value and far-token")).toBe("[API_TOKEN] and [far.token]");
    const { tools } = await listMcpTools(host, (name) => name === "web");
    const offered = wrapHostTool(toolIn(tools, "web.say_env"), 100_000, redactor);
    const { text } = await offered.execute({});
    expect(text).toContain("[API_TOKEN]");
    expect(text).not.toContain("t0ken-value");
    expect(text).toMatch(/^<skill_output tool="web.say_env">/);
  });

  it("receive an idempotency key that is the same for the same call", async () => {
    const { tool } = await usual();
    const { text } = await tool("web.say_meta").execute({}, { key: "run-1/call-2" });
    expect(JSON.parse(text)).toMatchObject({ "skillet/idempotency-key": "run-1/call-2" });
  });

  it("report progress", async () => {
    const { tool } = await usual();
    let said: string[] = [];
    // The client of the SDK drops progress that arrives in one piece with the answer, as it does on a busy machine.
    await waitFor(async () => {
      said = [];
      await tool("web.count").execute({}, { onProgress: (text) => said.push(text) });
      return said.length === 2;
    });
    expect(said[0]).toBe("1 of 2");
    expect(said[1]).toMatch(/^almost/);
    expect(said[1]).not.toContain("\u{1b}");
  });

  it("return text, and name content that is not text", async () => {
    const { tool } = await usual();
    expect((await tool("web.parts").execute({})).text).toBe(
      [
        "one",
        "[image, image/png, 6 bytes; not shown]",
        "[resource b.txt: file:///b.txt]",
        "[resource file:///a.txt, text/plain]",
        "inside",
        "two",
      ].join("\n"),
    );
    // Its sum is not text, as the schema promised: a model reads it nonetheless.
    expect(await tool("web.structured").execute({})).toEqual({ text: '{"sum":3}', isError: false });
    expect(await tool("web.fail").execute({})).toEqual({ text: "out of cake", isError: true, code: "failed" });
  });

  it("are canceled at the server when the run is interrupted", async () => {
    const { tool, log } = await usual();
    const controller = new AbortController();
    const call = tool("web.wait").execute({}, { signal: controller.signal });
    await expect.poll(log).toContain("call wait");
    controller.abort();
    expect(await call).toMatchObject({ isError: true, code: "aborted" });
    await expect.poll(log).toContain("cancelled");
  });

  it("are abandoned when they take too long, and the server keeps running", async () => {
    const run = async (seconds: number) => {
      const { host, log } = place({ web: { seconds } });
      const { tools } = await listMcpTools(host);
      const execute = async (name: string) => tools.find((tool) => tool.name === name)?.execute({ text: "it" });
      return { waited: await execute("web.wait"), looked: await execute("web.look"), log: log() };
    };
    const { waited, looked, log } = await withGrowingLimit(run, (result) => result.looked?.isError === false, {
      from: 1,
    });
    expect(waited).toMatchObject({
      isError: true,
      code: "mcp-timeout",
      text: expect.stringMatching(/'web' did not answer within \d+ s.*timeout_seconds under \[tools\.mcp\.web\]/),
    });
    expect(looked).toMatchObject({ text: "looked at it" });
    expect(started(log)).toHaveLength(1);
  });

  it("fail when the server dies, with its last output, and the next call starts it again", async () => {
    const { host, log } = place({ web: { env: new Map([["API_TOKEN", "t0ken-value"]]) } });
    const { tools } = await listMcpTools(host);
    const died = await toolIn(tools, "web.exit").execute({});
    expect(died).toMatchObject({ isError: true, code: "mcp-failed" });
    expect(died.text).toMatch(/MCP server 'web' failed: .*ended with code 3; it printed: last words/);
    expect(died.text).toMatch(/call it again to reconnect/);
    expect(died.text).toContain("[API_TOKEN]");
    expect(died.text).not.toMatch(/\u{1b}|t0ken-value/u);
    expect(await toolIn(tools, "web.look").execute({ text: "it" })).toMatchObject({ text: "looked at it" });
    expect(started(log())).toHaveLength(2);
  });

  it("restart their server at most once a second", async () => {
    const { tool, log } = await usual();
    // The third start happens a second after the second, whenever that was.
    let hasPassed = false;
    setTimeout(() => {
      hasPassed = true;
    }, 900);
    for (const _ of [1, 2, 3]) await tool("web.exit").execute({});
    expect(hasPassed).toBe(true);
    expect(started(log())).toHaveLength(3);
  });

  it("fail for an answer that is too large, and then work again", async () => {
    const { tool } = await usual();
    expect(await tool("web.large").execute({})).toMatchObject({ isError: true, code: "mcp-failed" });
    expect(await tool("web.look").execute({ text: "it" })).toMatchObject({ isError: false });
  });

  it("are listed again when the server announces a change", async () => {
    const { host, tool, log } = await usual();
    await listMcpTools(host);
    expect(log().filter((line) => line === "list")).toHaveLength(1);
    await tool("web.grow").execute({});
    await expect.poll(async () => (await listMcpTools(host)).tools.map(({ name }) => name)).toContain("web.grown");
  });
});

describe("MCP servers", () => {
  it("are started once, in parallel, and shared by all with the same configuration", async () => {
    const { host, log } = place({ a: {}, b: {}, c: {} });
    const again: Host = { ...host, settings: { ...host.settings, mcp: new Map([...host.settings.mcp]) } };
    const [first, second] = await Promise.all([listMcpTools(host), listMcpTools(again)]);
    expect(first.tools.map(({ name }) => name)).toEqual(second.tools.map(({ name }) => name));
    expect(new Set(first.tools.map(({ name }) => name.split(".")[0]))).toEqual(new Set(["a", "b", "c"]));
    expect(started(log())).toHaveLength(3);
  });

  it("are not started when they are unused or disabled", async () => {
    const { host, log } = place({ a: {}, b: { enabled: false } });
    const { tools } = await listMcpTools(host, (name) => name !== "a");
    expect(tools).toEqual([]);
    expect(log()).toEqual([]);
  });

  it("do not keep their process alive, and end with it", async () => {
    const { url } = await startMcpHttpServer();
    const { host, log } = place({ a: {}, far: { url } });
    const { stdout, stderr } = await inProcess(
      host,
      `const { tools } = await listMcpTools(host);
       for (const name of ["a.look", "far.look"])
         console.log((await tools.find((tool) => tool.name === name).execute({ text: name })).text);`,
    );
    expect([stdout, stderr]).toEqual(["looked at a.look\nlooked at far.look\n", ""]);
    expect(started(log())).toHaveLength(1);
    await expect.poll(() => started(log()).filter(isRunning)).toEqual([]);
  });

  it("end with a process that ends before they have answered", async () => {
    const { host, log } = place({ silent: { kind: "silent" } });
    const isStarted = `require("node:fs").existsSync(${JSON.stringify(join(host.home ?? "", "log.txt"))})`;
    await inProcess(
      host,
      `const require = process.getBuiltinModule("node:module").createRequire("/");
       void listMcpTools(host);
       setInterval(() => ${isStarted} && process.exit(), 20);`,
    );
    expect(started(log())).toHaveLength(1);
    await expect.poll(() => started(log()).filter(isRunning)).toEqual([]);
  });

  it("end when they are closed", async () => {
    const { host, log } = place({ a: {} });
    await listMcpTools(host);
    await closeMcpServers();
    const pid = started(log())[0] ?? 0;
    await expect.poll(() => isRunning(pid)).toBe(false);
  });

  it("that only support the new protocol, print other output, or have no tools, are understood", async () => {
    const { host } = place({ new: { kind: "modern" }, chatty: { kind: "chatty" }, none: { kind: "none" } });
    const { tools, problems } = await listMcpTools(host);
    expect(problems).toEqual([]);
    expect(tools.some(({ name }) => name.startsWith("none."))).toBe(false);
    for (const name of ["new.look", "chatty.look"])
      expect(await toolIn(tools, name).execute({ text: "it" })).toMatchObject({ text: "looked at it" });
  });

  it("that cannot be used are a problem with a fix, and the others work", async () => {
    const { host, log } = place(
      {
        dies: { kind: "dies", env: new Map([["API_TOKEN", "the key"]]) },
        gone: { command: ["/nonexistent/server"] },
        silent: { kind: "silent" },
        floods: { kind: "floods" },
        both: { url: "http://127.0.0.1:1/", command: ["x"] },
        unset: { env: new Map([["KEY", "env:NOWHERE"]]) },
        far: { url: "http://127.0.0.1:1/" },
        good: {},
      },
      {},
    );
    const { tools, problems } = await listMcpTools(host);
    expect(tools.every(({ name }) => name.startsWith("good."))).toBe(true);
    expect(tools.length).toBeGreaterThan(5);
    const said = Object.fromEntries(problems.map((one) => [/'(\w+)'/.exec(one.message)?.[1], one]));
    expect(said["dies"]).toMatchObject({
      code: "mcp-failed",
      message: expect.stringMatching(/code 7.*\[API_TOKEN\] is missing/),
    });
    expect(said["gone"]).toMatchObject({ code: "mcp-failed", message: expect.stringContaining("ENOENT") });
    expect(said["gone"]?.fix).toMatch(/command and env under \[tools\.mcp\.gone\]/);
    expect(said["silent"]).toMatchObject({ code: "mcp-timeout", message: expect.stringContaining("10 s") });
    expect(said["floods"]).toMatchObject({
      code: "mcp-failed",
      message: expect.stringContaining("without an MCP message"),
    });
    expect(said["both"]?.message).toContain("both command and url");
    expect(said["unset"]?.message).toMatch(/env\.KEY: .*is empty or not set/);
    expect(said["far"]).toMatchObject({ code: "mcp-failed", fix: expect.stringContaining("url and token") });
    const pids = started(log());
    expect(pids.length).toBeGreaterThanOrEqual(4);
    await closeMcpServers();
    await expect.poll(() => pids.filter(isRunning)).toEqual([]);
  });

  it("that were unavailable are not tried again at once", async () => {
    const { host, log } = place({ dies: { kind: "dies" } });
    await listMcpTools(host);
    const { problems } = await listMcpTools(host);
    expect(problems).toMatchObject([{ code: "mcp-failed" }]);
    expect(started(log())).toHaveLength(1);
  });

  it("are awaited no longer than the run lasts", async () => {
    const { host } = place({ silent: { kind: "silent" } });
    expect(await listMcpTools(host, undefined, { signal: AbortSignal.timeout(200) })).toEqual({
      tools: [],
      problems: [],
    });
    await closeMcpServers();
  });

  it("with odd tool names get valid names for them", async () => {
    const { host } = place({ odd: { kind: "illegal" } });
    const { tools } = await listMcpTools(host);
    expect(tools.map(({ name }) => name)).toEqual([
      expect.stringMatching(/^odd\.s_ka_\w+$/),
      expect.stringMatching(/^odd\.two_words_\w+$/),
      expect.stringMatching(/^odd\.a_b__\w+$/),
      expect.stringMatching(/^odd\.x+_\w+$/),
      "odd.admin.tools.list",
    ]);
    expect(tools[0]?.description).toMatch(/^Has a name of its own&lt;\/skill_content>/);
    expect(JSON.stringify(tools[0])).not.toMatch(/[\u{200b}\u{202e}]|<system>/u);
  });

  it("with too many tools provide the first ones, or those that are listed", async () => {
    const { host } = place({ many: { kind: "many" }, few: { kind: "many", tools: ["tool7", "tool999", "tool1000"] } });
    const { tools, problems } = await listMcpTools(host);
    expect(tools.filter(({ name }) => name.startsWith("many."))).toHaveLength(128);
    expect(tools.filter(({ name }) => name.startsWith("few.")).map(({ name }) => name)).toEqual([
      "few.tool7",
      "few.tool999",
    ]);
    expect(problems).toEqual([
      {
        code: "mcp-too-many-tools",
        message: "MCP server 'many' has 1,000 tools: runs get only the first 128",
        fix: 'list the tools you need: tools = ["…"] under [tools.mcp.many] in config.toml',
      },
      expect.objectContaining({ code: "mcp-tool-unknown", message: "MCP server 'few' has no tool 'tool1000'" }),
    ]);
  });

  it("with a huge schema lose that tool, and long descriptions are cut", async () => {
    const { host } = place({ big: { kind: "huge" } });
    const { tools, problems } = await listMcpTools(host);
    expect(tools.map(({ name }) => name)).toEqual(["big.small"]);
    expect(tools[0]?.description.length).toBeLessThanOrEqual(2048);
    expect(problems).toMatchObject([{ code: "mcp-tool-schema", message: expect.stringContaining("Tool 'big'") }]);
  });

  it("report their status to listeners", async () => {
    const { host } = place({ a: {}, dies: { kind: "dies" }, off: { enabled: false } });
    expect(await checkMcpServers(host)).toMatchObject([
      { name: "a", isEnabled: true, problems: [], tools: expect.arrayContaining(["a.look"]) },
      { name: "dies", tools: [], problems: [{ code: "mcp-failed" }] },
      { name: "off", isEnabled: false, tools: [], problems: [] },
    ]);
  });
});

describe.each([
  ["of both eras", {}],
  ["of the newer era only", { legacy: "reject" }],
] as const)("tools of an HTTP MCP server, %s", (_, options) => {
  it("are found and called with the token", async () => {
    const { url, requests } = await startMcpHttpServer({ token: "s3cret", ...options });
    const { host } = place({ far: { url, token: "env:TOKEN" } }, { TOKEN: "s3cret" });
    const { tools, problems } = await listMcpTools(host);
    expect(problems).toEqual([]);
    expect(await toolIn(tools, "far.look").execute({ text: "it" })).toEqual({
      text: "looked at it",
      isError: false,
    });
    expect(requests).not.toContain("GET");
  });

  it("are a problem without the token, which is never sent to another address", async () => {
    const { url } = await startMcpHttpServer({ token: "s3cret", ...options });
    const { host } = place({ far: { url } });
    const { tools, problems } = await listMcpTools(host);
    expect(tools).toEqual([]);
    expect(problems).toMatchObject([{ code: "mcp-failed", fix: expect.stringContaining("url and token") }]);
  });

  it("are listed over a new connection when the server has closed the kept one", async () => {
    const { url, requests, breakNext } = await startMcpHttpServer(options);
    const { host } = place({ far: { url } });
    let ageMs = 0;
    const list = () => listMcpTools(host, () => true, { now: () => performance.now() + ageMs });
    await list();
    ageMs = 3_600_000;
    breakNext();
    const { length } = requests;
    const { tools, problems } = await list();
    expect(problems).toEqual([]);
    expect(tools.map(({ name }) => name)).toContain("far.look");
    expect(requests.length).toBeGreaterThan(length + 1);
  });

  it("fail when the server is gone", async () => {
    const { url, stop } = await startMcpHttpServer(options);
    const { tools } = await listMcpTools(place({ far: { url } }).host);
    stop();
    const call = () => toolIn(tools, "far.look").execute({ text: "it" });
    const content = expect.stringMatching(
      /^MCP server 'far' failed: (?:other side closed|connect ECONN).*: call it again to reconnect/,
    );
    expect(await call()).toEqual({ isError: true, code: "mcp-failed", text: content });
    const again = expect.stringMatching(/^MCP server 'far' cannot be used: connect ECONNREFUSED/);
    expect(await call()).toEqual({ isError: true, code: "mcp-failed", text: again });
  });

  it("are bounded, report progress, and can be interrupted", async () => {
    const { url } = await startMcpHttpServer(options);
    const { tools } = await listMcpTools(place({ far: { url, seconds: 5 } }).host);
    expect(await toolIn(tools, "far.large").execute({})).toMatchObject({ isError: true });
    const said: string[] = [];
    await toolIn(tools, "far.count").execute({}, { onProgress: (text) => said.push(text) });
    expect(said).toHaveLength(2);
    const call = toolIn(tools, "far.wait").execute({}, { signal: AbortSignal.timeout(100) });
    expect(await call).toMatchObject({ code: "aborted" });
  });
});

/** Runs a script in its own process that has this host. */
function inProcess({ settings, home }: Host, script: string) {
  const servers = [...settings.mcp].map(([name, one]) => [name, { ...one, env: [...one.env] }]);
  const head = `
    import { DEFAULT_SETTINGS } from ${JSON.stringify(moduleOf("config/settings"))};
    import { listMcpTools } from ${JSON.stringify(moduleOf("agent/mcp-client/mcp-servers"))};
    const mcp = new Map(${JSON.stringify(servers)}.map(([name, one]) => [name, { ...one, env: new Map(one.env) }]));
    const host = { settings: { ...DEFAULT_SETTINGS, mcp }, home: ${JSON.stringify(home)}, env: {} };`;
  return promisify(execFile)(process.execPath, ["--input-type=module", "-e", `${head}\n${script}`], {
    timeout: 45_000,
  });
}

/** Returns the pids of the processes so far. */
function started(log: readonly string[]): number[] {
  return log.flatMap((line) => (line.startsWith("start ") ? Number(line.slice("start ".length)) : []));
}

/** A zombie, which ended but was not reaped yet, does not count. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
