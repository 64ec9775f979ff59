import { compareText } from "./text.ts";

/** What must not be shown: name → value. */
export type Secrets = ReadonlyMap<string, string>;

/** Contract: one a stream. What `push` and `end` return, joined, is the stream with `[NAME]` in place of every secret. */
export interface RedactingStream {
  push(bytes: Uint8Array): Buffer;
  /** `isCut`: the stream has no natural end, so what may be the beginning of a secret is dropped. */
  end(options?: { isCut?: boolean }): Buffer;
}

/** In bytes. Shorter values cannot be told from ordinary text: they are not hidden, and the caller says so. */
export const MIN_SECRET_BYTES = 4;

/** The text with `[NAME]` in place of every secret, however it is spelled. */
export function redact(text: string, secrets: Secrets): string {
  return createRedactor(secrets).text(text);
}

/** The same secrets for many texts and streams: what they look like is worked out once. */
export interface Redactor {
  text(text: string): string;
  stream(): RedactingStream;
}

export function createRedactor(secrets: Secrets): Redactor {
  const forms = createForms(secrets);
  if (forms.length === 0) {
    return { text: (text) => text, stream: () => ({ push: viewBytes, end: () => Buffer.alloc(0) }) };
  }
  const automaton = createAutomaton(forms);
  return {
    text(text) {
      const redactor = createRedactingStream(automaton);
      const bytes = Buffer.from(text);
      const shown = Buffer.concat([redactor.push(bytes), redactor.end()]);
      return shown.equals(bytes) ? text : shown.toString();
    },
    stream: () => createRedactingStream(automaton),
  };
}

/** What either of two hides. */
export function combineRedactors(one: Redactor, other: Redactor): Redactor {
  return {
    text: (text) => one.text(other.text(text)),
    stream() {
      const [first, then] = [other.stream(), one.stream()];
      return {
        push: (bytes) => then.push(first.push(bytes)),
        end: (options) => Buffer.concat([then.push(first.end(options)), then.end(options)]),
      };
    },
  };
}

/** The leftmost match first, and of those the longest. Only bytes that can still become a match are held back. */
function createRedactingStream({ follow, isOpen, foundIn, age }: ReturnType<typeof createAutomaton>): RedactingStream {
  const read = createSymbolReader();

  // What is held begins where the match under way began; its first `hidden` symbols belong to the match before it.
  let held = new Uint16Array(0);
  let hidden = 0;
  let reached = ROOT;
  let match: { item: ScanItem; end: number } | undefined;
  let reachedAt = age();

  function scan(symbols: Uint16Array, isEnd: boolean): Buffer {
    const pieces: Buffer[] = [];
    let start = 0;
    let shown = hidden;
    // Another stream may have made the automaton forget its states: then what is held is followed again.
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

// In a long run of one symbol all walks fail alike, and each would be as long as the secret: the next that can end otherwise
// is the one that leaves the run.
function skipFailedStart(symbols: Uint16Array, start: number, at: number): number {
  if (at - start < 2 || symbols[at - 1] !== symbols[start]) return start + 1;
  let end = start;
  while (end < symbols.length && symbols[end] === symbols[start]) end++;
  return Math.max(start, end - (at - start)) + 1;
}

// A symbol is a byte, or a line break that an encoder may have put in: one after a long run of its letters. Were every break
// one, the last letter of almost every line could begin a wrapped secret and would be held back from whoever waits for it.
// The mark is in the upper half, which is left behind when symbols become bytes again.
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

// All forms are followed at once, and what was followed once is a look into a table from then on. Spellings that have come to
// the same places share a state, so a stream that mixes them makes no more states than the secrets have places.
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
      const { form, place, spelled, done } = item;
      if (!spelled[done]?.includes(character)) continue;
      if (done + 1 < spelled.length) next.set(`${item.key}.${done}`, { ...item, done: done + 1 });
      else if (place + 1 === form.length) found ??= item;
      else for (const entered of createScanItems(form, place + 1)) next.set(entered.key, entered);
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
    /** Numbers of states hold while it stays the same. */
    age: () => forgotten,
  };
}

/** One way to write a secret: places 0 to `length`, and what leads from each to the next. */
interface SecretForm {
  name: string;
  number: number;
  length: number;
  /** One string a symbol: the characters that will do. */
  spellings(place: number): string[][];
  /** What may stand before every place but the first. */
  gaps: readonly string[];
  /** The last letter may be the first of the next secret too. */
  isShared?: boolean;
}

/** A spelling under way: `done` of its symbols are read. */
type ScanItem = { key: string; form: SecretForm; place: number; spelled: string[]; shared: number; done: number };
type ScanState = { items: ScanItem[]; found: ScanItem | undefined };

function createScanItems(form: SecretForm, place: number): ScanItem[] {
  const gaps = place === 0 ? [""] : form.gaps;
  const isShared = form.isShared === true && place + 1 === form.length;
  return form.spellings(place).flatMap((spelling, index) =>
    gaps.map((gap, number) => {
      const key = `${form.number}.${place}.${index}.${number}`;
      const spelled = gap === "" ? spelling : [...gap, ...spelling];
      return { key, form, place, spelled, shared: isShared ? spelling.length : 0, done: 0 };
    }),
  );
}

// In the order of the names: of two that match alike the first is told.
function createForms(secrets: Secrets): SecretForm[] {
  const named = new Map<string, string>();
  for (const [name, written] of [...secrets].sort(([a], [b]) => compareText(a, b))) {
    // A key that was read from a file ends in a newline, which most programs drop before they use or print it.
    const trimmed = written.trim();
    const value = Buffer.byteLength(trimmed) < MIN_SECRET_BYTES ? written : trimmed;
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

// Every byte as it is or escaped, in whatever mixture: no encoder escapes all, and each escapes others.
function spellAsText(characters: string[]): FormSpelling {
  const known = new Map<string, string[][]>();
  const spellings = (place: number) => {
    const character = characters[place] ?? "";
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
// What stands between two bytes in the dumps of xxd, od, openssl and C.
const HEX_GAPS = ["", " ", "  ", ":", ", 0x", LF, CRLF, ` ${LF}`, `${LF} `, ` ${LF} `, `:${LF}`, `:${LF}    `];

function spellAsHex(bytes: Buffer): FormSpelling {
  return { length: bytes.length, gaps: HEX_GAPS, spellings: (place) => [listHexDigits(bytes[place] ?? 0, 2)] };
}

const BASE64 = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"];
const BASE64_GAPS = ["", LF, CRLF, "\\n", "\\r\\n"];

// With `offset` bytes before it. A letter that holds bits of the secret and of a neighbour is any that has the secret's.
function spellAsBase64(bytes: Buffer, offset: number): FormSpelling {
  const bits = "?".repeat(offset * 8) + Array.from(bytes, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const first = Math.floor((offset * 8) / 6);
  return {
    length: Math.ceil(bits.length / 6) - first,
    gaps: BASE64_GAPS,
    isShared: bits.length % 6 !== 0,
    spellings(place) {
      const six = bits
        .slice((first + place) * 6)
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

// A line break of the secret's own may stand after a long run too.
function splitSymbols(text: string): string[] {
  return Array.from(text, (character) => character.replace("\n", `\n${LF}`).replace("\r", `\r${CR}`));
}
