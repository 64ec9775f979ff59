import type { Command } from "commander";
import { SkillError } from "../errors/problem.ts";
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
  /** What else is said where an option is wrong. */
  afterError?: string;
}

/** What every command ends with. The last is what a shell gives for a program that Ctrl-C ended. */
export const EXIT = { fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 } as const;

/** An end that people were told of already, in more words. A program is told it as any other. */
export class ReportedError extends SkillError {}

/** Somebody said no, or there was nobody who could say yes. `fix`: what whoever cannot be asked does. */
export function createNotApprovedError({ ask }: Pick<CommandIo, "ask">, message: string, fix: string): SkillError {
  return ask
    ? new SkillError("not-agreed", { message })
    : new SkillError("not-agreed", { message: `${message}: nobody was asked, since this is no terminal`, fix });
}

/** The end of a command's help. */
export function formatExamples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}

/** Options of whatever uses skills. */
export function addRunOptions(command: Command): Command {
  return addRunOutputOptions(
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
export function addRunOutputOptions(command: Command): Command {
  return command
    .option("-y, --yes", "agree to changes in the workspace beforehand; to nothing outside of it")
    .option("--no-wait", "refuse what nobody can be asked about, in place of waiting")
    .option("--events", "print what happens as JSON, a line each")
    .option("--show-secrets", "show the values of skills' variables in the answer")
    .option("-q, --quiet", "do not say what happens, nor what became of it");
}

export const PROJECT_HELP = "in this workspace, in place of all of them: .agents/skills";

export const ALLOW_PRIVATE_HELP = "also fetch from private addresses that only the source names";

/** The clients whose folders are known: spelled out here too, since every command reads this file. */
export const NATIVE_CLIENT_NAMES = [
  ...["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor", "agents"],
];

/** What else `skillet export --to` writes, and the format of each. */
export const FILE_TARGETS = { zip: "skill-zip", plugin: "agent-plugin" } as const;
export const EXPORT_TARGETS: readonly string[] = [...NATIVE_CLIENT_NAMES, ...Object.keys(FILE_TARGETS)];

export const NATIVE_CLIENT_LIST = NATIVE_CLIENT_NAMES.join(", ");

/** The clients whose configuration is known: spelled out here too, since every command reads this file. */
export const MCP_CLIENT_NAMES = ["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor"];

/** What `--since` takes, for the help of whatever takes it. */
export const SINCE_HELP = "7d, 24h, 30m, 2w, or a date such as 2026-11-01";

const SINCE_UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** `7d`, `24h`, or a date: that of a day begins where the user is. */
export function parseSince(written: string, now = new Date()): Date {
  const [, number, unit] = /^(\d{1,6})([smhdw])$/.exec(written) ?? [];
  if (number !== undefined && unit !== undefined)
    return new Date(now.getTime() - Number(number) * (SINCE_UNITS[unit] ?? 0));
  const [, day = ""] = /^(\d{4}-\d\d-\d\d)(?:T[\d:.]{5,12}(?:Z|[+-]\d\d:\d\d)?)?$/.exec(written) ?? [];
  const date = new Date(written === day ? `${day}T00:00` : written);
  if (isCalendarDay(day) && !Number.isNaN(date.getTime())) return date;
  throw new SkillError("usage", {
    message: `--since takes a time, not "${truncateLine(written, 40)}"`,
    fix: "for example --since 7d, --since 24h or --since 2026-11-01",
  });
}

/** The language takes the 31st of February for the 3rd of March. */
function isCalendarDay(day: string): boolean {
  const start = new Date(`${day}T00:00Z`);
  return !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day);
}
