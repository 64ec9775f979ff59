import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { packageVersion } from "../package.ts";
import { shortHash } from "../shared/hash.ts";
import { type Diagnostic, diagnose, type Finding, type Profile } from "../skill/diagnostic.ts";
import type { Origin, Scope, Skill } from "../skill/skill.ts";
import { statOf } from "./file.ts";
import { FileSkill } from "./file-skill.ts";
import { type IndexedFile, ScanIndex } from "./scan-index.ts";
import type { Loaded, Source } from "./source.ts";
import { type Candidate, walk } from "./walk.ts";

export interface DirectoryOptions {
  path: string;
  /** What `name@source` takes; the path when left out. */
  name?: string;
  scope?: Scope;
  /** Look below folders that are no skills. True when left out. */
  recursive?: boolean;
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
  const { path: root, recursive = true, profile = "load", indexFolder } = options;
  if (!existsSync(root)) return { skills: [], diagnostics: [] };
  const key = JSON.stringify([packageVersion(), root, recursive, profile]);
  const index = indexFolder === undefined ? undefined : new ScanIndex(`${indexFolder}/${shortHash(key)}.index`, key);
  let reader: Reader | undefined = index?.isEmpty === false ? undefined : await import("./read-candidate.ts");
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  const unread: Candidate[] = [];
  const say = (file: string, findings: readonly Finding[]) => {
    if (findings.length > 0) diagnostics.push(...diagnose(findings, file, profile));
  };
  const add = (candidate: Candidate, { skill, findings }: IndexedFile) => {
    say(candidate.file, findings);
    if (!skill) return;
    const bodyIn = candidate.form === "yaml" && reader ? { bodyIn: reader.yamlBody } : {};
    skills.push(new FileSkill({ ...skill, findings, origin: originOf(candidate, options), ...bodyIn }));
  };
  const read = (candidate: Candidate, { readCandidate }: Reader): boolean => {
    const reading = readCandidate(candidate, profile);
    if (!reading) return false;
    const { stamp } = reading;
    add(
      candidate,
      stamp && index && candidate.form !== "yaml" ? index.addFile(candidate.path, stamp, reading) : reading,
    );
    return true;
  };
  const take = (candidate: Candidate): boolean => {
    const known = index?.isKnownFile(candidate.path) ? unchanged(index, candidate) : undefined;
    if (known) {
      add(candidate, known);
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
    index,
    isLeftOut: options.leavesOut?.(),
    say: (path, finding) => say(path, [finding]),
    take,
  });
  if (unread.length > 0) {
    reader = await import("./read-candidate.ts");
    for (const candidate of unread) read(candidate, reader);
  }
  index?.save(Date.now());
  return { skills, diagnostics };
}

function unchanged(index: ScanIndex, candidate: Candidate): IndexedFile | undefined {
  const stats = statOf(candidate.file);
  return stats && index.file(candidate.path, stats);
}

function originOf(candidate: Candidate, options: ScanOptions): Origin & { file: string } {
  const { form, file, folder } = candidate;
  return { scope: options.scope, source: options.name, form, file, ...(folder === undefined ? {} : { folder }) };
}
