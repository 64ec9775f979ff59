import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { prepareDetachedUse } from "../../agent/run/resume-run.ts";
import { type UseRequest, useSkill } from "../../agent/run/use-skill.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { Host } from "../../config/host.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import type { RecordedRun } from "../../eval/recorded-run.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount } from "../../util/text.ts";
import {
  addRunOptions,
  type CallerOptions,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  createEngineMissingError,
  discoverForRun,
  EXIT,
  formatExamples,
  openCommandEngine,
  requireConfiguration,
} from "../command-context.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printJson } from "../output.ts";
import { runTraced } from "../progress.ts";
import {
  askForPendingTrust,
  getRunExitCode,
  isPendingTrust,
  printRunResult,
  type RunOutputOptions,
  runWithProgress,
} from "../run-output.ts";

import { parseCountOption } from "./runs.ts";

/** `skillet run`. */
export const runCommand: CommandDefinition = {
  define: (command) =>
    addRunOptions(
      command
        .description("Run a skill as a sub-agent")
        .argument("<skill>", "The skill, or `name@source` for a shadowed copy")
        .argument("[message...]", "The task")
        .option("-i, --input <json>", "Pass this input to a skill with an input schema; @file reads a file")
        .option("-c, --context <text>", "Pass this context; @file reads a file. Defaults to piped input.")
        .option("-n, --dry-run", "Show every check without running the skill")
        .option("--record <file>", "Record the run for `skillet test`: evals/recorded/NAME.json of the skill")
        .option("--detach", "Give the run to a worker, print its id, and end")
        .option("--queue <name>", "With --detach: use this queue. Defaults to runs.")
        .option("--tenant <name>", "With --detach: the tenant of the run; tenants take turns")
        .option("--key <key>", "With --detach: the same key gives the same run, and adds none")
        .option("--priority <number>", "With --detach: 0, the default, comes first"),
    ).addHelpText(
      "after",
      formatExamples(
        "skillet run host-report",
        'skillet run summarize --input \'{"content": "notes.md", "format": "tldr"}\'',
        'git diff | skillet run code-review "review this change"',
        'skillet run research "what is new in SQLite" --dry-run',
        'skillet run research "what is new in SQLite" --detach',
      ),
    ),
  run: runSkill,
};

interface RunCommandOptions extends CallerOptions, RunOutputOptions {
  input?: string;
  context?: string;
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
  dryRun?: boolean;
  detach?: boolean;
  queue?: string;
  tenant?: string;
  key?: string;
  priority?: string;
  record?: string;
}

/** Runs a skill as a sub-agent. The answer goes to stdout, everything else to stderr. */
async function runSkill({ io, options, args }: CommandContext<RunCommandOptions>): Promise<number> {
  const [name = "", ...words] = args;
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  const skill = found.catalog.find(name);
  if (!skill && !options.json && !options.events) return (await import("./show.ts")).failMissingSkill(io, found, name);
  const request = await createUseRequest(io, options, name, words);
  if (options.dryRun) return (await import("./sandbox-views.ts")).printDryRun(io, found, request, options);
  if (options.detach) return detachRun(io, found, request, options);
  if (!options.json && !options.events && !options.quiet) await printCostEstimate(io, found, name);
  const signal = createInterruptSignal(io);
  return runTraced(io, async (traces) => {
    const recorder = options.record === undefined ? undefined : await createRecorder(found, request);
    const start = (host: Host) => (recorder?.use ?? useSkill)(found.catalog, host, { ...request, signal });
    const use = async () => {
      // A user gets two lines. A program gets the result of a run, as for every failure.
      if (!options.json && !options.events) await requireModel(found, request);
      return runWithProgress(io, { ...found, ...(traces ? { onEvent: traces.record } : {}) }, options, start);
    };
    let result = await use();
    const { refusals } = result;
    if (skill && isPendingTrust(refusals) && (await askForPendingTrust(io, found, [{ skill, refusals }])))
      result = await use();
    await printRunResult(io, found, result, options);
    if (recorder) {
      const isReduced = result.warnings.some(({ code }) => code === "workspace-inaccessible");
      await saveRecordedRun(io, recorder.finish(result), resolve(io.cwd, options.record ?? ""), isReduced);
    }
    return getRunExitCode(result);
  });
}

/** Prints what earlier runs of the skill cost on average, if prices are configured. */
export async function printCostEstimate(
  io: CommandIo,
  { settings, statistics }: DiscoverResult,
  name: string,
): Promise<void> {
  if (settings.prices.size === 0) return;
  const rows = await statistics?.perSkill().catch(() => []);
  const { runs = 0, cost } = rows?.find(({ skill }) => skill === name) ?? {};
  if (cost === undefined || runs === 0) return;
  const error = createPrinter(io.stderr, io.env);
  error.line`${error.dim(`· about $${(cost / runs).toFixed(4)}, from ${formatCount(runs, "earlier run")}`)}`;
}

