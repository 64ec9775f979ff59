import { join } from "node:path";
import { checkSignature, formatSignature, type SignatureState } from "../../remote/signature.ts";
import { listUnlocked, needsTrust, type SkillsDir, type VerifyResult, verifySkill } from "../../remote/skills-dir.ts";
import { createFingerprintCache } from "../../store/lock-diff.ts";
import { hasLocalEdits, LOCK_FILE } from "../../store/lock-file.ts";
import { createSignerStore } from "../../store/signers.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { compareText, formatCount, formatNumber } from "../../util/text.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { resolveCommandEnvironment } from "../command-host.ts";
import { addWorkspaceOption, toSignatureJson } from "../format.ts";
import { findLockedSkills, type LockedSkillsDir, openDistinctLockedDirs, printLockChanges } from "../locked-skills.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printJson } from "../output.ts";
import { createWaitIndicator } from "../progress.ts";

/** `skillet verify`. */
export const verifyCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("compare added skills with their locks, to the last byte; exit 1 when one differs")
      .argument("[skill...]", "skills; all that were added when left out")
      .option("--project", "only those of this workspace")
      .option("--require-signature", "each must be signed by a known signer (`skillet signers`)")
      .option("--full", "read every byte, also of what nobody has touched since the last look")
      .addHelpText(
        "after",
        formatExamples("skillet verify", "skillet verify deploy --full", "skillet verify --project --json"),
      ),
  run: verifyAddedSkills,
};

interface VerifyOptions {
  project?: boolean;
  requireSignature?: boolean;
  full?: boolean;
}

/** `isEdited`: what was agreed to is not what its source gave. */
type VerifyRow = VerifyResult & { place: SkillsDir; isEdited?: boolean; signature?: SignatureState };

/** Compares added skills with their locks: those for all projects, and the workspace's. */
async function verifyAddedSkills({ io, options, args }: CommandContext<VerifyOptions>): Promise<number> {
  const around = resolveCommandEnvironment(io, options);
  const places = openDistinctLockedDirs(around, options.project ? ["project"] : ["user", "project"]);
  const stamps = createFingerprintCache(around.skilletHome);
  const signers = createSignerStore(around.skilletHome);
  const waiting = createWaitIndicator(io, "comparing with the lock");
  const rows = places.flatMap((locked): VerifyRow[] => {
    const { place } = locked;
    const entries = chooseVerified(locked, args, places);
    const verified = entries.map(([name, entry], index) => {
      waiting.at(`comparing ${formatNumber(index + 1)} of ${formatCount(entries.length, "skill")} with the lock`);
      const hasEdits = hasLocalEdits(entry);
      const one = { ...verifySkill(place, name, entry, options.full ? undefined : stamps), isEdited: hasEdits };
      // Approved edits of the user break a signature, and are no news.
      if (!options.requireSignature && !(entry.requireSignature && !hasEdits)) return one;
      const folder = join(place.folder, name);
      return { ...one, signature: checkSignature({ folder, name, signers }) };
    });
    // What else lies in a project's folder is the project's own.
    const unlocked =
      needsTrust(place) || args.length > 0 ? [] : listUnlocked(place, new Set(locked.skills.map(([name]) => name)));
    return [...verified, ...unlocked.map((name) => ({ name, is: "unlocked" as const }))].map((row) => ({
      ...row,
      place,
    }));
  });
  waiting.end();
  rows.sort((a, b) => Number(a.place.isProject) - Number(b.place.isProject) || compareText(a.name, b.name));
  const wrong = rows.filter(isUnverified);
  if (options.json) {
    const skills = rows.map(({ place: { folder, isProject }, ...row }) => ({
      ...toVerifyRowJson(row),
      folder,
      isProject,
    }));
    printJson(io.stdout, { skills, wrong: wrong.length });
  } else printVerified(io, rows, wrong, options.workspace);
  return wrong.length > 0 ? EXIT.findings : EXIT.fine;
}

/** For programs. */
export function toVerifyJson({ name, is, ...more }: VerifyResult): object {
  return { name, state: is, ...more };
}

function toVerifyRowJson({ signature, ...row }: Omit<VerifyRow, "place">): object {
  return { ...toVerifyJson(row as VerifyResult), ...(signature ? { signature: toSignatureJson(signature) } : {}) };
}

