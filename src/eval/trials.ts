import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  cpSync,
  fdatasyncSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { useSkill } from "../agent/run/use-skill.ts";
import { type Catalog, loadCatalog } from "../catalog/catalog.ts";
import type { Host } from "../config/host.ts";
import { SkillError } from "../errors/problem.ts";
import type { Model } from "../host/model-contract.ts";
import { defineSkill } from "../skill/define-skill.ts";
import { createInlineSource, type Skill } from "../skill/skill.ts";
import { computeSkillDigest } from "../skill/source/skill-copy.ts";
import { claimOwnership, replaceFile } from "../store/locked-file.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { truncateLine } from "../util/text.ts";
import type { SpentCall } from "./eval-budget.ts";
import type { EvalCase } from "./eval-cases.ts";
import { type Grade, gradeTrial, runEvalCommand, type TrialOutcome } from "./graders.ts";

/** One way to do a task. */
export interface EvalArm {
  name: string;
  /** Changes when the arm may behave differently. */
  digest: string;
  /** Does the task. Contract: a failure of the agent is an outcome; it throws if the trial says nothing about the arm. */
  attempt(task: ArmTask): Promise<TrialOutcome>;
}

export interface ArmTask {
  case: EvalCase;
  workspace: string;
  /** A metered model. */
  model: Model;
  signal: AbortSignal;
  /** Counts a model call that an arm pays for itself. */
  onSpent(call: SpentCall): void;
}

export interface FinishedTrial extends Pick<TrialOutcome, "usage" | "dollars" | "ms" | "stop" | "problem"> {
  skill: string;
  case: string;
  arm: string;
  /** From 0. */
  trial: number;
  passed: boolean;
  grades: readonly Grade[];
  /** The beginning of the answer. */
  answer: string;
  /** True if an earlier evaluation ran it. */
  isCached?: true;
}

/** The name of the arm without the skill. */
export const BASELINE_ARM = "none";
const BASELINE_PROMPT = "Do the task of the user with your tools. Answer when it is done.";

/**
 * Creates the arm without a skill: the same agent, tools and limits, with instructions that only say to do the task.
 */
export async function createBaselineArm(host: Host): Promise<EvalArm> {
  const skill = defineSkill({
    name: "task",
    description: "Does a task without a skill.",
    instructions: BASELINE_PROMPT,
  });
  const catalog = await loadCatalog([createInlineSource([skill])]);
  return createSkillArm(BASELINE_ARM, { skill, catalog, host });
}

export interface SkillArmOptions {
  skill: Skill;
  /** The skills that this one may call. */
  catalog: Catalog;
  host: Host;
}

/** Creates an arm that follows a skill, as `skillet run` does. */
export async function createSkillArm(name: string, { skill, catalog, host }: SkillArmOptions): Promise<EvalArm> {
  return {
    name,
    digest: await (skill.origin.form === "code" ? skill.body().then(hashText) : computeSkillDigest(skill)),
    async attempt({ case: task, workspace, model, signal }) {
      const { prompt, context, limits } = task;
      const start = performance.now();
      const calls: { tool: string; input: string }[] = [];
      const run = useSkill(catalog, createTrialHost(host, { workspace, model }), {
        skill: skill.name,
        message: prompt,
        signal,
        ...omitUndefined({
          context,
          seconds: limits.seconds,
          tokens: limits.tokens,
          maxIterations: limits.iterations,
        }),
      });
      for await (const event of run)
        if (event.type === "tool-called") calls.push({ tool: event.tool, input: JSON.stringify(event.input) ?? "" });
      const result = await run;
      if (signal.aborted) throw new SkillError("run-cancelled", { message: "The evaluation was interrupted" });
      const stopped = result.refusals[0] ?? result.error;
      if (stopped && (result.stop === "refused" || OUTSIDE_CODES.has(stopped.code)))
        throw new SkillError(stopped.code, stopped);
      return {
        answer: result.answer ?? result.content,
        calls,
        usage: result.usage,
        ms: Math.round(performance.now() - start),
        stop: result.stop,
        ...omitUndefined({
          dollars: result.cost,
          problem: result.isError ? (result.error?.message ?? result.stop) : undefined,
        }),
      };
    },
  };
}

/**
 * Creates the host of one trial: every model alias is the metered model, the workspace is writable, and nothing is asked,
 * recorded or counted. Capabilities are not available: a trial must not change systems.
 */
export function createTrialHost(host: Host, { workspace, model }: { workspace: string; model: Model }): Host {
  const { approve: _, approvals: _a, runs: _r, statistics: _s, capabilities: _c, onEvent: _e, ...rest } = host;
  const skills = new Map(
    Array.from(host.settings.skills, ([name, { workspace: _workspace, ...one }]) => [name, one] as const),
  );
  const settings = {
    ...host.settings,
    skills,
    models: new Map(),
    sandbox: { ...host.settings.sandbox, workspace: "read-write" as const },
  };
  return { ...rest, settings, workspace, models: { default: model } };
}

