import type { Skill } from "../skill/skill.ts";
import type { ToolResult } from "../skill/tool.ts";
import type { Settings } from "./settings.ts";

/** Hands a task to a sub-agent that follows the skill, and gives back its answer. */
export type UseSkill = (request: { skill: Skill; arguments?: string }) => Promise<ToolResult>;

/** What the embedding program decides. */
export interface Host {
  settings: Settings;
  /** The folder that paths from a model are relative to; the folders of skills, when left out. It can name none outside of these. */
  workspace?: string;
  /** The skill's folder as the model sees it, where that differs from the real one. */
  folderOf?: (skill: Skill) => string | undefined;
  /** How skills that ask to run on their own (`context: fork`) are run. */
  use?: UseSkill;
}
