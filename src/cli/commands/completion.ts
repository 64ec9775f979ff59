import { Argument, type Command, type Option } from "commander";
import { truncateLine } from "../../util/text.ts";
import { escapeLine } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  EXPORT_TARGETS,
  formatExamples,
  NATIVE_CLIENT_NAMES,
} from "../command-definition.ts";
import { discoverForCommand } from "../command-host.ts";
import type { CommandIo } from "../output.ts";
import { buildWholeProgram } from "../program.ts";

/** The shells whose completion is known: spelled out here too, since every command reads this file. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** `skillet completion`. */
export const completionCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("print what makes a shell complete commands, options and names of skills at TAB")
      .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
      .argument("[word...]", "for that script, after --: a line so far; print what can come next")
      .usage("[options] <shell>")
      .addHelpText(
        "after",
        `
Put it where your shell looks at its start, once:
  bash  echo 'source <(skillet completion bash)' >> ~/.bashrc
  zsh   echo 'source <(skillet completion zsh)' >> ~/.zshrc   (below compinit)
  fish  skillet completion fish > ~/.config/fish/completions/skillet.fish`,
      )
      .addHelpText("after", formatExamples("source <(skillet completion bash)", "skillet completion fish | source")),
  run: printCompletion,
};

/** Prints the script of a shell; or, asked by it with a line, what can come next. */
async function printCompletion({ io, args: [shell, ...line] }: CommandContext<object>): Promise<number> {
  const { script, read, print } = COMPLETION_SHELLS[shell as keyof typeof COMPLETION_SHELLS];
  if (line.length === 0) {
    io.stdout.write(script);
    return EXIT.fine;
  }
  const { typed, last, isQuoted, kept } = read(line);
  const wanted = findCompletions(await buildWholeProgram(io), typed.slice(1), last);
  const { words, places } = VALUE_KINDS[wanted.kind ?? ""] ?? {};
  const found = [...wanted.words, ...((await words?.(io, wanted)) ?? [])];
  const isPlain = isQuoted || (places !== undefined && found.length > 0);
  const lines = found
    .map(({ word, says }) => ({
      word: wanted.before + word,
      says: truncateLine(escapeLine(says), MAX_DESCRIPTION_LENGTH),
    }))
    .filter(({ word }) => word.startsWith(last))
    .map((word) => print(word, isPlain).slice(kept));
  io.stdout.write([...lines, ...(places ? [places] : [])].map((text) => `${text}\n`).join(""));
  return EXIT.fine;
}

const MAX_DESCRIPTION_LENGTH = 72;

/** What can stand where the help names this. */
const VALUE_KINDS: Readonly<Record<string, ValueKind>> = {
  skill: { words: listSkillWords },
  path: { words: listSkillWords, places: ":files" },
  file: { places: ":files" },
  source: { places: ":files" },
  folder: { places: ":folders" },
  client: { words: async () => NATIVE_CLIENT_NAMES.map((word) => ({ word, says: "" })) },
  target: { words: async () => EXPORT_TARGETS.map((word) => ({ word, says: "" })) },
  key: { words: listKeyWords },
};

interface ValueKind {
  words?(io: CommandIo, wanted: CompletionRequest): Promise<CompletionWord[]>;
  places?: ":files" | ":folders";
}

async function listSkillWords(io: CommandIo, { workspace }: CompletionRequest): Promise<CompletionWord[]> {
  const { catalog } = await discoverForCommand(io, workspace === undefined ? {} : { workspace });
  return catalog.skills.map(({ name, manifest }) => ({ word: name, says: manifest.briefDescription }));
}

async function listKeyWords(): Promise<CompletionWord[]> {
  const { CONFIG_KEYS } = await import("../../config/config-keys.ts");
  return CONFIG_KEYS.filter(({ path }) => !path.includes("*")).map(({ path, means }) => ({ word: path, says: means }));
}

/** What can stand where a line ends: words that are known, and what else is to be looked for. */
interface CompletionRequest {
  words: CompletionWord[];
  /** What the word begins with that is not looked at: `--format=`, `claude,`. */
  before: string;
  /** What the help calls it: `skill`, `path`, `folder` … */
  kind?: string;
  /** What `-C` said. */
  workspace?: string;
}
interface CompletionWord {
  word: string;
  says: string;
}

