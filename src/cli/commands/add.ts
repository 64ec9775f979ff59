import { Option } from "commander";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { addSkills, type RestoreResult, restoreSkills, type SourceChoice } from "../../remote/add.ts";
import {
  createCandidateCheck,
  type RefusedSkill,
  type RemoteCandidate,
  selectDistinct,
  selectOutermost,
} from "../../remote/candidate.ts";
import { fetchListing } from "../../remote/fetch-source.ts";
import type { RunFetch } from "../../remote/remote-source.ts";
import { type SkillsDir, withStagingFolder } from "../../remote/skills-dir.ts";
import { parseSourceAddress } from "../../remote/source-address.ts";
import { NATIVE_CLIENT_NAMES } from "../../skill/clients.ts";
import { stopsLoading } from "../../skill/skill.ts";
import { mapAsync } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { createReview, printListing, toVerdictJson } from "../additions-report.ts";
import {
  ALLOW_PRIVATE_HELP,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  PROJECT_HELP,
  printDiagnostic,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { addWorkspaceOption, formatSomeNames } from "../format.ts";
import {
  askLine,
  describeNothingAdded,
  explainInterruption,
  fetchWithProgress,
  findLockedSkills,
  openLockedDir,
  printLockChanges,
  printSkillErrors,
} from "../locked-skills.ts";
import { type CommandIo, createPrinter, printHanging, printJson } from "../output.ts";
import { toVerifyJson } from "./verify.ts";

/** `skillet add`. */
export const addCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Add skills from a folder, an archive, a repository or a website")
      .argument("[source]", "./folder, file.zip, file.tar.gz, owner/repo, https://…, git@…, with //FOLDER and #REF")
      .argument("[name...]", "The skills to add, if the source has several")
      .option("-a, --all", "Add all skills of the source")
      .option("-l, --list", "List the skills of the source with their scan findings, without adding any")
      .option("-t, --to <client,...>", "Also copy the skills into the folders of these clients")
      .option("--project", PROJECT_HELP)
      .option("-y, --yes", "Approve instructions and code without asking")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("--show", "Show all instructions and code, line by line")
      .option("--force", "Replace skills that were added from another source")
      .option("--require-signature", "Accept only skills signed by a known signer (`skillet signers`)")
      .option("--allow-private-addresses", ALLOW_PRIVATE_HELP)
      .addOption(new Option("--frozen", "Add exactly the locked versions or fail, for CI").conflicts(["all", "force"]))
      .addHelpText(
        "after",
        formatExamples(
          "skillet add acme/skills",
          "skillet add acme/skills --list",
          "skillet add acme/skills review --dry-run --show",
          "skillet add https://git.example.com/team/skills.git//review#v2 --project",
          "skillet add ./deploy.skill",
          "skillet add https://skills.example.com --all",
          "skillet add --frozen --project",
        ),
      ),
  run: addFromSource,
};

interface AddOptions {
  all?: boolean;
  list?: boolean;
  /** Clients that also get a copy. */
  to?: string;
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  force?: boolean;
  show?: boolean;
  requireSignature?: boolean;
  frozen?: boolean;
  allowPrivateAddresses?: boolean;
}

/** Adds skills from a remote source: fetch, review, approve, write, lock. */
async function addFromSource(context: CommandContext<AddOptions>): Promise<number> {
  const { io, options, args } = context;
  if (options.frozen) return addFrozen(context);
  const [source, ...names] = args;
  if (source === undefined) {
    throw new SkillError("usage", {
      message: "No source was named",
      fix: "name a folder, an archive, a repository or a website, or add the locked skills with --frozen",
      commands: ["skillet add owner/repo"],
    });
  }
  if (options.to !== undefined) checkClients(options.to, options.json ?? false);
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const runFetch: RunFetch = (fetch) => fetchWithProgress(io, source, fetch);
  if (options.list) return explainInterruption("nothing was added", () => listSource(context, runFetch));
  const refused: RefusedSkill[] = [];
  return explainInterruption("nothing was added", async () => {
    const review = createReview({ io, options, found, verb: "Add", refused });
    const result = await addSkills({
      ...{ source, names, cwd: io.cwd, workspace: found.workspace, env: io.env },
      isProject: options.project ?? false,
      force: options.force ?? false,
      allowPrivate: options.allowPrivateAddresses ?? false,
      choose: (offer) => chooseCandidates(io, offer, { found, options, refused }),
      onRefused: (name, error) => void refused.push({ name, error }),
      runFetch,
      ...review.options,
    });
    const code = await review.report(result);
    if (options.to === undefined || options.dryRun) return code;
    const added = result.additions.flatMap(({ name, is }) => (is === "conflict" ? [] : name));
    return Math.max(code, await exportAdded(context, options.to, added));
  });
}

