import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import type { McpRequestContext } from "@modelcontextprotocol/server";
import { formatPersonKey } from "../../host/approval.ts";
import {
  isServerTokenText,
  SERVER_SCOPES,
  type ServerScope,
  type ServerTokenStore,
} from "../../store/server-tokens.ts";
import { createRpcRefusal, type HttpGuard, parseBearerToken } from "./http-guard.ts";

/** The caller of a server, as a credential proves it. */
export interface ServerIdentity {
  /** Identifies the caller: a session of one key is unknown to every other key. */
  key: string;
  /** The name of the person. Omitted for the server's own token, which is not bound to a person. */
  userId?: string;
  tenant?: string;
  scopes: ReadonlySet<ServerScope>;
  /** Names the credential in logs, without its secret: `token 3f2a91c0b7de`. */
  credential: string;
  /** Returns false once the credential has expired or was revoked. */
  isValid(): boolean;
  /** Returns the challenge for a call that needs another scope, if the client can get one by itself. */
  createScopeChallenge?(scope: ServerScope): string;
}

/** A request to identify: its headers, and the address of the client. */
export interface IdentityRequest {
  headers: IncomingHttpHeaders;
  address: string;
}

/** Identifies the caller of a request, or returns the response that refuses it. */
export type IdentifyRequest = (request: IdentityRequest) => Promise<ServerIdentity | Response>;

/** The identity that an access token of an authorization server proves. */
export type VerifyAccessToken = (
  text: string,
) => Promise<ServerIdentity | { refusal: Response /** The token could not be checked. */; isUnavailable?: boolean }>;

export interface IdentityOptions {
  /** The server's own token, which has all scopes. `false` for none: then a request without a token has all scopes, too. */
  token: string | false;
  /** The tokens of people. */
  tokens?: Pick<ServerTokenStore, "find" | "isValid">;
  /** Returns the tenant of a person. */
  getTenant?(person: string): string | undefined;
  /** Returns false for a person whose tokens are all refused. */
  isEnabled?(person: string): boolean;
  /** Verifies access tokens of an authorization server, which are all other tokens. */
  verifyAccessToken?: VerifyAccessToken | undefined;
  /** Returns the challenge for clients without a usable token. */
  createChallenge?: (() => string) | undefined;
  throttle?: LoginThrottle;
}

/** Creates the function that identifies callers. `guard` words the refusals. */
export function createIdentifier(options: IdentityOptions, guard: Pick<HttpGuard, "refuseToken">): IdentifyRequest {
  const { token, tokens, verifyAccessToken, createChallenge, throttle = createLoginThrottle() } = options;
  const { getTenant = () => undefined, isEnabled = () => true } = options;
  const secret = token === false ? undefined : hashText(token);
  const own: ServerIdentity = {
    key: secret ? "server token" : "anonymous",
    scopes: ALL_SCOPES,
    credential: secret ? "server token" : "none",
    isValid: () => true,
  };
  const findPerson = async (text: string): Promise<ServerIdentity | undefined> => {
    const found = isServerTokenText(text) ? await tokens?.find(text) : undefined;
    if (!found || !tokens || !isEnabled(found.person)) return undefined;
    const { id, person } = found;
    const tenant = getTenant(person);
    return {
      key: `person ${formatPersonKey({ userId: person, ...(tenant === undefined ? {} : { tenant }) })}`,
      userId: person,
      ...(tenant === undefined ? {} : { tenant }),
      scopes: expandScopes(found.scopes),
      credential: `token ${id}`,
      isValid: () => tokens.isValid(id) && isEnabled(person),
    };
  };
  return async ({ headers, address }) => {
    const text = parseBearerToken(headers.authorization);
    // A token of a person has 256 random bits: guessing is hopeless, and its owner is not locked out by others at the same address.
    const person = await findPerson(text);
    if (person) return person;
    if (!secret && !(verifyAccessToken && text !== "")) return own;
    const waitSeconds = throttle.secondsToWait(address);
    if (waitSeconds > 0) return createThrottledRefusal(waitSeconds);
    if (secret && timingSafeEqual(secret, hashText(text))) return own;
    if (verifyAccessToken && text !== "" && !isServerTokenText(text)) {
      const verified = await verifyAccessToken(text);
      if (!("refusal" in verified)) return verified;
      if (!verified.isUnavailable) throttle.fail(address);
      return verified.refusal;
    }
    // A client without a token only looks for the way to get one.
    if (text !== "") throttle.fail(address);
    return guard.refuseToken(headers, createChallenge?.());
  };
}

