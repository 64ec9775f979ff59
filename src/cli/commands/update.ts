import { join } from "node:path";
import type { LockedSkill } from "../../host/lock/format.ts";
import { openOriginals } from "../../host/lock/originals.ts";
import { SkillError } from "../../shared/error.ts";
import type { Addition } from "../../supply/add.ts";
import { provenanceOf } from "../../supply/fetch-offer.ts";
import { type Refetched, refetch } from "../../supply/refetch.ts";
import { inStaging } from "../../supply/staging.ts";
import { planUpdate } from "../../supply/update.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration, surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import { lockedPlace, named, sayNothingAdded } from "../supply/locked-skills.ts";
import { agreeAndPut } from "../supply/put.ts";

interface UpdateOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
  allowPrivateAddresses?: boolean;
  conflicts?: "mine" | "theirs";
}

/** Brings added skills up to date. What the user changed is kept, or the conflict is shown and nothing changes. */
export async function update({ io, options, args }: Context<UpdateOptions>): Promise<number> {
  const locked = lockedPlace(surroundingsFor(io, options), options.project ?? false);
  const { place } = locked;
  const entries = named(locked, args);
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const { around, home } = found;
  if (entries.length === 0) {
    printer(io.stderr, io.env).line`${sayNothingAdded(locked)}`;
    if (options.json)
      printJson(io.stdout, { folder: place.folder, isDryRun: options.dryRun ?? false, skills: [], problems: [] });
    return EXIT.fine;
  }
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const updating = async (work: string) => {
    const fetched = await fetching(io, "what was added", (signal) =>
      refetch(entries, { around, work, env: io.env, signal, allowPrivate, isProject: place.isProject }),
    );
    const problems: { name: string; error: SkillError }[] = [];
    const plan = (name: string, entry: LockedSkill, refetched: Refetched | undefined): Addition[] => {
      try {
        if (!refetched || "error" in refetched) throw refetched?.error;
        const { prepared, supply } = refetched;
        const provenance = provenanceOf(supply.fetched, prepared.path, { place, around });
        const originals = openOriginals(home);
        const merging = { work: join(work, "merged"), conflicts: options.conflicts };
        const planned = planUpdate({ name, entry, place, prepared, provenance, originals, ...merging });
        return [{ name, prepared, ...(planned.is === "up-to-date" ? { ...planned, is: "same" } : planned) }];
      } catch (problem) {
        if (!(problem instanceof SkillError)) throw problem;
        problems.push({ name, error: problem });
        return [];
      }
    };
    const additions = entries.flatMap(([name, entry]) => plan(name, entry, fetched.get(name)));
    return agreeAndPut(additions, { io, options, found, place, work, verb: "Update", problems });
  };
  return unlessStopped("nothing was updated", () => inStaging(home, updating));
}
