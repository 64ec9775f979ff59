import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SkillError } from "../errors/problem.ts";
import type { CapabilityProvider } from "../host/capability-contract.ts";
import type { JsonObject } from "../util/objects.ts";
import { defineProvider } from "./define-provider.ts";

/**
 * Creates the provider of the shipped skill `ports`: the programs that listen on TCP ports of this machine, and a way to stop one. It reads
 * /proc, starts no program, and acts as the user that runs skillet. Arguments of programs are not returned: they often contain secrets.
 */
export function createPortsProvider(): CapabilityProvider {
  return defineProvider({
    namespace: "ports",
    health: () =>
      existsSync(TCP_TABLES[0])
        ? { isReady: true }
        : {
            isReady: false,
            message: "it reads /proc/net/tcp, which only Linux has",
            steps: ["use it on Linux or WSL"],
          },
    capabilities: {
      listeners: {
        description: "Programs of this machine that listen on TCP ports.",
        operations: {
          list: {
            description:
              "Lists the programs that listen on TCP ports, or on one port. The process of another user has no pid.",
            input: createInputSchema({ port: PORT_SCHEMA }, []),
            output: LIST_SCHEMA,
            execute: (input) => ({ listeners: listListeners((input as { port?: number }).port) }),
          },
          stop: {
            description: "Stops a process that listens on a port. Unsaved work of the program is lost with force.",
            input: createInputSchema(
              {
                port: PORT_SCHEMA,
                program: { type: "string", maxLength: 256, description: "as listed" },
                pid: { type: "integer", minimum: 1, description: "as listed" },
                start_time: { type: "integer", minimum: 0, description: "as listed: pids are used again" },
                force: { type: "boolean", default: false, description: "ends it at once, with SIGKILL" },
              },
              ["port", "program", "pid", "start_time"],
            ),
            output: STOP_SCHEMA,
            mutating: true,
            isReversible: false,
            execute: (input, { signal }) => stopListener(input as StopInput, signal),
          },
        },
      },
    },
  });
}

interface Listener {
  port: number;
  /** Local addresses: 0.0.0.0 and :: accept connections from other machines. */
  addresses: string[];
  user: string;
  program?: string;
  folder?: string;
  pid?: number;
  start_time?: number;
}

interface StopInput extends JsonObject {
  port: number;
  program: string;
  pid: number;
  start_time: number;
  force?: boolean;
}

const PORT_SCHEMA = { type: "integer", minimum: 1, maximum: 65_535 } as const;
const LISTENER_PROPERTIES = {
  port: PORT_SCHEMA,
  addresses: { type: "array", items: { type: "string" } },
  user: { type: "string" },
  program: { type: "string" },
  folder: { type: "string" },
  pid: { type: "integer" },
  start_time: { type: "integer" },
} as const;
const LIST_SCHEMA: JsonObject = {
  type: "object",
  properties: {
    listeners: {
      type: "array",
      items: {
        type: "object",
        properties: LISTENER_PROPERTIES,
        required: ["port", "addresses", "user"],
        additionalProperties: false,
      },
    },
  },
  required: ["listeners"],
  additionalProperties: false,
};
const STOP_SCHEMA: JsonObject = {
  type: "object",
  properties: { port: PORT_SCHEMA, pid: { type: "integer" }, is_running: { const: false } },
  required: ["port", "pid", "is_running"],
  additionalProperties: false,
};

function createInputSchema(properties: JsonObject, required: readonly string[]): JsonObject {
  return { type: "object", properties, required, additionalProperties: false };
}

const TCP_TABLES = ["/proc/net/tcp", "/proc/net/tcp6"] as const;
const LISTENING = "0A";

/** Lists listeners by port, one for each process. A socket whose process cannot be seen has only the name of its user. */
function listListeners(port?: number): Listener[] {
  const sockets = TCP_TABLES.flatMap(readListeningSockets).filter((socket) => (port ?? socket.port) === socket.port);
  const owners = findSocketOwners(new Set(sockets.map(({ inode }) => inode)));
  const listeners = new Map<string, Listener>();
  for (const { port, address, uid, inode } of sockets) {
    for (const pid of owners.get(inode) ?? [undefined]) {
      const id = `${port} ${pid ?? `user ${uid}`}`;
      const listener = listeners.get(id) ?? { port, addresses: [], user: getUserName(uid), ...describeProcess(pid) };
      if (!listener.addresses.includes(address)) listener.addresses.push(address);
      listeners.set(id, listener);
    }
  }
  return [...listeners.values()].sort((a, b) => a.port - b.port || (a.pid ?? 0) - (b.pid ?? 0));
}

