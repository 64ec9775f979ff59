import { SkillError } from "../../shared/error.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { printJson, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { exitOf, piped, sayOutcome, sayProblems } from "./run.ts";
import { type ChatOptions, openTalk } from "./talk.ts";

/** An agent with the skills that are found here: one answer, or a dialogue. */
export async function chat({ io, options, args }: Context<ChatOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  if (!warnOfConfiguration(io, found)) return EXIT.usage;
  const isForProgram = options.json === true || options.events === true;
  if (args.length === 0 && io.dialogue && !isForProgram) {
    const { dialogue } = await import("./dialogue.ts");
    return dialogue(io, found, options);
  }
  const message = args.length > 0 ? args.join(" ") : ((await io.stdin?.()) ?? "");
  if (message.trim() === "") {
    const fix = 'say something: skillet chat "List available skills"';
    throw new SkillError("usage", { message: "There is nothing to answer", fix });
  }
  const context = args.length > 0 ? await piped(io) : undefined;
  const talk = openTalk(io, found, options);
  const result = await talk.say(message, context);
  if (options.events) printJsonLine(io.stdout, { type: "result", ...result });
  else if (options.json) printJson(io.stdout, result);
  else {
    sayProblems(io, result);
    if (!options.quiet) sayOutcome(io, talk.isUndone() ? { ...result, stop: "failed", isError: true } : result);
  }
  if (talk.isRefused()) return EXIT.refused;
  return talk.isUndone() ? EXIT.findings : exitOf(result);
}
