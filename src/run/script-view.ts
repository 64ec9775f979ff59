import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { keyOf } from "../policy/table.ts";
import { inLine } from "../shared/prompt.ts";
import { scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { ToolEffect } from "../skill/tool.ts";
import type { Enclosure } from "./enclosure.ts";
import { chooseAccess, configuredAccess, homeOf } from "./workspace-access.ts";

/** The user's files as a script sees them. */
export interface ScriptView {
  /** The folder that it starts in. */
  folder: string;
  /** The skill's folder, read-only: `$SKILL_DIR`. */
  skill: string;
  /** The workspace, where it is open: its path, and the path that the script sees it at. */
  workspace?: { path: string; seenAs: string; access: "read" | "read-write" };
}

export function viewIn({ folder, places, workspace, access }: Enclosure): ScriptView {
  const { skill = "", workspace: seenAs } = places;
  if (workspace === undefined || seenAs === undefined || access === "none") return { folder, skill };
  return { folder, skill, workspace: { path: workspace, seenAs, access } };
}

/** Describes a view in a few words, for the line on the outcome. */
export function formatView({ folder, workspace }: ScriptView): string {
  if (!workspace) return `started in ${folder}, without the workspace`;
  return `started in ${workspace.seenAs}, the workspace, ${workspace.access === "read" ? "read-only" : "writable"}`;
}

/** Describes for a model what scripts of a skill see, and which arguments work; of any skill, where none is given. */
export function describeScriptView(host: Host, skill?: Skill): string {
  const request = { skill, home: homeOf(host), kind: "script" } as const;
  const { access, notices } = chooseAccess(host, request);
  if (access === "none") {
    const why = notices.map(({ message }) => ` (${inLine(message, 300)})`).join("");
    return `It starts in the skill's folder, and sees no files of the user${why}: give it content on stdin.`;
  }
  const canAsk = access === "read" && chooseAccess(host, { ...request, writes: true }).asksToWrite;
  const how = access === "read" ? "which it can read" : "which it can read and change";
  return [
    `It starts in the user's workspace, ${how}: its arguments can be paths relative to the workspace or absolute paths in it.`,
    ...(canAsk ? ["With writes: true it can also change files there, once the user approves."] : []),
    "It sees no other files of the user. $SKILL_DIR is the skill's folder.",
  ].join(" ");
}

/** Describes for a model how the scripts of a loaded skill are run. */
export function howToRun(host: Host, skill: Skill): string | undefined {
  if (scriptsOf(skill).length === 0) return undefined;
  return `run_skill_script runs one of them, with args. ${describeScriptView(host, skill)}`;
}

/** The parameter of every tool that runs a script. */
export const SCRIPT_WRITES = {
  writes: {
    type: "boolean",
    says: "true for a script that changes files of the workspace: the user may be asked first; else it can only read them",
  },
} as const;

/** The change that a script with `writes` may make, for the user to approve. */
export function scriptEffect(script: string, args: readonly string[]): ToolEffect {
  return { on: "workspace", what: ["run", script, ...args].join(" ") };
}

/**
 * Returns true if a script with `writes` has to be approved: always, unless the settings decide. Whether it can be written to is found out
 * when it runs, and may be another answer then.
 */
export function asksToWrite({ settings, workspace }: Host, skill: Skill): boolean {
  return workspace !== undefined && configuredAccess(settings, skill) === undefined;
}

/** Returns true if a command could only read the workspace, and failed to write to it: other folders are never open. */
export function isKeptFromWriting(
  stderr: string,
  { places: { workspace }, ...enclosure }: Pick<Enclosure, "places" | "access">,
  { access } = enclosure,
): boolean {
  if (access !== "read" || workspace === undefined) return false;
  return stderr.split("\n").some((line) => {
    if (!/Read-only file system/i.test(line)) return false;
    const said = line.replace(/^\S+: (?:line )?\d+: /, ""); // Where in the script it was, as shells say it.
    const [path] = /\/[^\s:'"]*/.exec(said) ?? [];
    return path === undefined || path.startsWith(workspace);
  });
}

export function needsWrites({ places }: Enclosure, host: Host, skill: Skill): Notice {
  const fix = asksToWrite(host, skill)
    ? "let it write: `skillet script --write …`, or `writes: true` in a call"
    : `run: skillet config set ${keyOf(skill, "workspace")} read-write`;
  return {
    code: "workspace-read-only",
    message: `The script can only read ${places.workspace}, and tried to change it`,
    fix,
  };
}
