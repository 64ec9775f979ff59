/** What a JSON text with comments and trailing commas says. Throws a SyntaxError when it says nothing. */
export function parseJsonc(text: string): unknown {
  return JSON.parse(plain(text));
}

/** Whether there is nothing in a text but space and comments. Throws a SyntaxError when a comment has no end. */
export function saysNothing(text: string): boolean {
  return withoutComments(text).trim() === "";
}

/** Names of members, and positions in arrays. */
export type JsonPath = readonly (string | number)[];

/**
 * A JSON text with one value set, and every other character as it was. The position after the last one appends to an array. Contract: it
 * parses, and all but the last of the names lead to objects, arrays or to nothing.
 */
export function setInJsonc(text: string, path: JsonPath, value: unknown): string {
  const json = plain(text);
  const style = styleOf(text, json);
  let at = skipSpace(json, 0);
  for (const [index, name] of path.entries()) {
    const object = membersAt(json, at);
    const known = object.members.findLast(({ key }) => key === name);
    if (!known) return insert(text, object, { name, value: nested(path.slice(index + 1), value), style });
    if (index < path.length - 1) {
      at = known.start;
      continue;
    }
    const old = text.slice(known.start, known.end);
    const isOnOneLine = style.isOneLine || (/^[[{]/.test(old) && old.length > 2 && !old.includes("\n"));
    const written = isOnOneLine ? compact(value) : printed(value, indentOf(text, known.key0), style);
    return text.slice(0, known.start) + written + text.slice(known.end);
  }
  return text;
}

/** The same text without one member, and every other character as it was. Contract: it parses, and the names lead to objects or arrays. */
export function removeInJsonc(text: string, path: JsonPath): string {
  const json = plain(text);
  let { members } = membersAt(json, skipSpace(json, 0));
  for (const name of path.slice(0, -1)) {
    members = membersAt(json, members.findLast(({ key }) => key === name)?.start ?? json.length).members;
  }
  const index = members.findLastIndex(({ key }) => key === path.at(-1));
  const gone = members[index];
  if (!gone) return text;
  const bare = withoutComments(text);
  const after = skipSpace(bare, gone.end);
  if (bare[after] === ",") return cut(text, gone.key0, after + 1);
  const rest = cut(text, gone.key0, gone.end);
  const before = members[index - 1];
  if (!before) return rest;
  const comma = bare.indexOf(",", before.end);
  return rest.slice(0, comma) + rest.slice(comma + 1);
}

/** A value below these names. */
export function nested(path: JsonPath, value: unknown): unknown {
  return path.reduceRight((inner, name) => (typeof name === "number" ? [inner] : { [name]: inner }), value);
}

interface Member {
  key: string | number;
  /** Where its key begins; an element of an array has none, and begins with its value. */
  key0: number;
  /** Where its value begins and ends. */
  start: number;
  end: number;
}

interface Found {
  open: number;
  close: number;
  members: Member[];
}

interface Style {
  newLine: string;
  unit: string;
  isOneLine: boolean;
}

/** Comments as blanks: every other character is where it was. */
function withoutComments(text: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const end = endOfComment(text, at);
    if (end !== undefined) {
      parts.push(text.slice(from, at), text.slice(at, end).replace(/[^\r\n]/g, " "));
      from = end;
    }
    at = end ?? (text[at] === '"' ? endOfString(text, at) : at + 1);
  }
  return parts.join("") + text.slice(from);
}

/** Trailing commas as blanks too, so that what is left is JSON. */
function plain(text: string): string {
  const bare = withoutComments(text);
  const commas: number[] = [];
  let before = "";
  let comma: number | undefined;
  for (let at = 0; at < bare.length; ) {
    const character = bare[at] ?? "";
    if ("}]".includes(character) && comma !== undefined) commas.push(comma);
    if (!SPACE.test(character)) {
      comma = character === "," && !"{[,:".includes(before) ? at : undefined;
      before = character;
    }
    at = character === '"' ? endOfString(bare, at) : at + 1;
  }
  let from = 0;
  const parts = commas.flatMap((at) => {
    const part = bare.slice(from, at);
    from = at + 1;
    return [part, " "];
  });
  return parts.join("") + bare.slice(from);
}

const SPACE = /[ \t\r\n]/;

/** Where a comment ends that begins here; nothing when none does. */
function endOfComment(text: string, at: number): number | undefined {
  if (text[at] !== "/") return undefined;
  if (text[at + 1] === "/") return endOfLine(text, at);
  if (text[at + 1] !== "*") return undefined;
  const end = text.indexOf("*/", at + 2);
  if (end === -1) throw new SyntaxError(`a comment without end at position ${at}`);
  return end + 2;
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  if (end === -1) return text.length;
  return text[end - 1] === "\r" ? end - 1 : end;
}

function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function skipSpace(json: string, from: number): number {
  let at = from;
  while (SPACE.test(json[at] ?? "")) at++;
  return at;
}

function endOfValue(json: string, from: number): number {
  if (json[from] === '"') return endOfString(json, from);
  let depth = 0;
  for (let at = from; at < json.length; ) {
    const character = json[at] ?? "";
    if ("{[".includes(character)) depth++;
    else if ("}]".includes(character) && --depth <= 0) return depth === 0 ? at + 1 : at;
    else if (depth === 0 && (character === "," || SPACE.test(character))) return at;
    at = character === '"' ? endOfString(json, at) : at + 1;
  }
  return json.length;
}

/** The members of the object that begins here, or the elements of the array. */
function membersAt(json: string, open: number): Found {
  const members: Member[] = [];
  const isArray = json[open] === "[";
  let at = skipSpace(json, open + 1);
  while (isArray ? at < json.length && json[at] !== "]" : json[at] === '"') {
    const key0 = at;
    const end = isArray ? at : endOfString(json, at);
    const start = isArray ? at : skipSpace(json, skipSpace(json, end) + 1);
    const key = isArray ? members.length : JSON.parse(json.slice(key0, end));
    members.push({ key, key0, start, end: endOfValue(json, start) });
    at = skipSpace(json, members.at(-1)?.end ?? json.length);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return { open, close: at, members };
}

interface New {
  name: string | number;
  value: unknown;
  style: Style;
}

/** A new member, after the others. */
function insert(text: string, { open, close, members }: Found, { name, value, style }: New): string {
  const last = members.at(-1);
  const key = typeof name === "number" ? "" : `${JSON.stringify(name)}: `;
  const isOnOneLine = style.isOneLine || (last !== undefined && !text.slice(open, close).includes("\n"));
  if (isOnOneLine) {
    const place = last?.end ?? open + 1;
    return text.slice(0, place) + (last ? ", " : "") + key + compact(value) + text.slice(place);
  }
  const outer = indentOf(text, open);
  const indent = last && isFirstOnLine(text, last.key0) ? indentOf(text, last.key0) : outer + style.unit;
  const line = style.newLine + indent + key + printed(value, indent, style);
  if (!last) {
    const inner = text.slice(0, close).trimEnd();
    return inner + line + style.newLine + outer + text.slice(close);
  }
  const trailing = withoutComments(text.slice(last.end, close)).indexOf(",");
  const [before, after] = trailing === -1 ? [",", ""] : ["", ","];
  const place = afterRemarks(text, trailing === -1 ? last.end : last.end + trailing + 1);
  return text.slice(0, last.end) + before + text.slice(last.end, place) + line + after + text.slice(place);
}

/** After the comments that begin on this line: they are about what stands before them. */
function afterRemarks(text: string, from: number): number {
  let place = from;
  for (let at = from; ; ) {
    while (text[at] === " " || text[at] === "\t") at++;
    const end = endOfComment(text, at);
    if (end === undefined) return place;
    at = end;
    place = end;
  }
}

/** Without a part of it, and without its lines if nothing else stands there. */
function cut(text: string, from: number, to: number): string {
  const rest = text.slice(to);
  const line = isFirstOnLine(text, from) ? /^[ \t]*(?:\r?\n|$)/.exec(rest)?.[0] : undefined;
  if (line !== undefined) return text.slice(0, lineStart(text, from)) + rest.slice(line.length);
  return text.slice(0, from) + rest.replace(/^[ \t]+/, "");
}

function styleOf(text: string, json: string): Style {
  const open = skipSpace(json, 0);
  const { members, close } = membersAt(json, open);
  const [first] = members;
  return {
    newLine: text.includes("\r\n") ? "\r\n" : "\n",
    unit: (first && isFirstOnLine(text, first.key0) && indentOf(text, first.key0)) || "  ",
    isOneLine: first !== undefined && !text.slice(open, close).includes("\n"),
  };
}

function printed(value: unknown, indent: string, { unit, newLine }: Style): string {
  return JSON.stringify(value, null, unit).replaceAll("\n", newLine + indent);
}

function compact(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(compact).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${compact(inner)}`);
  return members.length === 0 ? "{}" : `{ ${members.join(", ")} }`;
}

function indentOf(text: string, at: number): string {
  return /^[ \t]*/.exec(text.slice(lineStart(text, at)))?.[0] ?? "";
}

function isFirstOnLine(text: string, at: number): boolean {
  return text.slice(lineStart(text, at), at).trim() === "";
}

function lineStart(text: string, at: number): number {
  return at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1;
}
