import type { Postings } from "./postings.ts";

/** A search index as it is kept between processes. */
export interface SearchIndex {
  /** For each document what it is and what tells that it changed, as JSON. */
  documents: string;
  /** For each document what it declares as its cues, as JSON. */
  cues: string;
  postings: Postings;
}

/**
 * The bytes of an index: a mark, a checksum around the length of a header, the header (JSON) and the arrays that it names, each
 * at a multiple of eight. Numbers are written as the machine has them: the mark differs on a machine that has them otherwise.
 */
export function encodeSearchIndex(key: string, { documents, cues, postings }: SearchIndex): Uint8Array {
  const encoder = new TextEncoder();
  const arrays: Record<string, Uint8Array> = { documents: encoder.encode(documents), cues: encoder.encode(cues) };
  for (const name of ARRAYS) arrays[`postings.${name}`] = bytesOf(postings[name]);
  const sections = Object.entries(arrays).map(([name, bytes]) => [name, bytes.length] as const);
  const header = encoder.encode(JSON.stringify({ key, size: postings.size, sections } satisfies Header));
  let end = padded(START + header.length);
  const places = Object.values(arrays).map((bytes) => {
    const from = end;
    end = padded(from + bytes.length);
    return from;
  });
  const file = new Uint8Array(end);
  const words = new Uint32Array(file.buffer);
  words[0] = MARK;
  words[2] = header.length;
  file.set(header, START);
  for (const [at, bytes] of Object.values(arrays).entries()) file.set(bytes, places[at]);
  [words[1], words[3]] = checksum(words);
  return file;
}

/** The index in these bytes; nothing when they are damaged, cut off, of another format or for another key. */
export function decodeSearchIndex(key: string, given: Uint8Array): SearchIndex | undefined {
  try {
    const bytes = given.byteOffset % 8 === 0 ? given : given.slice();
    if (bytes.length < START || bytes.length % 8 !== 0) return undefined;
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    if (words[0] !== MARK) return undefined;
    const [first, second] = checksum(words);
    if (words[1] !== first || words[3] !== second) return undefined;
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const length = words[2] as number;
    const header: Header = JSON.parse(decoder.decode(bytes.subarray(START, START + length)));
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
    return { documents: decoder.decode(array("documents")), cues: decoder.decode(array("cues")), postings };
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
const MARK = 0x534b4901;
const START = 16;
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

/** Whether the arrays belong together. What they hold is what the checksum was made of. */
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

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

/** Of the length of the header and every word after itself, twice 32 bits. */
function checksum(words: Uint32Array): readonly [number, number] {
  let [a, b] = [0x811c9dc5 ^ (words[2] as number), words.length];
  for (let at = 4; at < words.length; at++) {
    a = Math.imul(a ^ (words[at] as number), 0x01000193);
    a = (a << 13) | (a >>> 19);
    b = (b + a) | 0;
  }
  return [a >>> 0, b >>> 0];
}
