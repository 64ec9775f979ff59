import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import type { DiscoverResult } from "../../config/discover.ts";
import { pickProblem, type SkillError } from "../../errors/problem.ts";
import type { RefusedSkill } from "../../remote/candidate.ts";
import { needsTrust, withStagingFolder } from "../../remote/skills-dir.ts";
import { findUnmoved, type RefetchResult, refetchSkills, updateSkills } from "../../remote/update.ts";
import { hasUnknownBase, LOCAL_SOURCE, type LockedSkill } from "../../store/lock-file.ts";
import { omitUndefined } from "../../util/objects.ts";
import { compareText, formatCount } from "../../util/text.ts";
import { type AdditionsReport, createReview } from "../additions-report.ts";
import {
  ALLOW_PRIVATE_HELP,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  PROJECT_HELP,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { addWorkspaceOption, formatSkillNames, SHORT_COMMIT_LENGTH } from "../format.ts";
import {
  type ChosenSkills,
  chooseLockedSkills,
  describeNothingAdded,
  explainInterruption,
  fetchWithProgress,
  type LockedSkillsDir,
  openLockedDirs,
  printSkillErrors,
} from "../locked-skills.ts";
import { type CommandIo, createPrinter, printFix, printJson } from "../output.ts";

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
  run: updateFromSources,
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
async function updateFromSources({ io, options, args }: CommandContext<UpdateOptions>): Promise<number> {
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
    if (first && local.length === 0) printFix(error, describeNothingAdded(first.locked), { indent: 0 });
    if (options.json)
      printJson(io.stdout, { folder: first?.locked.skillsDir.folder, isDryRun, skills: [], problems: [] });
    return EXIT.fine;
  }
  const reports: AdditionsReport[] = [];
  const codes: number[] = [];
  for (const one of some) {
    const update = () => updateDir(one, { io, options, found, onReport: (facts) => reports.push(facts) });
    codes.push(await explainInterruption("nothing was updated", update));
  }
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
  onReport(facts: AdditionsReport): void;
}

async function updateDir({ locked, entries }: ChosenSkills, context: UpdateContext): Promise<number> {
  const { io, options, found } = context;
  const refused: RefusedSkill[] = [];
  const review = createReview({ ...context, verb: "Update", refused });
  const result = await updateSkills(entries, {
    environment: found.around,
    skillsDir: locked.skillsDir,
    conflicts: options.conflicts,
    allowPrivate: options.allowPrivateAddresses ?? false,
    onRefused: (name, error) => void refused.push({ name, error }),
    runFetch: (fetch) => fetchWithProgress(io, "the added skills", fetch),
    ...review.options,
  });
  return review.report(result);
}

/** `skillet outdated`. */
export const outdatedCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Check the sources of added skills for updates, with exit code 1 if there are any")
      .argument("[skill...]", "Skills. Defaults to all added skills.")
      .option("--project", PROJECT_HELP)
      .option("--allow-private-addresses", ALLOW_PRIVATE_HELP)
      .addHelpText("after", formatExamples("skillet outdated", "skillet outdated --json")),
  run: listOutdated,
};

