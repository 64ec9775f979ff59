import { randomBytes } from "node:crypto";
import {
  formatFix,
  formatProblem,
  getErrnoCode,
  getErrorMessage,
  getErrorMessageWithPath,
  type Problem,
  SkillError,
} from "../../errors/problem.ts";
import type { ApprovalRequest, Caller } from "../../host/approval.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { Isolation } from "../../host/sandbox-contract.ts";
import type { CallOptions, ToolResult, Usage } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount } from "../../util/text.ts";
import { escapeInvisible, sanitizeLine } from "../../util/untrusted-text.ts";
import { shortenMiddle } from "../tools/tool-output.ts";

/** The result of using a skill. A refusal and a failure are results too, never exceptions. */
export interface RunResult {
  run: string;
  skill: string;
  /** The answer, the partial result if a limit was reached, or the reason why there is no answer. */
  content: string;
  /** The answer alone, if the content also has the reason why the run ended. */
  answer?: string;
  isError: boolean;
  /** The number of model calls. */
  iterations: number;
  stop: StopReason;
  /** Every reason why the run did not start. */
  refusals: readonly Problem[];
  /** Problems to look at even though the skill ran. */
  warnings: readonly Problem[];
  /** The approval request that the run waits for. */
  approvalRequest?: ApprovalRequest;
  /** The error, if one occurred. */
  error?: Problem;
  source?: string;
  model?: string;
  usage: Usage;
  /** The cost in US dollars, if the price is known. */
  cost?: number;
  ms: number;
  /** The isolation of its code, if any ran. */
  isolation?: Isolation;
  caller?: Caller;
}

/** Creates results in a program, for example in one that follows a skill itself. */
export const skillResult = {
  success: (content: string, iterations = 0): RunResult => ({ ...EMPTY_RUN, content, isError: false, iterations }),
  error: (message: string): RunResult => ({
    ...EMPTY_RUN,
    content: message,
    isError: true,
    iterations: 0,
    stop: "error",
  }),
};

const EMPTY_RUN = { run: "", skill: "", stop: "answer", refusals: [], warnings: [], usage: NO_USAGE, ms: 0 } as const;

/** Formats a result for the agent that requested it. Text of the skill can neither close these tags nor open similar ones. */
export function wrapResult({ skill, content }: Pick<RunResult, "skill" | "content">): string {
  const { text, count: hidden } = escapeInvisible(content);
  const note = hidden > 0 ? `[${formatCount(hidden, "hidden character")} in this text, written out as \\u{…}]\n` : "";
  const name = sanitizeLine(skill, 64).replaceAll('"', "&quot;");
  return `<instruction>
This is the result from running the "${name}" skill.
The user has NOT seen this output. Interpret and include it in your response.
</instruction>
<output>
${note}${text.replace(RESULT_TAGS, "&lt;")}
</output>`;
}

const RESULT_TAGS = /<(?=[\s/]*(?:instruction|output|skill_))/gi;

/** Converts a run result to a tool result, with at most `max` characters of the answer. */
export function toToolResult(result: RunResult, max: number): ToolResult {
  const { run, skill, isError, iterations, stop, refusals, error, usage, cost, model } = result;
  if (refusals.length > 0) return { ...createRefusalResult(refusals), iterations };
  const output = shortenMiddle(result.content, max);
  const text = wrapResult({ skill, content: output });
  const code = error?.code ?? (stop === "answer" || stop === "complete" ? undefined : stop);
  const data = { run, skill, stop, ...omitUndefined({ model }) };
  return { text, output, isError, iterations, usage, data, ...omitUndefined({ code, cost }) };
}

/** Formats refusals as a tool result. The host's own text needs no tags, but may contain untrusted names. */
export function createRefusalResult(refusals: readonly Problem[]): ToolResult {
  const lines = refusals.flatMap(({ message, ...problem }) => {
    const [first = "", ...more] = formatFix(problem).split("\n").slice(0, MAX_FIX_LINES);
    // Lines to be copied into a file stay separate lines.
    return [
      sanitizeLine(first === "" ? message : `${message}: ${first}`, 512),
      ...more.map((line) => sanitizeLine(line, 512)),
    ];
  });
  return { text: lines.join("\n"), isError: true, code: refusals[0]?.code ?? "refused" };
}

const MAX_FIX_LINES = 20;

interface RunEnding {
  stop: StopReason;
  text: string;
  maxIterations: number;
  seconds: number;
  tokens: number | undefined;
  error: Problem | undefined;
  warning?: Problem;
}

/** Formats the answer or the partial result, with the reason why the run ended. */
export function formatRunContent(ending: RunEnding): string {
  const line = STOP_LINES[ending.stop]?.(ending);
  if (line === undefined) return ending.warning ? `${ending.text}\n\n[${ending.warning.message}]` : ending.text;
  return ending.text === "" ? line : `${ending.text}\n\n${line}`;
}

const STOP_LINES: Partial<Record<StopReason, (ending: RunEnding) => string>> = {
  "max-iterations": ({ maxIterations: iterations, text }) =>
    `[The limit of ${formatCount(iterations, "iteration")} was reached: ${formatPartial(text)}]`,
  timeout: ({ seconds, text }) =>
    `[The limit of ${formatCount(seconds, "second")} was reached: ${formatPartial(text)}]`,
  budget: ({ tokens = 0, text, error }) =>
    error
      ? `[${formatProblem(error)}; ${formatPartial(text)}]`
      : `[The limit of ${formatCount(tokens, "token")} was reached: ${formatPartial(text)}]`,
  aborted: ({ text }) => `[The run was interrupted: ${formatPartial(text)}]`,
  error: ({ error, text }) => `[${error && formatProblem(error)}${text === "" ? "" : `; ${formatPartial(text)}`}]`,
};

