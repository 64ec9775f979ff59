import { Argument, type Command, type Option } from "commander";
import { NATIVE_CLIENT_NAMES } from "../../skill/clients.ts";
import { truncateLine } from "../../util/text.ts";
import { escapeLine } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  EXPORT_TARGETS,
  formatExamples,
} from "../command-context.ts";
import type { CommandIo } from "../output.ts";
import { buildWholeProgram } from "../program.ts";

/** The shells with completion. Repeated here because every command loads this file. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** `skillet completion`. */
export const completionCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Print the completion script of a shell")
      .addArgument(new Argument("<shell>", "The shell").choices(SHELLS))
      .argument("[word...]", "The words typed so far, after --. Used by the script.")
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

/** Prints the script of a shell, or the completions that the script requests. */
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

/** Completions by the name of an argument in the help. */
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

/** The completions at the end of a line: known words, and the kind of others to look up. */
interface CompletionRequest {
  words: CompletionWord[];
  /** The part of the word before the completed value: `--format=`, `claude,`. */
  before: string;
  /** The name of the value in the help: `skill`, `path`, `folder` … */
  kind?: string;
  /** The value of `-C`. */
  workspace?: string;
}
interface CompletionWord {
  word: string;
  says: string;
}

/** Parses a line: its complete words, and the beginning of the word being typed. */
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

/** The position of the cursor in the command line. */
interface CursorPosition {
  command: Command;
  /** The number of arguments so far. */
  count: number;
  /** An option that needs a value. */
  option?: Option;
  /** True if no option can follow. */
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

/** Applies a word: an argument, or a subcommand. */
function applyWord(at: CursorPosition, word: string): void {
  const inner =
    at.count === 0 && !at.isOver ? at.command.commands.find((command) => command.name() === word) : undefined;
  if (inner) {
    at.command = inner;
    return;
  }
  at.count++;
  // The remaining words belong to the program that it starts.
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

/** Returns the values of an option or argument: its choices, or the kind by its name in the help. */
function listValues(
  taker: Option | Argument | undefined,
  typed: string,
): Pick<CompletionRequest, "words" | "before" | "kind"> {
  if (!taker) return { words: [], before: "" };
  const valueName = "flags" in taker ? (/[<[](.*?)(?:\.\.\.)?[>\]]/.exec(taker.flags)?.[1] ?? "") : taker.name();
  const kind = valueName.replace(/,$/, "");
  // Comma-separated values are written as `<client,...>` in the help.
  const before = valueName.endsWith(",") ? typed.slice(0, typed.lastIndexOf(",") + 1) : "";
  const words = (taker.argChoices ?? []).map((word) => ({ word, says: "" }));
  return { words, before, ...(words.length > 0 ? {} : { kind }) };
}

/**
 * The protocol between a shell's script and this program. Each line of the answer is a word; `:files` and `:folders` make the shell complete
 * those itself. Scripts never evaluate words as code, whatever the name of a skill.
 */
interface CompletionShell {
  script: string;
  /** Parses the arguments of the script. */
  read(args: readonly string[]): TypedLine;
  /** Formats one line of the answer. `isAmongFiles`: the shell itself quotes the word as a file name. */
  print(word: CompletionWord, isAmongFiles: boolean): string;
}

/** A line up to the cursor. */
interface TypedLine {
  typed: string[];
  /** The word at the cursor. */
  last: string;
  /** True if a quote is open in it. */
  isQuoted: boolean;
  /** The number of its characters that the shell keeps. */
  kept: number;
}

// Always calls `skillet`, not the typed name: that may be the path of another program.
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
      # If no words were returned, readline completes files itself, which handles quotes and ~ better.
      if [ "\${#COMPREPLY[@]}" -gt 0 ]; then
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$2")
        compopt -o filenames 2>/dev/null
      fi
      ;;
  esac
}
complete -o default -F _skillet skillet
`,
    // The line, and the part of it that the shell replaces: for `--format=js`, `js`.
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

/** Splits a line into words without quotes; the last one also in raw form. */
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

// An unclosed quote extends to the end.
const LINE_PARTS = /\s+|'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.?)|[^\s'"\\]+/gs;