/** Checks the sources of added skills for newer versions. */
async function listOutdated({
  io,
  options,
  args,
}: CommandContext<{ project?: boolean; allowPrivateAddresses?: boolean }>): Promise<number> {
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const environment = resolveCommandEnvironment(io, options);
  const chosen = chooseLockedSkills(openLockedDirs(environment, options.project ?? false), args);
  const asking = async (work: string) => {
    const rows = await fetchWithProgress(io, "the added skills", async (signal) => {
      const rows: OutdatedRow[] = [];
      for (const [index, { locked, entries }] of chosen.entries()) {
        const { folder, isAdopted } = locked.skillsDir;
        const own = join(work, `${index}`);
        mkdirSync(own, 0o700);
        const fetchOptions = {
          environment,
          work: own,
          env: io.env,
          signal,
          allowPrivate,
          isUntyped: needsTrust(locked.skillsDir),
        };
        const remote = entries.filter(([, { source }]) => source !== LOCAL_SOURCE);
        const same = await findUnmoved(remote, fetchOptions);
        const fetched = await refetchSkills(
          remote.filter(([name]) => !same.has(name)),
          fetchOptions,
        );
        for (const [name, entry] of entries) {
          const { commit, ref, source, path } = entry;
          const about = { name, source, path, ref, commit, ...(isAdopted ? { folder } : {}) };
          if (source === LOCAL_SOURCE) rows.push({ ...about, source: undefined, state: "no-source" });
          else if (same.has(name)) rows.push({ ...about, state: "up-to-date", ...omitUndefined({ now: commit }) });
          else rows.push({ ...about, ...compareWithSource(entry, fetched.get(name)) });
        }
      }
      return rows.sort((a, b) => compareText(a.name, b.name));
    });
    return reportOutdated(rows, { io, options, locked: chosen[0]?.locked });
  };
  return explainInterruption("nothing was compared", () => withStagingFolder(environment.skilletHome, asking));
}

type OutdatedRow = { name: string; source?: string | undefined; commit?: string | undefined } & OutdatedState;

interface OutdatedState {
  state: "up-to-date" | "outdated" | "unknown" | "no-source";
  now?: string;
  problem?: SkillError;
}

function reportOutdated(rows: readonly OutdatedRow[], { io, options, locked }: OutdatedReportContext): number {
  const old = rows.filter(({ state }) => state === "outdated");
  const failed = rows.flatMap(({ name, problem }) => (problem ? [{ name, error: problem }] : []));
  const known = rows.filter(({ state }) => state !== "no-source");
  if (options.json) printJson(io.stdout, { folder: locked?.skillsDir.folder, skills: rows.map(toOutdatedJson) });
  else {
    const out = createPrinter(io.stdout, io.env);
    const error = createPrinter(io.stderr, io.env);
    const widest = Math.min(32, Math.max(0, ...old.map(({ name }) => name.length)));
    for (const { name, commit, now } of old) {
      const change =
        commit && now
          ? `${commit.slice(0, SHORT_COMMIT_LENGTH)} → ${now.slice(0, SHORT_COMMIT_LENGTH)}`
          : "has changed";
      out.line`${out.yellow("!")} ${out.bold(name.padEnd(widest))}  ${change}`;
    }
    printSkillErrors(error, failed);
    if (rows.length === 0) {
      if (locked) printFix(error, describeNothingAdded(locked), { indent: 0 });
    } else if (old.length === 0 && failed.length === 0 && known.length > 0)
      out.line`${out.green("✓")} ${formatCount(known.length, "skill")} up to date`;
    else if (old.length > 0) {
      const command = `skillet update${options.project ? " --project" : ""} --dry-run`;
      out.line`  show the changes: ${addWorkspaceOption(command, options.workspace)}`;
    }
  }
  const local = rows.filter(({ state }) => state === "no-source").map(({ name }) => name);
  if (local.length > 0 && !options.json) {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.dim(`· without a source: ${formatSkillNames(local)} (skillet adopt NAME --from SOURCE)`)}`;
  }
  return old.length + failed.length > 0 ? EXIT.findings : EXIT.fine;
}

interface OutdatedReportContext {
  io: CommandIo;
  options: CommonOptions & { project?: boolean };
  locked: LockedSkillsDir | undefined;
}

function toOutdatedJson({ problem, now, ...row }: OutdatedRow): object {
  return { ...row, ...omitUndefined({ commitThere: now }), ...(problem ? { error: pickProblem(problem) } : {}) };
}

function compareWithSource(entry: LockedSkill, fetched: RefetchResult | undefined): OutdatedState {
  if (!fetched) return { state: "unknown" };
  if ("error" in fetched) return { state: "unknown", problem: fetched.error };
  const { prepared, supply } = fetched;
  const { commit } = supply.fetched;
  const { digest } = hasUnknownBase(entry) ? entry : (entry.upstream ?? entry);
  const state = prepared.digest === digest ? "up-to-date" : "outdated";
  return { state, ...(commit === undefined ? {} : { now: commit }) };
}
