import type { Command } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet run`. */
export const RUN: Entry = {
  define: (command) =>
    using(
      command
        .description("use a skill: a sub-agent follows it, with its own model, tools, variables and limits")
        .argument("<skill>", "the skill, or `name@source` for a shadowed copy")
        .argument("[message...]", "what it is to do")
        .option("-i, --input <json>", "input for a skill with an input schema; @file reads it from a file")
        .option("-c, --context <text>", "what it must know; @file reads a file; what is piped in, when left out")
        .option("-n, --dry-run", "show every check, and run nothing"),
    ).addHelpText(
      "after",
      examples(
        "skillet run host-report",
        'skillet run summarize --input \'{"content": "notes.md", "format": "tldr"}\'',
        'git diff | skillet run code-review "review this change"',
        'skillet run research "what is new in SQLite" --dry-run',
      ),
    ),
  load: async () => (await import("../commands/run.ts")).run,
};

/** `skillet chat`. */
export const CHAT: Entry = {
  define: (command) =>
    using(
      command
        .description("talk with an agent that has your skills; without a message, in a dialogue")
        .argument("[message...]", "what to say; one answer, and it ends"),
    ).addHelpText(
      "after",
      examples("skillet chat", 'skillet chat "List available skills"', 'skillet chat "Use the host-report skill"'),
    ),
  load: async () => (await import("../commands/chat.ts")).chat,
};

/** Options of whatever uses skills. */
function using(command: Command): Command {
  return seeing(
    command
      .option("-m, --model <alias>", "the model: an alias of the configuration, `provider/model`, or `runbook`")
      .option("--timeout <seconds>", "stop after so long, with what there is")
      .option("--budget <tokens>", "stop after so many tokens, with what there is")
      .option("--max-iterations <number>", "ask the model at most so often")
      .option("--chat-type <type>", "on behalf of a chat of this type; private when left out")
      .option("--chat-id <id>", "and of this id; `terminal` when left out"),
  );
}

/** Options of whatever shows a run. */
export function seeing(command: Command): Command {
  return command
    .option("-y, --yes", "agree to changes in the workspace beforehand; to nothing outside of it")
    .option("--no-wait", "refuse what nobody can be asked about, in place of waiting")
    .option("--events", "print what happens as JSON, a line each")
    .option("--show-secrets", "show the values of skills' variables in the answer")
    .option("-q, --quiet", "do not say what happens, nor what became of it");
}
