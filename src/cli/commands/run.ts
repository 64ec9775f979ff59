import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import type { RunResult } from "../../run/result.ts";
import { type UseRequest, useSkill } from "../../run/use.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { count } from "../../shared/text.ts";
import { declaredVariables } from "../../skill/needs.ts";
import { EXIT } from "../exit.ts";
import { type CallerOptions, discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, interruption, printer, printJson, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { openProgress, sayUsage } from "../progress.ts";
import { forTerminal, sayNotice } from "../say.ts";
import { withSecrets } from "../secrets.ts";
import { explainMissing } from "./show.ts";
import { askForTrust } from "./trust.ts";

interface UseOptions extends CallerOptions {
  input?: string;
  context?: string;
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
  dryRun?: boolean;
  events?: boolean;
  quiet?: boolean;
  showSecrets?: boolean;
}

/** Uses a skill as a sub-agent: its answer goes to stdout, all else to stderr. */
export async function run({ io, options, args }: Context<UseOptions>): Promise<number> {
  const [name = "", ...words] = args;
  const found = await discoverFor(io, options);
  if (!warnOfConfiguration(io, found)) return EXIT.usage;
  const skill = found.catalog.find(name);
  if (!skill && !options.json && !options.events) return explainMissing(io, found, name);
  const request = await requestOf(io, options, name, words);
  if (options.dryRun) return (await import("./dry-run.ts")).dryRun(io, found, request, options.json ?? false);
  const signal = interruption(io);
  let result = await printed(io, found, { ...request, signal }, options);
  const waitsForTrust = result.refusals.some(({ code }) => code === "untrusted" || code === "changed");
  if (skill && waitsForTrust && result.refusals.length === 1 && (await askForTrust(io, found, [skill]))) {
    result = await printed(io, found, { ...request, signal }, options);
  }
  sayResult(io, found, result, options);
  return exitOf(result);
}

async function requestOf(io: Io, options: UseOptions, name: string, words: readonly string[]): Promise<UseRequest> {
  const message = words.join(" ");
  const context =
    options.context === undefined
      ? await piped(io, "; --context - waits for it")
      : await contextOf(io, options.context);
  const input = options.input === undefined ? undefined : jsonOf(textOf(io, options.input));
  const { model } = options;
  return {
    skill: name,
    by: "user",
    ...(message === "" ? {} : { message }),
    ...(context === undefined || context.trim() === "" ? {} : { context }),
    ...(input === undefined ? {} : { input }),
    ...(model === undefined ? {} : { model }),
    ...atMost("seconds", "--timeout", options.timeout),
    ...atMost("tokens", "--budget", options.budget),
    ...atMost("iterations", "--max-iterations", options.maxIterations),
  };
}

const PATIENCE_MS = 3000;

/** What is piped in. Some programs leave a pipe open that nothing ever comes through. */
export async function piped(io: Io, hint = ""): Promise<string | undefined> {
  const text = await io.stdin?.(PATIENCE_MS);
  if (io.stdin && text === undefined) {
    const error = printer(io.stderr, io.env);
    error.line`${error.yellow("!")} nothing came on standard input: it goes on without${hint}`;
  }
  return text;
}

async function contextOf(io: Io, given: string): Promise<string | undefined> {
  return given === "-" ? io.stdin?.() : textOf(io, given);
}

/** A text, or `@file` for what stands in a file. */
function textOf(io: Io, given: string): string {
  if (!given.startsWith("@")) return given;
  const path = resolve(io.cwd, given.slice(1));
  try {
    return readAll(path);
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("usage", {
      message: `${path} cannot be read: ${reason(error)}`,
      fix: "@ stands before the name of a file",
    });
  }
}

/** As much as may be piped in. */
const LARGEST = 16 * 1024 * 1024;

/** What is no file, such as a device, may have no end. */
function readAll(path: string): string {
  const file = openSync(path, "r");
  try {
    const pieces: Buffer[] = [];
    for (let size = 0; size <= LARGEST; size += pieces.at(-1)?.length ?? 0) {
      const piece = Buffer.alloc(64 * 1024);
      const length = readSync(file, piece);
      if (length === 0) return Buffer.concat(pieces).toString();
      pieces.push(piece.subarray(0, length));
    }
  } finally {
    closeSync(file);
  }
  throw new SkillError("usage", { message: `There are more than 16 MiB in ${path}`, fix: "give less" });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SkillError("usage", {
      message: `--input is no JSON: ${reason(error)}`,
      fix: `as in --input '{"content": "…"}', or --input @file.json`,
    });
  }
}

/** A limit of the caller's own. */
export function atMost<Name extends string>(
  name: Name,
  option: string,
  given: string | undefined,
): { [K in Name]?: number } {
  if (given === undefined) return {};
  const number = Number(given);
  if (Number.isFinite(number) && number > 0) return { [name]: number } as { [K in Name]?: number };
  throw new SkillError("usage", {
    message: `${option} is "${given}", which is no number above 0`,
    fix: `as in ${option} 60`,
  });
}

/** Runs it, and shows what happens. */
async function printed(
  io: Io,
  found: Discovered,
  request: UseRequest,
  options: UseOptions & { json?: boolean },
): Promise<RunResult> {
  const progress = options.quiet || options.events || options.json ? undefined : openProgress(io);
  const running = useSkill(found.catalog, found, request);
  try {
    for await (const event of running) {
      if (options.events) printJsonLine(io.stdout, event);
      else progress?.take(event);
    }
  } finally {
    progress?.end();
  }
  return running;
}

function sayResult(io: Io, found: Discovered, result: RunResult, options: UseOptions & { json?: boolean }): void {
  const content = options.showSecrets ? withSecrets(result.content, [result.skill], found) : result.content;
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result, content });
  else if (options.json) printJson(io.stdout, { ...result, content });
  else {
    const said = answerOf(result, content);
    if (said !== "") io.stdout.write(`${forTerminal(said)}\n`);
    sayProblems(io, result);
    if (!options.quiet) {
      if (!options.showSecrets) hintAtSecrets(io, found, result);
      sayOutcome(io, result);
    }
  }
}

/** What is an answer, or a part of one: why there is none is said elsewhere. */
export function answerOf({ stop, error }: RunResult, content: string): string {
  if (stop === "refused") return "";
  return stop === "error" && error ? content.slice(0, Math.max(0, content.lastIndexOf("\n\n["))) : content;
}

/** Why it was refused or failed, and what to do. */
export function sayProblems(io: Io, { refusals, error }: RunResult): void {
  const out = printer(io.stderr, io.env);
  for (const { message, fix } of [...refusals, ...(error ? [error] : [])]) sayNotice(out, out.red("✗"), message, fix);
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
  error.line`${isError ? error.red("✗") : error.green("✓")} ${SAID[stop]} ${error.dim(`(${details.join(", ")})`)}`;
  const set = SET_BY[stop];
  if (set !== undefined) error.line`  the least of these holds: ${set}`;
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
