import { compareText } from "./text.ts";

/** Secret values to redact: name → value. */
export type Secrets = ReadonlyMap<string, string>;

/** Contract: one per stream. The joined results of `push` and `end` are the stream with every secret replaced by `[NAME]`. */
export interface RedactingStream {
  push(bytes: Uint8Array): Buffer;
  /** `isCut`: the stream was truncated, so a possible start of a secret at the end is dropped. */
  end(options?: { isCut?: boolean }): Buffer;
}

/** In bytes. Shorter values look like ordinary text: they are not redacted, and the caller warns about them. */
export const MIN_SECRET_BYTES = 4;

/** Replaces every secret in a text by `[NAME]`, in any encoding. */
export function redact(text: string, secrets: Secrets): string {
  return createRedactor(secrets).redact(text);
}

/** Redacts the same secrets in many texts and streams. Their encodings are computed once. */
export interface Redactor {
  redact(text: string): string;
  createStream(): RedactingStream;
}

export function createRedactor(secrets: Secrets): Redactor {
  const forms = createForms(secrets);
  if (forms.length === 0) {
    return { redact: (text) => text, createStream: () => ({ push: viewBytes, end: () => Buffer.alloc(0) }) };
  }
  const automaton = createAutomaton(forms);
  return {
    redact(text) {
      const redactor = createRedactingStream(automaton);
      const bytes = Buffer.from(text);
      const shown = Buffer.concat([redactor.push(bytes), redactor.end()]);
      return shown.equals(bytes) ? text : shown.toString();
    },
    createStream: () => createRedactingStream(automaton),
  };
}

/** Returns a redactor that applies both redactors. */
export function combineRedactors(outer: Redactor, inner: Redactor): Redactor {
  return {
    redact: (text) => outer.redact(inner.redact(text)),
    createStream() {
      const [first, second] = [inner.createStream(), outer.createStream()];
      return {
        push: (bytes) => second.push(first.push(bytes)),
        end: (options) => Buffer.concat([second.push(first.end(options)), second.end(options)]),
      };
    },
  };
}

/** Finds the leftmost match, and the longest of those. Only bytes that can still become a match are held back. */
function createRedactingStream({ follow, isOpen, foundIn, age }: ReturnType<typeof createAutomaton>): RedactingStream {
  const read = createSymbolReader();

  // `held` starts at the first symbol of the current match; its first `hidden` symbols belong to the previous match.
  let held = new Uint16Array(0);
  let hidden = 0;
  let reached = ROOT;
  let match: { item: ScanItem; end: number } | undefined;
  let reachedAt = age();

  function scan(symbols: Uint16Array, isEnd: boolean): Buffer {
    const pieces: Buffer[] = [];
    let start = 0;
    let shown = hidden;
    // Another stream may have reset the automaton: then the held symbols are scanned again.
    const isForgotten = reachedAt !== age();
    let state = isForgotten ? ROOT : reached;
    if (isForgotten) match = undefined;
    for (let at = isForgotten ? 0 : held.length; ; at = start) {
      while (at < symbols.length && state !== DEAD) {
        state = follow(state, symbols[at++] ?? 0);
        const item = foundIn(state);
        if (item) match = { item, end: at };
      }
      if (start === symbols.length || (isOpen(state) && !isEnd)) break;
      state = ROOT;
      if (match) {
        pieces.push(Buffer.from(symbols.subarray(shown, start)), Buffer.from(`[${match.item.form.name}]`));
        shown = match.end;
        start = match.end - match.item.shared;
        match = undefined;
      } else {
        start = skipFailedStart(symbols, start, at);
      }
    }
    pieces.push(Buffer.from(symbols.subarray(shown, start)));
    held = symbols.slice(start);
    hidden = Math.max(0, shown - start);
    reached = state;
    reachedAt = age();
    if (match) match.end -= start;
    return Buffer.concat(pieces);
  }
  return {
    push: (bytes) => scan(concatSymbols(held, read(bytes)), false),
    end: ({ isCut = false } = {}) => (isCut ? Buffer.from(match ? `[${match.item.form.name}]` : "") : scan(held, true)),
  };
}

