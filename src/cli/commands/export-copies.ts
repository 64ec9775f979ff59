import { basename, join } from "node:path";
import { findFirstDenial, findUnavailability } from "../../agent/policy/skill-policies.ts";
import { describeTrustChange, trustPolicy } from "../../agent/policy/trust-policy.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { findRemoteRefusal } from "../../remote/clients/adapt-skill.ts";
import {
  type ClientTarget,
  findDuplicateListings,
  NATIVE_CLIENTS,
  resolveClientTarget,
} from "../../remote/clients/native-clients.ts";
import { checkCopyRecord, writeClientCopies } from "../../remote/clients/skill-copies.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { mapAsync } from "../../util/sequential.ts";
import { formatCount } from "../../util/text.ts";
import { type CopyOutcome, printCopyOutcomes } from "../client-copies.ts";
import type { CommandContext, CommonOptions } from "../command-definition.ts";
import { discoverForCommand, requireConfiguration } from "../command-host.ts";
import { wrapText } from "../format.ts";
import { type CommandIo, createPrinter } from "../output.ts";
import { createWaitIndicator } from "../progress.ts";
import { failMissingSkill } from "./show.ts";
import { askForTrust } from "./trust.ts";

export interface CopyOptions {
  to?: string;
  update?: boolean;
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
  list?: boolean;
}

/** Copies skills into the folders of clients. */
export async function exportSkillCopies(context: CommandContext<CopyOptions>): Promise<number> {
  const { io, options, args } = context;
  if (options.list) return (await import("./export-manage.ts")).listExportedCopies(context);
  if (options.update) return (await import("./export-manage.ts")).updateExportedCopies(context);
  const ids = parseClientIds(options.to, NO_CLIENT_FIX);
  const found = await discoverForCommand(io, options);
  checkCopyRecord(found.installs);
  requireConfiguration(io, found);
  const targets = ids.map((id) =>
    resolveClientTarget(id, { around: found.around, isProject: options.project ?? false }),
  );
  checkFolders(targets);
  const missing = args.find((name) => !found.catalog.has(name));
  if (missing !== undefined) {
    checkName(missing, ids, found);
    return failMissingSkill(io, found, missing);
  }
  const named = checkDistinctNames(args.map((name) => found.catalog.get(name)));
  const jobs = targets.map((target) => ({
    target,
    skills: named.length > 0 ? named : listDefaultSkills(found, target),
  }));
  if (named.length > 0 && !options.dryRun) await askForExportTrust(io, found, jobs, options.force);
  const planned = new Set<string>();
  const outcomes = await mapAsync(jobs, (job) => exportToClient(job, { io, options, found, planned }));
  return printCopyOutcomes(io, outcomes, options);
}

const NO_CLIENT_FIX = "name one or several: --to claude,codex; `skillet export --update` updates existing copies";

/** Parses the list of clients. Throws a SkillError if it is empty. */
export function parseClientIds(given: string | undefined, fix: string): string[] {
  const ids = new Set((given ?? "").split(",").flatMap((id) => id.trim() || []));
  if (ids.size > 0) return [...ids];
  throw new SkillError("usage", { message: "No client was named", fix });
}

/** Throws if two clients share a folder: each would undo the changes of the other. */
function checkFolders(targets: readonly ClientTarget[]): void {
  const byFolder = new Map<string, ClientTarget>();
  for (const target of targets) {
    const other = byFolder.get(target.folder);
    if (other) {
      throw new SkillError("usage", {
        message: `${other.id} and ${target.id} have the same folder here: ${target.folder}`,
        fix: "name one of them",
      });
    }
    byFolder.set(target.folder, target);
  }
}

/** Throws a specific error if an unknown skill name is a client or a path. */
function checkName(name: string, ids: readonly string[], { catalog }: DiscoverResult): void {
  if (Object.hasOwn(NATIVE_CLIENTS, name)) {
    throw new SkillError("usage", {
      message: `"${name}" is a client, not a skill`,
      fix: `clients go into one list: --to ${[...new Set([...ids, name])].join(",")}`,
    });
  }
  const [path = ""] = name.split("@");
  if (!/[/\\]/.test(path)) return;
  const own = basename(path);
  throw new SkillError("usage", {
    message: `"${name}" is a path, not the name of a skill`,
    fix: catalog.has(own) ? `use the name "${own}"` : "`skillet list` shows the names",
  });
}

/** The skills to copy into one folder. */
interface CopyJob {
  target: ClientTarget;
  skills: readonly Skill[];
}

interface CopyContext {
  io: CommandIo;
  options: CopyOptions & CommonOptions;
  found: DiscoverResult;
  /** Copies that this command writes, or would write, elsewhere. */
  planned?: Set<string>;
}

