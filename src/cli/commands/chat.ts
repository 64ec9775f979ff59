import type { Discovered } from "../../host/discover.ts";
import { announceProcess } from "../../host/live-processes.ts";
import { SkillError } from "../../shared/error.ts";
import { EXIT } from "../exit.ts";
import { discoverToRun, requireConfiguration } from "../found.ts";
import { printJson, printJsonLine } from "../io.ts";
import { exitOf, sayHowToGoOn, sayOutcome, sayProblems } from "../outcome.ts";
import type { Context } from "../program.ts";
import { type Tracing, traced } from "../traces.ts";
import { piped } from "./run.ts";
import { type ChatOptions, openTalk } from "./talk.ts";

/** An agent with the skills that are found here: one answer, or a dialogue. */
export async function chat({ io, options, args }: Context<ChatOptions>): Promise<number> {
  const found = await discoverToRun(io, options);
  requireConfiguration(io, found);
  const isForProgram = options.json === true || options.events === true;
  const announcement = announceProcess(found, "chat");
  const looking = setInterval(announcement.update, LOOK_MS).unref();
  try {
    return await traced(io, async (traces) => {
      if (args.length > 0 || !io.dialogue || isForProgram) return answered({ io, options, args }, found, traces);
      const { dialogue } = await import("./dialogue.ts");
      return dialogue(io, found, options, traces);
    });
  } finally {
    clearInterval(looking);
    announcement.close();
  }
}

/** How often a chat that waits for its user checks the configuration. */
const LOOK_MS = 500;

async function answered(
  { io, options, args }: Context<ChatOptions>,
  found: Discovered,
  traces: Tracing | undefined,
): Promise<number> {
  const message = args.length > 0 ? args.join(" ") : ((await io.stdin?.()) ?? "");
  if (message.trim() === "") {
    const fix = 'say something: skillet chat "List available skills"';
    throw new SkillError("usage", { message: "There is nothing to answer", fix });
  }
  const context = args.length > 0 ? await piped(io) : undefined;
  const talk = openTalk(io, found, options, traces);
  const result = await talk.say(message, context);
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result });
  else if (options.json) printJson(io.stdout, result);
  else {
    sayProblems(io, result, options);
    if (!options.quiet) sayOutcome(io, talk.isUndone() ? { ...result, stop: "failed", isError: true } : result);
    sayHowToGoOn(io, found, result, options);
  }
  if (talk.isRefused()) return EXIT.refused;
  return talk.isUndone() ? EXIT.findings : exitOf(result);
}
