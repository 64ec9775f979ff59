import type { Catalog } from "../../catalog/catalog.ts";
import { type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { RunEvent } from "../../host/events.ts";
import type { Message } from "../../host/model-contract.ts";
import { computeSkillDigest } from "../../skill/source/skill-copy.ts";
import type { Journal, JournalLine, RunKind } from "../../store/journal.ts";
import type { NewRun } from "../../store/run-rules.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials } from "../policy/skill-policies.ts";
import { createHostRedactor, createProblemRedactor, redactData, redactNewRun } from "./redaction.ts";
import { readUseInput } from "./run-inputs.ts";
import { createRunId, type Run, type RunResult, startRun, toProblem } from "./run-result.ts";
import { createLiveStepRunner, refuseRun } from "./step-runner.ts";
import {
  createInputProblem,
  createUseRecord,
  describeUnknownSkill,
  findInvocationDenials,
  runRecordedUse,
  type UseRequest,
  type UseStart,
} from "./use-skill.ts";

export interface ResumeOptions {
  signal?: AbortSignal;
  /** The alias of the model to use instead of the original one. */
  model?: string;
}

/**
 * Resumes a use that was interrupted or is waiting. Completed steps are not repeated. Contract: the run resolves, even if
 * it cannot be resumed.
 */
export function resumeRun(
  catalog: Catalog,
  hostOptions: HostOptions,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  return resumeWith<UseRequest>(
    { ...options, kind: "use", given: hostOptions, id },
    ({ request, messages: _, ...taken }) => runRecordedUse({ catalog, request: readFormerRequest(request), ...taken }),
  );
}

/** Reads the limit that a run of 0.1.0 recorded as `iterations`. */
function readFormerRequest({ iterations, ...request }: UseRequest & { iterations?: number }): UseRequest {
  return iterations === undefined ? request : { maxIterations: iterations, ...request };
}

/** Returns a journal whose tool results have the form of today. Version 0.1.0 recorded the text as `content` and the data as `metadata`. */
function readFormerSteps(journal: Journal): Journal {
  const getStep: Journal["getStep"] = (name) => {
    const step = journal.getStep(name);
    if (!step || !/(?:^|\/)tool:[^/]*$/.test(name) || !isJsonObject(step.value)) return step;
    const { text, content, metadata: data, ...rest } = step.value;
    if (typeof text === "string" || typeof content !== "string") return step;
    return { value: { ...rest, text: content, ...omitUndefined({ output: readFormerOutput(content), data }) } };
  };
  return { ...journal, getStep };
}

/**
 * Returns messages with the fields of today. Version 0.1.0 kept only texts: the output of a result, the answer of a skill and the context of a
 * message are found by the tags around them, which no untrusted text can forge.
 */
export function readFormerMessages(messages: readonly Message[]): Message[] {
  return messages.map((message) => {
    if (message.role === "user") {
      const userText = message.userText ?? message.text.replace(FORMER_CONTEXT, "");
      return userText === message.text ? message : { ...message, userText };
    }
    if (message.role === "assistant") {
      const skill = message.skill ?? FORMER_ANSWER.exec(message.text)?.[1];
      return { ...message, ...omitUndefined({ skill }) };
    }
    const results = message.results.map((result) => {
      const output = result.output ?? readFormerOutput(result.content);
      return { ...result, ...omitUndefined({ output }) };
    });
    return { ...message, results };
  });
}

const FORMER_CONTEXT = /<skill_context>[\s\S]*?<\/skill_context>/g;
const FORMER_ANSWER = /^<skill_output skill="([^"]*)">/;

/**
 * Returns the output in a result that was recorded by 0.1.0, which kept only the text for the model; undefined for a result without
 * a frame. Newer results carry their output.
 */
export function readFormerOutput(text: string): string | undefined {
  const [, result] = /^<instruction>[\s\S]*?<\/instruction>\n<output>\n([\s\S]*)\n<\/output>$/.exec(text) ?? [];
  if (result !== undefined) return result;
  if (text.startsWith("<skill_resource ")) return text.replace(/^<skill_resource[^>]*>\n|\n<\/skill_resource>/g, "");
  const inside = [...text.matchAll(/^<skill_output[^>]*>\n([\s\S]*?)\n<\/skill_output>$/gm)].map(
    ([, body = ""]) => body,
  );
  return inside.length === 0 ? undefined : inside.join("\n");
}

/** A run that is being resumed: the original request and the context to continue with. */
export interface ResumedRun<Request> {
  request: Request;
  /** The earlier messages of a conversation. */
  messages: Message[];
  host: Host;
  id: string;
  journal: Journal;
  pass(event: RunEvent): void;
  signal: AbortSignal;
}

interface ResumeRequest extends ResumeOptions {
  kind: "use" | "chat";
  given: HostOptions;
  id: string;
}

