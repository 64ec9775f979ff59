import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Broker } from "../../capabilities/capability-broker.ts";
import { type Host, type HostOptions, notifyHost, tryCompleteHost } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { RunEvent } from "../../host/events.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { Isolation, ProcessStream, Sandbox, SandboxOutcome } from "../../host/sandbox-contract.ts";
import { mapSandboxPath } from "../../sandbox/sandbox-folders.ts";
import type { Skill } from "../../skill/skill.ts";
import {
  detectInterpreter,
  FALLBACK_PROGRAMS,
  findScript,
  listSkillScripts,
  SANDBOX_SKILL_FOLDER,
  type SkillScript,
} from "../../skill/skill-code.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import type { ToolResult } from "../../skill/tool.ts";
import type { Journal } from "../../store/journal.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { findSystemProgram } from "../../util/system.ts";
import { findNearest, formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials } from "../policy/skill-policies.ts";
import { createTaintTracker } from "../policy/taint-tracker.ts";
import { describeTrustChange, requireSecretOwner } from "../policy/trust-policy.ts";
import { createDeadline, createRunBroker } from "../tools/skill-tools.ts";
import { type CollectedOutput, createProgramResult, formatProblemLines } from "../tools/tool-output.ts";
import type { ReviewChanges } from "../workspace/held-changes.ts";
import { createLazyReview, openRunSandbox, type RunSandbox, type RunSandboxOptions } from "../workspace/run-sandbox.ts";
import {
  type CommandLimits,
  createReadOnlyProblem,
  createScriptView,
  formatScriptView,
  getCommandLimits,
  hasFailedToWrite,
  mayDeclarePackages,
  type ScriptView,
  translateArguments,
  warnHiddenArguments,
} from "../workspace/sandbox-permissions.ts";
import {
  createEventSink,
  createHostRedactor,
  createProblemRedactor,
  redactData,
  warnShortSecrets,
} from "./redaction.ts";
import { readSkillSecrets, type SkillSecrets } from "./run-inputs.ts";
import { createRefusalResult, createRunId, type Run, startRun, toProblem, warnNoIsolation } from "./run-result.ts";
import { createLiveStepRunner } from "./step-runner.ts";

export interface ScriptRequest {
  skill: Skill;
  /** The path in the skill's folder, or the name. */
  script: string;
  args?: readonly string[];
  stdin?: string;
  /** The script may change the workspace. Contract: the user approved it. Changes to sensitive paths are still held for review. */
  writes?: boolean;
  signal?: AbortSignal;
}

/** Events for observers; the result contains everything. */
export type ScriptEvent =
  | { type: "packages-built"; text: string }
  | { type: "script-started"; skill: string; script: string }
  | { type: "script-printed"; stream: ProcessStream; text: string };

/** The result of a script. A refusal and a failure are results too, never exceptions. */
export interface ScriptResult extends CollectedOutput {
  skill: string;
  script: string;
  isError: boolean;
  /** The reasons why it was not run. */
  refusals: readonly Problem[];
  /** Problems to look at even though the script ran. */
  warnings: readonly Problem[];
  exitCode: number | undefined;
  signal: string | undefined;
  ending: SandboxOutcome["ending"] | "refused";
  ms: number;
  isolation: Isolation | undefined;
  /** The files that it saw; undefined if it was not run. */
  view: ScriptView | undefined;
  limits: CommandLimits;
}

/** The resources that a script shares with the run that starts it. */
interface ScriptContext {
  broker: Broker | undefined;
  /** The tool call that starts the script. */
  callId?: string;
  review: ReviewChanges | undefined;
  waited(): number;
}

/** Runs a script of a skill in its own sandbox. Await it for the result, iterate it for the output as it arrives. */
export function runScript(
  hostOptions: HostOptions,
  request: ScriptRequest,
  context?: ScriptContext,
): Run<ScriptEvent, ScriptResult> {
  const { host, problem } = tryCompleteHost(hostOptions);
  const { skill, script } = request;
  const nothing = { ...SCRIPT_NOT_RUN, skill: skill.name, script, limits: getCommandLimits(host) };
  return startRun<ScriptEvent, ScriptResult>(async (emit, signal) => {
    if (problem) return { ...nothing, refusals: [problem] };
    const own = readSkillSecrets(skill, host); // First, so that no refusal shows a secret.
    const { secrets } = own;
    const redactor = createHostRedactor(host, secrets);
    try {
      const checked = await checkScript(host, request, own);
      if ("refusals" in checked) return { ...nothing, refusals: checked.refusals.map(createProblemRedactor(redactor)) };
      const job = { ...request, ...checked, secrets, redactor, scriptContext: context };
      return { ...nothing, ...(await executeScript(host, job, emit, signal)) };
    } catch (error) {
      if (signal.aborted) return { ...nothing, ending: "abort" };
      return { ...nothing, refusals: [createProblemRedactor(redactor)(toProblem(error))] };
    }
  }, request.signal);
}

