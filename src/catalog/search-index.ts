import type { Postings } from "./postings.ts";

/** A search index as it is kept between processes. */
export interface SearchIndex {
  /** For each document what it is and what tells that it changed, as JSON. */
  documents: string;
  /** For each document its judged cues, as JSON. */
  cues: string;
  postings: Postings;
}

/**
 * The bytes of an index: a mark, the length of a header, the header (JSON) and the arrays that it names, each at a multiple of eight.
 * Numbers are written as the machine has them: the mark differs on a machine that has them otherwise. All of it is written twice: to
 * compare the halves finds every damage, and takes a start a hundredth of the time of a checksum.
 */
export function encodeSearchIndex(key: string, { documents, cues, postings }: SearchIndex): Uint8Array {
  const arrays: Record<string, Uint8Array> = { documents: Buffer.from(documents), cues: Buffer.from(cues) };
  for (const name of ARRAYS) arrays[`postings.${name}`] = bytesOf(postings[name]);
  const sections = Object.entries(arrays).map(([name, bytes]) => [name, bytes.length] as const);
  const header = Buffer.from(JSON.stringify({ key, size: postings.size, sections } satisfies Header));
  let end = padded(START + header.length);
  const places = Object.values(arrays).map((bytes) => {
    const from = end;
    end = padded(from + bytes.length);
    return from;
  });
  const file = new Uint8Array(2 * end);
  const words = new Uint32Array(file.buffer);
  words[0] = MARK;
  words[1] = header.length;
  file.set(header, START);
  for (const [at, bytes] of Object.values(arrays).entries()) file.set(bytes, places[at]);
  file.copyWithin(end, 0, end);
  return file;
}

/** The index in these bytes; nothing when they are damaged, cut off, of another format or for another key. */
export function decodeSearchIndex(key: string, given: Uint8Array): SearchIndex | undefined {
  try {
    if (given.length < 2 * START || given.length % 16 !== 0) return undefined;
    const half = given.length / 2;
    const bytes = given.byteOffset % 8 === 0 ? given.subarray(0, half) : given.slice(0, half);
    if (!bufferOf(bytes).equals(given.subarray(half))) return undefined;
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, half / 4);
    if (words[0] !== MARK) return undefined;
    const length = words[1] as number;
    const header: Header = JSON.parse(textOf(bytes.subarray(START, START + length)));
    if (header.key !== key) return undefined;
    const arrays = new Map<string, Uint8Array>();
    let at = padded(START + length);
    for (const [name, size] of header.sections) {
      arrays.set(name, bytes.subarray(at, at + size));
      at = padded(at + size);
    }
    const array = (name: string) => arrays.get(name) ?? new Uint8Array(0);
    const numbers = (name: string) => {
      const own = array(`postings.${name}`);
      return new Uint32Array(own.buffer, own.byteOffset, own.length / 4);
    };
    const shorts = (name: string) => {
      const own = array(`postings.${name}`);
      return new Uint16Array(own.buffer, own.byteOffset, own.length / 2);
    };
    const postings: Postings = {
      size: header.size,
      text: array("postings.text"),
      textStarts: numbers("textStarts"),
      table: numbers("table"),
      starts: numbers("starts"),
      documents: numbers("documents"),
      counts: numbers("counts"),
      lengths: shorts("lengths"),
      pairs: shorts("pairs"),
      pairStarts: numbers("pairStarts"),
    };
    if (at !== bytes.length || !isWhole(postings)) return undefined;
    return { documents: textOf(array("documents")), cues: textOf(array("cues")), postings };
  } catch {
    return undefined;
  }
}

interface Header {
  key: string;
  size: number;
  sections: readonly (readonly [name: string, bytes: number])[];
}

/** "SKI" and the number of the format. */
const MARK = 0x534b4902;
const START = 8;
const ARRAYS = [
  "text",
  "textStarts",
  "table",
  "starts",
  "documents",
  "counts",
  "lengths",
  "pairs",
  "pairStarts",
] as const;

/** Whether the arrays belong together. What they hold is what was written. */
function isWhole({ size, text, textStarts, table, starts, documents, counts, lengths, pairs, pairStarts }: Postings) {
  return (
    starts.length === textStarts.length &&
    starts.length > 0 &&
    starts.at(-1) === documents.length &&
    documents.length === counts.length &&
    textStarts.at(-1) === text.length &&
    table.length > 0 &&
    (table.length & (table.length - 1)) === 0 &&
    lengths.length % Math.max(1, size) === 0 &&
    pairStarts.length === size + 1 &&
    pairStarts.at(-1) === pairs.length
  );
}

function textOf(bytes: Uint8Array): string {
  return bufferOf(bytes).toString("utf8");
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}
