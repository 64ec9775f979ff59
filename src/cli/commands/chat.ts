import { RUNBOOK_NAME } from "../../agent/models/runbook.ts";
import type { RunResult } from "../../agent/run/run-result.ts";
import { createConversation } from "../../agent/session/conversation.ts";
import { openSession, type Session } from "../../agent/session/session.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { announceProcess } from "../../config/live-settings.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { SkillEvent } from "../../host/events.ts";
import { omitUndefined } from "../../util/objects.ts";
import { escapeForTerminal } from "../../util/untrusted-text.ts";
import {
  addRunOptions,
  type CallerOptions,
  type CommandContext,
  type CommandDefinition,
  createConfigurationWarner,
  discoverForRun,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
import { type CommandIo, createPrinter, printJson, printJsonLine, runInterruptible } from "../output.ts";
import { createProgress, type Progress, runTraced, type TraceSink } from "../progress.ts";
import {
  askForPendingTrust,
  createAnswerWrapper,
  createApprovingHost,
  getRunAnswer,
  getRunExitCode,
  isPendingTrust,
  printNextCommands,
  printRunOutcome,
  printRunProblems,
  type RunOutputOptions,
  revealResult,
  wrapAnswer,
} from "../run-output.ts";
import { parseLimits, readPipedText } from "./run.ts";

/** `skillet chat`. */
export const chatCommand: CommandDefinition = {
  define: (command) =>
    addRunOptions(
      command
        .description("Chat with an agent that has your skills")
        .argument("[message...]", "The message. Without it, a dialogue starts."),
    ).addHelpText(
      "after",
      formatExamples(
        "skillet chat",
        'skillet chat "List available skills"',
        'skillet chat "Use the host-report skill"',
      ),
    ),
  run: startChat,
};

/** Starts an agent with the skills found here: one answer, or a dialogue. */
async function startChat({ io, options, args }: CommandContext<ChatOptions>): Promise<number> {
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  const isForProgram = options.json === true || options.events === true;
  const announcement = announceProcess(found, "chat");
  const looking = setInterval(announcement.update, CONFIG_POLL_MS).unref();
  try {
    return await runTraced(io, async (traces) => {
      if (args.length > 0 || !io.dialogue || isForProgram) return answerOnce({ io, options, args }, found, traces);
      const { runDialogue } = await import("./chat-dialogue.ts");
      return runDialogue(io, found, options, traces);
    });
  } finally {
    clearInterval(looking);
    announcement.close();
  }
}

/** The interval at which a waiting chat checks the configuration. */
const CONFIG_POLL_MS = 500;

async function answerOnce(
  { io, options, args }: CommandContext<ChatOptions>,
  found: DiscoverResult,
  traces: TraceSink | undefined,
): Promise<number> {
  const message = args.length > 0 ? args.join(" ") : ((await io.stdin?.()) ?? "");
  if (message.trim() === "") {
    const fix = 'add a message: skillet chat "List available skills"';
    throw new SkillError("usage", { message: "No message was given", fix });
  }
  const context = args.length > 0 ? await readPipedText(io) : undefined;
  const talk = createChatSession(io, found, options, traces);
  const result = await talk.say(message, context);
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result });
  else if (options.json) printJson(io.stdout, result);
  else {
    printRunProblems(io, result, options);
    if (!options.quiet) printRunOutcome(io, talk.isUndone() ? { ...result, stop: "failed", isError: true } : result);
    await printNextCommands(io, found, result, options);
  }
  if (talk.isRefused()) return EXIT.refused;
  return talk.isUndone() ? EXIT.findings : getRunExitCode(result);
}

export interface ChatOptions extends CallerOptions, RunOutputOptions {
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
}

/** A chat at the terminal: answers go to stdout, progress to stderr. The caller prints the outcome. */
export interface ChatSession {
  readonly session: Session;
  /** The alias of the model; undefined for the default. */
  model: string | undefined;
  say(message: string, context?: string): Promise<RunResult>;
  /** Runs a skill by name on behalf of the user. */
  use(name: string, message: string): Promise<RunResult>;
  /** Returns true if skills were requested and all were refused. */
  isRefused(): boolean;
  /** Returns true if the task of a skill was not done, and no model could do it instead. */
  isUndone(): boolean;
}

type ChatTurn = (signal: AbortSignal) => PromiseLike<RunResult>;

