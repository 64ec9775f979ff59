import { join } from "node:path";
import type { Host } from "../../config/host.ts";
import {
  createLiveSettingsView,
  getSettingsRevision,
  type PersonSettings,
  type Settings,
  type SkillSettings,
  type TenantSettings,
} from "../../config/settings.ts";
import type { Problem } from "../../errors/problem.ts";
import { type Caller, formatPersonKey, type HostPolicy } from "../../host/approval.ts";
import type { Capabilities } from "../../host/capability-contract.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import { omitUndefined } from "../../util/objects.ts";
import { shortHash } from "../../util/text.ts";
import type { ServerIdentity } from "./http-identity.ts";
import type { AdmitCall } from "./server-tools.ts";
import type { ServedCaller } from "./skill-server.ts";

export interface PersonHostOptions {
  /** Opens the permanent approvals of a person. An approval of one person never counts for another. */
  openApprovals?(person: string, tenant?: string): ApprovalStore;
  /** Limits what each tenant starts. */
  gate?: TenantGate;
}

/**
 * Returns the caller with the parts of the host that belong to it: its identity, values, capabilities and approvals. Contract: follows the
 * settings, also in sessions that exist.
 */
export function createServedCaller(
  host: Host,
  identity: ServerIdentity,
  { openApprovals, gate }: PersonHostOptions = {},
): ServedCaller {
  const { key, userId, scopes } = identity;
  if (userId === undefined) return { key, scopes, host: {} };
  const settingsOf = () => findPersonSettings(host.settings, identity);
  const restrictToSkills: HostPolicy = ({ name }) => {
    const only = settingsOf()?.skills;
    if (!only || only.includes(name)) return undefined;
    return {
      message: `Skill '${name}' is not for ${userId}`,
      fix: "ask the operator of the server to add it to your skills",
    };
  };
  const caller = createLiveCaller(host, identity, settingsOf);
  const admit: AdmitCall = async (signal) => {
    const { tenant } = caller;
    const limits = tenant === undefined ? undefined : host.settings.serving.tenants?.get(tenant);
    return gate && tenant !== undefined && limits ? gate.enter(tenant, limits, signal) : () => {};
  };
  return {
    key,
    scopes,
    admit,
    host: {
      caller,
      settings: createPersonSettings(host.settings, identity),
      policies: [...(host.policies ?? []), restrictToSkills],
      ...(host.capabilities ? { capabilities: restrictCapabilities(host.capabilities, settingsOf) } : {}),
      ...(openApprovals ? { approvals: openApprovals(userId, caller.tenant) } : {}),
    },
  };
}

/** Returns the settings of a person, unless they name another tenant than the authorization server: then they are for another person. */
export function findPersonSettings({ serving }: Settings, { userId, tenant }: PersonName): PersonSettings | undefined {
  const found = userId === undefined ? undefined : serving.people?.get(userId);
  const isOther = found?.tenant !== undefined && tenant !== undefined && found.tenant !== tenant;
  return isOther ? undefined : found;
}

type PersonName = Pick<ServerIdentity, "userId" | "tenant">;

/** Creates the caller of a person. Its properties are read from the settings at each access. */
function createLiveCaller(
  host: Host,
  { userId, tenant }: ServerIdentity,
  settingsOf: () => PersonSettings | undefined,
): Caller {
  const read: Record<keyof Caller, () => string | undefined> = {
    sessionId: () => host.caller?.sessionId,
    userId: () => userId,
    tenant: () => settingsOf()?.tenant ?? tenant,
    chatId: () => settingsOf()?.chatId ?? host.caller?.chatId,
    chatType: () => settingsOf()?.chatType ?? host.caller?.chatType,
  };
  const properties = Object.entries(read).map(([name, get]) => [name, { enumerable: true, get }] as const);
  return Object.defineProperties({}, Object.fromEntries(properties));
}

/** Creates the settings of a person: the person's values of variables replace those of everyone. */
function createPersonSettings(settings: Settings, person: PersonName): Settings {
  let known: { of: Settings; merged: Settings } | undefined;
  return createLiveSettingsView(() => {
    const of = getSettingsRevision(settings);
    if (known?.of !== of) known = { of, merged: mergePersonSettings(of, person) };
    return known.merged;
  });
}

function mergePersonSettings(settings: Settings, person: PersonName): Settings {
  const { variables } = findPersonSettings(settings, person) ?? {};
  if (!variables || variables.size === 0) return settings;
  const skills = new Map<string, SkillSettings>(settings.skills);
  for (const [name, values] of variables) {
    const before = skills.get(name);
    skills.set(name, { ...before, variables: new Map([...(before?.variables ?? []), ...values]) });
  }
  return { ...settings, skills };
}

/** Returns capabilities of which only those of the person are visible and granted. */
function restrictCapabilities(all: Capabilities, settingsOf: () => PersonSettings | undefined): Capabilities {
  const isAllowed = (id: string) => {
    const only = settingsOf()?.capabilities;
    return !only || only.some((one) => one === id || (one.endsWith(".*") && id.startsWith(one.slice(0, -1))));
  };
  return {
    isVisible: (id, caller, skill) => isAllowed(id) && all.isVisible(id, caller, skill),
    isGranted: (id, skill) => isAllowed(id) && all.isGranted(id, skill),
    findProvider: (id, skill) => all.findProvider(id, skill),
    providers: () => all.providers(),
    get quota() {
      return all.quota;
    },
    get vault() {
      return all.vault;
    },
    get audit() {
      return all.audit;
    },
  };
}

/** Returns the folder of a person below skillet's home. Names of an authorization server may have any characters. */
export function getPersonFolder(skilletHome: string, person: string, tenant?: string): string {
  const shown = person
    .toLowerCase()
    .replace(/[^a-z0-9.@+-]/g, "_")
    .replace(/^\.+/, "_")
    .slice(0, 64);
  return join(
    skilletHome,
    "people",
    `${shown}-${shortHash(formatPersonKey(omitUndefined({ userId: person, tenant })))}`,
  );
}

/** Limits what the people of each tenant start in this server. Each tenant has its own queue, so that none waits for another. */
interface TenantGate {
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
