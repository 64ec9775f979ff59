import { existsSync, lstatSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { packageVersion } from "../package.ts";
import { shortHash } from "../shared/hash.ts";
import { type FolderId, folderIdFrom, folderIdOf, followedFolderId } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { type Diagnostic, diagnose, type Finding, type Profile } from "../skill/diagnostic.ts";
import type { Origin, Scope, Skill } from "../skill/skill.ts";
import { fileIdOf, isLinkedFile, type Stamp, stampOf, statOf } from "./file.ts";
import { sharedFileFinding } from "./file-list.ts";
import { FileSkill } from "./file-skill.ts";
import type { FolderSeen } from "./nested-skills.ts";
import { type IndexedFile, ScanIndex } from "./scan-index.ts";
import type { Loaded, Source } from "./source.ts";
import { type Candidate, nestedFindings, walk } from "./walk.ts";

export interface DirectoryOptions {
  path: string;
  /** What `name@source` takes; the path when left out. */
  name?: string;
  scope?: Scope;
  /** The package of a monorepo that the skills belong to, relative to the workspace. */
  belongsTo?: string;
  /** Look below folders that are no skills. True when left out. */
  recursive?: boolean;
  /** Folders whose Markdown and YAML files are skills. Defaults to the folder itself. */
  skillsFolders?: readonly string[];
  /** What a file must live up to in order to be loaded. `load` when left out. */
  profile?: Profile;
  /** A folder of the user's own for what was seen, so that the next start reads only what changed. */
  indexFolder?: string;
  /** Asked before each look: which folders, by their real path, are no skills. Nothing when it is none. */
  leavesOut?: () => ((folder: string) => boolean) | undefined;
}

/** The skills below a folder. A folder that is not there holds none. */
export function directorySource(options: DirectoryOptions): Source {
  const path = resolve(options.path);
  const { name = options.path, scope = "user" } = options;
  return { name, scope, path, load: () => scan({ ...options, path, name, scope }) };
}

type ScanOptions = DirectoryOptions & Required<Pick<DirectoryOptions, "name" | "scope">>;
type Reader = typeof import("./read-candidate.ts");

// What was seen before needs no parser, so the parser is loaded only when there is something to read.
async function scan(options: ScanOptions): Promise<Loaded> {
  const { path: root, recursive = true, skillsFolders = [root], profile = "load", indexFolder } = options;
  if (!existsSync(root)) return { skills: [], diagnostics: [] };
  const key = JSON.stringify([packageVersion(), root, recursive, skillsFolders, profile]);
  const index = indexFolder === undefined ? undefined : new ScanIndex(`${indexFolder}/${shortHash(key)}.index`, key);
  let reader: Reader | undefined = index?.isEmpty === false ? undefined : await import("./read-candidate.ts");
  const refusesShared = options.scope === "workspace";
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  const unread: Candidate[] = [];
  const say = (file: string, findings: readonly Finding[]) => {
    if (findings.length > 0) diagnostics.push(...diagnose(findings, file, profile));
  };
  const nested: [Candidate, IndexedFile, Stamp | undefined][] = [];
  const names = new Map<string, string>();
  // Thousands are added at each start: no object is made here that is not kept.
  const add = (candidate: Candidate, file: IndexedFile, stamp: Stamp | undefined) => {
    const { skill } = file;
    const findings = candidate.parent === undefined ? file.findings : [...nestedFindings(candidate), ...file.findings];
    say(candidate.file, findings);
    if (!skill) return;
    const { name, description, data } = skill;
    if (candidate.form === "folder") names.set(candidate.file, name);
    const bodyIn = candidate.form === "yaml" ? reader?.yamlBody : undefined;
    const origin = originOf(candidate, options, names);
    if (stamp) origin.fileId = fileIdOf(stamp);
    if (stamp && refusesShared && isLinkedFile(candidate.file, stamp)) origin.isLinked = true;
    skills.push(new FileSkill({ name, description, data, findings, origin, bodyIn, stamp, seen: candidate.seen }));
  };
  // The name of the skill around one is known once all others are read.
  const addInTurn = (candidate: Candidate, file: IndexedFile, stamp: Stamp | undefined) => {
    if (candidate.parent === undefined) add(candidate, file, stamp);
    else nested.push([candidate, file, stamp]);
  };
  const read = (candidate: Candidate, { readCandidate }: Reader): boolean => {
    const reading = readCandidate({ ...candidate, refusesShared }, profile);
    if (!reading) return false;
    const { stamp } = reading;
    addInTurn(
      candidate,
      stamp && index && candidate.form !== "yaml" ? index.addFile(candidate.path, stamp, reading) : reading,
      stamp,
    );
    return true;
  };
  const take = (candidate: Candidate): boolean => {
    const stats = index?.isKnownFile(candidate.path) ? statOf(candidate.file) : undefined;
    const known = stats && index?.file(candidate.path, stats);
    // A file that was read before may have been put in another place since.
    if (known && !(refusesShared && sharedFileFinding(candidate.file, candidate.folder, stats))) {
      addInTurn(candidate, known, stampOf(stats));
      return true;
    }
    if (reader) return read(candidate, reader);
    if (!existsSync(candidate.file)) return false;
    unread.push(candidate);
    return true;
  };
  walk({
    root,
    recursive,
    skillsFolders,
    index,
    isLeftOut: options.leavesOut?.(),
    say: (path, finding) => say(path, [finding]),
    take,
  });
  if (unread.length > 0) {
    reader = await import("./read-candidate.ts");
    for (const candidate of unread) read(candidate, reader);
  }
  for (const [candidate, file, stamp] of nested.sort(([a], [b]) => byText(a.path, b.path))) add(candidate, file, stamp);
  index?.save(Date.now());
  return { skills, diagnostics };
}

/** A folder with what tells it from another one in its place. */
export function identified(folder: string): Pick<Origin, "folder" | "folderId"> {
  const folderId = folderIdOf(folder);
  return folderId === undefined ? { folder } : { folder, folderId };
}

function lookAt(folder: string, seen: FolderSeen): FolderId | undefined {
  try {
    const stats = lstatSync(folder, { throwIfNoEntry: false });
    if (!stats) return undefined;
    seen.stats = stats;
    return folderIdFrom(folder, stats);
  } catch {
    return undefined;
  }
}

type NewOrigin = { -readonly [Key in keyof Origin]: Origin[Key] } & { file: string };

function originOf(
  { form, file, folder, parent, seen = {} }: Candidate,
  { scope, name: source, belongsTo }: ScanOptions,
  names: ReadonlyMap<string, string>,
): NewOrigin {
  const origin: NewOrigin = { scope, source, form, file };
  const folderId = folder === undefined ? followedFolderId(dirname(file)) : lookAt(folder, seen);
  if (folder !== undefined) origin.folder = folder;
  if (folderId !== undefined) origin.folderId = folderId;
  if (belongsTo !== undefined) origin.belongsTo = belongsTo;
  if (parent !== undefined) origin.parent = names.get(parent) ?? basename(dirname(parent));
  return origin;
}
