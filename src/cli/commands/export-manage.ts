import { lstatSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import type { DiscoverResult } from "../../config/discover.ts";
import { getErrnoCode, type Problem, SkillError } from "../../errors/problem.ts";
import {
  type ClientTarget,
  type ClientTargetOptions,
  getNativeClient,
  listCopyNames,
  NATIVE_CLIENTS,
  resolveClientTarget,
} from "../../remote/clients/native-clients.ts";
import { checkCopyRecord, removeClientCopies } from "../../remote/clients/skill-copies.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import { type ClientCopyStore, createClientCopyStore } from "../../store/copy-records.ts";
import { mapAsync } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { compareText, findNearest } from "../../util/text.ts";
import {
  COPY_STATES,
  type CopyOutcome,
  createNoCopyError,
  findOriginal,
  getClientTitle,
  type LocatedCopy,
  type LocatedCopyState,
  listRecordedCopies,
  printCopyOutcomes,
  readCopyState,
  type SkippedCopy,
} from "../client-copies.ts";
import {
  type CommandContext,
  discoverForCommand,
  EXIT,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { createPrinter, type Printer, printHanging, printJson } from "../output.ts";
import { askForExportTrust, type CopyOptions, exportToClient, parseClientIds } from "./export.ts";

interface ListCopiesOptions {
  to?: string;
  project?: boolean;
}

/** Lists the copies that skillet exported, in every project. */
export async function listExportedCopies({ io, options, args }: CommandContext<ListCopiesOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  checkCopyRecord(found.installs);
  requireConfiguration(io, found);
  const clients = options.to === undefined ? [] : parseClientIds(options.to, "name one: --to claude");
  for (const id of clients) getNativeClient(id);
  const all = listRecordedCopies(found.installs, found.around, options.workspace);
  const named = all
    .filter(({ client, skill }) => isNamed(client, clients) && isNamed(skill, args))
    .filter(({ where }) => !options.project || where === "project");
  const rows = await mapAsync(named, async (row) => ({ ...row, state: await readCopyState(row, found) }));
  if (options.json) printJson(io.stdout, toExportListJson(rows));
  else printListedCopies(createPrinter(io.stdout, io.env), rows, found.around.home);
  if (options.json) return EXIT.fine;
  const error = createPrinter(io.stderr, io.env);
  for (const name of args.filter((name) => !rows.some(({ skill }) => skill === name))) {
    const meant = findNearest(name, new Set(all.map(({ skill }) => skill)));
    error.line`no copy of '${name}'${formatSearchedPlaces(clients, options)}${meant && meant !== name ? `: did you mean "${meant}"?` : ""}`;
  }
  if (rows.length > 0 || args.length > 0) return EXIT.fine;
  if (all.length > 0)
    error.line`nothing${formatSearchedPlaces(clients, options)}: \`skillet export --list\` shows all copies`;
  else error.line`no copies yet: create one with \`skillet export NAME --to claude\``;
  return EXIT.fine;
}

interface ListedCopy extends LocatedCopy {
  state: LocatedCopyState;
}

/** Returns the value of `export --list --json`. */
function toExportListJson(rows: readonly ListedCopy[]) {
  return { installed: rows.map(toListedCopyJson) };
}

/** Returns the value of `export SKILL --list --json`. */
export async function collectExportedCopies(found: DiscoverResult, skill: string) {
  const all = listRecordedCopies(found.installs, found.around, undefined).filter((row) => row.skill === skill);
  return toExportListJson(await mapAsync(all, async (row) => ({ ...row, state: await readCopyState(row, found) })));
}

function toListedCopyJson({ skill, client, source, original, copy, at, folder, state }: ListedCopy) {
  return { name: skill, client, source, ...omitUndefined({ file: original }), folder, digest: copy, at, state };
}

function printListedCopies(out: Printer, rows: readonly ListedCopy[], home: string): void {
  for (const [folder, copies] of Map.groupBy(rows, (row) => dirname(row.folder))) {
    const clients = new Set(copies.map(({ client }) => getClientTitle(client)));
    out.line`${out.bold([...clients].join(", "))} ${out.dim(formatHomePath(folder, home))}`;
    const widest = Math.min(32, Math.max(...copies.map(({ skill }) => skill.length)));
    for (const row of copies) {
      const { skill, source, state } = row;
      const { describe, isFine } = COPY_STATES[state];
      const before = out.text`  ${isFine ? out.green("✓") : out.yellow("!")} ${out.bold(skill.padEnd(widest))}  `;
      const { message, fix, commands = [] } = describe(row, home);
      const more = fix === "" ? "" : `; ${fix}${commands.length > 0 ? ":" : ""}`;
      printHanging(out, before, [`${message} (from ${source})${more}`], { indent: widest + 6, commands });
    }
  }
}

function isNamed(name: string, values: readonly string[]): boolean {
  return values.length === 0 || values.includes(name);
}

/** Formats the searched locations, if they were restricted. */
function formatSearchedPlaces(clients: readonly string[], { project }: ListCopiesOptions): string {
  const titles = clients.map(getClientTitle).join(", ");
  return `${titles === "" ? "" : ` in ${titles}`}${project ? " in this workspace" : ""}`;
}

/** Updates copies in clients' folders, and adds none. */
export async function updateExportedCopies({ io, options, args }: CommandContext<CopyOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  checkCopyRecord(found.installs);
  requireConfiguration(io, found);
  const { around: environment, installs } = found;
  const isProject = options.project ?? false;
  const clients = options.to === undefined ? undefined : parseClientIds(options.to, "name one: --to claude");
  for (const id of clients ?? []) getNativeClient(id);
  const all = listRecordedCopies(installs, environment, options.workspace);
  const there = all.filter(
    ({ client, where }) => where === (isProject ? "project" : "user") && (clients?.includes(client) ?? true),
  );
  const missing = args.find((name) => !there.some(({ skill }) => skill === name));
  if (missing !== undefined) throw createNoCopyError(missing, all, { home: environment.home, isProject, clients });
  const rows = there.filter(({ skill }) => args.length === 0 || args.includes(skill));
  if (rows.length === 0 && !options.json)
    createPrinter(io.stderr, io.env).line`no copies found: \`skillet export --list\` shows all`;
  const jobs = await mapAsync(
    Map.groupBy(rows, ({ client }) => client),
    async ([client, copies]) => {
      const judged = await mapAsync(copies, async (row) => ({
        row,
        state: await readCopyState(row, found),
        skill: findOriginal(row, found),
      }));
      const going = judged.flatMap(({ state, skill }) => (skill && UPDATABLE_STATES.has(state) ? [skill] : []));
      const left = judged.filter(({ state, skill }) => !skill || !UPDATABLE_STATES.has(state));
      return { target: resolveClientTarget(client, { around: environment, isProject }), skills: going, left };
    },
  );
  if (args.length > 0 && !options.dryRun) await askForExportTrust(io, found, jobs, options.force);
  const outcomes = await mapAsync(jobs, async (job): Promise<CopyOutcome> => {
    const outcome =
      job.skills.length === 0 ? { target: job.target, steps: [] } : await exportToClient(job, { io, options, found });
    const left = job.left.map(({ row, state }) => createSkippedCopy(row, state, environment.home));
    return { ...outcome, steps: [...outcome.steps, ...left].sort((a, b) => compareText(a.name, b.name)) };
  });
  return printCopyOutcomes(io, outcomes, options);
}

/** The states of copies that have an original to update from. */
const UPDATABLE_STATES: ReadonlySet<LocatedCopyState> = new Set(["up-to-date", "outdated", "edited"]);

function createSkippedCopy(row: LocatedCopy, state: LocatedCopyState, home: string): SkippedCopy {
  const reason: Problem = { code: state, ...COPY_STATES[state].describe(row, home) };
  if (state !== "original-broken") return { name: row.skill, action: "leave", reason };
  return {
    name: row.skill,
    action: "refuse",
    reason: { ...reason, message: `Skill '${row.skill}': ${reason.message}` },
  };
}

interface RemovalOptions {
  all?: boolean;
  to?: string;
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
}

/** Removes copies from the folders of clients: only those that skillet exported. */
export async function removeExportedCopies({ io, options, args }: CommandContext<RemovalOptions>): Promise<number> {
  const clients = options.to;
  if (args.length > 0 === (options.all ?? false)) {
    throw new SkillError("usage", {
      message: options.all ? "Names and --all cannot be combined" : "No skill was named",
      ...(options.all
        ? { fix: "use one of them" }
        : { fix: "name skills, or add --all; to see the copies", commands: ["skillet export --list"] }),
    });
  }
  const environment = resolveCommandEnvironment(io, options);
  const installs = createClientCopyStore(environment.skilletHome);
  checkCopyRecord(installs);
  const targets = resolveTargets(clients, { around: environment, isProject: options.project ?? false });
  const places = [
    ...targets.map((target): RemovalTarget => ({ target, installed: new Set(listCopyNames(target, installs)) })),
    ...(clients === undefined && !options.project
      ? findAbandonedCopies(installs, { targets, home: environment.home })
      : []),
  ];
  const outcomes = places.flatMap(({ target, installed }): CopyOutcome[] => {
    const names = options.all ? [...installed] : args.filter((name) => isRemovalTarget(name, target, places));
    if (names.length === 0) return [];
    try {
      const request = { target, installs, force: options.force, isDryRun: options.dryRun };
      return [{ target, steps: removeClientCopies({ ...request, names: [...new Set(names)] }) }];
    } catch (error) {
      if (error instanceof SkillError) return [{ target, steps: [], error }];
      throw error;
    }
  });
  const missing = args.find(
    (name) => !outcomes.some(({ steps, error }) => error || steps.some((step) => step.name === name)),
  );
  if (missing !== undefined) {
    throw createNoCopyError(missing, listRecordedCopies(installs, environment, options.workspace), {
      home: environment.home,
      isProject: options.project ?? false,
      clients: clients === undefined ? undefined : targets.map(({ id }) => id),
    });
  }
  if (outcomes.length === 0 && !options.json) {
    const out = createPrinter(io.stderr, io.env);
    out.line`no copies found: \`skillet export --list\` shows all`;
  }
  return printCopyOutcomes(io, outcomes, options);
}

interface RemovalTarget {
  target: ClientTarget;
  /** The names of the copies that skillet exported. */
  installed: ReadonlySet<string>;
}

/** Resolves the clients' folders, each once. Skips inaccessible ones unless they were named. */
function resolveTargets(clients: string | undefined, where: ClientTargetOptions): ClientTarget[] {
  const byFolder = new Map<string, ClientTarget>();
  const known = Object.keys(NATIVE_CLIENTS);
  for (const id of clients === undefined ? known : parseClientIds(clients, "name one: --to claude")) {
    try {
      const target = resolveClientTarget(id, where);
      if (!byFolder.has(target.folder)) byFolder.set(target.folder, target);
    } catch (error) {
      if (clients !== undefined || !(error instanceof SkillError)) throw error;
    }
  }
  return [...byFolder.values()];
}

/** Returns copies outside of all known client folders, such as of a deleted workspace, that no longer exist: only their record is removed. */
function findAbandonedCopies(
  installs: ClientCopyStore,
  { targets, home }: { targets: readonly ClientTarget[]; home: string },
): RemovalTarget[] {
  const known = new Set(targets.map(({ folder }) => folder));
  const gone = Object.entries(installs.entries()).filter(
    ([path, { skill }]) => isAbsolute(path) && basename(path) === skill && !known.has(dirname(path)) && isMissing(path),
  );
  return [...Map.groupBy(gone, ([path]) => dirname(path))].flatMap(([folder, entries]) => {
    const [id = ""] = entries.map(([, { client }]) => client);
    const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
    const installed = new Set(entries.map(([, { skill }]) => skill));
    return client ? [{ target: { id, client, folder, displayPath: formatHomePath(folder, home) }, installed }] : [];
  });
}

function isMissing(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch (error) {
    return getErrnoCode(error) === "ENOTDIR";
  }
}

/** Returns true if the copy is exported there; if it is exported nowhere, true if anything of that name exists there, so that it can be reported. */
function isRemovalTarget(name: string, { folder }: ClientTarget, places: readonly RemovalTarget[]): boolean {
  const own = places.filter(({ installed }) => installed.has(name));
  if (own.length > 0) return own.some(({ target }) => target.folder === folder);
  return isPlainName(name) && pathExists(join(folder, name));
}

function pathExists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // Not a folder, inaccessible, or an impossible name.
  }
}

function isPlainName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}
