import type { Host } from "../../config/host.ts";
import { findVariableProblem, listDeclaredVariables } from "../../skill/requirements.ts";
import type { Skill } from "../../skill/skill.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { Denial, Policy } from "./skill-policies.ts";

/** Requires a configured value for each variable that a skill declares, and refuses variables that control how programs start. */
export const variablePolicy: Policy = (skill, host) => {
  const { env } = skill.manifest;
  const wrong = env.find((name) => findVariableProblem(name) !== undefined);
  if (wrong !== undefined) {
    return {
      code: "variable-refused",
      kind: "setup",
      message: `Skill '${skill.name}' declares ${JSON.stringify(wrong)}, which ${findVariableProblem(wrong)}`,
      fix: "remove it from `env` in the skill, or rename it there",
    };
  }
  const values = host.settings.skills.get(skill.name)?.variables;
  const missing = listDeclaredVariables(skill).filter(
    (name) => (values?.get(name) ?? VALUE_PLACEHOLDER) === VALUE_PLACEHOLDER || values?.get(name) === "",
  );
  if (missing.length === 0) return undefined;
  const hasTable = host.settings.skills.has(skill.name); // A second table of this name would be an error.
  return {
    code: "missing-variable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${missing.join(", ")}`,
    commands: missing.map((name) => `skillet config set ${formatSkillKey(skill, name)}`),
    fix: [
      "run",
      `or add to ${formatConfigPath(host)}${hasTable ? `, below ${formatSkillTable(skill)}` : ""}:`,
      ...(hasTable ? [] : [`  ${formatSkillTable(skill)}`]),
      ...missing.map((name) => `  ${name} = "${VALUE_PLACEHOLDER}"`),
    ].join("\n"),
  };
};

/** The placeholder for a value in examples. Copied unchanged, it does not count as a value. */
const VALUE_PLACEHOLDER = "…";

/** Requires that each declared capability has a provider, is visible to the caller and was granted by the operator. */
export const capabilityPolicy: Policy = (skill, host) => {
  const { capabilities: declared } = skill.manifest;
  const unserved = declared.filter((id) => !host.capabilities?.findProvider(id, skill));
  const hidden = declared.filter(
    (id) => !unserved.includes(id) && !host.capabilities?.isVisible(id, host.caller, skill),
  );
  const ungiven = declared.filter((id) => !unserved.includes(id) && !host.capabilities?.isGranted(id, skill));
  return [
    ...(unserved.length > 0 ? [denyUnserved(skill, unserved)] : []),
    ...(hidden.length > 0 ? [denyHidden(skill, hidden, host)] : []),
    ...(ungiven.length > 0 ? [denyUngranted(skill, ungiven)] : []),
  ];
};

function denyUnserved(skill: Skill, ids: readonly string[]): Denial {
  const bare = ids.filter((id) => !id.includes("."));
  if (bare.length > 0) {
    return {
      code: "capability-unavailable",
      kind: "setup",
      message: `Skill '${skill.name}' needs ${formatCapabilityIds(bare)}, which no provider can serve without a namespace`,
      fix: `add a namespace in the skill, such as gog.${sanitizeLine(bare[0] ?? "", 64)}`,
    };
  }
  const tables = [...new Set(ids.map(getNamespace))].map(formatProviderTable);
  const own = formatSkillTable(skill).replace(/\]$/, ".capability_provider]");
  return {
    code: "capability-unavailable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${formatCapabilityIds(ids)}, which has no configured provider`,
    fix: `configure the provider: set command under ${[...tables, own].join(" or ")} in config.toml`,
  };
}

function denyHidden(skill: Skill, ids: readonly string[], { caller }: Host): Denial {
  const tables = [...new Set(ids.map(getNamespace))].map(formatProviderTable);
  const isCalled = caller?.chatType !== undefined;
  const chat = caller?.chatId === undefined ? "" : ` (its id is ${JSON.stringify(caller.chatId)})`;
  const where = isCalled ? `in this ${caller.chatType} chat${chat}` : "without caller information";
  const say = isCalled ? "" : "set `caller.chatType` of the host; ";
  return {
    code: "capability-unavailable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${formatCapabilityIds(ids)}, which ${ids.length === 1 ? "is" : "are"} not available ${where}`,
    fix: `${say}set the allowed chats under ${tables.join(" and ")} in config.toml: chat_types (default: private), allow_chat_ids`,
  };
}

function denyUngranted(skill: Skill, ids: readonly string[]): Denial {
  return {
    code: "capability-not-granted",
    kind: "setup",
    message: `Skill '${skill.name}' was not granted ${formatCapabilityIds(ids)}`,
    fix: "review what it does, then grant it",
    commands: [
      `skillet show ${quoteIfNeeded(skill.name)}`,
      `skillet capability grant ${[skill.name, ...ids].map(quoteIfNeeded).join(" ")}`,
    ],
  };
}

function getNamespace(id: string): string {
  return id.split(".")[0] ?? id;
}

function formatProviderTable(namespace: string): string {
  return `[capabilities.providers.${/^[\w-]+$/.test(namespace) ? namespace : JSON.stringify(namespace)}]`;
}

function formatCapabilityIds(ids: readonly string[]): string {
  return `the ${ids.length === 1 ? "capability" : "capabilities"} ${ids.join(", ")}`;
}

/** Formats the skill's table in config.toml. */
export function formatSkillTable({ name }: Skill): string {
  return `[skills.${/^[\w-]+$/.test(name) ? name : JSON.stringify(name)}]`;
}

/** Formats a configuration key of the skill as one shell word. */
export function formatSkillKey(skill: Skill, key: string): string {
  return quoteIfNeeded(`${formatSkillTable(skill).slice(1, -1)}.${key}`);
}

/** Shortens the home folder in a path to `~`. */
export function shortenHomePath(path: string, { env }: Pick<Host, "env">): string {
  const home = (env?.["HOME"] ?? "").replace(/\/+$/, "");
  return home !== "" && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

/** Formats the path of the user's configuration file. */
export function formatConfigPath(host: Pick<Host, "home" | "env">): string {
  return `${host.home === undefined ? "~/.skillet" : shortenHomePath(host.home, host)}/config.toml`;
}
