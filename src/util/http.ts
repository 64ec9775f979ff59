import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

/** Returns true if only this machine can reach the host. A name that merely resolves to such an address does not count. */
export function isLoopbackHost(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host);
}

/** Returns true if the host means all interfaces of the machine. */
export function isWildcardHost(host: string): boolean {
  return host === "" || /^0(\.0){0,3}$/.test(host) || /^[0:]+(:0\.0\.0\.0)?$/.test(host);
}

/** Formats a host for a URL: an IPv6 address in brackets. */
export function formatUrlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

export function hashSecret(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Compares hashes, so that the comparison takes the same time for every token. */
export function isSameSecret(secret: Buffer, token: string): boolean {
  return timingSafeEqual(secret, hashSecret(token));
}

/** Reads the body of a request. Never buffers more than the limit. `gone`: the client disconnected. */
export async function readRequestBody(
  incoming: IncomingMessage,
  response: ServerResponse,
  max: number,
): Promise<Buffer | "too-large" | "gone"> {
  if (Number(incoming.headers["content-length"]) > max) return "too-large";
  if (incoming.headers.expect !== undefined && incoming.httpVersion !== "1.0") response.writeContinue();
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // Leaving the loop must not destroy the socket: the response uses it.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
      size += chunk.length;
      if (size > max) return "too-large";
      chunks.push(chunk);
    }
  } catch {
    return "gone";
  }
  return Buffer.concat(chunks);
}
