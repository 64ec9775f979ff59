import { lstatSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { hasOriginal, type InstalledCopy, type Installs } from "../host/installs.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, isInside, reason } from "../shared/inside.ts";
import { nearest } from "../shared/text.ts";
import { statOf } from "../source/file.ts";
import { type Surroundings, shortPath } from "../source/locations.ts";
import { NATIVE_CLIENTS, type NativeClient } from "./clients.ts";
import { contentOfFolder } from "./content.ts";
import type { Standing } from "./plan.ts";

/** A client's folder of skills. */
export interface Target {
  /** As the table of clients calls it. */
  id: string;
  client: NativeClient;
  /** Its real path, be it there or not. */
  folder: string;
  /** The folder as people are told. */
  shown: string;
}

export interface TargetOptions {
  around: Surroundings;
  /** That of the workspace alone, in place of the user's own. */
  isProject: boolean;
}

/** The folder of a client. Throws a SkillError when there can be none. */
export function targetOf(id: string, { around, isProject }: TargetOptions): Target {
  const client = clientOf(id);
  const path = resolve(client[isProject ? "project" : "user"](around));
  const base = isProject ? around.workspace : around.home;
  if (isInside(base, path) && !statOf(base)?.isDirectory()) {
    throw new SkillError("no-home", {
      message: `The ${isProject ? "workspace" : "home folder"} ${base} is not there`,
      fix: isProject ? "check --workspace" : "set HOME to yours, or use --project",
    });
  }
  const folder = realPlaceOf(path);
  // A workspace is somebody else's work: a link in it must not lead what is written to where the user keeps other things.
  if (isProject && !isInside(realPlaceOf(base), folder)) {
    throw new SkillError("target-outside", {
      message: `${path} leads out of the workspace, to ${folder}; nothing was written`,
      fix: "put a folder in the place of the link",
    });
  }
  const stats = statOf(folder);
  if (stats && !stats.isDirectory()) {
    throw new SkillError("not-a-folder", {
      message: `${path} is no folder, so no skills can be put there`,
      fix: "move it away",
    });
  }
  return { id, client, folder, shown: isProject ? path : shortPath(path, around.home) };
}

/** Throws a SkillError that names those there are. */
export function clientOf(id: string): NativeClient {
  const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
  if (client) return client;
  const known = Object.keys(NATIVE_CLIENTS);
  const meant = nearest(id, known);
  throw new SkillError("usage", {
    message: `"${id}" is no client that is known`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}known are: ${known.join(", ")}`,
  });
}

/** What stands in a skill's place in a folder of skills. */
export function standingIn({ folder }: Pick<Target, "folder">, name: string, installs: Installs): Standing {
  const place = join(folder, name);
  const entry = installs.entries()[place];
  const stats = lstatOf(place);
  if (!stats) return { is: "nothing" };
  if (stats.isSymbolicLink()) return { is: "foreign", what: "link" };
  if (!stats.isDirectory()) return { is: "foreign", what: "file" };
  const digest = digestAt(place);
  if (!entry) return { is: "foreign", what: "folder", digest };
  return { is: "ours", digest, isEdited: isEdited(entry, digest), isLast: !hasOriginal(entry) };
}

export function isEdited({ copy, before }: InstalledCopy, digest: string): boolean {
  return digest !== copy && digest !== before;
}

/** The names of what skillet put into a folder of skills, there or not. */
export function installedIn({ folder }: Pick<Target, "folder">, installs: Installs): string[] {
  return Object.entries(installs.entries()).flatMap(([place, { skill }]) =>
    // What is written down of any other place is not what skillet writes.
    dirname(place) === folder && basename(place) === skill ? [skill] : [],
  );
}

/** What cannot be read is told from all that can: it is somebody's own. */
export function digestAt(folder: string): string {
  try {
    return contentOfFolder(folder).digest;
  } catch (error) {
    return `unreadable: ${reason(error)}`;
  }
}

/** The real path that something has, or would have once it is made. */
function realPlaceOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const code = codeOf(error);
    if (code !== "ENOENT" && code !== "ENOTDIR") throw unreachable(path, reason(error));
    if (lstatOf(path)?.isSymbolicLink()) throw unreachable(path, "it is a link to nothing");
  }
  return dirname(path) === path ? path : join(realPlaceOf(dirname(path)), basename(path));
}

function unreachable(path: string, why: string): SkillError {
  return new SkillError("unreachable", {
    message: `${path} cannot be reached: ${why}`,
    fix: "check the folder, and the links on the way to it",
  });
}

function lstatOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (codeOf(error) === "ENOTDIR") return undefined;
    throw unreachable(path, reason(error));
  }
}
