import { listModelAliases, resolveModel } from "../../agent/models/resolve-model.ts";
import { RUNBOOK_NAME } from "../../agent/models/runbook.ts";
import { listAvailableSkills } from "../../agent/policy/skill-policies.ts";
import { type RunResult, toProblem } from "../../agent/run/run-result.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import { findNearest, formatCount, truncateLine } from "../../util/text.ts";
import { EXIT } from "../command-context.ts";
import { type CommandIo, createPrinter, INTERRUPTED_LINE, type Printer, printProblem } from "../output.ts";
import type { TraceSink } from "../progress.ts";
import { formatUsage } from "../run-format.ts";
import { printNextCommands, printRunProblems } from "../run-output.ts";
import { type ChatOptions, type ChatSession, createChatSession } from "./chat.ts";
import { printSkillList } from "./list.ts";

/** Runs a dialogue at the terminal until the user leaves. */
export async function runDialogue(
  terminal: CommandIo,
  found: DiscoverResult,
  options: ChatOptions,
  traces?: TraceSink,
): Promise<number> {
  if (!terminal.dialogue) return EXIT.usage;
  const io: CommandIo = { ...terminal, ask: (question, signal) => lines.ask(question, signal) };
  const out = createPrinter(io.stderr, io.env);
  // Checks the options before the terminal is taken over.
  const talk = createChatSession(io, found, options, traces);
  const at: DialogueContext = { io, out, found, talk, isQuiet: options.quiet ?? false };
  const words = { aliases: [] as readonly string[] };
  const lines = terminal.dialogue((line) => listDialogueCompletions(line, at, words.aliases));
  try {
    words.aliases = (await listModelAliases(found)).map(({ alias }) => alias);
    await printHeader(at);
    let wasInterrupted = false;
    for (;;) {
      const line = await lines.read("> ");
      if (line === undefined) return EXIT.fine;
      if (line === INTERRUPTED_LINE && wasInterrupted) return EXIT.fine;
      wasInterrupted = line === INTERRUPTED_LINE;
      if (line === INTERRUPTED_LINE) out.line`${out.dim("(press Ctrl-C again or Ctrl-D, or type /quit, to leave)")}`;
      else if (line.trim() !== "" && (await handleLine(at, line.trim())) === LEAVE_DIALOGUE) return EXIT.fine;
    }
  } finally {
    lines.close();
  }
}

/** The context in which a line is handled. */
interface DialogueContext {
  io: CommandIo;
  out: Printer;
  found: DiscoverResult;
  talk: ChatSession;
  isQuiet: boolean;
}

const LEAVE_DIALOGUE = Symbol("leave");

interface SlashCommand {
  takes: string;
  says: string;
  run(at: DialogueContext, value: string): unknown;
}

const SLASH_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  "/skills": { takes: "", says: "list the skills", run: printDialogueSkills },
  "/use": { takes: "NAME message", says: "run a skill; short form: /NAME message", run: useSkillByName },
  "/model": { takes: "ALIAS", says: "switch to another model, or list the models", run: changeModel },
  "/help": { takes: "", says: "show this help", run: printDialogueHelp },
  "/quit": {
    takes: "",
    says: "leave, like exit, :q and Ctrl-D; Ctrl-C interrupts the answer",
    run: () => LEAVE_DIALOGUE,
  },
};

/** Other inputs that leave the dialogue. */
const EXIT_WORDS = new Set(["/exit", "exit", "quit", ":q"]);

async function handleLine(at: DialogueContext, text: string): Promise<unknown> {
  if (EXIT_WORDS.has(text)) return LEAVE_DIALOGUE;
  const [, word = "", rest = ""] = /^(\/[a-z0-9][\w@.-]*)(?:\s+([\s\S]*))?$/i.exec(text) ?? [];
  if (word === "") return printTurnEnd(at, await at.talk.say(text));
  const command = SLASH_COMMANDS[word];
  if (command) return command.run(at, rest);
  const name = word.slice(1);
  if (at.talk.session.catalog.find(name)) return useSkillNow(at, name, rest);
  const meant = findNearest(word, [
    ...Object.keys(SLASH_COMMANDS),
    ...listCallableSkills(at).map((skill) => `/${skill.name}`),
  ]);
  const fix = meant ? `did you mean ${meant}?` : "/help lists the commands, /skills the skills";
  printProblem(at.out, at.out.red("✗"), { message: `${word} is neither a command nor a skill`, fix });
}

function listDialogueCompletions(line: string, at: DialogueContext, aliases: readonly string[]): readonly string[] {
  const [, command] = /^(\/\S+)\s+\S*$/.exec(line) ?? [];
  const names = () => listCallableSkills(at).map(({ name }) => name);
  if (command === "/use") return names();
  if (command === "/model") return aliases;
  return /^\/\S*$/.test(line) ? [...Object.keys(SLASH_COMMANDS), ...names().map((name) => `/${name}`)] : [];
}

