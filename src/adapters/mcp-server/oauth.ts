import { hash } from "node:crypto";
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify, type RemoteJWKSet } from "jose";
import type { OauthSettings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { formatPersonKey } from "../../host/approval.ts";
import { SERVER_SCOPES, type ServerScope } from "../../store/server-tokens.ts";
import { isLoopbackHost } from "../../util/http.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { createRpcRefusal } from "./http-guard.ts";
import { expandScopes, RESOURCE_METADATA_PATH, type ServerIdentity, type VerifyAccessToken } from "./http-identity.ts";

/** A server as an OAuth 2.1 resource server: it accepts access tokens of one issuer, and names that issuer to clients. */
export interface OauthResource {
  verify: VerifyAccessToken;
  /** Returns the challenge for a request without a usable token. */
  createChallenge(): string;
  /** The metadata of the protected resource (RFC 9728). */
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface OauthResourceOptions {
  settings: OauthSettings;
  /** The address of the server as clients know it, with its path. */
  resource: string;
  /** Returns false for a person who is disabled. */
  isEnabled?(person: string): boolean;
  getTenant?(person: string): string | undefined;
  fetch?: typeof globalThis.fetch;
  now?: () => number;
}

/** Creates the resource server. Throws a SkillError when the settings cannot be used. */
export function createOauthResource(options: OauthResourceOptions): OauthResource {
  const { settings, resource, isEnabled = () => true, getTenant = () => undefined } = options;
  const { now = () => Date.now(), fetch = globalThis.fetch } = options;
  const issuer = requireSecureAddress("issuer", settings.issuer);
  const { audience = resource, userClaim = "sub", tenantClaim, scopePrefix = "" } = settings;
  const algorithms = requireAlgorithms(settings.algorithms ?? DEFAULT_ALGORITHMS);
  const metadataUrl = new URL(`${RESOURCE_METADATA_PATH}${new URL(resource).pathname.replace(/\/$/, "")}`, resource);
  const challenge = (more: Readonly<Record<string, string>>) =>
    `Bearer ${Object.entries({ ...more, resource_metadata: metadataUrl.href })
      .map(([name, value]) => `${name}="${value}"`)
      .join(", ")}`;
  const findKeys = createKeyFinder({ issuer, fetch, ...omitUndefined({ jwksUrl: settings.jwksUrl }) });
  /** Verified tokens, so that a session of many requests verifies a signature once. By hash: the tokens themselves are not kept. */
  const verified = new Map<string, ServerIdentity & { expiresAt: number }>();
  const refuse = (status: number, message: string, error: Readonly<Record<string, string>>) => ({
    refusal: createRpcRefusal(status, message, { "www-authenticate": challenge(error) }),
  });
  const toIdentity = (payload: JWTPayload): (ServerIdentity & { expiresAt: number }) | undefined => {
    const user = payload[userClaim];
    if (typeof user !== "string" || !USER_NAME.test(user)) return undefined;
    const claimed = tenantClaim === undefined ? undefined : payload[tenantClaim];
    const tenant = typeof claimed === "string" && USER_NAME.test(claimed) ? claimed : getTenant(user);
    const expiresAt = (payload.exp ?? 0) * 1000;
    return {
      key: `person ${formatPersonKey(omitUndefined({ userId: user, tenant }))}`,
      userId: user,
      ...omitUndefined({ tenant }),
      scopes: expandScopes(readScopes(payload, scopePrefix)),
      credential: `oauth ${hash("sha256", `${payload.jti ?? ""} ${payload.iat ?? ""} ${user}`).slice(0, 12)}`,
      expiresAt,
      isValid: () => expiresAt > now() && isEnabled(user),
      createScopeChallenge: (scope) => challenge({ error: "insufficient_scope", scope: `${scopePrefix}${scope}` }),
    };
  };
  return {
    createChallenge: () => challenge({ scope: DEFAULT_CHALLENGE_SCOPES.map((scope) => scopePrefix + scope).join(" ") }),
    metadata: {
      resource,
      authorization_servers: [issuer],
      scopes_supported: SERVER_SCOPES.map((scope) => scopePrefix + scope),
      bearer_methods_supported: ["header"],
      resource_name: "skillet",
    },
    async verify(text) {
      if (text.length > MAX_TOKEN_LENGTH || text.split(".").length !== 3)
        return refuse(401, "This server needs an access token of its authorization server.", {
          error: "invalid_token",
        });
      const id = hash("sha256", text);
      const known = verified.get(id);
      if (known?.isValid()) return known;
      verified.delete(id);
      try {
        const { payload } = await jwtVerify(text, await findKeys(), {
          issuer,
          audience,
          algorithms: [...algorithms],
          clockTolerance: CLOCK_TOLERANCE_SECONDS,
          requiredClaims: ["exp", userClaim],
          currentDate: new Date(now()),
        });
        const identity = toIdentity(payload);
        if (!identity?.isValid()) return refuse(401, "The access token is not valid here.", { error: "invalid_token" });
        verified.set(id, identity);
        const [oldest] = verified.keys();
        if (verified.size > MAX_VERIFIED && oldest !== undefined) verified.delete(oldest);
        return identity;
      } catch (error) {
        if (isTokenError(error)) return refuse(401, "The access token is not valid here.", { error: "invalid_token" });
        // Not the fault of the client, which would otherwise sign in again without end.
        return {
          refusal: createRpcRefusal(503, "The authorization server cannot be reached. Try again later.", {
            "retry-after": "5",
          }),
          isUnavailable: true,
        };
      }
    },
  };
}

/** Asymmetric only: with a shared secret, each program that verifies tokens could also create them. */
const DEFAULT_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"];
const ALGORITHM = /^(?:RS|PS|ES)(?:256|384|512)$|^EdDSA$|^Ed25519$/;
const DEFAULT_CHALLENGE_SCOPES: readonly ServerScope[] = ["use", "approve"];
const CLOCK_TOLERANCE_SECONDS = 5;
const MAX_TOKEN_LENGTH = 16 * 1024;
const MAX_VERIFIED = 10_000;
/** Names of users appear in logs and file names. */
const USER_NAME = /^[\x21-\x7e]{1,200}$/;

/** Reads the scopes of a token: `scope` (RFC 9068), or `scp` as a list. */
function readScopes({ scope, scp }: JWTPayload, prefix: string): string[] {
  const names = typeof scope === "string" ? scope.split(" ") : Array.isArray(scp) ? scp.map(String) : [];
  return names.flatMap((name) => (name.startsWith(prefix) ? name.slice(prefix.length) : []));
}

function isTokenError(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return false;
  if (!(error instanceof errors.JOSEError)) return false;
  // A response of the issuer that is not a key set has the code of the base class.
  return error.code !== "ERR_JOSE_GENERIC";
}

interface KeyFinderOptions {
  issuer: string;
  jwksUrl?: string;
  fetch: typeof globalThis.fetch;
}

/** Returns a function that finds the keys of the issuer. A key that is unknown is fetched again, at most every two seconds. */
function createKeyFinder({ issuer, jwksUrl, fetch }: KeyFinderOptions): () => Promise<RemoteJWKSet> {
  let keys: Promise<RemoteJWKSet> | undefined;
  return () => {
    keys ??= (jwksUrl === undefined ? discoverKeysUrl(issuer, fetch) : Promise.resolve(jwksUrl))
      .then((url) =>
        createRemoteJWKSet(new URL(requireSecureAddress("jwks_url", url)), {
          cooldownDuration: KEY_COOLDOWN_MS,
          timeoutDuration: FETCH_TIMEOUT_MS,
        }),
      )
      .catch((error) => {
        keys = undefined; // The next request tries again.
        throw error;
      });
    return keys;
  };
}

const KEY_COOLDOWN_MS = 2000;
const FETCH_TIMEOUT_MS = 5000;

/** Reads the address of the keys from the metadata of the issuer (RFC 8414, or OpenID Connect). */
async function discoverKeysUrl(issuer: string, fetch: typeof globalThis.fetch): Promise<string> {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, "");
  const addresses = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  for (const address of addresses) {
    const response = await fetch(address, { redirect: "error", signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) });
    const metadata: unknown = response.ok ? await response.json() : undefined;
    if (!isJsonObject(metadata)) continue;
    // Metadata that names another issuer would let that one sign in anyone.
    if (metadata["issuer"] === issuer && typeof metadata["jwks_uri"] === "string") return metadata["jwks_uri"];
  }
  throw new Error("The issuer has no metadata with its name and jwks_uri");
}

/** Requires HTTPS, except on this machine: keys that were changed on the way would let anyone in. */
function requireSecureAddress(key: string, address: string | undefined): string {
  const url = URL.parse(address ?? "");
  if (
    url &&
    (url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ""))))
  )
    return address ?? "";
  throw new SkillError("usage", {
    message: `server.oauth.${key} is not an https address`,
    fix: `set ${key} under [server.oauth] in config.toml, as the authorization server prints it`,
  });
}

function requireAlgorithms(algorithms: readonly string[]): readonly string[] {
  const refused = algorithms.find((name) => !ALGORITHM.test(name));
  if (refused === undefined && algorithms.length > 0) return algorithms;
  throw new SkillError("usage", {
    message: `server.oauth.algorithms contains "${refused ?? ""}", which is not an asymmetric signature algorithm`,
    fix: `use some of ${DEFAULT_ALGORITHMS.join(", ")}`,
  });
}
