import { dirname, join } from "node:path";
import { realPlace } from "../shared/inside.ts";
import { statOf } from "../source/file.ts";
import { shortPath } from "../source/locations.ts";
import { NATIVE_CLIENTS } from "./clients.ts";
import type { Target, TargetOptions } from "./target.ts";

export interface SeenTwiceOptions extends TargetOptions {
  /** Folders of skills that are to be there, beside those that are. */
  planned?: ReadonlySet<string>;
}

/** Returns a sentence for each client that finds the skill twice, since it reads another folder that has it too. */
export function seenTwice(name: string, target: Target, options: SeenTwiceOptions): string[] {
  const { around, isProject, planned } = options;
  const level = isProject ? "project" : "user";
  const has = (folder: string) =>
    planned?.has(join(folder, name)) || statOf(join(folder, name, "SKILL.md")) !== undefined;
  return Object.entries(NATIVE_CLIENTS).flatMap(([id, client]) => {
    const folders = [...new Set(client.reads(level, around).map(realPlace))];
    const other = folders.find((folder) => folder !== target.folder && has(folder));
    if (other === undefined || !folders.includes(target.folder)) return [];
    // A client that is not used here has neither a folder of its own nor a copy in it.
    const own = client[level](around);
    if (![target.folder, other].includes(realPlace(own)) && !statOf(dirname(client.user(around)))) return [];
    const shown = isProject ? other : shortPath(other, around.home);
    return target.id === id
      ? `${client.title} reads ${shown} too, where this skill is already: it will see it twice`
      : `${client.title} reads this folder too, and has this skill in ${shown} already: it will see it twice`;
  });
}
