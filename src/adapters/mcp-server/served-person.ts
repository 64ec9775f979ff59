import { join } from "node:path";
import type { Host } from "../../config/host.ts";
import {
  createLiveSettingsView,
  getSettingsRevision,
  type PersonSettings,
  type Settings,
  type SkillSettings,
} from "../../config/settings.ts";
import type { Caller, HostPolicy } from "../../host/approval.ts";
import type { Capabilities } from "../../host/capability-contract.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import { shortHash } from "../../util/text.ts";
import type { ServerIdentity } from "./http-identity.ts";
import type { AdmitCall } from "./server-tools.ts";
import type { ServedCaller } from "./skill-server.ts";
import type { TenantGate } from "./tenant-gate.ts";

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
  const settingsOf = () => host.settings.serving.people?.get(userId);
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
      settings: createPersonSettings(host.settings, userId),
      policies: [...(host.policies ?? []), restrictToSkills],
      ...(host.capabilities ? { capabilities: restrictCapabilities(host.capabilities, settingsOf) } : {}),
      ...(openApprovals ? { approvals: openApprovals(userId, caller.tenant) } : {}),
    },
  };
}

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
function createPersonSettings(settings: Settings, person: string): Settings {
  let known: { of: Settings; merged: Settings } | undefined;
  return createLiveSettingsView(() => {
    const of = getSettingsRevision(settings);
    if (known?.of !== of) known = { of, merged: mergePersonSettings(of, person) };
    return known.merged;
  });
}

function mergePersonSettings(settings: Settings, person: string): Settings {
  const { variables } = settings.serving.people?.get(person) ?? {};
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
export function getPersonFolder(skilletHome: string, person: string): string {
  const shown = person
    .toLowerCase()
    .replace(/[^a-z0-9.@+-]/g, "_")
    .replace(/^\.+/, "_")
    .slice(0, 64);
  return join(skilletHome, "people", `${shown}-${shortHash(person)}`);
}