/** Throws a SkillError for an unknown client, before anything is fetched. */
function checkClients(to: string, isJson: boolean): void {
  const unknown = to.split(",").find((name) => !NATIVE_CLIENT_NAMES.some((client) => client === name.trim()));
  if (unknown !== undefined) {
    throw new SkillError("usage", {
      message: `Unknown client "${unknown}"`,
      fix: `clients: ${NATIVE_CLIENT_NAMES.join(", ")}`,
    });
  }
  if (isJson) {
    throw new SkillError("usage", {
      message: "--to does not support --json",
      fix: "omit --to, and afterwards run",
      commands: ["skillet export NAME --to CLIENT --json"],
    });
  }
}

/** Copies added skills into clients' folders, as `skillet export` does. */
async function exportAdded(
  { io, options }: CommandContext<AddOptions>,
  to: string,
  names: readonly string[],
): Promise<number> {
  if (names.length === 0) return EXIT.fine;
  const { workspace, project } = options;
  const { exportSkills } = await import("./export.ts");
  return exportSkills({ io, options: { to, ...omitUndefined({ workspace, project }) }, args: [...names] });
}

/** Prints every skill of a source with its verdict, and adds nothing. */
function listSource({ io, options, args }: CommandContext<AddOptions>, runFetch: RunFetch): Promise<number> {
  const [source = "", ...names] = args;
  const environment = resolveCommandEnvironment(io, options);
  const address = parseSourceAddress(source, { cwd: io.cwd, home: environment.home });
  const allowPrivate = options.allowPrivateAddresses ?? false;
  return withStagingFolder(environment.skilletHome, async (work) => {
    const { listing: offer, fetched } = await runFetch((signal) =>
      fetchListing(address, work, { env: io.env, names, allowPrivate, ...omitUndefined({ signal }) }),
    );
    const check = createCandidateCheck(fetched, work);
    const candidates = selectOutermost(offer.candidates);
    if (options.json) {
      printJson(
        io.stdout,
        await mapAsync(candidates, async (candidate) => toVerdictJson(candidate, await check(candidate))),
      );
      return EXIT.fine;
    }
    const out = createPrinter(io.stdout, io.env);
    await printListing(out, candidates, { check, isNumbered: false });
    out.line`${formatCount(candidates.length, "skill")}`;
    for (const note of offer.notes)
      printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
    return EXIT.fine;
  });
}

interface ChooseContext {
  found: DiscoverResult;
  options: AddOptions & CommonOptions;
  /** Collects the skills that cannot be added, so that the others can. */
  refused: RefusedSkill[];
}

/** Returns the chosen skills of the source. Throws a SkillError if none was chosen in non-interactive use. */
async function chooseCandidates(
  io: CommandIo,
  supply: SourceChoice,
  { found, options, refused }: ChooseContext,
): Promise<readonly RemoteCandidate[]> {
  const { candidates } = supply.listing;
  printBrokenSkills(io, supply, found);
  const outer = selectOutermost(candidates);
  const distinctNames = [...new Set(outer.map(({ skill }) => skill.name))];
  if (distinctNames.length < 2 || options.all) return outer;
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `The source has ${formatCount(distinctNames.length, "skill")}, and none was named`,
      fix: `name some, or add --all: ${formatSomeNames(distinctNames)}; --list shows the scan findings of each`,
    });
  }
  const others = candidates.filter((one) => !outer.includes(one) && !distinctNames.includes(one.skill.name));
  const inside = [...new Map(others.map((one) => [one.skill.name, one])).values()];
  const distinct = selectDistinct(outer, (one) => void refused.push(one));
  return askForCandidates(io, { outer: distinct, inside, check: supply.check });
}

function printBrokenSkills(io: CommandIo, { listing: offer, fetched }: SourceChoice, found: DiscoverResult): void {
  const error = createPrinter(io.stderr, io.env);
  const broken = offer.diagnostics.filter(stopsLoading);
  const environment = { ...found.around, workspace: fetched.folder };
  for (const diagnostic of broken.slice(0, 10)) printDiagnostic(error, diagnostic, environment);
  if (broken.length > 10) error.line`  ${error.dim(`… and ${broken.length - 10} more`)}`;
}

const MAX_LISTED_SKILLS = 60;

interface CandidateQuestion {
  outer: readonly RemoteCandidate[];
  /** Skills nested in others. They come with these, and can be added separately. */
  inside: readonly RemoteCandidate[];
  check: SourceChoice["check"];
}

