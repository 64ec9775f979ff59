import type { Word } from "./completion.ts";
import type { SHELLS } from "./rows/shell.ts";

/**
 * How a shell asks, and is answered. Each line of an answer is a word; `:files` and `:folders` say that the shell is to look for those itself.
 * A script takes words as they are: what a skill is called is never looked at as code.
 */
interface Shell {
  script: string;
  /** What the script asks with. */
  read(asked: readonly string[]): Typed;
  /** A line of the answer. `isAmongFiles`: the shell does then whatever it does with names of files. */
  print(word: Word, isAmongFiles: boolean): string;
}

/** A line up to the cursor. */
export interface Typed {
  typed: string[];
  /** The word that the cursor is in. */
  last: string;
  /** Whether a quote is open in it. */
  isQuoted: boolean;
  /** How many characters of it stay. */
  kept: number;
}

// Not by the name that was typed: it may be a path, to a program that is not this one.
export const COMPLETED: Readonly<Record<(typeof SHELLS)[number], Shell>> = {
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
    read: fromWords,
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
    read: fromWords,
    print: ({ word, says }) => (says === "" ? word : `${word}\t${says}`),
  },
};

function fromWords(words: readonly string[]): Typed {
  return { typed: words.slice(0, -1), last: words.at(-1) ?? "", isQuoted: false, kept: 0 };
}

/** The words of a line without their quotes; the last one also as it was typed. */
function splitLine(line: string): { typed: string[]; last: string; raw: string } {
  const typed: string[] = [];
  let last = "";
  let start = 0;
  for (const { 0: part, 1: single, 2: double, 3: escaped, index } of line.matchAll(PARTS)) {
    if (/^\s/.test(part)) {
      if (index > start) typed.push(last);
      last = "";
      start = index + part.length;
    } else last += single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? part;
  }
  return { typed, last, raw: line.slice(start) };
}

// A quote that is not closed holds the rest.
const PARTS = /\s+|'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.?)|[^\s'"\\]+/gs;
