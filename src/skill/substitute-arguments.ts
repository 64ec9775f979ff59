import { SkillError } from "../errors/problem.ts";
import { quoteShellArgument } from "../util/shell-quote.ts";

export interface ArgumentSubstitutions {
  /** What was written after the skill's name. */
  arguments?: string;
  /** The skill's `arguments`: names for the first, the second, … */
  names?: readonly string[];
  /** The folder that `${SKILL_DIR}` stands for. */
  folder?: string;
  /** Whether arguments that no placeholder takes are added at the end; true when left out. */
  addsUnused?: boolean;
  /** How a value is written where it goes: as it is, when left out. `at` is where its placeholder, as `written`, begins. */
  put?: (value: string, placeholder: { written: string; at: number }) => string;
}

/**
 * Puts arguments and the folder into instructions, in one pass: what is put in is not looked at again. A placeholder that
 * nothing was given for stays as it is, so that prices survive; arguments that no placeholder takes are added at the end.
 */
export function substituteArguments(body: string, substitutes: ArgumentSubstitutions): string {
  const { arguments: given, names = [], folder, addsUnused = true, put: write = (value) => value } = substitutes;
  const places = new Map(names.map((name, place) => [name, place] as const).reverse());
  const words = given === undefined ? [] : splitShellWords(given);
  const first = countsFromZero(body) ? 0 : 1;
  let size = body.length;
  let isUsed = false;
  const put = (given: string, written: string, at: number) => {
    const value = write(given, { written, at });
    size += value.length;
    if (size > MAX_EXPANDED_LENGTH)
      throw new SkillError("arguments-too-large", {
        message: "The instructions take the arguments so often that the text would be too large",
        fix: "give shorter arguments",
      });
    return value;
  };
  const take = (value: string | undefined, written: string, at: number) => {
    if (value === undefined) return written;
    isUsed = true;
    return put(value, written, at);
  };
  const text = body.replace(PLACEHOLDER, (written, directory, whole, index, position, name, at) => {
    if (directory) return folder === undefined ? written : put(folder, written, at);
    if (whole) return take(given ?? "", written, at);
    if (index !== undefined) return take(words[Number(index)], written, at);
    if (position !== undefined) return take(words[Number(position) - first], written, at);
    // In `$branch-build`, `branch` may be the name, or all of it.
    for (let end = name.length; end > 0; end = name.lastIndexOf("-", end - 1)) {
      const place = places.get(name.slice(0, end));
      if (place !== undefined) return take(words[place], written.slice(0, end + 1), at) + name.slice(end);
    }
    return written;
  });
  return addsUnused && given !== undefined && given.trim() !== "" && !isUsed ? `${text}\n\nARGUMENTS: ${given}` : text;
}

const MAX_EXPANDED_LENGTH = 16 * 1024 * 1024;
const PLACEHOLDER =
  /\$\{((?:CLAUDE_)?SKILL_DIR)\}|\$(ARGUMENTS)(?![\w[])|\$ARGUMENTS\[(\d{1,3})\]|\$(\d{1,2})(?![\d.,]*\d)|\$([A-Za-z_][\w-]*)/g;

// Clients count from $0 today and counted from $1 before. A text that never says $0, but in code and prices, means the first by $1.
function countsFromZero(body: string): boolean {
  return /\$0(?![\d.,]*\d)(?!\w)/.test(body.replace(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ""));
}

/** Words as a shell splits them: quotes keep blanks, a backslash keeps the character after it. */
function splitShellWords(text: string): string[] {
  const words: string[] = [];
  for (const match of text.matchAll(/(?:[^\s"'\\]+|\\[\s\S]?|"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?)+/g)) {
    words.push(
      match[0].replace(/"((?:[^"\\]|\\[\s\S])*)"?|'([^']*)'?|\\([\s\S]?)/g, (_, double, single, escaped) =>
        double !== undefined ? double.replace(/\\([\s\S])/g, "$1") : (single ?? escaped ?? ""),
      ),
    );
  }
  return words;
}

/**
 * A command with the arguments put in so that none can be code of the shell: what is more than a plain word is in a variable
 * that is set before the command, and the command only names it. So nothing depends on where in it a value stands; what quotes
 * are there only decides how the variable is named. What a program makes of its own arguments (`python -c`) is the program's.
 */
