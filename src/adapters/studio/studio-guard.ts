import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { SkillError } from "../../errors/problem.ts";
import { hashSecret, isLoopbackHost, isSameSecret, isWildcardHost } from "../../util/http.ts";

/** The header with the key of the session. A page of another origin cannot set it without a preflight, which is never allowed. */
export const KEY_HEADER = "x-skillet-key";

interface StudioAddress {
  /** The host name or address that the server listens on. */
  host: string;
  port: number;
}

/** Decides which requests are answered. Reads only headers. */
export interface StudioGuard {
  /** Throws a SkillError for a request to another name, which DNS rebinding makes, or from a page of another origin. */
  checkOrigin(headers: IncomingHttpHeaders): void;
  /** Throws a SkillError for a request without the cookie and the key of a session. */
  checkSession(headers: IncomingHttpHeaders): void;
  /** Creates a token that starts one session. An earlier token that was not used no longer works. */
  createToken(): string;
  /** Starts a session: returns its cookie, and the key that each request repeats. Throws a SkillError for any other token. */
  startSession(token: string): { cookie: string; key: string };
}

/** Creates the guard of a page. Its sessions are in memory, and end with the process. */
export function createStudioGuard(address: StudioAddress): StudioGuard {
  const isOwnName = createNameCheck(address);
  const cookieName = `skillet-studio-${address.port}`;
  // A cookie is sent to every port of this machine, so other local servers may see it. The key is known to the page alone.
  const sessions: { cookie: Buffer; key: Buffer }[] = [];
  let link: Buffer | undefined;
  return {
    checkOrigin({ host, origin, "sec-fetch-site": site }) {
      const isForeignPage = origin !== undefined && origin !== `http://${host}`;
      // `none`: the user entered the address.
      const isForeignSite = site !== undefined && site !== "same-origin" && site !== "none";
      if (!isOwnName(host) || isForeignPage || isForeignSite) throw createOriginError();
    },
    checkSession(headers) {
      const cookie = readCookie(headers.cookie, cookieName);
      const key = String(headers[KEY_HEADER] ?? "");
      if (!sessions.some((one) => isSameSecret(one.cookie, cookie) && isSameSecret(one.key, key)))
        throw createSessionError();
    },
    createToken() {
      const token = createSecret();
      link = hashSecret(token);
      return token;
    },
    startSession(token) {
      if (!link || !isSameSecret(link, token)) throw createSessionError();
      link = undefined;
      const [cookie, key] = [createSecret(), createSecret()];
      sessions.push({ cookie: hashSecret(cookie), key: hashSecret(key) });
      return { cookie: `${cookieName}=${cookie}; Path=/; HttpOnly; SameSite=Strict`, key };
    },
  };
}

function createSecret(): string {
  return randomBytes(32).toString("base64url");
}

/**
 * Returns a check of the Host header. On all interfaces the server does not know its names: there, an address counts, which no DNS server
 * can point elsewhere, and the name of this machine.
 */
function createNameCheck({ host, port }: StudioAddress): (header: string | undefined) => boolean {
  const isWildcard = isWildcardHost(host);
  const names = new Set(["localhost", "127.0.0.1", "::1", ...(isWildcard ? [hostname().toLowerCase()] : [host])]);
  return (header) => {
    const [, name = "", given = "80"] = /^(\[[\da-f:.]+\]|[a-z\d.-]+)(?::(\d{1,5}))?$/i.exec(header ?? "") ?? [];
    if (Number(given) !== port) return false;
    const bare = name.replace(/^\[|\]$/g, "").toLowerCase();
    return names.has(bare) || isLoopbackHost(bare) || (isWildcard && isIP(bare) !== 0);
  };
}

function readCookie(header: string | undefined, name: string): string {
  for (const part of (header ?? "").split(";")) {
    const at = part.indexOf("=");
    if (part.slice(0, at).trim() === name) return part.slice(at + 1).trim();
  }
  return "";
}

function createSessionError(): SkillError {
  return new SkillError("studio-session", {
    message: "This page has no session",
    fix: "press Enter where `skillet studio` runs for a new link, or start it again",
    commands: ["skillet studio"],
  });
}

function createOriginError(): SkillError {
  return new SkillError("studio-origin", {
    message: "This request is not from the page of skillet studio",
    fix: "use the address that `skillet studio` prints",
  });
}
