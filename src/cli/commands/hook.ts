import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { openAdviceFiles } from "../../session/advice-memory.ts";
import {
  adviseClient,
  findHookFormat,
  HOOK_FORMATS,
  type HookAdvice,
  type HookFormat,
  type HookInput,
  readHookInput,
} from "../../session/prompt-hooks.ts";
import { openStanding } from "../../session/standing.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, unreadableConfiguration } from "../found.ts";
import { type Io, printer, printJsonLine } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";

interface HookOptions {
  debug?: boolean;
}

/** How a model that is told by a hook loads a skill. */
export const LOAD_WITH =
  "call the load_skill tool with its name (or, without that tool, run: skillet show NAME --body)";

/** Most input that is read, in characters. */
const MOST_INPUT = 1024 * 1024;

/** Answers a client's prompt hook. A hook that fails may block the prompt, so that whatever happens the answer is one that adds nothing. */
export async function hook({ io, options, args: [client = ""] }: Context<HookOptions>): Promise<number> {
  const format = findHookFormat(client);
  try {
    if (!format) throw unknownClient(client);
    const { advice, answer } = await adviseOn(io, client, format, options);
    if (options.debug) printDecision(io, advice);
    printJsonLine(io.stdout, answer);
  } catch (error) {
    printProblem(io, error);
    printJsonLine(io.stdout, format?.neutral ?? {});
  }
  return EXIT.fine;
}

async function adviseOn(
  io: Io,
  client: string,
  format: HookFormat,
  options: HookOptions & CommonOptions,
): Promise<HookAdvice> {
  const input = readHookInput(format, parseInput((await io.stdin?.()) ?? ""));
  if (!input) throw noPrompt(`The input has no ${format.input.prompt[0]}`);
  const found = await discoverFor(io, { ...options, ...workspaceOf(input, options) });
  // Without the settings, a skill that they disable would be given.
  if (found.configuration.isBroken) throw unreadableConfiguration(found.configuration.diagnostics);
  const { catalog, home } = found;
  if (options.debug) printLeftOut(io, found);
  const conversation = input.conversation && `${client} ${input.conversation}`;
  return adviseClient(format, input.prompt, {
    catalog,
    host: found,
    loadWith: LOAD_WITH,
    memory: openAdviceFiles(join(home, "cache", "advice")),
    ...(conversation === undefined ? {} : { conversation }),
    ...(input.isSummarized ? { isSummarized: true } : {}),
  });
}

function parseInput(text: string): unknown {
  if (text.length > MOST_INPUT) throw noPrompt(`The input is longer than ${MOST_INPUT} characters`);
  try {
    return JSON.parse(text);
  } catch {
    throw noPrompt("The input is not JSON");
  }
}

/** The workspace is the folder that the client works in, unless an option names one. */
function workspaceOf({ cwd }: HookInput, options: CommonOptions): CommonOptions {
  return options.workspace === undefined && cwd !== undefined && existsSync(cwd) ? { workspace: cwd } : {};
}

function noPrompt(message: string): SkillError {
  return new SkillError("usage", {
    message,
    fix: 'the client writes it to stdin, for example {"prompt":"review my changes"}',
  });
}

function unknownClient(client: string): SkillError {
  const message = client === "" ? "No client is named" : `Unknown client "${oneLine(client, 64)}"`;
  return new SkillError("usage", { message, fix: `Supported clients: ${Object.keys(HOOK_FORMATS).join(", ")}` });
}

function printDecision(io: Io, { kind, text, skills, reasons }: HookAdvice["advice"]): void {
  const out = printer(io.stderr, io.env);
  const names = skills.map(({ name }) => name).join(", ");
  out.line`${out.dim("·")} ${kind}${names === "" ? "" : `: ${names}`} (${text.length} characters)`;
  for (const reason of reasons) out.line`  ${oneLine(reason, 300)}`;
}

/** Names no skill that is left out: a client may show its model what a hook prints. */
function printLeftOut(io: Io, found: Discovered): void {
  const standing = openStanding(found);
  const { length } = found.catalog.skills.filter((skill) => standing(skill) !== undefined);
  const out = printer(io.stderr, io.env);
  if (length > 0)
    out.line`${out.dim("·")} ${count(length, "skill")} not offered until approved: skillet trust --text .`;
}

function printProblem(io: Io, error: unknown): void {
  const out = printer(io.stderr, io.env);
  out.line`${out.red("✗")} skillet hook: ${oneLine(error instanceof Error ? error.message : String(error), 300)}`;
  if (error instanceof SkillError && error.fix) out.line`  ${oneLine(error.fix, 300)}`;
}
