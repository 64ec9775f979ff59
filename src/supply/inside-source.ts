import { posix } from "node:path";
import { SkillError } from "../shared/error.ts";
import { byText } from "../shared/text.ts";
import type { SourceEntry } from "./contract.ts";
import { shown } from "./refusal.ts";

/**
 * What a source holds inside one of its folders, by its path from there. Throws a SkillError when there is no such folder. What is
 * beside it is not written, so nothing of it is judged.
 */
export function* entriesInside(
  entries: Iterable<SourceEntry>,
  inside: string,
): Generator<SourceEntry, void, undefined> {
  const prefix = `${inside}/`;
  const others: string[] = [];
  let isThere = false;
  for (const entry of entries) {
    const path = entry.path.replace(/^(?:\.\/)+/, "");
    if (path === prefix || (path === inside && entry.kind === "folder")) isThere = true;
    else if (path.startsWith(prefix)) {
      isThere = true;
      yield { ...entry, path: path.slice(prefix.length), read: () => entry.read() };
    } else others.push(path);
  }
  if (!isThere) throw noSuchFolder(inside, others);
}

/** `paths`: all that there is instead. */
export function noSuchFolder(inside: string, paths: readonly string[]): SkillError {
  const folders = paths
    .filter((path) => posix.basename(path) === "SKILL.md" && path.includes("/"))
    .map((path) => posix.dirname(path))
    .sort(byText);
  const rest = folders.length > MOST_NAMED ? `, and ${folders.length - MOST_NAMED} more` : "";
  return new SkillError("source-folder-missing", {
    message: `The source has no folder ${shown(inside)}`,
    fix:
      folders.length === 0
        ? "leave out what follows the //: nothing in the source is a folder with a skill"
        : `there are skills in ${folders.slice(0, MOST_NAMED).map(shown).join(", ")}${rest}`,
  });
}

const MOST_NAMED = 8;
