import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
import { enabledPolicy } from "../agent/policy/skill-policies.ts";
import type { DiscoverResult } from "../config/discover.ts";
import { formatFix, type Problem, SkillError } from "../errors/problem.ts";
import {
  type ClientTarget,
  digestFolder,
  getNativeClient,
  isEditedCopy,
  NATIVE_CLIENTS,
  resolveClientTarget,
} from "../remote/clients/native-clients.ts";
import { type CopyRemoval, type CopyStep, prepareCopy } from "../remote/clients/skill-copies.ts";
import { type Skill, stopsLoading } from "../skill/skill.ts";
import { type Environment, formatHomePath } from "../skill/source/locations.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../store/copy-records.ts";
import { statIfExists } from "../util/file-access.ts";
import { compareText, findNearest, formatCount, quoteIfNeeded } from "../util/text.ts";
import { type CommonOptions, EXIT } from "./command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  type SafeText,
} from "./output.ts";

/** A recorded copy, with its location relative to this workspace. */
export interface LocatedCopy extends ClientCopy {
  folder: string;
  /** In the client's folder for all projects, in this workspace, in another one, or where no client looks any more. */
  where: "user" | "project" | "other-project" | "nowhere";
  /** The options that select this location in a command. */
  flags: string;
}

export type LocatedCopyState =
  | "up-to-date"
  | "outdated"
  | "edited"
  | "removed"
  | "original-missing"
  | "original-broken"
  | "original-disabled"
  | "original-not-listed";

interface CopyStateRow {
  isFine: boolean;
  /** Describes the state, and what to do about it. */
  describe(row: LocatedCopy, home: string): Pick<Problem, "message" | "fix" | "commands">;
}

export const COPY_STATES: Record<LocatedCopyState, CopyStateRow> = {
  "up-to-date": { isFine: true, describe: () => ({ message: "up to date", fix: "" }) },
  outdated: {
    isFine: false,
    describe: ({ skill, flags, where }) => ({
      message: "out of date",
      ...(where === "nowhere"
        ? { fix: "" }
        : { fix: "to update it", commands: [`skillet export --update ${quoteIfNeeded(skill)}${flags}`] }),
    }),
  },
  edited: { isFine: false, describe: () => ({ message: "changed by hand since", fix: "--force overwrites it" }) },
  removed: {
    isFine: false,
    describe: ({ skill, client, flags, where, folder }) => {
      const isReached = where === "user" || where === "project" || existsSync(findCopyWorkspace(folder, client) ?? "");
      const target = isReached && where !== "nowhere" ? ` --to ${client}${flags}` : "";
      const commands = [`skillet export --remove ${quoteIfNeeded(skill)}${target}`];
      return { message: "removed by hand", fix: "to remove the record", commands };
    },
  },
  "original-missing": {
    isFine: false,
    describe: () => ({ message: "its original is gone, so it counts as a separate skill", fix: "" }),
  },
  "original-broken": {
    isFine: false,
    describe: ({ original = "" }, home) => ({
      message: "its original did not load",
      fix: "to see why",
      commands: [`skillet check ${formatOriginalPath(original, home)}`],
    }),
  },
  "original-disabled": {
    isFine: false,
    describe: ({ skill, client, flags }) => ({
      message: `disabled here; ${getClientTitle(client)} still uses it`,
      fix: "to remove it",
      commands: [`skillet export --remove ${quoteIfNeeded(skill)}${flags}`],
    }),
  },
  "original-not-listed": {
    isFine: true,
    describe: () => ({
      message: "its original is not among the skills found here, so it counts as a separate skill",
      fix: "",
    }),
  },
};

/** Lists every recorded copy, sorted. `workspace` is the value of `-C`. */
export function listRecordedCopies(
  installs: ClientCopyStore,
  environment: Environment,
  workspace?: string,
): LocatedCopy[] {
  const here = workspace === undefined ? "" : ` -C ${quoteIfNeeded(workspace)}`;
  return (
    Object.entries(installs.entries())
      // Skips entries that skillet did not write: such a folder may be large.
      .filter(([folder, { skill }]) => isAbsolute(folder) && basename(folder) === skill)
      .map(([folder, copy]): LocatedCopy => {
        const row = { ...copy, folder };
        if (isInClientFolder(row, environment, false)) return { ...row, where: "user", flags: here };
        if (isInClientFolder(row, environment, true)) return { ...row, where: "project", flags: ` --project${here}` };
        const other = findCopyWorkspace(folder, copy.client);
        if (other === undefined) return { ...row, where: "nowhere", flags: "" };
        return { ...row, where: "other-project", flags: ` --project -C ${quoteIfNeeded(other)}` };
      })
      .sort((a, b) => compareText(a.client, b.client) || compareText(a.folder, b.folder))
  );
}

