import { randomBytes } from "node:crypto";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import type { Caller } from "../../host/host-policy.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { Isolation } from "../../host/sandbox-contract.ts";
import type { CallOptions, ToolResult, Usage } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount } from "../../util/text.ts";
import { escapeInvisible, sanitizeLine } from "../../util/untrusted-text.ts";
import { shortenMiddle } from "../tools/tool-output.ts";

/** What a use of a skill came to. A refusal and a failure are such a result too, never an exception. */
export interface RunResult {
  run: string;
  skill: string;
  /** The answer; what there was when a limit was reached; or why there is none. */
  content: string;
  isError: boolean;
  /** How often the model was asked. */
  iterations: number;
  stop: StopReason;
  /** Why it was not started: all of it at once. */
  refusals: readonly Problem[];
  /** What somebody should look at although it ran. */
  warnings: readonly Problem[];
  /** What somebody has to agree to before it goes on, where it waits for that. */
  effect?: ApprovalRequest;
  /** What went wrong, where something did. */
  error?: Problem;
  source?: string;
  model?: string;
  usage: Usage;
  /** In US dollars, where the price is known. */
  cost?: number;
  ms: number;
  /** How its code was kept apart, where any ran. */
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

/** A result as the agent that asked for it reads it. Nothing that the skill said can close these tags, or open others like them. */
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

/** The same as the result of a tool, with at most so much of the answer. */
export function toToolResult(result: RunResult, most: number): ToolResult {
  const { run, skill, isError, iterations, stop, refusals, error, usage, cost, model } = result;
  if (refusals.length > 0) return { ...createRefusalResult(refusals), iterations };
  const content = wrapResult({ skill, content: shortenMiddle(result.content, most) });
  const code = error?.code ?? (stop === "answer" || stop === "complete" ? undefined : stop);
  const metadata = { run, stop, ...omitUndefined({ model }) };
  return { content, isError, iterations, usage, metadata, ...omitUndefined({ code, cost }) };
}

/** Why something was not done, as the result of a tool: the host's own words need no tags, but may hold names of others. */
export function createRefusalResult(refusals: readonly Problem[]): ToolResult {
  const lines = refusals.flatMap(({ message, fix }) => {
    const [first = "", ...more] = fix.split("\n").slice(0, MAX_FIX_LINES);
    // What is to be written into a file stays in the lines that it was given in.
    return [
      sanitizeLine(first === "" ? message : `${message}: ${first}`, 512),
      ...more.map((line) => sanitizeLine(line, 512)),
    ];
  });
  return { content: lines.join("\n"), isError: true, code: refusals[0]?.code ?? "refused" };
}

const MAX_FIX_LINES = 20;

interface RunEnding {
  stop: StopReason;
  text: string;
  iterations: number;
  seconds: number;
  tokens: number | undefined;
  error: Problem | undefined;
  warning?: Problem;
}

/** The answer, or what there is of it, with what ended it. */
export function formatRunContent(ending: RunEnding): string {
  const line = STOP_LINES[ending.stop]?.(ending);
  if (line === undefined) return ending.warning ? `${ending.text}\n\n[${ending.warning.message}]` : ending.text;
  return ending.text === "" ? line : `${ending.text}\n\n${line}`;
}

const STOP_LINES: Partial<Record<StopReason, (ending: RunEnding) => string>> = {
  "max-steps": ({ iterations, text }) =>
    `[The limit of ${formatCount(iterations, "iteration")} was reached: ${formatPartial(text)}]`,
  timeout: ({ seconds, text }) =>
    `[The limit of ${formatCount(seconds, "second")} was reached: ${formatPartial(text)}]`,
  budget: ({ tokens = 0, text }) =>
    `[The limit of ${formatCount(tokens, "token")} was reached: ${formatPartial(text)}]`,
  aborted: ({ text }) => `[The run was interrupted: ${formatPartial(text)}]`,
  error: ({ error, text }) => `[${error?.message}: ${error?.fix}${text === "" ? "" : `; ${formatPartial(text)}`}]`,
};

function formatPartial(text: string): string {
  return text === "" ? "there is no result yet" : "this is a partial result";
}

/** Refusals as one text: what, and what to do. */
export function formatRefusals(refusals: readonly Problem[]): string {
  return refusals.map(({ message, fix }) => (fix === "" ? message : `${message}\n${fix}`)).join("\n");
}

/** Work under way: await it for the result, iterate it for the events, abort it. */
export interface Run<Event, Result> extends PromiseLike<Result>, AsyncIterable<Event> {
  abort(): void;
}

interface EventLink<Event> {
  event?: Event;
  next?: EventLink<Event>;
}

/** How many events are kept for somebody who comes late. */
const MAX_KEPT_EVENTS = 10_000;

/** Contract of `work`: it resolves, also when it was aborted or refused. `emit` never throws. */
export function startRun<Event, Result>(
  work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<Result>,
  outer?: AbortSignal,
): Run<Event, Result> {
  const controller = new AbortController();
  const signal = outer ? AbortSignal.any([outer, controller.signal]) : controller.signal;
  // Whoever iterates holds the place that it has come to: what all have seen is let go of. Until somebody does, the last ones are kept.
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
  result.then(undefined, () => {}); // Whoever awaits it is told; nobody else is.
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

/** In the order of their beginning, and nobody else's. */
export function createRunId(): string {
  const time = new Date().toISOString().replace(/\D/g, "");
  return `${time.slice(0, 8)}-${time.slice(8, 14)}-${randomBytes(4).toString("hex")}`;
}

/** What a run is doing, in a line, for whoever waits for it elsewhere. Nothing for what is not worth one. */
export function formatRunProgress(event: RunEvent): string | undefined {
  const line = (PROGRESS_LINES[event.type] as ((event: RunEvent) => string) | undefined)?.(event);
  return line === undefined ? undefined : sanitizeLine(event.skill === "" ? line : `${event.skill}: ${line}`, 300);
}

type ProgressLines = { [Type in RunEvent["type"]]?: (event: Extract<RunEvent, { type: Type }>) => string };

const PROGRESS_LINES: ProgressLines = {
  "run-started": ({ model }) => `begins, with ${model}`,
  "run-warned": ({ message }) => message,
  "packages-built": ({ text }) => text,
  "model-retried": ({ reason }) => reason,
  "tool-called": ({ tool, step }) => `calls ${tool} (step ${step})`,
  "tool-progressed": ({ tool, text }) => `${tool}: ${text}`,
  "tool-blocked": ({ tool, message }) => `${tool} was blocked: ${message}`,
  "step-ended": ({ step, calls }) => (calls === 0 ? `answers (step ${step})` : `step ${step} is done`),
  "approval-asked": ({ tool }) => `waits for somebody to agree to ${tool}`,
};

/** A run of which it is told how far it is. */
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

/** What could not be had, what the machine refuses, or what nobody thought of. */
export function toProblem(error: unknown): Problem {
  if (error instanceof SkillError) return { code: error.code, message: error.message, fix: error.fix ?? "" };
  if (getErrnoCode(error) === "") {
    const fix = "try again; if it stays so, it is a bug of skillet or of the program around it";
    return { code: "failed", message: `It failed: ${sanitizeLine(getErrorMessage(error), 300)}`, fix };
  }
  return {
    code: "machine",
    message: `It could not be run: ${getErrorMessage(error)} (${getErrnoCode(error)})`,
    fix: "check the folders that it needs, and that there is room",
  };
}

/** Code that nothing kept apart, because the operator said so. */
export function warnNoIsolation(isolation: Pick<Isolation, "level"> | undefined): Problem[] {
  if (isolation?.level !== "none") return [];
  return [
    {
      code: "not-isolated",
      message: "Nothing kept this code apart: it could do all that you can",
      fix: 'remove level = "none" under [sandbox] in config.toml',
    },
  ];
}