interface CheckedScript {
  script: SkillScript;
  copy: SkillCopy;
}

/** Finds the script and checks that it may run. Returns all refusals at once. */
async function checkScript(
  host: Host,
  request: ScriptRequest,
  own: SkillSecrets,
): Promise<CheckedScript | { refusals: Problem[] }> {
  const { skill, args = [] } = request;
  const script = await requireScript(skill, request.script);
  const denied = findDenials(skill, host, "run");
  if (denied.length > 0) return { refusals: denied };
  if (own.problem !== undefined) throw own.problem;
  checkScriptArguments(args, getCommandLimits(host));
  await skill.fetch?.("all");
  const copy = await copySkill(skill);
  const changes = host.trust?.findChanges(skill, copy) ?? [];
  if (changes.length > 0) return { refusals: [describeTrustChange(skill, changes)] };
  requireSecretOwner(skill, host);
  return { script, copy };
}

async function executeScript(
  host: Host,
  request: Omit<ScriptRequest, "script"> &
    CheckedScript & { secrets: Secrets; redactor: Redactor; scriptContext: ScriptContext | undefined },
  emit: (event: ScriptEvent) => void,
  signal: AbortSignal,
): Promise<Partial<ScriptResult>> {
  const { skill, script, secrets, redactor, args = [] } = request;
  const onProgress = (text: string) => emit({ type: "packages-built", text });
  const { broker, waited, review } =
    request.scriptContext ?? (await createScriptContext(host, skill, redactor, signal));
  const context = { broker, waited, review };
  const {
    sandbox,
    argv,
    warnings: seen,
  } = await prepareScript(host, { ...request, args, onProgress, signal, ...context });
  emit({ type: "script-started", skill: skill.name, script: script.path });
  const { notices = [], ...outcome } = await sandbox
    .run(argv, {
      ...(request.stdin === undefined ? {} : { stdin: request.stdin }),
      onText: (stream, text) => emit({ type: "script-printed", stream, text }),
      callId: request.scriptContext?.callId,
    })
    .finally(async () => (request.scriptContext ? undefined : await broker?.close()));
  const isWhole = outcome.ending === "exit";
  const { suggestMissingPackage } = await import("../workspace/package-hints.ts");
  const missing = isWhole ? await suggestMissingPackage(outcome, skill, host, sandbox.sandbox) : undefined;
  const isReadOnly = hasFailedToWrite(outcome.stderr, sandbox) ? [createReadOnlyProblem(sandbox, host, skill)] : [];
  const hints = [...isReadOnly, ...(missing ? [missing] : [])];
  const warnings = [...warnShortSecrets(secrets), ...warnNoIsolation(outcome.isolation), ...seen, ...hints, ...notices];
  return {
    ...outcome,
    limits: getCommandLimits(host),
    view: createScriptView(sandbox),
    script: script.path,
    warnings: warnings.map(createProblemRedactor(redactor)),
    isError: !isWhole || outcome.exitCode !== 0 || sandbox.close().length > 0,
  };
}

