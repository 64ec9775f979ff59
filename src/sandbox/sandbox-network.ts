import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { BlockList, createServer, isIP, isIPv4, isIPv6, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { domainToASCII } from "node:url";
import { type Problem, SkillError } from "../errors/problem.ts";
import type { Endpoint, Mount, SandboxCommand, SandboxOutcome, SandboxSocket } from "../host/sandbox-contract.ts";
import type { NetworkProxyOptions, ProxyRefusal } from "./network-proxy.ts";

interface SandboxSocketOptions extends UnixSocketOptions {
  /** True if the sandbox mounts the socket at its declared path; otherwise the code gets the real path. */
  mapsPaths: boolean;
}

/** A command with its sockets, until they are closed. */
interface OpenedSandboxSockets {
  command: SandboxCommand;
  /** The paths of the sockets. */
  sockets: readonly string[];
  close(): Promise<void>;
}

/** Opens the sockets of a command. Each is a unix socket that exists only in this sandbox. */
export async function openSandboxSockets(
  command: SandboxCommand,
  options: SandboxSocketOptions,
): Promise<OpenedSandboxSockets> {
  const opened: OpenSandboxSocket[] = [];
  const close = async () => void (await Promise.all(opened.map((socket) => socket.close())));
  try {
    for (const definition of command.sockets ?? []) opened.push(await openSandboxSocket(definition, options));
  } catch (error) {
    await close();
    throw error;
  }
  if (opened.length === 0) return { command, sockets: [], close };
  const mounts = opened.map(({ socket, definition }): Mount => ({ from: socket, to: definition.path, access: "read" }));
  const env = opened.map(
    ({ socket, definition }) => [definition.variable, options.mapsPaths ? definition.path : socket] as const,
  );
  return {
    command: {
      ...command,
      mounts: [...command.mounts, ...mounts],
      env: { ...command.env, ...Object.fromEntries(env) },
    },
    sockets: opened.map(({ socket }) => socket),
    close,
  };
}

/** Runs a command with its sockets, until it ends. */
export async function withSandboxSockets(
  command: SandboxCommand,
  options: SandboxSocketOptions,
  run: (command: SandboxCommand, sockets: readonly string[]) => Promise<SandboxOutcome>,
): Promise<SandboxOutcome> {
  const opened = await openSandboxSockets(command, options);
  try {
    return await run(opened.command, opened.sockets);
  } finally {
    await opened.close();
  }
}

interface OpenSandboxSocket {
  definition: SandboxSocket;
  socket: string;
  /** Contract: all connections and the socket are gone when it resolves. */
  close(): Promise<void>;
}

async function openSandboxSocket(definition: SandboxSocket, options: SandboxSocketOptions): Promise<OpenSandboxSocket> {
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    connections.add(connection);
    connection.on("error", () => connection.destroy());
    connection.once("close", () => connections.delete(connection));
    definition.onConnection(connection);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { path, close } = await listenOnPrivateSocket(server, "door", options);
  return {
    definition,
    socket: path,
    async close() {
      const closed = close();
      for (const connection of connections) connection.destroy();
      await closed;
    },
  };
}

const MAX_CONNECTIONS = 64;

export interface UnixSocketOptions {
  /**
   * The parent of the socket's folder, which only its owner can enter. Keep it short: a socket path has at most 107
   * bytes.
   */
  folder: string;
  /** The owner of the socket, if the sandbox runs as another user. */
  owner?: { uid: number; gid: number };
  /** 0666 for a container, whose users have other IDs outside. */
  socketMode?: number;
}

interface UnixSocket {
  path: string;
  /** Contract: the socket is gone when it resolves. It waits for open connections, which the caller must end. */
  close(): Promise<void>;
}

/** Makes a server listen on a socket that only one sandbox gets. */
export async function listenOnPrivateSocket(
  server: Server,
  name: string,
  options: UnixSocketOptions,
): Promise<UnixSocket> {
  const folder = await mkdtemp(join(options.folder, `skillet-${name}-`));
  const path = join(folder, `${name}.sock`);
  const close = async () => {
    await new Promise<void>((resolve) => server.close(() => resolve()));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw createPathLengthError(path);
    // The handler stays: a connection that cannot be accepted is an error too, and the run continues.
    await new Promise<void>((resolve, reject) => server.on("error", reject).listen(path, resolve));
    // Until here only its owner can enter the folder, so no other user can connect first.
    await chmod(path, options.socketMode ?? 0o600);
    if (options.owner) {
      await chown(path, options.owner.uid, options.owner.gid);
      await chown(folder, options.owner.uid, options.owner.gid);
    }
    return { path, close };
  } catch (error) {
    await close();
    throw error;
  }
}

const MAX_PATH_BYTES = process.platform === "darwin" ? 103 : 107;

function createPathLengthError(path: string): SkillError {
  return new SkillError("socket-path", {
    message: `The socket path ${path} is longer than ${MAX_PATH_BYTES} bytes`,
    fix: "set TMPDIR to a shorter folder",
  });
}

/** The path of the proxy's socket inside a sandbox. */
export const NETWORK_SOCKET = "/run/skillet/network.sock";

interface ForwardOptions {
  /** The path of Node, as the sandbox sees it. */
  node: string;
  /** The path of the proxy's socket, as the sandbox sees it. */
  socket?: string;
  /** The port to listen on. Defaults to any free port, which is right if the sandbox has its own loopback interface. */
  port?: number;
}

interface NetworkOptions extends Omit<NetworkProxyOptions, "endpoints" | "onRefused">, Pick<ForwardOptions, "node"> {}

/** A command with a proxy to its allowed endpoints, until it is closed. */
export interface OpenedNetwork {
  command: SandboxCommand;
  /** Notices about refused connections, so far. */
  notices: readonly Problem[];
  close(): Promise<void>;
}

/** Opens the proxy of a command that runs in a sandbox without a network. */
export async function openNetwork(command: SandboxCommand, options: NetworkOptions): Promise<OpenedNetwork> {
  const { notices, onRefused } = createRefusalNotices();
  const { openNetworkProxy } = await import("./network-proxy.ts"); // Loaded only for code with network access.
  const { socket, close } = await openNetworkProxy({ ...options, endpoints: command.network, onRefused });
  const mount = { from: socket, to: NETWORK_SOCKET, access: "read" } as const;
  const argv = wrapWithForwarder(command.argv, options);
  return { command: { ...command, argv, mounts: [...command.mounts, mount] }, notices, close: () => close() };
}

/** Runs a command with its network, until it ends. */
export async function withNetwork(
  command: SandboxCommand,
  options: NetworkOptions,
  run: (command: SandboxCommand) => Promise<SandboxOutcome>,
): Promise<SandboxOutcome> {
  if (command.network.length === 0) return run(command);
  const opened = await openNetwork(command, options);
  try {
    return addNotices(await run(opened.command), opened.notices);
  } finally {
    await opened.close();
  }
}

/** Collects notices about refused connections: each once, and at most ten. */
export function createRefusalNotices(): { notices: readonly Problem[]; onRefused: (refusal: ProxyRefusal) => void } {
  const notices: Problem[] = [];
  const onRefused = (refusal: ProxyRefusal) => {
    const notice = createRefusalNotice(refusal);
    const isKnown = notices.some(({ message }) => message === notice.message);
    if (!isKnown && notices.length < MAX_NOTICES) notices.push(notice);
  };
  return { notices, onRefused };
}

const MAX_NOTICES = 10;

export function addNotices(outcome: SandboxOutcome, notices: readonly Problem[]): SandboxOutcome {
  return notices.length === 0 ? outcome : { ...outcome, notices: [...(outcome.notices ?? []), ...notices] };
}

/** For the operator, not for the code: it distinguishes a private name from a nonexistent one. */
function createRefusalNotice({ endpoint, reason }: ProxyRefusal): Problem {
  const name = formatEndpoint(endpoint);
  const [reasonText, fix] = {
    closed: ["which is not allowed", `to allow it, add "${name}" to network under [skills.<name>] in config.toml`],
    private: [
      "which resolves to a private address",
      "to allow it, add the numeric address to network under [skills.<name>] in config.toml",
    ],
    unresolved: ["which could not be resolved", "check the name, and that this machine can resolve names"],
  }[reason] as [string, string];
  return { code: "network-not-allowed", message: `it tried to reach ${name}, ${reasonText}`, fix };
}

/**
 * Wraps a command with a local forwarder to the proxy: most programs cannot use a unix socket, but read a proxy address
 * from a variable.
 */
export function wrapWithForwarder(
  argv: readonly [string, ...string[]],
  { node, socket = NETWORK_SOCKET, port = 0 }: ForwardOptions,
): [string, ...string[]] {
  // Node's own worker threads would count against the command's process limit.
  return [node, "--v8-pool-size=0", "--eval", FORWARDER_PROGRAM, "--", socket, String(port), ...argv];
}

/** Environment variables that set the proxy. */
const ADDRESS_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
// Empty, because a loopback address can be an allowed endpoint of the host.
const OTHER_VARIABLES = { NO_PROXY: "", no_proxy: "", NODE_USE_ENV_PROXY: "1" };
export const PROXY_VARIABLES: readonly string[] = [...ADDRESS_VARIABLES, ...Object.keys(OTHER_VARIABLES)];

/**
 * A program for Node inside the sandbox. It listens on the loopback interface, pipes each connection to the proxy's
 * socket, runs the command and exits as the command does. It is not trusted: the proxy decides which endpoints are
 * allowed.
 */
const FORWARDER_PROGRAM = `"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const net = require("node:net");
const [socket, port, file, ...args] = process.argv.slice(1);

const server = net.createServer({ allowHalfOpen: true }, (client) => {
  const proxy = net.connect({ path: socket, allowHalfOpen: true });
  for (const [one, other] of [[client, proxy], [proxy, client]]) {
    one.on("error", () => one.destroy());
    one.once("close", () => other.destroySoon());
    one.pipe(other);
  }
});

server.listen({ host: "127.0.0.1", port: Number(port) }, () => {
  const address = "http://127.0.0.1:" + server.address().port;
  const env = { ...process.env, ...${JSON.stringify(OTHER_VARIABLES)} };
  for (const name of ${JSON.stringify(ADDRESS_VARIABLES)}) env[name] = address;
  const pass = (signal) => child.kill(signal);
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];
  for (const signal of signals) process.on(signal, pass);
  const child = spawn(file, args, { env, stdio: "inherit" });
  child.on("error", (error) => {
    if (child.pid !== undefined) return;
    process.exitCode = error.code === "ENOENT" ? 127 : 126;
    process.stderr.write(file + " cannot be run: " + error.code + "\\n", () => process.exit());
  });
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    for (const name of signals) process.off(name, pass);
    process.kill(process.pid, signal);
    // The first process of a container is not killed by its own signal.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
  });
});
`;

/** Parses `host:port` or `[address]:port`: one exact host and one port. A Unicode name becomes its ASCII form. */
export function parseEndpoint(text: string): Endpoint | undefined {
  const [, literal, name, digits = ""] = ENDPOINT_PATTERN.exec(text) ?? [];
  const host = literal === undefined ? parseHost(name ?? "") : parseIPv6(literal);
  const port = Number(digits);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}

export function formatEndpoint({ host, port }: Endpoint): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Returns true unless the address is on the public internet: for addresses of this machine, its networks and its cloud,
 * and for reserved ones. An IPv6 address that embeds an IPv4 one is judged by that one. Text that is not an address counts as private.
 */
export function isPrivateAddress(address: string): boolean {
  if (isIPv4(address)) return PRIVATE_RANGES.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return true;
  const groups = parseIPv6Groups(address);
  for (const { prefix, at } of EMBEDDED_IPV4) {
    if (prefix.every((group, index) => group === groups[index]))
      return isPrivateAddress(formatEmbeddedIPv4(groups, at));
  }
  // ISATAP, which any network can use in the lower half of its addresses.
  if (((groups[4] ?? 0) & ~0x0200) === 0 && groups[5] === 0x5efe && isPrivateAddress(formatEmbeddedIPv4(groups, 6)))
    return true;
  return !PUBLIC_IPV6.check(address, "ipv6") || PRIVATE_RANGES.check(address, "ipv6");
}

// No leading zero, so that one endpoint has one spelling.
const ENDPOINT_PATTERN = /^(?:\[([^[\]]+)\]|([^[\]:]+)):([1-9]\d{0,4})$/;
const HOST_NAME_PATTERN = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.|$))+(?<!\.)$/;

