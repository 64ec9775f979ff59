import type { Effect } from "../host/approvals.ts";
import type { Caller } from "../host/caller.ts";
import type { Stop } from "../host/events.ts";
import { NO_USAGE, type Usage } from "../host/models.ts";
import type { Isolation, Notice } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import { spellHidden } from "../shared/hidden.ts";
import { inLine } from "../shared/prompt.ts";
import { count } from "../shared/text.ts";
import type { ToolResult } from "../skill/tool.ts";
import { shortened } from "./printed.ts";

/** What a use of a skill came to. A refusal and a failure are such a result too, never an exception. */
export interface RunResult {
  run: string;
  skill: string;
  /** The answer; what there was when a limit was reached; or why there is none. */
  content: string;
  isError: boolean;
  /** How often the model was asked. */
  iterations: number;
  stop: Stop;
  /** Why it was not started: all of it at once. */
  refusals: readonly Notice[];
  /** What somebody should look at although it ran. */
  warnings: readonly Notice[];
  /** What somebody has to agree to before it goes on, where it waits for that. */
  effect?: Effect;
  /** What went wrong, where something did. */
  error?: Notice;
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
  success: (content: string, iterations = 0): RunResult => ({ ...NO_RUN, content, isError: false, iterations }),
  error: (message: string): RunResult => ({ ...NO_RUN, content: message, isError: true, iterations: 0, stop: "error" }),
};

const NO_RUN = { run: "", skill: "", stop: "answer", refusals: [], warnings: [], usage: NO_USAGE, ms: 0 } as const;

/** A result as the agent that asked for it reads it. Nothing that the skill said can close these tags, or open others like them. */
export function wrapResult({ skill, content }: Pick<RunResult, "skill" | "content">): string {
  const { text, count: hidden } = spellHidden(content);
  const note = hidden > 0 ? `[${count(hidden, "hidden character")} in this text, written out as \\u{…}]\n` : "";
  const name = inLine(skill, 64).replaceAll('"', "&quot;");
  return `<instruction>
This is the result from running the "${name}" skill.
The user has NOT seen this output. Interpret and include it in your response.
</instruction>
<output>
${note}${text.replace(TAGS, "&lt;")}
</output>`;
}

const TAGS = /<(?=[\s/]*(?:instruction|output|skill_))/gi;

/** The same as the result of a tool, with at most so much of the answer. */
export function asToolResult(result: RunResult, most: number): ToolResult {
  const { run, skill, isError, iterations, stop, refusals, error, usage, cost, model } = result;
  if (refusals.length > 0) return { ...refusedResult(refusals), iterations };
  const content = wrapResult({ skill, content: shortened(result.content, most) });
  const code = error?.code ?? (stop === "answer" || stop === "complete" ? undefined : stop);
  const metadata = { run, stop, ...defined({ model }) };
  return { content, isError, iterations, usage, metadata, ...defined({ code, cost }) };
}

/** Why something was not done, as the result of a tool: the host's own words need no tags, but may hold names of others. */
export function refusedResult(refusals: readonly Notice[]): ToolResult {
  const lines = refusals.flatMap(({ message, fix }) => {
    const [first = "", ...more] = fix.split("\n").slice(0, MOST_LINES);
    // What is to be written into a file stays in the lines that it was given in.
    return [inLine(first === "" ? message : `${message}: ${first}`, 512), ...more.map((line) => inLine(line, 512))];
  });
  return { content: lines.join("\n"), isError: true, code: refusals[0]?.code ?? "refused" };
}

const MOST_LINES = 20;

export interface Ending {
  stop: Stop;
  text: string;
  iterations: number;
  seconds: number;
  tokens: number | undefined;
  error: Notice | undefined;
  warning?: Notice;
}

/** The answer, or what there is of it, with what ended it. */
export function contentOf(ending: Ending): string {
  const line = LINES[ending.stop]?.(ending);
  if (line === undefined) return ending.warning ? `${ending.text}\n\n[${ending.warning.message}]` : ending.text;
  return ending.text === "" ? line : `${ending.text}\n\n${line}`;
}

const LINES: Partial<Record<Stop, (ending: Ending) => string>> = {
  "max-steps": ({ iterations, text }) =>
    `[The limit of ${count(iterations, "iteration")} was reached: ${partial(text)}]`,
  timeout: ({ seconds, text }) => `[The limit of ${count(seconds, "second")} was reached: ${partial(text)}]`,
  budget: ({ tokens = 0, text }) => `[The limit of ${count(tokens, "token")} was reached: ${partial(text)}]`,
  aborted: ({ text }) => `[The run was interrupted: ${partial(text)}]`,
  error: ({ error, text }) => `[${error?.message}: ${error?.fix}${text === "" ? "" : `; ${partial(text)}`}]`,
};

function partial(text: string): string {
  return text === "" ? "there is no result yet" : "this is a partial result";
}

/** Refusals as one text: what, and what to do. */
export function sayRefusals(refusals: readonly Notice[]): string {
  return refusals.map(({ message, fix }) => (fix === "" ? message : `${message}\n${fix}`)).join("\n");
}
