/** A glob as a pattern for lines that are paths: from the end of some folder, so that `src/*.ts` also means `./src/a.ts`. */
export function globPattern(glob: string): string {
  const path = glob.replace(/^\.?\//, "").replaceAll("\\", "/");
  return `(?m)^(?:.*/)?${path.replace(TOKEN, (token, _offset) => translate(token))}$`;
}

/** What in a query may be a path: anything without blanks and quotes that has a slash, an ending, or capitals like Makefile. */
export function pathsIn(query: string): string[] {
  return query
    .split(/[\s"'`<>()[\]{},;]+/)
    .map((word) => word.replace(/[.:!?]+$/, "").replace(/:\d+(?::\d+)?$/, ""))
    .filter((word) => /[\w\p{L}]/u.test(word) && word.length <= LONGEST && /[/\\]|\.\w|^[A-Z]\w+$/.test(word))
    .map((word) => word.replaceAll("\\", "/"));
}

const LONGEST = 512;
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
