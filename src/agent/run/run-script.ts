import type { Broker } from "../../capabilities/capability-broker.ts";
import { type Host, type HostOptions, notifyHost, tryCompleteHost } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Isolation, ProcessStream, SandboxOutcome } from "../../host/sandbox-contract.ts";
import type { Skill } from "../../skill/skill.ts";
import { findScript, listSkillScripts, type SkillScript } from "../../skill/skill-code.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import type { ToolResult } from "../../skill/tool.ts";
import { createRedactor, type Redactor, type Secrets } from "../../util/redact.ts";
import { findNearest, formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials } from "../policy/skill-policies.ts";
import { createTaintTracker } from "../policy/taint-tracker.ts";
import { requireSecretOwner } from "../policy/trust-policy.ts";
import { describeTrustChange } from "../policy/trusted-text.ts";
import { createDeadline, createRunBroker } from "../tools/contributed-tools.ts";
import {
  type CollectedOutput,
  describeEnding,
  formatOutcomeLine,
  formatPrinted,
  formatProblemLines,
} from "../tools/tool-output.ts";
import { createChangeReview, type ReviewChanges } from "../workspace/held-changes.ts";
import {
  type CommandLimits,
  createReadOnlyProblem,
  createScriptView,
  formatScriptView,
  getCommandLimits,
  hasFailedToWrite,
  type ScriptView,
} from "../workspace/sandbox-permissions.ts";
import {
  collectSecrets,
  createProblemRedactor,
  readSkillSecrets,
  type SkillSecrets,
  warnShortSecrets,
} from "./run-inputs.ts";
import { createRefusalResult, createRunId, type Run, startRun, toProblem, warnNoIsolation } from "./run-result.ts";
import { createLiveStepRunner } from "./step-runner.ts";

export interface ScriptRequest {
  skill: Skill;
  /** Its path in the skill's folder, or its name. */
  script: string;
  args?: readonly string[];
  stdin?: string;
  /** It may change the workspace. Contract: the user approved it. Changes of sensitive paths are held all the same. */
  writes?: boolean;
  signal?: AbortSignal;
}

/** Events are for looking on; the result has it all. */
export type ScriptEvent =
  | { type: "packages-built"; text: string }
  | { type: "script-started"; skill: string; script: string }
  | { type: "script-printed"; stream: ProcessStream; text: string };

/** What a script came to. A refusal and a failure are such a result too, never an exception. */
export interface ScriptResult extends CollectedOutput {
  skill: string;
  script: string;
  isError: boolean;
  /** Why it was not run. */
  refusals: readonly Problem[];
  /** What somebody should look at although it ran. */
  warnings: readonly Problem[];
  exitCode: number | undefined;
  signal: string | undefined;
  ending: SandboxOutcome["ending"] | "refused";
  ms: number;
  isolation: Isolation | undefined;
  /** The files that it saw; nothing where it was not run. */
  view: ScriptView | undefined;
  limits: CommandLimits;
}

/** What the run around a script lends to it. */
interface ScriptContext {
  broker: Broker | undefined;
  review: ReviewChanges | undefined;
  waited(): number;
}

/** Runs a script of a skill in a sandbox of its own. Awaited it gives the result, iterated what is printed as it comes. */
export function runScript(
  given: HostOptions,
  request: ScriptRequest,
  around?: ScriptContext,
): Run<ScriptEvent, ScriptResult> {
  const { host, problem } = tryCompleteHost(given);
  const { skill, script } = request;
  const nothing = { ...SCRIPT_NOT_RUN, skill: skill.name, script, limits: getCommandLimits(host) };
  return startRun<ScriptEvent, ScriptResult>(async (emit, signal) => {
    if (problem) return { ...nothing, refusals: [problem] };
    const own = readSkillSecrets(skill, host); // First, so that no refusal names one of them.
    const { secrets } = own;
    const hiding = createRedactor(collectSecrets(secrets, host));
    try {
      const judged = await checkScript(host, request, own);
      if ("refusals" in judged) return { ...nothing, refusals: judged.refusals.map(createProblemRedactor(hiding)) };
      const job = { ...request, ...judged, secrets, hiding, around };
      return { ...nothing, ...(await executeScript(host, job, emit, signal)) };
    } catch (error) {
      if (signal.aborted) return { ...nothing, ending: "abort" };
      return { ...nothing, refusals: [createProblemRedactor(hiding)(toProblem(error))] };
    }
  }, request.signal);
}

interface CheckedScript {
  script: SkillScript;
  copy: SkillCopy;
}

/** Whether it may run: which script is meant, then all that speaks against it at once. */
async function checkScript(
  host: Host,
  request: ScriptRequest,
  own: SkillSecrets,
): Promise<CheckedScript | { refusals: Problem[] }> {
  const { skill, args = [] } = request;
  const script = requireScript(skill, request.script);
  const denied = findDenials(skill, host, "run");
  if (denied.length > 0) return { refusals: denied };
  if (own.problem !== undefined) throw own.problem;
  checkScriptArguments(args, getCommandLimits(host));
  await skill.fetch?.("all");
  const copy = copySkill(skill);
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  if (changes.length > 0) return { refusals: [describeTrustChange(skill, changes)] };
  requireSecretOwner(skill, host);
  return { script, copy };
}