const MAX_HEADER_WIDTH = 80;

/** Prints the model, the number of skills and the workspace. */
async function printHeader(at: DialogueContext): Promise<void> {
  const { out, found, talk } = at;
  const model = await resolveModelName(at, talk.model);
  const width = Math.min(MAX_HEADER_WIDTH, out.width);
  const start = ["skillet chat", ...(model === undefined || model === RUNBOOK_NAME ? [] : [truncateLine(model, 36)])];
  const end = [formatCount(listChatSkills(at).length, "skill")];
  const { workspace, home } = found.around;
  const room = width - [...start, ...end, "", "/help"].join(SEPARATOR).length;
  const path = formatHomePath(workspace, home);
  const shown = path.length <= room ? path : `…${path.slice(1 - Math.max(2, room))}`;
  const [title = "", ...rest] = [...start, ...end, shown, "/help"];
  out.line`${out.bold(title)}${out.dim(SEPARATOR + rest.join(SEPARATOR))}`;
  if (model === RUNBOOK_NAME)
    out.line`${out.dim("runbook, no language model: it follows the literal steps of a skill")}`;
}

const SEPARATOR = " · ";

/** Returns the model's name. Prints a problem if the alias is unknown or the model unavailable. */
async function resolveModelName(
  { out, found }: DialogueContext,
  alias: string | undefined,
): Promise<string | undefined> {
  try {
    const { model, warnings } = await resolveModel(found, alias);
    if (!warnings.some(({ code }) => code === "model-unknown")) return model.name;
    const names = (await listModelAliases(found)).map((row) => row.alias);
    const fix = `models: ${names.join(", ")}; or provider/model`;
    printProblem(out, out.red("✗"), { code: "model-unknown", message: `Unknown model '${alias}'`, fix });
  } catch (error) {
    printProblem(out, out.red("✗"), toProblem(error));
  }
  return undefined;
}

async function changeModel(at: DialogueContext, alias: string): Promise<void> {
  const { out, found, talk } = at;
  if (alias !== "") {
    const name = await resolveModelName(at, alias);
    if (name === undefined) return;
    talk.model = alias;
    out.line`${out.dim(`· switched to ${name}`)}`;
    return;
  }
  const { model = "default" } = talk;
  const rows = (await listModelAliases(found)).map((row) => [row.alias, row.model]);
  if (!rows.some(([name]) => name === model)) rows.unshift([model, ""]);
  const widest = Math.max(...rows.map(([name = ""]) => name.length));
  for (const [name = "", says = ""] of rows) {
    out.line`${name === model ? out.green("✓") : " "} ${out.cyan(name)}${`${" ".repeat(widest - name.length)}  ${says}`.trimEnd()}`;
  }
}

async function printDialogueSkills(at: DialogueContext): Promise<void> {
  await at.talk.session.reload();
  const skills = listChatSkills(at);
  printSkillList(at.io, skills, at.found.trust);
  if (skills.length === 0) at.out.line`no skills found: create one with \`skillet new NAME\``;
}

async function useSkillByName(at: DialogueContext, value: string): Promise<void> {
  const [, name = "", message = ""] = /^(\S+)\s*([\s\S]*)$/.exec(value) ?? [];
  if (name !== "") return useSkillNow(at, name, message);
  at.out.line`usage: /use NAME message; /skills lists the skills`;
}

async function useSkillNow(at: DialogueContext, name: string, message: string): Promise<void> {
  const result = await at.talk.use(name, message);
  printTurnEnd(at, result);
  await printNextCommands(at.io, at.found, result, { quiet: at.isQuiet });
}

function printDialogueHelp({ out }: DialogueContext): void {
  const rows = Object.entries(SLASH_COMMANDS).map(
    ([name, { takes, says }]) => [`${name} ${takes}`.trim(), says] as const,
  );
  const widest = Math.max(...rows.map(([what]) => what.length));
  for (const [what, says] of rows) out.line`  ${out.cyan(what.padEnd(widest))}  ${says}`;
}

/** Prints the problems of a turn, or its duration and cost. */
function printTurnEnd({ io, out, isQuiet }: DialogueContext, result: RunResult): void {
  printRunProblems(io, result);
  if (isQuiet || result.stop === "refused") return;
  const took = [`${(result.ms / 1000).toFixed(1)} s`, ...formatUsage(result.usage, result.cost)];
  out.line`${out.dim(took.join(SEPARATOR))}`;
}

function listChatSkills({ found, talk }: DialogueContext): readonly Skill[] {
  return listAvailableSkills(talk.session.catalog, found);
}

/** Lists the skills that a user can run by name. */
function listCallableSkills(at: DialogueContext): readonly Skill[] {
  return listChatSkills(at).filter((skill) => isInvocableBy("user", skill));
}