/** Creates the context of a script that no run started. */
async function createScriptContext(
  host: Host,
  skill: Skill,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<ScriptContext> {
  const steps = createLiveStepRunner(host, createEventSink(redactor, host));
  const { seconds } = getCommandLimits(host);
  const taint = createTaintTracker();
  let end: (() => number) | undefined;
  // The time limit starts with the command: fetching and building before it do not count.
  const until = () => {
    end ??= createDeadline(seconds, steps);
    return end();
  };
  const run = { id: createRunId(), skill, host, steps, redactor, getDeadline: until, signal, taint };
  return {
    broker: await createRunBroker(run),
    waited: () => steps.waited(),
    review: createLazyReview({ ...run, run: run.id }),
  };
}

const SCRIPT_NOT_RUN = {
  isError: true,
  refusals: [],
  warnings: [],
  exitCode: undefined,
  signal: undefined,
  ending: "refused",
  stdout: "",
  stderr: "",
  isTruncated: false,
  ms: 0,
  isolation: undefined,
  view: undefined,
} as const;

async function requireScript(skill: Skill, wanted: string): Promise<SkillScript> {
  const scripts = await listSkillScripts(skill);
  const script = findScript(scripts, wanted);
  if (script) return script;
  const names = scripts.map(({ path }) => path);
  const meant = findNearest(
    wanted,
    scripts.flatMap(({ path, name }) => [path, path.slice(path.lastIndexOf("/") + 1), name]),
  );
  throw new SkillError("script-unknown", {
    message: `Skill '${skill.name}' has no script "${wanted}"${meant ? `; did you mean "${meant}"?` : ""}`,
    fix: names.length === 0 ? "put it into the skill's `scripts` folder" : `it has: ${names.slice(0, 20).join(", ")}`,
  });
}

/** Checks the arguments against the limits, which hold for all of them together. */
function checkScriptArguments(args: readonly string[], limits: { arguments: number; argumentBytes: number }): void {
  if (args.length > limits.arguments) {
    throw createArgumentsError(`${formatCount(args.length, "argument")}, more than ${formatNumber(limits.arguments)}`);
  }
  const bytes = args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0);
  if (bytes > limits.argumentBytes) {
    throw createArgumentsError(
      `arguments of ${formatNumber(bytes)} bytes together, more than ${formatNumber(limits.argumentBytes)}`,
    );
  }
  if (args.some((arg) => arg.includes("\0"))) throw createArgumentsError("an argument with a NUL character");
}

function createArgumentsError(what: string): SkillError {
  return new SkillError("script-arguments", {
    message: `Invalid script arguments: ${what}`,
    fix: "pass fewer or shorter arguments, or pass long data on standard input; the limits are under [scripts] in config.toml",
  });
}

/** Runs a script and formats the outcome for a model. */
export async function runScriptForModel(
  host: Host,
  request: ScriptRequest,
  onResult: (result: ScriptResult) => void = () => {},
  context?: ScriptContext,
): Promise<ToolResult> {
  const result = await runScript(host, request, context);
  if (result.refusals.length > 0) return createRefusalResult(result.refusals);
  onResult(result);
  const { skill, script, warnings, isError } = result;
  const printed = createProgramResult(result, {
    subject: `${sanitizeLine(script)} of skill '${sanitizeLine(skill, 64)}'`,
    details: formatScriptDetails(result),
    problems: formatProblemLines(warnings),
    max: host.settings.limits.toolOutput,
    attributes: { skill, script },
  });
  const code = result.ending === "exit" ? "script-failed" : `script-${result.ending}`;
  return { ...printed, isError, ...(isError ? { code } : {}) };
}

function formatScriptDetails({ ms, isolation, isTruncated, view }: ScriptResult): string[] {
  const how = [`${(ms / 1000).toFixed(1)} s`, `isolation ${isolation?.level} by ${isolation?.by}`];
  if (view) how.push(formatScriptView(view));
  return [...how, ...(isTruncated ? ["output cut"] : [])];
}

/** Runs a script for a model. `isRecorded`: a client of a server asked for it. */
export function runSessionScript(host: Host, request: ScriptRequest, isRecorded = false): Promise<ToolResult> {
  return isRecorded ? runRecordedScript(host, request) : runScriptForModel(host, request);
}

/**
 * Runs a script that a client of a server asked for, and records it like a run: in the journal, the statistics and the traces, with the
 * caller. The record has the arguments and the result, without secrets. A script cannot be resumed.
 */
async function runRecordedScript(host: Host, request: ScriptRequest): Promise<ToolResult> {
  const { skill, script, args, writes, stdin } = request;
  const { runs, workspace, caller } = host;
  const redactor = createHostRedactor(host);
  const id = createRunId();
  const task = `script ${script}`;
  const asked = redactData(redactor, omitUndefined({ skill: skill.name, script, args, writes, stdin }));
  let journal: Journal | undefined;
  try {
    journal = await runs?.create({
      head: { id, kind: "script", skill: skill.name, task, ...omitUndefined({ workspace, caller }) },
      request: asked,
    });
  } catch {} // The script runs without a record, as a run does.
  const start = performance.now();
  const emit = async (event: Record<string, unknown>) => {
    const whole = { run: id, skill: skill.name, at: new Date().toISOString(), ...omitUndefined({ caller }), ...event };
    notifyHost(host, whole as RunEvent);
    await journal?.event(whole as RunEvent).catch(() => {});
  };
  const { seconds } = getCommandLimits(host);
  const call = { step: 1, call: 1, tool: "run_skill_script" };
  try {
    await emit({
      ...{ type: "run-started", source: skill.origin.source, model: "script", tools: [], depth: 1 },
      limits: { iterations: 1, seconds },
    });
    await emit({ type: "tool-called", ...call, input: asked });
    const result = await runScriptForModel(host, request);
    const ms = Math.round(performance.now() - start);
    const { isError, code } = result;
    await emit({
      type: "tool-ended",
      ...call,
      isError,
      ms,
      characters: result.text.length,
      ...omitUndefined({ code }),
    });
    const stop = request.signal?.aborted ? "aborted" : isError ? "failed" : "complete";
    const tail = { stop, isError, iterations: 1, ms, usage: NO_USAGE } as const;
    await emit({ type: "run-ended", ...tail });
    await journal
      ?.end({ run: id, skill: skill.name, content: result.text, ...tail }, { ...tail, model: "script" })
      .catch(() => {});
    return result;
  } finally {
    await journal?.close().catch(() => {});
  }
}