/** Loads a recorded run and passes it to `work`, which continues it. */
export function resumeWith<Request extends object>(
  { kind, given: hostOptions, id, model, signal: outer }: ResumeRequest,
  work: (taken: ResumedRun<Request>) => Promise<RunResult>,
): Run<RunEvent, RunResult> {
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const { host: complete, problem } = tryCompleteHost(hostOptions);
    if (problem) return refuseResume(complete, id, problem);
    const taken = await loadRecordedRun(complete, id, kind);
    if ("refused" in taken) return taken.refused;
    const { journal, host, asked } = taken;
    const request = { ...(asked.request as Request), ...(model === undefined ? {} : { model }) };
    const messages = readFormerMessages(asked.messages ?? []);
    return work({ request, messages, host, id: journal.id, journal, pass, signal });
  }, outer);
}

type RequestLine = Extract<JournalLine, { type: "request" }>;

/** Loads a run for the caller it began for, or returns why it cannot be resumed. */
async function loadRecordedRun(
  host: Host,
  id: string,
  kind: "use" | "chat",
): Promise<{ journal: Journal; asked: RequestLine; host: Host } | { refused: Promise<RunResult> }> {
  try {
    const journal = readFormerSteps(await openRunJournal(host, id));
    const { caller: _, traceParent: __, ...rest } = host;
    const { kind: begun, workspace, caller, traceParent } = journal.head;
    const asked = journal.lines.find((line) => line.type === "request");
    const isHere = workspace === host.workspace;
    if (begun === kind && asked?.type === "request" && isHere) {
      return { journal, asked, host: { ...rest, ...omitUndefined({ caller, traceParent }) } };
    }
    await journal.close();
    throw isHere ? createWrongKindError(id, kind, begun) : createOtherWorkspaceError(id, workspace);
  } catch (error) {
    return { refused: refuseResume(host, id, toProblem(error)) };
  }
}

function refuseResume(host: Host, id: string, why: Problem): Promise<RunResult> {
  const steps = createLiveStepRunner(host, () => {});
  return refuseRun({ run: id, skill: "", host, steps, start: performance.now() }, [why]);
}

async function openRunJournal({ runs }: Host, id: string): Promise<Journal> {
  if (runs) return await runs.resume(id);
  throw new SkillError("run-unknown", {
    message: "Runs are not recorded: the host has no run store",
    fix: "set the host option `runs`: createRunStore(folder)",
  });
}

function createWrongKindError(id: string, kind: "use" | "chat", begun: RunKind): SkillError {
  const message = `Run ${id} is not a ${kind === "use" ? "use of a skill" : "conversation"}${begun === "script" ? ": it is a script, which cannot be resumed" : ""}`;
  if (begun === "script") return new SkillError("run-unknown", { message, fix: "run the script again" });
  const fix = kind === "use" ? "resume it with resumeChat" : "resume it with resumeRun";
  return new SkillError("run-unknown", { message, fix });
}

/** Creates the error for another workspace: approvals of a run hold only for its own workspace. */
function createOtherWorkspaceError(id: string, workspace: string | undefined): SkillError {
  return new SkillError("run-other-workspace", {
    message: `Run ${id} began in ${workspace ?? "no workspace"}`,
    fix: "resume it there: set the host option `workspace` to that folder",
  });
}

/** A use that is recorded now and done later, by another process. */
export interface DetachedUse {
  run: NewRun;
  /** The first step: it binds the run to the copy of the skill that was found here. */
  start: UseStart;
}

/** Prepares a use for another process. Returns the refusals if the skill is unknown or hidden from the caller, or the input does not fit. */
export async function prepareDetachedUse(
  catalog: Catalog,
  options: HostOptions,
  request: UseRequest,
): Promise<DetachedUse | { refusals: readonly Problem[] }> {
  const { host, problem } = tryCompleteHost(options);
  if (problem) return { refusals: [problem] };
  const skill = catalog.find(String(request.skill));
  if (!skill) return { refusals: [describeUnknownSkill(String(request.skill), catalog, host)] };
  await skill.fetch?.("all");
  // What the skill needs of a machine is checked by the process that does it.
  const denied = [
    ...findInvocationDenials(skill, request.by),
    ...findDenials(skill, host, "use").filter(({ kind }) => kind === "access"),
  ];
  const read = await readUseInput(skill, request);
  const redactor = createHostRedactor(host);
  if (denied.length > 0 || "problem" in read) {
    const refusals = [...denied, ...("problem" in read ? [createInputProblem(read.problem, skill)] : [])];
    return { refusals: refusals.map(createProblemRedactor(redactor)) };
  }
  const id = createRunId();
  const input = redactData(redactor, read.value);
  return {
    run: redactNewRun(redactor, createUseRecord({ host, request, id }, sanitizeLine(skill.name, 64))),
    start: { digest: await computeSkillDigest(skill), input, hasTakenContext: read.hasTakenContext ?? false },
  };
}
