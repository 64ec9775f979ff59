/**
 * Tries to use the sockets and named pipes of a workspace. `node channels.ts {}` tries all of them, and prints the outcomes as JSON: for a
 * process of another user.
 */

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { main } from "../../../src/cli/main.ts";
import type { CommandIo } from "../../../src/cli/output.ts";
import { runOwnProcess, type Starting } from "../../support/own-process.ts";

export const SOCKETS = [
  "agent.sock",
  "a/b/c/d/e/f/g/h/deep.sock",
  ".git/fsmonitor--daemon.ipc",
  "node_modules/x/x.sock",
];
const OWN = "mine.sock";

/** By the path of a socket, and `pipe`: what code read from it. */
export type Got = Record<string, string>;

export interface ChannelsCame {
  read: Got;
  written: Got;
  granted: Got;
  /** How many connections the host's servers saw. */
  connections: { ungranted: number; granted: number };
}

// Connects to each, and to one that it listens at itself.
const PROGRAM = `
const net = require("node:net"), fs = require("node:fs");
const connect = (path) => new Promise((resolve) => {
  const socket = net.connect(path).setTimeout(3000);
  socket.on("data", (bytes) => (resolve(String(bytes)), socket.destroy()));
  socket.on("error", (error) => resolve(error.code));
  socket.on("timeout", () => (resolve("no answer"), socket.destroy()));
});
(async () => {
  const got = {};
  for (const path of process.argv.slice(2)) got[path] = await connect("/workspace/" + path);
  try { got.pipe = fs.readFileSync("/workspace/pipe", "utf8"); } catch (error) { got.pipe = error.code; }
  try {
    const own = net.createServer((socket) => socket.end("own"));
    await new Promise((resolve, reject) => own.on("error", reject).listen("/workspace/${OWN}", resolve));
    got.own = await connect("/workspace/${OWN}");
    own.close();
  } catch (error) { got.own = error.code; }
  console.log(JSON.stringify(got));
})();`;

export async function tryChannels(): Promise<ChannelsCame> {
  const root = mkdtempSync(join(tmpdir(), "s-"));
  const servers: Server[] = [];
  let connections = 0;
  try {
    const [home, project] = [join(root, "home"), join(root, "project")];
    const put = (path: string, text: string) => {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    };
    put(
      join(home, ".skillet/skills/x/SKILL.md"),
      "---\nname: x\ndescription: Does x. Use when asked for x.\n---\n\nDo it.\n",
    );
    put(join(home, ".skillet/skills/x/scripts/go.js"), PROGRAM);
    for (const path of SOCKETS) {
      mkdirSync(dirname(join(project, path)), { recursive: true });
      const server = createServer((socket) => {
        connections++;
        socket.end("answer of the host");
      });
      await new Promise<void>((resolve) => server.listen(join(project, path), resolve));
      chmodSync(join(project, path), 0o777);
      servers.push(server);
    }
    execFileSync("/usr/bin/mkfifo", [join(project, "pipe")]);
    if (process.getuid?.() === 0) {
      chmodSync(root, 0o755);
      execFileSync("/bin/chown", ["-R", "65534:65534", project]);
    }
    const run = async (access: string, network: readonly string[] = []): Promise<Got> => {
      const config = join(home, ".skillet/config.toml");
      put(config, `[sandbox]\nworkspace = "${access}"\nnetwork = ${JSON.stringify(network)}\n`);
      chmodSync(config, 0o600);
      return skilletScript(home, project);
    };
    const [read, written] = [await run("read"), await run("read-write")];
    const ungranted = connections;
    const granted = await run("read", ["unix:agent.sock", `unix:${join(project, "node_modules/x/x.sock")}`]);
    return { read, written, granted, connections: { ungranted, granted: connections - ungranted } };
  } finally {
    for (const server of servers) server.close();
    rmSync(root, { recursive: true, force: true });
  }
}

async function skilletScript(home: string, cwd: string): Promise<Got> {
  let stdout = "";
  const stream = { isTTY: false, columns: 100, write: () => {} };
  const write = (text: string) => {
    stdout += text;
  };
  const io: CommandIo = { stdout: { ...stream, write }, stderr: stream, env: { HOME: home }, cwd };
  await main(["script", "--json", "x", "go.js", ...SOCKETS], io);
  const result = JSON.parse(stdout);
  if (result.exitCode !== 0) throw new Error(stdout);
  return JSON.parse(result.stdout);
}

/** Does the same in another process. */
export function tryChannelsAs(starting: Starting): Promise<ChannelsCame & { signal: string | null }> {
  return runOwnProcess(import.meta.filename, {}, starting);
}

if (process.argv[1] === import.meta.filename && process.argv[2] !== undefined) {
  process.stdout.write(JSON.stringify(await tryChannels()));
}
