import { join } from "node:path";
import { openApprovals } from "../host/approvals.ts";
import { type DiscoverOptions, surroundings } from "../host/discover.ts";
import { driftOfCopy } from "../host/lock/drift.ts";
import type { LockedSkills } from "../host/lock/format.ts";
import { openOriginals } from "../host/lock/originals.ts";
import { openStamps } from "../host/lock/stamps.ts";
import { openSigners } from "../host/signers.ts";
import { openTrust } from "../host/trust.ts";
import { mend } from "../install/apply.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { stopsLoading } from "../skill/diagnostic.ts";
import { withBody } from "../skill/skill.ts";
import { copySkill } from "../source/digest.ts";
import { statOf } from "../source/file.ts";
import { readFolderSkill } from "../source/folder-skill.ts";
import { locations, type Surroundings } from "../source/locations.ts";
import { type Addition, planAdd } from "./add.ts";
import { parseAddress } from "./address.ts";
import {
  type Candidate,
  candidateOf,
  distinct,
  outermost,
  prepare,
  type RefusedSkill,
  withNotes,
} from "./candidate.ts";
import { fetchOffer, provenanceOf, type Supply } from "./fetch-offer.ts";
import { change } from "./put.ts";
import { requireSignatures } from "./signature.ts";
import { lockedIn, lockedPlaces, placeFor, type SkillsPlace } from "./skills-place.ts";
import { inStaging } from "./staging.ts";
import { type Verified, verifySkill } from "./verify.ts";

export interface AddSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** As `skillet add` takes it. */
  source: string;
  /** Which of its skills; all of them when left out. One inside the folder of another comes with that. */
  names?: readonly string[];
  /** Into the workspace's own folder, in place of the user's. */
  isProject?: boolean;
  /** Whether one that was added from another source gives way. */
  isForced?: boolean;
  /** Takes only skills that a known signer signed, now and in every update. */
  requireSignature?: boolean;
  /** Asks private addresses too that only the source named. */
  allowPrivate?: boolean;
  /** Called for each skill that cannot be added, so that the others are. Without it, the first one is thrown and nothing is added. */
  onRefused?(name: string, error: SkillError): void;
  /** Asked with all that is to come, before anything is put in its place: whether it may be. */
  agree(coming: readonly Coming[]): boolean | Promise<boolean>;
  signal?: AbortSignal;
}

/** A skill that is to be put in its place. */
export type Coming = Extract<Addition, { is: "new" | "update" }>;

/**
 * Adds skills from a remote source: fetched, checked, approved, put in their place and locked in one change. Returns what became of
 * each, or undefined when they were not approved. Throws a SkillError when one cannot be added, unless `onRefused` is given.
 */
export async function addSkills(options: AddSkillsOptions): Promise<readonly Addition[] | undefined> {
  const {
    source,
    names = [],
    isProject = false,
    isForced = false,
    allowPrivate,
    requireSignature,
    onRefused,
    agree,
    signal,
  } = options;
  const around = surroundings(options);
  const place = placeFor(around, isProject);
  if (statOf(place.folder)) mend(place.folder);
  const address = parseAddress(source, { cwd: around.workspace, home: around.home });
  return inStaging(around.skilletHome, async (work) => {
    const supply = await fetchOffer(address, work, { env: around.env, names, ...defined({ signal, allowPrivate }) });
    const { offer } = supply;
    const refuse = ({ name, error }: RefusedSkill) => {
      if (!onRefused) throw error;
      onRefused(name, error);
    };
    const wanted = names.length > 0 ? names.map((name) => candidateOf(name, offer)) : outermost(offer.candidates);
    if (wanted.length === 0) throw nothingThere(supply);
    const chosen = distinct(wanted, refuse);
    const planning = { supply, place, around, work, locked: lockedIn(place), isForced };
    const { additions, problems } = planAdditions(chosen, planning);
    for (const problem of problems) refuse(problem);
    const signers = openSigners(around.skilletHome);
    const coming = requireSignatures(additions.filter(isComing), { signers, ...defined({ all: requireSignature }) });
    if (coming.length === 0) return additions;
    if (!(await agree(coming))) return undefined;
    change({ place, put: coming.map(({ put }) => put), skilletHome: around.skilletHome });
    const approvals = openApprovals(around.skilletHome);
    for (const { name } of coming) approvals.forget(name, join(place.folder, name));
    if (isProject) trustPlaced(coming, place, openTrust(around.skilletHome, locations(around)));
    return additions;
  });
}

export function isComing(addition: Addition): addition is Coming {
  return addition.is === "new" || addition.is === "update";
}

export interface Planning {
  supply: Supply;
  place: SkillsPlace;
  around: Surroundings;
  /** A folder of ours. */
  work: string;
  locked: LockedSkills;
  isForced: boolean;
}

/** Looks at what was chosen, and plans to add it. All that stands against any of them is given at once. */
export function planAdditions(
  chosen: readonly Candidate[],
  { supply, place, around, work, locked, isForced }: Planning,
): { additions: Addition[]; problems: RefusedSkill[] } {
  const originals = openOriginals(around.skilletHome);
  const additions: Addition[] = [];
  const problems: RefusedSkill[] = [];
  for (const candidate of chosen) {
    try {
      const prepared = prepare(candidate, supply.fetched, join(work, "skills", candidate.skill.name));
      const provenance = provenanceOf(supply.fetched, candidate.path, { place, around });
      additions.push(planAdd({ prepared, provenance, place, locked, originals, work: join(work, "merged"), isForced }));
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      problems.push({ name: candidate.skill.name, error });
    }
  }
  return { additions, problems };
}

/** There is no skill in a source. */
export function nothingThere({ offer, fetched }: Supply): SkillError {
  const broken = offer.diagnostics.find(stopsLoading);
  return new SkillError("no-skills", {
    message: broken
      ? `None of its skills can be loaded: ${broken.message}`
      : withNotes("There is no skill in it", offer),
    fix: broken
      ? "tell whoever wrote it"
      : fetched.links.size > 0
        ? "it holds links, which are not followed: name the folder that they lead to (//FOLDER)"
        : "a skill is a folder with a SKILL.md: check the source, and its //FOLDER",
  });
}

/** Writes down that skills of a workspace are trusted, if they are in their place what was agreed to: one that somebody changed since waits for a word. */
export function trustPlaced(
  coming: readonly Coming[],
  { folder }: SkillsPlace,
  trust: Pick<ReturnType<typeof openTrust>, "grant">,
): void {
  trust.grant(
    coming.flatMap(({ name, put }) => {
      const read = readFolderSkill(join(folder, name), { scope: "workspace", source: ".agents/skills" });
      if (!read || !("skill" in read)) return [];
      const skill = withBody(read.skill);
      const copy = copySkill(skill);
      return driftOfCopy(put.entry.files, copy.files).length === 0 ? [{ skill, copy }] : [];
    }),
  );
}

/** Compares all that was added or adopted with its lock. Throws a SkillError when the lock cannot be used. */
export function verifySkills(
  options: Pick<DiscoverOptions, "workspace" | "home" | "env"> & { isProject?: boolean; isFull?: boolean } = {},
): Verified[] {
  const around = surroundings(options);
  const stamps = options.isFull ? undefined : openStamps(around.skilletHome);
  return lockedPlaces(around, options.isProject ?? false).flatMap((place) =>
    Object.entries(lockedIn(place)).map(([name, entry]) => verifySkill(place, name, entry, stamps)),
  );
}