/** Failures that say nothing about a skill: the model or the machine was not available. */
const OUTSIDE_CODES: ReadonlySet<string> = new Set([
  ...["eval-ceiling", "model-unreachable", "model-refused", "model-timeout", "model-broken"],
  ...["sandbox-unavailable", "system-error", "cost-limit", "price-missing"],
]);

export interface TrialOptions {
  skill: string;
  case: EvalCase;
  arm: EvalArm;
  trial: number;
  /** The folder that graders can read. */
  evalFolder: string;
  host: Host;
  model: Model;
  judge: Model | undefined;
  signal: AbortSignal;
  onSpent(call: SpentCall): void;
}

/** Does and grades one trial in a fresh workspace. Throws if the trial says nothing about the arm. */
export async function runTrial({ skill, case: one, arm, trial, ...options }: TrialOptions): Promise<FinishedTrial> {
  const { evalFolder, host, model, judge, signal, onSpent } = options;
  const root = mkdtempSync(join(tmpdir(), "skillet-eval-"));
  try {
    const workspace = createTrialWorkspace(root, one);
    const graders = join(root, "evals");
    if (usesCommands(one)) {
      cpSync(evalFolder, graders, { recursive: true, verbatimSymlinks: true });
      openToSandbox(graders, "read");
    }
    const place = { host: createTrialHost(host, { workspace, model }), evalFolder: graders, signal };
    if (one.setup !== undefined) {
      const { exitCode, stderr } = await runEvalCommand(one.setup, place);
      if (exitCode !== 0)
        throw new SkillError("eval-invalid", {
          message: `The setup of the case "${one.name}" ended with ${exitCode}: ${truncateLine(stderr.trim(), 300)}`,
          fix: "run its command by hand in a copy of the files of the case",
        });
    }
    const outcome = await arm.attempt({ case: one, workspace, model, signal, onSpent });
    const grades = await gradeTrial(one.graders, { ...place, outcome, prompt: one.prompt, workspace, judge });
    const { usage, ms, stop, dollars, problem } = outcome;
    return {
      ...{ skill, case: one.name, arm: arm.name, trial, usage, ms, stop, grades },
      passed: grades.every(({ passed }) => passed),
      answer: outcome.answer.slice(0, MAX_KEPT_ANSWER),
      ...omitUndefined({ dollars, problem }),
    };
  } finally {
    await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** Commands of a case read the folder of the case file. */
function usesCommands({ setup, graders }: EvalCase): boolean {
  return setup !== undefined || graders.some(({ kind }) => kind === "command");
}

const MAX_KEPT_ANSWER = 2000;

/** Creates the workspace of a trial below `root`. Code in a sandbox may not be root: it gets access to the copies. */
export function createTrialWorkspace(
  root: string,
  { folder, copies, files }: Pick<EvalCase, "folder" | "copies" | "files">,
): string {
  const workspace = join(root, "workspace");
  mkdirSync(workspace);
  // Links are copied as they are: the sandbox does not follow them out of the workspace.
  if (folder !== undefined) cpSync(folder, workspace, { recursive: true, verbatimSymlinks: true });
  for (const [path, from] of Object.entries(copies)) {
    createFolder(dirname(resolveInside(workspace, path)));
    cpSync(from, resolveInside(workspace, path), { recursive: true, verbatimSymlinks: true });
  }
  for (const [path, content] of Object.entries(files)) {
    createFolder(dirname(resolveInside(workspace, path)));
    writeFileSync(resolveInside(workspace, path), content);
  }
  chmodSync(root, 0o711);
  openToSandbox(workspace, "write");
  return workspace;
}

function resolveInside(root: string, path: string): string {
  const whole = resolve(root, path);
  if (whole !== root && isInside(root, whole)) return whole;
  throw new SkillError("eval-invalid", {
    message: `The path "${path}" of a case is outside the workspace`,
    fix: "use a relative path",
  });
}

/** Lets other users use a folder if the caller is root: code of a sandbox never runs as root. */
function openToSandbox(folder: string, access: "read" | "write"): void {
  if (process.getuid?.() !== 0) return;
  const more = access === "write" ? 0o666 : 0o444;
  const visit = (path: string) => {
    const stats = lstatSync(path);
    if (stats.isSymbolicLink()) return;
    const isFolder = stats.isDirectory();
    chmodSync(path, (stats.mode & 0o777) | more | (isFolder || (stats.mode & 0o100) !== 0 ? 0o111 : 0));
    if (isFolder) for (const name of readdirSync(path)) visit(join(path, name));
  };
  visit(folder);
}

/** Computes the digest of a case: everything that decides its outcome, except the arm and the model. */
export function computeCaseDigest({ folder, copies, ...rest }: EvalCase, evalFolder: string): string {
  const listed = [...(folder === undefined ? [] : [["", folder] as const]), ...Object.entries(copies)];
  if (usesCommands({ ...rest, copies })) listed.push(["evals", evalFolder]);
  return hashText(JSON.stringify([rest, listed.map(([to, from]) => [to, hashTree(from)])]));
}

function hashTree(root: string): string {
  const hash = createHash("sha256");
  const visit = (path: string) => {
    const stats = lstatSync(path);
    if (stats.isDirectory()) for (const name of readdirSync(path).sort()) visit(join(path, name));
    else {
      const content = stats.isFile() ? readFileSync(path) : stats.isSymbolicLink() ? readlinkSync(path) : "";
      hash.update(`${relative(root, path)}\0${stats.mode & 0o111}\0${hashText(content)}\n`);
    }
  };
  visit(root);
  return hash.digest("hex");
}

export function hashText(text: string | Buffer): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The record of an evaluation in progress. It survives the end of the process. */
export interface TrialJournal {
  /** The id of the evaluation, and of its report. */
  readonly id: string;
  /** The trials that earlier processes finished. */
  readonly trials: readonly FinishedTrial[];
  /** The calls that earlier processes paid for, also for trials that did not finish. */
  readonly calls: readonly SpentCall[];
  addCall(call: SpentCall): void;
  addTrial(trial: FinishedTrial): void;
  /** Marks the evaluation as complete: it is not resumed any more. */
  end(): void;
  close(): void;
}

interface JournalHead {
  type: "suite";
  version: 1;
  digest: string;
}

type TrialLine =
  | JournalHead
  | { type: "call"; call: SpentCall }
  | { type: "trial"; trial: FinishedTrial }
  | { type: "end" };

const JOURNAL_ENDING = ".trials.jsonl";

/** Starts the record of an evaluation in `~/.skillet/evals`. */
export function createTrialJournal(skilletHome: string, id: string, digest: string): TrialJournal {
  const folder = join(skilletHome, "evals");
  createFolder(folder, 0o700);
  return openTrialJournal(folder, id, { lines: [], size: 0 }, { type: "suite", version: 1, digest });
}

/** Opens the newest unfinished record of the same plan, or returns undefined. Throws a SkillError if another process runs it. */
export function resumeTrialJournal(skilletHome: string, digest: string): TrialJournal | undefined {
  const folder = join(skilletHome, "evals");
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => name.endsWith(JOURNAL_ENDING));
  } catch {
    return undefined; // Nothing was evaluated yet.
  }
  for (const name of names.sort().reverse()) {
    const read = readTrialLines(join(folder, name));
    const [head] = read.lines;
    if (head?.type !== "suite" || head.digest !== digest || read.lines.some(({ type }) => type === "end")) continue;
    return openTrialJournal(folder, name.slice(0, -JOURNAL_ENDING.length), read);
  }
  return undefined;
}