async function askForCandidates(
  io: CommandIo,
  { outer, inside, check }: CandidateQuestion,
): Promise<RemoteCandidate[]> {
  const out = createPrinter(io.stderr, io.env);
  const candidates = [...outer, ...inside];
  await printListing(out, candidates.slice(0, MAX_LISTED_SKILLS), { check, isNumbered: true });
  const more = candidates.length - MAX_LISTED_SKILLS;
  if (more > 0) out.line`${out.dim(`… and ${more} more: type their names; skillet add SOURCE --list has all`)}`;
  for (let left = MAX_ANSWERS; left > 0; left--) {
    const answer = await askLine(io, "Which? Numbers (1 3-5) or names, or `all`: ");
    const chosen = answer === "" ? [] : /^all$/i.test(answer) ? [...outer] : parseCandidateAnswer(answer, candidates);
    if (typeof chosen === "string") out.line`${out.red("✗")} "${truncateLine(chosen, 64)}" is not one of them`;
    else if (chosen.length > 0) return chosen;
    else break;
  }
  throw new SkillError("not-confirmed", { message: "nothing was chosen; nothing was added" });
}

const MAX_ANSWERS = 3;

/** Returns the chosen skills in order, or the first word that matches none. */
function parseCandidateAnswer(answer: string, candidates: readonly RemoteCandidate[]): RemoteCandidate[] | string {
  const chosen = new Set<RemoteCandidate>();
  for (const word of answer.split(/[\s,]+/).filter((part) => part !== "")) {
    const named = candidates.find(({ skill }) => skill.name === word);
    const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(word) ?? [];
    const numbered = first === undefined ? [] : candidates.slice(Math.max(0, Number(first) - 1), Number(last));
    const meant = named ? [named] : Number(first) > 0 ? numbered : [];
    if (meant.length === 0) return word;
    for (const one of meant) chosen.add(one);
  }
  return candidates.filter((candidate) => chosen.has(candidate));
}

/** Restores the skills of a lock file, and nothing else. */
async function addFrozen({ io, options, args }: CommandContext<AddOptions>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const locked = openLockedDir(environment, options.project ?? false);
  const { skillsDir } = locked;
  const entries = findLockedSkills(locked, args);
  if (entries.length === 0)
    throw new SkillError("lock-missing", { message: "There is no lock file", ...describeNothingAdded(locked) });
  const { requireSignature, dryRun: isDryRun, allowPrivateAddresses: allowPrivate } = options;
  return explainInterruption("nothing was added", async () => {
    const restoring = { environment, skillsDir, requireSignature, isDryRun, allowPrivate };
    const runFetch: RunFetch = (fetch) => fetchWithProgress(io, "the locked skills", fetch);
    const result = await restoreSkills(entries, { ...restoring, runFetch });
    return reportFrozen(result, { io, options, skillsDir, count: entries.length });
  });
}

interface FrozenReportContext {
  io: CommandIo;
  options: CommandContext<AddOptions>["options"];
  skillsDir: SkillsDir;
  /** The number of locked skills. */
  count: number;
}

function reportFrozen({ wrong, added, problems }: RestoreResult, context: FrozenReportContext): number {
  const { io, options, skillsDir, count: all } = context;
  if (options.json) {
    printJson(io.stdout, {
      folder: skillsDir.folder,
      isDryRun: options.dryRun ?? false,
      added,
      wrong: wrong.map(toVerifyJson),
      problems: problems.map(({ name, error }) => ({ name, ...error.problem })),
    });
  }
  const error = createPrinter(io.stderr, io.env);
  for (const one of wrong) {
    error.line`${error.red("✗")} ${error.bold(one.name)} does not match its lock file`;
    if (one.is === "changed") printLockChanges(error, one.changes);
    if (one.is === "unreadable") error.line`    ${one.reason}`;
  }
  if (wrong.length > 0) {
    const command = wrong.length === 1 ? `skillet trust ${wrong[0]?.name}` : "skillet trust NAME";
    error.line`  nothing was added; show the difference: ${addWorkspaceOption(command, options.workspace)}`;
  }
  printSkillErrors(error, problems);
  if (wrong.length + problems.length > 0) return EXIT.findings;
  if (!options.json) {
    const out = createPrinter(io.stdout, io.env);
    const how = added.length === 0 ? "all present" : `${added.length} ${options.dryRun ? "would be added" : "added"}`;
    out.line`${out.green("✓")} ${formatCount(all, "skill")} ${all === 1 ? "matches" : "match"} the lock file: ${how}`;
  }
  return EXIT.fine;
}
