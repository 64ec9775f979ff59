import { join } from "node:path";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { applySkillsDirChanges, digestInstalled, removeAdoptions, type SkillsDir } from "../../remote/skills-dir.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { hasUnknownBase, type LockedSkill } from "../../store/lock-file.ts";
import { quoteIfNeeded } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  createNotApprovedError,
  discoverForCommand,
  EXIT,
  formatExamples,
  PROJECT_HELP,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { formatSkillNames } from "../format.ts";
import { askLine, type ChosenSkills, chooseLockedSkills, openLockedDirs } from "../locked-skills.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";

/** `skillet remove`. */
export const removeCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Remove added skills and stop managing adopted ones")
      .argument("<skill...>", "Skills, or NAME@FOLDER if several folders have one")
      .option("--project", PROJECT_HELP)
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("--force", "Also remove skills with local changes")
      .option("--keep", "Stop managing adopted skills but keep their files")
      .option("-y, --yes", "Delete the files of adopted skills without asking")
      .addHelpText("after", formatExamples("skillet remove deploy", "skillet remove deploy --project")),
  run: removeSkills,
};

interface RemoveOptions {
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
  keep?: boolean;
  yes?: boolean;
}

/** A skill to remove: with its folder or, for an adopted one, only from the lock file. */
interface SkillRemoval {
  name: string;
  skillsDir: SkillsDir;
  entry: LockedSkill;
  digest: string | undefined;
  isKept: boolean;
}

/** Removes added skills and their lock entries. Adopted ones lose their entry, and their folder only if the user confirms. */
async function removeSkills({ io, options, args }: CommandContext<RemoveOptions>): Promise<number> {
  const chosen = chooseLockedSkills(
    openLockedDirs(resolveCommandEnvironment(io, options), options.project ?? false),
    args,
  );
  refuseAmbiguous(chosen);
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const all = chosen.flatMap(({ locked: { skillsDir }, entries }) =>
    entries.map(([name, entry]): SkillRemoval => {
      const isKept = entry.adopted === true && (options.keep ?? false);
      return { name, skillsDir, entry, digest: digestInstalled(join(skillsDir.folder, name)), isKept };
    }),
  );
  const going = await decideRemovals(all, { io, options, found });
  refuseEdited(going, options);
  if (!options.dryRun)
    for (const [skillsDir, group] of Map.groupBy(going, (one) => one.skillsDir))
      await applyRemovals(skillsDir, group, found);
  const [first] = chosen;
  if (options.json) {
    const removed = going.map(({ name }) => name);
    const kept = going.flatMap(({ name, isKept }) => (isKept ? name : []));
    const facts = { folder: first?.locked.skillsDir.folder, isDryRun: options.dryRun ?? false, removed };
    printJson(io.stdout, { ...facts, ...(kept.length > 0 ? { kept } : {}) });
  } else printRemoved(io, going, { isDryRun: options.dryRun ?? false, found });
  return EXIT.fine;
}

/** Throws if a name matches several skills: deletions are never guessed. */
function refuseAmbiguous(chosen: readonly ChosenSkills[]): void {
  const all = chosen.flatMap(({ locked, entries }) =>
    entries.map(([name]) => ({ name, shown: locked.skillsDir.shown })),
  );
  for (const [name, copies] of Map.groupBy(all, (one) => one.name)) {
    if (copies.length === 1) continue;
    throw new SkillError("skill-ambiguous", {
      message: `${copies.length} managed skills are named "${name}": in ${copies.map(({ shown }) => shown).join(", ")}`,
      fix: "name one",
      commands: copies.map(({ shown }) => `skillet remove ${quoteIfNeeded(`${name}@${shown}`)}`),
    });
  }
}

interface RemoveContext {
  io: CommandIo;
  options: RemoveOptions & { json?: boolean };
  found: DiscoverResult;
}

/** Asks whether to delete the folders of adopted skills, which skillet did not create. */
async function decideRemovals(
  all: readonly SkillRemoval[],
  { io, options, found }: RemoveContext,
): Promise<SkillRemoval[]> {
  const decided: SkillRemoval[] = [];
  for (const one of all) {
    const isOpen = one.entry.adopted && one.digest !== undefined && !options.keep && !options.yes && !options.dryRun;
    if (!isOpen) {
      decided.push(one);
      continue;
    }
    const shown = formatDisplayPath(join(one.skillsDir.folder, one.name), found.around);
    if (!io.ask)
      throw createNotApprovedError(
        io,
        `"${one.name}" was adopted; nothing was removed`,
        "add --keep to keep its files, or --yes to delete them",
      );
    const answer = await askLine(io, `Also delete ${shown}, which existed before skillet managed it? [y/N] `);
    decided.push({ ...one, isKept: !/^y(?:es)?$/i.test(answer) });
  }
  return decided;
}

function refuseEdited(going: readonly SkillRemoval[], { force }: RemoveOptions): void {
  const edited = going.filter(({ entry, digest, isKept }) => {
    if (isKept || digest === undefined) return false;
    return digest !== (hasUnknownBase(entry) ? entry : (entry.upstream ?? entry)).digest;
  });
  if (edited.length === 0 || force) return;
  const names = edited.map(({ name }) => name).join(", ");
  throw new SkillError("edited", {
    message: `You changed ${names} since ${edited.length === 1 ? "it was" : "they were"} added; nothing was removed`,
    fix: `--force removes ${edited.length === 1 ? "it" : "them"} with your changes: back them up first`,
  });
}

async function applyRemovals(
  skillsDir: SkillsDir,
  going: readonly SkillRemoval[],
  found: DiscoverResult,
): Promise<void> {
  const kept = going.filter(({ isKept }) => isKept).map(({ name }) => name);
  const deleted = going.filter(({ isKept }) => !isKept);
  if (deleted.length > 0) {
    const removed = Object.fromEntries(deleted.map(({ name, digest }) => [name, digest]));
    applySkillsDirChanges({ skillsDir, remove: removed, skilletHome: found.home });
    for (const { name } of deleted) await found.approvals.forget(name);
    found.trust.revoke(deleted.map(({ name }) => join(skillsDir.folder, name)));
  }
  removeAdoptions(skillsDir, kept, found.home);
}

function printRemoved(
  io: CommandIo,
  going: readonly SkillRemoval[],
  { isDryRun, found }: { isDryRun: boolean; found: DiscoverResult },
): void {
  const out = createPrinter(io.stdout, io.env);
  for (const [skillsDir, group] of Map.groupBy(going, (one) => one.skillsDir)) {
    const [kept, deleted] = [true, false].map((isKept) => group.filter((one) => one.isKept === isKept));
    if (deleted?.length) {
      const names = deleted.map(({ name }) => name).join(", ");
      out.line`${out.green("✓")} ${isDryRun ? "would be removed" : "removed"}: ${names} ${out.dim(`from ${skillsDir.shown}`)}`;
    }
    if (kept?.length) {
      const names = formatSkillNames(kept.map(({ name }) => name));
      out.line`${out.green("✓")} ${isDryRun ? "would no longer be managed" : "no longer managed"}: ${names} ${out.dim(`(files kept in ${skillsDir.shown}, still trusted)`)}`;
    }
  }
  const copies = Object.entries(found.installs.entries()).filter(([, { original = "" }]) =>
    going.some(({ name, skillsDir }) => original === join(skillsDir.folder, name, "SKILL.md")),
  );
  for (const [folder, { skill }] of copies) {
    out.line`  ${out.dim(`a copy is still in ${folder}: skillet export --remove ${skill}`)}`;
  }
}
