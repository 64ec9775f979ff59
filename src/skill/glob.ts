/** A glob as a pattern for lines that are paths: from the end of some folder, so that `src/*.ts` also means `./src/a.ts`. */
export function globPattern(glob: string): string {
  const path = glob.replace(/^\.?\//, "").replaceAll("\\", "/");
  return `(?m)^(?:.*/)?${path.replace(TOKEN, translate)}$`;
}

const TOKEN = /\*\*\/|\*\*|\*|\?|\{[^{}]*\}|\[[^\]\n]+\]|[\s\S]/g;

function translate(token: string): string {
  if (token === "**/") return "(?:.*/)?";
  if (token === "**") return ".*";
  if (token === "*") return "[^/\\n]*";
  if (token === "?") return "[^/\\n]";
  if (token.startsWith("{") && token.length > 1) {
    const choices = token.slice(1, -1).split(",");
    return `(?:${choices.map((choice) => choice.replace(TOKEN, (part) => (part.startsWith("{") ? quoted(part) : translate(part)))).join("|")})`;
  }
  if (token.startsWith("[") && token.length > 2)
    return `[${token.slice(1, -1).replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
  return quoted(token);
}

function quoted(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
