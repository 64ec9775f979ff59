import { shortHash } from "../shared/hash.ts";
import type { Skill } from "../skill/skill.ts";
import type { SearchStore } from "../source/search-file.ts";
import { buildPostings, type Postings, PostingsBuilder } from "./postings.ts";
import { decodeSearchIndex, encodeSearchIndex, type SearchIndex } from "./search-index.ts";
import { readCues, type SkillCues } from "./skill-cues.ts";

/** Gives the texts of a skill, one for each field; the last is its body. */
export type TextsOf = (index: number, hasBody: boolean) => readonly string[];

/**
 * The cues and the terms of skills. With a store, those of skills that did not change come from there, and what was read is kept for the next
 * process: its first query then reads no skill.
 */
export class SkillIndex {
  readonly #skills: readonly Skill[];
  readonly #store: SearchStore | undefined;
  readonly #textsOf: TextsOf;
  readonly #documents: readonly Document[];
  readonly #stored: SearchIndex | undefined;
  /** For each skill its number in the stored index. */
  readonly #places: readonly (number | undefined)[];
  readonly #storedCues: readonly (SkillCues | 0)[];
  readonly #cues: (SkillCues | undefined)[] = [];
  #whole: Postings | undefined;
  #own: Postings | undefined;

  constructor(skills: readonly Skill[], textsOf: TextsOf, store: SearchStore | undefined) {
    this.#skills = skills;
    this.#textsOf = textsOf;
    this.#store = store;
    this.#documents = store ? skills.map(documentOf) : [];
    const bytes = store?.load();
    const stored = store && bytes && decodeSearchIndex(store.key, bytes);
    const places = stored && placesIn(stored, this.#documents);
    const cues = places && parseCues(stored);
    this.#stored = cues && stored;
    this.#places = cues ? places : [];
    this.#storedCues = cues ?? [];
  }

  /** The cues of the skill; undefined when it declares none. */
  cuesOf(index: number): SkillCues | undefined {
    const place = this.#places[index];
    const stored = place === undefined ? undefined : this.#storedCues[place];
    if (stored !== undefined) return stored === 0 ? undefined : stored;
    if (!(index in this.#cues)) this.#cues[index] = readCues(this.#skills[index] as Skill);
    return this.#cues[index];
  }

  /** The terms of every field. The instructions of skills that are not in the store are read for it. */
  get whole(): Postings {
    this.#whole ??= this.#readWhole();
    return this.#whole;
  }

  /** The terms of every field but the body, which may be there too. */
  get own(): Postings {
    if (this.#stored || this.#whole) return this.whole;
    this.#own ??= buildPostings(this.#skills.length, (index) => this.#textsOf(index, false));
    return this.#own;
  }

  #readWhole(): Postings {
    const { length } = this.#skills;
    if (!this.#store) return buildPostings(length, (index) => this.#textsOf(index, true));
    if (this.#stored && this.#isUnchanged(this.#stored)) return this.#stored.postings;
    const builder = new PostingsBuilder();
    if (this.#stored)
      builder.addAll(this.#stored.postings, this.#places, length, (index) => this.#textsOf(index, true));
    else for (let index = 0; index < length; index++) builder.add(this.#textsOf(index, true));
    const postings = builder.build();
    const cues = this.#skills.map((_, index) => this.cuesOf(index) ?? 0);
    // A file that changes twice within the clock's tick keeps its fingerprint: what is young now is read again.
    const young = this.#store.now() - CLOCK_TICK;
    const documents = this.#documents.map(({ entry: [key, fingerprint], changedAt }) => [
      key,
      changedAt > young ? "" : fingerprint,
    ]);
    const index = { documents: JSON.stringify(documents), cues: JSON.stringify(cues), postings };
    this.#store.save(encodeSearchIndex(this.#store.key, index));
    return postings;
  }

  #isUnchanged({ postings }: SearchIndex): boolean {
    return postings.size === this.#places.length && this.#places.every((place, index) => place === index);
  }
}

const CLOCK_TICK = 2000;

interface Document {
  entry: readonly [key: string, fingerprint: string];
  changedAt: number;
}

function documentOf(skill: Skill): Document {
  const found = skill.fingerprint?.();
  if (found) return { entry: [found.file, found.value], changedAt: found.changedAt };
  const { name, description, manifest } = skill;
  const value = shortHash(JSON.stringify([description, manifest, skill.examples(), bodyOf(skill)]));
  return { entry: [`code:${name}`, value], changedAt: 0 };
}

/** Where each document is in the stored index; undefined for one that is not there as it is now. Nothing for an index that is not one. */
function placesIn(stored: SearchIndex, documents: readonly Document[]): (number | undefined)[] | undefined {
  if (stored.documents === JSON.stringify(documents.map(({ entry }) => entry))) return documents.map((_, at) => at);
  try {
    const entries: [string, string][] = JSON.parse(stored.documents);
    if (entries.length !== stored.postings.size) return undefined;
    const places = new Map(entries.map(([key, fingerprint], place) => [`${key}\n${fingerprint}`, place]));
    return documents.map(({ entry: [key, fingerprint] }) => places.get(`${key}\n${fingerprint}`));
  } catch {
    return undefined;
  }
}

function parseCues({ cues, postings }: SearchIndex): (SkillCues | 0)[] | undefined {
  try {
    const read = JSON.parse(cues);
    return Array.isArray(read) && read.length === postings.size ? read : undefined;
  } catch {
    return undefined;
  }
}

/** The instructions, or nothing where they can no longer be read. Those of a remote skill are not searched: they may not be here yet. */
export function bodyOf(skill: Skill): string {
  if (skill.origin.remote) return "";
  try {
    return skill.body();
  } catch {
    return "";
  }
}
