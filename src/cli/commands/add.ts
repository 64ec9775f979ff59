import { join } from "node:path";
import { Option } from "commander";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { createNoSkillsError, planAdditions } from "../../remote/add.ts";
import {
  findCandidate,
  type RefusedSkill,
  type RemoteCandidate,
  selectDistinct,
  selectOutermost,
} from "../../remote/candidate.ts";
import { type FetchedListing, fetchListing } from "../../remote/fetch-source.ts";
import { checkSignature, createNotSignedError } from "../../remote/signature.ts";
import {
  applySkillsDirChanges,
  readLockedSkills,
  type SkillWrite,
  type VerifyResult,
  verifySkill,
  withStagingFolder,
} from "../../remote/skills-dir.ts";
import { parseSourceAddress } from "../../remote/source-address.ts";
import { type RefetchResult, refetchSkills } from "../../remote/update.ts";
import { NATIVE_CLIENT_NAMES } from "../../skill/clients.ts";
import { stopsLoading } from "../../skill/diagnostics.ts";
import { createFingerprintCache } from "../../store/lock-diff.ts";
import type { LockedSkill } from "../../store/lock-file.ts";
import { createSignerStore, type SignerStore } from "../../store/signers.ts";
import { omitUndefined } from "../../util/objects.ts";
import { mapAsync } from "../../util/sequential.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import {
  createListingVerdicts,
  type ListingVerdicts,
  printListing,
  reviewAndApply,
  toVerdictJson,
} from "../apply-additions.ts";
import {
  ALLOW_PRIVATE_HELP,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
  PROJECT_HELP,
  ReportedError,
} from "../command-definition.ts";
import {
  discoverForCommand,
  printDiagnostic,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-host.ts";
import { addWorkspaceOption, formatSomeNames } from "../format.ts";
import {
  askLine,
  explainInterruption,
  fetchWithProgress,
  findLockedSkills,
  formatNothingAdded,
  type LockedSkillsDir,
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
  const { skillsDir } = openLockedDir(resolveCommandEnvironment(io, options), options.project ?? false);
  const locked = readLockedSkills(skillsDir);
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const { around } = found;
  const address = parseSourceAddress(source, { cwd: io.cwd, home: around.home });
  const adding = async (work: string) => {
    const allowPrivate = options.allowPrivateAddresses ?? false;
    const supply = await fetchWithProgress(io, source, (signal) =>
      fetchListing(address, work, { env: io.env, names, signal, allowPrivate }),
    );
    if (options.list) return await listSource(io, supply, { options, work });
    const refused: RefusedSkill[] = [];
    const verdicts = createListingVerdicts(supply.fetched, work);
    const chosen = await chooseCandidates(io, supply, names, { found, options, refused, verdicts });
    const planning = { supply, skillsDir, around, work, locked, isForced: options.force ?? false };
    const { additions, problems } = await planAdditions(chosen, planning);
    refused.push(...problems);
    const [first] = refused;
    if (first && additions.length === 0) throw printNothingAddable(io, refused);
    const { notes } = supply.listing;
    const code = await reviewAndApply(additions, {
      io,
      options,
      found,
      skillsDir,
      work,
      verb: "Add",
      notes,
      problems: refused,
    });
    if (options.to === undefined || options.dryRun) return code;
    const added = additions.flatMap(({ name, is }) => (is === "conflict" ? [] : name));
    return Math.max(code, await exportAdded(context, options.to, added));
  };
  return explainInterruption("nothing was added", () => withStagingFolder(around.skilletHome, adding));
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
async function listSource(
  io: CommandIo,
  { listing: offer, fetched }: FetchedListing,
  { options, work }: { options: AddOptions & CommonOptions; work: string },
): Promise<number> {
  const verdicts = createListingVerdicts(fetched, work);
  const candidates = selectOutermost(offer.candidates);
  if (options.json) {
    printJson(
      io.stdout,
      await mapAsync(candidates, async (candidate) => toVerdictJson(candidate, await verdicts.of(candidate))),
    );
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  await printListing(out, candidates, { verdicts, isNumbered: false });
  out.line`${formatCount(candidates.length, "skill")}`;
  for (const note of offer.notes) printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
  return EXIT.fine;
}

/** Prints why none of the chosen skills can be added, and returns the error. */
function printNothingAddable(io: CommandIo, refused: readonly RefusedSkill[]): ReportedError {
  const error = createPrinter(io.stderr, io.env);
  printSkillErrors(error, refused);
  const [first] = refused;
  const { code = "usage", message = "", ...problem } = first?.error.problem ?? {};
  if (refused.length === 1) return new ReportedError(code, { message, ...problem });
  const rest = `none of ${refused.length} skills can be added`;
  error.line`${rest}`;
  return new ReportedError(code, { message, fix: rest });
}

interface ChooseContext {
  found: DiscoverResult;
  options: AddOptions & CommonOptions;
  /** Collects the skills that cannot be added, so that the others can. */
  refused: RefusedSkill[];
  verdicts: ListingVerdicts;
}

/** Returns the chosen skills of the source. Throws a SkillError if none was chosen in non-interactive use. */
async function chooseCandidates(
  io: CommandIo,
  supply: FetchedListing,
  names: readonly string[],
  choosing: ChooseContext,
): Promise<RemoteCandidate[]> {
  const { listing: offer } = supply;
  const { candidates } = offer;
  const refuse = (one: RefusedSkill) => void choosing.refused.push(one);
  if (names.length > 0) return selectDistinct(names.map((name) => findCandidate(name, offer)));
  printBrokenSkills(io, supply, choosing);
  if (candidates.length === 0) throw createNoSkillsError(supply);
  const outer = selectOutermost(candidates);
  const distinctNames = [...new Set(outer.map(({ skill }) => skill.name))];
  if (distinctNames.length === 1 || choosing.options.all) return selectDistinct(outer, refuse);
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `The source has ${formatCount(distinctNames.length, "skill")}, and none was named`,
      fix: `name some, or add --all: ${formatSomeNames(distinctNames)}; --list shows the scan findings of each`,
    });
  }
  const others = candidates.filter((one) => !outer.includes(one) && !distinctNames.includes(one.skill.name));
  const inside = [...new Map(others.map((one) => [one.skill.name, one])).values()];
  return askForCandidates(io, { outer: selectDistinct(outer, refuse), inside, verdicts: choosing.verdicts });
}

