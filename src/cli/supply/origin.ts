import { LOCAL_SOURCE, type LockedSkill } from "../../host/lock/format.ts";
import { saySource } from "../../host/lock/locks.ts";

/** Where an added skill is from, in a line: as it can be added again, and what that was then. */
export function sayOrigin(from: Pick<LockedSkill, "source" | "path" | "ref" | "commit">): string {
  if (from.source === LOCAL_SOURCE) return "no source";
  const { ref = "", commit = "" } = from;
  const at = [...new Set([ref, commit.slice(0, SHORT)])].filter((part) => part !== "");
  return `${saySource(from)}${at.length > 0 ? ` at ${at.join(", ")}` : ""}`;
}

/** How much of a commit people are told. */
export const SHORT = 12;
