import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import type { CapabilityProvider, ProviderAuth, ProviderContext } from "../host/capabilities.ts";
import { runProcess, signalOf } from "../sandbox/process.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { redact } from "../shared/redact.ts";
import { oneLine } from "../shared/text.ts";
import { LARGEST_ANSWER, noAnswer, readAnswer, TOO_LARGE, writeRequest } from "./envelope.ts";
import { LONGEST_LINE, type Params, type ProviderMethod, type Result } from "./envelope-methods.ts";
import { Printed, secondsOf, stopped, tooLate } from "./provider-error.ts";
import { boundedDescription, descriptionProblem } from "./provider-shape.ts";

export interface BridgeOptions {
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
export function bridgeProvider(options: BridgeOptions): CapabilityProvider {
  const { namespace, command } = options;
  const seconds = secondsOf(options.seconds);
  const ask = <Method extends ProviderMethod>(
    method: Method,
    params: Params<Method>,
    given: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
  ) => request({ ...options, seconds }, method, params, given);
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
    from: oneLine(command.join(" "), 200),
    origin: command.join(" "),
    seconds,
    async describe({ signal }) {
      const { auth: signsIn, capabilities } = await ask("describe", {}, { signal });
      const description = { capabilities, hasAuth: (signsIn?.kinds.length ?? 0) > 0 };
      const wrong = await descriptionProblem(namespace, description);
      if (!wrong) return boundedDescription(description);
      const { message } = noAnswer(namespace, "describe", inLine(wrong.problem, LONGEST_LINE));
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
    health: ({ signal, isSignedIn }) => ask("health", defined({ isSignedIn }), { signal }),
    auth,
  };
}

async function request<Method extends ProviderMethod>(
  options: BridgeOptions & { seconds: number },
  method: Method,
  params: Params<Method>,
  given: { signal: AbortSignal; context?: Partial<ProviderContext>; secret?: unknown },
): Promise<Result<Method>> {
  const { namespace, seconds } = options;
  const { signal, context = {}, secret } = given;
  const id = `req_${randomUUID().replaceAll("-", "")}`;
  const asked = { id, method, namespace, params, context, deadlineMs: seconds * 1000 };
  const hide = (text: string) => redact(options.hide?.(text) ?? text, secretsIn(secret));
  const { ending, exitCode, stdout, stderr, died } = await run(options, writeRequest(asked), signal);
  const lines = linesOf(stderr, hide);
  const line = tellingLine(lines);
  const said = line === undefined ? "" : `: ${inLine(line, LONGEST_LINE)}`;
  if (ending === "abort") throw stopped(namespace, signal);
  if (ending === "timeout") throw tooLate(namespace, seconds);
  if (ending === "output") throw noAnswer(namespace, method, `\`answer\` ${TOO_LARGE}`);
  try {
    const result = readAnswer(stdout, asked);
    if (exitCode === 0) return result;
  } catch (error) {
    // Many programs that say what went wrong also end as if something had.
    if (exitCode === 0 || (error as SkillError).code !== "provider-answer")
      throw told(error as SkillError, { said, lines, hide });
  }
  throw new SkillError("provider-failed", {
    message: `The provider of ${namespace} ended with ${died ?? `exit code ${exitCode}`}${said}`,
    fix: `\`skillet capability check ${namespace}\` tries it by itself, and shows what it printed`,
    ...printedBy(lines),
  });
}

interface Beside {
  said: string;
  lines: readonly string[];
  hide(text: string): string;
}

/** What the program says went wrong, or why its answer is none, and then what it said beside it. */
function told({ code, message, fix }: SkillError, { said, lines, hide }: Beside): SkillError {
  return new SkillError(code, {
    message: hide(message) + (code === "provider-answer" ? said : ""),
    ...(fix === undefined ? {} : { fix: hide(fix) }),
    ...printedBy(lines),
  });
}

/** Enough for an error with where it comes from, whatever stands in it. */
const KEPT_OF_STDERR = 16 * 1024;

async function run({ namespace, command, env, folder, seconds = 0 }: BridgeOptions, line: string, signal: AbortSignal) {
  const [named = "", ...args] = command;
  const file = named === "node" ? ownNode() : named;
  const stdout: Buffer[] = [];
  let stderr: Buffer = Buffer.alloc(0);
  let size = 0;
  const onOutput = (stream: string, bytes: Buffer) => {
    if (stream === "stderr") {
      stderr = Buffer.concat([stderr, bytes]).subarray(-KEPT_OF_STDERR);
      return true;
    }
    size += bytes.length;
    if (size <= LARGEST_ANSWER) stdout.push(bytes);
    return size <= LARGEST_ANSWER;
  };
  try {
    const program = { file, args, env, folder, secretInput: line };
    const { ending, exitCode, signal: by } = await runProcess(program, seconds, { onOutput, signal });
    return { ending, exitCode, stdout: Buffer.concat(stdout), stderr, died: by ?? signalOf(exitCode) };
  } catch (error) {
    throw missing(namespace, file, folder, error);
  }
}

function missing(namespace: string, file: string, folder: string, error: unknown): SkillError {
  const { cause } = Object(error) as { cause?: unknown };
  const why = !existsSync(folder)
    ? `its folder ${folder} is not there`
    : (WHY[codeOf(cause)] ?? "the system does not start it");
  return new SkillError("provider-missing", {
    message: `The provider of ${namespace} is not there: ${oneLine(file, 200) || "no command"}: ${why}`,
    fix: `install it, or say where it is: command under [capabilities.providers.${namespace}] in config.toml`,
    cause: error,
  });
}

const WHY: Readonly<Record<string, string>> = {
  ENOENT: "there is no such program",
  EACCES: "it may not be started",
};

/** This process' own, whichever one is first in the PATH: a provider that runs with another than skillet is a surprise. */
function ownNode(): string {
  return /^node(?:\.exe)?$/i.test(basename(process.execPath)) ? process.execPath : "node";
}

/** The last of what it printed. Of a line that is not whole, what is hidden cannot be found. */
function linesOf(stderr: Buffer, hide: (text: string) => string): readonly string[] {
  const lines = hide(stderr.toString()).split("\n");
  const whole = stderr.length < KEPT_OF_STDERR ? lines : lines.slice(1);
  return whole.map((line) => line.trimEnd()).filter((line) => line !== "");
}

/** The one that says what went wrong, among those that say where, and with which Node. */
function tellingLine(lines: readonly string[]): string | undefined {
  const words = lines.filter((line) => !AROUND.test(line));
  return words.findLast((line) => /^\S.*error|^error/i.test(line)) ?? words.findLast(() => true) ?? lines.at(-1);
}

const AROUND = /^(?:Node\.js v\d|\s+at\s|[\s^~]+$|[\s{}[\]()]+$|\(Use `node --trace)/;

function printedBy(lines: readonly string[]): { cause?: Printed } {
  return lines.length === 0 ? {} : { cause: new Printed(lines) };
}

function secretsIn(value: unknown): Map<string, string> {
  const texts: string[] = [];
  const look = (item: unknown) => {
    if (typeof item === "string") texts.push(item);
    else if (Object(item) === item) for (const inner of Object.values(item as object)) look(inner);
  };
  look(value);
  return new Map(texts.map((text, index) => [`SECRET_${index + 1}`, text]));
}