interface ReadJournal {
  lines: TrialLine[];
  /** The bytes of the whole lines: a killed process may have left half a line. */
  size: number;
}

function readTrialLines(file: string): ReadJournal {
  const lines: TrialLine[] = [];
  let size = 0;
  try {
    const text = readRegularText(file);
    for (const line of text.split("\n").slice(0, -1)) {
      const read: unknown = JSON.parse(line);
      if (!isJsonObject(read)) break;
      lines.push(read as unknown as TrialLine);
      size += Buffer.byteLength(line) + 1;
    }
  } catch {} // What was read so far is valid.
  return { lines, size };
}

function openTrialJournal(folder: string, id: string, { lines, size }: ReadJournal, head?: JournalHead): TrialJournal {
  const owner = claimOwnership(join(folder, `${id}.owner`));
  if ("held" in owner) {
    throw new SkillError("eval-running", {
      message: `The evaluation ${id} is run by process ${owner.held.pid} on ${owner.held.host}`,
      fix: "wait for it, or end it and resume again",
    });
  }
  const fd = openSync(join(folder, `${id}${JOURNAL_ENDING}`), "a", 0o600);
  ftruncateSync(fd, size);
  const append = (line: TrialLine) => {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    fdatasyncSync(fd);
  };
  if (head) append(head);
  return {
    id,
    trials: lines.flatMap((line) => (line.type === "trial" ? line.trial : [])),
    calls: lines.flatMap((line) => (line.type === "call" ? line.call : [])),
    addCall: (call) => append({ type: "call", call }),
    addTrial: (trial) => append({ type: "trial", trial }),
    end: () => append({ type: "end" }),
    close() {
      closeSync(fd);
      owner.release();
    },
  };
}

/** Reads a trial of an earlier evaluation, or returns undefined. */
export function readCachedTrial(
  file: string | undefined,
  { trial }: Pick<FinishedTrial, "trial">,
): FinishedTrial | undefined {
  if (file === undefined) return undefined;
  try {
    const read: unknown = JSON.parse(readRegularText(file));
    if (!isJsonObject(read) || typeof read["passed"] !== "boolean" || read["trial"] !== trial) return undefined;
    return { ...(read as unknown as FinishedTrial), isCached: true };
  } catch {
    return undefined; // Not cached, or cut off.
  }
}

export function saveCachedTrial(file: string, trial: FinishedTrial): void {
  try {
    createFolder(dirname(file), 0o700);
    replaceFile(file, JSON.stringify(trial));
  } catch {
    // The trial is made again next time.
  }
}
