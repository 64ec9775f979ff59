import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
import { enabledPolicy } from "../agent/policy/skill-policies.ts";
import {
  type ClientTarget,
  digestFolder,
  getNativeClient,
  isEditedCopy,
  NATIVE_CLIENTS,
  resolveClientTarget,
} from "../clients/native-clients.ts";
import { type CopyProblem, type CopyRemoval, type CopyStep, prepareCopy } from "../clients/skill-copies.ts";
import type { DiscoverResult } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import { stopsLoading } from "../skill/diagnostics.ts";
import type { Skill } from "../skill/skill.ts";
import { type Environment, formatHomePath } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../store/copy-records.ts";
import { quoteIfNeeded } from "../util/shell-quote.ts";
import { compareText, findNearest, formatCount } from "../util/text.ts";
import { type CommonOptions, EXIT } from "./command-definition.ts";
import { addWorkspaceOption } from "./format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  type SafeText,
} from "./output.ts";

/** A copy that is written down, and where it is as seen from here. */
export interface LocatedCopy extends ClientCopy {
  folder: string;
  /** In the client's folder for all projects, in this workspace, in another, or where no client looks any more. */
  where: "user" | "project" | "other-project" | "nowhere";
  /** What names that place in a command. */
  flags: string;
}

export type LocatedCopyState =
  | "up-to-date"
  | "outdated"
  | "edited"
  | "removed"
  | "original-gone"
  | "original-broken"
  | "switched-off"
  | "elsewhere";

/** In words, and what to do. */
export const COPY_STATES: Record<LocatedCopyState, { said(row: LocatedCopy, home: string): string; isFine: boolean }> =
  {
    "up-to-date": { said: () => "up to date", isFine: true },
    outdated: {
      said: ({ skill, flags, where }) =>
        where === "nowhere"
          ? "out of date"
          : `out of date: \`skillet export --update ${skill}${flags}\` brings it up to date`,
      isFine: false,
    },
    edited: { said: () => "changed by hand since: it is kept unless you say --force", isFine: false },
    removed: {
      said: ({ skill, client, flags, where, folder }) => {
        const isReached =
          where === "user" || where === "project" || existsSync(findCopyWorkspace(folder, client) ?? "");
        return `removed by hand: \`skillet export --remove ${skill}${isReached && where !== "nowhere" ? ` --to ${client}${flags}` : ""}\` removes it from the list`;
      },
      isFine: false,
    },
    "original-gone": { said: () => "its original is gone, so it counts as a skill itself", isFine: false },
    "original-broken": {
      said: ({ original = "" }, home) =>
        `its original did not load: \`skillet check ${formatOriginalPath(original, home)}\` says why`,
      isFine: false,
    },
    "switched-off": {
      said: ({ skill, client, flags }) =>
        `switched off here; ${getClientTitle(client)} still uses it: \`skillet export --remove ${skill}${flags}\` removes it`,
      isFine: false,
    },
    elsewhere: {
      said: () => "its original is none of the skills found here, so it counts as one itself",
      isFine: true,
    },
  };

/** Every copy that is written down, in order. `workspace` is as it was given in the command. */
export function listRecordedCopies(installs: ClientCopyStore, around: Environment, workspace?: string): LocatedCopy[] {
  const here = workspace === undefined ? "" : ` -C ${quoteIfNeeded(workspace)}`;
  return (
    Object.entries(installs.entries())
      // What is written down of any other place is not what skillet writes, and may be large.
      .filter(([folder, { skill }]) => isAbsolute(folder) && basename(folder) === skill)
      .map(([folder, copy]): LocatedCopy => {
        const row = { ...copy, folder };
        if (isInClientFolder(row, around, false)) return { ...row, where: "user", flags: here };
        if (isInClientFolder(row, around, true)) return { ...row, where: "project", flags: ` --project${here}` };
        const other = findCopyWorkspace(folder, copy.client);
        if (other === undefined) return { ...row, where: "nowhere", flags: "" };
        return { ...row, where: "other-project", flags: ` --project -C ${quoteIfNeeded(other)}` };
      })
      .sort((a, b) => compareText(a.client, b.client) || compareText(a.folder, b.folder))
  );
}

