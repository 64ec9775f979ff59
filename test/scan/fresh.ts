import { createHash } from "node:crypto";
import type { Labelled } from "./carrier.ts";

/** Half of a set, by its ids alone: no rule is changed for these. */
export function heldOutHalf(set: readonly Labelled[]): Labelled[] {
  const order = (skill: Labelled) => createHash("sha256").update(skill.id).digest("hex");
  const sorted = [...set].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return sorted.slice(0, Math.floor(set.length / 2));
}
