import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { hasUnknownBase, type LockedSkill } from "../../host/lock/format.ts";
import { SkillError } from "../../shared/error.ts";
import { displayPath } from "../../source/locations.ts";
import { unadopt } from "../../supply/adopt.ts";
import { change, digestAt } from "../../supply/put.ts";
import type { SkillsPlace } from "../../supply/skills-place.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration, surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { answerOf } from "../supply/fetch.ts";
import { allLockedPlaces, type Chosen, chooseNamed } from "../supply/locked-skills.ts";
import { sayNames } from "../supply/words.ts";
import { notAgreed } from "../told.ts";

interface RemoveOptions {
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
  keep?: boolean;
  yes?: boolean;
}

/** A skill that goes: with its folder, or, for an adopted one, out of the lock alone. */
interface Going {
  name: string;
  place: SkillsPlace;
  entry: LockedSkill;
  digest: string | undefined;
  isKept: boolean;
}

/** Takes added skills away, with their entries in the lock. Adopted ones lose their entry, and their folder if the user says so. */
export async function remove({ io, options, args }: Context<RemoveOptions>): Promise<number> {
  const chosen = chooseNamed(allLockedPlaces(surroundingsFor(io, options), options.project ?? false), args);
  refuseAmbiguous(chosen);
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const all = chosen.flatMap(({ locked: { place }, entries }) =>
    entries.map(([name, entry]): Going => {
      const isKept = entry.adopted === true && (options.keep ?? false);
      return { name, place, entry, digest: digestAt(join(place.folder, name)), isKept };
    }),
  );
  const going = await decide(all, { io, options, found });
  refuseEdited(going, options);
  if (!options.dryRun)
    for (const [place, group] of Map.groupBy(going, (one) => one.place)) removeFrom(place, group, found);
  const [first] = chosen;
  if (options.json) {
    const removed = going.map(({ name }) => name);
    const kept = going.flatMap(({ name, isKept }) => (isKept ? name : []));
    const facts = { folder: first?.locked.place.folder, isDryRun: options.dryRun ?? false, removed };
    printJson(io.stdout, { ...facts, ...(kept.length > 0 ? { kept } : {}) });
  } else sayRemoved(io, going, { isDryRun: options.dryRun ?? false, found });
  return EXIT.fine;
}

/** One name is one skill here: what is deleted is never guessed. */
function refuseAmbiguous(chosen: readonly Chosen[]): void {
  const all = chosen.flatMap(({ locked, entries }) => entries.map(([name]) => ({ name, shown: locked.place.shown })));
  for (const [name, copies] of Map.groupBy(all, (one) => one.name)) {
    if (copies.length === 1) continue;
    throw new SkillError("skill-ambiguous", {
      message: `There are ${copies.length} managed skills "${name}": in ${copies.map(({ shown }) => shown).join(", ")}`,
      fix: `name one: skillet remove ${copies.map(({ shown }) => `${name}@${shown}`).join(" or ")}`,
    });
  }
}

interface Deciding {
  io: Io;
  options: RemoveOptions & { json?: boolean };
  found: Discovered;
}

/** Asks what becomes of the folders of adopted skills: skillet did not put them there. */
async function decide(all: readonly Going[], { io, options, found }: Deciding): Promise<Going[]> {
  const decided: Going[] = [];
  for (const one of all) {
    const isOpen = one.entry.adopted && one.digest !== undefined && !options.keep && !options.yes && !options.dryRun;
    if (!isOpen) {
      decided.push(one);
      continue;
    }
    const shown = displayPath(join(one.place.folder, one.name), found.around);
    if (!io.ask)
      throw notAgreed(
        io,
        `"${one.name}" was adopted, and nothing was removed`,
        "say --keep to keep its files, or --yes to delete them",
      );
    const answer = await answerOf(io, `Also delete ${shown}, which was there before skillet? [y/N] `);
    decided.push({ ...one, isKept: !/^y(?:es)?$/i.test(answer) });
  }
  return decided;
}

function refuseEdited(going: readonly Going[], { force }: RemoveOptions): void {
  const edited = going.filter(({ entry, digest, isKept }) => {
    if (isKept || digest === undefined) return false;
    return digest !== (hasUnknownBase(entry) ? entry : (entry.upstream ?? entry)).digest;
  });
  if (edited.length === 0 || force) return;
  const names = edited.map(({ name }) => name).join(", ");
  throw new SkillError("edited", {
    message: `You changed ${names} since ${edited.length === 1 ? "it was" : "they were"} added, and nothing was removed`,
    fix: `--force removes ${edited.length === 1 ? "it" : "them"} with your changes: copy what you need of them first`,
  });
}

function removeFrom(place: SkillsPlace, going: readonly Going[], found: Discovered): void {
  const kept = going.filter(({ isKept }) => isKept).map(({ name }) => name);
  const deleted = going.filter(({ isKept }) => !isKept);
  if (deleted.length > 0) {
    const removed = Object.fromEntries(deleted.map(({ name, digest }) => [name, digest]));
    change({ place, remove: removed, skilletHome: found.home });
    for (const { name } of deleted) found.approvals.forget(name);
    found.trust.revoke(deleted.map(({ name }) => join(place.folder, name)));
  }
  unadopt(place, kept, found.home);
}

function sayRemoved(
  io: Io,
  going: readonly Going[],
  { isDryRun, found }: { isDryRun: boolean; found: Discovered },
): void {
  const out = printer(io.stdout, io.env);
  for (const [place, group] of Map.groupBy(going, (one) => one.place)) {
    const [kept, deleted] = [true, false].map((isKept) => group.filter((one) => one.isKept === isKept));
    if (deleted?.length) {
      const names = deleted.map(({ name }) => name).join(", ");
      out.line`${out.green("✓")} ${isDryRun ? "would be removed" : "removed"}: ${names} ${out.dim(`from ${place.shown}`)}`;
    }
    if (kept?.length) {
      const names = sayNames(kept.map(({ name }) => name));
      out.line`${out.green("✓")} ${isDryRun ? "would no longer be managed" : "no longer managed"}: ${names} ${out.dim(`(files kept in ${place.shown}, still trusted as they are)`)}`;
    }
  }
  const copies = Object.entries(found.installs.entries()).filter(([, { original = "" }]) =>
    going.some(({ name, place }) => original === join(place.folder, name, "SKILL.md")),
  );
  for (const [folder, { skill }] of copies) {
    out.line`  ${out.dim(`a copy is still in ${folder}: skillet export --remove ${skill}`)}`;
  }
}
