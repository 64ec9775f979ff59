import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../package.ts";
import { SkillError } from "../shared/error.ts";

/** The modules that a toolset can import without installing anything. */
const PACKAGES = ["@agent/tools", "skillet", "zod"] as const;

export interface ToolsetTypes {
  /** The folder that the declarations are in. */
  folder: string;
  written: readonly string[];
  /** Packages that are installed there, with types of their own. They are left as they are. */
  kept: readonly string[];
}

/**
 * Writes the declarations of what toolsets import into `node_modules` of a folder of skills, where every compiler and editor looks for
 * them. Git is told to leave them out.
 */
export function writeToolsetTypes(skillsFolder: string): ToolsetTypes {
  const from = join(packageRoot() ?? "", "dist", "toolset-types");
  const folder = join(skillsFolder, "node_modules");
  try {
    if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink()) throw new Error("it is a symlink");
    const isNew = !existsSync(folder);
    const kept = PACKAGES.filter((name) => !isOurs(join(folder, name)));
    const written = PACKAGES.filter((name) => !kept.includes(name));
    mkdirSync(folder, { recursive: true });
    if (isNew) writeFileSync(join(folder, ".gitignore"), "*\n");
    for (const name of written) {
      rmSync(join(folder, name), { recursive: true, force: true });
      cpSync(join(from, name), join(folder, name), { recursive: true });
    }
    return { folder, written, kept };
  } catch (cause) {
    throw new SkillError("unwritable", {
      message: `The declarations cannot be written to ${folder}`,
      fix: "check that it is a folder that you can write to",
      cause,
    });
  }
}

/** True where nothing is, or what an earlier call wrote. */
function isOurs(folder: string): boolean {
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return true;
  try {
    const { description } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return String(description).includes("skillet types");
  } catch {
    return false;
  }
}