/** Follows a line through the program: its words, and the beginning of the one that is being typed. */
function findCompletions(program: Command, typed: readonly string[], last: string): CompletionRequest {
  const [first, ...after] = typed;
  if (first === "help" && !last.startsWith("-"))
    return { words: followLine(program, after).command.commands.map(createCommandWord), before: "" };
  const at = followLine(program, typed);
  const base = { ...(at.workspace === undefined ? {} : { workspace: at.workspace }), before: "" };
  const inline = at.isOver ? null : /^(--[\w-]+=)(.*)$/s.exec(last);
  if (inline) {
    const [, before = "", value = ""] = inline;
    const option = findOption(at.command, before.slice(0, -1));
    const wanted = listValues(option, value);
    return { ...base, ...wanted, before: before + wanted.before };
  }
  if (!at.isOver && last.startsWith("-")) return { ...base, words: listOptions(at.command) };
  if (at.option) return { ...base, ...listValues(at.option, last) };
  const inner = at.count === 0 ? at.command.commands.map(createCommandWord) : [];
  const { registeredArguments: all } = at.command;
  const argument = all[at.count] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  const { words, ...wanted } = listValues(argument, last);
  const found = [...inner, ...words];
  if (found.length > 0 || wanted.kind !== undefined || at.isOver) return { ...base, ...wanted, words: found };
  return { ...base, words: argument ? [] : listOptions(at.command) };
}

/** Where the words of a line lead to. */
interface CursorPosition {
  command: Command;
  /** How many arguments it was given. */
  count: number;
  /** One that waits for its value. */
  option?: Option;
  /** Whether no option can follow. */
  isOver: boolean;
  workspace?: string;
}

function followLine(program: Command, typed: readonly string[]): CursorPosition {
  const at: CursorPosition = { command: program, count: 0, isOver: false };
  for (const word of typed) {
    if (!at.isOver && /^-./s.test(word)) {
      const [flag = "", value] = word.split(/=(.*)/s);
      const option = findOption(at.command, flag);
      delete at.option;
      at.isOver = word === "--";
      if (option && value === undefined && (option.required || option.optional)) at.option = option;
      else if (option) applyOption(at, option, value ?? "");
    } else if (at.option) {
      applyOption(at, at.option, word);
      if (!at.option.variadic) delete at.option;
    } else applyWord(at, word);
  }
  return at;
}

function applyOption(at: CursorPosition, option: Option, value: string): void {
  if (option.attributeName() === "workspace") at.workspace = value;
}