export async function exportToClient(
  { target, skills }: CopyJob,
  { io, options, found, planned = new Set() }: CopyContext,
): Promise<CopyOutcome> {
  const where = { around: found.around, isProject: options.project ?? false, planned };
  const waiting = createWaitIndicator(io, `checking ${formatCount(skills.length, "skill")} for ${target.client.title}`);
  try {
    const steps = await writeClientCopies({
      target,
      installs: found.installs,
      skills,
      force: options.force,
      isDryRun: options.dryRun,
      findRefusal: (skill) => findExportRefusal(skill, found),
      onChecked: () => waiting.at(),
    });
    const noted = steps.map((step) =>
      step.action === "install"
        ? { ...step, notes: [...step.notes, ...findDuplicateListings(step.name, target, where)] }
        : step,
    );
    for (const { action, name } of steps) if (action === "install") planned.add(join(target.folder, name));
    return { target, steps: noted };
  } catch (error) {
    if (error instanceof SkillError) return { target, steps: [], error };
    throw error;
  } finally {
    waiting.end();
  }
}

/** Returns every skill available to models or already exported there. Exported copies keep their source if it still exists. */
function listDefaultSkills(found: DiscoverResult, { folder }: ClientTarget): Skill[] {
  const { catalog, installs } = found;
  const entries = installs.entries();
  return catalog
    .available((skill) => findUnavailability(skill, found))
    .flatMap((skill) => {
      const source = entries[join(folder, skill.name)]?.source;
      if (skill.origin.remote) return []; // Clients use these through their server.
      if (source === undefined) return isInvocableBy("model", skill) ? [skill] : [];
      return catalog.copies(skill.name).find(({ origin }) => origin.source === source) ?? skill;
    });
}

/** Returns why a skill must not be given to another program: it is disabled or not trusted. */
async function findExportRefusal(skill: Skill, found: DiscoverResult): Promise<Problem | undefined> {
  const remote = findRemoteRefusal(skill);
  if (remote) return remote;
  const [denial] = [findFirstDenial(skill, found) ?? trustPolicy(skill, found) ?? []].flat();
  if (denial || found.trust.getStatus(skill) !== "trusted") return denial;
  const unseen = (await skill.files()).findings.find(({ code }) => code === "too-many-files" || code === "too-deep");
  if (unseen) {
    return {
      code: unseen.code,
      message: `Skill '${skill.name}' ${unseen.message}: files that were not checked are not trusted, and would be copied too`,
      fix: "remove unneeded files from its folder",
    };
  }
  const changes = found.trust.findChanges(skill, await copySkill(skill));
  return changes.length === 0 ? undefined : describeTrustChange(skill, changes);
}

/** Asks at a terminal for trust in the skills that would be exported. */
export async function askForExportTrust(
  io: CommandIo,
  found: DiscoverResult,
  jobs: readonly CopyJob[],
  force?: boolean,
): Promise<void> {
  if (!io.ask) return;
  const waiting = new Set<Skill>();
  const clients = new Set<string>();
  for (const { target, skills } of jobs) {
    const asking = skills.filter((skill) => found.trust.getStatus(skill) === "untrusted");
    const given = await listExportable({ target, skills: asking }, found, force);
    for (const skill of given) waiting.add(skill);
    if (given.length > 0) clients.add(target.client.title);
  }
  if (waiting.size > 0)
    await askForTrust(io, found, [...waiting], formatExportQuestion(io, [...waiting], [...clients]));
}

async function listExportable(
  { target, skills }: CopyJob,
  found: DiscoverResult,
  force: boolean | undefined,
): Promise<Skill[]> {
  try {
    const steps = await writeClientCopies({
      target,
      installs: found.installs,
      skills,
      force,
      isDryRun: true,
      findRefusal: (skill) => findFirstDenial(skill, found),
    });
    const idle = new Set(
      steps.flatMap(({ name, action, reason }) =>
        action === "refuse" || reason?.code === "already-present" ? name : [],
      ),
    );
    return skills.filter(({ name }) => !idle.has(name));
  } catch (error) {
    if (error instanceof SkillError) return []; // The export itself reports it.
    throw error;
  }
}

function formatExportQuestion(io: CommandIo, skills: readonly Skill[], clients: readonly string[]): string {
  const [these, their] = skills.length === 1 ? ["this skill", "its"] : [`these ${skills.length} skills`, "their"];
  const given = `copied to ${clients.join(" and ")}, which ${clients.length === 1 ? "runs" : "run"} ${their} code outside of skillet's sandbox`;
  // Trust is not limited to the client.
  const hasTools = skills.some(({ manifest }) => manifest.toolsets.length > 0);
  const tools = hasTools ? ` ${their} tools to run as you here, without a sandbox,` : "";
  const question = `Trust ${these} to be followed,${tools} and to be ${given}?`;
  return wrapText(question, createPrinter(io.stderr, io.env).width - " [y/N] y".length).join("\n");
}

function checkDistinctNames(skills: readonly Skill[]): Skill[] {
  const byName = new Map<string, Skill>();
  for (const skill of skills) {
    const other = byName.get(skill.name);
    if (other && other !== skill) {
      throw new SkillError("usage", {
        message: `'${skill.name}' was named twice: from ${other.origin.source} and from ${skill.origin.source}`,
        fix: "a folder can hold only one skill of a name: name one of them",
      });
    }
    byName.set(skill.name, skill);
  }
  return [...byName.values()];
}
