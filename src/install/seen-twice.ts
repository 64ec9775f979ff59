import { join } from "node:path";
import { SkillError } from "../shared/error.ts";
import { statOf } from "../source/file.ts";
import { NATIVE_CLIENTS } from "./clients.ts";
import { type Target, type TargetOptions, targetOf } from "./target.ts";

export interface SeenTwiceOptions extends TargetOptions {
  /** Folders of skills that are to be there, beside those that are. */
  planned?: ReadonlySet<string>;
}

/** Which clients see a skill twice once it stands in this folder, since they read another too that has it: a sentence each. */
export function seenTwice(name: string, target: Target, options: SeenTwiceOptions): string[] {
  const has = ({ folder }: Target) => {
    const place = join(folder, name);
    return folder !== target.folder && (options.planned?.has(place) || statOf(join(place, "SKILL.md")) !== undefined);
  };
  return Object.entries(NATIVE_CLIENTS).flatMap(([id, { title, alsoReads = [] }]) =>
    alsoReads.flatMap((read) => {
      if (target.id !== id && target.id !== read) return [];
      const other = reachable(target.id === id ? read : id, options);
      if (!other || !has(other)) return [];
      return target.id === id
        ? `${title} reads ${other.shown} too, where this skill is already: it will see it twice`
        : `${title} reads this folder too, and has this skill in ${other.shown} already: it will see it twice`;
    }),
  );
}

function reachable(id: string, options: TargetOptions): Target | undefined {
  try {
    return targetOf(id, options);
  } catch (error) {
    if (error instanceof SkillError) return undefined; // No folder, and so nothing in it.
    throw error;
  }
}
