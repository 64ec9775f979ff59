import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import { SkillError } from "../errors/problem.ts";

/** Maps items one after the other, in order. */
export async function mapAsync<T, U>(items: Iterable<T>, map: (item: T) => Promise<U>): Promise<U[]> {
  const mapped: U[] = [];
  for (const item of items) mapped.push(await map(item));
  return mapped;
}

/** Selects items one after the other, in order. */
export async function filterAsync<T>(items: Iterable<T>, isKept: (item: T) => Promise<boolean>): Promise<T[]> {
  const kept: T[] = [];
  for (const item of items) if (await isKept(item)) kept.push(item);
  return kept;
}

/** Runs work with the same key one after the other, in the order in which it was given. */
export function createTurns(): <T>(key: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<void>>();
  return (key, work) => {
    const result = (last.get(key) ?? Promise.resolve()).then(work);
    const ended = result
      .then(() => {})
      .catch(() => {})
      .finally(() => {
        if (last.get(key) === ended) last.delete(key);
      });
    last.set(key, ended);
    return result;
  };
}

/** Limits a delay to the maximum of a timer, 24 days. A longer one would fire immediately. */
export function clampTimerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

/**
 * Calls back when the time is over, not counting time spent waiting for users. Returns a function that stops the timer.
 */
export function startPausableTimer(ms: number, onTime: () => void, waited: () => number = () => 0): () => void {
  const before = waited();
  let granted = 0;
  const check = () => {
    const more = waited() - before - granted;
    if (more < 1) return onTime();
    granted += more;
    timer = setTimeout(check, clampTimerMs(more));
  };
  let timer = setTimeout(check, clampTimerMs(ms));
  return () => clearTimeout(timer);
}

/** The abort reason of a time limit: that of the run itself, or of an outer run. */
export class TimeLimitError extends SkillError {
  override readonly name = "TimeLimitError";
  readonly seconds: number;

  constructor(seconds: number) {
    super("timeout", { message: "The time limit was reached" });
    this.seconds = seconds;
  }
}

/** Returns a signal that aborts with the outer one or when the time is over, not counting time spent waiting for users. */
export function startTimeLimit(
  seconds: number,
  outer: AbortSignal,
  waited?: () => number,
): { signal: AbortSignal; stop(): void } {
  const timer = new AbortController();
  const stop = startPausableTimer(seconds * 1000, () => timer.abort(new TimeLimitError(seconds)), waited);
  return { signal: AbortSignal.any([outer, timer.signal]), stop };
}

/** Runs work with the signal of a time limit. */
export async function withTimeLimit<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  waited?: () => number,
): Promise<T> {
  const { signal, stop } = startTimeLimit(seconds, outer, waited);
  try {
    return await work(signal);
  } finally {
    stop();
  }
}

/** Returns the reason why a signal aborted. */
export function getStopReason(signal: AbortSignal): "timeout" | "aborted" {
  return signal.reason instanceof TimeLimitError ? "timeout" : "aborted";
}

/** The time that work has to end after an abort. */
const ABORT_GRACE_MS = 2000;

/** Awaits work that should end with a signal. If it ignores the signal, rejects with the signal's reason. */
export function raceWithAbort<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    grace = setTimeout(() => reject(signal.reason), ABORT_GRACE_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return Promise.race([work, promise]).finally(() => {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(grace);
  });
}

/** Tracks the time spent waiting for users, including the current wait. */
export function createWaitTracker(now = () => performance.now()): {
  during<T>(work: () => Promise<T>): Promise<T>;
  waited(): number;
} {
  let total = 0;
  let since = 0;
  // Commands of a skill may ask several questions at once: overlapping waits count once.
  let active = 0;
  const waited = () => total + (active === 0 ? 0 : now() - since);
  return {
    waited,
    async during(work) {
      if (active++ === 0) since = now();
      try {
        return await work();
      } finally {
        const elapsed = waited();
        if (--active === 0) total = elapsed;
      }
    },
  };
}

/** The right of this process to act for a run that another process may take over. */
export interface Lease {
  /** Returns true while no other process can have the run. Contract: judges by the time that passed, also while this process was frozen. */
  isHeld(): boolean;
  /** Renews the lease. Throws a SkillError if it was lost. */
  renew(): Promise<void>;
}

const leases = new AsyncLocalStorage<Lease>();

/** Runs work for the owner of a lease: what it sends with `sendUnderLease` and `fetchUnderLease` leaves only while the lease is held. */
export function runWithLease<T>(lease: Lease, work: () => Promise<T>): Promise<T> {
  watchConnections();
  return leases.run(lease, work);
}

/** Returns true if a request or a process may leave now: the current run has no lease, or it is held. Check it right before the call. */
export function isLeaseHeld(): boolean {
  return leases.getStore()?.isHeld() ?? true;
}

/** Renews the lease of the current run. Throws a SkillError if it was lost. */
export async function renewLease(): Promise<void> {
  await leases.getStore()?.renew();
}

/**
 * Sends a request if the lease of the current run is held; renews it first if it is old. Between the check and the call of `send` there is
 * no other work, so that a process which was frozen before sends nothing. Without a lease, only calls `send`.
 */
export async function sendUnderLease<T>(send: () => T | PromiseLike<T>): Promise<T> {
  while (!isLeaseHeld()) await renewLease();
  return send();
}

/** `fetch` under the lease of the current run, which is checked again when the connection is open, before the request is written. */
export const fetchUnderLease: typeof fetch = async (input, init) => {
  for (;;) {
    try {
      return await sendUnderLease(() => fetch(input, init));
    } catch (error) {
      // Nothing was sent: the lease is renewed first, or was lost.
      if ((error as Error).cause !== LEASE_ENDED) throw error;
    }
  }
};

const LEASE_ENDED = new Error("The lease ended before the request was sent");

let isWatching = false;

/** Closes a connection instead of writing a request whose lease ended while it was opened. Node reports both moments of a `fetch`. */
function watchConnections(): void {
  if (isWatching) return;
  isWatching = true;
  const owners = new WeakMap<object, Lease>();
  subscribe("undici:request:create", (message) => {
    const lease = leases.getStore();
    if (lease) owners.set((message as { request: object }).request, lease);
  });
  subscribe("undici:client:sendHeaders", (message) => {
    const { request, socket } = message as { request: object; socket: { destroy(error: Error): void } };
    if (owners.get(request)?.isHeld() === false) socket.destroy(LEASE_ENDED);
  });
}
