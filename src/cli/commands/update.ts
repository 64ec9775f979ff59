import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { LOCAL_SOURCE, type LockedSkill } from "../../host/lock/format.ts";
import { openOriginals } from "../../host/lock/originals.ts";
import { SkillError } from "../../shared/error.ts";
import { byText } from "../../shared/text.ts";
import type { Addition } from "../../supply/add.ts";
import { provenanceOf } from "../../supply/fetch-offer.ts";
import { fetchBases, type Refetched, refetch } from "../../supply/refetch.ts";
import { needsTrust } from "../../supply/skills-place.ts";
import { inStaging } from "../../supply/staging.ts";
import { planUpdate } from "../../supply/update.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration, surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import {
  allLockedPlaces,
  type Chosen,
  chooseNamed,
  type LockedPlace,
  sayNothingAdded,
} from "../supply/locked-skills.ts";
import { agreeAndPut, type PutReport } from "../supply/put.ts";
import { sayNames } from "../supply/words.ts";

interface UpdateOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
  allowPrivateAddresses?: boolean;
  conflicts?: "mine" | "theirs";
}

/** Brings added and adopted skills up to date. What the user changed is kept, or the conflict is shown and nothing changes. */
export async function update({ io, options, args }: Context<UpdateOptions>): Promise<number> {
  const places = allLockedPlaces(surroundingsFor(io, options), options.project ?? false);
  const all = chooseNamed(places, args);
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  // Those without a source are passed over unless they are named.
  const isMeant = ([, { source }]: LockedPlace["skills"][number]) => args.length > 0 || source !== LOCAL_SOURCE;
  const chosen = all.map(({ locked, entries }) => ({ locked, entries: entries.filter(isMeant) }));
  const isDryRun = options.dryRun ?? false;
  const [first] = chosen;
  const local = all.flatMap(({ entries }) => entries.filter((entry) => !isMeant(entry)).map(([name]) => name));
  const error = printer(io.stderr, io.env);
  if (local.length > 0)
    error.line`${error.dim(`· without a source: ${sayNames(local)} (skillet adopt NAME --from SOURCE)`)}`;
  const some = chosen.filter(({ entries }) => entries.length > 0);
  if (!first || some.length === 0) {
    if (first && local.length === 0) error.line`${sayNothingAdded(first.locked)}`;
    if (options.json) printJson(io.stdout, { folder: first?.locked.place.folder, isDryRun, skills: [], problems: [] });
    return EXIT.fine;
  }
  const reports: PutReport[] = [];
  const codes: number[] = [];
  for (const one of some)
    codes.push(await updateIn(one, { io, options, found, report: (facts) => reports.push(facts) }));
  if (options.json) printJson(io.stdout, together(reports));
  return Math.max(...codes);
}

/** One report for all places; what is not in the first says where it is. */
function together([first, ...others]: readonly PutReport[]): PutReport | undefined {
  if (!first) return undefined;
  const placed = (facts: readonly object[], folder: string) => facts.map((fact) => ({ ...fact, folder }));
  return {
    ...first,
    skills: byName([...first.skills, ...others.flatMap(({ skills, folder }) => placed(skills, folder))]),
    problems: byName([...first.problems, ...others.flatMap(({ problems, folder }) => placed(problems, folder))]),
  };
}

function byName(facts: readonly object[]): object[] {
  const nameOf = (fact: object) => String("name" in fact ? fact.name : "");
  return facts.toSorted((a, b) => byText(nameOf(a), nameOf(b)));
}

interface Updating {
  io: Io;
  options: Context<UpdateOptions>["options"];
  found: Discovered;
  report(facts: PutReport): void;
}

function updateIn({ locked, entries }: Chosen, { io, options, found, report }: Updating): Promise<number> {
  const { place } = locked;
  const { around, home } = found;
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const updating = async (work: string) => {
    const { fetched, bases } = await fetching(io, "what was added", async (signal) => {
      const fetchOptions = { around, work, env: io.env, signal, allowPrivate, isUntyped: needsTrust(place) };
      const fetched = await refetch(entries, fetchOptions);
      const before = join(work, "before");
      mkdirSync(before, 0o700);
      return { fetched, bases: await fetchBases(entries, { ...fetchOptions, work: before }) };
    });
    const problems: { name: string; error: SkillError }[] = [];
    const plan = (name: string, entry: LockedSkill, refetched: Refetched | undefined): Addition[] => {
      try {
        if (!refetched || "error" in refetched) throw refetched?.error;
        const { prepared, supply } = refetched;
        const provenance = provenanceOf(supply.fetched, prepared.path, { place, around });
        const originals = openOriginals(home);
        const merging = { work: join(work, "merged"), conflicts: options.conflicts, base: bases.get(name) };
        const planned = planUpdate({ name, entry, place, prepared, provenance, originals, ...merging });
        return [{ name, prepared, ...(planned.is === "up-to-date" ? { ...planned, is: "same" } : planned) }];
      } catch (problem) {
        if (!(problem instanceof SkillError)) throw problem;
        problems.push({ name, error: problem });
        return [];
      }
    };
    const additions = entries.flatMap(([name, entry]) => plan(name, entry, fetched.get(name)));
    return agreeAndPut(additions, { io, options, found, place, work, verb: "Update", problems, report });
  };
  return unlessStopped("nothing was updated", () => inStaging(home, updating));
}
