import type { Host } from "../../host/host.ts";
import type { Skill } from "../../skill/skill.ts";
import type { ToolEffect } from "../../skill/tool.ts";
import type { Enclosure } from "../enclosure.ts";

/** Where the tools of a run work, and for whom. */
export interface ToolScene {
  enclosure: Enclosure;
  host: Host;
  /** Whose run it is. */
  skill?: Skill;
}

/** A change of the workspace, for whoever is to agree to it. */
export const CHANGE: ToolEffect = { on: "workspace" };
