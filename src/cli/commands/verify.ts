import { join } from "node:path";
import { isEdited, LOCK_FILE } from "../../host/lock/format.ts";
import { openStamps } from "../../host/lock/stamps.ts";
import { openSigners } from "../../host/signers.ts";
import { quoted } from "../../policy/trust.ts";
import { byText, count, grouped } from "../../shared/text.ts";
import { checkSignature, type SignatureState, saySignature } from "../../supply/signature.ts";
import { needsTrust, type SkillsPlace } from "../../supply/skills-place.ts";
import { unlockedIn, type Verified, verifySkill } from "../../supply/verify.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { Context } from "../program.ts";
import { openWaiting } from "../progress.ts";
import { signatureAsJson } from "../supply/json.ts";
import { everyLockedPlace, type LockedPlace, named } from "../supply/locked-skills.ts";
import { showDrift } from "../supply/words.ts";
import { printHanging } from "../wrap.ts";

interface VerifyOptions {
  project?: boolean;
  requireSignature?: boolean;
  full?: boolean;
}

/** `isEdited`: what was agreed to is not what its source gave. */
type Row = Verified & { place: SkillsPlace; isEdited?: boolean; signature?: SignatureState };

/** Compares added skills with their locks: those for all projects, and the workspace's. */
export async function verify({ io, options, args }: Context<VerifyOptions>): Promise<number> {
  const around = surroundingsFor(io, options);
  const places = everyLockedPlace(around, options.project ? ["project"] : ["user", "project"]);
  const stamps = openStamps(around.skilletHome);
  const signers = openSigners(around.skilletHome);
  const waiting = openWaiting(io, "comparing with the lock");
  const rows = places.flatMap((locked): Row[] => {
    const { place } = locked;
    const entries = chosen(locked, args, places);
    const verified = entries.map(([name, entry], index) => {
      waiting.at(`comparing ${grouped(index + 1)} of ${count(entries.length, "skill")} with the lock`);
      const hasEdits = isEdited(entry);
      const one = { ...verifySkill(place, name, entry, options.full ? undefined : stamps), isEdited: hasEdits };
      // Approved edits of the user break a signature, and are no news.
      if (!options.requireSignature && !(entry.requireSignature && !hasEdits)) return one;
      const folder = join(place.folder, name);
      return { ...one, signature: checkSignature({ folder, name, signers }) };
    });
    // What else lies in a project's folder is the project's own.
    const unlocked =
      needsTrust(place) || args.length > 0 ? [] : unlockedIn(place, new Set(locked.skills.map(([name]) => name)));
    return [...verified, ...unlocked.map((name) => ({ name, is: "unlocked" as const }))].map((row) => ({
      ...row,
      place,
    }));
  });
  waiting.end();
  rows.sort((a, b) => Number(a.place.isProject) - Number(b.place.isProject) || byText(a.name, b.name));
  const wrong = rows.filter(isWrong);
  if (options.json) {
    const skills = rows.map(({ place: { folder, isProject }, ...row }) => ({ ...asJson(row), folder, isProject }));
    printJson(io.stdout, { skills, wrong: wrong.length });
  } else print(io, rows, wrong, options.workspace);
  return wrong.length > 0 ? EXIT.findings : EXIT.fine;
}

/** For programs. */
export function verifiedAsJson({ name, is, ...more }: Verified): object {
  return { name, state: is, ...more };
}

function asJson({ signature, ...row }: Omit<Row, "place">): object {
  return { ...verifiedAsJson(row as Verified), ...(signature ? { signature: signatureAsJson(signature) } : {}) };
}

/** A name is looked for in all places, and must be in one. */
function chosen(locked: LockedPlace, names: readonly string[], places: readonly LockedPlace[]): LockedPlace["skills"] {
  if (names.length === 0) return locked.skills;
  const missing = names.find((name) => !places.some(({ skills }) => skills.some(([other]) => other === name)));
  if (missing !== undefined) return named(locked, [missing]);
  return locked.skills.filter(([name]) => names.includes(name));
}

