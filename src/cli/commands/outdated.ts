import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pickProblem, type SkillError } from "../../errors/problem.ts";
import { needsTrust, withStagingFolder } from "../../remote/skills-dir.ts";
import { findUnmoved, type RefetchResult, refetchSkills } from "../../remote/update.ts";
import { hasUnknownBase, LOCAL_SOURCE, type LockedSkill } from "../../store/lock-file.ts";
import { omitUndefined } from "../../util/objects.ts";
import { compareText, formatCount } from "../../util/text.ts";
import {
  ALLOW_PRIVATE_HELP,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
  PROJECT_HELP,
} from "../command-definition.ts";
import { resolveCommandEnvironment } from "../command-host.ts";
import { addWorkspaceOption, formatSkillNames, SHORT_COMMIT_LENGTH } from "../format.ts";
import {
  chooseLockedSkills,
  explainInterruption,
  fetchWithProgress,
  formatNothingAdded,
  type LockedSkillsDir,
  openLockedDirs,
  printSkillErrors,
} from "../locked-skills.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";

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
  const around = resolveCommandEnvironment(io, options);
  const chosen = chooseLockedSkills(openLockedDirs(around, options.project ?? false), args);
  const asking = async (work: string) => {
    const rows = await fetchWithProgress(io, "the added skills", async (signal) => {
      const rows: OutdatedRow[] = [];
      for (const [index, { locked, entries }] of chosen.entries()) {
        const { folder, isAdopted } = locked.place;
        const own = join(work, `${index}`);
        mkdirSync(own, 0o700);
        const fetchOptions = {
          around,
          work: own,
          env: io.env,
          signal,
          allowPrivate,
          isUntyped: needsTrust(locked.place),
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
  return explainInterruption("nothing was compared", () => withStagingFolder(around.skilletHome, asking));
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
  if (options.json) printJson(io.stdout, { folder: locked?.place.folder, skills: rows.map(toOutdatedJson) });
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
    if (rows.length === 0) error.line`${locked ? formatNothingAdded(locked) : ""}`;
    else if (old.length === 0 && failed.length === 0 && known.length > 0)
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
