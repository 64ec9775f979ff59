import { type Substitutes, shellQuoted, splitWords, substitute } from "./substitute.ts";

/**
 * A command with the arguments put in so that none can be code of the shell: what is more than a plain word is in a variable
 * that is set before the command, and the command only names it. So nothing depends on where in it a value stands; what quotes
 * are there only decides how the variable is named. What a program makes of its own arguments (`python -c`) is the program's.
 */
export function fillCommand(command: string, substitutes: Omit<Substitutes, "put" | "addsUnused">): string {
  const values = openShellValues();
  return values.set(substitute(command, { ...substitutes, addsUnused: false, put: values.putInto(command) }));
}

export interface ShellValues {
  /** For `substitute`: what to write for a placeholder of this command, which begins at `start` of the text. */
  putInto(command: string, start?: number): NonNullable<Substitutes["put"]>;
  /** The command with the variables that it names set before it. */
  set(command: string): string;
}

export function openShellValues(): ShellValues {
  const variables = new Map<string, string>();
  const nameFor = (value: string) => {
    if (!variables.has(value)) variables.set(value, `skillet_${variables.size + 1}`);
    return `\${${variables.get(value)}}`;
  };
  const spelled = (value: string, [before, after]: readonly [string, string]) =>
    PLAIN.test(value) ? value : `${before}${nameFor(value)}${after}`;
  return {
    putInto(command, start = 0) {
      const quotesAt = openQuotes(command);
      return (value, { written, at }) => {
        const quotes = quotesAt(at - start);
        // A shell takes `$1` in single quotes as it is, and so does whoever wrote it: it is awk's, mostly.
        if (quotes === "literal" || (quotes === "single" && !OURS.test(written))) return written;
        // Bare, all of the arguments are as many words as they are. After `x=` they are one, as in a shell: the second would be a command.
        const isBare = /^[\s;&|()]?$/.test(command[at - start - 1] ?? "");
        const isMany = quotes === "none" && written === "$ARGUMENTS" && isBare;
        return (isMany ? splitWords(value) : [value]).map((word) => spelled(word, AROUND[quotes])).join(" ");
      };
    },
    set(command) {
      const named = [...variables].filter(([, name]) => command.includes(`\${${name}}`));
      return [...named.map(([value, name]) => `${name}=${shellQuoted(value)}`), command].join("\n");
    },
  };
}

const AROUND = { none: ['"', '"'], double: ["", ""], single: [`'"`, `"'`] } as const;
/** Means itself to a shell, wherever it stands. */
const PLAIN = /^[\w@%+:,./-]+$/;
const OURS = /^\$ARGUMENTS|^\$\{/;

/** What stands around a place. In a document between `<<'END'` and `END` nothing is put in. */
type Quotes = "none" | "single" | "double" | "literal";

/** What stands around each place of a command. Contract: asked for places in order. */
function openQuotes(command: string): (at: number) => Quotes {
  const changes: { from: number; quotes: Quotes }[] = [];
  let at = 0;
  let quotes = "none" as Quotes;
  const change = (to: Quotes, from: number) => {
    quotes = to;
    changes.push({ from, quotes });
  };
  let documents: { end: RegExp; quotes: Quotes }[] = [];
  while (at < command.length) {
    const character = command[at] ?? "";
    const from = at++;
    if (character === "\\" && quotes !== "single") at++;
    else if (character === "'" && quotes !== "double") change(quotes === "single" ? "none" : "single", at);
    else if (character === '"' && quotes !== "single") change(quotes === "double" ? "none" : "double", at);
    else if (quotes !== "none") continue;
    else if (character === "#" && /[\s;&|(]/.test(command[from - 1] ?? "\n")) at = lineEnd(command, from);
    else if (character === "<") {
      DOCUMENT.lastIndex = from;
      const [written = "<", quote = "", word = ""] = DOCUMENT.exec(command) ?? [];
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

const DOCUMENT = /<<<|<<-?[ \t]*(["'\\]?)([\w.-]+)["']?/y;

function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}
