import { SkillError } from "../shared/error.ts";

export interface Substitutes {
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
export function substitute(body: string, substitutes: Substitutes): string {
  const { arguments: given, names = [], folder, addsUnused = true, put: write = (value) => value } = substitutes;
  const places = new Map(names.map((name, place) => [name, place] as const).reverse());
  const words = given === undefined ? [] : splitWords(given);
  const first = countsFromZero(body) ? 0 : 1;
  let size = body.length;
  let isUsed = false;
  const put = (given: string, written: string, at: number) => {
    const value = write(given, { written, at });
    size += value.length;
    if (size > LARGEST)
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

/** A value as one word of a shell, whatever is in it. */
export function shellQuoted(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

const LARGEST = 16 * 1024 * 1024;
const PLACEHOLDER =
  /\$\{((?:CLAUDE_)?SKILL_DIR)\}|\$(ARGUMENTS)(?![\w[])|\$ARGUMENTS\[(\d{1,3})\]|\$(\d{1,2})(?![\d.,]*\d)|\$([A-Za-z_][\w-]*)/g;

// Clients count from $0 today and counted from $1 before. A text that never says $0, but in code and prices, means the first by $1.
function countsFromZero(body: string): boolean {
  return /\$0(?![\d.,]*\d)(?!\w)/.test(body.replace(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ""));
}

/** Words as a shell splits them: quotes keep blanks, a backslash keeps the character after it. */
export function splitWords(text: string): string[] {
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