function viewBytes(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function concatSymbols(first: Uint16Array<ArrayBuffer>, second: Uint16Array<ArrayBuffer>): Uint16Array<ArrayBuffer> {
  if (first.length === 0) return second;
  const both = new Uint16Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

// In a long run of one symbol, every start fails in the same way after as many steps as the secret is long. The next start with another
// result is the one whose match extends beyond the run.
function skipFailedStart(symbols: Uint16Array, start: number, at: number): number {
  if (at - start < 2 || symbols[at - 1] !== symbols[start]) return start + 1;
  let end = start;
  while (end < symbols.length && symbols[end] === symbols[start]) end++;
  return Math.max(start, end - (at - start)) + 1;
}

// A symbol is a byte, or a line break that an encoder may have inserted: one after a long run of its letters. If every line break
// counted, the last letter of almost every line could start a wrapped secret and would be held back from the reader.
// The mark is in the upper byte, which is dropped when symbols become bytes again.
const WRAP = 0x100;
const SYMBOLS = WRAP + 0x10;
const MIN_WRAPPED_RUN = 16;
const IN_BASE64 = createByteSet(/[A-Za-z0-9+/_-]/);
const IN_HEX = createByteSet(/[A-Fa-f0-9 :,x]/);

function createSymbolReader(): (bytes: Uint8Array) => Uint16Array<ArrayBuffer> {
  let base64 = 0;
  let hex = 0;
  return (bytes) => {
    const symbols = new Uint16Array(bytes);
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index] ?? 0;
      if (byte === 10 || byte === 13) {
        if (base64 >= MIN_WRAPPED_RUN || hex >= MIN_WRAPPED_RUN) symbols[index] = WRAP | byte;
        if (byte === 13) continue;
      }
      base64 = IN_BASE64[byte] === 1 ? base64 + 1 : 0;
      hex = IN_HEX[byte] === 1 ? hex + 1 : 0;
    }
    return symbols;
  };
}

function createByteSet(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0));
}

const DEAD = 1;
const ROOT = 2;
const MAX_STATES = 16384;

// Follows all forms at once. Each transition is computed once and then read from a table. Spellings that have reached the same
// positions share a state, so a stream that mixes them needs no more states than the secrets have positions.
function createAutomaton(forms: readonly SecretForm[]) {
  const none: ScanState = { items: [], found: undefined };
  const states = [none, none, { ...none, items: forms.flatMap((form) => createScanItems(form, 0)) }];
  const numbers = new Map<string, number>();
  let table = new Uint16Array(16 * SYMBOLS);
  let forgotten = 0;

  function step(from: number, symbol: number): number {
    const character = String.fromCharCode(symbol);
    const next = new Map<string, ScanItem>();
    let found: ScanItem | undefined;
    for (const item of states[from]?.items ?? []) {
      const { form, place: index, spelled, done } = item;
      if (!spelled[done]?.includes(character)) continue;
      if (done + 1 < spelled.length) next.set(`${item.key}.${done}`, { ...item, done: done + 1 });
      else if (index + 1 === form.length) found ??= item;
      else for (const entered of createScanItems(form, index + 1)) next.set(entered.key, entered);
    }
    const key = [...[...next.keys()].sort(), found?.key].join(" ");
    const known = key === "" ? DEAD : numbers.get(key);
    const isFull = known === undefined && states.length === MAX_STATES;
    if (isFull) {
      states.length = ROOT + 1;
      forgotten++;
      numbers.clear();
      table.fill(0);
    }
    const number = known ?? states.push({ items: [...next.values()], found }) - 1;
    if (known === undefined) numbers.set(key, number);
    if (table.length < states.length * SYMBOLS) table = concatSymbols(table, new Uint16Array(table.length));
    if (!isFull) table[from * SYMBOLS + symbol] = number;
    return number;
  }

  return {
    follow: (state: number, symbol: number) => table[state * SYMBOLS + symbol] || step(state, symbol),
    isOpen: (state: number) => states[state]?.items.length !== 0,
    foundIn: (state: number) => states[state]?.found,
    /** State numbers are valid while this number stays the same. */
    age: () => forgotten,
  };
}

/** One encoding of a secret: positions 0 to `length`, and the spellings that lead from each to the next. */
interface SecretForm {
  name: string;
  number: number;
  length: number;
  /** One string per symbol, with the accepted characters. */
  spellings(index: number): string[][];
  /** Text that is allowed before every position except the first. */
  gaps: readonly string[];
  /** The last letter may also be the first of the next secret. */
  isShared?: boolean;
}

/** A partial match of a spelling: `done` of its symbols are read. */
type ScanItem = { key: string; form: SecretForm; place: number; spelled: string[]; shared: number; done: number };
type ScanState = { items: ScanItem[]; found: ScanItem | undefined };

function createScanItems(form: SecretForm, position: number): ScanItem[] {
  const gaps = position === 0 ? [""] : form.gaps;
  const isShared = form.isShared === true && position + 1 === form.length;
  return form.spellings(position).flatMap((spelling, index) =>
    gaps.map((gap, number) => {
      const key = `${form.number}.${position}.${index}.${number}`;
      const spelled = gap === "" ? spelling : [...gap, ...spelling];
      return { key, form, place: position, spelled, shared: isShared ? spelling.length : 0, done: 0 };
    }),
  );
}

