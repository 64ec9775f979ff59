import { type Data, emptyData } from "./data.ts";

/**
 * Reads the YAML that almost every skill is written in: plain or simply quoted ASCII values, lists of them, and one level of
 * `key: value` lines below a key. Nothing for anything else, which is then read by the real parser. Contract: whatever it
 * reads, the real parser reads the same (a test compares them); it exists because it takes a fifth of the time.
 */
export function readSimpleYaml(source: string): Data | undefined {
  const data = emptyData();
  let key: string | undefined;
  let below: Data | unknown[] | undefined;
  let indent = 0;
  let keys = 0;
  for (let start = 0; start < source.length; ) {
    let end = source.indexOf("\n", start);
    if (end === -1) end = source.length;
    const from = skipSpaces(source, start);
    const depth = from - start;
    start = end + 1;
    if (from === end && depth === 0) continue;
    if (++keys > MOST_KEYS) return undefined;
    const isItem = source.charCodeAt(from) === DASH;
    const colon = isItem ? from : keyEnd(source, from);
    if (colon === -1) return undefined;
    const at = skipSpaces(source, colon + 1);
    const isEmpty = at >= end;
    if (!isEmpty && at === colon + 1) return undefined;
    if (depth === 0) {
      key = source.slice(from, colon);
      if (SPECIAL.has(key)) return undefined;
      const value = isEmpty ? null : readValue(source, at, end);
      if (isItem || value === undefined || key in data || at > end) return undefined;
      data[key] = value;
      below = undefined;
      continue;
    }
    if (key === undefined || isEmpty) return undefined;
    if (below === undefined && data[key] === null) {
      below = isItem ? [] : emptyData();
      data[key] = below;
      indent = depth;
    }
    if (below === undefined || depth !== indent || Array.isArray(below) !== isItem) return undefined;
    const value = isItem ? readScalar(source.slice(at, end)) : readValue(source, at, end);
    if (value === undefined) return undefined;
    if (Array.isArray(below)) below.push(value);
    else {
      const name = source.slice(from, colon);
      if (name in below || SPECIAL.has(name)) return undefined;
      below[name] = value;
    }
  }
  return data;
}

const MOST_KEYS = 200;
const LONGEST_KEY = 60;
const SPACE = 0x20;
const DASH = 0x2d;
const COLON = 0x3a;
const HASH = 0x23;

function skipSpaces(source: string, start: number): number {
  let at = start;
  while (source.charCodeAt(at) === SPACE) at++;
  return at;
}

/** Where the colon after a plain key stands, or -1. */
function keyEnd(source: string, start: number): number {
  if (!isLetter(source.charCodeAt(start))) return -1;
  let at = start + 1;
  while (isKeyCharacter(source.charCodeAt(at))) at++;
  return source.charCodeAt(at) === COLON && at - start <= LONGEST_KEY ? at : -1;
}

function isLetter(unit: number): boolean {
  return (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a);
}

function isKeyCharacter(unit: number): boolean {
  return isLetter(unit) || (unit >= 0x30 && unit <= 0x39) || unit === DASH || unit === 0x5f;
}

function readValue(source: string, start: number, end: number): unknown {
  if (source[start] !== "[") return readScalar(source.slice(start, end));
  if (source[end - 1] !== "]" || !ASCII.test(source.slice(start, end))) return undefined;
  const items: unknown[] = [];
  for (const part of source.slice(start + 1, end - 1).split(",")) {
    const item = part.trim();
    const value = FLOW_ITEM.test(item) || QUOTED.test(item) ? readScalar(item) : undefined;
    if (value === undefined) return undefined;
    items.push(value);
  }
  return items;
}

const ASCII = /^[ -~]*$/;
const FLOW_ITEM = /^[A-Za-z][\w ./+-]*$/;
const QUOTED = /^(?:"[ !#-[\]-~]*"|'[ -&(-~]*')$/;
const WHOLE_NUMBER = /^(?:0|[1-9]\d{0,8})$/;
const VERSION = /^\d+\.\d+\.\d+$/;
const SPECIAL = new Map<string, boolean | undefined>([
  ["true", true],
  ["false", false],
  ...["null", "Null", "NULL", "True", "TRUE", "False", "FALSE"].map((word) => [word, undefined] as const),
]);

function readScalar(text: string): unknown {
  if (isLetter(text.charCodeAt(0))) {
    if (!isPlain(text)) return undefined;
    return text.length <= 5 && SPECIAL.has(text) ? SPECIAL.get(text) : text;
  }
  if (QUOTED.test(text)) return text.slice(1, -1);
  if (WHOLE_NUMBER.test(text)) return Number(text);
  return VERSION.test(text) ? text : undefined;
}

/** Printable ASCII without `: `, ` #`, and a blank or colon at its end. */
function isPlain(text: string): boolean {
  let last = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < SPACE || unit > 0x7e || (unit === SPACE && last === COLON) || (unit === HASH && last === SPACE))
      return false;
    last = unit;
  }
  return last !== SPACE && last !== COLON;
}
