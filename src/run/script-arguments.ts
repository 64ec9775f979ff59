import { existsSync } from "node:fs";
import { isAbsolute, join, normalize, resolve } from "node:path";
import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { HOME_FOLDER, type Notice, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import { keyOf } from "../policy/table.ts";
import { isInside, realPlace } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { SKILL_FOLDER } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { Enclosure } from "./enclosure.ts";

type Seen = Pick<Enclosure, "sandbox" | "workspace" | "places">;

/** Returns the arguments as the script has to write them: absolute paths in the workspace become those of the sandbox. */
export function translateArguments(args: readonly string[], { workspace }: Host, seen: Seen): string[] {
  const { places } = seen;
  if (seen.workspace === undefined || places.workspace === undefined) return [...args];
  const as = places.workspace;
  const roots = [workspace === undefined ? seen.workspace : resolve(workspace), seen.workspace];
  return args.map((arg) => {
    const { option, value } = splitOption(arg);
    const root = isAbsolute(value) ? roots.find((path) => isInside(path, normalize(value))) : undefined;
    return root === undefined ? arg : `${option}${join(as, normalize(value).slice(root.length))}`;
  });
}

/**
 * Returns a warning for each argument that names a path the script cannot see. It goes by the path alone and does not look whether a file
 * is there, so that no caller learns from it which files the machine has.
 */
export function outsideArguments(
  args: readonly string[],
  host: Host,
  { skill, ...seen }: Seen & { skill: Skill },
): Notice[] {
  if (seen.sandbox.level === "none") return [];
  const paths = args.map((arg) => splitOption(arg).value).filter((value) => !isVisible(value, host, seen));
  return [...new Set(paths)].slice(0, MOST_SHOWN).map((path) => ({
    code: "argument-outside",
    ...(seen.workspace === undefined ? noWorkspace(path, skill) : outsideOf(path, host)),
  }));
}

const MOST_SHOWN = 3;

function outsideOf(path: string, { workspace = "" }: Host): Omit<Notice, "code"> {
  return {
    message: `The script cannot see ${inLine(path, 200)}: it is outside of the workspace ${workspace}`,
    fix: "copy the file into the workspace, or choose its folder as the workspace (skillet script --workspace FOLDER)",
  };
}

function noWorkspace(path: string, skill: Skill): Omit<Notice, "code"> {
  return {
    message: `The script cannot see ${inLine(path, 200)}: the workspace is not open to it`,
    fix: `work in a project folder, and run: skillet config set ${keyOf(skill, "workspace")} read`,
  };
}

function isVisible(value: string, host: Host, { workspace }: Pick<Seen, "workspace">): boolean {
  const start = resolve(host.workspace ?? "/");
  const path = value.startsWith("~/") ? join(userHome(host.env ?? process.env), value.slice(2)) : value;
  const named = resolve(start, path);
  if (!isAbsolute(path) && workspace === undefined) {
    // A word that is no path looks like a relative one: only a file of the workspace counts.
    return host.workspace === undefined || path === "" || !existsSync(named);
  }
  if (workspace !== undefined && [start, workspace].some((folder) => isInside(folder, named))) {
    return isInside(workspace, realPlace(named)); // A link in the workspace leads nowhere, where it leads out of it.
  }
  if (named === "/" || named === "/tmp" || OPEN.some((folder) => isInside(folder, named))) return true;
  // The script has its own /tmp: only a file of the host's is missed there.
  return isInside("/tmp", named) ? !existsSync(named) : !existsSync(`/${named.split("/")[1]}`);
}

/** Folders that are in every sandbox. */
const OPEN = [
  SKILL_FOLDER,
  WORKSPACE_FOLDER,
  HOME_FOLDER,
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib64",
  "/dev",
  "/proc",
  "/opt/skillet",
];

/** `--out=PATH` names a path, too. */
function splitOption(arg: string): { option: string; value: string } {
  const [option = ""] = /^--?[\w-]+=/.exec(arg) ?? [];
  return { option, value: arg.slice(option.length) };
}