/** The path of the metadata of an OAuth resource (RFC 9728). The path of the server itself is appended, too. */
export const RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource";

const ALL_SCOPES: ReadonlySet<ServerScope> = new Set(SERVER_SCOPES);
/** Each of these scopes includes those before it. */
const NESTED_SCOPES: readonly ServerScope[] = ["list", "load", "run", "use"];

/** Adds the scopes that a scope includes: who may run a script may also read the skill. Unknown names are dropped. */
export function expandScopes(scopes: Iterable<string>): ReadonlySet<ServerScope> {
  const granted = new Set(scopes);
  const last = NESTED_SCOPES.findLastIndex((scope) => granted.has(scope));
  return new Set([...NESTED_SCOPES.slice(0, last + 1), ...SERVER_SCOPES.filter((scope) => granted.has(scope))]);
}

const IDENTITY_KEY = "skillet/identity";

/** Wraps the identity for the SDK, which passes it to the factory of servers. */
export function toAuthInfo(identity: ServerIdentity): NonNullable<McpRequestContext["authInfo"]> {
  // The token itself is not passed on: no handler needs it.
  return {
    token: "",
    clientId: identity.credential,
    scopes: [...identity.scopes],
    extra: { [IDENTITY_KEY]: identity },
  };
}

/** Returns the identity of the caller for whom the SDK creates a server; undefined on stdio. */
export function getServerIdentity(context: Pick<McpRequestContext, "authInfo">): ServerIdentity | undefined {
  return context.authInfo?.extra?.[IDENTITY_KEY] as ServerIdentity | undefined;
}

/** Slows down guessing: after too many wrong tokens of one address, further ones are refused unread for a while. */
export interface LoginThrottle {
  /** Returns 0 if the address may try now. */
  secondsToWait(address: string): number;
  fail(address: string): void;
  /** The failed attempts since the start. */
  readonly failures: number;
}

/** Creates a throttle that allows `burst` failures at once, and one more every `seconds`. */
export function createLoginThrottle({
  burst = 10,
  seconds = 6,
  now = () => performance.now(),
}: {
  burst?: number;
  seconds?: number;
  now?: () => number;
} = {}): LoginThrottle {
  /** The time at which all failures of an address are forgotten. */
  const forgottenAt = new Map<string, number>();
  const step = seconds * 1000;
  let failures = 0;
  return {
    get failures() {
      return failures;
    },
    secondsToWait(address) {
      const excess = (forgottenAt.get(groupAddress(address)) ?? 0) - now() - (burst - 1) * step;
      return excess <= 0 ? 0 : Math.ceil(excess / 1000);
    },
    fail(address) {
      failures++;
      const group = groupAddress(address);
      const until = Math.max(forgottenAt.get(group) ?? 0, now()) + step;
      forgottenAt.delete(group);
      forgottenAt.set(group, Math.min(until, now() + burst * step));
      const [oldest] = forgottenAt.keys();
      if (forgottenAt.size > MAX_THROTTLED_ADDRESSES && oldest !== undefined) forgottenAt.delete(oldest);
    },
  };
}

const MAX_THROTTLED_ADDRESSES = 10_000;

/** Groups the addresses that one client can have: an IPv6 host usually has a network of 64 bits. */
function groupAddress(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [before = "", after] = address.split("::");
  const head = before.split(":").filter(Boolean);
  const tail = (after ?? "").split(":").filter(Boolean);
  const zeros = Array.from({ length: after === undefined ? 0 : 8 - head.length - tail.length }, () => "0");
  return [...head, ...zeros, ...tail].slice(0, 4).join(":");
}

/**
 * Returns the address of the client. `X-Forwarded-For` counts only if a trusted proxy sent it, and only up to the first address that
 * is not a trusted proxy: everything before it was written by the client.
 */
export function resolveClientAddress(
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
  trustedProxies: readonly string[] = [],
): string {
  const trusted = new Set(trustedProxies.map(groupProxyAddress));
  const forwarded = String(headers["x-forwarded-for"] ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
  let address = socket.remoteAddress ?? "";
  while (trusted.has(groupProxyAddress(address)) && forwarded.length > 0) address = forwarded.pop() ?? "";
  return /^[\da-fA-F:.]{2,45}$/.test(address) ? address : "unknown";
}

function groupProxyAddress(address: string): string {
  return address.replace(/^::ffff:/i, "").toLowerCase();
}

function createThrottledRefusal(seconds: number): Response {
  return createRpcRefusal(429, "Too many wrong tokens from this address. Try again later.", {
    "retry-after": String(seconds),
  });
}

function hashText(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