export async function readCopyState(row: LocatedCopy, found: DiscoverResult): Promise<LocatedCopyState> {
  if (!statIfExists(row.folder)?.isDirectory()) return "removed";
  if (isEditedCopy(row, digestFolder(row.folder))) return "edited";
  if (!hasOriginal(row)) return "original-missing";
  const skill = findOriginal(row, found);
  if (!skill) return isOriginalBroken(row, found) ? "original-broken" : "original-not-listed";
  if (!Object.hasOwn(NATIVE_CLIENTS, row.client)) return "original-not-listed";
  if (enabledPolicy(skill, found)) return "original-disabled";
  try {
    return (await prepareCopy(skill, getNativeClient(row.client))).content.digest === row.copy
      ? "up-to-date"
      : "outdated";
  } catch (error) {
    if (error instanceof SkillError) return "outdated";
    throw error;
  }
}

/** Returns the original of a copy if it is found here. */
export function findOriginal({ skill, source, original }: ClientCopy, { catalog }: DiscoverResult): Skill | undefined {
  return catalog
    .copies(skill)
    .find(({ origin }) => origin.source === source && (original === undefined || origin.file === original));
}

/** The location that a command searched for copies. */
interface CopySearch {
  home: string;
  isProject: boolean;
  /** The value of `--to`. */
  clients: readonly string[] | undefined;
}

/** Returns the error for a copy that is not at the searched location, with its location or the nearest name. */
export function createNoCopyError(name: string, rows: readonly LocatedCopy[], looked: CopySearch): SkillError {
  const own = rows.filter(({ skill }) => skill === name);
  const sameScope = own.filter(({ where }) => where === (looked.isProject ? "project" : "user"));
  const paths = (sameScope.length > 0 ? sameScope : own).map((row) => formatCopyLocation(row, looked));
  const meant = findNearest(name, new Set(rows.map(({ skill }) => skill)));
  const near =
    meant === undefined
      ? { fix: "list all copies", commands: ["skillet export --list"] }
      : { fix: `did you mean "${meant}"?` };
  return new SkillError("not-exported", {
    message: `No copy of '${name}' found`,
    ...(paths.length === 0 ? near : { fix: [...new Set(paths)].join("; ") }),
  });
}

export function getClientTitle(client: string): string {
  return Object.hasOwn(NATIVE_CLIENTS, client) ? getNativeClient(client).title : client;
}

function formatCopyLocation(
  { where, folder, client, flags }: LocatedCopy,
  { home, isProject, clients }: CopySearch,
): string {
  const path = dirname(folder);
  const workspace = where === "user" ? undefined : findCopyWorkspace(folder, client);
  const whose = where === "project" ? "this workspace" : formatHomePath(workspace ?? "", home);
  const location = workspace === undefined ? formatHomePath(path, home) : `${relative(workspace, path)} of ${whose}`;
  const isNamed = clients?.includes(client) ?? true;
  const hints = [
    ...(isNamed ? [] : [`add --to ${client}`]),
    ...(where === "user" && isProject ? ["omit --project"] : []),
    ...(where === "other-project" || (where === "project" && !isProject) ? [`add${flags}`] : []),
  ];
  return `it is in ${location}${hints.length === 0 ? "" : `: ${hints.join(", and ")}`}`;
}

function isInClientFolder(
  { client, folder }: Pick<LocatedCopy, "client" | "folder">,
  environment: Environment,
  isProject: boolean,
): boolean {
  try {
    return resolveClientTarget(client, { around: environment, isProject }).folder === dirname(folder);
  } catch {
    return false; // An unknown client, or an inaccessible folder.
  }
}

/** Returns the workspace that contains the copy, if there is one. */
function findCopyWorkspace(folder: string, client: string): string | undefined {
  if (!Object.hasOwn(NATIVE_CLIENTS, client)) return undefined;
  const below = getNativeClient(client).project({ home: "/", workspace: "/", env: {} });
  const path = dirname(folder);
  return path.endsWith(below) ? path.slice(0, -below.length) || "/" : undefined;
}

function isOriginalBroken({ original }: ClientCopy, { catalog }: DiscoverResult): boolean {
  return catalog.diagnostics.some((diagnostic) => stopsLoading(diagnostic) && diagnostic.file === original);
}

/** Quotes a path for a shell. `~` is not expanded within quotes. */
function formatOriginalPath(original: string, home: string): string {
  const path = basename(original) === "SKILL.md" ? dirname(original) : original;
  const short = formatHomePath(path, home);
  return quoteIfNeeded(short) === short ? short : quoteIfNeeded(path);
}

/** The changes made in one client's folder. */
export interface CopyOutcome {
  target: ClientTarget;
  steps: readonly (CopyStep | CopyRemoval | SkippedCopy)[];
  /** Set if nothing was changed. */
  error?: SkillError;
}

/** A copy that is not updated, with the reason. */
export interface SkippedCopy {
  name: string;
  action: "leave" | "refuse";
  reason: Problem;
}

interface PrintCopiesOptions extends CommonOptions {
  dryRun?: boolean;
}

type CopyAction = (CopyStep | CopyRemoval | SkippedCopy)["action"];

