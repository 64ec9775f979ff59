/** The result of a pass over a file's bytes. */
export interface KeywordHits {
  /** Pairs: the index of a keyword list, and the line, from 0, that contains one of its keywords. Each pair occurs once. */
  hits: readonly number[];
  /** Pairs: the start and end of runs of letters, digits, `+`, `/` and `=` that are long enough to be encoded data. */
  runs: readonly number[];
  /** True if the file may contain invisible or look-alike characters. */
  mayHide: boolean;
}

export type KeywordPass = (bytes: Uint8Array) => KeywordHits;

/**
 * Finds the keywords of many lists in one pass, ignoring case. The time depends on the bytes, not on the number of keywords
 * (Aho-Corasick).
 */
export function createKeywordAutomaton(lists: readonly (readonly string[])[]): KeywordPass {
  const { columns, next, found } = buildAutomaton(lists);
  return (bytes) => {
    const hits: number[] = [];
    const runs: number[] = [];
    const lastLine = new Int32Array(lists.length).fill(-1);
    let row = 0;
    let line = 0;
    let begin = 0;
    let mayHide = false;
    const end = bytes.length;
    for (let at = 0; at < end; at++) {
      const byte = bytes[at] as number;
      const to = next[row + (columns[byte] as number)] as number;
      row = to & ROW_MASK;
      if (to !== row) {
        for (const list of found.get(row) ?? []) {
          if (lastLine[list] === line) continue;
          lastLine[list] = line;
          hits.push(list, line);
        }
      }
      const kind = BYTE_KINDS[byte];
      if (kind === ENCODED_BYTE) continue;
      if (at - begin >= MIN_RUN_LENGTH && runs.length < MAX_RUNS) runs.push(begin, at);
      begin = at + 1;
      if (kind === LINE_END) line++;
      else if (kind === ODD_BYTE && !mayHide) mayHide = isSuspectByte(bytes, at);
    }
    if (bytes.length - begin >= MIN_RUN_LENGTH && runs.length < MAX_RUNS) runs.push(begin, bytes.length);
    return { hits, runs, mayHide };
  };
}

const MIN_RUN_LENGTH = 40;
const MAX_RUNS = 4096;

const ENCODED_BYTE = 1;
const ODD_BYTE = 2;
const LINE_END = 3;
const BYTE_KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (/[A-Za-z0-9+/=]/.test(String.fromCharCode(byte))) return ENCODED_BYTE;
  if (byte === 10) return LINE_END;
  return (byte >= 0x20 && byte < 0x7f) || byte === 9 || byte === 13 || (byte >= 0x80 && byte < 0xc2) ? 0 : ODD_BYTE;
});

/** Checks the first bytes of the characters that `findInvisibleText` reports, and adjacent letters of two alphabets. */
function isSuspectByte(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at] as number;
  const second = bytes[at + 1] ?? 0;
  const third = bytes[at + 2] ?? 0;
  if (byte < 0x80) return true;
  if (byte === 0xc2) return second < 0xa0 || second === 0xad;
  if (byte === 0xcd) return second === 0x8f;
  if (byte >= 0xce && byte <= 0xd3) return isLetter(bytes[at - 1] ?? 0) || isLetter(third);
  if (byte === 0xd8) return second === 0x9c;
  if (byte === 0xe1) return second === 0x85 || second === 0x9e || second === 0xa0;
  if (byte === 0xe2)
    return (second === 0x80 && (third < 0x90 || (third >= 0xa8 && third <= 0xae)) && third > 0x8a) || second === 0x81;
  if (byte === 0xe3) return second === 0x85;
  if (byte === 0xed) return second >= 0xa0;
  if (byte === 0xef) return second >= 0xb8;
  if (byte === 0xf0) return second === 0x9b || (second === 0x9d && third === 0x85);
  return byte === 0xf3;
}

function isLetter(byte: number): boolean {
  return (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
}

/** Added to the number of a row where a keyword ends. */
const FOUND_FLAG = 2 ** 28;
const ROW_MASK = FOUND_FLAG - 1;

function buildAutomaton(lists: readonly (readonly string[])[]) {
  const encoder = new TextEncoder();
  const words = lists.flatMap((list, number) => list.map((word) => ({ bytes: encoder.encode(word), number })));
  const columns = new Uint8Array(256);
  let width = 1;
  for (const { bytes } of words) for (const byte of bytes) if (columns[byte] === 0) columns[byte] = width++;
  for (let letter = 0x61; letter <= 0x7a; letter++) columns[letter - 0x20] = columns[letter] as number;
  // A keyword may continue on the next line.
  for (const blank of [9, 10, 13]) columns[blank] = columns[0x20] as number;
  const most = 1 + words.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const next = new Int32Array(most * width);
  const found = new Map<number, readonly number[]>();
  let rows = 1;
  for (const { bytes, number } of words) {
    let row = 0;
    for (const byte of bytes) {
      const way = row + (columns[byte] as number);
      if (next[way] === 0) next[way] = width * rows++;
      row = next[way] as number;
    }
    found.set(row, [...(found.get(row) ?? []), number]);
  }
  linkFallbacks({ width, next, found, rows });
  const isEnd = new Uint8Array(rows);
  for (const row of found.keys()) isEnd[row / width] = 1;
  for (let way = 0; way < rows * width; way++) {
    const to = next[way] as number;
    if (to !== 0 && isEnd[to / width] === 1) next[way] = to + FOUND_FLAG;
  }
  return { columns, next, found };
}

interface AutomatonRows {
  width: number;
  next: Int32Array;
  found: Map<number, readonly number[]>;
  rows: number;
}

/** Links each row to the longest other prefix that still matches where a keyword breaks off. */
function linkFallbacks({ width, next, found, rows }: AutomatonRows): void {
  const back = new Int32Array(rows);
  const queue: number[] = [];
  for (let column = 0; column < width; column++) if (next[column] !== 0) queue.push(next[column] as number);
  for (let at = 0; at < queue.length; at++) {
    const row = queue[at] as number;
    const fallback = back[row / width] as number;
    const also = found.get(fallback);
    if (also) found.set(row, [...new Set([...(found.get(row) ?? []), ...also])]);
    for (let column = 0; column < width; column++) {
      const to = next[row + column] as number;
      const other = next[fallback + column] as number;
      if (to === 0) next[row + column] = other;
      else {
        back[to / width] = other;
        queue.push(to);
      }
    }
  }
}
