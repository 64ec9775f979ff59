/**
 * Applies in a separate process: one that is killed in between, is another user, or runs concurrently. `node applying.ts ORDERS` prints
 * the outcome as JSON. It is never imported by what it runs; a test starts it with `runApply()`.
 */

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import {
  applyFolderChange,
  type FolderChange,
  recoverFolder,
  type SkillInstallationError,
} from "../../../src/store/atomic-folder.ts";
import { runOwnProcess, type Starting } from "../../support/own-process.ts";

interface Orders {
  application?: FolderChange;
  mend?: string;
  /** Kills itself right before this call, counted from 1, of this file system function. */
  killBefore?: { call: "renameSync" | "chmodSync" | "rmSync"; count: number };
  /** Replaces a folder with a link once the real path of the skills folder is known. */
  swapAfterPath?: { place: string; target: string };
}

export interface Outcome {
  paths?: string[];
  error?: Pick<SkillInstallationError, "name" | "message" | "skillName" | "skillsDir" | "source"> & { cause: string };
  /** The content of the skills folder afterwards. */
  left?: string[];
  signal: string | null;
}

export function runApply(orders: Orders, starting?: Starting): Promise<Outcome> {
  return runOwnProcess(import.meta.filename, orders, starting);
}

function carryOut({ application, mend: mended, killBefore, swapAfterPath }: Orders): Omit<Outcome, "signal"> {
  if (killBefore) killAt(killBefore);
  if (swapAfterPath) swapAfter(swapAfterPath);
  if (mended !== undefined) recoverFolder(mended);
  if (!application) return {};
  try {
    return { paths: applyFolderChange(application) };
  } catch (thrown) {
    const { name, message, skillName, skillsDir, source, cause } = thrown as SkillInstallationError;
    return { error: { name, message, skillName, skillsDir, source, cause: cause.message } };
  }
}

/** The calls work normally; only the process ends, as by `kill -9`. */
function killAt({ call, count }: NonNullable<Orders["killBefore"]>): void {
  const real = fs[call] as (...args: unknown[]) => void;
  let left = count;
  const counted = (...args: unknown[]) => {
    if (--left === 0) process.kill(process.pid, "SIGKILL");
    return real(...args);
  };
  Object.assign(fs, { [call]: counted });
  syncBuiltinESMExports();
}

/** As code in the workspace can, at the worst moment. */
function swapAfter({ place, target }: NonNullable<Orders["swapAfterPath"]>): void {
  const real = fs.realpathSync;
  const swapping = Object.assign((path: string) => {
    const found = real(path);
    Object.assign(fs, { realpathSync: real });
    syncBuiltinESMExports();
    fs.renameSync(place, `${place}.away`);
    fs.symlinkSync(target, place);
    return found;
  }, real);
  Object.assign(fs, { realpathSync: swapping });
  syncBuiltinESMExports();
}

if (process.argv[1] === import.meta.filename && process.argv[2] !== undefined) {
  const orders: Orders = JSON.parse(process.argv[2]);
  const skillsDir = orders.application?.skillsDir ?? "";
  const outcome = carryOut(orders);
  const left = fs.existsSync(skillsDir) ? fs.readdirSync(skillsDir) : [];
  process.stdout.write(JSON.stringify({ ...outcome, left }));
}
