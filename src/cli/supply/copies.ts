import type { Discovered } from "../../host/discover.ts";
import { realPlace } from "../../shared/inside.ts";
import { locations } from "../../source/locations.ts";
import type { SkillsPlace } from "../../supply/skills-place.ts";
import { addressOf } from "../commands/address.ts";

/** Whether a skill of this name takes another's place, or stands behind one. Nothing when there is no other. */
export function sayOtherCopies(name: string, place: SkillsPlace, found: Discovered): string | undefined {
  const [winner] = found.catalog.copies(name);
  if (!winner) return undefined;
  const all = locations(found.around);
  const own = all.findIndex(({ path }) => realPlace(path) === place.folder);
  const other = addressOf(winner, found);
  const rank = all.findIndex(({ name: source }) => source === winner.origin.source);
  // What a program brings, and what is read from a folder of its own, is not in the table: its scope decides.
  if (rank === -1) return `there is ${other} too: \`skillet show ${name}\` says which is used`;
  return rank < own ? `it is used in the place of ${other}` : `${other} is used in its place, since it is nearer`;
}
