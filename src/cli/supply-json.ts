import type { LockedSkills } from "../host/lock/format.ts";
import type { Addition } from "../supply/add.ts";
import { lockedFilesOf } from "../supply/read-tree.ts";
import type { SignatureState } from "../supply/signature.ts";
import { asksOf, newAsksOf } from "./supply-asks.ts";
import { keptIn } from "./supply-words.ts";

interface Known {
  /** What the lock said before. */
  locked: LockedSkills;
  /** By name. */
  signatures: ReadonlyMap<string, SignatureState>;
}

/** One that is to be added or updated, or was, for programs. What stays is told of as its lock has it. */
export function additionAsJson(addition: Addition, { locked, signatures }: Known): object {
  const { name, is, prepared } = addition;
  const entry = "put" in addition ? addition.put.entry : locked[name];
  const {
    source,
    path,
    ref,
    commit,
    digest = prepared.digest,
    files = lockedFilesOf(prepared.tree),
    grants,
  } = entry ?? {};
  const facts = { name, state: is, source, path, ref, commit, digest, files, grants };
  const { findings } = prepared;
  switch (addition.is) {
    case "new":
      return { ...facts, asks: asksOf(addition.skill), signature: signatures.get(name), findings };
    case "update": {
      const { skill, difference } = addition;
      const asks = { asks: asksOf(skill), newAsks: newAsksOf(skill, difference.before) };
      return {
        ...facts,
        from: locked[name]?.commit,
        ...asks,
        kept: keptIn(addition),
        signature: signatures.get(name),
        findings,
      };
    }
    case "conflict":
      return { ...facts, conflicts: addition.conflicts.map(({ path: at, why, lines }) => ({ path: at, why, lines })) };
    default:
      return facts;
  }
}
