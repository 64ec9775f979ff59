import type { SkillError } from "../shared/error.ts";

/** Where skills come from: what somebody typed, read. */
export type Address =
  /** A folder on this machine; `path` is absolute. */
  | { kind: "folder"; path: string; inside?: string }
  /** A zip (`.zip`, `.skill`) or a compressed tar (`.tar.gz`, `.tgz`): an absolute path, or an https address. */
  | { kind: "archive"; location: string; inside?: string }
  /** A repository. `ref` is a branch, a tag or a commit: the default branch when left out. `namesake`: a folder here that is written nearly so. */
  | { kind: "git"; url: string; ref?: string; inside?: string; namesake?: string }
  /** A site with `/.well-known/agent-skills/index.json`; `url` is that of the index. */
  | { kind: "site"; url: string };

/** One thing in a source, as the source itself tells of it: nothing of it is believed yet. */
export interface SourceEntry {
  /** As it is written there, with `/` between its parts. */
  path: string;
  kind: "file" | "folder" | "link" | "other";
  /** Only the bits that say who may do what. */
  mode: number;
  /** How many bytes it says it has. */
  size: number;
  /** Of a link: where it leads, as it is written there. */
  target?: string;
  /** Its bytes, for a file. Throws a SkillError when they are not what the source says, or more. */
  read(): Uint8Array;
}

/** What was fetched and written into a folder of ours. */
export interface Fetched {
  /** Its files, below this folder: regular files and folders, and nothing else. */
  folder: string;
  address: Address;
  /** The commit that a repository was at. */
  commit?: string;
  /** Links, by their paths, and where they lead as written: none was made. */
  links: ReadonlyMap<string, string>;
  /** What of the source is not there, and why: a sentence each. */
  notes: readonly string[];
  /** Entries that were not written, by their paths, and why. A skill that has one is refused; other skills are not. */
  refused: ReadonlyMap<string, SkillError>;
}

export interface FetchOptions {
  /** Made by whoever calls, empty, for the user alone. */
  to: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The commit to fetch, whatever the ref leads to by now. */
  commit?: string;
  /** Of a site: only skills of these names; all of them when there is none. */
  names?: readonly string[];
  /** Of a site: called with each name that cannot be had, in the place of failing over it. */
  onFailure?(name: string, error: SkillError): void;
  /** Asks private addresses too that only the source named. */
  allowPrivate?: boolean;
  signal?: AbortSignal;
}

/** What a source may be. */
export const SOURCE_LIMITS = {
  /** Files, folders and links together. */
  entries: 50_000,
  bytes: 512 * 1024 * 1024,
  /** Of one file. */
  file: 64 * 1024 * 1024,
  /** Of an archive as it is, before anything is taken out. */
  archive: 128 * 1024 * 1024,
  /** How many times larger an archive may become, once it is more than a few MiB. */
  ratio: 100,
  depth: 32,
  /** Bytes of a path. */
  path: 1024,
};