interface PrepareScriptOptions {
  /** The values of the variables that the skill declares. */
  secrets: Secrets;
  redactor: Redactor;
  skill: Skill;
  script: SkillScript;
  copy: SkillCopy;
  args: readonly string[];
  onProgress(text: string): void;
  signal: AbortSignal;
  broker?: RunSandboxOptions["broker"];
  waited?: RunSandboxOptions["waited"];
  review?: RunSandboxOptions["review"];
  /** The script may write to the workspace. */
  writes?: boolean | undefined;
}

interface PreparedScript {
  sandbox: RunSandbox;
  argv: [string, ...string[]];
  /** Arguments that name files the script cannot see, and why. */
  warnings: readonly Problem[];
}

/** Prepares everything that a script needs. Throws a SkillError if a part is unavailable. */
async function prepareScript(host: Host, options: PrepareScriptOptions): Promise<PreparedScript> {
  const { skill, script, copy } = options;
  const runSandbox = await openRunSandbox(host, { ...options, kind: "script" });
  const { sandbox, root, mounts } = runSandbox;
  const path = mapSandboxPath(sandbox, mounts, `${SANDBOX_SKILL_FOLDER}/${script.path}`);
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const declaring = mayDeclarePackages(copy)
    ? await (await import("../workspace/skill-libraries.ts")).findDeclaringCommand(path, host, { skill, script, copy })
    : undefined;
  const argv = declaring ?? (await resolveScriptCommand(path, bytes, { skill, host, script, sandbox, root }));
  const outside = warnHiddenArguments(options.args, host, { ...runSandbox, skill });
  const { notices, problems } = runSandbox;
  // The reason for a missing workspace is shown only if the script needs it. It then replaces the warnings for single paths.
  const unseen = notices.length > 0 && (outside.length > 0 || options.writes) ? notices : outside;
  return {
    sandbox: runSandbox,
    argv: [...argv, ...translateArguments(options.args, host, runSandbox)] as [string, ...string[]],
    warnings: [...unseen, ...problems],
  };
}

interface InterpreterContext {
  skill: Skill;
  host: Host;
  script: SkillScript;
  sandbox: Sandbox;
  root: string | undefined;
}

async function resolveScriptCommand(
  path: string,
  bytes: Uint8Array,
  { skill, host, script, sandbox, root }: InterpreterContext,
): Promise<string[]> {
  const interpreter = detectInterpreter(script.path, bytes);
  if (!interpreter) {
    throw new SkillError("script-interpreter", {
      message: `No interpreter found for "${script.path}" of skill '${skill.name}'`,
      fix: "add a first line such as #!/bin/sh, or use one of the extensions .sh, .py, .js, .ts, .rb, .pl",
    });
  }
  const { program, args } = interpreter;
  if (program === undefined) return [path];
  const names = [program, FALLBACK_PROGRAMS.get(program) ?? program];
  const name = names.find((candidate) => hasSandboxProgram(candidate, sandbox, root));
  if (name === undefined) {
    const { formatPackagesCommand } = await import("../workspace/package-hints.ts");
    throw new SkillError("script-interpreter", {
      message: `"${script.path}" of skill '${skill.name}' needs ${program}, which is not in its sandbox`,
      fix: `add the package with ${program}: ${formatPackagesCommand(skill, host, "packages", [FALLBACK_PROGRAMS.get(program) ?? program])}`,
    });
  }
  return [name === "node" && !sandbox.mapsPaths ? process.execPath : name, ...args, path];
}

function hasSandboxProgram(program: string, { system }: Sandbox, root: string | undefined): boolean {
  if (program === "node" || system === "own") return true; // The programs of an image are not known here.
  if (root === undefined) return findSystemProgram(program) !== undefined;
  return ["usr/bin", "usr/local/bin", "usr/sbin", "bin"].some((folder) => existsSync(join(root, folder, program)));
}
