import { dirname, join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { LOCAL_SOURCE, LOCK_FILE } from "../../host/lock/format.ts";
import { count } from "../../shared/text.ts";
import { displayPath } from "../../source/locations.ts";
import { type Adoption, applyAdoptions, planAdoptions } from "../../supply/adopt.ts";
import { findAdoptable } from "../../supply/adoptable.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { fetching, unlessStopped } from "../supply/fetch.ts";
import { sayOrigin } from "../supply/origin.ts";
import { sayNames, sayProblems, someOf } from "../supply/words.ts";
import { notAgreed } from "../told.ts";
import { printHanging } from "../wrap.ts";
import { approveSubjects } from "./trust.ts";
import type { Subject } from "./trust-show.ts";

interface AdoptOptions {
  project?: boolean;
  from?: string;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
}

/** Brings skills that are on the disk under management where they are: looks, asks, records. */
export async function adopt({ io, options, args }: Context<AdoptOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const adoptable = findAdoptable(found, args, { cwd: io.cwd, isProject: options.project ?? false });
  const { from } = options;
  return unlessStopped("nothing was adopted", async () => {
    const planned =
      from === undefined
        ? await planAdoptions(adoptable.skills, found)
        : await fetching(io, from, (signal) => planAdoptions(adoptable.skills, found, { from, signal }));
    const problems = [...adoptable.problems, ...planned.problems];
    const { adoptions } = planned;
    const out = printer(options.json ? io.stderr : io.stdout, io.env);
    const isAsking = io.ask !== undefined && !options.yes && !options.dryRun;
    sayProblems(printer(io.stderr, io.env), problems);
    if (!options.json || isAsking) showAdoptions(out, adoptions, found);
    const adopted = await approved(adoptions, { io, options, found });
    if (!options.dryRun) applyAdoptions(adopted, found);
    if (options.json) {
      printJson(io.stdout, {
        isDryRun: options.dryRun ?? false,
        adopted: adopted.map(asJson),
        problems: problems.map(({ name, error: { code, message, fix } }) => ({ name, code, message, fix })),
      });
    } else sayDone(out, adopted, { found, isDryRun: options.dryRun ?? false, isNone: problems.length === 0 });
    return problems.length > 0 ? EXIT.findings : EXIT.fine;
  });
}

interface Approving {
  io: Io;
  options: Context<AdoptOptions>["options"];
  found: Discovered;
}

/** The review that `skillet trust` makes: adopting a skill is trusting it as it is. */
async function approved(adoptions: readonly Adoption[], { io, options, found }: Approving): Promise<Adoption[]> {
  if (adoptions.length === 0) return [];
  const subjects = adoptions.map(({ skill, copy }): Subject => ({ skill, copy, before: undefined, changes: [] }));
  const { json, show } = options;
  const isYes = (options.yes ?? false) || (options.dryRun ?? false);
  const how = {
    subjects,
    pending: subjects,
    options: { ...(json ? { json } : {}), ...(show ? { show } : {}), yes: isYes },
  };
  const agreed = new Set(
    (await approveSubjects(io, found, { ...how, verb: "Adopt and trust" })).map(({ skill }) => skill),
  );
  if (agreed.size === 0) throw notAgreed(io, "nothing was adopted", "look at it (--dry-run --show), then say --yes");
  return adoptions.filter(({ skill }) => agreed.has(skill));
}

const MOST_ORIGINS = 8;
const MOST_NAMES = 6;

/** Where they came from, a line for each source: sixty skills fit on a screen. */
function showAdoptions(out: Printer, adoptions: readonly Adoption[], { around }: Discovered): void {
  if (adoptions.length === 0) return;
  const groups = [...Map.groupBy(adoptions, ({ entry, foundIn = "" }) => `${entry.source} ${foundIn}`).values()];
  const largest = groups.sort((a, b) => b.length - a.length);
  out.line`${out.bold(`${count(adoptions.length, "skill")} to adopt`)} ${out.dim("(no file is changed or copied)")}`;
  for (const group of largest.slice(0, MOST_ORIGINS)) {
    const [first] = group;
    if (!first) continue;
    const names = someOf(
      group.map(({ name }) => name),
      MOST_NAMES,
    );
    printHanging(out, "  ", [`${names}: ${sayWhere(first, group.length)}`], { indent: 4, start: 2 });
  }
  const more = largest.slice(MOST_ORIGINS);
  if (more.length > 0)
    out.line`  ${out.dim(`… and ${count(more.flat().length, "skill")} from ${count(more.length, "other source")}`)}`;
  const linked = adoptions.filter(({ links }) => links.length > 0);
  for (const { folder, links } of linked.slice(0, MOST_NAMES)) {
    const shown = links.map((link) => displayPath(link, around)).join(", ");
    printHanging(
      out,
      out.text`  ${out.dim("·")} `,
      [`${shown} ${links.length === 1 ? "is a symlink" : "are symlinks"}: ${displayPath(folder, around)} is adopted`],
      { indent: 4, paint: out.dim },
    );
  }
  if (linked.length > MOST_NAMES)
    out.line`  ${out.dim(`· ${linked.length - MOST_NAMES} more are reached by symlinks: each is adopted once`)}`;
}

function sayWhere({ entry, foundIn }: Adoption, size: number): string {
  if (entry.source === LOCAL_SOURCE) return "no source found; --from SOURCE sets one";
  const { source, ref, commit } = entry;
  const said =
    size === 1 ? sayOrigin(entry) : sayOrigin({ source, ...(ref ? { ref } : {}), ...(commit ? { commit } : {}) });
  return `${said}${foundIn === undefined ? "" : ` (from ${foundIn})`}`;
}

function asJson({ name, folder, place, entry, foundIn, copy, findings, links }: Adoption): object {
  const { source, path, ref, commit, digest, grants } = entry;
  return {
    name,
    folder,
    lock: join(place.folder, LOCK_FILE),
    isProject: place.isProject,
    ...(source === LOCAL_SOURCE ? {} : { source, path, ref, commit }),
    foundIn,
    digest,
    grants,
    trusted: copy.digest,
    findings: findings.map(({ file, ...finding }) => ({ ...finding, path: file })),
    links,
  };
}

interface Done {
  found: Discovered;
  isDryRun: boolean;
  isNone: boolean;
}

function sayDone(out: Printer, adopted: readonly Adoption[], { found, isDryRun, isNone }: Done): void {
  if (adopted.length === 0) {
    if (isNone) out.line`${out.dim("nothing to adopt: every skill in your client folders is managed")}`;
    return;
  }
  if (isDryRun) {
    out.line`${out.dim(`a dry run: ${count(adopted.length, "skill")} would be adopted, and nothing was recorded`)}`;
    return;
  }
  for (const [folder, group] of Map.groupBy(adopted, (one) => dirname(one.folder))) {
    const names = sayNames(group.map(({ name }) => name));
    out.line`${out.green("✓")} adopted: ${names} ${out.dim(`in ${displayPath(folder, found.around)}`)}`;
  }
  const project = adopted.every(({ place }) => place.isProject) ? " --project" : "";
  const local = adopted.filter(({ entry }) => entry.source === LOCAL_SOURCE).length;
  if (local < adopted.length) out.line`  to see what is newer: ${out.cyan(`skillet outdated${project}`)}`;
  if (local > 0) out.line`  ${count(local, "skill")} without a source: ${out.cyan("skillet adopt NAME --from SOURCE")}`;
  out.line`  to stop managing one: ${out.cyan(`skillet remove NAME --keep${project}`)}`;
}
