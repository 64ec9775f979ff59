import { join } from "node:path";
import { checkSignature, formatSignature, type SignatureState } from "../../remote/signature.ts";
import { listUnlocked, needsTrust, type SkillsDir, type VerifyResult, verifySkill } from "../../remote/skills-dir.ts";
import { createFingerprintCache } from "../../store/lock-diff.ts";
import { hasLocalEdits, LOCK_FILE } from "../../store/lock-file.ts";
import { createSignerStore } from "../../store/signers.ts";
import { compareText, formatCount, formatNumber, quoteIfNeeded } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { toSignatureJson } from "../format.ts";
import { findLockedSkills, type LockedSkillsDir, openDistinctLockedDirs, printLockChanges } from "../locked-skills.ts";
import { type CommandIo, createPrinter, type Printer, printFix, printHanging, printJson } from "../output.ts";
import { createWaitIndicator } from "../progress.ts";

/** `skillet verify`. */
export const verifyCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Compare added skills with the lock file, with exit code 1 if one differs")
      .argument("[skill...]", "Skills. Defaults to all added skills.")
      .option("--project", "Verify only the skills of this workspace")
      .option("--require-signature", "Require the signature of a known signer (`skillet signers`)")
      .option("--full", "Read every byte, also of files with an unchanged fingerprint")
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

/** A verified skill. `isEdited`: the approved content differs from the source. */
type VerifyRow = VerifyResult & { skillsDir: SkillsDir; isEdited?: boolean; signature?: SignatureState };

/** Compares added skills with their lock files: the user's and the workspace's. */
async function verifyAddedSkills({ io, options, args }: CommandContext<VerifyOptions>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const places = openDistinctLockedDirs(environment, options.project ? ["project"] : ["user", "project"]);
  const stamps = createFingerprintCache(environment.skilletHome);
  const signers = createSignerStore(environment.skilletHome);
  const waiting = createWaitIndicator(io, "comparing with the lock file");
  const rows = places.flatMap((locked): VerifyRow[] => {
    const { skillsDir } = locked;
    const entries = chooseVerified(locked, args, places);
    const verified = entries.map(([name, entry], index) => {
      waiting.at(`comparing ${formatNumber(index + 1)} of ${formatCount(entries.length, "skill")} with the lock file`);
      const hasEdits = hasLocalEdits(entry);
      const one = { ...verifySkill(skillsDir, name, entry, options.full ? undefined : stamps), isEdited: hasEdits };
      // Approved edits break a signature; that is expected.
      if (!options.requireSignature && !(entry.requireSignature && !hasEdits)) return one;
      const folder = join(skillsDir.folder, name);
      return { ...one, signature: checkSignature({ folder, name, signers }) };
    });
    // Other skills in a project's folder belong to the project.
    const unlocked =
      needsTrust(skillsDir) || args.length > 0
        ? []
        : listUnlocked(skillsDir, new Set(locked.skills.map(([name]) => name)));
    return [...verified, ...unlocked.map((name) => ({ name, is: "unlocked" as const }))].map((row) => ({
      ...row,
      skillsDir,
    }));
  });
  waiting.end();
  rows.sort((a, b) => Number(a.skillsDir.isProject) - Number(b.skillsDir.isProject) || compareText(a.name, b.name));
  const wrong = rows.filter(isUnverified);
  if (options.json) {
    const skills = rows.map(({ skillsDir: { folder, isProject }, ...row }) => ({
      ...toVerifyRowJson(row),
      folder,
      isProject,
    }));
    printJson(io.stdout, { skills, wrong: wrong.length });
  } else printVerified(io, rows, wrong, options.workspace);
  return wrong.length > 0 ? EXIT.findings : EXIT.fine;
}

/** Formats a result for `--json`. */
export function toVerifyJson({ name, is, ...more }: VerifyResult): object {
  return { name, state: is, ...more };
}

function toVerifyRowJson({ signature, ...row }: Omit<VerifyRow, "skillsDir">): object {
  return { ...toVerifyJson(row as VerifyResult), ...(signature ? { signature: toSignatureJson(signature) } : {}) };
}

