import { realpathSync, writeFileSync } from "node:fs";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { FileSkill } from "../../src/skill/source/file-skill.ts";
import { readFileInside } from "../../src/util/safe-path.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

export const SECRET = "hunter2-do-not-quote";
const LIMIT = 1024 * 1024;

/** A folder `skill` with files, a folder `skill-evil` and a secret next to it. */
export function scene(files: Record<string, string> = {}): { root: string; beside: string } {
  const beside = realpathSync(
    temporaryFolder({
      secret: SECRET,
      "skill-evil/secret": SECRET,
      "skill/SKILL.md": skillText("skill"),
      "skill/file": "inside",
      "skill/sub/deep/file": "deep inside",
    }),
  );
  for (const [path, content] of Object.entries(files)) writeFileSync(`${beside}/skill/${path}`, content);
  return { root: `${beside}/skill`, beside };
}

export function read(root: string, path: string): string {
  const result = readFileInside(root, path, LIMIT);
  return "bytes" in result ? result.bytes.toString() : result.code;
}

/** Returns the only skill below a folder. */
export async function onlySkill(path: string): Promise<FileSkill> {
  const { skills } = await createDirectorySource({ path }).load();
  const [skill] = skills;
  if (skills.length !== 1 || !(skill instanceof FileSkill)) throw new Error(`${skills.length} skills in ${path}`);
  return skill;
}
