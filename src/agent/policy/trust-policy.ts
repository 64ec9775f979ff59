import type { Host } from "../../config/host.ts";
import { SkillError } from "../../errors/problem.ts";
import { listDeclaredVariables } from "../../skill/requirements.ts";
import type { Skill } from "../../skill/skill.ts";
import type { OwnRefusal } from "../../store/own-folders.ts";
import { needsSecretGrant, type SecretOwner } from "../../store/trust.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { formatSkillTable, shortenHomePath } from "./setup-policy.ts";
import type { Denial, Policy } from "./skill-policies.ts";

/** What came with a workspace, or what another program put into the user's home, waits for the user's word. */
export const trustPolicy: Policy = (skill, host) => {
  if (host.trust?.standingOf(skill) !== "untrusted") return undefined;
  const { folder, file, source, remote } = skill.origin;
  if (remote) {
    const isChanged = host.trust.entryOf(skill) !== undefined;
    return {
      code: "untrusted",
      kind: "setup",
      message: `Skill '${skill.name}' (from MCP server '${remote.server}') ${isChanged ? "changed since it was trusted" : "has not been trusted yet"}`,
      fix: `look at it, then run: skillet trust ${quoteIfNeeded(`${skill.name}@${source}`)}`,
    };
  }
  const refusal = host.trust.refusalOf?.(skill); // The trust of an embedding program may have none.
  return {
    code: "untrusted",
    kind: "setup",
    message: refusal
      ? `Skill '${skill.name}' (from ${source}) is in a folder of yours, but not trusted: ${formatOwnRefusal(refusal)}`
      : `Skill '${skill.name}' (from ${source}) has not been trusted yet`,
    fix: `look at it, then run: skillet trust ${quoteHomePath(folder ?? file ?? ".", host)}`,
  };
};

/** Says why a skill in a folder of the user's is not trusted as the user's own work. */
export function formatOwnRefusal({ why, path }: OwnRefusal): string {
  const file = path === "." ? "it" : truncateLine(path, 100);
  return OWN_REFUSAL_REASONS[why].replace("FILE", () => file);
}

const OWN_REFUSAL_REASONS: Record<OwnRefusal["why"], string> = {
  run: "FILE was changed while a run, chat or call of skillet was under way",
  update: "an update or addition of skillet wrote it",
  git: "git checked out another commit since, and it changed",
  repository: "it is in a repository that was put there since",
  owner: "FILE belongs to another user",
  writable: "FILE can be written to by other users (chmod go-w)",
  link: "FILE is a symlink",
  special: "FILE is not a plain file",
  nested: "FILE is a git repository of its own",
  unreadable: "FILE",
};

/** What was added is what was agreed to then, to the last byte: another is not even read out until somebody has looked at it. */
export const lockPolicy: Policy = (skill, host) => {
  const state = host.trust?.lockStateOf(skill);
  if (state?.is === "unknown") {
    const { code, message, fix = "" } = state.problem;
    return { code, kind: "access", message: `Skill '${skill.name}' is not used: ${message}`, fix };
  }
  if (state?.is !== "changed") return undefined;
  // A model may read it: names of files that nobody has looked at are no part of it.
  return {
    code: "changed",
    kind: "access",
    message: `Skill '${skill.name}' is not what was added: ${formatCount(state.drift.length, "file")} of it changed since`,
    fix: `look at the difference, then agree to it or not: skillet trust ${quoteIfNeeded(skill.name)}`,
  };
};

/** The same with the home folder as `~`, which a shell understands only outside of quotes. */
function quoteHomePath(path: string, host: Host): string {
  const short = shortenHomePath(path, host);
  return quoteIfNeeded(short) === short ? short : quoteIfNeeded(path);
}

/** What is configured for a name goes to the copy that the user gave it to, and to no other that takes its name. */
export const secretPolicy: Policy = denyForeignSecrets;

function denyForeignSecrets(skill: Skill, host: Host): Denial | undefined {
  const { grants } = host;
  if (!grants || !hasConfiguredAccess(skill, host)) return undefined;
  const problem = grants.problem();
  if (problem !== undefined) {
    return {
      code: "grants-unreadable",
      kind: "setup",
      message: `Skill '${skill.name}' is not given its values: ${problem}`,
      fix: "fix the file, or remove it: then the next run asks which copy gets its values",
    };
  }
  const owner = grants.ownerOf(skill.name);
  if (!owner)
    return needsSecretGrant(skill) && hasAccessInSettings(skill, host) ? denyUnassigned(skill, host) : undefined;
  return grants.isOwner(skill, owner) ? undefined : denyOtherSource(skill, owner, host);
}

/** Checks again, right before values are handed over, that they were given to this copy. Throws a SkillError when they were not. */
export function requireSecretOwner(skill: Skill, host: Host): void {
  const denial = denyForeignSecrets(skill, host);
  if (denial) throw new SkillError(denial.code, denial);
}

/** Whether the configuration gives this name what not every skill has: values, capabilities, a network, a workspace, commands in its instructions. */
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

/** The same for what the settings themselves give: what a program gives in code is its own decision. */
function hasAccessInSettings(skill: Skill, host: Host): boolean {
  const { capabilities = [], provider } = host.settings.skills.get(skill.name) ?? {};
  const isProvided = provider !== undefined && provider.enabled !== false;
  const asksForSome = skill.manifest.capabilities.length > 0 && (capabilities.length > 0 || isProvided);
  return asksForSome || hasConfiguredAccess(skill, { ...host, capabilities: undefined });
}

/** The variables that a skill declares and that have values, by their names. */
export function listConfiguredVariables(skill: Skill, { settings }: Pick<Host, "settings">): string[] {
  const values = settings.skills.get(skill.name)?.variables;
  return values ? listDeclaredVariables(skill).filter((name) => values.get(name)) : [];
}

/** What is configured for a skill, in words: `KEY, notes.read`, or the table. */
export function formatConfiguredAccess(skill: Skill, host: Host): string {
  const capabilities = skill.manifest.capabilities.filter((id) => host.capabilities?.isGranted(id, skill));
  return (
    [...listConfiguredVariables(skill, host), ...capabilities].join(", ") || `what ${formatSkillTable(skill)} gives it`
  );
}

function denyUnassigned(skill: Skill, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const place = folder ?? file;
  const from = `${source}${place === undefined ? "" : ` (${shortenHomePath(place, host)})`}`;
  return {
    code: "secret-not-given",
    kind: "setup",
    message: `What config.toml has for skill '${skill.name}' (${formatConfiguredAccess(skill, host)}) was not given to a copy of it yet, and this is the one from ${from}`,
    fix: `look at it, then run: skillet trust --secrets ${quoteIfNeeded(skill.name)}`,
  };
}

function denyOtherSource(skill: Skill, owner: SecretOwner, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const place = folder ?? file;
  const isThere = owner.place === place; // Another was put into its place since.
  const was = isThere ? owner.from : owner.place === "" ? undefined : shortenHomePath(owner.place, host);
  const from = `${owner.source}${was === undefined ? "" : ` (${was})`}`;
  const to = isThere ? "another source" : `${source}${place === undefined ? "" : ` (${shortenHomePath(place, host)})`}`;
  return {
    code: "secret-other-source",
    kind: "setup",
    message: `What config.toml has for skill '${skill.name}' was given to the one from ${from}, and this is the one from ${to}`,
    fix: `look at it, then run: skillet trust --secrets ${quoteIfNeeded(skill.name)}`,
  };
}
