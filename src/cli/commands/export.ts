import { basename, join } from "node:path";
import { Option } from "commander";
import { findFirstDenial, findUnavailability } from "../../agent/policy/skill-policies.ts";
import { describeTrustChange, trustPolicy } from "../../agent/policy/trust-policy.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { findRemoteRefusal } from "../../remote/clients/adapt-skill.ts";
import {
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportResult,
  exportSkill,
  resolveExportPath,
} from "../../remote/clients/export-skill.ts";
import {
  type ClientTarget,
  findDuplicateListings,
  NATIVE_CLIENTS,
  resolveClientTarget,
} from "../../remote/clients/native-clients.ts";
import { checkCopyRecord, writeClientCopies } from "../../remote/clients/skill-copies.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { mapAsync } from "../../util/async.ts";
import { findNearest, formatCount, formatNumber, quoteIfNeeded } from "../../util/text.ts";
import { type CopyOutcome, printCopyOutcomes } from "../client-copies.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  EXPORT_TARGETS,
  FILE_TARGETS,
  formatExamples,
  printConfigurationWarnings,
  requireConfiguration,
} from "../command-context.ts";
import { wrapText } from "../format.ts";
import { type CommandIo, createPrinter, printHanging, printJson } from "../output.ts";
import { createWaitIndicator } from "../progress.ts";
import { failMissingSkill } from "./show.ts";
import { askForTrust } from "./trust.ts";

/** `skillet export`. */
export const exportCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Export skills as copies in clients' folders, zips or plugins")
      .argument("[skill...]", "Skills, or `name@source`. Defaults to every usable skill for clients.")
      .option("-t, --to <target,...>", `Export to these targets: ${EXPORT_TARGETS.join(", ")}. Defaults to zip.`)
      .option("--project", "Use the client's folder in this workspace instead of your own")
      .addOption(createModeOption("-l, --list", "List all copies with their state", ["update", "remove"]))
      .addOption(createModeOption("--update", "Update existing copies in all clients or those of --to", ["remove"]))
      .addOption(createModeOption("--remove", "Remove copies from all clients or those of --to", []))
      .option("--all", "With --remove: remove every copy")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("-o, --output <file>", "Write the zip or plugin to this path. Defaults to the current folder.")
      .option("--force", "Also replace or remove copies that were edited by hand")
      .addOption(createFormatOption().hideHelp())
      .addHelpText("after", "\nFiles that skillet did not write are never changed or removed.")
      .addHelpText(
        "after",
        formatExamples(
          "skillet export code-review --to claude",
          "skillet export --to codex,gemini --dry-run",
          "skillet export deploy --to agents --project",
          "skillet export deploy --to zip --output dist/",
          "skillet export --list",
          "skillet export --update",
          "skillet export --remove deploy --to codex",
        ),
      ),
  run: exportSkills,
};

function createModeOption(flags: string, description: string, others: string[]): Option {
  return new Option(flags, description).conflicts(others);
}

/** Creates the option that formerly selected a zip or a plugin. */
function createFormatOption(): Option {
  return new Option("-f, --format <format>", "Write this format").choices(Object.values(FILE_TARGETS)).conflicts("to");
}

interface ExportOptions extends CopyOptions {
  format?: ExportFormat;
  output?: string;
  remove?: boolean;
  all?: boolean;
}

/** Writes skills for other clients: copies in their folders, or files. */
export async function exportSkills(context: CommandContext<ExportOptions>): Promise<number> {
  const { options, args } = context;
  const names = (options.to ?? "").split(",").flatMap((name) => name.trim() || []);
  const mode = options.list ? "--list" : options.update ? "--update" : options.remove ? "--remove" : undefined;
  const isDefault = options.to === undefined && mode === undefined && !options.project && args.length > 0;
  const file =
    options.format ?? names.find((name) => Object.hasOwn(FILE_TARGETS, name)) ?? (isDefault ? "zip" : undefined);
  for (const name of names) checkTarget(name);
  checkOptions(options, { names, mode, file });
  if (options.remove) return (await import("./export-manage.ts")).removeExportedCopies(context);
  if (file !== undefined)
    return exportFiles(context, options.format ?? FILE_TARGETS[file as keyof typeof FILE_TARGETS]);
  return exportSkillCopies(context);
}

