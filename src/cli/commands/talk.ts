import type { Discovered } from "../../host/discover.ts";
import type { SkillEvent } from "../../host/events.ts";
import type { Notice } from "../../host/sandbox.ts";
import { RUNBOOK } from "../../model/runbook.ts";
import type { RunResult } from "../../run/result.ts";
import { converse } from "../../session/converse.ts";
import { openSession, type Session } from "../../session/session.ts";
import { defined } from "../../shared/defined.ts";
import { agreeing } from "../approval.ts";
import { forTerminal } from "../fold.ts";
import { type CallerOptions, openConfigurationWarnings } from "../found.ts";
import { type Io, interruptible, printJsonLine } from "../io.ts";
import { answerOf } from "../outcome.ts";
import { openProgress, type Progress } from "../progress.ts";
import { withSecrets } from "../secrets.ts";
import type { SeenOptions } from "../seen-run.ts";
import type { Tracing } from "../traces.ts";
import { askForWaiting, isWaiting } from "../waiting.ts";
import { atMost } from "./run.ts";

export interface ChatOptions extends CallerOptions, SeenOptions {
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
}

/** A conversation that is seen: answers go to stdout, what is done for them to stderr. How it ended is for the caller to say. */
export interface Talk {
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

type Start = (signal: AbortSignal) => PromiseLike<RunResult>;

export function openTalk(io: Io, discovered: Discovered, options: ChatOptions, traces?: Tracing): Talk {
  const isForProgram = options.json === true || options.events === true;
  const isStreamed = !isForProgram && !options.showSecrets && io.stdout.isTTY === true;
  const voice = openVoice(io);
  const seen = {
    used: new Set<string>(),
    refused: new Map<string, readonly Notice[]>(),
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
      seen.isHeldBack ||= io.ask !== undefined && isWaiting(event.refusals);
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
  const once = async (start: Start) => {
    seen.refused.clear();
    seen.used.clear();
    seen.isHeldBack = false;
    seen.isUndone = false;
    voice.begin();
    progress = options.quiet || isForProgram ? undefined : openProgress(io);
    try {
      return await interruptible(io, async (signal) => await start(signal));
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
  const { host } = agreeing(io, discovered, options, held);
  const found = { ...host, onEvent };
  const limits = {
    ...atMost("seconds", "--timeout", options.timeout),
    ...atMost("tokens", "--budget", options.budget),
    ...atMost("iterations", "--max-iterations", options.maxIterations),
  };
  const session = openSession(found.catalog, found);
  const conversation = converse(session, found, limits);
  const warn = openConfigurationWarnings(io, discovered);
  const shown = async (start: Start): Promise<RunResult> => {
    warn();
    const { length } = conversation.messages;
    let result = await once(start);
    seen.by = result.model;
    if (await wantsTrust(io, found, seen.refused)) {
      if (conversation.messages.length > length) conversation.forget();
      result = await once(start);
    }
    const content = options.showSecrets ? withSecrets(result.content, seen.used, found) : result.content;
    if (!isForProgram) voice.finish(answerOf(result, content));
    return { ...result, content };
  };
  const talk: Talk = {
    session,
    model: options.model,
    isRefused: () => seen.refused.size > 0 && seen.used.size === 0,
    isUndone: () => talk.isRefused() || (seen.isUndone && seen.by === RUNBOOK),
    say: (message, context) =>
      shown((signal) => conversation.send(message, { signal, ...defined({ context, model: talk.model }) })),
    use: (skill, message) =>
      shown(async (signal) => {
        const said = message === "" ? {} : { message };
        const request = { skill, by: "user" as const, ...said, ...limits, ...defined({ model: talk.model }), signal };
        const result = await session.use(request);
        if (!UNDONE.has(result.stop)) await conversation.remember(`/${skill} ${message}`.trim(), result);
        return result;
      }),
  };
  return talk;
}

/** What leaves nothing to talk about. */
const UNDONE: ReadonlySet<RunResult["stop"]> = new Set(["refused", "aborted", "error", "waiting"]);

/** Writes an answer as it comes, and at the end what of it is not there yet. */
function openVoice({ stdout }: Io) {
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
      stdout.write(forTerminal(text));
    },
    endLine,
    finish(answer: string): void {
      endLine();
      const there = [...said.values()].reverse().find((text) => text.trim() !== "" && answer.startsWith(text));
      const rest = answer.slice(there?.length ?? 0).replace(there === undefined ? /^$/ : /^\n+/, "");
      if (rest !== "") stdout.write(`${forTerminal(rest)}\n`);
    },
  };
}

/** The user at a terminal can give what was refused for nothing else, and have it tried again. */
async function wantsTrust(
  io: Io,
  found: Discovered,
  refused: ReadonlyMap<string, readonly Notice[]>,
): Promise<boolean> {
  const waiting = [...refused].flatMap(([name, refusals]) => {
    const skill = isWaiting(refusals) ? found.catalog.find(name) : undefined;
    return skill ? [{ skill, refusals }] : [];
  });
  return waiting.length > 0 && (await askForWaiting(io, found, waiting));
}
