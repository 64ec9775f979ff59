import type { Discovered } from "../host/discover.ts";
import type { Notice } from "../host/sandbox.ts";
import { firstDenial } from "../policy/policy.ts";
import { asNotice } from "../run/notice.ts";
import { openToolsets } from "../run/toolset/open.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";

/** The tools of one that brings some, or why they are not there. */
export interface ToolRow {
  name: string;
  source: string;
  tools: readonly Tool[];
  problems: readonly Notice[];
  skill: Skill;
  copy?: SkillCopy;
  close(): void;
}

/** Everything that brings tools: the one place where a command gets its list of them. */
export async function openTools(found: Discovered, skills: readonly Skill[]): Promise<ToolRow[]> {
  return Promise.all(skills.map((skill) => rowOf(found, skill)));
}

/** The skills that bring tools, and that are there for this caller. */
export function skillsWithTools({ catalog, ...host }: Discovered): Skill[] {
  return catalog.skills.filter(
    (skill) => skill.manifest.toolsets.length > 0 && firstDenial(skill, host)?.kind !== "access",
  );
}

async function rowOf(found: Discovered, skill: Skill): Promise<ToolRow> {
  const head = { name: skill.name, source: skill.origin.source, skill };
  try {
    const copy = copySkill(skill);
    const { tools, problems, close } = await openToolsets(found, { skill, copy });
    return { ...head, tools, problems, copy, close };
  } catch (error) {
    return { ...head, tools: [], problems: [asNotice(error)], close: () => {} };
  }
}