export function readCopyState(row: LocatedCopy, found: DiscoverResult): LocatedCopyState {
  if (!statIfExists(row.folder)?.isDirectory()) return "removed";
  if (isEditedCopy(row, digestFolder(row.folder))) return "edited";
  if (!hasOriginal(row)) return "original-gone";
  const skill = findOriginal(row, found);
  if (!skill) return isOriginalBroken(row, found) ? "original-broken" : "elsewhere";
  if (!Object.hasOwn(NATIVE_CLIENTS, row.client)) return "elsewhere";
  if (enabledPolicy(skill, found)) return "switched-off";
  try {
    return prepareCopy(skill, getNativeClient(row.client)).content.digest === row.copy ? "up-to-date" : "outdated";
  } catch (error) {
    if (error instanceof SkillError) return "outdated";
    throw error;
  }
}

/** The skill that it was copied from, if it is found here. */
export function findOriginal({ skill, source, original }: ClientCopy, { catalog }: DiscoverResult): Skill | undefined {
  return catalog
    .copies(skill)
    .find(({ origin }) => origin.source === source && (original === undefined || origin.file === original));
}

/** Where a command looked for copies. */
interface CopySearch {
  home: string;
  isProject: boolean;
  /** The option that names clients, and what it named. */
  option: "--from" | "--to";
  clients: readonly string[] | undefined;
}

/** There is no copy of that name where the command looked: it is somewhere else, or another is near. */
export function createNoCopyError(name: string, rows: readonly LocatedCopy[], looked: CopySearch): SkillError {
  const own = rows.filter(({ skill }) => skill === name);
  const beside = own.filter(({ where }) => where === (looked.isProject ? "project" : "user"));
  const places = (beside.length > 0 ? beside : own).map((row) => formatCopyLocation(row, looked));
  const meant = findNearest(name, new Set(rows.map(({ skill }) => skill)));
  const near = meant === undefined ? "`skillet export --list` shows all copies" : `did you mean "${meant}"?`;
  return new SkillError("not-installed", {
    message: `No copy of '${name}' is there`,
    fix: places.length === 0 ? near : [...new Set(places)].join("; "),
  });
}

export function getClientTitle(client: string): string {
  return Object.hasOwn(NATIVE_CLIENTS, client) ? getNativeClient(client).title : client;
}

function formatCopyLocation(
  { where, folder, client, flags }: LocatedCopy,
  { home, isProject, option, clients }: CopySearch,
): string {
  const place = dirname(folder);
  const workspace = where === "user" ? undefined : findCopyWorkspace(folder, client);
  const whose = where === "project" ? "this workspace" : formatHomePath(workspace ?? "", home);
  const said = workspace === undefined ? formatHomePath(place, home) : `${relative(workspace, place)} of ${whose}`;
  const isNamed = clients?.includes(client) ?? true;
  const hints = [
    ...(isNamed ? [] : [`say ${option} ${client}`]),
    ...(where === "user" && isProject ? ["leave out --project"] : []),
    ...(where === "other-project" || (where === "project" && !isProject) ? [`add${flags}`] : []),
  ];
  return `it is in ${said}${hints.length === 0 ? "" : `: ${hints.join(", and ")}`}`;
}

function isInClientFolder(
  { client, folder }: Pick<LocatedCopy, "client" | "folder">,
  around: Environment,
  isProject: boolean,
): boolean {
  try {
    return resolveClientTarget(client, { around, isProject }).folder === dirname(folder);
  } catch {
    return false; // A client that is not known, or whose folder cannot be reached.
  }
}

/** The workspace whose copy it is, if it is one's. */
function findCopyWorkspace(folder: string, client: string): string | undefined {
  if (!Object.hasOwn(NATIVE_CLIENTS, client)) return undefined;
  const below = getNativeClient(client).project({ home: "/", workspace: "/", env: {} });
  const place = dirname(folder);
  return place.endsWith(below) ? place.slice(0, -below.length) || "/" : undefined;
}

function isOriginalBroken({ original }: ClientCopy, { catalog }: DiscoverResult): boolean {
  return catalog.diagnostics.some((diagnostic) => stopsLoading(diagnostic) && diagnostic.file === original);
}

