import { realpathSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Data } from "../skill/data.ts";
import { type Finding, severityOf } from "../skill/diagnostic.ts";
import type { Origin, Skill } from "../skill/skill.ts";
import type { Stamp } from "./file.ts";
import { FileSkill } from "./file-skill.ts";
import { readCandidate } from "./read-candidate.ts";
import type { Candidate } from "./walk.ts";

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
  const file = join(resolve(path), "SKILL.md");
  const candidate: Candidate = {
    file,
    path: "SKILL.md",
    form: "folder",
    stem: basename(folder),
    folder,
    findings: [],
    isDoubtful: false,
  };
  const reading = readCandidate(candidate, "load");
  if (!reading) return undefined;
  const { skill, findings, stamp } = reading;
  if (!skill) return { findings: findings.toSorted((a, b) => Number(isError(b)) - Number(isError(a))) };
  return {
    skill: new FileSkill({ ...skill, findings, origin: { scope, source, form: "folder", file, folder } }),
    written: JSON.parse(skill.data),
    stamp,
  };
}

function isError({ code }: Finding): boolean {
  return severityOf(code, "load") === "error";
}
