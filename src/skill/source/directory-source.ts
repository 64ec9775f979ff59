import { existsSync, lstatSync } from "node:fs";
import { basename, dirname } from "node:path";
import { packageVersion } from "../../package.ts";
import { type FolderId, getFolderId, resolvePath, statFolderId, statLinkedFolderId } from "../../util/safe-path.ts";
import { compareText, shortHash } from "../../util/text.ts";
import { type Diagnostic, diagnose, type Finding, type Profile } from "../diagnostics.ts";
import type { LoadedSkills, Skill, SkillOrigin, SkillScope, Source } from "../skill.ts";
import { type CachedFile, DiscoveryCache } from "./discovery-cache.ts";
import { FileSkill } from "./file-skill.ts";
import { createNestedFindings, findSkillCandidates, type SkillCandidate } from "./find-skills.ts";
import { createFileFingerprint, type FileFingerprint, formatFileId, isLinkedFile, statIfExists } from "./read-file.ts";
import { checkSharedFile, type FolderSnapshot } from "./skill-files.ts";

export interface DirectoryOptions {
  path: string;
  /** The name for `name@source`. Defaults to the path. */
  name?: string;
  scope?: SkillScope;
  /** The package of a monorepo that the skills belong to, relative to the workspace. */
  belongsTo?: string;
  /** If true, also searches below folders that are not skills. Defaults to true. */
  recursive?: boolean;
  /** Folders whose Markdown and YAML files are skills. Defaults to the folder itself. */
  skillsFolders?: readonly string[];
  /** The profile that a file must pass to be loaded. Defaults to `load`. */
  profile?: Profile;
  /** The user's folder for the discovery cache, so that the next start reads only changed files. */
  indexFolder?: string;
  /** Called before each scan. Returns a filter for folders, by real path, that are not skills; undefined for no filter. */
  leavesOut?: () => ((folder: string) => boolean) | undefined;
}

/** Creates a source for the skills below a folder. A missing folder has no skills. */
export function createDirectorySource(options: DirectoryOptions): Source {
  const path = resolvePath(options.path);
  const { name = options.path, scope = "user" } = options;
  return { name, scope, path, load: () => scanDirectory({ ...options, path, name, scope }) };
}

type ScanOptions = DirectoryOptions & Required<Pick<DirectoryOptions, "name" | "scope">>;
type CandidateReader = typeof import("./read-skill.ts");

// Cached files need no parser, so the parser is loaded only for changed files.
async function scanDirectory(options: ScanOptions): Promise<LoadedSkills> {
  const { path: root, recursive = true, skillsFolders = [root], profile = "load", indexFolder } = options;
  if (!existsSync(root)) return { skills: [], diagnostics: [] };
  const key = JSON.stringify([packageVersion(), root, recursive, skillsFolders, profile]);
  const index =
    indexFolder === undefined ? undefined : new DiscoveryCache(`${indexFolder}/${shortHash(key)}.index`, key);
  let reader: CandidateReader | undefined = index?.isEmpty === false ? undefined : await import("./read-skill.ts");
  const refusesShared = options.scope === "workspace";
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  const unread: SkillCandidate[] = [];
  const say = (file: string, findings: readonly Finding[]) => {
    if (findings.length > 0) diagnostics.push(...diagnose(findings, file, profile));
  };
  const nested: [SkillCandidate, CachedFile, FileFingerprint | undefined][] = [];
  const names = new Map<string, string>();
  // Thousands of skills are added at each start, so this creates no temporary objects.
  const add = (candidate: SkillCandidate, file: CachedFile, stamp: FileFingerprint | undefined) => {
    const { skill } = file;
    const findings =
      candidate.parent === undefined ? file.findings : [...createNestedFindings(candidate), ...file.findings];
    say(candidate.file, findings);
    if (!skill) return;
    const { name, description, data } = skill;
    if (candidate.form === "folder") names.set(candidate.file, name);
    const bodyIn = candidate.form === "yaml" ? reader?.extractYamlBody : undefined;
    const origin = createOrigin(candidate, options, names);
    if (stamp) origin.fileId = formatFileId(stamp);
    if (stamp && refusesShared && isLinkedFile(candidate.file, stamp)) origin.isLinked = true;
    skills.push(
      new FileSkill({
        name,
        description,
        data,
        findings,
        origin,
        extractBody: bodyIn,
        fingerprint: stamp,
        snapshot: candidate.snapshot,
      }),
    );
  };
  // The name of the enclosing skill is known only after all others are read.
  const addInTurn = (candidate: SkillCandidate, file: CachedFile, stamp: FileFingerprint | undefined) => {
    if (candidate.parent === undefined) add(candidate, file, stamp);
    else nested.push([candidate, file, stamp]);
  };
  const read = (candidate: SkillCandidate, { readCandidate }: CandidateReader): boolean => {
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
  const take = (candidate: SkillCandidate): boolean => {
    const stats = index?.isKnownFile(candidate.path) ? statIfExists(candidate.file) : undefined;
    const known = stats && index?.file(candidate.path, stats);
    // A cached file may have been moved to another path.
    if (known && !(refusesShared && checkSharedFile(candidate.file, candidate.folder, stats))) {
      addInTurn(candidate, known, createFileFingerprint(stats));
      return true;
    }
    if (reader) return read(candidate, reader);
    if (!existsSync(candidate.file)) return false;
    unread.push(candidate);
    return true;
  };
  findSkillCandidates({
    root,
    recursive,
    skillsFolders,
    index,
    isLeftOut: options.leavesOut?.(),
    report: (path, finding) => say(path, [finding]),
    onCandidate: take,
  });
  if (unread.length > 0) {
    reader = await import("./read-skill.ts");
    for (const candidate of unread) read(candidate, reader);
  }
  for (const [candidate, file, stamp] of nested.sort(([a], [b]) => compareText(a.path, b.path)))
    add(candidate, file, stamp);
  index?.save(Date.now());
  return { skills, diagnostics };
}

/** Returns a folder with its id, which changes if another folder replaces it. */
export function identifyFolder(folder: string): Pick<SkillOrigin, "folder" | "folderId"> {
  const folderId = statFolderId(folder);
  return folderId === undefined ? { folder } : { folder, folderId };
}

function readFolderId(folder: string, snapshot: FolderSnapshot): FolderId | undefined {
  try {
    const stats = lstatSync(folder, { throwIfNoEntry: false });
    if (!stats) return undefined;
    snapshot.stats = stats;
    return getFolderId(folder, stats);
  } catch {
    return undefined;
  }
}

type MutableOrigin = { -readonly [Key in keyof SkillOrigin]: SkillOrigin[Key] } & { file: string };

function createOrigin(
  { form, file, folder, parent, snapshot = {} }: SkillCandidate,
  { scope, name: source, belongsTo }: ScanOptions,
  names: ReadonlyMap<string, string>,
): MutableOrigin {
  const origin: MutableOrigin = { scope, source, form, file };
  const folderId = folder === undefined ? statLinkedFolderId(dirname(file)) : readFolderId(folder, snapshot);
  if (folder !== undefined) origin.folder = folder;
  if (folderId !== undefined) origin.folderId = folderId;
  if (belongsTo !== undefined) origin.belongsTo = belongsTo;
  if (parent !== undefined) origin.parent = names.get(parent) ?? basename(dirname(parent));
  return origin;
}