function isWrong({ is, signature }: Row): boolean {
  return is !== "as-locked" || (signature !== undefined && signature.state !== "valid");
}

const MOST_SHOWN = 50;

function print(io: Io, rows: readonly Row[], wrong: readonly Row[], workspace: string | undefined): void {
  const out = printer(io.stdout, io.env);
  for (const row of wrong.slice(0, MOST_SHOWN)) {
    const isUnsigned = row.is === "as-locked"; // Then that is all that is wrong with it.
    const what = isUnsigned ? saySignature(row.signature) : said(row);
    out.line`${out.red("✗")} ${out.bold(row.name)} ${what} ${out.dim(`(${row.place.shown})`)}`;
    if (row.is === "changed") showDrift(out, row.drift);
    if (row.is === "unreadable") printHanging(out, "    ", [row.why], { indent: 4 });
    if (!isUnsigned && row.signature && row.signature.state !== "valid")
      out.line`    it ${saySignature(row.signature)}`;
  }
  if (wrong.length > MOST_SHOWN) out.line`${out.dim(`… and ${wrong.length - MOST_SHOWN} more: --json has all`)}`;
  if (rows.length === 0) printer(io.stderr, io.env).line`nothing was added yet: \`skillet add SOURCE\` does`;
  else if (wrong.length === 0)
    out.line`${out.green("✓")} ${count(rows.length, "skill")}, ${rows.length === 1 ? "as its" : "each as its"} lock says`;
  else sayNext(out, rows, { wrong, workspace });
}

function said({ is }: Row): string {
  return is === "as-locked" ? "" : SAID[is];
}

const SAID: Record<Exclude<Row["is"], "as-locked">, string> = {
  changed: "is not what its lock says",
  missing: "is in the lock, and not there",
  unlocked: `is there, and not in ${LOCK_FILE}`,
  unreadable: "cannot be compared",
};

function sayNext(
  out: Printer,
  rows: readonly Row[],
  { wrong, workspace }: { wrong: readonly Row[]; workspace: string | undefined },
): void {
  out.line``;
  const unsigned = wrong.filter(({ is }) => is === "as-locked").length;
  const differing = wrong.length - unsigned;
  const all = count(rows.length, "skill");
  if (differing > 0) out.line`${differing} of ${all} ${differing === 1 ? "differs" : "differ"}`;
  if (unsigned > 0)
    out.line`${unsigned} of ${all} ${unsigned === 1 ? "is" : "are"} as locked, and signed by nobody you know`;
  const say = (line: string) => printHanging(out, "  ", [fromHere(line, workspace)], { indent: 2 });
  const changed = wrong.filter(({ is }) => is === "changed");
  if (changed.length > 0) {
    const name = changed.length === 1 ? quoted(changed[0]?.name ?? "") : "NAME";
    say(`to see the difference, and agree to it or not: skillet trust ${name}`);
    const project = changed[0]?.place.isProject ? " --project" : "";
    if (!changed.some(({ isEdited: hasEdits, place }) => hasEdits || place.isAdopted))
      say(`to have what was agreed to: remove its folder, then run: skillet add --frozen${project} ${name}`);
  }
  const gone = wrong.filter(({ is }) => is === "missing");
  const adopted = gone.filter(({ place }) => place.isAdopted).map(({ name }) => quoted(name));
  if (adopted.length > 0) say(`to stop managing what is gone: skillet remove ${adopted.join(" ")}`);
  for (const [isProject, missing] of Map.groupBy(
    gone.filter(({ place }) => !place.isAdopted),
    ({ place }) => place.isProject,
  )) {
    const names = missing.length > 5 ? "" : missing.map(({ name }) => ` ${quoted(name)}`).join("");
    say(`to have what the lock says: skillet add --frozen${isProject ? " --project" : ""}${names}`);
  }
  if (wrong.some(({ is }) => is === "unlocked"))
    say("what is not in the lock waits for a word of yours before it is used: skillet trust NAME");
}
