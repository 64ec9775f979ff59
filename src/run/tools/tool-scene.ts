import type { Broker } from "../../capability/broker.ts";
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
  /** Who stands between it and capabilities, where it has any. */
  broker?: Broker | undefined;
  /** How long was waited for people, which is nobody's time. */
  waited?(): number;
}

/** A change of the workspace, for whoever is to agree to it. */
export const CHANGE: ToolEffect = { on: "workspace" };
