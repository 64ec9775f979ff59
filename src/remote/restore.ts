import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Environment } from "../skill/source/locations.ts";
import { createFingerprintCache } from "../store/lock-diff.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { createSignerStore, type SignerStore } from "../store/signers.ts";
import { omitUndefined } from "../util/objects.ts";
import type { RefusedSkill } from "./candidate.ts";
import type { RunFetch } from "./remote-source.ts";
import { checkSignature, createNotSignedError } from "./signature.ts";
import {
  applySkillsDirChanges,
  type SkillsDir,
  type SkillWrite,
  type VerifyResult,
  verifySkill,
  withStagingFolder,
} from "./skills-dir.ts";
import { type RefetchResult, refetchSkills } from "./update.ts";

interface RestoreSkillsOptions {
  around: Environment;
  skillsDir: SkillsDir;
  /** Accepts only signed skills, also if their lock entries do not require it. */
  requireSignature?: boolean | undefined;
  isDryRun?: boolean | undefined;
  /** Also connects to private addresses that only the lock file named. */
  allowPrivate?: boolean | undefined;
  /** Runs the fetching, for example to show its progress. */
  runFetch: RunFetch;
}

export interface RestoreResult {
  /** Existing skills that do not match the lock file. Nothing is restored then. */
  wrong: readonly VerifyResult[];
  /** The names of the skills that were missing and now exist. */
  added: readonly string[];
  /** Skills that cannot be restored. Nothing is restored then. */
  problems: readonly RefusedSkill[];
}

/**
 * Restores the missing skills of a lock file, all or none. Existing skills must match it; missing ones are fetched from
 * their source and must match too. The lock file never changes, and there is no approval: its author has approved it.
 */
export async function restoreSkills(
  entries: readonly (readonly [string, LockedSkill])[],
  { around, skillsDir, requireSignature = false, isDryRun, allowPrivate, runFetch }: RestoreSkillsOptions,
): Promise<RestoreResult> {
  const stamps = createFingerprintCache(around.skilletHome);
  const verified = entries.map(([name, entry]) => verifySkill(skillsDir, name, entry, stamps));
  const wrong = verified.filter(({ is }) => is !== "unchanged" && is !== "missing");
  if (wrong.length > 0) return { ...NOTHING, wrong };
  const missing = entries.filter(([name]) => verified.some((one) => one.name === name && one.is === "missing"));
  const signers = createSignerStore(around.skilletHome);
  const mustBeSigned = (entry: LockedSkill) => requireSignature || entry.requireSignature === true;
  const existing = entries.filter(([name]) => !missing.some(([other]) => other === name));
  const unsigned = existing.flatMap(([name, entry]) =>
    mustBeSigned(entry) ? checkLockedSignature(name, join(skillsDir.folder, name), signers) : [],
  );
  if (unsigned.length > 0) return { ...NOTHING, problems: unsigned };
  return withStagingFolder(around.skilletHome, async (work) => {
    const fetched = await runFetch((signal) =>
      refetchSkills(missing, {
        ...{ around, work, env: around.env, isPinned: true, isUntyped: skillsDir.isProject },
        ...omitUndefined({ allowPrivate, signal }),
      }),
    );
    const found = missing.map(([name, entry]) => ({ name, ...matchLocked(entry, fetched.get(name)) }));
    const problems = found.flatMap(({ name, error, put }) =>
      error ? [{ name, error }] : put && mustBeSigned(put.entry) ? checkLockedSignature(name, put.folder, signers) : [],
    );
    if (problems.length > 0) return { ...NOTHING, problems };
    const put = found.flatMap(({ put: one }) => one ?? []);
    if (put.length > 0 && !isDryRun) applySkillsDirChanges({ skillsDir, put, skilletHome: around.skilletHome });
    return { ...NOTHING, added: put.map(({ name }) => name) };
  });
}

const NOTHING: RestoreResult = { wrong: [], added: [], problems: [] };

/** Returns the problem of a skill that must be signed. */
function checkLockedSignature(name: string, folder: string, signers: SignerStore): RefusedSkill[] {
  const state = checkSignature({ folder, name, signers });
  return state.state === "valid" ? [] : [{ name, error: createNotSignedError(name, state) }];
}

/** Returns the fetched skill if it matches the lock file byte by byte. */
function matchLocked(entry: LockedSkill, fetched: RefetchResult | undefined): { put?: SkillWrite; error?: SkillError } {
  if (!fetched || "error" in fetched) {
    return {
      error:
        fetched?.error ??
        new SkillError("source-skill-missing", { message: "The skill could not be fetched", fix: "try again" }),
    };
  }
  const { name, folder, files, tree, digest } = fetched.prepared;
  if (digest === entry.digest) return { put: { name, entry, folder, originals: [{ files, tree }] } };
  if (entry.upstream?.digest === digest) {
    return {
      error: new SkillError("lock-mismatch", {
        message: "The lock file contains local changes that its source does not have",
        fix: "restore its folder from version control, where the changes are kept",
      }),
    };
  }
  return {
    error: new SkillError("lock-mismatch", {
      message: "The source does not match the lock file",
      fix: "review the change, then update the lock file",
      commands: ["skillet update --dry-run", "skillet update"],
    }),
  };
}
