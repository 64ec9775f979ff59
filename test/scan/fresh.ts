import { createHash } from "node:crypto";

/** A skill of the fresh set: `what` says in a line what is harmful in it. */
export interface Fresh {
  id: string;
  family: string;
  what?: string;
  files: Record<string, string>;
}

/** Half of a set, by its ids alone: no rule is changed for these. */
export function heldOut(set: readonly Fresh[]): Fresh[] {
  const order = (skill: Fresh) => createHash("sha256").update(skill.id).digest("hex");
  const sorted = [...set].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return sorted.slice(0, Math.floor(set.length / 2));
}
