import type { Argument, Command, Option } from "commander";

/** What can stand where a line ends: words that are known, and what else is to be looked for. */
export interface Wanted {
  words: Word[];
  /** What the word begins with that is not looked at: `--format=`, `claude,`. */
  before: string;
  /** What the help calls it: `skill`, `path`, `folder` … */
  kind?: string;
  /** What `-C` said. */
  workspace?: string;
}
export interface Word {
  word: string;
  says: string;
}

/** Follows a line through the program: its words, and the beginning of the one that is being typed. */
export function wantedBy(program: Command, typed: readonly string[], last: string): Wanted {
  const [first, ...after] = typed;
  if (first === "help" && !last.startsWith("-"))
    return { words: follow(program, after).command.commands.map(wordFor), before: "" };
  const at = follow(program, typed);
  const base = { ...(at.workspace === undefined ? {} : { workspace: at.workspace }), before: "" };
  const inline = at.isOver ? null : /^(--[\w-]+=)(.*)$/s.exec(last);
  if (inline) {
    const [, before = "", value = ""] = inline;
    const option = optionOf(at.command, before.slice(0, -1));
    const wanted = valuesOf(option, value);
    return { ...base, ...wanted, before: before + wanted.before };
  }
  if (!at.isOver && last.startsWith("-")) return { ...base, words: optionsOf(at.command) };
  if (at.option) return { ...base, ...valuesOf(at.option, last) };
  const inner = at.count === 0 ? at.command.commands.map(wordFor) : [];
  const { registeredArguments: all } = at.command;
  const argument = all[at.count] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  const { words, ...wanted } = valuesOf(argument, last);
  const found = [...inner, ...words];
  if (found.length > 0 || wanted.kind !== undefined || at.isOver) return { ...base, ...wanted, words: found };
  return { ...base, words: argument ? [] : optionsOf(at.command) };
}

/** Where the words of a line lead to. */
interface Place {
  command: Command;
  /** How many arguments it was given. */
  count: number;
  /** One that waits for its value. */
  option?: Option;
  /** Whether no option can follow. */
  isOver: boolean;
  workspace?: string;
}

function follow(program: Command, typed: readonly string[]): Place {
  const at: Place = { command: program, count: 0, isOver: false };
  for (const word of typed) {
    if (!at.isOver && /^-./s.test(word)) {
      const [flag = "", value] = word.split(/=(.*)/s);
      const option = optionOf(at.command, flag);
      delete at.option;
      at.isOver = word === "--";
      if (option && value === undefined && (option.required || option.optional)) at.option = option;
      else if (option) take(at, option, value ?? "");
    } else if (at.option) {
      take(at, at.option, word);
      if (!at.option.variadic) delete at.option;
    } else step(at, word);
  }
  return at;
}

function take(at: Place, option: Option, value: string): void {
  if (option.attributeName() === "workspace") at.workspace = value;
}

/** An argument, or a command below this one. */
function step(at: Place, word: string): void {
  const inner =
    at.count === 0 && !at.isOver ? at.command.commands.find((command) => command.name() === word) : undefined;
  if (inner) {
    at.command = inner;
    return;
  }
  at.count++;
  // What follows belongs to what it starts.
  at.isOver ||= (at.command as { _passThroughOptions?: boolean })._passThroughOptions === true;
}

function optionOf(command: Command, flag: string): Option | undefined {
  return visibleOptions(command).find(({ long, short }) => flag === long || flag === short);
}

function optionsOf(command: Command): Word[] {
  return visibleOptions(command).map(({ long, short, description }) => ({
    word: long ?? short ?? "",
    says: description,
  }));
}

function visibleOptions(command: Command): readonly Option[] {
  return command.createHelp().visibleOptions(command);
}

function wordFor(command: Command): Word {
  return { word: command.name(), says: command.description() };
}

/** What an option or argument takes: what it lists, or what its help calls it. */
function valuesOf(taker: Option | Argument | undefined, typed: string): Pick<Wanted, "words" | "before" | "kind"> {
  if (!taker) return { words: [], before: "" };
  const called = "flags" in taker ? (/[<[](.*?)(?:\.\.\.)?[>\]]/.exec(taker.flags)?.[1] ?? "") : taker.name();
  const kind = called.replace(/,$/, "");
  // What takes several in one word names them so: `<client,...>`.
  const before = called.endsWith(",") ? typed.slice(0, typed.lastIndexOf(",") + 1) : "";
  const words = (taker.argChoices ?? []).map((word) => ({ word, says: "" }));
  return { words, before, ...(words.length > 0 ? {} : { kind }) };
}