interface ActionLabels {
  mark: string;
  paint: "green" | "yellow" | "dim" | "red";
  /** Texts for a real run and for a dry run. */
  done: string;
  planned: string;
}

const ACTION_LABELS: Record<CopyAction, ActionLabels> = {
  install: { mark: "+", paint: "green", done: "exported", planned: "would be exported" },
  update: { mark: "~", paint: "yellow", done: "updated", planned: "would be updated" },
  unchanged: { mark: "=", paint: "dim", done: "unchanged", planned: "unchanged" },
  remove: { mark: "-", paint: "yellow", done: "removed", planned: "would be removed" },
  forget: { mark: "-", paint: "dim", done: "was gone already", planned: "is gone already" },
  leave: { mark: "=", paint: "dim", done: "not changed", planned: "not changed" },
  refuse: { mark: "✗", paint: "red", done: "refused", planned: "refused" },
};

const CHANGING_ACTIONS: ReadonlySet<CopyAction> = new Set(["install", "update", "remove"]);
const MAX_FILES = 20;

/** Prints the outcomes and returns the exit code. */
export function printCopyOutcomes(
  io: CommandIo,
  outcomes: readonly CopyOutcome[],
  options: PrintCopiesOptions,
): number {
  if (options.json) printJson(io.stdout, toCopyOutcomesJson(outcomes, options));
  const printedNotes = new Map<string, string>();
  for (const outcome of outcomes) {
    if (!options.json) printCopySteps(io, outcome, { ...options, printedNotes });
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
  /** Notes already printed for other clients. */
  printedNotes: Map<string, string>;
}

/** Writes all lines at once: a thousand writes take longer than the work they report. */
function printCopySteps(
  io: CommandIo,
  { target, steps }: CopyOutcome,
  { dryRun = false, printedNotes }: PrintStepsContext,
): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = createPrinter({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const { title } = target.client;
  const shown = steps.filter(({ action }) => action !== "refuse");
  const changed = shown.filter((step): step is CopyStep => "files" in step && CHANGING_ACTIONS.has(step.action));
  const { own, shared, asOf } = groupNotes(changed, title, printedNotes);
  const widest = Math.min(32, Math.max(0, ...shown.map(({ name }) => name.length)));
  const dim = (line: string): SafeText => out.dim(line);
  if (shown.length > 0) out.line`${out.bold(title)} ${out.dim(target.displayPath)}`;
  for (const step of shown) {
    const { mark, paint } = ACTION_LABELS[step.action];
    const before = out.text`  ${out[paint](mark)} ${out.bold(step.name.padEnd(widest))}  `;
    printHanging(out, before, [formatStep(step, dryRun)], { indent: widest + 6 });
    for (const note of own.get(step.name) ?? []) printHanging(out, "      ", [note], { indent: 6, paint: dim });
    if (CHANGING_ACTIONS.has(step.action) && step.reason?.code === "edited")
      out.line`      ${out.yellow(`it was changed by hand since: these changes ${dryRun ? "would be" : "are"} lost`)}`;
    if (dryRun && "files" in step && CHANGING_ACTIONS.has(step.action)) printStepFiles(out, step);
  }
  const rest = asOf === undefined ? [] : [`the notes on ${asOf} above apply to ${title} too`];
  for (const note of [...shared, ...rest])
    printHanging(out, out.text`  ${out.dim("·")} `, [note], { indent: 4, paint: dim });
  io.stdout.write(lines.join(""));
}

function formatStep(step: CopyOutcome["steps"][number], dryRun: boolean): string {
  const { done, planned } = ACTION_LABELS[step.action];
  if (step.action === "unchanged" && step.reason) return "already exported";
  if (step.action === "leave") return [step.reason.message, formatFix(step.reason)].filter(Boolean).join("; ");
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
    if (action === "refuse" && reason) printProblem(out, out.red("✗"), reason, workspace);
  if (error) printProblem(out, out.red("✗"), error);
  const byAction = Map.groupBy(steps, ({ action }) => action);
  if (json || error || steps.length === 0) return;
  const sums = [...byAction].map(
    ([action, { length }]) => `${length} ${ACTION_LABELS[action][dryRun ? "planned" : "done"]}`,
  );
  const { title, nextStep: next } = target.client;
  out.line`${byAction.has("refuse") ? out.yellow("!") : out.green("✓")} ${title}: ${sums.join(", ")}`;
  if (!dryRun && (byAction.has("install") || byAction.has("update")))
    printHanging(out, "  ", [`then ${next}`], { indent: 2 });
}

/** The notes on the copies for one client. */
interface GroupedNotes {
  /** Notes on a single skill, by its name. */
  own: ReadonlyMap<string, readonly string[]>;
  /** Notes on several skills, each with their names. */
  shared: readonly string[];
  /** The client for which the other notes were printed. */
  asOf?: string;
}

type NotedStep = Pick<CopyStep, "name" | "notes">;

/** Groups notes so that each is printed once for all skills and clients. `before` holds the notes printed so far. */
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
