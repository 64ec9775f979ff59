import { SkillError } from "../shared/error.ts";

export interface Substitutes {
  /** What was written after the skill's name. */
  arguments?: string;
  /** The skill's `arguments`: names for the first, the second, … */
  names?: readonly string[];
  /** The folder that `${SKILL_DIR}` stands for. */
  folder?: string;
}

/**
 * Puts arguments and the folder into instructions, in one pass: what is put in is not looked at again. A placeholder that
 * nothing was given for stays as it is, so that prices survive; arguments that no placeholder takes are added at the end.
 */
export function substitute(body: string, { arguments: given, names = [], folder }: Substitutes): string {
  const places = new Map(names.map((name, place) => [name, place] as const).reverse());
  const words = given === undefined ? [] : splitWords(given);
  const first = countsFromZero(body) ? 0 : 1;
  let size = body.length;
  let isUsed = false;
  const put = (value: string) => {
    size += value.length;
    if (size > LARGEST)
      throw new SkillError("arguments-too-large", {
        message: "The instructions take the arguments so often that the text would be too large",
        fix: "give shorter arguments",
      });
    return value;
  };
  const take = (value: string | undefined, written: string) => {
    if (value === undefined) return written;
    isUsed = true;
    return put(value);
  };
  const text = body.replace(PLACEHOLDER, (written, directory, whole, index, position, name) => {
    if (directory) return put(folder ?? written);
    if (whole) return take(given ?? "", written);
    if (index !== undefined) return take(words[Number(index)], written);
    if (position !== undefined) return take(words[Number(position) - first], written);
    // In `$branch-build`, `branch` may be the name, or all of it.
    for (let end = name.length; end > 0; end = name.lastIndexOf("-", end - 1)) {
      const place = places.get(name.slice(0, end));
      if (place !== undefined) return take(words[place], written.slice(0, end + 1)) + name.slice(end);
    }
    return written;
  });
  return given !== undefined && given.trim() !== "" && !isUsed ? `${text}\n\nARGUMENTS: ${given}` : text;
}

const LARGEST = 16 * 1024 * 1024;
const PLACEHOLDER =
  /\$\{((?:CLAUDE_)?SKILL_DIR)\}|\$(ARGUMENTS)(?![\w[])|\$ARGUMENTS\[(\d{1,3})\]|\$(\d{1,2})(?![\d.,]*\d)|\$([A-Za-z_][\w-]*)/g;

// Clients count from $0 today and counted from $1 before. A text that never says $0, but in code and prices, means the first by $1.
function countsFromZero(body: string): boolean {
  return /\$0(?![\d.,]*\d)(?!\w)/.test(body.replace(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ""));
}

/** Words as a shell splits them: quotes keep blanks, a backslash keeps the character after it. */
function splitWords(text: string): string[] {
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
