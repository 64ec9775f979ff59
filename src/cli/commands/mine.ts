import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Option } from "commander";
import { SkillError } from "../../errors/problem.ts";
import {
  listTranscripts,
  type MinedSkill,
  mineTranscripts,
  TRANSCRIPT_CLIENTS,
  type TranscriptClient,
} from "../../eval/transcripts.ts";
import type { Skill } from "../../skill/skill.ts";
import { TRIGGER_QUERIES_FILE } from "../../skill/source/file-skill.ts";
import { createFolder, readRegularText } from "../../util/file-access.ts";
import { getUserHome } from "../../util/system.ts";
import { formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  parseSince,
  SINCE_HELP,
} from "../command-context.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printJson } from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";

/** `skillet mine`. */
export const mineCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Learn from your own transcripts which skills were used, and which were missed")
      .argument("[skill...]", "Skills to report on. Defaults to all.")
      .addOption(new Option("--client <name>", "Read only the transcripts of this client").choices(TRANSCRIPT_CLIENTS))
      .option("--since <time>", `Only transcripts since then: ${SINCE_HELP}`)
      .option("--add", "Ask for each missed prompt whether to add it to the skill's evals/triggers.json")
      .addHelpText(
        "after",
        `
It reads ~/.claude/projects and ~/.codex/sessions. Nothing leaves this machine.`,
      )
      .addHelpText(
        "after",
        formatExamples("skillet mine", "skillet mine deploy --since 30d", "skillet mine deploy --add"),
      ),
  run: mineOwnTranscripts,
};

interface MineOptions {
  client?: TranscriptClient;
  since?: string;
  add?: boolean;
}

async function mineOwnTranscripts({ io, options, args }: CommandContext<MineOptions>): Promise<number> {
  if (options.add && !io.ask)
    throw new SkillError("usage", {
      message: "--add asks about each prompt, which needs a terminal",
      fix: "run it at a terminal, or use --json",
    });
  const { catalog } = await discoverForCommand(io, options);
  for (const name of args) catalog.get(name);
  const since = options.since === undefined ? undefined : parseSince(options.since);
  const home = getUserHome(io.env);
  const clients = options.client ? [options.client] : TRANSCRIPT_CLIENTS;
  const files = clients.flatMap((client) => listTranscripts(home, client, since).map((path) => ({ path, client })));
  const mined = await runWithWaitIndicator(io, `reading ${formatCount(files.length, "transcript")}`, () =>
    mineTranscripts(files, catalog.skills),
  );
  const skills = mined.skills.filter(({ skill }) => args.length === 0 || args.includes(skill));
  if (options.json) {
    printJson(io.stdout, { ...mined, skills });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  const error = createPrinter(io.stderr, io.env);
  error.line`${formatCount(mined.sessions, "session")} with ${formatCount(mined.prompts, "prompt")}`;
  if (mined.unreadable > 0) error.line`${error.yellow("!")} ${formatCount(mined.unreadable, "line")} could not be read`;
  printMined(out, skills);
  if (options.add) for (const one of skills) await addMissedPrompts(io, catalog.get(one.skill), one.missed);
  return EXIT.fine;
}

const MAX_SHOWN = 5;

function printMined(out: Printer, skills: readonly MinedSkill[]): void {
  const seen = skills.filter(
    ({ listed, listedByName, used, missed }) => listed + listedByName + used + missed.length > 0,
  );
  if (seen.length === 0) {
    out.line`none of these skills occurs in the transcripts`;
    return;
  }
  const widest = Math.max("skill".length, ...seen.map(({ skill }) => skill.length));
  out.line`${out.bold("skill".padEnd(widest))}  ${out.bold("listed  name only  used  missed")}`;
  for (const { skill, listed, listedByName, used, missed } of seen) {
    const cells = [String(listed).padStart(6), String(listedByName).padStart(9), String(used).padStart(4)];
    out.line`${skill.padEnd(widest)}  ${cells.join("  ")}  ${String(missed.length).padStart(6)}`;
    for (const prompt of missed.slice(0, MAX_SHOWN)) out.line`    ${out.yellow("missed")} ${prompt}`;
    if (missed.length > MAX_SHOWN) out.line`    ${out.dim(`… and ${missed.length - MAX_SHOWN} more`)}`;
  }
}

/** Asks for each prompt whether the skill should have been used, and adds those that the user confirms. */
async function addMissedPrompts(io: CommandIo, { name, origin }: Skill, missed: readonly string[]): Promise<void> {
  if (missed.length === 0 || origin.folder === undefined) return;
  const file = join(origin.folder, TRIGGER_QUERIES_FILE);
  const entries: unknown = existsSync(file) ? JSON.parse(readRegularText(file)) : [];
  if (!Array.isArray(entries))
    throw new SkillError("eval-invalid", { message: `${file} is not a list`, fix: "correct it" });
  const known = new Set(entries.map((entry) => Object(entry).query));
  const added: object[] = [];
  for (const query of missed) {
    if (known.has(query)) continue;
    if (await isConfirmed(io, `Should ${name} be used for "${query}"?`)) added.push({ query, should_trigger: true });
  }
  if (added.length === 0) return;
  createFolder(dirname(file));
  writeFileSync(file, `${JSON.stringify([...entries, ...added], null, 2)}\n`);
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.green("✓")} ${formatCount(added.length, "query", "queries")} added to ${file}`;
}
