import { existsSync, lstatSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import {
  formatOwnRefusal,
  formatSkillTable,
  hasConfiguredAccess,
  listConfiguredVariables,
} from "../../agent/policy/trust-policy.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { getSkillStoreFolder, storeSkillCopy } from "../../sandbox/sandbox-folders.ts";
import { listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { findProjectRoot, formatDisplayPath } from "../../skill/source/locations.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { getSkillLocation, type SecretOwner } from "../../store/trust.ts";
import { mapAsync } from "../../util/async.ts";
import { checkFileOwner } from "../../util/file-access.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { getUserHome } from "../../util/system.ts";
import { findNearest, formatCount, truncateLine } from "../../util/text.ts";
import {
  type CommandHost,
  type CommonOptions,
  createNotApprovedError,
  EXIT,
  formatSkillsFolder,
} from "../command-context.ts";
import { formatSomeNames } from "../format.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printHanging, printJson } from "../output.ts";

interface TrustTextOptions extends CommonOptions {
  /** The workspace. Defaults to the repository of the current one. */
  folder: string | undefined;
  revoke?: boolean;
  yes?: boolean;
}

/** Approves, or revokes the approval, that models read the skills of a workspace. */
export async function trustWorkspaceText(
  io: CommandIo,
  found: DiscoverResult,
  options: TrustTextOptions,
): Promise<number> {
  const folder = resolveTextFolder(io, found, options.folder);
  return options.revoke
    ? revokeWorkspaceText(io, found, folder, options)
    : approveWorkspaceText(io, found, folder, options);
}

function resolveTextFolder(io: CommandIo, { around: environment }: DiscoverResult, value: string | undefined): string {
  const path = value === undefined ? environment.workspace : resolve(io.cwd, value);
  if (!existsSync(path)) {
    throw new SkillError("not-found", {
      message: `No such folder: ${formatSkillsFolder(path, environment)}`,
      fix: "name the folder of a workspace, or run this in it",
    });
  }
  const real = realpathSync(path);
  if (real !== realpathSync(environment.workspace)) return real;
  const root = findProjectRoot(real);
  return containsHome(io, root) ? real : root; // A home folder can be a repository itself.
}

function containsHome(io: CommandIo, folder: string): boolean {
  return isInside(folder, resolveRealPath(getUserHome(io.env)));
}

async function approveWorkspaceText(
  io: CommandIo,
  found: DiscoverResult,
  folder: string,
  options: TrustTextOptions,
): Promise<number> {
  const { catalog, trust, around: environment } = found;
  const skills = [...catalog.skills, ...catalog.shadowed].filter(
    (skill) => skill.origin.scope === "workspace" && isInside(folder, getSkillLocation(skill)),
  );
  const where = formatDisplayPath(folder, environment);
  if (containsHome(io, folder)) {
    throw new SkillError("workspace-too-wide", {
      message: `${where} contains your home folder, so this would approve every workspace in it`,
      fix: "name the folder of one workspace",
    });
  }
  if (skills.length === 0) {
    throw new SkillError("not-found", {
      message: `No workspace skill was found in ${where}`,
      fix: "list the skills with their sources",
      commands: ["skillet list"],
    });
  }
  const isAsking = io.ask !== undefined && !options.yes;
  if (!options.json || isAsking)
    printWorkspaceTexts(createPrinter(options.json ? io.stderr : io.stdout, io.env), skills, where);
  if (!options.yes && !(await isConfirmed(io, `Let models read the skills in ${where}, also those added later?`)))
    throw createNotApprovedError(io, "not approved", "review the skills (skillet show NAME), then add --yes");
  trust.text.approve(folder);
  const names = skills.map(({ name }) => name);
  if (options.json) printJson(io.stdout, { approved: folder, skills: names });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} models may read ${formatCount(skills.length, "skill")} of ${where}`;
    out.line`  their code still needs trust in each skill; to revoke this: ${out.cyan(`skillet trust --text --revoke ${where}`)}`;
  }
  return EXIT.fine;
}

const MAX_SHOWN = 40;

function printWorkspaceTexts(out: Printer, skills: readonly Skill[], where: string): void {
  out.line`${formatCount(skills.length, "skill")} of ${where}:`;
  for (const { name, description } of skills.slice(0, MAX_SHOWN))
    out.line`  ${out.bold(name)}  ${out.dim(truncateLine(description, Math.max(20, out.width - name.length - 5)))}`;
  const more = skills.length - MAX_SHOWN;
  if (more > 0) out.line`  ${out.dim(`… and ${more} more: skillet list`)}`;
}

function revokeWorkspaceText(
  io: CommandIo,
  { trust, around: environment }: DiscoverResult,
  folder: string,
  { json }: Pick<TrustTextOptions, "json">,
): number {
  const revoked = trust.text.revoke(folder);
  if (revoked.length === 0) {
    throw new SkillError("not-found", {
      message: `The text of ${formatDisplayPath(folder, environment)} has not been approved`,
      fix: "list what is approved",
      commands: ["skillet trust --list"],
    });
  }
  if (json) printJson(io.stdout, { revoked });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const one of revoked)
      out.line`${out.green("✓")} models no longer read the skills of ${formatDisplayPath(one, environment)}`;
  }
  return EXIT.fine;
}

interface TrustOwnOptions extends CommonOptions {
  folder: string;
  revoke?: boolean;
  yes?: boolean;
}

/** Records, or removes the record, that the user writes the skills of a folder: the user's edits keep the trust. */
export async function trustOwnFolder(io: CommandIo, found: DiscoverResult, options: TrustOwnOptions): Promise<number> {
  return options.revoke ? revokeOwnFolder(io, found, options) : approveOwnFolder(io, found, options);
}

const OWN_FOLDER_LIMITS = [
  "Your edits keep the trust in a skill there. A change by a run, a chat, an MCP call, an update of skillet or git (HEAD moves) ends it for that skill.",
  "This does not protect against other programs that run as you: their changes there count as your edits.",
];

async function approveOwnFolder(io: CommandIo, found: DiscoverResult, options: TrustOwnOptions): Promise<number> {
  const { trust, around: environment, catalog, home } = found;
  const folder = checkOwnFolder(io, found, options.folder);
  const where = formatDisplayPath(folder, environment);
  const skills = [...new Set([...catalog.skills, ...catalog.shadowed])].filter(
    (skill) =>
      skill.origin.remote === undefined && getSkillLocation(skill) !== "" && isInside(folder, getSkillLocation(skill)),
  );
  const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
  const isAsking = io.ask !== undefined && !options.yes;
  if (!options.json || isAsking) {
    const names = skills.map(({ name }) => name);
    out.line`${out.bold(where)}  ${skills.length === 0 ? "no skills there yet" : `${formatCount(skills.length, "skill")}: ${formatSomeNames(names, 12)}`}`;
    for (const line of OWN_FOLDER_LIMITS) printHanging(out, "  ", [line], { indent: 2 });
  }
  if (!options.yes && !(await isConfirmed(io, `Trust the skills in ${where} and their code as your own work?`)))
    throw createNotApprovedError(io, "not trusted", "review the skills (skillet show NAME), then add --yes");
  trust.own.add(folder, skills.map(getSkillLocation));
  const recorded = await mapAsync(skills, async (skill) => ({
    name: skill.name,
    reason: await recordOwnFolder(skill, found),
  }));
  const uncovered = recorded.flatMap(({ name, reason }) => (reason === undefined ? [] : [{ name, reason }]));
  for (const skill of skills)
    if (!uncovered.some(({ name }) => name === skill.name))
      storeSkillCopy(await copySkill(skill), getSkillStoreFolder(home));
  if (options.json) {
    printJson(io.stdout, { mine: folder, skills: skills.map(({ name }) => name), uncovered });
  } else {
    out.line`${out.green("✓")} trusted as your own: ${where}`;
    for (const { name, reason } of uncovered)
      printHanging(out, out.text`  ${out.yellow("!")} `, [`${name} is not trusted yet: ${reason}`], { indent: 4 });
    out.line`  to revoke it: ${out.cyan(`skillet trust --mine --revoke ${where}`)}`;
  }
  return uncovered.length > 0 ? EXIT.findings : EXIT.fine;
}

/** Checks and records the trust of a skill. Returns the reason if it is not trusted. */
async function recordOwnFolder(skill: Skill, { trust }: DiscoverResult): Promise<string | undefined> {
  try {
    const state = trust.getStatus(skill);
    if (state === "own") return undefined;
    if (state === "changed") return "it does not match its lock file";
    const changes = trust.findChanges(skill, await copySkill(skill));
    const refusal = trust.findRefusal(skill);
    if (refusal) return formatOwnRefusal(refusal);
    return changes.length > 0 ? "it cannot be compared" : undefined;
  } catch (error) {
    if (error instanceof SkillError) return error.message;
    throw error;
  }
}

function checkOwnFolder(io: CommandIo, { around: environment, home }: DiscoverResult, value: string): string {
  const path = resolve(io.cwd, value);
  if (!existsSync(path) || !lstatSync(realpathSync(path)).isDirectory()) {
    throw new SkillError("not-found", {
      message: `No such folder: ${formatSkillsFolder(path, environment)}`,
      fix: "name the folder that you write skills in",
    });
  }
  const folder = realpathSync(path);
  const shown = formatDisplayPath(folder, environment);
  const wide = [getUserHome(io.env), home, environment.home].find((one) => isInside(folder, resolveRealPath(one)));
  if (wide !== undefined) {
    throw new SkillError("workspace-too-wide", {
      message: `${shown} contains your home folder, so this would trust files of any program`,
      fix: "name the folder that you write skills in",
    });
  }
  const reason = checkFileOwner(lstatSync(folder));
  if (reason !== undefined) {
    throw new SkillError("unsafe-permissions", {
      message: `${shown} ${reason === "owner" ? "belongs to another user" : "is writable by other users"}`,
      fix: reason === "owner" ? "name your own folder" : `chmod go-w ${shown}`,
    });
  }
  return folder;
}

function revokeOwnFolder(
  io: CommandIo,
  { trust, around: environment }: DiscoverResult,
  options: TrustOwnOptions,
): number {
  const path = resolve(io.cwd, options.folder);
  const folder = existsSync(path) ? realpathSync(path) : path;
  const revoked = trust.own.revoke(folder);
  if (revoked.length === 0) {
    throw new SkillError("not-found", {
      message: `${formatSkillsFolder(path, environment)} is not trusted as your own folder`,
      fix: "list the trusted folders",
      commands: ["skillet trust --list"],
    });
  }
  if (options.json) printJson(io.stdout, { revoked });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const one of revoked)
      out.line`${out.green("✓")} no longer trusted as your own: ${formatDisplayPath(one, environment)}`;
  }
  return EXIT.fine;
}

interface TrustSecretsOptions {
  secrets: string;
  yes?: boolean;
  json?: boolean;
}

/** Grants the values configured for a name to the copy that is found now. */
export async function grantSecrets(io: CommandIo, found: CommandHost, options: TrustSecretsOptions): Promise<number> {
  const { grants, around: environment } = found;
  const skill = findSecretsSkill(options.secrets, found);
  const variables = listConfiguredVariables(skill, found);
  const capabilities = skill.manifest.capabilities.filter((id) => found.capabilities.isGranted(id, skill));
  if (!hasConfiguredAccess(skill, found)) throw createNoValuesError(skill);
  const before = grants.getOwner(skill.name);
  const isNew = !before || !grants.isOwner(skill, before);
  const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
  const shown = ({ source, location }: SecretOwner) =>
    `${location === "" ? "" : `${formatDisplayPath(location, environment)} `}(from ${source})`;
  const { source, folder, file } = skill.origin;
  out.line`${out.bold(skill.name)}  ${[...variables, ...capabilities].join(", ") || `the values of ${formatSkillTable(skill)}`}`;
  if (before) out.line`  granted to ${shown(before)}`;
  if (isNew) out.line`  grant to   ${shown({ source, location: folder ?? file ?? "" })}`;
  if (isNew && !options.yes && !(await isConfirmed(io, "Grant this to this copy instead of the other one?"))) {
    throw createNotApprovedError(io, "nothing was granted", "review the skill, then add --yes");
  }
  if (isNew) grants.grant(skill);
  if (options.json)
    printJson(io.stdout, {
      name: skill.name,
      variables,
      capabilities,
      before: before ?? null,
      now: grants.getOwner(skill.name),
    });
  else out.line`${out.green("✓")} ${isNew ? "granted" : "already granted"}`;
  return EXIT.fine;
}

function findSecretsSkill(name: string, { catalog }: DiscoverResult): Skill {
  const skill = catalog.find(name);
  if (skill) return skill;
  const meant = findNearest(name, catalog.names());
  throw new SkillError("not-found", {
    message: `Skill '${name}' not found`,
    ...(meant === undefined
      ? { fix: "list the skills", commands: ["skillet list"] }
      : { fix: `did you mean ${meant}?` }),
  });
}

function createNoValuesError(skill: Skill): SkillError {
  const [name] = listDeclaredVariables(skill);
  return new SkillError("not-found", {
    message: `Skill '${skill.name}' ${name === undefined ? "declares no variables" : "has no values"}, so there is nothing to grant`,
    fix:
      name === undefined
        ? "a skill declares them under `env`"
        : `set ${name} under ${formatSkillTable(skill)} in config.toml`,
  });
}