export function substituteInCommand(
  command: string,
  substitutes: Omit<ArgumentSubstitutions, "put" | "addsUnused">,
): string {
  const values = createShellValues();
  return values.set(substituteArguments(command, { ...substitutes, addsUnused: false, put: values.putInto(command) }));
}

interface ShellValues {
  /** For `substitute`: what to write for a placeholder of this command, which begins at `start` of the text. */
  putInto(command: string, start?: number): NonNullable<ArgumentSubstitutions["put"]>;
  /** The command with the variables that it names set before it. */
  set(command: string): string;
}

export function createShellValues(): ShellValues {
  const variables = new Map<string, string>();
  const nameFor = (value: string) => {
    if (!variables.has(value)) variables.set(value, `skillet_${variables.size + 1}`);
    return `\${${variables.get(value)}}`;
  };
  const spelled = (value: string, [before, after]: readonly [string, string]) =>
    PLAIN_SHELL_WORD.test(value) ? value : `${before}${nameFor(value)}${after}`;
  return {
    putInto(command, start = 0) {
      const quotesAt = createQuoteTracker(command);
      return (value, { written, at }) => {
        const quotes = quotesAt(at - start);
        // A shell takes `$1` in single quotes as it is, and so does whoever wrote it: it is awk's, mostly.
        if (quotes === "literal" || (quotes === "single" && !OWN_PLACEHOLDER.test(written))) return written;
        // Bare, all of the arguments are as many words as they are. After `x=` they are one, as in a shell: the second would be a command.
        const isBare = /^[\s;&|()]?$/.test(command[at - start - 1] ?? "");
        const isMany = quotes === "none" && written === "$ARGUMENTS" && isBare;
        return (isMany ? splitShellWords(value) : [value])
          .map((word) => spelled(word, VARIABLE_QUOTES[quotes]))
          .join(" ");
      };
    },
    set(command) {
      const named = [...variables].filter(([, name]) => command.includes(`\${${name}}`));
      return [...named.map(([value, name]) => `${name}=${quoteShellArgument(value)}`), command].join("\n");
    },
  };
}

const VARIABLE_QUOTES = { none: ['"', '"'], double: ["", ""], single: [`'"`, `"'`] } as const;
/** Means itself to a shell, wherever it stands. */
const PLAIN_SHELL_WORD = /^[\w@%+:,./-]+$/;
const OWN_PLACEHOLDER = /^\$ARGUMENTS|^\$\{/;

/** What stands around a place. In a document between `<<'END'` and `END` nothing is put in. */
type QuoteContext = "none" | "single" | "double" | "literal";

/** What stands around each place of a command. Contract: asked for places in order. */
function createQuoteTracker(command: string): (at: number) => QuoteContext {
  const changes: { from: number; quotes: QuoteContext }[] = [];
  let at = 0;
  let quotes = "none" as QuoteContext;
  const change = (to: QuoteContext, from: number) => {
    quotes = to;
    changes.push({ from, quotes });
  };
  let documents: { end: RegExp; quotes: QuoteContext }[] = [];
  while (at < command.length) {
    const character = command[at] ?? "";
    const from = at++;
    if (character === "\\" && quotes !== "single") at++;
    else if (character === "'" && quotes !== "double") change(quotes === "single" ? "none" : "single", at);
    else if (character === '"' && quotes !== "single") change(quotes === "double" ? "none" : "double", at);
    else if (quotes !== "none") continue;
    else if (character === "#" && /[\s;&|(]/.test(command[from - 1] ?? "\n")) at = findLineEnd(command, from);
    else if (character === "<") {
      HERE_DOCUMENT.lastIndex = from;
      const [written = "<", quote = "", word = ""] = HERE_DOCUMENT.exec(command) ?? [];
      const end = new RegExp(`^[ \\t]*${word.replaceAll(".", "\\.")}$`, "gm");
      if (word !== "") documents.push({ end, quotes: quote === "" ? "double" : "literal" });
      at = from + written.length;
    } else if (character === "\n") {
      for (const { end, quotes: inside } of documents) {
        change(inside, at);
        end.lastIndex = at;
        at = end.exec(command) ? end.lastIndex : command.length;
        change("none", at);
      }
      documents = [];
    }
  }
  let next = 0;
  return (place) => {
    while ((changes[next]?.from ?? command.length + 1) <= place) next++;
    return changes[next - 1]?.quotes ?? "none";
  };
}

const HERE_DOCUMENT = /<<<|<<-?[ \t]*(["'\\]?)([\w.-]+)["']?/y;

function findLineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}
