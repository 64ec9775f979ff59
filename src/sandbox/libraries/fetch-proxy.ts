import { randomBytes } from "node:crypto";
import { SkillError } from "../../errors/problem.ts";
import type { Endpoint } from "../../host/sandbox-contract.ts";
import { stripCredentials, truncateLine } from "../../util/text.ts";
import type { ProxyRefusal } from "../network-proxy.ts";
import type { ProgramResult } from "../process.ts";
import { formatEndpoint, parseEndpoint, type UpstreamProxies } from "../sandbox-network.ts";

/** The hosts in the user's own configuration of pip or npm. */
export interface FetchSettings {
  /** The addresses of indexes and registries. Local folders among them are ignored. */
  indexes: readonly string[];
  /** The user's own proxies, by the scheme of the request. */
  proxy: { http?: string | undefined; https?: string | undefined; noProxy: readonly string[] };
}

export interface FetchResult extends ProgramResult {
  /** A requested host that could not be resolved, as `host:port`. */
  unresolved?: string | undefined;
}

export interface FetchOptions {
  /** The packages to fetch, for messages. */
  wanted: readonly string[];
  /** The command that adds another index, for messages. */
  addIndex: string;
  settings: FetchSettings;
  signal: AbortSignal;
}

/**
 * Runs pip or npm so that they reach only public addresses and the user's own indexes: a host named by an index or a
 * package is not reached at a private address. At the first private address it ends the program and throws a
 * SkillError. Contract: `start` gives the program these variables and no other proxy, and ends it with the signal.
 */
export async function fetchThroughProxy(
  { wanted, addIndex, settings, signal }: FetchOptions,
  start: (variables: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<ProgramResult>,
): Promise<FetchResult> {
  const upstream = readProxies(settings.proxy);
  const endpoints = settings.indexes.flatMap((index) => listIndexEndpoints(index, upstream));
  const { openLoopbackProxy } = await import("../network-proxy.ts"); // Loaded late: Node's HTTP is heavy for code that only imports the library.
  const refused = new AbortController();
  const refusals: ProxyRefusal[] = [];
  const proxy = await openLoopbackProxy({
    endpoints,
    opensPublic: true,
    upstream,
    password: randomBytes(24).toString("hex"),
    onRefused(refusal) {
      refusals.push(refusal);
      if (refusal.reason === "private") refused.abort();
    },
  });
  const findPrivateRefusal = () => refusals.find(({ reason }) => reason === "private");
  try {
    const result = await start(createProxyVariables(proxy.url), AbortSignal.any([signal, refused.signal]));
    // npm continues without an optional package.
    if (refused.signal.aborted) throw refused.signal.reason;
    return { ...result, unresolved: refusals[0] && formatEndpoint(refusals[0].endpoint) };
  } catch (error) {
    const found = signal.aborted ? undefined : findPrivateRefusal();
    throw found ? createPrivateAddressError(wanted, found, addIndex) : error;
  } finally {
    await proxy.close();
  }
}

/**
 * Returns the environment variables to pass to both programs: without any proxy, and without other spellings of `own`.
 */
export function removeProxyVariables(
  env: Readonly<Record<string, string | undefined>>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const plain = (name: string) => name.toLowerCase().replaceAll("-", "_");
  const names = new Set(Object.keys(own).map(plain));
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined || /proxy/i.test(name) || names.has(plain(name)) ? [] : [[name, value]],
    ),
  );
}

/** Reads the proxies from environment variables. Lower case has precedence, as in curl. */
export function readEnvironmentProxies(
  env: Readonly<Record<string, string | undefined>>,
): FetchSettings["proxy"] & { all?: string | undefined } {
  const value = (name: string) => env[name] || env[name.toUpperCase()] || undefined;
  return {
    http: value("http_proxy"),
    https: value("https_proxy"),
    all: value("all_proxy"),
    noProxy: (value("no_proxy") ?? "").split(","),
  };
}

function createProxyVariables(url: string): Record<string, string> {
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
  return { ...Object.fromEntries(names.map((name) => [name, url])), NO_PROXY: "", no_proxy: "" };
}

function readProxies({ http, https, noProxy }: FetchSettings["proxy"]): UpstreamProxies {
  return { http: readProxy(http), https: readProxy(https), noProxy };
}

function readProxy(text: string | undefined): URL | undefined {
  if (text === undefined || text === "") return undefined;
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new SkillError("library-tools", {
    message: `packages cannot be fetched through the proxy ${truncateLine(stripCredentials(text), 200)}: it is not an HTTP proxy`,
    fix: "set HTTPS_PROXY, or the proxy in your pip or npm configuration, to an address that starts with http:// or https://",
  });
}

/**
 * Hosts with the files of an index. PyPI keeps its files at another host. Both are public, and only an upstream proxy
 * needs the name: many refuse an address in place of a name, and in some networks only the proxy can resolve names.
 */
const FILE_HOSTS: Readonly<Record<string, Endpoint>> = {
  "pypi.org:443": { host: "files.pythonhosted.org", port: 443 },
};

function listIndexEndpoints(index: string, upstream: UpstreamProxies): Endpoint[] {
  const url = URL.parse(index);
  if (!url || !/^https?:$/.test(url.protocol)) return [];
  const endpoint = parseEndpoint(`${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`);
  const files = endpoint && upstream.https ? FILE_HOSTS[formatEndpoint(endpoint)] : undefined;
  return [endpoint, files].filter((one) => one !== undefined);
}

function createPrivateAddressError(
  wanted: readonly string[],
  { endpoint }: ProxyRefusal,
  addIndex: string,
): SkillError {
  return new SkillError("library-private-address", {
    message: `${truncateLine(wanted.join(", "), 200)}: the package, its index or a dependency refers to ${formatEndpoint(endpoint)}, which is a private address. It was not requested`,
    fix: `choose another version or another package. If that host is your own, add it as an index: ${addIndex}`,
  });
}

export function createUnresolvedHostError(wanted: readonly string[], host: string): SkillError {
  return new SkillError("library-unresolved", {
    message: `${truncateLine(wanted.join(", "), 200)} cannot be fetched: ${host} cannot be resolved`,
    fix: "check the host in your pip or npm configuration, and that this machine can resolve names",
  });
}
