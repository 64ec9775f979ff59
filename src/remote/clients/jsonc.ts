// Not `jsonc-parser`: its `modify` loses comments next to a removed member, reformats the other members of a line and changes the first of
// two members of one name; its `parse` takes `__proto__` for a prototype; and it overflows the stack on deeply nested text.

/** Parses JSON with comments and trailing commas. Throws a SyntaxError when it is invalid. */
export function parseJsonc(text: string): unknown {
  return JSON.parse(blankTrailingCommas(text));
}

/** Returns true if a text has only whitespace and comments. Throws a SyntaxError when a comment has no end. */
export function isEmptyJsonc(text: string): boolean {
  return blankComments(text).trim() === "";
}

/** Names of members, and positions in arrays. */
export type JsonPath = readonly (string | number)[];

/**
 * Returns a JSON text with one value set, and every other character unchanged. The position after the last one appends
 * to an array. Contract: the text parses, and all names but the last lead to objects, arrays or nothing.
 */
export function setJsoncValue(text: string, path: JsonPath, value: unknown): string {
  const json = blankTrailingCommas(text);
  const style = detectStyle(text, json);
  let at = skipSpace(json, 0);
  for (const [index, name] of path.entries()) {
    const object = parseMembers(json, at);
    const known = object.members.findLast(({ key }) => key === name);
    if (!known) return insertMember(text, object, { name, value: nestValue(path.slice(index + 1), value), style });
    if (index < path.length - 1) {
      at = known.start;
      continue;
    }
    const old = text.slice(known.start, known.end);
    const isOnOneLine = style.isOneLine || (/^[[{]/.test(old) && old.length > 2 && !old.includes("\n"));
    const written = isOnOneLine
      ? formatCompactValue(value)
      : formatJsonValue(value, getIndent(text, known.key0), style);
    return text.slice(0, known.start) + written + text.slice(known.end);
  }
  return text;
}

/**
 * Returns the text without one member, and every other character unchanged. Contract: it parses, and the names lead to
 * objects or arrays.
 */
export function removeJsoncValue(text: string, path: JsonPath): string {
  const json = blankTrailingCommas(text);
  let { members } = parseMembers(json, skipSpace(json, 0));
  for (const name of path.slice(0, -1)) {
    members = parseMembers(json, members.findLast(({ key }) => key === name)?.start ?? json.length).members;
  }
  const index = members.findLastIndex(({ key }) => key === path.at(-1));
  const gone = members[index];
  if (!gone) return text;
  const bare = blankComments(text);
  const after = skipSpace(bare, gone.end);
  if (bare[after] === ",") return removeRange(text, gone.key0, after + 1);
  const rest = removeRange(text, gone.key0, gone.end);
  const before = members[index - 1];
  if (!before) return rest;
  const comma = bare.indexOf(",", before.end);
  return rest.slice(0, comma) + rest.slice(comma + 1);
}

/** Nests a value below these names. */
export function nestValue(path: JsonPath, value: unknown): unknown {
  return path.reduceRight((inner, name) => (typeof name === "number" ? [inner] : { [name]: inner }), value);
}

interface JsoncMember {
  key: string | number;
  /** The start of its key; for an element of an array, the start of its value. */
  key0: number;
  /** The start and end of its value. */
  start: number;
  end: number;
}

interface JsoncContainer {
  open: number;
  close: number;
  members: JsoncMember[];
}

interface JsoncStyle {
  newLine: string;
  unit: string;
  isOneLine: boolean;
}

/** Replaces comments by blanks: every other character keeps its position. */
function blankComments(text: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const end = findCommentEnd(text, at);
    if (end !== undefined) {
      parts.push(text.slice(from, at), text.slice(at, end).replace(/[^\r\n]/g, " "));
      from = end;
    }
    at = end ?? (text[at] === '"' ? findStringEnd(text, at) : at + 1);
  }
  return parts.join("") + text.slice(from);
}

/** Also replaces trailing commas by blanks, so that the rest is JSON. */
function blankTrailingCommas(text: string): string {
  const bare = blankComments(text);
  const commas: number[] = [];
  let before = "";
  let comma: number | undefined;
  for (let at = 0; at < bare.length; ) {
    const character = bare[at] ?? "";
    if ("}]".includes(character) && comma !== undefined) commas.push(comma);
    if (!WHITESPACE.test(character)) {
      comma = character === "," && !"{[,:".includes(before) ? at : undefined;
      before = character;
    }
    at = character === '"' ? findStringEnd(bare, at) : at + 1;
  }
  let from = 0;
  const parts = commas.flatMap((at) => {
    const part = bare.slice(from, at);
    from = at + 1;
    return [part, " "];
  });
  return parts.join("") + bare.slice(from);
}

const WHITESPACE = /[ \t\r\n]/;

/** Returns the end of a comment that starts here, or undefined if none does. */
function findCommentEnd(text: string, at: number): number | undefined {
  if (text[at] !== "/") return undefined;
  if (text[at + 1] === "/") return findLineEnd(text, at);
  if (text[at + 1] !== "*") return undefined;
  const end = text.indexOf("*/", at + 2);
  if (end === -1) throw new SyntaxError(`a comment without an end at position ${at}`);
  return end + 2;
}

function findLineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  if (end === -1) return text.length;
  return text[end - 1] === "\r" ? end - 1 : end;
}

function findStringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function skipSpace(json: string, from: number): number {
  let at = from;
  while (WHITESPACE.test(json[at] ?? "")) at++;
  return at;
}

function findValueEnd(json: string, from: number): number {
  if (json[from] === '"') return findStringEnd(json, from);
  let depth = 0;
  for (let at = from; at < json.length; ) {
    const character = json[at] ?? "";
    if ("{[".includes(character)) depth++;
    else if ("}]".includes(character) && --depth <= 0) return depth === 0 ? at + 1 : at;
    else if (depth === 0 && (character === "," || WHITESPACE.test(character))) return at;
    at = character === '"' ? findStringEnd(json, at) : at + 1;
  }
  return json.length;
}

/** Parses the members of the object, or the elements of the array, that starts here. */
function parseMembers(json: string, open: number): JsoncContainer {
  const members: JsoncMember[] = [];
  const isArray = json[open] === "[";
  let at = skipSpace(json, open + 1);
  while (isArray ? at < json.length && json[at] !== "]" : json[at] === '"') {
    const key0 = at;
    const end = isArray ? at : findStringEnd(json, at);
    const start = isArray ? at : skipSpace(json, skipSpace(json, end) + 1);
    const key = isArray ? members.length : JSON.parse(json.slice(key0, end));
    members.push({ key, key0, start, end: findValueEnd(json, start) });
    at = skipSpace(json, members.at(-1)?.end ?? json.length);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return { open, close: at, members };
}

interface NewMember {
  name: string | number;
  value: unknown;
  style: JsoncStyle;
}

/** Inserts a new member after the others. */
function insertMember(
  text: string,
  { open, close, members }: JsoncContainer,
  { name, value, style }: NewMember,
): string {
  const last = members.at(-1);
  const key = typeof name === "number" ? "" : `${JSON.stringify(name)}: `;
  const isOnOneLine = style.isOneLine || (last !== undefined && !text.slice(open, close).includes("\n"));
  if (isOnOneLine) {
    const index = last?.end ?? open + 1;
    return text.slice(0, index) + (last ? ", " : "") + key + formatCompactValue(value) + text.slice(index);
  }
  const outer = getIndent(text, open);
  const indent = last && isFirstOnLine(text, last.key0) ? getIndent(text, last.key0) : outer + style.unit;
  const line = style.newLine + indent + key + formatJsonValue(value, indent, style);
  if (!last) {
    const inner = text.slice(0, close).trimEnd();
    return inner + line + style.newLine + outer + text.slice(close);
  }
  const trailing = blankComments(text.slice(last.end, close)).indexOf(",");
  const [before, after] = trailing === -1 ? [",", ""] : ["", ","];
  const position = skipTrailingComments(text, trailing === -1 ? last.end : last.end + trailing + 1);
  return text.slice(0, last.end) + before + text.slice(last.end, position) + line + after + text.slice(position);
}

/** Skips comments that start on this line: they belong to the text before them. */
function skipTrailingComments(text: string, from: number): number {
  let index = from;
  for (let at = from; ; ) {
    while (text[at] === " " || text[at] === "\t") at++;
    const end = findCommentEnd(text, at);
    if (end === undefined) return index;
    at = end;
    index = end;
  }
}

/** Removes a range, and its lines if nothing else is on them. */
function removeRange(text: string, from: number, to: number): string {
  const rest = text.slice(to);
  const line = isFirstOnLine(text, from) ? /^[ \t]*(?:\r?\n|$)/.exec(rest)?.[0] : undefined;
  if (line !== undefined) return text.slice(0, findLineStart(text, from)) + rest.slice(line.length);
  return text.slice(0, from) + rest.replace(/^[ \t]+/, "");
}

function detectStyle(text: string, json: string): JsoncStyle {
  const open = skipSpace(json, 0);
  const { members, close } = parseMembers(json, open);
  const [first] = members;
  return {
    newLine: text.includes("\r\n") ? "\r\n" : "\n",
    unit: (first && isFirstOnLine(text, first.key0) && getIndent(text, first.key0)) || "  ",
    isOneLine: first !== undefined && !text.slice(open, close).includes("\n"),
  };
}

function formatJsonValue(value: unknown, indent: string, { unit, newLine }: JsoncStyle): string {
  return JSON.stringify(value, null, unit).replaceAll("\n", newLine + indent);
}

function formatCompactValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatCompactValue).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${formatCompactValue(inner)}`);
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

function getIndent(text: string, at: number): string {
  return /^[ \t]*/.exec(text.slice(findLineStart(text, at)))?.[0] ?? "";
}

function isFirstOnLine(text: string, at: number): boolean {
  return text.slice(findLineStart(text, at), at).trim() === "";
}

function findLineStart(text: string, at: number): number {
  return at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1;
}
