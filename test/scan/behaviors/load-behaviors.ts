import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSamples, type Sample } from "../sets/load-sets.ts";
import { addFrontmatter } from "../variants/load-variants.ts";

export type BehaviorHalf = "tuning" | "check";
export const BEHAVIOR_HALVES: readonly BehaviorHalf[] = ["tuning", "check"];

/** Loads the samples of one half, ordered by class and place in the file. The first sentence becomes the description. */
export function loadBehaviors(half: BehaviorHalf): Sample[] {
  const folder = join(import.meta.dirname, half);
  return readdirSync(folder)
    .sort()
    .flatMap((file) =>
      parseSamples(readFileSync(join(folder, file), "utf8"), file.slice(0, -".md".length), "tuning").map(
        addFrontmatter,
      ),
    );
}
