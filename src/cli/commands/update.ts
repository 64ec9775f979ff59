import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import type { PlannedAddition } from "../../remote/add.ts";
import { createProvenance } from "../../remote/fetch-source.ts";
import { needsTrust, withStagingFolder } from "../../remote/skills-dir.ts";
import { fetchBases, planUpdate, type RefetchResult, refetchSkills } from "../../remote/update.ts";
import { createBlobCache } from "../../store/lock-approval.ts";
import { LOCAL_SOURCE, type LockedSkill } from "../../store/lock-file.ts";
import { compareText } from "../../util/text.ts";
import { type AdditionsReport, reviewAndApply } from "../apply-additions.ts";
import {
  ALLOW_PRIVATE_HELP,
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  PROJECT_HELP,
} from "../command-definition.ts";
import { discoverForCommand, requireConfiguration, resolveCommandEnvironment } from "../command-host.ts";
import { formatSkillNames } from "../format.ts";
import {
  type ChosenSkills,
  chooseLockedSkills,
  explainInterruption,
  fetchWithProgress,
  formatNothingAdded,
  type LockedSkillsDir,
  openLockedDirs,
} from "../locked-skills.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";

/** `skillet update`. */
export const updateCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Update added and adopted skills and keep your changes")
      .argument("[skill...]", "Skills. Defaults to all added skills.")
      .option("--project", PROJECT_HELP)
      .option("-y, --yes", "Approve instructions and code without asking")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("--show", "Show every changed line")
      .option("--require-signature", "Accept only skills signed by a known signer (`skillet signers`)")
      .option("--allow-private-addresses", ALLOW_PRIVATE_HELP)
      .addOption(
        new Option("--conflicts <whose>", "Keep this side if you and the source changed the same lines").choices([
          "mine",
          "theirs",
        ]),
      )
      .addHelpText(
        "after",
        formatExamples("skillet update --dry-run", "skillet update deploy", "skillet update deploy --conflicts mine"),
      ),
  run: updateSkills,
};

interface UpdateOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
  allowPrivateAddresses?: boolean;
  conflicts?: "mine" | "theirs";
}

/** Updates added and adopted skills. User changes are kept; on a conflict nothing changes, and it is shown. */
async function updateSkills({ io, options, args }: CommandContext<UpdateOptions>): Promise<number> {
  const places = openLockedDirs(resolveCommandEnvironment(io, options), options.project ?? false);
  const all = chooseLockedSkills(places, args);
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  // Skills without a source are skipped unless they are named.
  const isMeant = ([, { source }]: LockedSkillsDir["skills"][number]) => args.length > 0 || source !== LOCAL_SOURCE;
  const chosen = all.map(({ locked, entries }) => ({ locked, entries: entries.filter(isMeant) }));
  const isDryRun = options.dryRun ?? false;
  const [first] = chosen;
  const local = all.flatMap(({ entries }) => entries.filter((entry) => !isMeant(entry)).map(([name]) => name));
  const error = createPrinter(io.stderr, io.env);
  if (local.length > 0)
    error.line`${error.dim(`· without a source: ${formatSkillNames(local)} (skillet adopt NAME --from SOURCE)`)}`;
  const some = chosen.filter(({ entries }) => entries.length > 0);
  if (!first || some.length === 0) {
    if (first && local.length === 0) error.line`${formatNothingAdded(first.locked)}`;
    if (options.json) printJson(io.stdout, { folder: first?.locked.place.folder, isDryRun, skills: [], problems: [] });
    return EXIT.fine;
  }
  const reports: AdditionsReport[] = [];
  const codes: number[] = [];
  for (const one of some)
    codes.push(await updateDir(one, { io, options, found, report: (facts) => reports.push(facts) }));
  if (options.json) printJson(io.stdout, mergeReports(reports));
  return Math.max(...codes);
}

/** Merges the reports of all folders. Entries that are not in the first folder name theirs. */
function mergeReports([first, ...others]: readonly AdditionsReport[]): AdditionsReport | undefined {
  if (!first) return undefined;
  const placed = (facts: readonly object[], folder: string) => facts.map((fact) => ({ ...fact, folder }));
  return {
    ...first,
    skills: sortByName([...first.skills, ...others.flatMap(({ skills, folder }) => placed(skills, folder))]),
    problems: sortByName([...first.problems, ...others.flatMap(({ problems, folder }) => placed(problems, folder))]),
  };
}

function sortByName(facts: readonly object[]): object[] {
  const nameOf = (fact: object) => String("name" in fact ? fact.name : "");
  return facts.toSorted((a, b) => compareText(nameOf(a), nameOf(b)));
}

interface UpdateContext {
  io: CommandIo;
  options: CommandContext<UpdateOptions>["options"];
  found: DiscoverResult;
  report(facts: AdditionsReport): void;
}

function updateDir({ locked, entries }: ChosenSkills, { io, options, found, report }: UpdateContext): Promise<number> {
  const { place } = locked;
  const { around, home } = found;
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const updating = async (work: string) => {
    const { fetched, bases } = await fetchWithProgress(io, "the added skills", async (signal) => {
      const fetchOptions = { around, work, env: io.env, signal, allowPrivate, isUntyped: needsTrust(place) };
      const fetched = await refetchSkills(entries, fetchOptions);
      const before = join(work, "before");
      mkdirSync(before, 0o700);
      return { fetched, bases: await fetchBases(entries, { ...fetchOptions, work: before }) };
    });
    const problems: { name: string; error: SkillError }[] = [];
    const plan = (name: string, entry: LockedSkill, refetched: RefetchResult | undefined): PlannedAddition[] => {
      try {
        if (!refetched || "error" in refetched) throw refetched?.error;
        const { prepared, supply } = refetched;
        const provenance = createProvenance(supply.fetched, prepared.path, { place, around });
        const originals = createBlobCache(home);
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
    return reviewAndApply(additions, { io, options, found, place, work, verb: "Update", problems, report });
  };
  return explainInterruption("nothing was updated", () => withStagingFolder(home, updating));
}