/** Adds the run to a queue of the workers. Without `--workspace`, it has none: workers are on other machines. */
async function detachRun(
  io: CommandIo,
  found: DiscoverResult,
  request: UseRequest,
  options: RunCommandOptions & CommonOptions,
): Promise<number> {
  const engine = await openCommandEngine(found.around, found.settings);
  if (!engine) throw createEngineMissingError();
  try {
    const { workspace, ...host } = found;
    const prepared = await prepareDetachedUse(
      found.catalog,
      { ...host, ...(options.workspace === undefined ? {} : { workspace }) },
      request,
    );
    if ("refusals" in prepared) {
      const [refusal = { code: "not-found", message: "The skill is not available", fix: "" }] = prepared.refusals;
      throw new SkillError(refusal.code as ErrorCode, refusal);
    }
    const { queue, tenant, key, priority } = options;
    const more = priority === undefined ? {} : { priority: parseCountOption("--priority", priority) };
    const given = { start: prepared.start, ...omitUndefined({ queue, tenant, key }), ...more };
    const { id, isNew } = await engine.queue.enqueue(prepared.run, given);
    const { skill } = prepared.run.head;
    const workers = await engine.queue.listWorkers();
    const isKnown = workers.some(({ skills }) => skills[skill] === prepared.start.digest);
    if (options.json) printJson(io.stdout, { run: id, isNew, isKnown });
    else {
      createPrinter(io.stdout, io.env).line`${id}`;
      const error = createPrinter(io.stderr, io.env);
      if (!isNew) error.line`${error.dim("·")} the key was used before: this is the same run`;
      if (!isKnown)
        error.line`${error.yellow("!")} no worker has ${skill} as it is here (${prepared.start.digest.slice(0, 19)}): the run waits for one`;
    }
    return EXIT.fine;
  } finally {
    await engine.close();
  }
}

async function createRecorder(found: DiscoverResult, request: UseRequest) {
  const { createUseRecorder } = await import("../../eval/recorded-run.ts");
  return createUseRecorder(found.catalog, found, request);
}

/** Saves a recorded run. A run that did not start is not recorded. */
async function saveRecordedRun(io: CommandIo, recording: RecordedRun, file: string, isReduced: boolean): Promise<void> {
  const out = createPrinter(io.stderr, io.env);
  if (recording.turns.length === 0) {
    out.line`${out.yellow("!")} nothing was recorded: no model was called`;
    return;
  }
  const { saveRecording } = await import("../../eval/recorded-run.ts");
  saveRecording(file, recording);
  out.line`${out.green("✓")} recorded in ${file}; \`skillet test ${recording.skill}\` replays the recordings in evals/recorded of a skill`;
  if (isReduced)
    out.line`${out.yellow("!")} the workspace was not writable, which its prompt says: give access to it and record again, or the replay differs`;
}

/** Throws if the skill needs a language model and none is configured. */
async function requireModel(found: DiscoverResult, request: UseRequest): Promise<void> {
  const { findModelProblem } = await import("../../agent/run/use-skill.ts");
  const problem = await findModelProblem(found.catalog, found, request);
  if (problem) throw new SkillError("model-needed", problem);
}

async function createUseRequest(
  io: CommandIo,
  options: RunCommandOptions,
  name: string,
  words: readonly string[],
): Promise<UseRequest> {
  const message = words.join(" ");
  const context =
    options.context === undefined
      ? await readPipedText(io, "; --context - waits for input")
      : await readContextText(io, options.context);
  const input = options.input === undefined ? undefined : parseJsonInput(readTextArgument(io, options.input));
  const { model } = options;
  return {
    skill: name,
    by: "user",
    ...(message === "" ? {} : { message }),
    ...(context === undefined || context.trim() === "" ? {} : { context }),
    ...(input === undefined ? {} : { input }),
    ...(model === undefined ? {} : { model }),
    ...parseLimits("seconds", "--timeout", options.timeout),
    ...parseLimits("tokens", "--budget", options.budget),
    ...parseLimits("maxIterations", "--max-iterations", options.maxIterations),
  };
}

const STDIN_WAIT_MS = 3000;

/** Reads piped input, with a timeout: some programs leave a pipe open without ever writing. */
export async function readPipedText(io: CommandIo, hint = ""): Promise<string | undefined> {
  const text = await io.stdin?.(STDIN_WAIT_MS);
  if (io.stdin && text === undefined) {
    const error = createPrinter(io.stderr, io.env);
    error.line`${error.yellow("!")} no input arrived on stdin: continuing without it${hint}`;
  }
  return text;
}

async function readContextText(io: CommandIo, value: string): Promise<string | undefined> {
  return value === "-" ? io.stdin?.() : readTextArgument(io, value);
}

/** Returns a text, or with `@file` the content of a file. */
function readTextArgument(io: CommandIo, value: string): string {
  if (!value.startsWith("@")) return value;
  const path = resolve(io.cwd, value.slice(1));
  try {
    return readTextFile(path);
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("usage", {
      message: `${path} cannot be read: ${getErrorMessage(error)}`,
      fix: "@ is followed by the name of a file",
    });
  }
}

/** The same limit as for piped input. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** Reads a file in pieces: a device may be endless. */
function readTextFile(path: string): string {
  const file = openSync(path, "r");
  try {
    const pieces: Buffer[] = [];
    for (let size = 0; size <= MAX_FILE_BYTES; size += pieces.at(-1)?.length ?? 0) {
      const piece = Buffer.alloc(64 * 1024);
      const length = readSync(file, piece);
      if (length === 0) return Buffer.concat(pieces).toString();
      pieces.push(piece.subarray(0, length));
    }
  } finally {
    closeSync(file);
  }
  throw new SkillError("usage", { message: `${path} is larger than 16 MiB`, fix: "use a smaller file" });
}

function parseJsonInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SkillError("usage", {
      message: `--input is not valid JSON: ${getErrorMessage(error)}`,
      fix: `for example --input '{"content": "…"}', or --input @file.json`,
    });
  }
}

/** Parses a limit of the caller. */
export function parseLimits<Name extends string>(
  name: Name,
  option: string,
  value: string | undefined,
): { [K in Name]?: number } {
  if (value === undefined) return {};
  const number = Number(value);
  if (Number.isFinite(number) && number > 0) return { [name]: number } as { [K in Name]?: number };
  throw new SkillError("usage", {
    message: `${option} is "${value}", which is not a number above 0`,
    fix: `for example ${option} 60`,
  });
}
