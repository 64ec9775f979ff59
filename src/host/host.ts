import type { Skill } from "../skill/skill.ts";
import type { ToolResult } from "../skill/tool.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Settings } from "./settings.ts";
import type { System } from "./system.ts";
import type { Trust } from "./trust.ts";

/** Hands a task to a sub-agent that follows the skill, and gives back its answer. */
export type UseSkill = (request: { skill: Skill; arguments?: string }) => Promise<ToolResult>;

/** What the embedding program decides. */
export interface Host {
  settings: Settings;
  /** The folder that paths from a model are relative to; the folders of skills, when left out. It can name none outside of these. */
  workspace?: string;
  /** The skill's folder as the model sees it, where that differs from the real one. */
  folderOf?: (skill: Skill) => string | undefined;
  /** skillet's own folder, where sandboxes are kept; `~/.skillet` when left out. */
  home?: string;
  /** What keeps code apart, in place of what the settings choose. */
  sandbox?: Sandbox;
  /** Whose code may run. Everybody's, when left out: it is the embedding program's to say. */
  trust?: Trust;
  /** What this machine has. What a skill needs of it is not judged when left out. */
  system?: System;
  /** Where values such as `env:NAME` are taken from; nowhere when left out. */
  env?: Readonly<Record<string, string | undefined>>;
  /** How skills that ask to run on their own (`context: fork`) are run. */
  use?: UseSkill;
}
