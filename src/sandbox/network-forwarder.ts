import type { Problem } from "../errors/problem.ts";
import type { SandboxCommand, SandboxOutcome } from "../host/sandbox-contract.ts";
import { formatEndpoint } from "./endpoint.ts";
import { type NetworkProxyOptions, openNetworkProxy, type ProxyRefusal } from "./network-proxy.ts";

/** Where the proxy's socket is for the code in a sandbox. */
export const NETWORK_SOCKET = "/run/skillet/network.sock";

export interface ForwardOptions {
  /** The path of Node, as the sandbox sees it. */
  node: string;
  /** The path of the proxy's socket, as the sandbox sees it. */
  socket?: string;
  /** Where it listens. Any free port when left out, which is right where the sandbox has a loopback interface of its own. */
  port?: number;
}

export interface NetworkOptions
  extends Omit<NetworkProxyOptions, "endpoints" | "onRefused">,
    Pick<ForwardOptions, "node"> {}

/** Runs a command for a sandbox without a network, with a way to what is open for it while it runs. */
export async function withNetwork(
  command: SandboxCommand,
  options: NetworkOptions,
  run: (command: SandboxCommand) => Promise<SandboxOutcome>,
): Promise<SandboxOutcome> {
  if (command.network.length === 0) return run(command);
  const { notices, onRefused } = createRefusalNotices();
  const proxy = await openNetworkProxy({ ...options, endpoints: command.network, onRefused });
  try {
    const mount = { from: proxy.socket, to: NETWORK_SOCKET, access: "read" } as const;
    const outcome = await run({
      ...command,
      argv: wrapWithForwarder(command.argv, options),
      mounts: [...command.mounts, mount],
    });
    return addNotices(outcome, notices);
  } finally {
    await proxy.close();
  }
}

/** Makes notices of what a proxy refuses: each once, and no more than somebody reads. */
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

/** The operator's to read, not the code's: it tells a private name from one that there is not. */
function createRefusalNotice({ endpoint, reason }: ProxyRefusal): Problem {
  const name = formatEndpoint(endpoint);
  const [why, fix] = {
    closed: ["which is not open", `add "${name}" to network under [skills.<name>] in config.toml, if it may`],
    private: [
      "which stands for an address that is not public",
      "add that address by its number to network under [skills.<name>] in config.toml, if it may",
    ],
    unresolved: ["which could not be looked up", "check the name, and that this machine can look up names"],
  }[reason] as [string, string];
  return { code: "network-closed", message: `it asked for ${name}, ${why}`, fix };
}

/** The same command, with a way to the proxy beside it: most programs know no unix socket, but an address in a variable. */
export function wrapWithForwarder(
  argv: readonly [string, ...string[]],
  { node, socket = NETWORK_SOCKET, port = 0 }: ForwardOptions,
): [string, ...string[]] {
  // Threads of its own would count against what the command may start.
  return [node, "--v8-pool-size=0", "--eval", FORWARDER_PROGRAM, "--", socket, String(port), ...argv];
}

/** What tells programs of the proxy. */
const ADDRESS_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
// Also an address of the loopback interface is the host's, where it is open.
const OTHER_VARIABLES = { NO_PROXY: "", no_proxy: "", NODE_USE_ENV_PROXY: "1" };
export const PROXY_VARIABLES: readonly string[] = [...ADDRESS_VARIABLES, ...Object.keys(OTHER_VARIABLES)];

/**
 * A program for Node, inside the sandbox: listens on the loopback interface, pipes each connection to the proxy's socket, and runs
 * the command meanwhile, whose end is its own. Nothing is trusted to it: what is open, the proxy decides.
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
    // The first process of a container does not die of its own signal.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
  });
});
`;