function parseHost(text: string): string | undefined {
  if (isIPv4(text)) return text;
  // Rejects characters that a URL ignores or decodes, and text that is an address only once decoded (`0x7f.1`, `127.1`,
  // full-width digits): to the author of the list it reads as a name.
  if (/[\p{C}\s%/\\?#@<>^|]/u.test(text)) return undefined;
  const name = domainToASCII(text).replace(/\.$/, "");
  return HOST_NAME_PATTERN.test(name) && isIP(name) === 0 ? name : undefined;
}

function parseIPv6(text: string): string | undefined {
  if (!isIPv6(text) || text.includes("%")) return undefined;
  const groups = parseIPv6Groups(text);
  // An IPv4-mapped address must be written as IPv4.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return undefined;
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

/**
 * Positions at which an IPv6 address embeds an IPv4 one: mapped, translated, compatible (so also `::` and `::1`),
 * NAT64, 6to4.
 */
const EMBEDDED_IPV4: readonly { prefix: readonly number[]; at: number }[] = [
  { prefix: [0, 0, 0, 0, 0, 0xffff], at: 6 },
  { prefix: [0, 0, 0, 0, 0xffff, 0], at: 6 },
  { prefix: [0, 0, 0, 0, 0, 0], at: 6 },
  { prefix: [0x64, 0xff9b, 0, 0, 0, 0], at: 6 },
  { prefix: [0x2002], at: 1 },
];

/** The only part of IPv6 in public use. */
const PUBLIC_IPV6 = new BlockList();
PUBLIC_IPV6.addSubnet("2000::", 3, "ipv6");

const PRIVATE_RANGES = new BlockList();
for (const range of [
  "0.0.0.0/8", // this network, and `::`, `::1` and the IPv4-compatible addresses
  "10.0.0.0/8",
  "100.64.0.0/10", // carrier-grade NAT, and the metadata service of one cloud
  "127.0.0.0/8",
  "168.63.129.16/32", // looks public; in Azure, the host of the virtual machine
  "169.254.0.0/16", // link-local, and the metadata service of most clouds
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16",
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
  "2001::/23", // Teredo and other protocol assignments
  "2001:db8::/32", // documentation
  "3fff::/20", // documentation
]) {
  const [network = "", bits] = range.split("/");
  PRIVATE_RANGES.addSubnet(network, Number(bits), isIPv4(network) ? "ipv4" : "ipv6");
}

/** Contract: an IPv6 address without a zone. */
function parseIPv6Groups(address: string): number[] {
  // The URL parser leaves only hexadecimal groups in their shortest form.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const numbers = (part: string) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return numbers(head);
  const [first, last] = [numbers(head), numbers(tail)];
  return [...first, ...new Array<number>(8 - first.length - last.length).fill(0), ...last];
}

function formatEmbeddedIPv4(groups: readonly number[], index: number): string {
  const [high = 0, low = 0] = groups.slice(index);
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The HTTP proxies that a user configured, by the scheme of the request. */
export interface UpstreamProxies {
  http?: URL | undefined;
  https?: URL | undefined;
  /** Hosts with a direct connection, as in the variable `NO_PROXY`. */
  noProxy: readonly string[];
}

/** Returns the proxy to connect through, or undefined if the connection is direct. */
export function findUpstreamProxy(
  proxies: UpstreamProxies,
  endpoint: Endpoint,
  scheme: "http" | "https",
): URL | undefined {
  return proxies.noProxy.some((entry) => isExcepted(entry.trim().toLowerCase(), endpoint))
    ? undefined
    : proxies[scheme];
}

/**
 * Returns true if an entry of `NO_PROXY` matches: `*`, a domain with its subdomains, an address or a network, each
 * optionally with a port.
 */
function isExcepted(entry: string, { host, port }: Endpoint): boolean {
  if (entry === "*") return true;
  const [, literal, plain = "", wantedPort] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
  if (wantedPort !== undefined && Number(wantedPort) !== port) return false;
  const name = (literal ?? (isIP(entry) !== 0 ? entry : plain)).replace(/^\*?\./, "");
  if (name === "") return false;
  if (isIP(host) === 0) return host === name || host.endsWith(`.${name}`);
  return host === name || isInNetwork(host, name);
}

function isInNetwork(address: string, network: string): boolean {
  const [base = "", bits = ""] = network.split("/");
  if (!isIPv4(base) || !isIPv4(address) || !/^(?:[12]?\d|3[0-2])$/.test(bits)) return false;
  const list = new BlockList();
  list.addSubnet(base, Number(bits), "ipv4");
  return list.check(address, "ipv4");
}
