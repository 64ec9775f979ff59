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
  /** The operator's program and its arguments, run without a shell. `node` alone means the Node of this process. */
  command: readonly string[];
  /** The complete environment of the program. A program without a path is looked up in its PATH. */
  env: Readonly<Record<string, string>>;
  /** Its working directory. */
  folder: string;
  seconds?: number;
  /** Redacts its texts. The credential of a call is always redacted. */
  redact?(text: string): string;
}

/**
 * Creates a provider backed by the operator's program. It is started for each request, reads it as one line of JSON, answers with one JSON
 * object and exits. Anything else is an error.
 */
export function createCommandProvider(options: CommandProviderOptions): CapabilityProvider {
  const { namespace, command } = options;
  const seconds = clampProviderSeconds(options.seconds);
  const ask = <Method extends ProviderMethod>(
    method: Method,
    params: ProviderMethodParams<Method>,
    call: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
  ) => sendProviderRequest({ ...options, seconds }, method, params, call);
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
      const { auth: signIn, capabilities } = await ask("describe", {}, { signal });
      const description = { capabilities, hasAuth: (signIn?.kinds.length ?? 0) > 0 };
      const wrong = await findDescriptionProblem(namespace, description);
      if (!wrong) return normalizeProviderDescription(description);
      const { message } = createAnswerError(namespace, "describe", sanitizeLine(wrong.message, MAX_PROVIDER_TEXT));
      throw new SkillError("provider-answer-invalid", { message, fix: wrong.fix });
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
  call: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
): Promise<ProviderMethodResult<Method>> {
  const { namespace, seconds } = options;
  const { signal, context = {}, secret } = call;
  const id = `req_${randomUUID().replaceAll("-", "")}`;
  const request = { id, method, namespace, params, context, deadlineMs: seconds * 1000 };
  const redactText = (text: string) => redact(options.redact?.(text) ?? text, collectSecrets(secret));
  const { ending, exitCode, stdout, stderr, died } = await runProviderProgram(
    options,
    formatProviderRequest(request),
    signal,
  );
  const lines = readStderrLines(stderr, redactText);
  const line = findErrorLine(lines);
  const detail = line === undefined ? "" : `: ${sanitizeLine(line, MAX_PROVIDER_TEXT)}`;
  if (ending === "abort") throw createProviderAbortError(namespace, signal);
  if (ending === "timeout") throw createProviderTimeoutError(namespace, seconds);
  if (ending === "output") throw createAnswerError(namespace, method, `\`answer\` ${ANSWER_TOO_LARGE}`);
  try {
    const result = parseProviderAnswer(stdout, request);
    if (exitCode === 0) return result;
  } catch (error) {
    // Many programs that report an error also exit with a non-zero code.
    if (exitCode === 0 || (error as SkillError).code !== "provider-answer-invalid")
      throw createProgramError(error as SkillError, { detail, lines, redact: redactText });
  }
  throw new SkillError("provider-failed", {
    message: `The provider of ${namespace} exited with ${died ?? `exit code ${exitCode}`}${detail}`,
    fix: "run it on its own to see its output",
    commands: [`skillet capability check ${namespace}`],
    ...createStderrCause(lines),
  });
}

interface StderrOutput {
  detail: string;
  lines: readonly string[];
  redact(text: string): string;
}

/** Builds the error of a failed request: the program's own error, or why its answer is invalid plus its stderr. */
function createProgramError({ code, message, fix }: SkillError, { detail, lines, redact }: StderrOutput): SkillError {
  return new SkillError(code, {
    message: redact(message) + (code === "provider-answer-invalid" ? detail : ""),
    ...(fix === undefined ? {} : { fix: redact(fix) }),
    ...createStderrCause(lines),
  });
}

/** Enough for an error with its stack trace. */
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
    ? `its working directory ${folder} does not exist`
    : (START_PROBLEMS[getErrnoCode(cause)] ?? "the system cannot start it");
  return new SkillError("provider-missing", {
    message: `Cannot start the provider of ${namespace}: ${truncateLine(file, 200) || "no command"}: ${why}`,
    fix: `install it, or set its path: command under [capabilities.providers.${namespace}] in config.toml`,
    cause: error,
  });
}

const START_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "program not found",
  EACCES: "permission denied",
};

/** Returns the Node of this process, not the first in PATH: a provider should run with the same Node as skillet. */
function resolveOwnNode(): string {
  return /^node(?:\.exe)?$/i.test(basename(process.execPath)) ? process.execPath : "node";
}

/** Returns the last lines of stderr. Drops a truncated first line, because secrets in it cannot be recognized. */
function readStderrLines(stderr: Buffer, redact: (text: string) => string): readonly string[] {
  const lines = redact(stderr.toString()).split("\n");
  const whole = stderr.length < MAX_STDERR_BYTES ? lines : lines.slice(1);
  return whole.map((line) => line.trimEnd()).filter((line) => line !== "");
}

/** Returns the line with the error message, skipping stack trace lines and the Node version. */
function findErrorLine(lines: readonly string[]): string | undefined {
  const messages = lines.filter((line) => !STACK_TRACE_LINE.test(line));
  return messages.findLast((line) => /^\S.*error|^error/i.test(line)) ?? messages.findLast(() => true) ?? lines.at(-1);
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
