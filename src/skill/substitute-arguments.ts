import { SkillError } from "../errors/problem.ts";
import { quoteShellArgument } from "../util/shell-quote.ts";

export interface ArgumentSubstitutions {
  /** The text after the skill's name. */
  arguments?: string;
  /** The skill's `arguments`: names of the first, the second, … argument. */
  names?: readonly string[];
  /** The value of `${SKILL_DIR}`. */
  folder?: string;
  /** If true, arguments without a placeholder are added at the end. Defaults to true. */
  addsUnused?: boolean;
  /** Formats a value; by default, it is unchanged. `at` is the index of its placeholder, which is `written`. */
  replace?: (value: string, placeholder: { written: string; at: number }) => string;
}

/**
 * Inserts arguments and the folder into instructions, in one pass: inserted text is not processed again. A placeholder without a
 * value remains, so that prices survive; arguments without a placeholder are added at the end.
 */
export function substituteArguments(body: string, substitutes: ArgumentSubstitutions): string {
  const { arguments: given, names = [], folder, addsUnused = true, replace: write = (value) => value } = substitutes;
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
        message: "The instructions with all arguments inserted are too large",
        fix: "use shorter arguments",
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
    // In `$branch-build`, the name may be `branch` or the whole text.
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

// Clients count from $0 today, and earlier from $1. In a text without $0, except in code and prices, $1 is the first argument.
function countsFromZero(body: string): boolean {
  return /\$0(?![\d.,]*\d)(?!\w)/.test(body.replace(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ""));
}

/** Splits words like a shell: quotes keep spaces, a backslash keeps the next character. */
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
 * Inserts arguments into a command so that none can become shell code. A value that is not a plain word goes into a variable that
 * is set before the command, and the command only refers to it. The position of a value in the command therefore does not matter;
 * quotes only decide how the variable is written. A program may still interpret its own arguments as code (`python -c`).
 */
export function substituteInCommand(
  command: string,
  substitutes: Omit<ArgumentSubstitutions, "replace" | "addsUnused">,
): string {
  const values = createShellValues();
  return values.prependVariables(
    substituteArguments(command, { ...substitutes, addsUnused: false, replace: values.createReplacer(command) }),
  );
}

interface ShellValues {
  /** Creates the `replace` function of `substituteArguments` for a command that begins at `start` of the text. */
  createReplacer(command: string, start?: number): NonNullable<ArgumentSubstitutions["replace"]>;
  /** Returns the command, preceded by the variables that it uses. */
  prependVariables(command: string): string;
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
    createReplacer(command, start = 0) {
      const quotesAt = createQuoteTracker(command);
      return (value, { written, at }) => {
        const quotes = quotesAt(at - start);
        // A shell does not expand `$1` in single quotes, and the author knows that: it mostly belongs to awk.
        if (quotes === "literal" || (quotes === "single" && !OWN_PLACEHOLDER.test(written))) return written;
        // Unquoted, `$ARGUMENTS` becomes one word per argument. After `x=` it is a single word, as in a shell: the second would be a
        // command.
        const isBare = /^[\s;&|()]?$/.test(command[at - start - 1] ?? "");
        const isMany = quotes === "none" && written === "$ARGUMENTS" && isBare;
        return (isMany ? splitShellWords(value) : [value])
          .map((word) => spelled(word, VARIABLE_QUOTES[quotes]))
          .join(" ");
      };
    },
    prependVariables(command) {
      const named = [...variables].filter(([, name]) => command.includes(`\${${name}}`));
      return [...named.map(([value, name]) => `${name}=${quoteShellArgument(value)}`), command].join("\n");
    },
  };
}

const VARIABLE_QUOTES = { none: ['"', '"'], double: ["", ""], single: [`'"`, `"'`] } as const;
/** A word without any special meaning to a shell. */
const PLAIN_SHELL_WORD = /^[\w@%+:,./-]+$/;
const OWN_PLACEHOLDER = /^\$ARGUMENTS|^\$\{/;

/** The quotes around a position. Nothing is inserted into a here-document between `<<'END'` and `END`. */
type QuoteContext = "none" | "single" | "double" | "literal";

/** Returns a function for the quotes around each position of a command. Contract: positions are passed in rising order. */
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
