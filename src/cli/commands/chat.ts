import type { Discovered } from "../../host/discover.ts";
import type { SkillEvent } from "../../host/events.ts";
import type { Notice } from "../../host/sandbox.ts";
import { unavailability } from "../../policy/policy.ts";
import type { RunResult } from "../../run/result.ts";
import { converse } from "../../session/converse.ts";
import { openSession } from "../../session/session.ts";
import { SkillError } from "../../shared/error.ts";
import type { Skill } from "../../skill/skill.ts";
import { EXIT } from "../exit.ts";
import { type CallerOptions, discoverFor, warnOfConfiguration } from "../found.ts";
import { INTERRUPTED, type Io, interruptible, printer, printJson, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { openProgress, type Progress } from "../progress.ts";
import { forTerminal } from "../say.ts";
import { withSecrets } from "../secrets.ts";
import { printSkills } from "./list.ts";
import { atMost, exitOf, sayOutcome } from "./run.ts";
import { askForTrust } from "./trust.ts";

interface ChatOptions extends CallerOptions {
  json?: boolean;
  model?: string;
  timeout?: string;
  budget?: string;
  maxIterations?: string;
  events?: boolean;
  quiet?: boolean;
  showSecrets?: boolean;
}

/** An agent with the skills that are found here: one answer, or a dialogue. */
export async function chat({ io, options, args }: Context<ChatOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  if (!warnOfConfiguration(io, found)) return EXIT.usage;
  const talk = openTalk(io, found, options);
  if (args.length === 0 && io.read && !options.json && !options.events) return dialogue(io, talk);
  const message = args.length > 0 ? args.join(" ") : ((await io.stdin?.()) ?? "");
  if (message.trim() === "") {
    const fix = 'say something: skillet chat "List available skills"';
    throw new SkillError("usage", { message: "There is nothing to answer", fix });
  }
  const result = await talk.say(message);
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result });
  else if (options.json) printJson(io.stdout, result);
  return talk.isRefused() ? EXIT.refused : exitOf(result);
}

interface Talk {
  readonly found: Discovered;
  say(message: string): Promise<RunResult>;
  /** Uses a skill by its name, for the user. */
  use(name: string, message: string): Promise<RunResult>;
  /** Whether skills were to be used and none was let. */
  isRefused(): boolean;
}

function openTalk(io: Io, discovered: Discovered, options: ChatOptions): Talk {
  const seen = {
    used: new Set<string>(),
    refused: new Map<string, readonly Notice[]>(),
    progress: undefined as Progress | undefined,
    /** What is said of this answer so far, and whether the line is open. */
    hasSpoken: false,
    isSpeaking: false,
  };
  const isStreamed = !options.json && !options.events && !options.showSecrets && io.stdout.isTTY === true;
  const speak = (text: string) => {
    seen.progress?.hold();
    seen.hasSpoken = true;
    seen.isSpeaking = true;
    io.stdout.write(forTerminal(text));
  };
  const endLine = () => {
    if (seen.isSpeaking) io.stdout.write("\n");
    seen.isSpeaking = false;
    seen.progress?.release();
  };
  const onEvent = (event: SkillEvent) => {
    if (event.type === "run-started" && event.skill !== "") seen.used.add(event.skill);
    if (event.type === "run-refused" && event.skill !== "") seen.refused.set(event.skill, event.refusals);
    if (options.events) printJsonLine(io.stdout, event);
    else if (event.type === "text-said") {
      if (isStreamed && event.skill === "") speak(event.text);
    } else {
      if (event.type !== "step-ended") endLine();
      seen.progress?.take(event);
    }
  };
  const found = { ...discovered, onEvent };
  const limits = {
    ...atMost("seconds", "--timeout", options.timeout),
    ...atMost("tokens", "--budget", options.budget),
    ...atMost("iterations", "--max-iterations", options.maxIterations),
  };
  const session = openSession(found.catalog, found);
  const { model } = options;
  const conversation = converse(session, found, { ...(model === undefined ? {} : { model }), ...limits });
  const once = async (start: (signal: AbortSignal) => PromiseLike<RunResult>) => {
    seen.refused.clear();
    seen.used.clear();
    seen.hasSpoken = false;
    seen.progress = options.quiet || options.events ? undefined : openProgress(io);
    try {
      return await interruptible(io, async (signal) => await start(signal));
    } finally {
      endLine();
      seen.progress?.end();
    }
  };
  const shown = async (start: (signal: AbortSignal) => PromiseLike<RunResult>) => {
    let result = await once(start);
    if (await wantsTrust(io, found, seen.refused)) {
      conversation.forget();
      result = await once(start);
    }
    const content = options.showSecrets ? withSecrets(result.content, seen.used, found) : result.content;
    if (!options.json && !options.events && result.stop !== "refused") {
      // What was streamed is there already, but for the line that says why it ended.
      const rest = seen.hasSpoken ? (result.stop === "answer" ? "" : (content.split("\n\n").at(-1) ?? "")) : content;
      if (rest !== "") io.stdout.write(`${forTerminal(rest)}\n`);
    }
    if (!options.quiet || result.isError) sayOutcome(io, result);
    return { ...result, content };
  };
  return {
    found,
    isRefused: () => seen.refused.size > 0 && seen.used.size === 0,
    say: (message) => shown((signal) => conversation.send(message, { signal })),
    use: (skill, message) =>
      shown((signal) => session.use({ skill, by: "user", ...(message === "" ? {} : { message }), ...limits, signal })),
  };
}

/** Whoever sits at the terminal can trust what was refused for nothing else, and have it tried again. */
async function wantsTrust(
  io: Io,
  found: Discovered,
  refused: ReadonlyMap<string, readonly Notice[]>,
): Promise<boolean> {
  const waiting = [...refused].filter(([, notices]) =>
    notices.every(({ code }) => code === "untrusted" || code === "changed"),
  );
  const skills = waiting.flatMap(([name]) => found.catalog.find(name) ?? []);
  return skills.length > 0 && (await askForTrust(io, found, skills));
}

const HELP: readonly (readonly [command: string, what: string])[] = [
  ["/skills", "the skills there are"],
  ["/use NAME message", "hand a task to one, whatever the model would do"],
  ["/help", "this"],
  ["/quit", "leave; so does Ctrl-D. Ctrl-C stops what is being done"],
];

async function dialogue(io: Io, talk: Talk): Promise<number> {
  const out = printer(io.stderr, io.env);
  const history: string[] = [];
  out.line`${out.bold("skillet chat")} ${out.dim("/help says what there is, /quit leaves")}`;
  for (;;) {
    const line = await io.read?.("> ", history);
    if (line === undefined) return EXIT.fine;
    if (line === INTERRUPTED) out.line`${out.dim("(/quit or Ctrl-D leaves)")}`;
    const said = line === INTERRUPTED ? "" : line.trim();
    if (said === "") continue;
    history.unshift(said);
    const [command = "", ...words] = said.split(/\s+/);
    if (command === "/quit" || command === "/exit") return EXIT.fine;
    if (command === "/help") for (const [what, means] of HELP) out.line`  ${out.cyan(what.padEnd(17))}  ${means}`;
    else if (command === "/skills") printSkills(io, availableIn(talk.found), talk.found.trust);
    else if (command === "/use") await talk.use(words[0] ?? "", words.slice(1).join(" "));
    else await talk.say(said);
  }
}

function availableIn(found: Discovered): readonly Skill[] {
  return found.catalog.available((skill) => unavailability(skill, found));
}