function printBrokenSkills(io: CommandIo, { listing: offer, fetched }: FetchedListing, { found }: ChooseContext): void {
  const error = createPrinter(io.stderr, io.env);
  const broken = offer.diagnostics.filter(stopsLoading);
  const around = { ...found.around, workspace: fetched.folder };
  for (const diagnostic of broken.slice(0, 10)) printDiagnostic(error, diagnostic, around);
  if (broken.length > 10) error.line`  ${error.dim(`… and ${broken.length - 10} more`)}`;
}

const MAX_LISTED_SKILLS = 60;

interface CandidateQuestion {
  outer: readonly RemoteCandidate[];
  /** Skills nested in others. They come with these, and can be added separately. */
  inside: readonly RemoteCandidate[];
  verdicts: ListingVerdicts;
}

async function askForCandidates(
  io: CommandIo,
  { outer, inside, verdicts }: CandidateQuestion,
): Promise<RemoteCandidate[]> {
  const out = createPrinter(io.stderr, io.env);
  const candidates = [...outer, ...inside];
  await printListing(out, candidates.slice(0, MAX_LISTED_SKILLS), { verdicts, isNumbered: true });
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

/**
 * Restores the skills of a lock file, and nothing else. Existing skills must match it; missing ones are fetched from their source and must
 * match too. The lock file never changes, and there is no approval: its author has approved it.
 */
async function addFrozen({ io, options, args }: CommandContext<AddOptions>): Promise<number> {
  const around = resolveCommandEnvironment(io, options);
  const locked = openLockedDir(around, options.project ?? false);
  const { skillsDir } = locked;
  const entries = findLockedSkills(locked, args);
  if (entries.length === 0)
    throw new SkillError("lock-missing", { message: "There is no lock file", fix: formatNothingAdded(locked) });
  const stamps = createFingerprintCache(around.skilletHome);
  const verified = entries.map(([name, entry]) => verifySkill(skillsDir, name, entry, stamps));
  const wrong = verified.filter(({ is }) => is !== "unchanged" && is !== "missing");
  const missing = entries.filter(([name]) => verified.some((one) => one.name === name && one.is === "missing"));
  const outcome: FrozenOutcome = { count: entries.length, wrong, added: [], problems: [] };
  const finish = (more: Partial<FrozenOutcome>) => reportFrozen({ ...outcome, ...more }, { io, options, locked });
  if (wrong.length > 0) return finish({});
  const signers = createSignerStore(around.skilletHome);
  const mustBeSigned = ({ requireSignature }: LockedSkill) => options.requireSignature || requireSignature === true;
  const there = entries.filter(([name, entry]) => mustBeSigned(entry) && !missing.some(([other]) => other === name));
  const unsigned = there.flatMap(([name]) => checkFrozenSignature(name, join(skillsDir.folder, name), signers));
  if (unsigned.length > 0) return finish({ problems: unsigned });
  const allowPrivate = options.allowPrivateAddresses ?? false;
  const adding = async (work: string) => {
    const fetched = await fetchWithProgress(io, "the locked skills", (signal) =>
      refetchSkills(missing, {
        ...{ around, work, env: io.env, signal, isPinned: true },
        ...{ allowPrivate, isUntyped: skillsDir.isProject },
      }),
    );
    const found = missing.map(([name, entry]) => ({ name, ...matchLocked(entry, fetched.get(name)) }));
    const problems = found.flatMap(({ name, error, put: one }) =>
      error ? [{ name, error }] : one && mustBeSigned(one.entry) ? checkFrozenSignature(name, one.folder, signers) : [],
    );
    if (problems.length > 0) return finish({ problems });
    const put = found.flatMap(({ put: one }) => one ?? []);
    if (put.length > 0 && !options.dryRun) applySkillsDirChanges({ skillsDir, put, skilletHome: around.skilletHome });
    return finish({ added: put.map(({ name }) => name) });
  };
  return explainInterruption("nothing was added", () => withStagingFolder(around.skilletHome, adding));
}

/** Returns the problem of a skill that must be signed. */
function checkFrozenSignature(
  name: string,
  folder: string,
  signers: SignerStore,
): { name: string; error: SkillError }[] {
  const state = checkSignature({ folder, name, signers });
  return state.state === "valid" ? [] : [{ name, error: createNotSignedError(name, state) }];
}

/** Returns the fetched skill if it matches the lock file byte by byte. */
function matchLocked(entry: LockedSkill, fetched: RefetchResult | undefined): { put?: SkillWrite; error?: SkillError } {
  if (!fetched || "error" in fetched) {
    return {
      error:
        fetched?.error ??
        new SkillError("source-skill-missing", { message: "The skill could not be fetched", fix: "try again" }),
    };
  }
  const { name, folder, files, tree, digest } = fetched.prepared;
  if (digest === entry.digest) return { put: { name, entry, folder, originals: [{ files, tree }] } };
  if (entry.upstream?.digest === digest) {
    return {
      error: new SkillError("lock-mismatch", {
        message: "The lock file contains local changes that its source does not have",
        fix: "restore its folder from version control, where the changes are kept",
      }),
    };
  }
  return {
    error: new SkillError("lock-mismatch", {
      message: "The source does not match the lock file",
      fix: "review the change with `skillet update --dry-run`, then update the lock file with `skillet update`",
    }),
  };
}

interface FrozenOutcome {
  count: number;
  wrong: readonly VerifyResult[];
  added: readonly string[];
  problems: readonly { name: string; error: SkillError }[];
}

interface FrozenReportContext {
  io: CommandIo;
  options: CommandContext<AddOptions>["options"];
  locked: LockedSkillsDir;
}

function reportFrozen(outcome: FrozenOutcome, { io, options, locked: { skillsDir } }: FrozenReportContext): number {
  const { wrong, added, problems, count: all } = outcome;
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