/** As a shell takes it: `~` means nothing within quotes. */
function formatOriginalPath(original: string, home: string): string {
  const place = basename(original) === "SKILL.md" ? dirname(original) : original;
  const short = formatHomePath(place, home);
  return quoteIfNeeded(short) === short ? short : quoteIfNeeded(place);
}

/** What was done in one client's folder. */
export interface CopyOutcome {
  target: ClientTarget;
  steps: readonly (CopyStep | CopyRemoval | SkippedCopy)[];
  /** Why nothing was. */
  error?: SkillError;
}

/** A copy that is not brought up to date, and why. */
export interface SkippedCopy {
  name: string;
  action: "leave" | "refuse";
  reason: CopyProblem;
}

interface PrintCopiesOptions extends CommonOptions {
  dryRun?: boolean;
}

type CopyAction = (CopyStep | CopyRemoval | SkippedCopy)["action"];

interface ActionLabels {
  mark: string;
  paint: "green" | "yellow" | "dim" | "red";
  /** What was done, and what would be. */
  done: string;
  planned: string;
}

const ACTION_LABELS: Record<CopyAction, ActionLabels> = {
  install: { mark: "+", paint: "green", done: "exported", planned: "would be exported" },
  update: { mark: "~", paint: "yellow", done: "updated", planned: "would be updated" },
  unchanged: { mark: "=", paint: "dim", done: "unchanged", planned: "unchanged" },
  remove: { mark: "-", paint: "yellow", done: "removed", planned: "would be removed" },
  forget: { mark: "-", paint: "dim", done: "was gone already", planned: "is gone already" },
  leave: { mark: "=", paint: "dim", done: "left as it is", planned: "left as it is" },
  refuse: { mark: "✗", paint: "red", done: "refused", planned: "refused" },
};

const CHANGING_ACTIONS: ReadonlySet<CopyAction> = new Set(["install", "update", "remove"]);
const MAX_FILES = 20;

/** Tells what was done, and gives what the command ends with. */
export function printCopyOutcomes(
  io: CommandIo,
  outcomes: readonly CopyOutcome[],
  options: PrintCopiesOptions,
): number {
  if (options.json) printJson(io.stdout, toCopyOutcomesJson(outcomes, options));
  const said = new Map<string, string>();
  for (const outcome of outcomes) {
    if (!options.json) printCopySteps(io, outcome, { ...options, said });
    printCopySummary(io, outcome, options);
  }
  if (outcomes.some(({ error }) => error)) return EXIT.findings;
  return outcomes.some(({ steps }) => steps.some(({ action }) => action === "refuse")) ? EXIT.refused : EXIT.fine;
}

function toCopyOutcomesJson(outcomes: readonly CopyOutcome[], { dryRun = false }: PrintCopiesOptions): object {
  return {
    isDryRun: dryRun,
    clients: outcomes.map(({ target: { id, folder }, steps, error }) => ({
      client: id,
      folder,
      steps: steps.map((step) => ({ ...step, folder: join(folder, step.name) })),
      ...(error ? { error: { code: error.code, message: error.message, fix: error.fix } } : {}),
    })),
  };
}

interface PrintStepsContext extends PrintCopiesOptions {
  /** What was said of clients before. */
  said: Map<string, string>;
}

