import type { Discovered } from "../host/discover.ts";
import type { Runs } from "../host/runs.ts";
import type { RunResult } from "../run/result.ts";
import { count, oneLine } from "../shared/text.ts";
import { declaredVariables } from "../skill/needs.ts";
import { effectLine } from "./effect.ts";
import { EXIT } from "./exit.ts";
import { forTerminal } from "./fold.ts";
import { type Io, printer, printJson, printJsonLine } from "./io.ts";
import { fromHere } from "./next-step.ts";
import { sayUsage } from "./progress.ts";
import { sayNotice } from "./say.ts";
import { withSecrets } from "./secrets.ts";

export interface OutcomeOptions {
  json?: boolean;
  events?: boolean;
  quiet?: boolean;
  showSecrets?: boolean;
  workspace?: string;
}

/** What came of a run: the answer on stdout, all else on stderr. */
export function sayResult(io: Io, found: Discovered, result: RunResult, options: OutcomeOptions): void {
  const content = options.showSecrets ? withSecrets(result.content, [result.skill], found) : result.content;
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result, content });
  else if (options.json) printJson(io.stdout, { ...result, content });
  else sayAnswer(io, found, { ...result, content }, options);
}

function sayAnswer(io: Io, found: Discovered, result: RunResult, options: OutcomeOptions): void {
  const said = answerOf(result, result.content);
  if (said !== "") io.stdout.write(`${forTerminal(said)}\n`);
  sayProblems(io, result, options);
  if (!options.quiet) {
    if (!options.showSecrets) hintAtSecrets(io, found, result);
    sayOutcome(io, result);
  }
  sayHowToGoOn(io, found, result, options);
}

/** What is an answer, or a part of one: why there is none is said elsewhere. */
export function answerOf({ stop, error }: RunResult, content: string): string {
  if (stop === "refused" || stop === "waiting") return "";
  return stop === "error" && error ? content.slice(0, Math.max(0, content.lastIndexOf("\n\n["))) : content;
}

/** Why it was refused or failed, and what to do. */
export function sayProblems(
  io: Io,
  { refusals, error }: RunResult,
  { workspace }: Pick<OutcomeOptions, "workspace"> = {},
): void {
  const out = printer(io.stderr, io.env);
  for (const { message, fix } of [...refusals, ...(error ? [error] : [])])
    sayNotice(out, out.red("✗"), message, fromHere(fix, workspace));
}

/** Who sees a name in brackets may wonder where the value is. */
function hintAtSecrets(io: Io, found: Discovered, { skill, content }: RunResult): void {
  const used = found.catalog.find(skill);
  const shown = used ? declaredVariables(used).filter((name) => content.includes(`[${name}]`)) : [];
  const out = printer(io.stderr, io.env);
  for (const name of shown) out.line`${out.dim(`· [${name}] stands for its value; --show-secrets shows it`)}`;
}

/** How it ended, in a line. */
export function sayOutcome(io: Io, result: RunResult): void {
  const { isError, iterations, ms, model, isolation, usage, cost, stop } = result;
  if (stop === "refused") return;
  const error = printer(io.stderr, io.env);
  const details = [
    count(iterations, "iteration"),
    `${(ms / 1000).toFixed(1)} s`,
    ...sayUsage(usage, cost),
    ...(model === undefined ? [] : [model]),
    ...(isolation === undefined ? [] : [isolation.level === "none" ? "NOT ISOLATED" : `${isolation.level} isolation`]),
  ];
  const mark = stop === "waiting" ? error.yellow("?") : isError ? error.red("✗") : error.green("✓");
  const said = result.error?.code === "run-cancelled" ? "called off" : SAID[stop];
  error.line`${mark} ${said} ${error.dim(`(${details.join(", ")})`)}`;
  const set = SET_BY[stop];
  if (set !== undefined) error.line`  the least of these holds: ${set}`;
}

/** With which commands one goes on. What it waits for is said also to whoever wants to hear nothing else. */
export function sayHowToGoOn(
  io: Io,
  { runs }: Discovered,
  { run, stop, effect }: RunResult,
  { quiet }: OutcomeOptions,
): void {
  const out = printer(io.stderr, io.env);
  if (stop === "waiting") {
    if (effect) out.line`${out.yellow("!")} somebody has to agree: ${oneLine(effectLine(effect), 300)}`;
    out.line`  ${out.cyan(`skillet approve ${run} --resume`)}  agrees, and goes on; --deny REASON does not`;
    out.line`  ${out.cyan(`skillet runs show ${run}`)}  says what it would do, and what was done until now`;
  } else if (!quiet && (stop === "aborted" || stop === "error") && isResumable(runs, run)) {
    out.line`  ${out.cyan(`skillet resume ${run}`)}  goes on from here`;
  }
}

function isResumable(runs: Runs, id: string): boolean {
  try {
    return runs.find(id).state === "interrupted";
  } catch {
    return false; // It was not written down.
  }
}

const SET_BY: Partial<Record<RunResult["stop"], string>> = {
  "max-steps": "max_iterations of the skill, --max-iterations, [limits]",
  timeout: "--timeout, timeout_seconds of [limits]",
  budget: "--budget, tokens of [limits]",
};

const SAID: Record<RunResult["stop"], string> = {
  answer: "done",
  complete: "done",
  failed: "it could not be done",
  refused: "refused",
  "max-steps": "stopped at its limit of iterations",
  timeout: "stopped at its time limit",
  budget: "stopped at its limit of tokens",
  aborted: "interrupted",
  waiting: "it waits for an approval",
  error: "it failed",
};

const EXITS: Partial<Record<RunResult["stop"], number>> = {
  refused: EXIT.refused,
  "max-steps": EXIT.limit,
  timeout: EXIT.limit,
  budget: EXIT.limit,
  aborted: EXIT.interrupted,
  waiting: EXIT.waiting,
};

export function exitOf({ stop, isError, refusals }: RunResult): number {
  if (refusals.some(({ code }) => code === "not-found")) return EXIT.findings;
  return EXITS[stop] ?? (isError ? EXIT.findings : EXIT.fine);
}
