import type { Skill } from "../../skill/skill.ts";
import type { SearchStore } from "../catalog.ts";
import { type Postings, PostingsBuilder } from "./postings.ts";
import { readSkillTriggers, type SkillTriggers } from "./trigger-index.ts";

/** Returns the texts of a skill, one per field, without its body. */
type GetSkillTexts = (index: number) => readonly string[];

/**
 * The cues and terms of skills. With a store, those of unchanged skills are loaded from it, and new ones are saved for the next process,
 * whose first query then reads no skill.
 */
export class SkillIndex {
  readonly #skills: readonly Skill[];
  readonly #store: SearchStore | undefined;
  readonly #textsOf: GetSkillTexts;
  readonly #documents: readonly IndexedDocument[];
  readonly #stored: SearchIndex | undefined;
  /** The position of each skill in the stored index. */
  readonly #places: readonly (number | undefined)[];
  readonly #storedCues: readonly (SkillTriggers | 0)[];
  readonly #cues: (SkillTriggers | undefined)[] = [];
  #whole: Postings | undefined;
  #reading: Promise<Postings> | undefined;
  #own: Postings | undefined;

  constructor(skills: readonly Skill[], textsOf: GetSkillTexts, store: SearchStore | undefined) {
    this.#skills = skills;
    this.#textsOf = textsOf;
    this.#store = store;
    this.#documents = store ? skills.map(describeDocument) : [];
    const bytes = store?.load();
    const stored = store && bytes && decodeSearchIndex(store.key, bytes);
    const places = stored && findStoredPlaces(stored, this.#documents);
    const cues = places && parseStoredTriggers(stored);
    this.#stored = cues && stored;
    this.#places = cues ? places : [];
    this.#storedCues = cues ?? [];
  }

  /** Returns the cues of the skill; undefined if it declares none. */
  cuesOf(index: number): SkillTriggers | undefined {
    const position = this.#places[index];
    const stored = position === undefined ? undefined : this.#storedCues[position];
    if (stored !== undefined) return stored === 0 ? undefined : stored;
    if (!(index in this.#cues)) this.#cues[index] = readSkillTriggers(this.#skills[index] as Skill);
    return this.#cues[index];
  }

  /** Returns the terms of every field. The first call reads the instructions of skills that are not in the store. */
  async readWhole(): Promise<Postings> {
    this.#reading ??= this.#readWhole();
    this.#whole = await this.#reading;
    return this.#whole;
  }

  /** The terms of every field except the body, which may be included. Reads no instructions. */
  get own(): Postings {
    this.#own ??= this.#whole ?? this.#buildOwn();
    return this.#own;
  }

  #buildOwn(): Postings {
    if (this.#stored && this.#isUnchanged(this.#stored)) return this.#stored.postings;
    const builder = this.#startBuilder();
    for (const index of this.#skills.keys()) this.#addDocument(builder, index);
    return builder.build();
  }

  async #readWhole(): Promise<Postings> {
    if (this.#stored && this.#isUnchanged(this.#stored)) return this.#stored.postings;
    const builder = this.#startBuilder();
    const { length } = this.#skills;
    for (let start = 0; start < length; start += MAX_PARALLEL_READS) {
      const end = Math.min(start + MAX_PARALLEL_READS, length);
      const bodies = await this.#readNewBodies(start, end);
      for (let index = start; index < end; index++) this.#addDocument(builder, index, bodies[index - start]);
    }
    const postings = builder.build();
    if (!this.#store) return postings;
    const cues = this.#skills.map((_, index) => this.cuesOf(index) ?? 0);
    // A file that changes twice within a clock tick keeps its fingerprint, so recently changed files are read again.
    const recent = this.#store.now() - CLOCK_TICK_MS;
    const documents = this.#documents.map(({ entry: [key, fingerprint], changedAt }) => [
      key,
      changedAt > recent ? "" : fingerprint,
    ]);
    const index = { documents: JSON.stringify(documents), cues: JSON.stringify(cues), postings };
    this.#store.save(encodeSearchIndex(this.#store.key, index));
    return postings;
  }

  #startBuilder(): PostingsBuilder {
    const builder = new PostingsBuilder();
    if (this.#stored) builder.copyTerms(this.#stored.postings, this.#places);
    return builder;
  }

  #addDocument(builder: PostingsBuilder, index: number, body = ""): void {
    const position = this.#places[index];
    if (this.#stored && position !== undefined) builder.copyDocument(this.#stored.postings, position);
    else builder.add([...this.#textsOf(index), body]);
  }

  /** Reads the instructions of some skills at the same time. Waits for nothing if all of them are in the store. */
  #readNewBodies(start: number, end: number): Promise<readonly string[]> | readonly string[] {
    const skills = this.#skills.slice(start, end);
    if (skills.every((_, at) => this.#places[start + at] !== undefined)) return [];
    return Promise.all(
      skills.map(async (skill, at) => (this.#places[start + at] === undefined ? await readSearchableBody(skill) : "")),
    );
  }

  #isUnchanged({ postings }: SearchIndex): boolean {
    return postings.size === this.#places.length && this.#places.every((position, index) => position === index);
  }
}

const CLOCK_TICK_MS = 2000;

interface IndexedDocument {
  entry: readonly [key: string, fingerprint: string];
  changedAt: number;
}

function describeDocument(skill: Skill): IndexedDocument {
  const found = skill.fingerprint?.();
  if (found) return { entry: [found.file, found.value], changedAt: found.changedAt };
  return { entry: [`code:${skill.name}`, ""], changedAt: 0 }; // Without a fingerprint, it is always read again.
}

/** Returns the position of each document in the stored index; undefined for a new or changed one. Returns undefined for an invalid index. */
function findStoredPlaces(
  stored: SearchIndex,
  documents: readonly IndexedDocument[],
): (number | undefined)[] | undefined {
  const isKnown = documents.every(({ entry: [, fingerprint] }) => fingerprint !== "");
  if (isKnown && stored.documents === JSON.stringify(documents.map(({ entry }) => entry)))
    return documents.map((_, at) => at);
  try {
    const entries: [string, string][] = JSON.parse(stored.documents);
    if (entries.length !== stored.postings.size) return undefined;
    const positions = new Map(entries.map(([key, fingerprint], index) => [`${key}\n${fingerprint}`, index]));
    return documents.map(({ entry: [key, fingerprint] }) =>
      fingerprint === "" ? undefined : positions.get(`${key}\n${fingerprint}`),
    );
  } catch {
    return undefined;
  }
}

function parseStoredTriggers({ cues, postings }: SearchIndex): (SkillTriggers | 0)[] | undefined {
  try {
    const read = JSON.parse(cues);
    return Array.isArray(read) && read.length === postings.size ? read : undefined;
  } catch {
    return undefined;
  }
}

/** The number of skills whose instructions are read at the same time: a source may be a server. */
const MAX_PARALLEL_READS = 16;

/** Returns the instructions; empty if they cannot be read. Those of a remote skill are not searched: they may not be fetched yet. */
export async function readSearchableBody(skill: Skill): Promise<string> {
  if (skill.origin.remote) return "";
  try {
    return await skill.body();
  } catch {
    return "";
  }
}

/** A search index as stored between processes. */
interface SearchIndex {
  /** The key and fingerprint of each document, as JSON. */
  documents: string;
  /** The validated cues of each document, as JSON. */
  cues: string;
  postings: Postings;
}

/**
 * Encodes an index: a format mark, the header length, the header (JSON) and the arrays it names, each aligned to eight bytes. Numbers use the
 * machine's byte order; the mark differs on a machine with another one. Everything is written twice: comparing the halves detects any damage,
 * in a hundredth of the time of a checksum.
 */
export function encodeSearchIndex(key: string, { documents, cues, postings }: SearchIndex): Uint8Array {
  const arrays: Record<string, Uint8Array> = { documents: Buffer.from(documents), cues: Buffer.from(cues) };
  for (const name of POSTING_ARRAYS) arrays[`postings.${name}`] = toBytes(postings[name]);
  const sections = Object.entries(arrays).map(([name, bytes]) => [name, bytes.length] as const);
  const header = Buffer.from(JSON.stringify({ key, size: postings.size, sections } satisfies IndexHeader));
  let end = alignLength(HEADER_START + header.length);
  const places = Object.values(arrays).map((bytes) => {
    const from = end;
    end = alignLength(from + bytes.length);
    return from;
  });
  const file = new Uint8Array(2 * end);
  const words = new Uint32Array(file.buffer);
  words[0] = FORMAT_MARK;
  words[1] = header.length;
  file.set(header, HEADER_START);
  for (const [at, bytes] of Object.values(arrays).entries()) file.set(bytes, places[at]);
  file.copyWithin(end, 0, end);
  return file;
}

/** Decodes an index; undefined if the bytes are damaged, truncated, of another format or for another key. */
export function decodeSearchIndex(key: string, file: Uint8Array): SearchIndex | undefined {
  try {
    if (file.length < 2 * HEADER_START || file.length % 16 !== 0) return undefined;
    const half = file.length / 2;
    const bytes = file.byteOffset % 8 === 0 ? file.subarray(0, half) : file.slice(0, half);
    if (!toBuffer(bytes).equals(file.subarray(half))) return undefined;
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, half / 4);
    if (words[0] !== FORMAT_MARK) return undefined;
    const length = words[1] as number;
    const header: IndexHeader = JSON.parse(decodeText(bytes.subarray(HEADER_START, HEADER_START + length)));
    if (header.key !== key) return undefined;
    const arrays = new Map<string, Uint8Array>();
    let at = alignLength(HEADER_START + length);
    for (const [name, size] of header.sections) {
      arrays.set(name, bytes.subarray(at, at + size));
      at = alignLength(at + size);
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
    if (at !== bytes.length || !isConsistent(postings)) return undefined;
    return { documents: decodeText(array("documents")), cues: decodeText(array("cues")), postings };
  } catch {
    return undefined;
  }
}

interface IndexHeader {
  key: string;
  size: number;
  sections: readonly (readonly [name: string, bytes: number])[];
}

/** "SKI" and the format version. */
const FORMAT_MARK = 0x534b4902;
const HEADER_START = 8;
const POSTING_ARRAYS = [
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

/** Returns true if the lengths of the arrays are consistent. Their content is protected by the second copy. */
function isConsistent({
  size,
  text,
  textStarts,
  table,
  starts,
  documents,
  counts,
  lengths,
  pairs,
  pairStarts,
}: Postings) {
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

function decodeText(bytes: Uint8Array): string {
  return toBuffer(bytes).toString("utf8");
}

function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function toBytes({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function alignLength(length: number): number {
  return Math.ceil(length / 8) * 8;
}
