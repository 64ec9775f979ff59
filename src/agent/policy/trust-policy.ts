import { dirname, join } from "node:path";
import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { findVariableProblem, listDeclaredVariables, type Skill, type SkillFile } from "../../skill/skill.ts";
import { copySkillFolder } from "../../skill/source/skill-copy.ts";
import { listSkillFiles } from "../../skill/source/skill-files.ts";
import type { OwnRefusal } from "../../store/own-folders.ts";
import { getSkillLocation, needsSecretGrant, type SecretOwner } from "../../store/trust.ts";
import { statIfExists } from "../../util/file-access.ts";
import { quoteIfNeeded, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { Denial, Policy } from "./skill-policies.ts";

/** Denies code from a workspace, or code that another program put into the user's home, until the user trusts it. */
export const trustPolicy: Policy = (skill, host) => {
  if (host.trust?.getStatus(skill) !== "untrusted") return undefined;
  const { folder, file, source, remote } = skill.origin;
  if (remote) {
    const isChanged = host.trust.getEntry(skill) !== undefined;
    return {
      code: "untrusted",
      kind: "setup",
      message: `Skill '${skill.name}' (from MCP server '${remote.server}') ${isChanged ? "changed since it was trusted" : "has not been trusted yet"}`,
      fix: "review it, then run",
      commands: [`skillet trust ${quoteIfNeeded(`${skill.name}@${source}`)}`],
    };
  }
  const refusal = host.trust.findRefusal?.(skill); // The trust store of an embedding program may lack it.
  return {
    code: "untrusted",
    kind: "setup",
    message: refusal
      ? `Skill '${skill.name}' (from ${source}) is in your folder, but not trusted: ${formatOwnRefusal(refusal)}`
      : `Skill '${skill.name}' (from ${source}) has not been trusted yet`,
    fix: "review it, then run",
    commands: [`skillet trust ${quoteHomePath(folder ?? file ?? ".", host)}`],
  };
};

/** Explains why a skill in one of the user's folders is not trusted as the user's own work. */
export function formatOwnRefusal({ why, path }: OwnRefusal): string {
  const file = path === "." ? "it" : truncateLine(path, 100);
  return OWN_REFUSAL_REASONS[why].replace("FILE", () => file);
}

const OWN_REFUSAL_REASONS: Record<OwnRefusal["why"], string> = {
  run: "FILE was changed during a run, chat or call of skillet",
  update: "skillet wrote it in an update or addition",
  git: "it changed with a later git checkout",
  repository: "it is in a repository that was added later",
  owner: "FILE belongs to another user",
  writable: "FILE is writable by other users (chmod go-w)",
  link: "FILE is a symlink",
  special: "FILE is not a plain file",
  nested: "FILE is its own git repository",
  unreadable: "FILE",
};

/** Quotes a path, with the home folder as `~`, which a shell expands only outside quotes. */
function quoteHomePath(path: string, host: Host): string {
  const short = shortenHomePath(path, host);
  return quoteIfNeeded(short) === short ? short : quoteIfNeeded(path);
}

/** Limits what is configured for a name to the copy that the user granted it to. */
export const secretPolicy: Policy = denyForeignSecrets;

function denyForeignSecrets(skill: Skill, host: Host): Denial | undefined {
  const { grants } = host;
  if (!grants || !hasConfiguredAccess(skill, host)) return undefined;
  const problem = grants.problem();
  if (problem !== undefined) {
    return {
      code: "grants-unreadable",
      kind: "setup",
      message: `Skill '${skill.name}' does not get its values: ${problem}`,
      fix: "fix the file, or remove it: then the next run asks which copy gets its values",
    };
  }
  const owner = grants.getOwner(skill.name);
  if (!owner)
    return needsSecretGrant(skill) && hasAccessInSettings(skill, host) ? denyUnassigned(skill, host) : undefined;
  return grants.isOwner(skill, owner) ? undefined : denyOtherSource(skill, owner, host);
}

/** Checks again, right before values are passed on, that they were granted to this copy. Throws a SkillError if not. */
export function requireSecretOwner(skill: Skill, host: Host): void {
  const denial = denyForeignSecrets(skill, host);
  if (denial) throw new SkillError(denial.code, denial);
}

/**
 * Returns true if the configuration grants this name more than the default: values, capabilities, network, workspace, or
 * commands in its instructions.
 */
export function hasConfiguredAccess(
  skill: Skill,
  host: Pick<Host, "settings"> & { capabilities?: Host["capabilities"] | undefined },
): boolean {
  const { network = [], workspace = "none", dynamicCommands = false } = host.settings.skills.get(skill.name) ?? {};
  if (skill.manifest.capabilities.some((id) => host.capabilities?.isGranted(id, skill))) return true;
  return (
    network.length > 0 || workspace !== "none" || dynamicCommands || listConfiguredVariables(skill, host).length > 0
  );
}

/** Returns true for access from the settings alone: access granted in code is the program's own decision. */
function hasAccessInSettings(skill: Skill, host: Host): boolean {
  const { capabilities = [], provider } = host.settings.skills.get(skill.name) ?? {};
  const isProvided = provider !== undefined && provider.enabled !== false;
  const asksForSome = skill.manifest.capabilities.length > 0 && (capabilities.length > 0 || isProvided);
  return asksForSome || hasConfiguredAccess(skill, { ...host, capabilities: undefined });
}

/** Lists the declared variables that have values, by name. */
export function listConfiguredVariables(skill: Skill, { settings }: Pick<Host, "settings">): string[] {
  const values = settings.skills.get(skill.name)?.variables;
  return values ? listDeclaredVariables(skill).filter((name) => values.get(name)) : [];
}

/** Formats what is configured for a skill: `KEY, notes.read`, or the table. */
export function formatConfiguredAccess(skill: Skill, host: Host): string {
  const capabilities = skill.manifest.capabilities.filter((id) => host.capabilities?.isGranted(id, skill));
  return (
    [...listConfiguredVariables(skill, host), ...capabilities].join(", ") ||
    `the settings in ${formatSkillTable(skill)}`
  );
}

function denyUnassigned(skill: Skill, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const location = folder ?? file;
  const from = `${source}${location === undefined ? "" : ` (${shortenHomePath(location, host)})`}`;
  return {
    code: "secret-not-approved",
    kind: "setup",
    message: `The settings of skill '${skill.name}' in config.toml (${formatConfiguredAccess(skill, host)}) are not granted to any copy yet; this copy is from ${from}`,
    fix: "review it, then run",
    commands: [`skillet trust --secrets ${quoteIfNeeded(skill.name)}`],
  };
}

function denyOtherSource(skill: Skill, owner: SecretOwner, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const location = folder ?? file;
  const isThere = owner.location === location; // Another copy has replaced it.
  const was = isThere ? owner.from : owner.location === "" ? undefined : shortenHomePath(owner.location, host);
  const from = `${owner.source}${was === undefined ? "" : ` (${was})`}`;
  const to = isThere
    ? "another source"
    : `${source}${location === undefined ? "" : ` (${shortenHomePath(location, host)})`}`;
  return {
    code: "secret-other-source",
    kind: "setup",
    message: `The settings of skill '${skill.name}' in config.toml were granted to the copy from ${from}; this copy is from ${to}`,
    fix: "review it, then run",
    commands: [`skillet trust --secrets ${quoteIfNeeded(skill.name)}`],
  };
}

/**
 * Creates a function that returns why a skill's text is withheld from models. Text in the user's own folders needs no decision, text
 * of a workspace needs one for the workspace. Without it, a workspace skill is served while it is exactly the trusted version.
 */
export function createTextTrust(host: Host): (skill: Skill) => Problem | undefined {
  const known = new Map<string, { stamp: string; why: Problem | undefined }>();
  return (skill) => {
    if (host.trust?.text.covers(skill)) return undefined;
    const [untrusted] = [trustPolicy(skill, host) ?? []].flat();
    if (untrusted && skill.origin.scope === "workspace") return createNotApprovedProblem(skill);
    if (untrusted || host.trust?.getStatus(skill) !== "trusted") return untrusted;
    if (skill.origin.remote) return undefined; // Each file is verified when it is read, so it is the trusted version.
    const location = getSkillLocation(skill);
    // The current files: an added skill is served by its path before the sources are read again.
    const stamp = `${host.trust.getEntry(skill)?.at} ${fingerprintPaths(listSkillPaths(skill, listSkillFiles(skill.origin).files))}`;
    const before = known.get(location);
    if (before?.stamp === stamp) return before.why;
    const why = isAsTrusted(skill, host) ? undefined : createNotTrustedProblem(skill);
    known.set(location, { stamp, why });
    return why;
  };
}

function createNotApprovedProblem({ name, origin: { source } }: Skill): Problem {
  return {
    code: "untrusted",
    message: `Skill '${name}' (from ${source}) is text from this workspace, which the user has not approved`,
    fix: "the user runs",
    commands: ["skillet trust --text ."],
  };
}

function isAsTrusted(skill: Skill, { trust }: Host): boolean {
  try {
    return trust?.findChanges(skill, copySkillFolder(skill)).length === 0;
  } catch {
    return false; // A skill that cannot be compared does not count as trusted.
  }
}

/** A model reads this message: it contains no names of files that the user has not reviewed. */
function createNotTrustedProblem(skill: Skill): Problem {
  return { ...describeTrustChange(skill, []), message: `Skill '${skill.name}' differs from the trusted version` };
}

/** Describes code that differs from the trusted version. */
export function describeTrustChange(skill: Skill, changes: readonly { path: string; what: string }[]): Problem {
  const texts = changes.slice(0, 10).map(({ path, what }) => `${path} ${what}`);
  if (changes.length > 10) texts.push(`and ${changes.length - 10} more`);
  return {
    code: "changed",
    message: `Skill '${skill.name}' differs from the trusted version: ${texts.join(", ")}`,
    fix: "review it, then run",
    commands: [`skillet trust ${quoteIfNeeded(getSkillLocation(skill))}`],
  };
}

/** Returns the paths of the skill's file and of these others, and their folders. */
export function listSkillPaths({ origin: { folder, file } }: Skill, listed: readonly SkillFile[]): string[] {
  if (folder === undefined || file === undefined) return [];
  const files = [file, ...listed.map(({ path }) => join(folder, path))];
  return [...new Set([folder, ...files.flatMap((path) => [path, dirname(path)])])];
}

/** Returns a fingerprint that changes with the files, without reading them. It includes the ctime, since the mtime can be set. */
export function fingerprintPaths(paths: readonly string[]): string {
  const stamps = paths.map((path) => {
    const stats = statIfExists(path);
    return stats ? `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}` : "-";
  });
  return stamps.join("\n");
}

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
