import { lstatSync } from "node:fs";
import { join, resolve } from "node:path";
import { SkillError } from "../../shared/error.ts";
import type { Surroundings } from "../../source/locations.ts";
import { SYSTEM_FOLDER, sandboxFolder } from "../places.ts";
import { makeFolder } from "../store.ts";

/** Where roots are kept. */
export interface Places {
  /** What this user builds. */
  own: string;
  /** What root built for everybody. Only read. */
  shared: string | undefined;
}

/** Root builds for everybody, any other user for itself; SKILLET_PACKAGES names another folder to build in. */
export function defaultPlaces({ skilletHome, env }: Pick<Surroundings, "skilletHome" | "env">): Places {
  const given = env["SKILLET_PACKAGES"];
  const own = given ? resolve(given) : join(sandboxFolder(skilletHome), "packages");
  const shared = join(SYSTEM_FOLDER, "packages");
  return { own, shared: own === shared ? undefined : shared };
}

const FOLDERS = ["bases", "layers", "sets", "staging", "apt", "libraries", "locks"] as const;

/** Throws where others could change what is built, or lead what is written elsewhere. */
export function makePlace(place: string): void {
  const folders = FOLDERS.map((folder) => join(place, folder));
  for (const folder of folders) makeFolder(folder);
  if (areTrusted(place, ...folders)) return;
  throw new SkillError("package-place", {
    message: `${place} is somebody else's, or others can write to it: nothing is built there`,
    fix: `\`chmod go-w\` it and the folders in it, or name another one in SKILLET_PACKAGES`,
  });
}

/** Whether none but root and this user can have changed what is in these folders. */
export function areTrusted(...folders: string[]): boolean {
  return folders.every((folder) => {
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    const isOwned = stat?.uid === 0 || stat?.uid === process.getuid?.();
    return stat?.isDirectory() === true && isOwned && (stat.mode & 0o022) === 0;
  });
}
