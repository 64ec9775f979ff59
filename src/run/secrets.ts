import type { Host } from "../host/host.ts";
import { resolved } from "../host/reference.ts";
import { modelSecrets } from "../model/open.ts";
import type { Secrets } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";
import { variablesOf } from "./variables.ts";

/** The values of a skill's variables; with what kept them from being had, when something did. */
export interface OwnSecrets {
  secrets: Secrets;
  problem?: unknown;
}

export function ownSecrets(skill: Skill, host: Host): OwnSecrets {
  try {
    return { secrets: variablesOf(skill, host) };
  } catch (problem) {
    return { secrets: new Map(), problem };
  }
}

/** Everything that nobody is shown: this skill's values under their own names, then all others that are configured, and the keys of models, servers and providers. */
export function allSecrets(own: Secrets, host: Host): Secrets {
  const secrets = new Map(own);
  const add = (name: string, value: string, longer: string) => {
    if (value === "" || [...secrets.values()].includes(value)) return;
    secrets.set(secrets.has(name) ? longer : name, value);
  };
  for (const [name, value] of modelSecrets(host)) add(name, value, `models.${name}`);
  for (const [skill, { variables }] of host.settings.skills) {
    for (const [name, written] of variables) add(name, resolvedOrNone(written, host), `${skill}.${name}`);
  }
  const { apiKey } = host.settings.tools.webSearch ?? {};
  if (apiKey !== undefined) add("web_search.api_key", resolvedOrNone(apiKey, host), "tools.web_search.api_key");
  for (const [server, { env, token }] of host.settings.mcp) {
    for (const [name, written] of env) add(name, resolvedOrNone(written, host), `${server}.${name}`);
    if (token !== undefined) add(`${server}.token`, resolvedOrNone(token, host), `tools.mcp.${server}.token`);
  }
  for (const [namespace, { env = new Map() }] of host.settings.providers) {
    for (const [name, written] of env) add(name, resolvedOrNone(written, host), `${namespace}.${name}`);
  }
  return secrets;
}

/** What cannot be had cannot be shown. */
function resolvedOrNone(written: string, host: Host): string {
  try {
    return resolved(written, host, () => {
      throw new Error("there is none");
    });
  } catch {
    return "";
  }
}