// Sorted by name: if two secrets match the same text, the first name is shown.
function createForms(secrets: Secrets): SecretForm[] {
  const named = new Map<string, string>();
  for (const [name, text] of [...secrets].sort(([a], [b]) => compareText(a, b))) {
    // A key from a file ends with a newline, which most programs remove before they use or print it.
    const trimmed = text.trim();
    const value = Buffer.byteLength(trimmed) < MIN_SECRET_BYTES ? text : trimmed;
    if (Buffer.byteLength(value) >= MIN_SECRET_BYTES && !named.has(value)) named.set(value, name);
  }
  const forms: SecretForm[] = [];
  for (const [value, name] of named) {
    const bytes = Buffer.from(value);
    const writings = [
      spellAsText([...value]),
      spellAsHex(bytes),
      ...[0, 1, 2].map((offset) => spellAsBase64(bytes, offset)),
    ];
    for (const writing of writings) forms.push({ name, number: forms.length, ...writing });
  }
  return forms;
}

type FormSpelling = Omit<SecretForm, "name" | "number">;

// Every byte is plain or escaped, in any mixture: no encoder escapes everything, and each escapes different characters.
function spellAsText(characters: string[]): FormSpelling {
  const known = new Map<string, string[][]>();
  const spellings = (index: number) => {
    const character = characters[index] ?? "";
    if (!known.has(character)) known.set(character, listSpellings(character));
    return known.get(character) ?? [];
  };
  return { length: characters.length, gaps: [""], spellings };
}

const SPELLINGS: Record<string, string[]> = {
  "\n": ["\r\n", "\\r\\n"],
  " ": ["+"],
  "&": ["&amp;", "&#38;", "&#x26;"],
  "<": ["&lt;", "&#60;", "&#x3c;", "&#x3C;"],
  ">": ["&gt;", "&#62;", "&#x3e;", "&#x3E;"],
  '"': ["&quot;", "&#34;", "&#x22;"],
  "'": ["&apos;", "&#39;", "&#x27;", "'\\''"],
};

function listSpellings(character: string): string[][] {
  let spellings: string[][] = [[]];
  for (const byte of Buffer.from(character)) {
    const digits = listHexDigits(byte, 2);
    const ways = [splitSymbols(String.fromCharCode(byte)), ["%", ...digits], ["\\", "x", ...digits]];
    spellings = spellings.flatMap((before) => ways.map((way) => [...before, ...way]));
  }
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  spellings.push(units.flatMap((unit) => ["\\", "u", ...listHexDigits(unit, 4)]));
  if (character < " ") spellings.push([...JSON.stringify(character).slice(1, -1)]);
  if (/[\0-/:-@[-`{-\x7f]/.test(character)) spellings.push(splitSymbols(`\\${character}`));
  return [...spellings, ...(SPELLINGS[character] ?? []).map(splitSymbols)];
}

const LF = String.fromCharCode(WRAP | 10);
const CR = String.fromCharCode(WRAP | 13);
const CRLF = CR + LF;
// The separators between two bytes in dumps of xxd, od, openssl and C.
const HEX_GAPS = ["", " ", "  ", ":", ", 0x", LF, CRLF, ` ${LF}`, `${LF} `, ` ${LF} `, `:${LF}`, `:${LF}    `];

function spellAsHex(bytes: Buffer): FormSpelling {
  return { length: bytes.length, gaps: HEX_GAPS, spellings: (index) => [listHexDigits(bytes[index] ?? 0, 2)] };
}

const BASE64 = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"];
const BASE64_GAPS = ["", LF, CRLF, "\\n", "\\r\\n"];

// With `offset` bytes before the secret. A letter with bits of the secret and of a neighbor matches if the bits of the secret match.
function spellAsBase64(bytes: Buffer, offset: number): FormSpelling {
  const bits = "?".repeat(offset * 8) + Array.from(bytes, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const first = Math.floor((offset * 8) / 6);
  return {
    length: Math.ceil(bits.length / 6) - first,
    gaps: BASE64_GAPS,
    isShared: bits.length % 6 !== 0,
    spellings(index) {
      const six = bits
        .slice((first + index) * 6)
        .slice(0, 6)
        .padEnd(6, "?");
      const known = Number.parseInt(six.replaceAll("0", "1").replaceAll("?", "0"), 2);
      const wanted = Number.parseInt(six.replaceAll("?", "0"), 2);
      const letters = BASE64.filter((_, letter) => (letter & known) === wanted).join("");
      const spellings = [[letters]];
      if (letters.includes("+")) spellings.push(["-"], ["%", "2", "bB"]);
      if (letters.includes("/")) spellings.push(["_"], ["%", "2", "fF"], ["\\", "/"]);
      return spellings;
    },
  };
}

const DIGITS = [..."0123456789abcdef"].map((digit) => digit + digit.toUpperCase());

function listHexDigits(number: number, width: number): string[] {
  return Array.from({ length: width }, (_, index) => DIGITS[(number >> (4 * (width - 1 - index))) & 15] ?? "");
}

// A line break that belongs to the secret may also follow a long run.
function splitSymbols(text: string): string[] {
  return Array.from(text, (character) => character.replace("\n", `\n${LF}`).replace("\r", `\r${CR}`));
}
