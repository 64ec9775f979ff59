import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type Drift, driftIn } from "../host/lock/drift.ts";
import type { LockedSkill } from "../host/lock/format.ts";
import { stateOfFolder } from "../host/lock/locks.ts";
import type { Stamps } from "../host/lock/stamps.ts";
import { reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { statOf } from "../source/file.ts";
import type { SkillsPlace } from "./skills-place.ts";

/** Whether a skill is what its lock says. */
export type Verified = { name: string } & (
  | { is: "as-locked" }
  | { is: "changed"; drift: readonly Drift[] }
  | { is: "missing" }
  /** It is there, and not in the lock. */
  | { is: "unlocked" }
  | { is: "unreadable"; why: string }
);

/** Compares one skill with its lock. `stamps`: with what was seen before, so that what nobody touched need not be read. */
export function verifySkill(place: SkillsPlace, name: string, entry: LockedSkill, stamps?: Stamps): Verified {
  const folder = join(place.folder, name);
  const isMissing = () => !lstatSync(folder, { throwIfNoEntry: false });
  if (stamps) {
    const state = stateOfFolder(folder, entry, stamps);
    if (state.is === "changed") return { name, is: "changed", drift: state.drift };
    if (state.is !== "unknown") return { name, is: "as-locked" };
    return isMissing() ? { name, is: "missing" } : { name, is: "unreadable", why: state.problem.message };
  }
  if (isMissing()) return { name, is: "missing" };
  try {
    const { drift } = driftIn(folder, entry.files);
    return drift.length > 0 ? { name, is: "changed", drift } : { name, is: "as-locked" };
  } catch (error) {
    return { name, is: "unreadable", why: reason(error) };
  }
}

/** What else is in a folder of skills than its lock says. */
export function unlockedIn(place: SkillsPlace, locked: ReadonlySet<string>): string[] {
  if (!statOf(place.folder)?.isDirectory()) return [];
  return readdirSync(place.folder, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith(".") && !locked.has(entry.name))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink() || /\.(?:md|ya?ml)$/i.test(entry.name))
    .map(({ name }) => name)
    .sort(byText);
}
