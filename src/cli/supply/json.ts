import type { LockedFiles, LockedSkills } from "../../host/lock/format.ts";
import type { Addition } from "../../supply/add.ts";
import { lockedFilesOf } from "../../supply/read-tree.ts";
import type { SignatureState } from "../../supply/signature.ts";
import { asksOf, newAsksOf } from "./asks.ts";
import { keptIn } from "./words.ts";

interface Known {
  /** What the lock said before. */
  locked: LockedSkills;
  /** By name. */
  signatures: ReadonlyMap<string, SignatureState>;
}

export function signatureAsJson(signature: SignatureState): object {
  if (!("key" in signature)) return signature;
  const { key: fingerprint, ...state } = signature;
  return { ...state, fingerprint };
}

function filesIn(files: LockedFiles): object[] {
  return Object.entries(files).map(([path, { size, sha256, mode }]) => ({ path, bytes: size, digest: sha256, mode }));
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
  const facts = { name, state: is, source, path, ref, commit, digest, files: filesIn(files), grants };
  const findings = prepared.findings.map(({ file, ...finding }) => ({ ...finding, path: file }));
  const signature = signatures.get(name);
  const signed = signature ? { signature: signatureAsJson(signature) } : {};
  switch (addition.is) {
    case "new":
      return { ...facts, asks: asksOf(addition.skill), ...signed, findings };
    case "update": {
      const { skill, difference } = addition;
      const asks = { asks: asksOf(skill), newAsks: newAsksOf(skill, difference.before) };
      return {
        ...facts,
        commitBefore: locked[name]?.commit,
        ...asks,
        kept: keptIn(addition),
        ...signed,
        findings,
      };
    }
    case "conflict":
      return { ...facts, conflicts: addition.conflicts.map(({ path: at, why, lines }) => ({ path: at, why, lines })) };
    default:
      return facts;
  }
}