/** At once: a thousand writes take longer than what they tell of. */
function printCopySteps(
  io: CommandIo,
  { target, steps }: CopyOutcome,
  { dryRun = false, said }: PrintStepsContext,
): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = createPrinter({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const { title } = target.client;
  const shown = steps.filter(({ action }) => action !== "refuse");
  const changed = shown.filter((step): step is CopyStep => "files" in step && CHANGING_ACTIONS.has(step.action));
  const { own, shared, asOf } = groupNotes(changed, title, said);
  const widest = Math.min(32, Math.max(0, ...shown.map(({ name }) => name.length)));
  const dim = (line: string): SafeText => out.dim(line);
  if (shown.length > 0) out.line`${out.bold(title)} ${out.dim(target.shown)}`;
  for (const step of shown) {
    const { mark, paint } = ACTION_LABELS[step.action];
    const before = out.text`  ${out[paint](mark)} ${out.bold(step.name.padEnd(widest))}  `;
    printHanging(out, before, [formatStep(step, dryRun)], { indent: widest + 6 });
    for (const note of own.get(step.name) ?? []) printHanging(out, "      ", [note], { indent: 6, paint: dim });
    if (CHANGING_ACTIONS.has(step.action) && step.reason?.code === "edited")
      out.line`      ${out.yellow(`it was changed by hand since: these changes ${dryRun ? "would be" : "are"} lost`)}`;
    if (dryRun && "files" in step && CHANGING_ACTIONS.has(step.action)) printStepFiles(out, step);
  }
  const rest = asOf === undefined ? [] : [`what was said of ${asOf} above goes for ${title} too`];
  for (const note of [...shared, ...rest])
    printHanging(out, out.text`  ${out.dim("·")} `, [note], { indent: 4, paint: dim });
  io.stdout.write(lines.join(""));
}

function formatStep(step: CopyOutcome["steps"][number], dryRun: boolean): string {
  const { done, planned } = ACTION_LABELS[step.action];
  if (step.action === "unchanged" && step.reason) return "already there";
  if (step.action === "leave") return [step.reason.message, step.reason.fix].filter(Boolean).join(": ");
  const files =
    "files" in step && CHANGING_ACTIONS.has(step.action) ? `, ${formatCount(step.files.length, "file")}` : "";
  return `${dryRun ? planned : done}${files}`;
}

function printStepFiles(out: Printer, { files }: CopyStep): void {
  for (const file of files.slice(0, MAX_FILES)) out.line`      ${file}`;
  if (files.length > MAX_FILES) out.line`      ${out.dim(`and ${files.length - MAX_FILES} more: --json has all`)}`;
}

function printCopySummary(
  io: CommandIo,
  { target, steps, error }: CopyOutcome,
  { dryRun, workspace, json }: PrintCopiesOptions,
): void {
  const out = createPrinter(io.stderr, io.env);
  for (const { action, reason } of steps)
    if (action === "refuse" && reason)
      printProblem(out, out.red("✗"), reason.message, addWorkspaceOption(reason.fix, workspace));
  if (error) printProblem(out, out.red("✗"), error.message, error.fix ?? "");
  const said = Map.groupBy(steps, ({ action }) => action);
  if (json || error || steps.length === 0) return;
  const sums = [...said].map(
    ([action, { length }]) => `${length} ${ACTION_LABELS[action][dryRun ? "planned" : "done"]}`,
  );
  const { title, next } = target.client;
  out.line`${said.has("refuse") ? out.yellow("!") : out.green("✓")} ${title}: ${sums.join(", ")}`;
  if (!dryRun && (said.has("install") || said.has("update"))) printHanging(out, "  ", [`then ${next}`], { indent: 2 });
}

/** What is to be said of the copies for one client. */
interface GroupedNotes {
  /** Of one skill alone, by its name. */
  own: ReadonlyMap<string, readonly string[]>;
  /** Of several: once, with their names. */
  shared: readonly string[];
  /** The client of which the rest was said already. */
  asOf?: string;
}

type NotedStep = Pick<CopyStep, "name" | "notes">;

/** What is the same for many skills is said once, and what was said of another client is not said again: `before` remembers both. */
function groupNotes(steps: readonly NotedStep[], title: string, before: Map<string, string>): GroupedNotes {
  const byNote = new Map<string, string[]>();
  for (const { name, notes } of steps) for (const note of notes) byNote.set(note, [...(byNote.get(note) ?? []), name]);
  const own = new Map<string, string[]>();
  const shared: string[] = [];
  let asOf: string | undefined;
  for (const [note, names] of byNote) {
    const key = JSON.stringify([note.replaceAll(title, ""), names]);
    const [name = ""] = names;
    const other = before.get(key);
    if (other !== undefined) asOf = other;
    else if (names.length > 1) shared.push(`${formatNoteNames(names)}: ${note}`);
    else own.set(name, [...(own.get(name) ?? []), note]);
    if (other === undefined) before.set(key, title);
  }
  return { own, shared, ...(asOf === undefined ? {} : { asOf }) };
}

const MAX_NAMES = 6;

function formatNoteNames(names: readonly string[]): string {
  const rest = names.length - MAX_NAMES;
  return rest > 1 ? `${names.slice(0, MAX_NAMES).join(", ")} and ${rest} more` : names.join(", ");
}
