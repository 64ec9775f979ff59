import { request as httpRequest } from "node:http";
import { BlockList, isIP, isIPv4, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Endpoint } from "../host/sandbox-contract.ts";
import { formatEndpoint } from "./endpoint.ts";

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

interface ConnectOptions {
  /** Registers a connection so that it can be closed later. */
  keep(stream: Duplex): void;
  timeoutMs: number;
  /** Milliseconds after which an idle tunnel is closed. */
  idleMs: number;
}

/** Opens a tunnel through a proxy. Resolves with undefined if the proxy does not answer or refuses. */
export async function connectThrough(
  proxy: URL,
  target: Endpoint,
  { keep, timeoutMs, idleMs }: ConnectOptions,
): Promise<Socket | undefined> {
  const { protocol, hostname, port, username, password } = proxy;
  const isTls = protocol === "https:";
  const path = formatEndpoint(target);
  const login =
    username === ""
      ? {}
      : {
          "Proxy-Authorization": formatBasicAuthorization(decodeURIComponent(username), decodeURIComponent(password)),
        };
  // Rarely needed.
  const send = isTls ? (await import("node:https")).request : httpRequest;
  return new Promise((resolve) => {
    const request = send({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: port || (isTls ? 443 : 80),
      method: "CONNECT",
      path,
      headers: { Host: path, ...login },
      agent: false,
      timeout: timeoutMs,
    });
    request.once("socket", keep);
    request.once("timeout", () => request.destroy());
    request.once("close", () => resolve(undefined));
    request.on("error", () => resolve(undefined));
    request.once("connect", ({ statusCode }, socket: Socket, head) => {
      socket.on("error", () => socket.destroy());
      if (statusCode !== 200) {
        socket.destroy();
        return resolve(undefined);
      }
      socket.unshift(head);
      socket.setTimeout(idleMs, () => socket.destroy());
      resolve(socket);
    });
    request.end();
  });
}

export function formatBasicAuthorization(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
}
