import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { userHome } from "../host/home.ts";
import { systemProgram } from "../host/programs.ts";
import { sandboxFolder } from "./places.ts";
import { PROBE_PROGRAM } from "./probe-program.ts";
import { makeFolder } from "./store.ts";
import { uvPrograms } from "./uv.ts";

// Programs and settings of the system, which every sandbox reads.
const SYSTEM_FOLDERS = ["/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib64"];

/** What lies about on the host for a probe to find, should it get that far. */
export interface Bait {
  /** Stands in the environment and on the command line of a process. */
  token: string;
  files: readonly string[];
  /** Folders that the list of a sandbox's mounts must not name, apart from what is inside of the second ones. */
  hiddenFolders: readonly string[];
  namedFolders: readonly string[];
  /** Of 127.0.0.1 and ::1. */
  port: number;
  abstractSocket: string;
  socket: string;
  /** How many connections came in. */
  reached(): number;
  /** With the probe's program, and one that everybody can write to. */
  program: string;
  workspace: string;
  remove(): void;
}

export async function layBait(home: string): Promise<Bait> {
  const token = `bait-${randomUUID()}`;
  const programs = [process.execPath, ...uvPrograms(userHome(process.env)).values()];
  const place = sandboxFolder(home);
  makeFolder(place);
  const folder = mkdtempSync(join(place, "probe-"));
  const program = join(folder, "program");
  const workspace = join(folder, "workspace");
  for (const path of [folder, program, workspace]) {
    mkdirSync(path, { recursive: true });
    chmodSync(path, path === workspace ? 0o777 : 0o755);
  }
  writeFileSync(join(program, "probe.cjs"), PROBE_PROGRAM);
  chmodSync(join(program, "probe.cjs"), 0o644);

  const files = [home, userHome(process.env), tmpdir(), process.cwd()].map((path) => join(path, `.skillet-${token}`));
  const laid = files.filter((path) => isDone(() => writeFileSync(path, token, { mode: 0o644, flag: "wx" })));
  const neighbour = spawn("/bin/sleep", ["300"], { argv0: token, env: { SKILLET_BAIT: token }, stdio: "ignore" });
  neighbour.on("error", () => {});
  let count = 0;
  const socket = join(tmpdir(), `${token.slice(0, 24)}.sock`);
  const servers: Server[] = [];
  const listen = async (at: Parameters<Server["listen"]>[0]) => {
    const server = createServer((connection) => {
      count++;
      connection.destroy();
    });
    servers.push(server);
    await new Promise((resolve) => server.once("listening", resolve).once("error", resolve).listen(at));
    return server;
  };
  const address = (await listen({ host: "127.0.0.1", port: 0 })).address();
  const port = typeof address === "object" && address ? address.port : 0;
  await listen({ host: "::1", port });
  await listen({ path: socket });
  isDone(() => chmodSync(socket, 0o777));
  if (process.platform === "linux") await listen({ path: `\0${token}` });
  return {
    token,
    files: laid,
    hiddenFolders: [userHome(process.env), tmpdir(), process.cwd()].filter((path) => path !== "/"),
    namedFolders: [...SYSTEM_FOLDERS, place, ...programs.map((path) => dirname(realpathSync(path)))],
    port,
    abstractSocket: token,
    socket,
    reached: () => count,
    program,
    workspace,
    remove() {
      neighbour.kill("SIGKILL");
      for (const server of servers) server.close();
      for (const path of [...laid, folder]) rmSync(path, { recursive: true, force: true });
    },
  };
}

/** Makes a named pipe that everybody can write to, and opens it for reading. Undefined where the system has no `mkfifo`. */
export function openPipe(path: string): number | undefined {
  const program = systemProgram("mkfifo");
  if (program === undefined || spawnSync(program, [path], { env: {} }).status !== 0) return undefined;
  chmodSync(path, 0o666);
  return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

export interface HostProcess {
  pid: number;
  /** On the host. */
  users: readonly number[];
}

/** The host's processes with a text on their command line; undefined where the system does not tell. */
export function processesWith(text: string): HostProcess[] | undefined {
  if (process.platform !== "linux") return undefined;
  return pids()
    .filter((pid) => readOf(pid, "cmdline").includes(text))
    .map((pid) => ({ pid, users: usersOf(pid) }));
}

/** Resolves when there is no process with a text on its command line, or gives up. In milliseconds, how long it took. */
export async function goneAfter(text: string, mostMs: number): Promise<number | undefined> {
  const start = performance.now();
  while (performance.now() - start < mostMs) {
    if (processesWith(text)?.length === 0) return performance.now() - start;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return undefined;
}

function pids(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

function readOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return ""; // It is gone already.
  }
}

function usersOf(pid: number): number[] {
  const line = /^Uid:\s*(.*)$/m.exec(readOf(pid, "status"))?.[1];
  return line?.split(/\s+/).map(Number) ?? [];
}

function isDone(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
