import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { Data } from "../skill/data.ts";
import { type Diagnostic, diagnose, type Finding, severityOf } from "../skill/diagnostic.ts";
import type { Origin, Skill } from "../skill/skill.ts";
import { identified } from "./directory.ts";
import { fileIdOf, isLinkedFile, type Stamp } from "./file.ts";
import { FileSkill } from "./file-skill.ts";
import { readCandidate } from "./read-candidate.ts";
import type { Loaded } from "./source.ts";
import { type Candidate, nestedFindings, walkNested } from "./walk.ts";

export interface FolderSkill {
  skill: Skill;
  /** Its frontmatter, as it is written. */
  written: Data;
  /** What tells that its file changed. */
  stamp: Stamp | undefined;
}

/** The skill in one folder, whose file is SKILL.md. Nothing when that is not there; what is wrong, the worst first, when it is no skill. Throws when there is no folder. */
export function readFolderSkill(
  path: string,
  { scope, source }: Pick<Origin, "scope" | "source">,
): FolderSkill | { findings: readonly Finding[] } | undefined {
  const folder = realpathSync(resolve(path));
  const place = identified(folder); // Before its file is read: what is put there later is not this folder.
  const file = join(resolve(path), "SKILL.md");
  const reading = readCandidate({ ...candidateFor(file, folder), refusesShared: scope === "workspace" }, "load");
  if (!reading) return undefined;
  const { skill, findings, stamp } = reading;
  if (!skill) return { findings: findings.toSorted((a, b) => Number(isError(b)) - Number(isError(a))) };
  return {
    skill: new FileSkill({
      ...skill,
      findings,
      origin: { scope, source, form: "folder", file, ...place, ...found(file, stamp) },
    }),
    written: JSON.parse(skill.data),
    stamp,
  };
}

/** The skills inside the folder of a skill, and what is to be said of the files there. Contract: `skill` has a file and a folder. */
export function readNestedSkills(skill: Pick<Skill, "name" | "origin">): Loaded {
  const { scope, source, file = "", folder = "" } = skill.origin;
  const names = new Map([[file, skill.name]]);
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  walkNested(candidateFor(file, folder), {
    take(candidate) {
      const reading = readCandidate({ ...candidate, refusesShared: scope === "workspace" }, "load");
      if (!reading) return false;
      const { skill: read } = reading;
      const findings = [...nestedFindings(candidate), ...reading.findings];
      const { form, parent = "" } = candidate;
      diagnostics.push(...diagnose(findings, candidate.file));
      if (!read) return true;
      names.set(candidate.file, read.name);
      const inside = {
        parent: names.get(parent) ?? basename(dirname(parent)),
        ...(candidate.folder === undefined ? {} : identified(candidate.folder)),
        ...found(candidate.file, reading.stamp),
      };
      skills.push(
        new FileSkill({ ...read, findings, origin: { scope, source, form, file: candidate.file, ...inside } }),
      );
      return true;
    },
    say: (path, finding) => diagnostics.push(...diagnose([finding], path)),
  });
  return { skills, diagnostics };
}

function found(file: string, stamp: Stamp | undefined): Pick<Origin, "fileId" | "isLinked"> {
  if (!stamp) return {};
  return { fileId: fileIdOf(stamp), ...(isLinkedFile(file, stamp) ? { isLinked: true } : {}) };
}

function candidateFor(file: string, folder: string): Candidate {
  return {
    file,
    path: basename(file),
    form: "folder",
    stem: basename(folder),
    folder,
    findings: [],
    needs: [],
  };
}

function isError({ code }: Finding): boolean {
  return severityOf(code, "load") === "error";
}