function formatPartial(text: string): string {
  return text === "" ? "there is no result yet" : "this is a partial result";
}

/** Formats refusals as one text: each message and its fix. */
export function formatRefusals(refusals: readonly Problem[]): string {
  return refusals.flatMap((problem) => [problem.message, formatFix(problem)].filter((line) => line !== "")).join("\n");
}

/** A run in progress: await it for the result, iterate it for the events, abort it. */
export interface Run<Event, Result> extends PromiseLike<Result>, AsyncIterable<Event> {
  abort(): void;
}

interface EventLink<Event> {
  event?: Event;
  next?: EventLink<Event>;
}

/** The number of events kept for a consumer that starts to iterate late. */
const MAX_KEPT_EVENTS = 10_000;

/** Starts a run. Contract of `work`: it resolves, even if it was aborted or refused. `emit` never throws. */
export function startRun<Event, Result>(
  work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<Result>,
  outer?: AbortSignal,
): Run<Event, Result> {
  const controller = new AbortController();
  const signal = outer ? AbortSignal.any([outer, controller.signal]) : controller.signal;
  // Each iterator holds its own position, so events that all iterators have passed are freed. Before the first iterator, the last
  // events are kept.
  let last: EventLink<Event> = {};
  let first: EventLink<Event> | undefined = last;
  let kept = 0;
  let isOver = false;
  const waiting: (() => void)[] = [];
  const wake = () => {
    for (const resume of waiting.splice(0)) resume();
  };
  const emit = (event: Event) => {
    last.next = {};
    last.event = event;
    last = last.next;
    if (first && ++kept > MAX_KEPT_EVENTS) first = first.next;
    wake();
  };
  const result = work(emit, signal).finally(() => {
    isOver = true;
    wake();
  });
  result.then(undefined, () => {}); // A rejection reaches the code that awaits the run; without one, it is not unhandled.
  return {
    // biome-ignore lint/suspicious/noThenProperty: a run is awaited like a promise
    then: (fulfilled, rejected) => result.then(fulfilled, rejected),
    abort: () => controller.abort(),
    async *[Symbol.asyncIterator]() {
      let at = first ?? last;
      first = undefined;
      for (;;) {
        for (; at.next; at = at.next) yield at.event as Event;
        if (isOver) return void (await result);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}

/** Creates a unique run id that sorts by start time. */
export function createRunId(): string {
  const time = new Date().toISOString().replace(/\D/g, "");
  return `${time.slice(0, 8)}-${time.slice(8, 14)}-${randomBytes(4).toString("hex")}`;
}

/** Formats an event as one progress line for a remote caller. Returns undefined for an event that is not worth a line. */
export function formatRunProgress(event: RunEvent): string | undefined {
  const line = (PROGRESS_LINES[event.type] as ((event: RunEvent) => string) | undefined)?.(event);
  return line === undefined ? undefined : sanitizeLine(event.skill === "" ? line : `${event.skill}: ${line}`, 300);
}

type ProgressLines = { [Type in RunEvent["type"]]?: (event: Extract<RunEvent, { type: Type }>) => string };

const PROGRESS_LINES: ProgressLines = {
  "run-started": ({ model }) => `started with ${model}`,
  "run-warned": ({ message }) => message,
  "packages-built": ({ text }) => text,
  "model-retried": ({ reason }) => reason,
  "tool-called": ({ tool, step }) => `calls ${tool} (step ${step})`,
  "tool-progressed": ({ tool, text }) => `${tool}: ${text}`,
  "tool-blocked": ({ tool, message }) => `${tool} was blocked: ${message}`,
  "step-ended": ({ step, calls }) => (calls === 0 ? `answers (step ${step})` : `step ${step} is done`),
  "approval-requested": ({ tool }) => `waiting for approval of ${tool}`,
};

/** Reports the progress of a run to a callback. */
export function reportRunProgress(
  run: Run<RunEvent, RunResult>,
  tell: CallOptions["onProgress"],
): Run<RunEvent, RunResult> {
  const follow = async () => {
    for await (const event of run) {
      const line = formatRunProgress(event);
      if (line !== undefined) tell?.(line);
    }
  };
  if (tell) void follow();
  return run;
}

/** Converts an error to a problem: a known error, an error of the operating system, or an unexpected one. */
export function toProblem(error: unknown): Problem {
  if (error instanceof SkillError) return error.problem;
  if (getErrnoCode(error) === "") {
    const fix = "try again; if it happens again, it is a bug in skillet or in the program that embeds it";
    return { code: "failed", message: `Unexpected error: ${sanitizeLine(getErrorMessage(error), 300)}`, fix };
  }
  return {
    code: "system-error",
    message: `Not run: ${sanitizeLine(getErrorMessageWithPath(error), 300)} (${getErrnoCode(error)})`,
    fix: "check permissions of the folders it needs and the free disk space",
  };
}

/** Warns about code that ran without isolation because the operator disabled it. */
export function warnNoIsolation(isolation: Pick<Isolation, "level"> | undefined): Problem[] {
  if (isolation?.level !== "none") return [];
  return [
    {
      code: "not-isolated",
      message: "This code was not isolated: it could do everything that you can",
      fix: 'remove level = "none" under [sandbox] in config.toml',
    },
  ];
}
