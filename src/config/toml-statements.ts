/** A statement of a TOML text: a table header, or a key with its value. */
export interface TomlStatement {
  /** The complete key path, including its table. */
  parts: readonly string[];
  /** The number of parts that belong to the table. */
  table: number;
  isTable: boolean;
  line: number;
  start: number;
  /** The offset after its value, before the rest of the line. */
  end: number;
  /** The offset of its value. */
  value: number;
}

/** Returns the statements of a TOML text, in order. Contract: the text is valid; in an invalid text it finds as many as possible. */
export function parseTomlStatements(text: string): TomlStatement[] {
  const found: TomlStatement[] = [];
  let table: readonly string[] = [];
  let line = 1;
  for (let start = 0; start < text.length; ) {
    const head = TABLE_HEAD.exec(text.slice(start, findLineEnd(text, start)));
    const key = head ? undefined : KEY_START.exec(text.slice(start, findLineEnd(text, start)));
    let end = findLineEnd(text, start);
    const at = { line, start };
    if (head) {
      table = splitKey(head[1] ?? "");
      found.push({ ...at, parts: table, table: table.length, isTable: true, end: start + head[0].length, value: end });
    } else if (key) {
      const value = start + key[0].length;
      const stop = findValueEnd(text, value);
      const parts = [...table, ...splitKey(key[1] ?? "")];
      found.push({ ...at, parts, table: table.length, isTable: false, end: stop, value });
      end = findLineEnd(text, stop);
    }
    line += text.slice(start, end + 1).split("\n").length - 1;
    start = end + 1;
  }
  return found;
}

/** Creates a function that returns the line of a key or of its table, or 1 if neither is found. */
export function createLineFinder(statements: readonly TomlStatement[]): (parts: readonly string[]) => number {
  const lines = new Map<string, number>();
  for (const { parts, line } of statements) {
    const id = JSON.stringify(parts.slice(0, MAX_KEY_PARTS));
    if (!lines.has(id)) lines.set(id, line);
  }
  return (parts) => {
    for (let length = Math.min(parts.length, MAX_KEY_PARTS); length > 0; length--) {
      const line = lines.get(JSON.stringify(parts.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  };
}

/** The maximum parts of a known key. */
const MAX_KEY_PARTS = 8;

const PART = /"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+/.source;
const DOTTED_KEY = `(?:${PART})(?:[ \\t]*\\.[ \\t]*(?:${PART}))*`;
const TABLE_HEAD = new RegExp(`^[ \\t]*\\[\\[?[ \\t]*(${DOTTED_KEY})[ \\t]*\\]\\]?`);
const KEY_START = new RegExp(`^[ \\t]*(${DOTTED_KEY})[ \\t]*=[ \\t]*`);

function splitKey(dotted: string): string[] {
  return (dotted.match(new RegExp(PART, "g")) ?? []).map(unquoteKey);
}

/** Removes the quotes from a part of a key. */
export function unquoteKey(part: string): string {
  if (/^'.*'$/s.test(part)) return part.slice(1, -1);
  if (!/^".*"$/s.test(part)) return part;
  try {
    return String(JSON.parse(part));
  } catch {
    return part.slice(1, -1); // Escapes such as `\U0001F600`: the part is only used for lookups.
  }
}

/** Returns the offset of the end of the line. */
export function findLineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}

// Matches one token: a multi-line string, a string, a comment, a bracket, or anything else.
const TOKEN =
  /"""(?:[^\\]|\\[\s\S])*?"""+|'''[\s\S]*?'''+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[[\]{}]|[ \t\r]+|\n|[^[\]{}"'#\s]+|["']/y;

/** Returns the end of a value: the end of its line, unless it is a multi-line string or list. */
function findValueEnd(text: string, from: number): number {
  let depth = 0;
  let end = from;
  for (TOKEN.lastIndex = from; TOKEN.lastIndex < text.length; ) {
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined || (depth === 0 && (token === "\n" || token.startsWith("#")))) break;
    if (/^[[{]$/.test(token)) depth++;
    else if (/^[\]}]$/.test(token)) depth--;
    if (token.trim() !== "") end = TOKEN.lastIndex;
  }
  return end;
}
