import type { LockedSkill } from "../host/lock/format.ts";
import { SkillError } from "../shared/error.ts";
import { addressOf } from "./fetch-offer.ts";
import { remoteCommit } from "./git-source.ts";
import { judgeLocked, type RefetchOptions } from "./refetch.ts";

/** So many sources are asked at once. */
const AT_ONCE = 8;

/**
 * Names of those whose repositories are at the very commit that the lock names: nothing of them needs to be fetched to know that they are up
 * to date. One that cannot be asked is none of them.
 */
export async function unmoved(
  entries: readonly (readonly [string, LockedSkill])[],
  options: Pick<RefetchOptions, "around" | "env" | "signal" | "allowPrivate" | "isUntyped">,
): Promise<ReadonlySet<string>> {
  const { around, env, signal, allowPrivate, isUntyped } = options;
  const groups = [
    ...Map.groupBy(entries, ([, { source, ref, commit }]) => JSON.stringify([source, ref, commit])).values(),
  ];
  const isUnmoved = async ([, entry]: readonly [string, LockedSkill]) => {
    try {
      const address = addressOf(entry, around);
      if (address.kind !== "git" || entry.commit === undefined) return false;
      if (isUntyped && !allowPrivate) await judgeLocked(address);
      return (await remoteCommit(address, { env, ...(signal ? { signal } : {}) })) === entry.commit;
    } catch (error) {
      if (error instanceof SkillError && !signal?.aborted) return false; // Why is said when it is fetched.
      throw error;
    }
  };
  const names = new Set<string>();
  for (let from = 0; from < groups.length; from += AT_ONCE) {
    const asked = groups.slice(from, from + AT_ONCE);
    const answers = await Promise.all(asked.map(async (group) => group[0] !== undefined && isUnmoved(group[0])));
    for (const [index, group] of asked.entries()) if (answers[index]) for (const [name] of group) names.add(name);
  }
  return names;
}
