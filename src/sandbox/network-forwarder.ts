import type { Problem } from "../errors/problem.ts";
import type { SandboxCommand, SandboxOutcome } from "../host/sandbox-contract.ts";
import { type NetworkProxyOptions, openNetworkProxy, type ProxyRefusal } from "./network-proxy.ts";
import { formatEndpoint } from "./sandbox-socket.ts";

/** The path of the proxy's socket inside a sandbox. */
export const NETWORK_SOCKET = "/run/skillet/network.sock";

export interface ForwardOptions {
  /** The path of Node, as the sandbox sees it. */
  node: string;
  /** The path of the proxy's socket, as the sandbox sees it. */
  socket?: string;
  /** The port to listen on. Defaults to any free port, which is right if the sandbox has its own loopback interface. */
  port?: number;
}

export interface NetworkOptions
  extends Omit<NetworkProxyOptions, "endpoints" | "onRefused">,
    Pick<ForwardOptions, "node"> {}

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
