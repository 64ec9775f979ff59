import type { TenantSettings } from "../../config/settings.ts";
import type { Problem } from "../../errors/problem.ts";

/** Limits what the people of each tenant start in this server. Each tenant has its own queue, so that none waits for another. */
export interface TenantGate {
  /**
   * Waits for a free place. Returns the function that frees it, or the problem of a call that must not start. Rejects when the signal
   * aborts.
   */
  enter(tenant: string, limits: TenantSettings, signal: AbortSignal): Promise<(() => void) | Problem>;
}

interface TenantState {
  running: number;
  /** The calls that wait, the oldest first. */
  waiting: (() => void)[];
  /** The calls that may start now, by the rate. */
  tokens: number;
  refilledAt: number;
}

/** Creates the gate. `now`: a monotonic clock in milliseconds. */
export function createTenantGate({ now = () => performance.now() }: { now?: () => number } = {}): TenantGate {
  const tenants = new Map<string, TenantState>();
  const stateOf = (tenant: string, { callsPerMinute = 0 }: TenantSettings): TenantState => {
    const state = tenants.get(tenant) ?? { running: 0, waiting: [], tokens: callsPerMinute, refilledAt: now() };
    tenants.set(tenant, state);
    return state;
  };
  /** Returns the seconds to wait, or 0 after it took a token. */
  const takeToken = (state: TenantState, perMinute: number): number => {
    const at = now();
    state.tokens = Math.min(perMinute, state.tokens + ((at - state.refilledAt) / 60_000) * perMinute);
    state.refilledAt = at;
    if (state.tokens < 1) return Math.ceil(((1 - state.tokens) / perMinute) * 60);
    state.tokens--;
    return 0;
  };
  return {
    async enter(tenant, limits, signal) {
      signal.throwIfAborted();
      const { concurrency = Number.POSITIVE_INFINITY, callsPerMinute } = limits;
      const state = stateOf(tenant, limits);
      const seconds = callsPerMinute === undefined ? 0 : takeToken(state, callsPerMinute);
      if (seconds > 0)
        return createBusyProblem(tenant, `${callsPerMinute} calls a minute`, `try again in ${seconds} seconds`);
      if (state.running >= concurrency) {
        if (state.waiting.length >= MAX_WAITING)
          return createBusyProblem(tenant, `${concurrency} calls at once`, "try again later");
        await waitForPlace(state, signal);
      } else state.running++;
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        // The place passes to the next call without being free in between.
        const next = state.waiting.shift();
        if (next) next();
        else state.running--;
      };
    },
  };
}

const MAX_WAITING = 1000;

function waitForPlace(state: TenantState, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const enter = () => {
      signal.removeEventListener("abort", leave);
      resolve();
    };
    const leave = () => {
      state.waiting = state.waiting.filter((one) => one !== enter);
      reject(signal.reason);
    };
    state.waiting.push(enter);
    signal.addEventListener("abort", leave, { once: true });
  });
}

function createBusyProblem(tenant: string, limit: string, fix: string): Problem {
  return { code: "tenant-busy", message: `The tenant ${tenant} has reached its limit of ${limit}`, fix };
}
