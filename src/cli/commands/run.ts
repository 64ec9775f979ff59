import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import type { Host } from "../../host/host.ts";
import { type UseRequest, useSkill } from "../../run/use.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { type CallerOptions, discoverToRun, requireConfiguration } from "../found.ts";
import { type Io, interruption, printer } from "../io.ts";
import { exitOf, sayResult } from "../outcome.ts";
import type { Context } from "../program.ts";
import { type SeenOptions, seenRun } from "../seen-run.ts";
import { traced } from "../traces.ts";
import { askForWaiting, isWaiting } from "../waiting.ts";
import { explainMissing } from "./show.ts";

interface UseOptions extends CallerOptions, SeenOptions {
  input?: string;
  context?: string;
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
  dryRun?: boolean;
}

/** Uses a skill as a sub-agent: its answer goes to stdout, all else to stderr. */
export async function run({ io, options, args }: Context<UseOptions>): Promise<number> {
  const [name = "", ...words] = args;
  const found = await discoverToRun(io, options);
  requireConfiguration(io, found);
  const skill = found.catalog.find(name);
  if (!skill && !options.json && !options.events) return explainMissing(io, found, name);
  const request = await requestOf(io, options, name, words);
  if (options.dryRun) return (await import("./dry-run.ts")).dryRun(io, found, request, options);
  const signal = interruption(io);
  return traced(io, async (traces) => {
    const start = (host: Host) => useSkill(found.catalog, host, { ...request, signal });
    const use = () => seenRun(io, { ...found, ...(traces ? { onEvent: traces.take } : {}) }, options, start);
    let result = await use();
    const { refusals } = result;
    if (skill && isWaiting(refusals) && (await askForWaiting(io, found, [{ skill, refusals }]))) result = await use();
    sayResult(io, found, result, options);
    return exitOf(result);
  });
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
