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
  const words = given === undefined ? [] : splitWords(given);
  // Clients count from $0 today and counted from $1 before. A text that never says $0 means the first by $1.
  const first = /\$0(?!\d)/.test(body) ? 0 : 1;
  let isUsed = false;
  const take = (value: string | undefined, written: string) => {
    if (value === undefined) return written;
    isUsed = true;
    return value;
  };
  const text = body.replace(PLACEHOLDER, (written, directory, whole, index, position, name) => {
    if (directory) return folder ?? written;
    if (whole) return take(given ?? "", written);
    if (index !== undefined) return take(words[Number(index)], written);
    if (position !== undefined) return take(words[Number(position) - first], written);
    const place = names.indexOf(name);
    return place === -1 ? written : take(words[place], written);
  });
  return given !== undefined && given.trim() !== "" && !isUsed ? `${text}\n\nARGUMENTS: ${given}` : text;
}

const PLACEHOLDER =
  /\$\{((?:CLAUDE_)?SKILL_DIR)\}|\$(ARGUMENTS)(?![\w[])|\$ARGUMENTS\[(\d{1,3})\]|\$(\d{1,2})(?![\d.,]*\d)|\$([A-Za-z_][\w-]*)/g;

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
