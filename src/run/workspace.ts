import { existsSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Host } from "../host/host.ts";
import { type Mount, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import { isRoot } from "../sandbox/places.ts";
import { SkillError } from "../shared/error.ts";
import { isInside } from "../shared/inside.ts";
import type { Skill } from "../skill/skill.ts";

/** What other programs run or obey without a word: code that may write to a workspace could leave something there for them. */
const PROTECTED = [
  ".git/hooks",
  ".git/config",
  ".skillet",
  ".claude",
  ".agents",
  ".agent",
  ".vscode",
  ".idea",
  ".husky",
  ".envrc",
];

/** The workspace as the settings give it to a skill's code: not at all, to read, or to write. */
export function workspaceMounts(skill: Skill, host: Host, home: string): Mount[] {
  const { settings, workspace } = host;
  const access = settings.skills.get(skill.name)?.workspace ?? settings.sandbox.workspace;
  if (access === "none" || workspace === undefined) return [];
  const folder = realpathSync(workspace);
  const tooWide = [home, homedir()].filter(existsSync).find((path) => isInside(folder, realpathSync(path)));
  if (tooWide !== undefined) {
    throw new SkillError("workspace-too-wide", {
      message: `The workspace ${folder} holds ${tooWide}, so code is not let into it`,
      fix: 'work in a folder of its own, or set workspace = "none" in config.toml',
    });
  }
  if (isRoot() && !mayUse(folder, access)) {
    throw new SkillError("workspace-closed", {
      message: `Code never runs as root, and nobody else may ${access === "read" ? "read" : "write to"} ${folder}`,
      fix: "run skillet as the folder's owner, or open the folder to others",
    });
  }
  const closed = access === "read" ? [] : PROTECTED.filter((path) => existsSync(join(folder, path)));
  return [
    { from: folder, to: WORKSPACE_FOLDER, access },
    ...closed.map((path) => ({ from: join(folder, path), to: `${WORKSPACE_FOLDER}/${path}`, access: "read" as const })),
  ];
}

function mayUse(folder: string, access: "read" | "read-write"): boolean {
  const needed = access === "read" ? 0o005 : 0o007;
  return (statSync(folder).mode & needed) === needed;
}