/** An argument, or a command below this one. */
function applyWord(at: CursorPosition, word: string): void {
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

function findOption(command: Command, flag: string): Option | undefined {
  return visibleOptions(command).find(({ long, short }) => flag === long || flag === short);
}

function listOptions(command: Command): CompletionWord[] {
  return visibleOptions(command).map(({ long, short, description }) => ({
    word: long ?? short ?? "",
    says: description,
  }));
}

function visibleOptions(command: Command): readonly Option[] {
  return command.createHelp().visibleOptions(command);
}

function createCommandWord(command: Command): CompletionWord {
  return { word: command.name(), says: command.description() };
}

/** What an option or argument takes: what it lists, or what its help calls it. */
function listValues(
  taker: Option | Argument | undefined,
  typed: string,
): Pick<CompletionRequest, "words" | "before" | "kind"> {
  if (!taker) return { words: [], before: "" };
  const called = "flags" in taker ? (/[<[](.*?)(?:\.\.\.)?[>\]]/.exec(taker.flags)?.[1] ?? "") : taker.name();
  const kind = called.replace(/,$/, "");
  // What takes several in one word names them so: `<client,...>`.
  const before = called.endsWith(",") ? typed.slice(0, typed.lastIndexOf(",") + 1) : "";
  const words = (taker.argChoices ?? []).map((word) => ({ word, says: "" }));
  return { words, before, ...(words.length > 0 ? {} : { kind }) };
}

/**
 * How a shell asks, and is answered. Each line of an answer is a word; `:files` and `:folders` say that the shell is to look for those itself.
 * A script takes words as they are: what a skill is called is never looked at as code.
 */
interface CompletionShell {
  script: string;
  /** What the script asks with. */
  read(asked: readonly string[]): TypedLine;
  /** A line of the answer. `isAmongFiles`: the shell does then whatever it does with names of files. */
  print(word: CompletionWord, isAmongFiles: boolean): string;
}

/** A line up to the cursor. */
interface TypedLine {
  typed: string[];
  /** The word that the cursor is in. */
  last: string;
  /** Whether a quote is open in it. */
  isQuoted: boolean;
  /** How many characters of it stay. */
  kept: number;
}

// Not by the name that was typed: it may be a path, to a program that is not this one.
const COMPLETION_SHELLS: Readonly<Record<(typeof SHELLS)[number], CompletionShell>> = {
  bash: {
    script: `# skillet completion for bash
_skillet() {
  local line places=
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files | :folders) places=$line ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <(command skillet completion bash -- "\${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
  case $places in
    '') compopt +o default 2>/dev/null ;;
    :folders) compopt -o dirnames +o default 2>/dev/null ;;
    *)
      # Without a word, readline looks for files by itself, and knows quotes and ~ better.
      if [ "\${#COMPREPLY[@]}" -gt 0 ]; then
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$2")
        compopt -o filenames 2>/dev/null
      fi
      ;;
  esac
}
complete -o default -F _skillet skillet
`,
    // The line, and the part of it that will be replaced: of `--format=js`, `js`.
    read([line = "", replaced = ""]) {
      const { raw, ...words } = splitLine(line);
      const isQuoted = /^["']/.test(raw);
      const kept = !isQuoted && raw.endsWith(replaced) ? raw.length - replaced.length : 0;
      return { ...words, isQuoted, kept };
    },
    print: ({ word }, isAmongFiles) => (isAmongFiles ? word : word.replace(/[^\p{L}\p{N}\p{M}_./:=@%+,-]/gu, "\\$&")),
  },
  zsh: {
    script: `#compdef skillet
# skillet completion for zsh
_skillet() {
  local line places
  local -a items
  while IFS= read -r line; do
    case $line in
      :files | :folders) places=$line ;;
      *) items+=("$line") ;;
    esac
  done < <(command skillet completion zsh -- "\${(@Q)words[1,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)
  (( \${#items} )) && _describe -t words skillet items
  case $places in
    :files) _files ;;
    :folders) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _skillet ]]; then _skillet "$@"; else compdef _skillet skillet; fi
`,
    read: parseWords,
    print: ({ word, says }) => `${word.replace(/[\\:]/g, "\\$&")}${says === "" ? "" : `:${says}`}`,
  },
  fish: {
    script: `# skillet completion for fish
function __skillet_complete
  set -l last (string unescape -- (commandline -ct | string trim -l -c '"\\''))
  for line in (command skillet completion fish -- (commandline -opc) "$last" 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path "$last"
      case :folders
        __fish_complete_directories "$last" ''
      case '*'
        printf '%s\\n' $line
    end
  end
end
complete -c skillet -f -a '(__skillet_complete)'
`,
    read: parseWords,
    print: ({ word, says }) => (says === "" ? word : `${word}\t${says}`),
  },
};

function parseWords(words: readonly string[]): TypedLine {
  return { typed: words.slice(0, -1), last: words.at(-1) ?? "", isQuoted: false, kept: 0 };
}

/** The words of a line without their quotes; the last one also as it was typed. */
function splitLine(line: string): { typed: string[]; last: string; raw: string } {
  const typed: string[] = [];
  let last = "";
  let start = 0;
  for (const { 0: part, 1: single, 2: double, 3: escaped, index } of line.matchAll(LINE_PARTS)) {
    if (/^\s/.test(part)) {
      if (index > start) typed.push(last);
      last = "";
      start = index + part.length;
    } else last += single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? part;
  }
  return { typed, last, raw: line.slice(start) };
}

// A quote that is not closed holds the rest.
const LINE_PARTS = /\s+|'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.?)|[^\s'"\\]+/gs;
