import { basename, join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { NATIVE_CLIENTS } from "../../install/clients.ts";
import { remoteRefusal } from "../../install/conform.ts";
import { checkRecord, installCopies } from "../../install/copies.ts";
import type { Reason } from "../../install/plan.ts";
import { seenTwice } from "../../install/seen-twice.ts";
import { type Target, targetOf } from "../../install/target.ts";
import { firstDenial, unavailability } from "../../policy/policy.ts";
import { isTrusted } from "../../policy/trust.ts";
import { changed } from "../../run/changed.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { isFor, type Skill } from "../../skill/skill.ts";
import { copySkill } from "../../source/digest.ts";
import { discoverFor, requireConfiguration } from "../found.ts";
import { type Outcome, printOutcomes } from "../install/words.ts";
import { type Io, printer } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { openWaiting } from "../progress.ts";
import { wrapped } from "../wrap.ts";
import { explainMissing } from "./show.ts";
import { askForTrust } from "./trust.ts";

export interface InstallOptions {
  to?: string;
  update?: boolean;
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
  list?: boolean;
}

/** Puts copies of skills into the folders of clients. */
export async function install(context: Context<InstallOptions>): Promise<number> {
  const { io, options, args } = context;
  if (options.list) return (await import("./install-list.ts")).listInstalled(context);
  if (options.update) return (await import("./install-update.ts")).update(context);
  const ids = clientIds(options.to, NO_CLIENT);
  const found = await discoverFor(io, options);
  checkRecord(found.installs);
  requireConfiguration(io, found);
  const targets = ids.map((id) => targetOf(id, { around: found.around, isProject: options.project ?? false }));
  checkFolders(targets);
  const missing = args.find((name) => !found.catalog.has(name));
  if (missing !== undefined) {
    checkName(missing, ids, found);
    return explainMissing(io, found, missing);
  }
  const named = onlyOnce(args.map((name) => found.catalog.get(name)));
  const jobs = targets.map((target) => ({ target, skills: named.length > 0 ? named : usual(found, target) }));
  if (named.length > 0 && !options.dryRun) await askFor(io, found, jobs, options.force);
  const planned = new Set<string>();
  const outcomes = jobs.map((job) => installInto(job, { io, options, found, planned }));
  return printOutcomes(io, outcomes, options);
}

const NO_CLIENT =
  "name one, or several: --to claude,codex; or `skillet export --update` updates the copies that there are";

/** The clients that were named. Throws a SkillError when none was. */
export function clientIds(given: string | undefined, fix: string): string[] {
  const ids = new Set((given ?? "").split(",").flatMap((id) => id.trim() || []));
  if (ids.size > 0) return [...ids];
  throw new SkillError("usage", { message: "No client was named", fix });
}

/** What one of them is given would be taken back by the next. */
function checkFolders(targets: readonly Target[]): void {
  const byFolder = new Map<string, Target>();
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

/** No skill has this name: it may have been meant as something else. */
function checkName(name: string, ids: readonly string[], { catalog }: Discovered): void {
  if (Object.hasOwn(NATIVE_CLIENTS, name)) {
    throw new SkillError("usage", {
      message: `"${name}" is a client, and no skill`,
      fix: `clients go into one list: --to ${[...new Set([...ids, name])].join(",")}`,
    });
  }
  const [path = ""] = name.split("@");
  if (!/[/\\]/.test(path)) return;
  const own = basename(path);
  throw new SkillError("usage", {
    message: `"${name}" is a path: names are wanted`,
    fix: catalog.has(own) ? `say "${own}"` : "`skillet list` shows them",
  });
}

/** What is to be put into one folder. */
export interface Job {
  target: Target;
  skills: readonly Skill[];
}

interface Asked {
  io: Io;
  options: InstallOptions & CommonOptions;
  found: Discovered;
  /** Places of what this command puts elsewhere, or would. */
  planned?: Set<string>;
}

export function installInto({ target, skills }: Job, { io, options, found, planned = new Set() }: Asked): Outcome {
  const where = { around: found.around, isProject: options.project ?? false, planned };
  const waiting = openWaiting(io, `looking at ${count(skills.length, "skill")} for ${target.client.title}`);
  try {
    const steps = installCopies({
      target,
      installs: found.installs,
      skills,
      force: options.force,
      isDryRun: options.dryRun,
      refuses: (skill) => refusal(skill, found),
      onLooked: () => waiting.at(),
    });
    const noted = steps.map((step) =>
      step.action === "install" ? { ...step, notes: [...step.notes, ...seenTwice(step.name, target, where)] } : step,
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

/** Every skill that is there for a model, or in that folder already. What is there stays with its source, if that still has it. */
function usual(found: Discovered, { folder }: Target): Skill[] {
  const { catalog, installs } = found;
  const entries = installs.entries();
  return catalog
    .available((skill) => unavailability(skill, found))
    .flatMap((skill) => {
      const source = entries[join(folder, skill.name)]?.source;
      if (skill.origin.remote) return []; // A client reaches those at their server.
      if (source === undefined) return isFor("model", skill) ? [skill] : [];
      return catalog.copies(skill.name).find(({ origin }) => origin.source === source) ?? skill;
    });
}

/** What speaks against giving it to another program: it is switched off, or nobody has said yet that it may be followed. */
function refusal(skill: Skill, found: Discovered): Reason | undefined {
  const remote = remoteRefusal(skill);
  if (remote) return remote;
  const [denial] = [firstDenial(skill, found) ?? isTrusted(skill, found) ?? []].flat();
  if (denial || found.trust.standingOf(skill) !== "trusted") return denial;
  const unseen = skill.files().findings.find(({ code }) => code === "too-many-files" || code === "too-deep");
  if (unseen) {
    return {
      code: unseen.code,
      message: `Skill '${skill.name}' ${unseen.message}: what was not looked at was not trusted, and would be copied too`,
      fix: "keep what it does not need out of its folder",
    };
  }
  const changes = found.trust.changesOf(skill, copySkill(skill));
  return changes.length === 0 ? undefined : changed(skill, changes);
}

/** On a terminal those that wait for trust are asked about, if they would be given to a client then. */
export async function askFor(io: Io, found: Discovered, jobs: readonly Job[], force?: boolean): Promise<void> {
  if (!io.ask) return;
  const waiting = new Set<Skill>();
  const clients = new Set<string>();
  for (const { target, skills } of jobs) {
    const asking = skills.filter((skill) => found.trust.standingOf(skill) === "untrusted");
    const given = givenIfTrusted({ target, skills: asking }, found, force);
    for (const skill of given) waiting.add(skill);
    if (given.length > 0) clients.add(target.client.title);
  }
  if (waiting.size > 0) await askForTrust(io, found, [...waiting], question(io, [...waiting], [...clients]));
}

function givenIfTrusted({ target, skills }: Job, found: Discovered, force: boolean | undefined): Skill[] {
  try {
    const steps = installCopies({
      target,
      installs: found.installs,
      skills,
      force,
      isDryRun: true,
      refuses: (skill) => firstDenial(skill, found),
    });
    const idle = new Set(
      steps.flatMap(({ name, action, reason }) =>
        action === "refuse" || reason?.code === "already-there" ? name : [],
      ),
    );
    return skills.filter(({ name }) => !idle.has(name));
  } catch (error) {
    if (error instanceof SkillError) return []; // It is said when it is tried.
    throw error;
  }
}

function question(io: Io, skills: readonly Skill[], clients: readonly string[]): string {
  const [these, their] = skills.length === 1 ? ["this skill", "its"] : [`these ${skills.length} skills`, "their"];
  const given = `given to ${clients.join(" and ")}, which ${clients.length === 1 ? "runs" : "run"} ${their} code outside of skillet's sandbox`;
  // Trust is not for the client alone.
  const hasTools = skills.some(({ manifest }) => manifest.toolsets.length > 0);
  const tools = hasTools ? ` ${their} tools to run as you here, without a sandbox,` : "";
  const asked = `Trust ${these} to be followed,${tools} and to be ${given}?`;
  return wrapped(asked, printer(io.stderr, io.env).width - " [y/N] y".length).join("\n");
}

function onlyOnce(skills: readonly Skill[]): Skill[] {
  const byName = new Map<string, Skill>();
  for (const skill of skills) {
    const other = byName.get(skill.name);
    if (other && other !== skill) {
      throw new SkillError("usage", {
        message: `'${skill.name}' was named twice, from ${other.origin.source} and from ${skill.origin.source}`,
        fix: "a folder holds one skill of a name: name one of them",
      });
    }
    byName.set(skill.name, skill);
  }
  return [...byName.values()];
}