export function createChatSession(
  io: CommandIo,
  discovered: DiscoverResult,
  options: ChatOptions,
  traces?: TraceSink,
): ChatSession {
  const isForProgram = options.json === true || options.events === true;
  const isStreamed = !isForProgram && !options.showSecrets && io.stdout.isTTY === true;
  const voice = createAnswerStream(io);
  const seen = {
    used: new Set<string>(),
    refused: new Map<string, readonly Problem[]>(),
    isHeldBack: false,
    isUndone: false,
    by: "" as string | undefined,
  };
  let progress: Progress | undefined;
  const endLine = () => {
    voice.endLine();
    progress?.release();
  };
  const onEvent = (event: SkillEvent) => {
    traces?.record(event);
    if (event.type === "run-started" && event.skill !== "") seen.used.add(event.skill);
    if (event.type === "run-refused" && event.skill !== "") {
      seen.refused.set(event.skill, event.refusals);
      // The user is asked first: the refusal may then be obsolete and is not printed.
      seen.isHeldBack ||= io.ask !== undefined && isPendingTrust(event.refusals);
    }
    if (event.type === "run-ended" && event.skill !== "") seen.isUndone = event.isError;
    if (options.events) return printJsonLine(io.stdout, event);
    if (isAsking) waiting.push(event);
    else show(event);
  };
  const show = (event: SkillEvent) => {
    if (event.type === "text-generated" && event.skill === "" && isStreamed && !seen.isHeldBack) {
      progress?.hold();
      return voice.say(event.step, event.text);
    }
    if (event.type !== "step-ended") endLine();
    progress?.take(event);
  };
  const once = async (start: ChatTurn) => {
    seen.refused.clear();
    seen.used.clear();
    seen.isHeldBack = false;
    seen.isUndone = false;
    voice.begin();
    progress = options.quiet || isForProgram ? undefined : createProgress(io);
    try {
      return await runInterruptible(io, async (signal) => await start(signal));
    } finally {
      endLine();
      progress?.end();
    }
  };
  // Events are held back while a question is open.
  const waiting: SkillEvent[] = [];
  let isAsking = false;
  const held = {
    hold() {
      isAsking = true;
      endLine();
      progress?.hold();
    },
    release() {
      isAsking = false;
      progress?.release();
      for (const event of waiting.splice(0)) show(event);
    },
  };
  const { host } = createApprovingHost(io, discovered, options, held);
  const found = { ...host, onEvent };
  const limits = {
    ...parseLimits("seconds", "--timeout", options.timeout),
    ...parseLimits("tokens", "--budget", options.budget),
    ...parseLimits("maxIterations", "--max-iterations", options.maxIterations),
  };
  const session = openSession(found.catalog, found);
  const conversation = createConversation(session, found, limits);
  const warn = createConfigurationWarner(io, discovered);
  const shown = async (start: ChatTurn): Promise<RunResult> => {
    warn();
    const { length } = conversation.messages;
    let result = await once(start);
    seen.by = result.model;
    if (await askTrustForRefusal(io, found, seen.refused)) {
      if (conversation.messages.length > length) conversation.forget();
      result = await once(start);
    }
    const revealed = options.showSecrets ? revealResult(result, seen.used, found) : result;
    if (!isForProgram) voice.finish(getRunAnswer(revealed));
    return revealed;
  };
  const talk: ChatSession = {
    session,
    model: options.model,
    isRefused: () => seen.refused.size > 0 && seen.used.size === 0,
    isUndone: () => talk.isRefused() || (seen.isUndone && seen.by === RUNBOOK_NAME),
    say: (message, context) =>
      shown((signal) => conversation.send(message, { signal, ...omitUndefined({ context, model: talk.model }) })),
    use: (skill, message) =>
      shown(async (signal) => {
        const input = message === "" ? {} : { message };
        const request = {
          skill,
          by: "user" as const,
          ...input,
          ...limits,
          ...omitUndefined({ model: talk.model }),
          signal,
        };
        const result = await session.use(request);
        if (!FAILED_STOPS.has(result.stop)) await conversation.remember(`/${skill} ${message}`.trim(), result);
        return result;
      }),
  };
  return talk;
}

/** Outcomes that are not added to the conversation. */
const FAILED_STOPS: ReadonlySet<RunResult["stop"]> = new Set(["refused", "aborted", "error", "waiting"]);

/** Streams an answer, and at the end prints the part that was not streamed. */
function createAnswerStream({ stdout, env }: CommandIo) {
  const { width } = createPrinter(stdout, env);
  const wrapper = createAnswerWrapper(width);
  const texts = new Map<number, string>();
  let isLineOpen = false;
  const endLine = () => {
    if (isLineOpen) stdout.write(`${wrapper.end()}\n`);
    isLineOpen = false;
  };
  return {
    begin: () => texts.clear(),
    say(step: number, text: string): void {
      texts.set(step, (texts.get(step) ?? "") + text);
      isLineOpen = !text.endsWith("\n");
      stdout.write(wrapper.write(escapeForTerminal(text)));
    },
    endLine,
    finish(answer: string): void {
      endLine();
      const there = [...texts.values()].reverse().find((text) => text.trim() !== "" && answer.startsWith(text));
      const rest = answer.slice(there?.length ?? 0).replace(there === undefined ? /^$/ : /^\n+/, "");
      if (rest !== "") stdout.write(`${wrapAnswer(escapeForTerminal(rest), width)}\n`);
    },
  };
}

/** Asks the user at a terminal for missing trust. Returns true if the message should be tried again. */
async function askTrustForRefusal(
  io: CommandIo,
  found: DiscoverResult,
  refused: ReadonlyMap<string, readonly Problem[]>,
): Promise<boolean> {
  const waiting = [...refused].flatMap(([name, refusals]) => {
    const skill = isPendingTrust(refusals) ? found.catalog.find(name) : undefined;
    return skill ? [{ skill, refusals }] : [];
  });
  return waiting.length > 0 && (await askForPendingTrust(io, found, waiting));
}