async function executeScript(
  host: Host,
  request: Omit<ScriptRequest, "script"> &
    CheckedScript & { secrets: Secrets; hiding: Redactor; around: ScriptContext | undefined },
  emit: (event: ScriptEvent) => void,
  signal: AbortSignal,
): Promise<Partial<ScriptResult>> {
  const { skill, script, secrets, hiding, args = [] } = request;
  const { prepareScript } = await import("./prepare-script.ts"); // Only who runs code loads what keeps it apart.
  const onProgress = (text: string) => emit({ type: "packages-built", text });
  const { broker, waited, review } = request.around ?? (await createScriptContext(host, skill, hiding, signal));
  const around = { broker, waited, review };
  const {
    enclosure,
    argv,
    warnings: seen,
  } = await prepareScript(host, { ...request, args, onProgress, signal, ...around });
  emit({ type: "script-started", skill: skill.name, script: script.path });
  const { notices = [], ...outcome } = await enclosure
    .run(argv, {
      ...(request.stdin === undefined ? {} : { stdin: request.stdin }),
      onText: (stream, text) => emit({ type: "script-printed", stream, text }),
    })
    .finally(() => (request.around ? undefined : broker?.close()));
  const isWhole = outcome.ending === "exit";
  const { suggestMissingPackage } = await import("../workspace/package-hints.ts");
  const missing = isWhole ? suggestMissingPackage(outcome, skill, host, enclosure.sandbox) : undefined;
  const isReadOnly = hasFailedToWrite(outcome.stderr, enclosure) ? [createReadOnlyProblem(enclosure, host, skill)] : [];
  const hints = [...isReadOnly, ...(missing ? [missing] : [])];
  const warnings = [...warnShortSecrets(secrets), ...warnNoIsolation(outcome.isolation), ...seen, ...hints, ...notices];
  return {
    ...outcome,
    limits: getCommandLimits(host),
    view: createScriptView(enclosure),
    script: script.path,
    warnings: warnings.map(createProblemRedactor(hiding)),
    isError: !isWhole || outcome.exitCode !== 0 || enclosure.close().length > 0,
  };
}

/** A script that no run started is one by itself. */
async function createScriptContext(
  host: Host,
  skill: Skill,
  hiding: Redactor,
  signal: AbortSignal,
): Promise<ScriptContext> {
  const port = createLiveStepRunner(host, (event) => notifyHost(host, event));
  const { seconds } = getCommandLimits(host);
  const taint = createTaintTracker();
  let end: (() => number) | undefined;
  // Its time begins with its command: what is fetched and built before is none of it.
  const until = () => {
    end ??= createDeadline(seconds, port);
    return end();
  };
  const run = { id: createRunId(), skill, host, port, hiding, until, signal, taint };
  return {
    broker: await createRunBroker(run),
    waited: () => port.waited(),
    review: createChangeReview({ ...run, run: run.id }),
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

function requireScript(skill: Skill, wanted: string): SkillScript {
  const scripts = listSkillScripts(skill);
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

/** The bounds are for all arguments together, so that nothing but arguments gets in with them. */
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
  if (args.some((arg) => arg.includes("\0")))
    throw createArgumentsError("an argument with a NUL character, which none can hold");
}

function createArgumentsError(what: string): SkillError {
  return new SkillError("script-arguments", {
    message: `The script was given ${what}`,
    fix: "give it less, or what is long on its standard input; the operator's limits are [scripts] in config.toml",
  });
}

/** Runs a script, and says what came of it in a way that a model can go on from. */
export async function runScriptForModel(
  host: Host,
  request: ScriptRequest,
  onResult: (result: ScriptResult) => void = () => {},
  around?: ScriptContext,
): Promise<ToolResult> {
  const result = await runScript(host, request, around);
  if (result.refusals.length > 0) return createRefusalResult(result.refusals);
  onResult(result);
  const { skill, script, warnings, isError } = result;
  const printed = formatPrinted(result, host.settings.limits.toolOutput, { skill, script });
  const content = [formatScriptOutcome(result), ...formatProblemLines(warnings), ...printed].join("\n");
  const code = result.ending === "exit" ? "script-failed" : `script-${result.ending}`;
  return { content, isError, ...(isError ? { code } : {}) };
}

function formatScriptOutcome(result: ScriptResult): string {
  const { script, skill, ms, isolation, isTruncated, view } = result;
  const how = [`${(ms / 1000).toFixed(1)} s`, `isolation ${isolation?.level} by ${isolation?.by}`];
  if (view) how.push(formatScriptView(view));
  const what = `${sanitizeLine(script)} of skill '${sanitizeLine(skill, 64)}': ${describeEnding(result).said}`;
  return formatOutcomeLine(what, [...how, ...(isTruncated ? ["output cut"] : [])], result);
}
