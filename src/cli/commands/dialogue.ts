import type { Discovered } from "../../host/discover.ts";
import { aliasesOf, resolveModel } from "../../model/resolve.ts";
import { RUNBOOK } from "../../model/runbook.ts";
import { unavailability } from "../../policy/policy.ts";
import { asNotice } from "../../run/notice.ts";
import type { RunResult } from "../../run/result.ts";
import { count, nearest, oneLine } from "../../shared/text.ts";
import { isFor, type Skill } from "../../skill/skill.ts";
import { shortPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { INTERRUPTED, type Io, type Printer, printer } from "../io.ts";
import { sayHowToGoOn, sayProblems } from "../outcome.ts";
import { sayUsage } from "../progress.ts";
import { sayNotice } from "../say.ts";
import type { Tracing } from "../traces.ts";
import { printSkills } from "./list.ts";
import { type ChatOptions, openTalk, type Talk } from "./talk.ts";

/** Talks with whoever sits at the terminal, until they leave. */
export async function dialogue(given: Io, found: Discovered, options: ChatOptions, traces?: Tracing): Promise<number> {
  if (!given.dialogue) return EXIT.usage;
  const io: Io = { ...given, ask: (question, signal) => lines.ask(question, signal) };
  const out = printer(io.stderr, io.env);
  // What was asked for is judged here, before the terminal is taken.
  const talk = openTalk(io, found, options, traces);
  const at: At = { io, out, found, talk, isQuiet: options.quiet ?? false };
  const words = { aliases: [] as readonly string[] };
  const lines = given.dialogue((line) => completions(line, at, words.aliases));
  try {
    words.aliases = (await aliasesOf(found)).map(({ alias }) => alias);
    await sayHeader(at);
    let wasInterrupted = false;
    for (;;) {
      const line = await lines.read("> ");
      if (line === undefined) return EXIT.fine;
      if (line === INTERRUPTED && wasInterrupted) return EXIT.fine;
      wasInterrupted = line === INTERRUPTED;
      if (line === INTERRUPTED) out.line`${out.dim("(Ctrl-C again, Ctrl-D or /quit leaves)")}`;
      else if (line.trim() !== "" && (await take(at, line.trim())) === LEAVE) return EXIT.fine;
    }
  } finally {
    lines.close();
  }
}

/** Where a line is taken. */
interface At {
  io: Io;
  out: Printer;
  found: Discovered;
  talk: Talk;
  isQuiet: boolean;
}

const LEAVE = Symbol("leave");

interface Command {
  takes: string;
  says: string;
  run(at: At, given: string): unknown;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  "/skills": { takes: "", says: "the skills there are", run: sayTheSkills },
  "/use": { takes: "NAME message", says: "hand a task to a skill; so does /NAME message", run: use },
  "/model": { takes: "ALIAS", says: "ask another model from now on; alone: which there are", run: changeModel },
  "/help": { takes: "", says: "this", run: sayHelp },
  "/quit": { takes: "", says: "leave; so do exit, :q and Ctrl-D. Ctrl-C stops what is being done", run: () => LEAVE },
};

/** What people say when they want to leave. */
const FAREWELLS = new Set(["/exit", "exit", "quit", ":q"]);

async function take(at: At, said: string): Promise<unknown> {
  if (FAREWELLS.has(said)) return LEAVE;
  const [, word = "", rest = ""] = /^(\/[a-z0-9][\w@.-]*)(?:\s+([\s\S]*))?$/i.exec(said) ?? [];
  if (word === "") return sayEnd(at, await at.talk.say(said));
  const command = COMMANDS[word];
  if (command) return command.run(at, rest);
  const name = word.slice(1);
  if (at.talk.session.catalog.find(name)) return useNow(at, name, rest);
  const meant = nearest(word, [...Object.keys(COMMANDS), ...callable(at).map((skill) => `/${skill.name}`)]);
  const fix = meant ? `did you mean ${meant}?` : "/help says which there are, /skills which skills";
  sayNotice(at.out, at.out.red("✗"), `There is no command ${word}, and no skill of that name`, fix);
}

function completions(line: string, at: At, aliases: readonly string[]): readonly string[] {
  const [, command] = /^(\/\S+)\s+\S*$/.exec(line) ?? [];
  const names = () => callable(at).map(({ name }) => name);
  if (command === "/use") return names();
  if (command === "/model") return aliases;
  return /^\/\S*$/.test(line) ? [...Object.keys(COMMANDS), ...names().map((name) => `/${name}`)] : [];
}

const WIDEST = 80;

/** Which model, how many skills, where: what is worth knowing before the first word. */
async function sayHeader(at: At): Promise<void> {
  const { out, found, talk } = at;
  const model = await modelOf(at, talk.model);
  const width = Math.min(WIDEST, out.width);
  const start = ["skillet chat", ...(model === undefined || model === RUNBOOK ? [] : [oneLine(model, 36)])];
  const end = [count(available(at).length, "skill")];
  const { workspace, home } = found.around;
  const room = width - [...start, ...end, "", "/help"].join(SEPARATOR).length;
  const place = shortPath(workspace, home);
  const shown = place.length <= room ? place : `…${place.slice(1 - Math.max(2, room))}`;
  const [title = "", ...rest] = [...start, ...end, shown, "/help"];
  out.line`${out.bold(title)}${out.dim(SEPARATOR + rest.join(SEPARATOR))}`;
  if (model === RUNBOOK) out.line`${out.dim("runbook, no language model: it does what a skill spells out")}`;
}

const SEPARATOR = " · ";

/** The model's name. Where there is none by this alias, or it cannot be had, that is said. */
async function modelOf({ out, found }: At, alias: string | undefined): Promise<string | undefined> {
  try {
    const { model, warnings } = await resolveModel(found, alias);
    if (!warnings.some(({ code }) => code === "model-unknown")) return model.name;
    const names = (await aliasesOf(found)).map((row) => row.alias);
    const fix = `there are: ${names.join(", ")}; or provider/model`;
    sayNotice(out, out.red("✗"), `There is no model called '${alias}'`, fix);
  } catch (error) {
    const { message, fix } = asNotice(error);
    sayNotice(out, out.red("✗"), message, fix);
  }
  return undefined;
}

async function changeModel(at: At, alias: string): Promise<void> {
  const { out, found, talk } = at;
  if (alias !== "") {
    const name = await modelOf(at, alias);
    if (name === undefined) return;
    talk.model = alias;
    out.line`${out.dim(`· ${name} is asked from now on`)}`;
    return;
  }
  const { model = "default" } = talk;
  const rows = (await aliasesOf(found)).map((row) => [row.alias, row.model]);
  if (!rows.some(([name]) => name === model)) rows.unshift([model, ""]);
  const widest = Math.max(...rows.map(([name = ""]) => name.length));
  for (const [name = "", says = ""] of rows) {
    out.line`${name === model ? out.green("✓") : " "} ${out.cyan(name)}${`${" ".repeat(widest - name.length)}  ${says}`.trimEnd()}`;
  }
}

async function sayTheSkills(at: At): Promise<void> {
  await at.talk.session.reload();
  const skills = available(at);
  printSkills(at.io, skills, at.found.trust);
  if (skills.length === 0) at.out.line`there are no skills here: \`skillet new NAME\` makes one`;
}

async function use(at: At, given: string): Promise<void> {
  const [, name = "", message = ""] = /^(\S+)\s*([\s\S]*)$/.exec(given) ?? [];
  if (name !== "") return useNow(at, name, message);
  at.out.line`/use NAME message hands the task to the skill NAME; /skills lists them`;
}

async function useNow(at: At, name: string, message: string): Promise<void> {
  const result = await at.talk.use(name, message);
  sayEnd(at, result);
  sayHowToGoOn(at.io, at.found, result, { quiet: at.isQuiet });
}

function sayHelp({ out }: At): void {
  const rows = Object.entries(COMMANDS).map(([name, { takes, says }]) => [`${name} ${takes}`.trim(), says] as const);
  const widest = Math.max(...rows.map(([what]) => what.length));
  for (const [what, says] of rows) out.line`  ${out.cyan(what.padEnd(widest))}  ${says}`;
}

/** What went wrong, or else what it took. */
function sayEnd({ io, out, isQuiet }: At, result: RunResult): void {
  sayProblems(io, result);
  if (isQuiet || result.stop === "refused") return;
  const took = [`${(result.ms / 1000).toFixed(1)} s`, ...sayUsage(result.usage, result.cost)];
  out.line`${out.dim(took.join(SEPARATOR))}`;
}

function available({ found, talk }: At): readonly Skill[] {
  return talk.session.catalog.available((skill) => unavailability(skill, found));
}

/** The skills that a person can call by their names. */
function callable(at: At): readonly Skill[] {
  return available(at).filter((skill) => isFor("user", skill));
}
