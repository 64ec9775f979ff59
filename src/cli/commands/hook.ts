import { existsSync } from "node:fs";
import { join } from "node:path";
import { createTextTrust } from "../../agent/policy/trust-policy.ts";
import { createFileAdviceMemory } from "../../agent/session/advise.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { formatFix, SkillError } from "../../errors/problem.ts";
import {
  adviseClient,
  findHookFormat,
  HOOK_FORMATS,
  type HookAdvice,
  type HookFormat,
  type HookInput,
  readHookInput,
} from "../../remote/clients/prompt-hook-config.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  createConfigurationError,
  discoverForCommand,
  EXIT,
  formatExamples,
} from "../command-context.ts";
import { type CommandIo, createPrinter, printJsonLine, printProblem } from "../output.ts";

/** `skillet hook`. */
export const hookCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Answer a client's prompt hook with text to add to the prompt")
      .argument("[client]", `One of ${PROMPT_HOOK_CLIENTS.join(", ")}`)
      .option("--debug", "Print the decision and its reasons to stderr")
      .addHelpText(
        "after",
        "\nAlways exits with 0. After a problem, which is printed to stderr, the answer\nadds nothing to the prompt.",
      )
      .addHelpText("after", formatExamples(`echo '{"prompt":"review my changes"}' | skillet hook claude --debug`)),
  run: answerHook,
};

/** The clients with a prompt hook, repeated here. */
export const PROMPT_HOOK_CLIENTS = ["claude", "codex", "gemini", "opencode", "copilot", "cursor"];

interface HookOptions {
  debug?: boolean;
}

/** The instruction for a model that learns of a skill from a hook. */
export const LOAD_INSTRUCTION =
  "call the load_skill tool with its name (or, without that tool, run: skillet show NAME --body)";

/** The maximum length of the input, in characters. */
const MAX_INPUT_BYTES = 1024 * 1024;

/** Answers a client's prompt hook. A failing hook may block the prompt, so the answer to any problem is one that adds nothing. */
async function answerHook({ io, options, args: [client = ""] }: CommandContext<HookOptions>): Promise<number> {
  const format = findHookFormat(client);
  try {
    if (!format) throw createUnknownClientError(client);
    const { advice, answer } = await advisePrompt(io, client, format, options);
    if (options.debug) printHookDecision(io, advice);
    printJsonLine(io.stdout, answer);
  } catch (error) {
    printHookProblem(io, error);
    printJsonLine(io.stdout, format?.neutral ?? {});
  }
  return EXIT.fine;
}

async function advisePrompt(
  io: CommandIo,
  client: string,
  format: HookFormat,
  options: HookOptions & CommonOptions,
): Promise<HookAdvice> {
  const input = readHookInput(format, parseInput((await io.stdin?.()) ?? ""));
  if (!input) throw createNoPromptError(`The input has no ${format.input.prompt[0]}`);
  const found = await discoverForCommand(io, { ...options, ...resolveHookWorkspace(input, options) });
  // Without the settings, a disabled skill could be included.
  if (found.configuration.isBroken) throw createConfigurationError(found.configuration.diagnostics);
  const { catalog, home } = found;
  if (options.debug) printUntrustedHint(io, found);
  const conversation = input.conversation && `${client} ${input.conversation}`;
  return adviseClient(format, input.prompt, {
    catalog,
    host: found,
    loadWith: LOAD_INSTRUCTION,
    memory: createFileAdviceMemory(join(home, "cache", "advice")),
    ...(conversation === undefined ? {} : { conversation }),
    ...(input.isSummarized ? { isSummarized: true } : {}),
  });
}

function parseInput(text: string): unknown {
  if (text.length > MAX_INPUT_BYTES)
    throw createNoPromptError(`The input is longer than ${MAX_INPUT_BYTES} characters`);
  try {
    return JSON.parse(text);
  } catch {
    throw createNoPromptError("The input is not JSON");
  }
}

/** Returns the client's working directory as the workspace, unless an option names one. */
function resolveHookWorkspace({ cwd }: HookInput, options: CommonOptions): CommonOptions {
  return options.workspace === undefined && cwd !== undefined && existsSync(cwd) ? { workspace: cwd } : {};
}

function createNoPromptError(message: string): SkillError {
  return new SkillError("usage", {
    message,
    fix: 'the client writes it to stdin, for example {"prompt":"review my changes"}',
  });
}

function createUnknownClientError(client: string): SkillError {
  const message = client === "" ? "No client is named" : `Unknown client "${truncateLine(client, 64)}"`;
  return new SkillError("usage", { message, fix: `Supported clients: ${Object.keys(HOOK_FORMATS).join(", ")}` });
}

function printHookDecision(io: CommandIo, { kind, text, skills, reasons }: HookAdvice["advice"]): void {
  const out = createPrinter(io.stderr, io.env);
  const names = skills.map(({ name }) => name).join(", ");
  out.line`${out.dim("·")} ${kind}${names === "" ? "" : `: ${names}`} (${text.length} characters)`;
  for (const reason of reasons) out.line`  ${truncateLine(reason, 300)}`;
}

/** Prints only the number of omitted skills: a client may show its model what a hook prints. */
function printUntrustedHint(io: CommandIo, found: DiscoverResult): void {
  const textTrust = createTextTrust(found);
  const { length } = found.catalog.skills.filter((skill) => textTrust(skill) !== undefined);
  const out = createPrinter(io.stderr, io.env);
  if (length > 0)
    out.line`${out.dim("·")} ${formatCount(length, "skill")} not offered until approved: skillet trust --text .`;
}

function printHookProblem(io: CommandIo, error: unknown): void {
  const out = createPrinter(io.stderr, io.env);
  const { code, ...problem } = error instanceof SkillError ? error.problem : { code: "internal-error", fix: "" };
  const message = `skillet hook: ${truncateLine(error instanceof Error ? error.message : String(error), 300)}`;
  printProblem(out, out.red("✗"), { code, message, fix: truncateLine(formatFix(problem), 300) });
}