/** Returns the entries of the named skills. Throws if a name is in no folder. */
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
  return is !== "unchanged" || (signature !== undefined && signature.state !== "valid");
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
    const isUnsigned = row.is === "unchanged"; // Then the signature is the only problem.
    const what = isUnsigned ? formatSignature(row.signature) : formatVerifyState(row);
    out.line`${out.red("✗")} ${out.bold(row.name)} ${what} ${out.dim(`(${row.skillsDir.shown})`)}`;
    if (row.is === "changed") printLockChanges(out, row.changes);
    if (row.is === "unreadable") printHanging(out, "    ", [row.reason], { indent: 4 });
    if (!isUnsigned && row.signature && row.signature.state !== "valid")
      out.line`    it ${formatSignature(row.signature)}`;
  }
  if (wrong.length > MAX_SHOWN) out.line`${out.dim(`… and ${wrong.length - MAX_SHOWN} more: --json shows all`)}`;
  if (rows.length === 0)
    createPrinter(io.stderr, io.env).line`no skills were added yet; add some with \`skillet add SOURCE\``;
  else if (wrong.length === 0)
    out.line`${out.green("✓")} ${formatCount(rows.length, "skill")} ${rows.length === 1 ? "matches" : "match"} the lock file`;
  else printVerifyNextSteps(out, rows, { wrong, workspace });
}

function formatVerifyState({ is }: VerifyRow): string {
  return is === "unchanged" ? "" : VERIFY_DESCRIPTIONS[is];
}

const VERIFY_DESCRIPTIONS: Record<Exclude<VerifyRow["is"], "unchanged">, string> = {
  changed: "does not match its lock file",
  missing: "is in the lock file, but missing",
  unlocked: `is not in ${LOCK_FILE}`,
  unreadable: "cannot be compared",
};

function printVerifyNextSteps(
  out: Printer,
  rows: readonly VerifyRow[],
  { wrong, workspace }: { wrong: readonly VerifyRow[]; workspace: string | undefined },
): void {
  out.line``;
  const unsigned = wrong.filter(({ is }) => is === "unchanged").length;
  const differing = wrong.length - unsigned;
  const all = formatCount(rows.length, "skill");
  if (differing > 0) out.line`${differing} of ${all} ${differing === 1 ? "differs" : "differ"}`;
  if (unsigned > 0)
    out.line`${unsigned} of ${all} ${unsigned === 1 ? "is" : "are"} as locked, but not signed by a known signer`;
  const printStep = (fix: string, command: string) => printFix(out, { fix, commands: [command] }, { workspace });
  const changed = wrong.filter(({ is }) => is === "changed");
  if (changed.length > 0) {
    const name = changed.length === 1 ? quoteIfNeeded(changed[0]?.name ?? "") : "NAME";
    printStep("to review the difference", `skillet trust ${name}`);
    const project = changed[0]?.skillsDir.isProject ? " --project" : "";
    if (!changed.some(({ isEdited: hasEdits, skillsDir }) => hasEdits || skillsDir.isAdopted))
      printStep(
        "to restore the approved version, remove its folder, then run",
        `skillet add --frozen${project} ${name}`,
      );
  }
  const gone = wrong.filter(({ is }) => is === "missing");
  const adopted = gone.filter(({ skillsDir }) => skillsDir.isAdopted).map(({ name }) => quoteIfNeeded(name));
  if (adopted.length > 0) printStep("to stop managing missing skills", `skillet remove ${adopted.join(" ")}`);
  for (const [isProject, missing] of Map.groupBy(
    gone.filter(({ skillsDir }) => !skillsDir.isAdopted),
    ({ skillsDir }) => skillsDir.isProject,
  )) {
    const names = missing.length > 5 ? "" : missing.map(({ name }) => ` ${quoteIfNeeded(name)}`).join("");
    printStep("to restore the locked version", `skillet add --frozen${isProject ? " --project" : ""}${names}`);
  }
  if (wrong.some(({ is }) => is === "unlocked"))
    printStep("skills that are not in the lock file need your approval", "skillet trust NAME");
}