/** A name is looked for in all places, and must be in one. */
function chooseVerified(
  locked: LockedSkillsDir,
  names: readonly string[],
  places: readonly LockedSkillsDir[],
): LockedSkillsDir["skills"] {
  if (names.length === 0) return locked.skills;
  const missing = names.find((name) => !places.some(({ skills }) => skills.some(([other]) => other === name)));
  if (missing !== undefined) return findLockedSkills(locked, [missing]);
  return locked.skills.filter(([name]) => names.includes(name));
}

function isUnverified({ is, signature }: VerifyRow): boolean {
  return is !== "as-locked" || (signature !== undefined && signature.state !== "valid");
}

const MAX_SHOWN = 50;

function printVerified(
  io: CommandIo,
  rows: readonly VerifyRow[],
  wrong: readonly VerifyRow[],
  workspace: string | undefined,
): void {
  const out = createPrinter(io.stdout, io.env);
  for (const row of wrong.slice(0, MAX_SHOWN)) {
    const isUnsigned = row.is === "as-locked"; // Then that is all that is wrong with it.
    const what = isUnsigned ? formatSignature(row.signature) : formatVerifyState(row);
    out.line`${out.red("✗")} ${out.bold(row.name)} ${what} ${out.dim(`(${row.place.shown})`)}`;
    if (row.is === "changed") printLockChanges(out, row.drift);
    if (row.is === "unreadable") printHanging(out, "    ", [row.why], { indent: 4 });
    if (!isUnsigned && row.signature && row.signature.state !== "valid")
      out.line`    it ${formatSignature(row.signature)}`;
  }
  if (wrong.length > MAX_SHOWN) out.line`${out.dim(`… and ${wrong.length - MAX_SHOWN} more: --json has all`)}`;
  if (rows.length === 0) createPrinter(io.stderr, io.env).line`nothing was added yet: \`skillet add SOURCE\` does`;
  else if (wrong.length === 0)
    out.line`${out.green("✓")} ${formatCount(rows.length, "skill")}, ${rows.length === 1 ? "as its" : "each as its"} lock says`;
  else printVerifyNextSteps(out, rows, { wrong, workspace });
}

function formatVerifyState({ is }: VerifyRow): string {
  return is === "as-locked" ? "" : VERIFY_DESCRIPTIONS[is];
}

const VERIFY_DESCRIPTIONS: Record<Exclude<VerifyRow["is"], "as-locked">, string> = {
  changed: "is not what its lock says",
  missing: "is in the lock, and not there",
  unlocked: `is there, and not in ${LOCK_FILE}`,
  unreadable: "cannot be compared",
};

function printVerifyNextSteps(
  out: Printer,
  rows: readonly VerifyRow[],
  { wrong, workspace }: { wrong: readonly VerifyRow[]; workspace: string | undefined },
): void {
  out.line``;
  const unsigned = wrong.filter(({ is }) => is === "as-locked").length;
  const differing = wrong.length - unsigned;
  const all = formatCount(rows.length, "skill");
  if (differing > 0) out.line`${differing} of ${all} ${differing === 1 ? "differs" : "differ"}`;
  if (unsigned > 0)
    out.line`${unsigned} of ${all} ${unsigned === 1 ? "is" : "are"} as locked, and signed by nobody you know`;
  const say = (line: string) => printHanging(out, "  ", [addWorkspaceOption(line, workspace)], { indent: 2 });
  const changed = wrong.filter(({ is }) => is === "changed");
  if (changed.length > 0) {
    const name = changed.length === 1 ? quoteIfNeeded(changed[0]?.name ?? "") : "NAME";
    say(`to see the difference, and agree to it or not: skillet trust ${name}`);
    const project = changed[0]?.place.isProject ? " --project" : "";
    if (!changed.some(({ isEdited: hasEdits, place }) => hasEdits || place.isAdopted))
      say(`to have what was agreed to: remove its folder, then run: skillet add --frozen${project} ${name}`);
  }
  const gone = wrong.filter(({ is }) => is === "missing");
  const adopted = gone.filter(({ place }) => place.isAdopted).map(({ name }) => quoteIfNeeded(name));
  if (adopted.length > 0) say(`to stop managing what is gone: skillet remove ${adopted.join(" ")}`);
  for (const [isProject, missing] of Map.groupBy(
    gone.filter(({ place }) => !place.isAdopted),
    ({ place }) => place.isProject,
  )) {
    const names = missing.length > 5 ? "" : missing.map(({ name }) => ` ${quoteIfNeeded(name)}`).join("");
    say(`to have what the lock says: skillet add --frozen${isProject ? " --project" : ""}${names}`);
  }
  if (wrong.some(({ is }) => is === "unlocked"))
    say("what is not in the lock waits for a word of yours before it is used: skillet trust NAME");
}
