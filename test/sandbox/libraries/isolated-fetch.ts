import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SkillError } from "../../../src/errors/problem.ts";
import type { LibraryContext } from "../../../src/sandbox/libraries/library-layer.ts";
import { NPM_SOURCE } from "../../../src/sandbox/libraries/npm.ts";
import { PIP_SOURCE } from "../../../src/sandbox/libraries/python-packages.ts";
import {
  type ServedPackage,
  startNpmRegistry,
  startPythonIndex,
  tarballOf,
  wheelOf,
} from "../../support/package-servers.ts";

/** The fetch by pip or npm, in a separate network. `INDEX` in texts is the address of the user's index, `PORT` its port. */
export interface FetchScenario {
  kind: "python" | "npm";
  wanted: string;
  packages: readonly ServedPackage[];
  redirects?: Record<string, string>;
  /** The address that the index listens at. Defaults to 127.0.0.1. */
  indexHost?: string;
  /** The index as the user configured it. Defaults to its address in a variable; empty for none. */
  indexUrl?: string;
  authorization?: string;
  env?: Record<string, string>;
  /** The user's `.npmrc` or `pip.conf`. */
  configuration?: string;
  /** The path at which the fetch is canceled, as soon as it is requested. */
  cancelAt?: string;
}

export interface FetchOutcome {
  locked: string[];
  problem?: { code: string; message: string; fix: string };
  /** The connections that each listener accepted, by its address, if any. */
  connections: Record<string, number>;
  /** The requests that the user's own proxy at 127.0.0.1:3128 got, with their authorization. */
  tunnels: string[];
  /** The sockets that still listen, and the processes that still run, when everything of the test is closed. */
  left: string[];
}

/** The hosts that packages name, in addition to the index. The last one is a public address. */
export const LISTENERS = [
  { host: "127.0.0.1", port: 8001 },
  { host: "::1", port: 8001 },
  { host: "10.1.2.3", port: 80 },
  { host: "169.254.169.254", port: 80 },
  { host: "93.184.215.14", port: 80 },
] as const;

if (process.argv[1] === import.meta.filename) {
  const outcome = await fetchOnce(JSON.parse(process.argv[2] ?? ""));
  process.stdout.write(JSON.stringify(outcome));
}

async function fetchOnce(scenario: FetchScenario): Promise<FetchOutcome> {
  const { kind, packages, wanted, indexHost = "127.0.0.1", indexUrl = "INDEX", cancelAt } = scenario;
  const index = await (kind === "npm" ? startNpmRegistry : startPythonIndex)(indexHost, packages);
  index.authorization = scenario.authorization;
  const port = new URL(index.url).port;
  const filled = (text: string) => text.replaceAll("INDEX", index.url).replaceAll("PORT", port);
  for (const [path, to] of Object.entries(scenario.redirects ?? {})) index.redirects.set(path, filled(to));

  const served = packages.map((one) => (one.fileAt === undefined ? one : { ...one, fileAt: filled(one.fileAt) }));
  index.serve(...served);
  const connections: Record<string, number> = {};
  const servers = LISTENERS.map(({ host, port }) => {
    const server = createServer(filesOf(packages));
    server.on("connection", () => {
      connections[host] = (connections[host] ?? 0) + 1;
    });
    return { server, host, port };
  });
  for (const { server, host, port } of servers) await listen(server, host, port);
  const tunnels: string[] = [];
  const upstream = upstreamProxy(tunnels);
  await listen(upstream, "127.0.0.1", 3128);

  const home = mkdtempSync(join(tmpdir(), "skillet-fetch-"));
  const downloads = join(home, "downloads");
  mkdirSync(downloads);
  const [variable, file] =
    kind === "npm" ? ["npm_config_registry", ".npmrc"] : ["PIP_INDEX_URL", ".config/pip/pip.conf"];
  mkdirSync(join(home, ".config/pip"), { recursive: true });
  writeFileSync(join(home, file), filled(scenario.configuration ?? ""));
  const given = indexUrl === "" ? {} : { [variable]: filled(indexUrl) };
  const cancel = new AbortController();
  const context: LibraryContext = {
    folder: home,
    downloads,
    env: { PATH: process.env["PATH"] ?? "", HOME: home, ...given, ...scenario.env },
    folders: { own: join(home, "packages"), shared: undefined },
    onProgress: () => {},
    signal: cancel.signal,
  };
  if (cancelAt !== undefined) void whenAsked(index.asked, cancelAt).then(() => cancel.abort());
  const outcome: FetchOutcome = { locked: [], connections, tunnels, left: [] };
  try {
    const source = kind === "npm" ? NPM_SOURCE : PIP_SOURCE;
    const locked = await source.resolve([wanted], context);
    await source.fetch(locked, context);
    outcome.locked = locked.map(({ name, version }) => `${name}@${version}`);
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    outcome.problem = { code: error.code, message: error.message, fix: error.fix ?? "" };
  }
  index.close();
  for (const { server } of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await new Promise((resolve) => upstream.close(resolve));
  outcome.left = [...listeningSockets(), ...childProcesses()];
  rmSync(home, { recursive: true, force: true });
  return outcome;
}

/** The sockets of this network that listen. */
function listeningSockets(): string[] {
  return ["/proc/net/tcp", "/proc/net/tcp6"]
    .flatMap((file) => readFileSync(file, "utf8").split("\n"))
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([, address = "", , state]) => (state === "0A" ? [address] : []));
}

function childProcesses(): string[] {
  return readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").split(" ").filter(Boolean);
}

async function whenAsked(asked: readonly string[], path: string): Promise<void> {
  while (!asked.includes(path)) await new Promise((resolve) => setImmediate(resolve));
}

/** Serves the files of these packages, by their names alone. */
function filesOf(packages: readonly ServedPackage[]): RequestListener {
  return ({ url = "" }, response) => {
    const name = url.split("/").at(-1)?.split("-")[0];
    const found = packages.find((one) => one.name === name) ?? { name: "other", version: "1.0.0", files: {} };
    response.end(url.endsWith(".whl") ? wheelOf(found) : tarballOf(found));
  };
}

/** A proxy that connects to any requested host. */
function upstreamProxy(tunnels: string[]): Server {
  return createTcpServer((client: Socket) => {
    client.on("error", () => client.destroy());
    client.once("data", (data) => {
      const head = data.toString("latin1");
      const [, target = "", host = "", port = ""] = /^CONNECT ((.*):(\d+)) /.exec(head) ?? [];
      const [, login = ""] = /^proxy-authorization: Basic (\S+)/im.exec(head) ?? [];
      tunnels.push(`${target || head.split("\r\n")[0]} ${Buffer.from(login, "base64")}`.trim());
      const server = connect({ host: host.replace(/^\[|\]$/g, ""), port: Number(port) });
      server.on("error", () => client.destroy()).once("close", () => client.destroy());
      client.once("close", () => server.destroy());
      server.once("connect", () => {
        client.write("HTTP/1.1 200 OK\r\n\r\n");
        client.pipe(server).pipe(client);
      });
    });
  });
}

async function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return server.address() as AddressInfo;
}
