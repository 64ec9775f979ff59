import { BlockList, isIP, isIPv4, isIPv6 } from "node:net";
import { domainToASCII } from "node:url";
import type { Endpoint } from "../host/sandbox-contract.ts";

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