function checkTarget(name: string): void {
  if (EXPORT_TARGETS.includes(name)) return;
  const meant = findNearest(name, EXPORT_TARGETS);
  throw new SkillError("usage", {
    message: `Unknown target "${name}"`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}Targets: ${EXPORT_TARGETS.join(", ")}`,
  });
}

interface ExportRequest {
  names: readonly string[];
  mode: string | undefined;
  /** The file target, if there is one. */
  file: string | undefined;
}

function checkOptions({ all, remove, project, output }: ExportOptions, { names, mode, file }: ExportRequest): void {
  const wrong = (message: string, fix: string) => new SkillError("usage", { message, fix });
  if (file !== undefined && mode !== undefined)
    throw wrong(`${mode} applies to copies in clients' folders only`, "name clients with --to, or omit it");
  if (file !== undefined && names.length > 1)
    throw wrong(`${file} cannot be combined with other targets`, "run the command once for each of them");
  if (file !== undefined && project)
    throw wrong("--project applies to copies in clients' folders only", "omit --project");
  if (output !== undefined && file === undefined)
    throw wrong("--output applies to zip and plugin only", "copies go into the client's own folder: omit --output");
  if (all && !remove) throw wrong("--all needs --remove", "omit it: without names, every usable skill is exported");
}

/** Exports skills to files. No code of a skill runs, so trust is not needed. */
async function exportFiles(
  { io, options, args }: CommandContext<ExportOptions>,
  format: ExportFormat,
): Promise<number> {
  const { output, force = false, dryRun: isDryRun = false } = options;
  if (args.length === 0)
    throw new SkillError("usage", {
      message: "No skill was named",
      fix: "name one or several of this list",
      commands: ["skillet list"],
    });
  if (args.length > 1 && output !== undefined && !/[/\\]$/.test(output))
    throw new SkillError("usage", {
      message: `${args.length} skills cannot be written to ${output}`,
      fix: `name a folder: --output ${output}/`,
    });
  const found = await discoverForCommand(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const missing = args.find((name) => !found.catalog.find(name));
  if (missing !== undefined) return failMissingSkill(io, found, missing);
  const written = await mapAsync(args, async (name) => {
    const skill = found.catalog.get(name);
    const path = resolveExportPath(skill, format, { cwd: io.cwd, ...(output === undefined ? {} : { output }) });
    return { skill, exported: await exportSkill({ skill, format, path, isForced: force, isDryRun }) };
  });
  if (options.json) {
    printJson(io.stdout, {
      isDryRun,
      exported: written.map(({ skill, exported }) => toExportJson(skill, format, exported)),
    });
    return code;
  }
  for (const { exported } of written) {
    const shown = formatDisplayPath(exported.path, { ...found.around, workspace: io.cwd });
    const next = EXPORT_FORMATS[format].next(quoteIfNeeded(shown) === shown ? shown : quoteIfNeeded(exported.path));
    printExported(io, exported, { shown, next: isDryRun ? "nothing was written" : next, isDryRun });
  }
  return code;
}

function toExportJson(
  { name, origin }: Skill,
  format: ExportFormat,
  { path: location, ...written }: ExportResult,
): object {
  return { name, source: origin.source, format, location, ...written };
}

function printExported(
  io: CommandIo,
  { files, bytes, omitted, notes }: ExportResult,
  { shown, next, isDryRun }: { shown: string; next: string; isDryRun: boolean },
): void {
  const out = createPrinter(io.stdout, io.env);
  const size = `${formatCount(files.length, "file")}, ${formatNumber(bytes)} bytes`;
  out.line`${isDryRun ? out.dim("+") : out.green("✓")} ${shown} ${out.dim(size)}`;
  if (isDryRun) for (const file of files) out.line`  ${file}`;
  const error = createPrinter(io.stderr, io.env);
  for (const text of omitted)
    printHanging(error, error.text`${error.yellow("!")} `, [`left out: ${text}`], { indent: 2 });
  for (const note of notes) printHanging(error, error.text`${error.dim("·")} `, [note], { indent: 2 });
  error.line`  ${next}`;
}

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
export function parseClientIds(value: string | undefined, fix: string): string[] {
  const ids = new Set((value ?? "").split(",").flatMap((id) => id.trim() || []));
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
    ...(catalog.has(own)
      ? { fix: `use the name "${own}"` }
      : { fix: "use a name of this list", commands: ["skillet list"] }),
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
    const exportable = await listExportable({ target, skills: asking }, found, force);
    for (const skill of exportable) waiting.add(skill);
    if (exportable.length > 0) clients.add(target.client.title);
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
  const exported = `copied to ${clients.join(" and ")}, which ${clients.length === 1 ? "runs" : "run"} ${their} code outside of skillet's sandbox`;
  // Trust is not limited to the client.
  const hasTools = skills.some(({ manifest }) => manifest.toolsets.length > 0);
  const tools = hasTools ? ` ${their} tools to run as you here, without a sandbox,` : "";
  const question = `Trust ${these} to be followed,${tools} and to be ${exported}?`;
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
