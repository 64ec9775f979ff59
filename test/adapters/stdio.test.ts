import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { ERAS } from "../support/mcp-client.ts";
import {
  connectProcessClient,
  createHomeWith,
  environment,
  type McpProcess,
  OPENING,
  running,
  startMcpProcess,
  startOf,
} from "../support/mcp-process.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { openTerminal } from "../support/terminal.ts";
import { toolsetOf } from "../support/toolset.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const HOME = "home/.skillet/skills";
const TOOLSET = 'toolsets:\n  - "toolsets/index:Tools"\n';
const MAIL = {
  [`${HOME}/mail/SKILL.md`]: skillText("mail", { more: TOOLSET }),
  [`${HOME}/mail/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }),
};

describe.each(sampleRows(ERAS, 1))("skillet serve, as a process of a client of %s", (era) => {
  it("[P-18] lists a skill's tools while it is loaded, calls them, and ends with its client", async () => {
    const { client, call, tools, pid } = await connectProcessClient(createHomeWith(MAIL), { era });
    const before = await tools();
    await call("load_skill", { skill: "mail" });
    expect((await tools()).filter((name) => !before.includes(name))).toEqual(["mail__send", "mail__run"]);
    expect((await call("mail__send", { input: "Ada" })).text).toContain("mail of Ada");
    await call("unload_skill", { skill: "mail" });
    expect(await tools()).toEqual(before);
    await client.close();
    await waitFor(() => expect(isThere(pid)).toBe(false));
  });
});

describe("stdout of skillet serve", () => {
  const PRINTS = {
    console: 'console.log("L"); console.error("E"); console.table([1]); process.emitWarning("W"); return "done";',
    stream: 'process.stdout.write("S\\n"); process.stdout.write(Buffer.from("B")); return "done";',
    descriptor:
      'fs.writeSync(1, "D1\\n"); fs.writeSync(1, Buffer.from("xD2\\nx"), 1, 3); fs.writeFileSync(1, "D3\\n"); return "done";',
    logger:
      'await new Promise((done) => fs.write(1, "G\\n", done)); fs.createWriteStream("", { fd: 1 }).write("C\\n"); return "done";',
    program:
      'cp.execSync("echo P; cat", { stdio: "inherit" }); cp.spawnSync("echo", ["P"], { stdio: ["ignore", 1, process.stdout] }); return "done";',
    fork: 'const name = "/tmp/" + crypto.randomUUID() + ".cjs"; fs.writeFileSync(name, "console.log(1)"); await new Promise((done) => cp.fork(name, undefined, undefined).once("exit", done)); fs.rmSync(name); return "done";',
    stdin: 'return "read " + fs.readFileSync(0, "utf8") + fs.readSync(0, Buffer.alloc(9));',
    closing: 'fs.closeSync(1); fs.closeSync(0); return "done";',
    file: 'const name = "/tmp/" + crypto.randomUUID(); fs.writeFileSync(name, "kept"); const text = fs.readFileSync(name, "utf8"); fs.rmSync(name); return text + cp.execSync("echo heard");',
  };
  const NOISY = {
    [`${HOME}/noisy/SKILL.md`]: skillText("noisy", { more: TOOLSET }),
    [`${HOME}/noisy/toolsets/index.ts`]: toolsetOf(
      PRINTS,
      'import fs from "node:fs";\nimport * as cp from "node:child_process";\nconsole.log("I");\nprocess.stdout.write("I\\n");\nfs.writeSync(1, "I\\n");',
    ),
    [`${HOME}/noisy/scripts/say.sh`]: "#!/bin/sh\necho out\necho err >&2\necho more >/dev/stdout\n",
  };

  it("contains only the protocol, whatever a toolset or a script prints to any stream", async () => {
    const server = startMcpProcess(createHomeWith(NOISY));
    await server.initialize();
    await server.call("load_skill", { skill: "noisy" });
    for (const tool of [...Object.keys(PRINTS), "say"]) {
      const { result } = await server.call(`noisy__${tool}`);
      expect({ tool, isError: result?.isError, foreign: server.foreign() }).toEqual({ tool, foreign: [] });
    }
    const text = async (tool: string) => (await server.call(`noisy__${tool}`)).result.content[0].text;
    expect(await text("stdin")).toContain("read 0");
    expect(await text("file")).toContain("keptheard");
    server.child.stdin.end();
    expect(await server.ended).toEqual({ code: 0, signal: null });
    expect(server.foreign()).toEqual([]);
  });

  it("contains only the protocol, whatever a library prints in its own process", async () => {
    const beside = `setInterval(() => { console.log("L"); console.warn("W"); console.info("I"); process.stdout.write("S"); process.stdout.write(Buffer.from("B")); }, 5).unref();
      setTimeout(() => process.emitWarning("old"), 50).unref();`;
    const server = startMcpProcess(createHomeWith(MAIL), [], { beside });
    await server.initialize();
    for (let times = 0; times < 20; times++) await server.request("tools/list");
    await waitFor(() => expect(server.said()).toContain("Warning: old"));
    expect(server.foreign()).toEqual([]);
    expect(server.said()).toContain("W\n");
  });
});

describe("a client that disconnects during a call", () => {
  /** Skills whose calls last this long, or forever. Some of them write a file when they begin. */
  const slow = (seconds: string, marks = "") => ({
    [`${HOME}/slow/SKILL.md`]: skillText("slow", { more: TOOLSET }),
    [`${HOME}/slow/toolsets/index.ts`]: toolsetOf({
      wait: `${marks}; await new Promise(() => {});`,
      spin: `${marks}; for (;;);`,
      stuck: `(await import("node:child_process")).execSync("sleep ${seconds}");`,
    }),
    [`${HOME}/slow/scripts/nap.sh`]: `#!/bin/sh\ntrap '' TERM INT HUP\nsleep ${seconds}\nsleep ${seconds}\n`,
  });
  const begun = async (tool: string, seconds: string, marks?: string): Promise<McpProcess> => {
    const server = startMcpProcess(createHomeWith(slow(seconds, marks)));
    await server.initialize();
    await server.call("load_skill", { skill: "slow" });
    server.send({ jsonrpc: "2.0", id: "slow", method: "tools/call", params: { name: `slow__${tool}`, arguments: {} } });
    return server;
  };
  const WAYS: Record<string, (server: McpProcess) => void> = {
    "closes stdin": ({ child }) => child.stdin.end(),
    "closes everything": ({ child }) => {
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    },
    "sends SIGTERM": ({ child }) => child.kill("SIGTERM"),
    "sends SIGINT": ({ child }) => child.kill("SIGINT"),
  };

  it.each(sampleRows(Object.entries(WAYS), 2))("and %s leaves no process", async (way, go) => {
    const seconds = `71.${Object.keys(WAYS).indexOf(way)}25`;
    const server = await begun("nap", seconds);
    await waitFor(() => expect(running(`sleep ${seconds}`)).toHaveLength(1));
    go(server);
    expect(await server.ended).toEqual({ code: 0, signal: null });
    await waitFor(() => expect(running(`sleep ${seconds}`)).toEqual([]));
    expect(server.foreign()).toEqual([]);
  });

  it("because it is killed leaves no process either", async () => {
    const place = createHomeWith(slow("72.125"));
    const said = { name: "run_skill_script", arguments: { skill: "slow", script: "nap" } };
    const messages = [
      { jsonrpc: "2.0", id: 1, method: "initialize", params: OPENING },
      { jsonrpc: "2.0", id: 2, method: "tools/call", params: said },
    ];
    const text = `const child = require("node:child_process").spawn(process.execPath, ${JSON.stringify(startOf([]))}, { stdio: ["pipe", "pipe", "ignore"] });
      child.stdin.write(${JSON.stringify(messages.map((one) => `${JSON.stringify(one)}\n`).join(""))});
      console.log(child.pid);`;
    const client = spawn(process.execPath, ["-e", text], { cwd: place.cwd, env: environment(place) });
    const [bytes] = await once(client.stdout, "data");
    await waitFor(() => expect(running("sleep 72.125")).toHaveLength(1));
    client.kill("SIGKILL");
    await waitFor(() => expect(isThere(Number(bytes))).toBe(false));
    expect(running("sleep 72.125")).toEqual([]);
  });

  it("has the run of its skill ended, which can be resumed", async () => {
    const turns = () => [{ tool: "bash", input: { command: "sleep 74.125" } }];
    const { found } = await useScene({ skills: { helper: {} }, turns });
    const server = startMcpProcess({
      root: found.root,
      home: join(found.root, "home"),
      cwd: join(found.root, "project"),
    });
    await server.initialize();
    const params = { name: "use_skill", arguments: { skill: "helper", message: "Wait." } };
    server.send({ jsonrpc: "2.0", id: "use", method: "tools/call", params });
    await waitFor(() => expect(running("sleep 74.125")).toHaveLength(1));
    server.child.stdin.end();
    expect(await server.ended).toEqual({ code: 0, signal: null });
    expect(running("sleep 74.125")).toEqual([]);
    expect((await found.runs.list()).map(({ state }) => state)).toEqual(["interrupted"]);
  });

  it.each(sampleRows(["wait", "spin", "stuck"], 2))(
    "does not wait for a toolset's call that does not end: %s",
    async (tool) => {
      for (const [index, way] of (tool === "stuck" ? ["closes stdin", "sends SIGTERM"] : ["closes stdin"]).entries()) {
        const seconds = `76.${index}75`;
        onTestFinished(() => {
          for (const pid of running(`sleep ${seconds}`)) process.kill(pid, "SIGKILL");
        });
        const mark = join(temporaryFolder(), "begun");
        const server = await begun(
          tool,
          seconds,
          `(await import("node:fs")).writeFileSync(${JSON.stringify(mark)}, "")`,
        );
        await waitFor(() => (tool === "stuck" ? running(`sleep ${seconds}`).length > 0 : existsSync(mark)));
        WAYS[way]?.(server);
        const { code, signal } = await server.ended;
        const expected = way === "sends SIGTERM" ? { code: null, signal: "SIGTERM" } : { code: 0, signal: null };
        expect({ code, signal }).toEqual(expected);
      }
    },
  );

  it.each(ERAS)("over HTTP, in %s, leaves no process", async (era) => {
    const seconds = era === "2025-11-25" ? "73.125" : "73.25";
    const server = startMcpProcess(createHomeWith(slow(seconds)), ["--http", "0", "--no-token"]);
    await waitFor(() => expect(server.lines()).toHaveLength(1));
    const [url = ""] = server.lines();
    const headers = await headersOf(url, era);
    const call = posted(url, headers, {
      ...{ jsonrpc: "2.0", id: 2, method: "tools/call" },
      params: {
        name: "run_skill_script",
        arguments: { skill: "slow", script: "nap" },
        _meta: era === "2025-11-25" ? {} : ENVELOPE,
      },
    });
    await waitFor(() => expect(running(`sleep ${seconds}`)).toHaveLength(1));
    call.destroy();
    await waitFor(() => expect(running(`sleep ${seconds}`)).toEqual([]));
    server.child.kill("SIGTERM");
    expect(await server.ended).toEqual({ code: 0, signal: null });
  });
});

