import { join } from "node:path";
import type { LockedSkill } from "../host/lock/format.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { Surroundings } from "../source/locations.ts";
import { sayAddress } from "./address.ts";
import { type Prepared, prepare } from "./candidate.ts";
import { addressOf, fetchOffer, type Supply } from "./fetch-offer.ts";

/** What the source of a locked skill has now: the skill, or why not. */
export type Refetched = { prepared: Prepared; supply: Supply } | { error: SkillError };

export interface RefetchOptions {
  around: Surroundings;
  /** A folder of ours. */
  work: string;
  env: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal;
  /** Whether the very commits are fetched that the lock names, whatever their refs are by now. */
  isPinned?: boolean;
  /** Called before each source. */
  onFetch?(source: string): void;
}

/** Fetches the sources of locked skills again, each once, and finds the skills in them. */
export async function refetch(
  entries: readonly (readonly [string, LockedSkill])[],
  options: RefetchOptions,
): Promise<Map<string, Refetched>> {
  const found = new Map<string, Refetched>();
  const groups = Map.groupBy(entries, ([, { source, ref, commit }]) =>
    JSON.stringify([source, ref, options.isPinned ? commit : undefined]),
  );
  for (const group of groups.values()) {
    const supply = await supplyOf(group, options);
    for (const [name, entry] of group) {
      found.set(name, supply instanceof SkillError ? { error: supply } : within(supply, name, entry, options));
    }
  }
  return found;
}

async function supplyOf(
  group: readonly (readonly [string, LockedSkill])[],
  { around, work, env, signal, isPinned, onFetch }: RefetchOptions,
): Promise<Supply | SkillError> {
  const [first] = group;
  if (!first) return new SkillError("not-found", { message: "There is nothing to fetch", fix: "" });
  const [, entry] = first;
  try {
    const address = addressOf(entry, around);
    onFetch?.(sayAddress(address));
    const commit = isPinned ? entry.commit : undefined;
    const names = group.map(([name]) => name);
    return await fetchOffer(address, work, { env, names, ...defined({ signal, commit }) });
  } catch (error) {
    if (error instanceof SkillError && !signal?.aborted) return error;
    throw error;
  }
}

function within(supply: Supply, name: string, { path = "" }: LockedSkill, { work }: RefetchOptions): Refetched {
  const { candidates, diagnostics } = supply.offer;
  const candidate = candidates.find((one) => one.path === path && one.skill.name === name);
  if (!candidate) {
    const moved = candidates.find(({ skill }) => skill.name === name);
    const [broken] = diagnostics.filter(({ severity }) => severity === "error");
    return {
      error: new SkillError("source-gone", {
        message: moved
          ? `Skill "${name}" is at ${moved.path || "another place"} in its source now`
          : `Its source has no skill "${name}" ${path === "" ? "any more" : `at ${path} any more`}`,
        fix: moved
          ? `remove it and add it from there: //${moved.path}`
          : broken
            ? `a skill there does not load: ${broken.message}`
            : "keep it as it is, or remove it",
      }),
    };
  }
  try {
    return { prepared: prepare(candidate, supply.fetched, join(work, "skills", name)), supply };
  } catch (error) {
    if (error instanceof SkillError) return { error };
    throw error;
  }
}
