import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { getErrnoCode, SkillError } from "../errors/problem.ts";
import type { CapabilityProvider, ProviderAuth, ProviderContext } from "../host/capability-contract.ts";
import { getExitSignal, runProcess } from "../sandbox/process.ts";
import { omitUndefined } from "../util/objects.ts";
import { redact } from "../util/redact.ts";
import { truncateLine } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import {
  clampProviderSeconds,
  createProviderAbortError,
  createProviderTimeoutError,
  findDescriptionProblem,
  MAX_PROVIDER_TEXT,
  normalizeProviderDescription,
  ProviderStderr,
} from "./provider-contract.ts";
import {
  ANSWER_TOO_LARGE,
  createAnswerError,
  formatProviderRequest,
  MAX_PROVIDER_ANSWER_BYTES,
  type ProviderMethod,
  type ProviderMethodParams,
  type ProviderMethodResult,
  parseProviderAnswer,
} from "./provider-protocol.ts";

export interface CommandProviderOptions {
  namespace: string;
  /** The program and its arguments, of the operator's choosing. No shell reads it. `node` alone is the Node of this process. */
  command: readonly string[];
  /** All of its variables. A program without a path is looked for in the PATH among them. */
  env: Readonly<Record<string, string>>;
  /** Where it starts. */
  folder: string;
  seconds?: number;
  /** Takes out of its texts what must not be shown. What a call's own credential holds is taken out in any case. */
  hide?(text: string): string;
}

/**
 * A provider that is a program of the operator's: started for each request, which it reads as one line of JSON, and gone when it
 * has answered with one JSON object. Whatever else it does ends as an error.
 */
export function createCommandProvider(options: CommandProviderOptions): CapabilityProvider {
  const { namespace, command } = options;
  const seconds = clampProviderSeconds(options.seconds);
  const ask = <Method extends ProviderMethod>(
    method: Method,
    params: ProviderMethodParams<Method>,
    given: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
  ) => sendProviderRequest({ ...options, seconds }, method, params, given);
  const auth: ProviderAuth = {
    begin: ({ context, ...params }, { signal }) => ask("auth.begin", params, { signal, context }),
    async complete({ context, ...params }, { signal }) {
      const secret = [params.state, params.callback];
      return (await ask("auth.complete", params, { signal, context, secret })).credential;
    },
    async poll({ context, ...params }, { signal }) {
      return (await ask("auth.poll", params, { signal, context, secret: params.state })).credential;
    },
  };
  return {
    namespace,
    from: truncateLine(command.join(" "), 200),
    origin: command.join(" "),
    seconds,
    async describe({ signal }) {
      const { auth: signsIn, capabilities } = await ask("describe", {}, { signal });
      const description = { capabilities, hasAuth: (signsIn?.kinds.length ?? 0) > 0 };
      const wrong = await findDescriptionProblem(namespace, description);
      if (!wrong) return normalizeProviderDescription(description);
      const { message } = createAnswerError(namespace, "describe", sanitizeLine(wrong.problem, MAX_PROVIDER_TEXT));
      throw new SkillError("provider-answer", { message, fix: wrong.fix });
    },
    invoke({ capability, operation, input, context, key, credential }, { signal }) {
      const params = {
        capability,
        operation,
        input: input ?? {},
        idempotencyKey: key,
        ...(credential ? { credential } : {}),
      };
      return ask("invoke", params, { signal, context, secret: credential?.secret });
    },
    health: ({ signal, isSignedIn }) => ask("health", omitUndefined({ isSignedIn }), { signal }),
    auth,
  };
}

async function sendProviderRequest<Method extends ProviderMethod>(
  options: CommandProviderOptions & { seconds: number },
  method: Method,
  params: ProviderMethodParams<Method>,
  given: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
): Promise<ProviderMethodResult<Method>> {
  const { namespace, seconds } = options;
  const { signal, context = {}, secret } = given;
  const id = `req_${randomUUID().replaceAll("-", "")}`;
  const asked = { id, method, namespace, params, context, deadlineMs: seconds * 1000 };
  const hide = (text: string) => redact(options.hide?.(text) ?? text, collectSecrets(secret));
  const { ending, exitCode, stdout, stderr, died } = await runProviderProgram(
    options,
    formatProviderRequest(asked),
    signal,
  );
  const lines = readStderrLines(stderr, hide);
  const line = findErrorLine(lines);
  const said = line === undefined ? "" : `: ${sanitizeLine(line, MAX_PROVIDER_TEXT)}`;
  if (ending === "abort") throw createProviderAbortError(namespace, signal);
  if (ending === "timeout") throw createProviderTimeoutError(namespace, seconds);
  if (ending === "output") throw createAnswerError(namespace, method, `\`answer\` ${ANSWER_TOO_LARGE}`);
  try {
    const result = parseProviderAnswer(stdout, asked);
    if (exitCode === 0) return result;
  } catch (error) {
    // Many programs that say what went wrong also end as if something had.
    if (exitCode === 0 || (error as SkillError).code !== "provider-answer")
      throw createProgramError(error as SkillError, { said, lines, hide });
  }
  throw new SkillError("provider-failed", {
    message: `The provider of ${namespace} ended with ${died ?? `exit code ${exitCode}`}${said}`,
    fix: `\`skillet capability check ${namespace}\` tries it by itself, and shows what it printed`,
    ...createStderrCause(lines),
  });
}

