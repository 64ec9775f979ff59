import { RUNBOOK_NAME } from "../../agent/models/runbook.ts";
import type { RunResult } from "../../agent/run/run-result.ts";
import { createConversation } from "../../agent/session/conversation.ts";
import { openSession, type Session } from "../../agent/session/session.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { announceProcess } from "../../config/live-settings.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { SkillEvent } from "../../host/events.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createApprovingHost } from "../approval-prompt.ts";
import {
  addRunOptions,
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import {
  type CallerOptions,
  createConfigurationWarner,
  discoverForRun,
  requireConfiguration,
} from "../command-host.ts";
import { escapeForTerminal } from "../format.ts";
import { type CommandIo, printJson, printJsonLine, runInterruptible } from "../output.ts";
import { createProgress, type Progress, runTraced, type TraceSink } from "../progress.ts";
import {
  askForPendingTrust,
  extractAnswer,
  getRunExitCode,
  isPendingTrust,
  printNextCommands,
  printRunOutcome,
  printRunProblems,
  type RunOutputOptions,
  revealSecrets,
} from "../run-output.ts";
import { parseLimits, readPipedText } from "./run.ts";

/** `skillet chat`. */
export const chatCommand: CommandDefinition = {
  define: (command) =>
    addRunOptions(
      command
        .description("talk with an agent that has your skills; without a message, in a dialogue")
        .argument("[message...]", "what to say; one answer, and it ends"),
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

/** An agent with the skills that are found here: one answer, or a dialogue. */
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

/** How often a chat that waits for its user checks the configuration. */
const CONFIG_POLL_MS = 500;

async function answerOnce(
  { io, options, args }: CommandContext<ChatOptions>,
  found: DiscoverResult,
  traces: TraceSink | undefined,
): Promise<number> {
  const message = args.length > 0 ? args.join(" ") : ((await io.stdin?.()) ?? "");
  if (message.trim() === "") {
    const fix = 'say something: skillet chat "List available skills"';
    throw new SkillError("usage", { message: "There is nothing to answer", fix });
  }
  const context = args.length > 0 ? await readPipedText(io) : undefined;
  const talk = createChatSession(io, found, options, traces);
  const result = await talk.say(message, context);
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result });
  else if (options.json) printJson(io.stdout, result);
  else {
    printRunProblems(io, result, options);
    if (!options.quiet) printRunOutcome(io, talk.isUndone() ? { ...result, stop: "failed", isError: true } : result);
    printNextCommands(io, found, result, options);
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

/** A conversation that is seen: answers go to stdout, what is done for them to stderr. How it ended is for the caller to say. */
export interface ChatSession {
  readonly session: Session;
  /** The alias of the model that is asked; the default when there is none. */
  model: string | undefined;
  say(message: string, context?: string): Promise<RunResult>;
  /** Uses a skill by its name, for the user. */
  use(name: string, message: string): Promise<RunResult>;
  /** Whether skills were to be used and none was let. */
  isRefused(): boolean;
  /** Whether what was to be done by a skill was not: nobody else could do it in its place. */
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
    traces?.take(event);
    if (event.type === "run-started" && event.skill !== "") seen.used.add(event.skill);
    if (event.type === "run-refused" && event.skill !== "") {
      seen.refused.set(event.skill, event.refusals);
      // Whoever sits there is asked first: what is said of the refusal may be nothing that they need to read.
      seen.isHeldBack ||= io.ask !== undefined && isPendingTrust(event.refusals);
    }
    if (event.type === "run-ended" && event.skill !== "") seen.isUndone = event.isError;
    if (options.events) return printJsonLine(io.stdout, event);
    if (isAsking) waiting.push(event);
    else show(event);
  };
  const show = (event: SkillEvent) => {
    if (event.type === "text-said" && event.skill === "" && isStreamed && !seen.isHeldBack) {
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
  // While somebody is asked, what happens is kept back.
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
    ...parseLimits("iterations", "--max-iterations", options.maxIterations),
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
    const content = options.showSecrets ? revealSecrets(result.content, seen.used, found) : result.content;
    if (!isForProgram) voice.finish(extractAnswer(result, content));
    return { ...result, content };
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
        const said = message === "" ? {} : { message };
        const request = {
          skill,
          by: "user" as const,
          ...said,
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

/** What leaves nothing to talk about. */
const FAILED_STOPS: ReadonlySet<RunResult["stop"]> = new Set(["refused", "aborted", "error", "waiting"]);

/** Writes an answer as it comes, and at the end what of it is not there yet. */
function createAnswerStream({ stdout }: CommandIo) {
  const said = new Map<number, string>();
  let isLineOpen = false;
  const endLine = () => {
    if (isLineOpen) stdout.write("\n");
    isLineOpen = false;
  };
  return {
    begin: () => said.clear(),
    say(step: number, text: string): void {
      said.set(step, (said.get(step) ?? "") + text);
      isLineOpen = !text.endsWith("\n");
      stdout.write(escapeForTerminal(text));
    },
    endLine,
    finish(answer: string): void {
      endLine();
      const there = [...said.values()].reverse().find((text) => text.trim() !== "" && answer.startsWith(text));
      const rest = answer.slice(there?.length ?? 0).replace(there === undefined ? /^$/ : /^\n+/, "");
      if (rest !== "") stdout.write(`${escapeForTerminal(rest)}\n`);
    },
  };
}

/** The user at a terminal can give what was refused for nothing else, and have it tried again. */
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
