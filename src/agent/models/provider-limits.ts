import { hash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** The rates that a provider allows, for all runs of this process together. */
export interface ProviderRates {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
}

/** Limits the requests to one account of a provider. All runs of this process share it. */
export interface ProviderLimit {
  /** Waits until a request may be sent: until the rates allow it, and a pause is over. Rejects when the signal aborts. */
  wait(rates: ProviderRates, signal: AbortSignal): Promise<void>;
  /** Counts the tokens of an answer. */
  spend(tokens: number): void;
  /** Pauses all requests: the provider has refused one because there are too many. */
  pause(ms: number): void;
}

/** A bucket that refills in a minute. It may be overdrawn by what is only known afterwards, such as tokens. */
interface Bucket {
  left: number | undefined;
  refilledAt: number;
}

/** Creates the limit of one account. `now`: a monotonic clock in milliseconds. */
export function createProviderLimit({
  now = () => performance.now(),
  delay = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }),
}: {
  now?: () => number;
  delay?: (ms: number, signal: AbortSignal) => Promise<unknown>;
} = {}): ProviderLimit {
  const requests: Bucket = { left: undefined, refilledAt: now() };
  const tokens: Bucket = { left: undefined, refilledAt: now() };
  let pausedUntil = 0;
  /** Returns the milliseconds until the bucket has this much. */
  const waitFor = (bucket: Bucket, perMinute: number | undefined, needed: number): number => {
    if (perMinute === undefined) return 0;
    const at = now();
    const refilled = ((at - bucket.refilledAt) / 60_000) * perMinute;
    bucket.left = Math.min(perMinute, (bucket.left ?? perMinute) + refilled);
    bucket.refilledAt = at;
    return bucket.left >= needed ? 0 : ((needed - bucket.left) / perMinute) * 60_000;
  };
  return {
    async wait({ requestsPerMinute, tokensPerMinute }, signal) {
      for (;;) {
        signal.throwIfAborted();
        const ms = Math.max(
          pausedUntil - now(),
          waitFor(requests, requestsPerMinute, 1),
          waitFor(tokens, tokensPerMinute, Math.min(1, tokensPerMinute ?? 1)),
        );
        if (ms <= 0) break;
        await delay(Math.ceil(ms), signal);
      }
      if (requests.left !== undefined) requests.left--;
    },
    spend(used) {
      if (tokens.left !== undefined) tokens.left -= used;
    },
    pause(ms) {
      pausedUntil = Math.max(pausedUntil, now() + Math.min(ms, MAX_PAUSE_MS));
    },
  };
}

/** A longer pause would exceed the time limit of an answer. */
const MAX_PAUSE_MS = 60_000;
const DEFAULT_PAUSE_MS = 5000;

const LIMITS = new Map<string, ProviderLimit>();

/** Returns the limit of an account: of the provider, address and key. */
export function getProviderLimit(
  provider: string,
  address: string | undefined,
  key: string | undefined,
): ProviderLimit {
  const id = hash("sha256", JSON.stringify([provider, address, key]));
  const known = LIMITS.get(id) ?? createProviderLimit();
  LIMITS.set(id, known);
  return known;
}

/** Returns the time to pause after a refusal for too many requests (429); undefined for every other error. */
export function getPauseMs(error: unknown): number | undefined {
  const { statusCode, responseHeaders } = Object(error) as { statusCode?: unknown; responseHeaders?: unknown };
  if (statusCode !== 429) return undefined;
  const headers = Object(responseHeaders) as Record<string, unknown>;
  const ms = Number(headers["retry-after-ms"]);
  if (headers["retry-after-ms"] !== undefined && ms >= 0) return ms;
  const written = headers["retry-after"];
  const seconds = Number(written);
  if (written !== undefined && seconds >= 0) return seconds * 1000;
  const at = Date.parse(String(written ?? ""));
  return Number.isNaN(at) ? DEFAULT_PAUSE_MS : Math.max(0, at - Date.now());
}