interface StderrOutput {
  said: string;
  lines: readonly string[];
  hide(text: string): string;
}

/** What the program says went wrong, or why its answer is none, and then what it said beside it. */
function createProgramError({ code, message, fix }: SkillError, { said, lines, hide }: StderrOutput): SkillError {
  return new SkillError(code, {
    message: hide(message) + (code === "provider-answer" ? said : ""),
    ...(fix === undefined ? {} : { fix: hide(fix) }),
    ...createStderrCause(lines),
  });
}

/** Enough for an error with where it comes from, whatever stands in it. */
const MAX_STDERR_BYTES = 16 * 1024;

async function runProviderProgram(
  { namespace, command, env, folder, seconds = 0 }: CommandProviderOptions,
  line: string,
  signal: AbortSignal,
) {
  const [named = "", ...args] = command;
  const file = named === "node" ? resolveOwnNode() : named;
  const stdout: Buffer[] = [];
  let stderr: Buffer = Buffer.alloc(0);
  let size = 0;
  const onOutput = (stream: string, bytes: Buffer) => {
    if (stream === "stderr") {
      stderr = Buffer.concat([stderr, bytes]).subarray(-MAX_STDERR_BYTES);
      return true;
    }
    size += bytes.length;
    if (size <= MAX_PROVIDER_ANSWER_BYTES) stdout.push(bytes);
    return size <= MAX_PROVIDER_ANSWER_BYTES;
  };
  try {
    const program = { file, args, env, folder, secretInput: line };
    const { ending, exitCode, signal: by } = await runProcess(program, seconds, { onOutput, signal });
    return { ending, exitCode, stdout: Buffer.concat(stdout), stderr, died: by ?? getExitSignal(exitCode) };
  } catch (error) {
    throw createMissingProgramError(namespace, file, folder, error);
  }
}

function createMissingProgramError(namespace: string, file: string, folder: string, error: unknown): SkillError {
  const { cause } = Object(error) as { cause?: unknown };
  const why = !existsSync(folder)
    ? `its folder ${folder} is not there`
    : (START_PROBLEMS[getErrnoCode(cause)] ?? "the system does not start it");
  return new SkillError("provider-missing", {
    message: `The provider of ${namespace} is not there: ${truncateLine(file, 200) || "no command"}: ${why}`,
    fix: `install it, or say where it is: command under [capabilities.providers.${namespace}] in config.toml`,
    cause: error,
  });
}

const START_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such program",
  EACCES: "it may not be started",
};

/** This process' own, whichever one is first in the PATH: a provider that runs with another than skillet is a surprise. */
function resolveOwnNode(): string {
  return /^node(?:\.exe)?$/i.test(basename(process.execPath)) ? process.execPath : "node";
}

/** The last of what it printed. Of a line that is not whole, what is hidden cannot be found. */
function readStderrLines(stderr: Buffer, hide: (text: string) => string): readonly string[] {
  const lines = hide(stderr.toString()).split("\n");
  const whole = stderr.length < MAX_STDERR_BYTES ? lines : lines.slice(1);
  return whole.map((line) => line.trimEnd()).filter((line) => line !== "");
}

/** The one that says what went wrong, among those that say where, and with which Node. */
function findErrorLine(lines: readonly string[]): string | undefined {
  const words = lines.filter((line) => !STACK_TRACE_LINE.test(line));
  return words.findLast((line) => /^\S.*error|^error/i.test(line)) ?? words.findLast(() => true) ?? lines.at(-1);
}

const STACK_TRACE_LINE = /^(?:Node\.js v\d|\s+at\s|[\s^~]+$|[\s{}[\]()]+$|\(Use `node --trace)/;

function createStderrCause(lines: readonly string[]): { cause?: ProviderStderr } {
  return lines.length === 0 ? {} : { cause: new ProviderStderr(lines) };
}

function collectSecrets(value: unknown): Map<string, string> {
  const texts: string[] = [];
  const look = (item: unknown) => {
    if (typeof item === "string") texts.push(item);
    else if (Object(item) === item) for (const inner of Object.values(item as object)) look(inner);
  };
  look(value);
  return new Map(texts.map((text, index) => [`SECRET_${index + 1}`, text]));
}
