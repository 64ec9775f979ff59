import { join } from "node:path";
import type { LockedSkill } from "../../host/lock/format.ts";
import { openStamps } from "../../host/lock/stamps.ts";
import { openSigners, type Signers } from "../../host/signers.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { change, type Put } from "../../supply/put.ts";
import { type Refetched, refetch } from "../../supply/refetch.ts";
import { checkSignature, notSigned } from "../../supply/signature.ts";
import { inStaging } from "../../supply/staging.ts";
import { type Verified, verifySkill } from "../../supply/verify.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import { type LockedPlace, lockedPlace, named, sayNothingAdded } from "../supply/locked-skills.ts";
import { sayProblems, showDrift } from "../supply/words.ts";
import type { AddOptions } from "./add.ts";
import { verifiedAsJson } from "./verify.ts";

/**
 * Puts what a lock says into its place, and nothing else: what is there must be as locked, and what is missing is fetched from where it came,
 * and must be what it was. The lock itself never changes, and nobody is asked: who wrote it has agreed.
 */
export async function addFrozen({ io, options, args }: Context<AddOptions>): Promise<number> {
  const around = surroundingsFor(io, options);
  const locked = lockedPlace(around, options.project ?? false);
  const { place } = locked;
  const entries = named(locked, args);
  if (entries.length === 0)
    throw new SkillError("lock-missing", { message: "There is no lock to go by", fix: sayNothingAdded(locked) });
  const stamps = openStamps(around.skilletHome);
  const verified = entries.map(([name, entry]) => verifySkill(place, name, entry, stamps));
  const wrong = verified.filter(({ is }) => is !== "as-locked" && is !== "missing");
  const missing = entries.filter(([name]) => verified.some((one) => one.name === name && one.is === "missing"));
  const outcome: Outcome = { count: entries.length, wrong, added: [], problems: [] };
  const finish = (more: Partial<Outcome>) => report({ ...outcome, ...more }, { io, options, locked });
  if (wrong.length > 0) return finish({});
  const signers = openSigners(around.skilletHome);
  const mustBeSigned = ({ requireSignature }: LockedSkill) => options.requireSignature || requireSignature === true;
  const there = entries.filter(([name, entry]) => mustBeSigned(entry) && !missing.some(([other]) => other === name));
  const unsigned = there.flatMap(([name]) => signed(name, join(place.folder, name), signers));
  if (unsigned.length > 0) return finish({ problems: unsigned });
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const adding = async (work: string) => {
    const fetched = await fetching(io, "what the lock names", (signal) =>
      refetch(missing, {
        ...{ around, work, env: io.env, signal, isPinned: true },
        ...{ allowPrivate, isUntyped: place.isProject },
      }),
    );
    const found = missing.map(([name, entry]) => ({ name, ...asLocked(entry, fetched.get(name)) }));
    const problems = found.flatMap(({ name, error, put: one }) =>
      error ? [{ name, error }] : one && mustBeSigned(one.entry) ? signed(name, one.folder, signers) : [],
    );
    if (problems.length > 0) return finish({ problems });
    const put = found.flatMap(({ put: one }) => one ?? []);
    if (put.length > 0 && !options.dryRun) change({ place, put, skilletHome: around.skilletHome });
    return finish({ added: put.map(({ name }) => name) });
  };
  return unlessStopped("nothing was added", () => inStaging(around.skilletHome, adding));
}

/** What stands against a skill that only a signer may bring. */
function signed(name: string, folder: string, signers: Signers): { name: string; error: SkillError }[] {
  const state = checkSignature({ folder, name, signers });
  return state.state === "valid" ? [] : [{ name, error: notSigned(name, state) }];
}

/** What was fetched, if it is what the lock says to the last byte. */
function asLocked(entry: LockedSkill, fetched: Refetched | undefined): { put?: Put; error?: SkillError } {
  if (!fetched || "error" in fetched) {
    return {
      error: fetched?.error ?? new SkillError("source-gone", { message: "It could not be fetched", fix: "try again" }),
    };
  }
  const { name, folder, files, tree, digest } = fetched.prepared;
  if (digest === entry.digest) return { put: { name, entry, folder, originals: [{ files, tree }] } };
  if (entry.upstream?.digest === digest) {
    return {
      error: new SkillError("lock-differs", {
        message: "The lock says that it was changed after it was added, and its source has it without these changes",
        fix: "take its folder from your version control, where whoever changed it keeps it",
      }),
    };
  }
  return {
    error: new SkillError("lock-differs", {
      message: "What its source has is not what the lock says",
      fix: "look at what changed with `skillet update --dry-run`, and write the lock anew where people look",
    }),
  };
}

interface Outcome {
  count: number;
  wrong: readonly Verified[];
  added: readonly string[];
  problems: readonly { name: string; error: SkillError }[];
}

interface Reporting {
  io: Io;
  options: Context<AddOptions>["options"];
  locked: LockedPlace;
}

function report(outcome: Outcome, { io, options, locked: { place } }: Reporting): number {
  const { wrong, added, problems, count: all } = outcome;
  if (options.json) {
    printJson(io.stdout, {
      folder: place.folder,
      isDryRun: options.dryRun ?? false,
      added,
      wrong: wrong.map(verifiedAsJson),
      problems: problems.map(({ name, error: { code, message, fix } }) => ({ name, code, message, fix })),
    });
  }
  const error = printer(io.stderr, io.env);
  for (const one of wrong) {
    error.line`${error.red("✗")} ${error.bold(one.name)} is not what its lock says`;
    if (one.is === "changed") showDrift(error, one.drift);
    if (one.is === "unreadable") error.line`    ${one.why}`;
  }
  if (wrong.length > 0) {
    const command = wrong.length === 1 ? `skillet trust ${wrong[0]?.name}` : "skillet trust NAME";
    error.line`  nothing was added; to see the difference: ${fromHere(command, options.workspace)}`;
  }
  sayProblems(error, problems);
  if (wrong.length + problems.length > 0) return EXIT.findings;
  if (!options.json) {
    const out = printer(io.stdout, io.env);
    const how = added.length === 0 ? "all there" : `${added.length} ${options.dryRun ? "would be added" : "added"}`;
    out.line`${out.green("✓")} ${count(all, "skill")}, ${all === 1 ? "as its" : "each as its"} lock says: ${how}`;
  }
  return EXIT.fine;
}
