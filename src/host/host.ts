import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import type { Approvals, Approve } from "./approvals.ts";
import type { Caller } from "./caller.ts";
import type { Capabilities } from "./capabilities.ts";
import type { Listen } from "./events.ts";
import type { Grants } from "./grants.ts";
import type { Model, SdkModel } from "./models.ts";
import type { HostPolicy } from "./policies.ts";
import type { Runs } from "./runs.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Settings } from "./settings.ts";
import type { Statistics } from "./statistics.ts";
import type { System } from "./system.ts";
import type { Trust } from "./trust.ts";

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
  /** Whether a client started this program and chose its environment: then an API key in it is the client's, and needs the user's consent. */
  isEnvOfClient?: boolean;
  /** Models by alias, before those of the settings: of the AI SDK, or of your own making. The one called `default` is the default, or else the first. */
  models?: Readonly<Record<string, Model | SdkModel>>;
  /** Tools for runs, beside those that are built in. */
  tools?: readonly Tool[];
  /** Whether tools that are built in are offered to runs: `bash`, `read_file`, … True when left out. */
  hasBuiltInTools?: boolean;
  /** On whose behalf skills are loaded and used. */
  caller?: Caller;
  /** Rules of the embedding program, applied after the built-in ones. A skill that one denies is hidden and refused. */
  policies?: readonly HostPolicy[];
  /** Which skill's values were given to which copy of it. Any copy gets them, when left out. */
  grants?: Grants;
  /** Sensitive systems that skills may be given, and who serves them. None, when left out. */
  capabilities?: Capabilities;
  /** Asks somebody whether a call may be made. Left out: a run that is written down waits, and in any other nobody agrees. */
  approve?: Approve;
  /** What the user agreed to once and for all. Nothing, when left out. */
  approvals?: Approvals;
  /** Where runs are written down, so that they can be gone on with. Nowhere, when left out. */
  runs?: Runs;
  /** Where it is counted what is used. Nowhere, when left out. */
  statistics?: Statistics;
  /** Called with everything that happens. What it throws is nobody's problem but its own. */
  onEvent?: Listen;
}