/** Parses a table such as /proc/net/tcp: `sl local_address rem_address st … uid timeout inode`, with addresses in hexadecimal. */
function readListeningSockets(table: string): { port: number; address: string; uid: number; inode: string }[] {
  return readText(table)
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, local = "", , state, , , , uid = "", , inode = ""] = line.trim().split(/\s+/);
      const [address = "", port = ""] = local.split(":");
      if (state !== LISTENING) return [];
      return [{ port: Number.parseInt(port, 16), address: formatAddress(address), uid: Number(uid), inode }];
    });
}

/** Formats an address of a kernel table: words of 4 bytes in the order of the processor, which is little-endian where skillet runs. */
function formatAddress(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => [...Buffer.from(word, "hex").reverse()]);
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff) return bytes.slice(12).join(".");
  const groups = Array.from({ length: 8 }, (_, index) =>
    (((bytes[2 * index] ?? 0) << 8) | (bytes[2 * index + 1] ?? 0)).toString(16),
  );
  return groups.join(":").replace(/(?:^|:)0(?::0)+(?:$|:)/, "::");
}

/** Finds the processes that have a socket open. Only those of this user are visible, or all of them for root. */
function findSocketOwners(inodes: ReadonlySet<string>): Map<string, number[]> {
  const owners = new Map<string, number[]>();
  for (const name of listNames("/proc").filter((name) => /^\d+$/.test(name))) {
    for (const descriptor of listNames(`/proc/${name}/fd`)) {
      const [, inode = ""] = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${name}/fd/${descriptor}`)) ?? [];
      if (!inodes.has(inode)) continue;
      const pids = owners.get(inode) ?? [];
      if (!pids.includes(Number(name))) owners.set(inode, [...pids, Number(name)]);
    }
  }
  return owners;
}

function describeProcess(pid: number | undefined): Pick<Listener, "pid" | "start_time" | "program" | "folder"> {
  const status = pid === undefined ? undefined : readProcess(pid);
  if (pid === undefined || status === undefined) return {};
  const folder = readLink(`/proc/${pid}/cwd`);
  return { program: status.program, ...(folder === "" ? {} : { folder }), pid, start_time: status.startTime };
}

/** Reads a running process. Its start time, in ticks since the machine started, tells it from a later process with its pid. */
function readProcess(pid: number): { program: string; startTime: number; parent: number } | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  const end = stat.lastIndexOf(")"); // The name before it may contain blanks and parentheses.
  const [state = "", parent, ...rest] = stat.slice(end + 2).split(" ");
  if (end < 0 || /[ZX]/i.test(state)) return undefined;
  const program = basename(readLink(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, ""));
  return {
    program: program || stat.slice(stat.indexOf("(") + 1, end),
    startTime: Number(rest[17]),
    parent: Number(parent),
  };
}

/** Contract: the second call with one input finds the process ended, and returns the same output. */
async function stopListener({ port, program, pid, start_time, force = false }: StopInput, signal: AbortSignal) {
  const stopped = { port, pid, is_running: false };
  const isRunning = () => readProcess(pid)?.startTime === start_time;
  if (!isRunning()) return stopped;
  if (listOwnProcesses().has(pid))
    throw new SkillError("denied", { message: `Process ${pid} runs this request`, fix: "stop it in its own terminal" });
  if (statSync(`/proc/${pid}`).uid !== process.getuid?.())
    throw new SkillError("denied", { message: `Process ${pid} belongs to another user`, fix: "stop it as that user" });
  const listener = listListeners(port).find((listener) => listener.pid === pid);
  if (listener?.program !== program || listener.start_time !== start_time)
    throw new SkillError("conflict", {
      message: `Process ${pid} is not a '${program}' that listens on port ${port}`,
      fix: "call list again for the current processes",
    });
  process.kill(pid, force ? "SIGKILL" : "SIGTERM");
  for (let waited = 0; waited < STOP_MS; waited += POLL_MS) {
    if (!isRunning()) return stopped;
    await delay(POLL_MS, undefined, { signal });
  }
  throw new SkillError("conflict", {
    message: `Process ${pid} was asked to end, and still runs after ${STOP_MS / 1000} seconds`,
    fix: "wait, or call stop with force: true",
  });
}

const STOP_MS = 5000;
const POLL_MS = 50;

/** Returns this process and those that started it. */
function listOwnProcesses(): Set<number> {
  const own = new Set<number>();
  for (let pid: number | undefined = process.pid; pid && !own.has(pid); pid = readProcess(pid)?.parent) own.add(pid);
  return own;
}

function getUserName(uid: number): string {
  const line = readText("/etc/passwd")
    .split("\n")
    .find((line) => line.split(":")[2] === String(uid));
  return line?.split(":")[0] ?? String(uid);
}

// Processes end at any time: what cannot be read any more is empty.

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

function listNames(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