describe("skillet serve that cannot start", () => {
  it("reports the reason on stderr, and nothing on stdout", async () => {
    const server = startMcpProcess(createHomeWith({ "home/.skillet/config.toml": "a = = b\n[[" }));
    expect(await server.ended).toEqual({ code: 2, signal: null });
    expect(server.lines()).toEqual([]);
    expect(server.said()).toContain("config.toml:1:5 is not valid TOML");
  });

  it.each([
    [["--http", "0", "--only", "mial"], 2, 'did you mean "mail"?'],
    [["--token", "env:HOME"], 2, "--token needs --http"],
    [["--no-token"], 2, "--token needs --http"],
    [["--http", ":::"], 2, '":::" is not an address'],
    [["--http", "99999"], 2, '"99999" is not an address'],
    [["--http", "::1"], 2, '"::1" is not an address'],
    [["--http", "http://127.0.0.1:0"], 2, '"http://127.0.0.1:0" is not an address'],
    [["--http", "0.0.0.0:0", "--no-token"], 2, "no token is set"],
    [["--http", "[::]:0", "--no-token"], 2, "no token is set"],
    [["--http", "1.2.3.4.5"], 2, '"1.2.3.4.5" is not an address'],
    [["--http", "a b"], 2, '"a b" is not an address'],
    [["--http", ""], 2, "is not an address"],
    [["--http", "0", "--token", "hunter2-hunter2-hunter2"], 2, "not be the token itself"],
    [["--http", "0", "--token", "env:SHORT"], 2, "it is too short"],
    [["--http", "0", "--token", "env:UNSET"], 2, '"env:UNSET", is empty or not set'],
    [["--http", "0", "--token", "file:/no/such/file"], 2, "/no/such/file cannot be read"],
    [[], 2, "A client communicates over stdin and stdout"],
  ])("with %j exits with %i: %s", async (args, code, why) => {
    const { home, cwd } = createHomeWith(MAIL);
    const ran = await skillet(["serve", ...args], { cwd, env: { HOME: home, SHORT: "short" } });
    expect(ran).toEqual({ code, stdout: "", stderr: expect.stringContaining(why) });
    expect(ran.stderr).not.toContain("hunter2");
  });

  it("reports a port in use", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const at = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const { code, stderr } = await skillet(["serve", "--http", at]);
    other.close();
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`${at} is already in use`) });
  });

  it("explains at a terminal which program should start it", async () => {
    const at = openTerminal(["serve"], createHomeWith(MAIL));
    expect(await at.ended).toBe(2);
    expect(at.screen()).toContain("A client communicates over stdin and stdout, but this is a terminal");
  });
});

const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": OPENING.clientInfo,
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** The headers of a client's requests: in the older revision, with its session. */
async function headersOf(url: string, era: (typeof ERAS)[number]): Promise<Record<string, string>> {
  const version = { "mcp-protocol-version": era };
  if (era === "2026-07-28") return { ...version, "mcp-method": "tools/call", "mcp-name": "run_skill_script" };
  const opening = posted(url, {}, { jsonrpc: "2.0", id: 1, method: "initialize", params: OPENING });
  const [answer] = await once(opening, "response");
  answer.resume();
  return { ...version, "mcp-session-id": String(answer.headers["mcp-session-id"]) };
}

function posted(url: string, headers: Record<string, string>, body: unknown) {
  const accept = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const sent = request(url, { method: "POST", headers: { ...accept, ...headers } });
  sent.on("error", () => {}); // It was cut.
  sent.end(JSON.stringify(body));
  return sent;
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
