/**
 * Changes a folder of skills in a separate process: one that is killed in between, is another user, or runs concurrently.
 * `node changing.ts ORDERS` prints the outcome as JSON. It is never imported by what it runs; a test starts it with `runChange()`.
 */

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { readTree, toLockedFiles } from "../../src/remote/file-tree.ts";
import { applySkillsDirChanges, type SkillWrite } from "../../src/remote/skills-dir.ts";
import { readFolderSkill } from "../../src/skill/source/read-skill.ts";
import { listLockGrants } from "../../src/store/lock-approval.ts";
import { digestTree, type LockedSkill } from "../../src/store/lock-file.ts";
import { runOwnProcess, type Starting } from "../support/own-process.ts";

export interface Orders {
  skillsDir: string;
  home: string;
  /** Folders to replace, by the name of the skill, with their expected content. */
  put?: Record<string, { folder: string; before?: string | undefined; source?: string }>;
  remove?: Record<string, string | undefined>;
  /** Kills itself right before this step, counted from 1: every write to a disk is a step. */
  killAt?: number;
}

export interface Outcome {
  /** The number of steps. */
  steps?: number;
  error?: string;
  signal: string | null;
}

export function runChange(orders: Orders, starting?: Starting): Promise<Outcome> {
  return runOwnProcess(import.meta.filename, orders, starting);
}

/** A skill in a temporary folder, ready to be moved into place. */
export async function putOf(
  name: string,
  folder: string,
  more: Partial<LockedSkill> = {},
  before?: string,
): Promise<SkillWrite> {
  const tree = readTree(folder);
  const files = toLockedFiles(tree);
  const read = readFolderSkill(folder, { scope: "installed", source: "installed" });
  const grants = read && "skill" in read ? listLockGrants(read.skill, (await read.skill.files()).files) : [];
  const entry = { source: "/source", digest: digestTree(files), files, grants, ...more };
  return { name, entry, folder, originals: [{ files, tree }], ...(before === undefined ? {} : { before }) };
}

const STEPS = [
  "renameSync",
  "mkdirSync",
  "writeFileSync",
  "rmSync",
  "rmdirSync",
  "unlinkSync",
  "chmodSync",
  "cpSync",
  "linkSync",
] as const;

async function carryOut({ skillsDir, home, put = {}, remove = {}, killAt }: Orders): Promise<Omit<Outcome, "signal">> {
  const puts = await Promise.all(
    Object.entries(put).map(
      async ([name, { folder, before, source }]) =>
        await putOf(name, folder, source === undefined ? {} : { source }, before),
    ),
  );
  const steps = countSteps(killAt);
  try {
    applySkillsDirChanges({
      skillsDir: { folder: skillsDir, isProject: false, shown: "" },
      put: puts,
      remove,
      skilletHome: home,
    });
    return { steps: steps() };
  } catch (error) {
    return { steps: steps(), error: (error as Error).message };
  }
}

/** The calls work normally; only the process ends, as by `kill -9`. */
function countSteps(killAt: number | undefined): () => number {
  let count = 0;
  for (const name of STEPS) {
    const real = fs[name] as (...args: unknown[]) => unknown;
    Object.assign(fs, {
      [name](...args: unknown[]) {
        if (++count === killAt) process.kill(process.pid, "SIGKILL");
        return real(...args);
      },
    });
  }
  syncBuiltinESMExports();
  return () => count;
}

if (process.argv[1] === import.meta.filename && process.argv[2] !== undefined) {
  process.stdout.write(JSON.stringify(await carryOut(JSON.parse(process.argv[2]))));
}
