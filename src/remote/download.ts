import { lookup } from "node:dns";
import { lookup as resolveName } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { isPrivateAddress } from "../sandbox/sandbox-network.ts";
import { packageVersion } from "../util/system.ts";
import { formatNumber } from "../util/text.ts";
import { quoteSourcePath } from "./remote-source.ts";
import { isSameHost, LOOPBACK_PATTERN } from "./source-address.ts";

export interface DownloadOptions {
  /** The maximum number of bytes to read. */
  most: number;
  /** The timeout of the whole download. */
  seconds: number;
  /** Allowed redirects: to the same host, or to any https address. */
  redirects: "same-host" | "https";
  /**
   * The address that the user typed. Defaults to the address itself. Private addresses are allowed only on the origin
   * that the user typed.
   */
  typed?: string | undefined;
  /** Also connects to private addresses that only the source named. */
  allowPrivate?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

export interface DownloadResult {
  bytes: Buffer;
  /** The final address after redirects. */
  url: string;
}

const MAX_REDIRECTS = 5;

/** Downloads a file over https, or http from this machine, without cookies and within the size limit. */
export async function downloadFile(address: string, options: DownloadOptions): Promise<DownloadResult> {
  const { seconds, signal } = options;
  const time = AbortSignal.timeout(seconds * 1000);
  const either = signal ? AbortSignal.any([signal, time]) : time;
  try {
    return await followRedirects(new URL(address), { ...options, signal: either });
  } catch (cause) {
    if (cause instanceof SkillError) throw cause;
    if (signal?.aborted) throw createDownloadCancelledError(signal);
    if (time.aborted)
      throw createDownloadError("download-timeout", address, `took longer than ${seconds} seconds`, RETRY_FIX);
    throw createDownloadError(
      "download-unreachable",
      address,
      `cannot be reached: ${getErrorMessage(cause)}`,
      RETRY_FIX,
      cause,
    );
  }
}

const RETRY_FIX = "check the address and the network, and try again";

async function followRedirects(start: URL, options: DownloadOptions): Promise<DownloadResult> {
  if (!isAllowedUrl(start))
    throw createDownloadError("download-insecure", start.href, "is not an https address", ONLY_HTTPS);
  const typed = new URL(options.typed ?? start);
  let url = start;
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await sendRequest(url, typed, options);
    const { statusCode: status = 0 } = response;
    const { location } = response.headers;
    if (status >= 300 && status < 400 && location !== undefined) {
      response.destroy();
      url = resolveRedirect(url, location, options);
      continue;
    }
    if (status === 200) return { bytes: await readBody(response, url, options), url: url.href };
    response.destroy();
    throw createStatusError(url, status);
  }
  throw createDownloadError(
    "download-redirect",
    start.href,
    `redirects more than ${MAX_REDIRECTS} times`,
    "use the final address",
  );
}

/** Sends a request. The name is resolved once: the connection uses exactly the address that was checked. */
function sendRequest(url: URL, typed: URL, { allowPrivate, signal }: DownloadOptions): Promise<IncomingMessage> {
  const mustBePublic = !allowPrivate && typed.origin !== url.origin;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (mustBePublic && isIP(host) !== 0 && isPrivateAddress(host)) throw createPrivateAddressError(url);
  const resolve: LookupFunction = (name, options, done) => {
    lookup(name, { ...options, all: true }, (error, found) => {
      if (!error && mustBePublic && found.some(({ address }) => isPrivateAddress(address)))
        done(createPrivateAddressError(url), []);
      else if (error || options.all) done(error, found ?? []);
      else done(null, found[0]?.address ?? "", found[0]?.family);
    });
  };
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  return new Promise((received, reject) => {
    request(url, { lookup: resolve, headers: createRequestHeaders(), ...(signal ? { signal } : {}) })
      .on("response", received)
      .on("error", reject)
      .end();
  });
}

/** Throws if the host is a private address or resolves to one. A name that cannot be resolved here passes. */
export async function checkPublicAddress(url: URL): Promise<void> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const found = await resolveName(host, { all: true }).catch(() => []);
  if (found.some(({ address }) => isPrivateAddress(address))) throw createPrivateAddressError(url);
}

function createPrivateAddressError(url: URL): SkillError {
  return createDownloadError(
    "download-private-address",
    url.href,
    "is a private address named by the source, and was not requested",
    "if you trust the source, allow it with --allow-private-addresses",
  );
}

function createRequestHeaders(): Record<string, string> {
  return { "User-Agent": `skillet/${packageVersion()}`, "Accept-Encoding": "identity" };
}

function resolveRedirect(from: URL, location: string, { redirects }: DownloadOptions): URL {
  const to = URL.parse(location, from.href);
  if (!to) throw createDownloadError("download-redirect", from.href, "redirects to an invalid address", RETRY_FIX);
  const isAllowed = isSameHost(from, to) || (to.protocol === "https:" && redirects === "https");
  if (isAllowed) return to;
  throw createDownloadRedirectError(from.href, to);
}

/** Creates the error for a redirect that is not allowed. */
export function createDownloadRedirectError(from: string, to: URL): SkillError {
  const isAllowed = isAllowedUrl(to);
  const fix = isAllowed ? `if you trust that host, use its address: ${quoteSourcePath(to.href)}` : ONLY_HTTPS;
  return createDownloadError(
    "download-redirect",
    from,
    `redirects to ${quoteSourcePath(isAllowed ? to.host : to.href)}`,
    fix,
  );
}

const ONLY_HTTPS = "use an https address";

function isAllowedUrl({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && LOOPBACK_PATTERN.test(hostname));
}

// Reads the body. A compressed response would be unpacked before its size is known, so the request excludes
// compression.
async function readBody(response: IncomingMessage, url: URL, { most }: DownloadOptions): Promise<Buffer> {
  const encoding = response.headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    response.destroy();
    throw createDownloadError(
      "download-encoding",
      url.href,
      "was sent compressed, which was not requested",
      "report it to the operator of the server",
    );
  }
  const declaredBytes = Number(response.headers["content-length"] ?? 0);
  const pieces: Buffer[] = [];
  let bytes = 0;
  const createTooLargeError = () =>
    createDownloadError(
      "download-too-large",
      url.href,
      `has more than ${formatNumber(most)} bytes`,
      "use a smaller file",
    );
  if (declaredBytes > most) {
    response.destroy();
    throw createTooLargeError();
  }
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > most) throw createTooLargeError();
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function createStatusError(url: URL, status: number): SkillError {
  const isFound = status !== 404 && status !== 410;
  const reason = isFound ? `answers with status ${status}` : "was not found";
  return createDownloadError(isFound ? "download-refused" : "download-missing", url.href, reason, RETRY_FIX);
}

/** Creates the error for a canceled fetch. */
export function createDownloadCancelledError(signal: AbortSignal): SkillError {
  return new SkillError("fetch-aborted", {
    message: "the fetch was canceled",
    fix: "nothing was kept: add it again",
    cause: signal.reason,
  });
}

function createDownloadError(
  code: ErrorCode,
  address: string,
  reason: string,
  fix: string,
  cause?: unknown,
): SkillError {
  return new SkillError(code, {
    message: `${quoteSourcePath(address)} ${reason}`,
    fix,
    ...(cause === undefined ? {} : { cause }),
  });
}
