import type { Command } from "commander";
import { SkillError } from "../errors/problem.ts";
import { NATIVE_CLIENT_NAMES } from "../skill/clients.ts";
import { truncateLine } from "../util/text.ts";
import type { CommandIo } from "./output.ts";

/** Options that every command takes. */
export interface CommonOptions {
  workspace?: string;
  json?: boolean;
}
export interface CommandContext<Options> {
  io: CommandIo;
  options: Options & CommonOptions;
  args: string[];
}
type CommandHandler = (context: CommandContext<never>) => Promise<number>;
export interface CommandDefinition {
  define(command: Command): Command;
  run?: CommandHandler;
  commands?: Record<string, CommandDefinition>;
  /** Text added to the hint for a wrong option. */
  afterError?: string;
}

/** The exit codes of all commands. 130 is the shell's code for a program ended by Ctrl-C. */
export const EXIT = { fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 } as const;

/** A failure already printed in detail for people. `--json` reports it like any other. */
export class ReportedError extends SkillError {}

/** The reason why the user cannot be asked, in every message. */
export const NOT_A_TERMINAL = "this is not a terminal";

/** Returns the error for a missing approval. `fix`: the step for non-interactive use. */
export function createNotApprovedError(
  { ask }: Pick<CommandIo, "ask">,
  message: string,
  fix: string,
  commands?: string[],
): SkillError {
  return ask
    ? new SkillError("not-confirmed", { message })
    : new SkillError("not-confirmed", {
        message: `${message}: ${NOT_A_TERMINAL}`,
        fix,
        ...(commands ? { commands } : {}),
      });
}

/** Formats the examples at the end of a command's help. */
export function formatExamples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}

/** Adds the options of all commands that run skills. */
export function addRunOptions(command: Command): Command {
  return addRunOutputOptions(
    command
      .option("-m, --model <alias>", "Use this model: a configured alias, `provider/model`, or `runbook`")
      .option("--timeout <seconds>", "Stop after this time and return the partial result")
      .option("--budget <tokens>", "Stop after this many tokens and return the partial result")
      .option("--max-iterations <number>", "Limit the number of model calls")
      .option("--chat-type <type>", "Run on behalf of this type of chat. Defaults to private.")
      .option("--chat-id <id>", "Run on behalf of the chat with this id. Defaults to terminal."),
  );
}

/** Adds the options of all commands that show a run. */
export function addRunOutputOptions(command: Command): Command {
  return command
    .option("-y, --yes", "Approve changes inside the workspace in advance")
    .option("--no-wait", "Deny requests that need an approval instead of waiting")
    .option("--events", "Print events as JSON Lines")
    .option("--show-secrets", "Show the values of skill variables in the answer")
    .option("-q, --quiet", "Print only the answer");
}

export const PROJECT_HELP = "Use .agents/skills of this workspace instead of your user folder";

export const ALLOW_PRIVATE_HELP = "Also fetch from private addresses named by the source";

/** Other targets of `skillet export --to`, with their formats. */
export const FILE_TARGETS = { zip: "skill-zip", plugin: "agent-plugin" } as const;
export const EXPORT_TARGETS: readonly string[] = [...NATIVE_CLIENT_NAMES, ...Object.keys(FILE_TARGETS)];

/** The values of `--since`, for help texts. */
export const SINCE_HELP = "7d, 24h, 30m, 2w, or a date such as 2026-11-01";

const SINCE_UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Parses `7d`, `24h`, or a date. A date without a time starts at midnight, local time. */
export function parseSince(text: string, now = new Date()): Date {
  const [, number, unit] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  if (number !== undefined && unit !== undefined)
    return new Date(now.getTime() - Number(number) * (SINCE_UNITS[unit] ?? 0));
  const [, day = ""] = /^(\d{4}-\d\d-\d\d)(?:T[\d:.]{5,12}(?:Z|[+-]\d\d:\d\d)?)?$/.exec(text) ?? [];
  const date = new Date(text === day ? `${day}T00:00` : text);
  if (isCalendarDay(day) && !Number.isNaN(date.getTime())) return date;
  throw new SkillError("usage", {
    message: `--since takes a time, not "${truncateLine(text, 40)}"`,
    fix: "for example --since 7d, --since 24h or --since 2026-11-01",
  });
}

/** Parses a duration such as `12h` or `30d` into milliseconds. */
export function parseDuration(option: string, text: string): number {
  const [, number, unit = ""] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  if (Number(number) > 0) return Number(number) * (SINCE_UNITS[unit] ?? 0);
  throw new SkillError("usage", {
    message: `${option} takes a duration, not "${truncateLine(text, 40)}"`,
    fix: `for example ${option} 12h or ${option} 30d`,
  });
}

/** Rejects dates such as the 31st of February, which `Date` takes for the 3rd of March. */
function isCalendarDay(day: string): boolean {
  const start = new Date(`${day}T00:00Z`);
  return !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day);
}
