import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { formatSkillKey } from "../agent/policy/trust-policy.ts";
import type { DiscoverResult } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import { isPending, type PendingSkill, type PlannedAddition, trustApplied } from "../remote/add.ts";
import { prepareCandidate, type RemoteCandidate } from "../remote/candidate.ts";
import { type FileTree, toLockedFiles, writeTree } from "../remote/file-tree.ts";
import type { FetchedSource } from "../remote/remote-source.ts";
import { checkSignature, requireSignatures, type SignatureState } from "../remote/signature.ts";
import { applySkillsDirChanges, needsTrust, readLockedSkills, type SkillsDir } from "../remote/skills-dir.ts";
import type { ScanFinding } from "../scan/rule.ts";
import { listDeclaredVariables } from "../skill/requirements.ts";
import type { Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import { copySkillFolder } from "../skill/source/skill-copy.ts";
import type { LockedFiles, LockedSkills } from "../store/lock-file.ts";
import { createSignerStore } from "../store/signers.ts";
import { mapAsync } from "../util/sequential.ts";
import { quoteIfNeeded } from "../util/shell-quote.ts";
import { formatCount, truncateLine } from "../util/text.ts";
import { type CommonOptions, createNotApprovedError, EXIT } from "./command-definition.ts";
import { formatFindingCounts } from "./commands/trust-review.ts";
import { addWorkspaceOption, formatSkillNames, formatSomeNames, toSignatureJson } from "./format.ts";
import { askLine, printSkillErrors } from "./locked-skills.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printJson } from "./output.ts";
import {
  formatApprovalQuestion,
  listKeptFiles,
  listNewRequirements,
  listRequirements,
  printConflicts,
  printPendingContents,
  printPendingSkills,
} from "./review-additions.ts";

interface ApplyAdditionsOptions extends CommonOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
}

interface ApplyAdditionsContext {
  io: CommandIo;
  options: ApplyAdditionsOptions;
  found: DiscoverResult;
  skillsDir: SkillsDir;
  /** The staging folder. */
  work: string;
  verb: "Add" | "Update";
  notes?: readonly string[];
  /** Receives the `--json` report when several folders are reported together. */
  report?(facts: AdditionsReport): void;
  /** Skills that could not be fetched or cannot be written. */
  problems?: readonly { name: string; error: SkillError }[];
}

export interface AdditionsReport {
  folder: string;
  isDryRun: boolean;
  skills: readonly object[];
  problems: readonly object[];
}

/** Shows the planned changes, asks for approval, and applies all of them or none. */
export async function reviewAndApply(
  additions: readonly PlannedAddition[],
  putting: ApplyAdditionsContext,
): Promise<number> {
  const { io, options, found, skillsDir, problems = [] } = putting;
  const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
  const signers = createSignerStore(found.home);
  const coming = requireSignatures(additions.filter(isPending), { signers, all: options.requireSignature ?? false });
  const conflicts = additions.filter((one) => one.is === "conflict");
  const known = {
    locked: readLockedSkills(skillsDir),
    signatures: new Map(coming.map((one) => [one.name, checkPendingSignature(one, found)])),
  };
  const report = async () => {
    if (!options.json) return;
    const skills = await mapAsync(additions, (one) => toAdditionJson(one, known));
    const isDryRun = options.dryRun ?? false;
    const facts: AdditionsReport = {
      folder: skillsDir.folder,
      isDryRun,
      skills,
      problems: problems.map(toSkillErrorJson),
    };
    if (putting.report) putting.report(facts);
    else printJson(io.stdout, facts);
  };
  printSkillErrors(createPrinter(io.stderr, io.env), problems);
  printUnchanged(out, additions);
  for (const { name, conflicts: all } of conflicts) {
    out.line`${out.red("✗")} ${out.bold(name)} was not changed:`;
    printConflicts(out, all);
  }
  const isAsking = io.ask !== undefined && !options.yes && !options.dryRun;
  if (!options.json || isAsking)
    await printPendingSkills(out, coming, { found, skillsDir, ...known, isWhole: options.show ?? false });
  for (const note of putting.notes ?? [])
    printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
  if (conflicts.length > 0) printConflictCommands(io, conflicts, options);
  const code = conflicts.length + problems.length > 0 ? EXIT.findings : EXIT.fine;
  if (coming.length === 0 || options.dryRun) {
    if (coming.length > 0) printDryRun(out, coming, putting);
    await report();
    return code;
  }
  if (options.yes) checkPreapproved(coming, known.locked);
  if (!options.yes && !(await isReviewApproved(out, coming, putting)))
    throw createNotApprovedError(
      io,
      `nothing was ${VERB_RESULTS[putting.verb]}`,
      "review it with --dry-run --show, then add --yes",
    );
  backUpReplaced(out, coming, found);
  const trusted = findTrustedByApproval(coming, putting);
  applySkillsDirChanges({ skillsDir, put: coming.map(({ put }) => put), skilletHome: found.home });
  // Approvals given to the replaced skill do not apply to the new one.
  for (const { name } of coming) await found.approvals.forget(name, join(skillsDir.folder, name));
  if (needsTrust(skillsDir))
    await trustApplied(
      coming.filter(({ name }) => trusted.has(name)),
      skillsDir,
      found.trust,
    );
  await report();
  if (!options.json) printApplied(out, coming, { ...putting, trusted });
  return code;
}

function toSkillErrorJson({ name, error }: { name: string; error: SkillError }): object {
  return { name, ...error.problem };
}

function printUnchanged(out: Printer, additions: readonly PlannedAddition[]): void {
  const same = additions.filter((one) => one.is === "same");
  const asLocked = same.filter(({ isChanged }) => !isChanged).map(({ name }) => name);
  if (asLocked.length > 0)
    out.line`${out.dim("=")} ${formatSkillNames(asLocked)} ${asLocked.length === 1 ? "is" : "are"} up to date`;
  for (const { name } of same.filter(({ isChanged }) => isChanged))
    out.line`${out.yellow("!")} ${name} is up to date with its source, but has local changes: skillet trust ${quoteIfNeeded(name)}`;
}

/** Asks for approval. The answer `show` prints the complete content and asks again. */
async function isReviewApproved(
  out: Printer,
  coming: readonly PendingSkill[],
  { io, verb, options }: ApplyAdditionsContext,
): Promise<boolean> {
  if (!io.ask) return false;
  for (;;) {
    const answer = await askLine(io, `${formatApprovalQuestion(verb, coming)} [y/N${options.show ? "" : "/show"}] `);
    if (!/^s(?:how)?$/i.test(answer)) return /^y(?:es)?$/i.test(answer);
    await printPendingContents(out, coming);
  }
}

/** Throws if `--yes` would overwrite local changes: it approves the source's content only, so a person must review these. */
function checkPreapproved(coming: readonly PendingSkill[], locked: LockedSkills): void {
  const changed = coming.filter(({ name, put }) => put.before !== undefined && put.before !== locked[name]?.digest);
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name);
  throw new SkillError("changed", {
    message: `${formatSkillNames(names)} changed here since ${names.length === 1 ? "it was" : "they were"} approved; nothing was updated`,
    fix: "omit --yes, or review the change first",
    commands: [`skillet trust ${names.length === 1 ? quoteIfNeeded(names[0] ?? "") : "NAME"}`],
  });
}

/** Backs up the user's files that the source's version replaces. */
function backUpReplaced(out: Printer, coming: readonly PendingSkill[], { home, around }: DiscoverResult): void {
  for (const one of coming) {
    if (one.is !== "update" || !one.replaced) continue;
    const kept = join(home, "replaced", `${one.name}-${(one.put.before ?? "").slice(7, 19)}`);
    backUpTree(kept, one.replaced);
    out.line`  ${out.dim(`your version is kept in ${formatDisplayPath(kept, around)}`)}`;
  }
}

/** Writes the backup atomically. The folder's name contains the digest, so an existing backup is identical. */
function backUpTree(folder: string, tree: FileTree): void {
  if (existsSync(folder)) return;
  const draft = `${folder}.${crypto.randomUUID()}`;
  writeTree(draft, tree);
  renameSync(draft, folder);
}

function checkPendingSignature({ put, name }: PendingSkill, { home }: DiscoverResult): SignatureState {
  return checkSignature({ folder: put.folder, name, files: put.entry.files, signers: createSignerStore(home) });
}

function printConflictCommands(
  io: CommandIo,
  conflicts: readonly { name: string }[],
  { workspace, project }: ApplyAdditionsOptions,
): void {
  const error = createPrinter(io.stderr, io.env);
  const names = conflicts.map(({ name }) => quoteIfNeeded(name)).join(" ");
  const command = `skillet update ${names}${project ? " --project" : ""} --conflicts`;
  error.line`  to keep your lines: ${addWorkspaceOption(`${command} mine`, workspace)}`;
  error.line`  to take the source's lines: ${addWorkspaceOption(`${command} theirs`, workspace)}`;
}

function printDryRun(out: Printer, coming: readonly PendingSkill[], { verb }: ApplyAdditionsContext): void {
  out.line`${out.dim(`dry run: ${formatCount(coming.length, "skill")} would be ${VERB_RESULTS[verb]}; nothing was changed`)}`;
}

const VERB_RESULTS: Record<ApplyAdditionsContext["verb"], string> = { Add: "added", Update: "updated" };

function printApplied(
  out: Printer,
  coming: readonly PendingSkill[],
  done: ApplyAdditionsContext & { trusted: ReadonlySet<string> },
): void {
  const { skillsDir, verb, found, options, trusted } = done;
  const names = coming.map(({ name }) => name);
  out.line`${out.green("✓")} ${VERB_RESULTS[verb]}: ${formatSkillNames(names)} ${out.dim(`in ${skillsDir.shown}`)}`;
  const needs = coming
    .map(({ name, skill }) => ({ name, steps: listNextSteps(skill, found) }))
    .filter(({ steps }) => steps.length > 0);
  const printStep = (text: string, ...commands: string[]) =>
    printHanging(out, "  ", [`${text}:`], {
      ...{ indent: 4, start: 2 },
      commands: commands.map((command) => addWorkspaceOption(command, options.workspace)),
    });
  if (needs.length <= MAX_STEPS)
    for (const { name, steps } of needs)
      for (const { fix, commands } of steps) printStep(`${coming.length === 1 ? "it" : name} ${fix}`, ...commands);
  else
    printStep(
      `${needs.length} of them need values or capabilities first (${formatSomeNames(needs.map(({ name }) => name))})`,
      "skillet show NAME",
    );
  const untrusted = names.filter((name) => !trusted.has(name));
  if (untrusted.length > 0)
    printStep(
      `not trusted yet: ${formatSkillNames(untrusted)}`,
      `skillet trust ${untrusted.length === 1 ? quoteIfNeeded(untrusted[0] ?? "") : "NAME"}`,
    );
  else if (needs.length === 0 && verb === "Add")
    printStep(
      names.length === 1 ? "show it, or connect other clients" : "list them, or connect other clients",
      names.length === 1 ? `skillet show ${quoteIfNeeded(names[0] ?? "")}` : "skillet list --installed",
      "skillet connect",
    );
}

const MAX_STEPS = 5;

/** Lists the variables and capabilities to set up. They are never granted by approving the skill. */
function listNextSteps(skill: Skill, { settings }: DiscoverResult): { fix: string; commands: string[] }[] {
  const own = settings.skills.get(skill.name);
  const granted = new Set(own?.capabilities ?? []);
  const capabilities = skill.manifest.capabilities.filter((id) => !granted.has(id));
  const variables = listDeclaredVariables(skill).filter((key) => !own?.variables.get(key));
  const grant = `skillet capability grant ${quoteIfNeeded(skill.name)} ${capabilities.join(" ")}`;
  return [
    ...variables
      .slice(0, 3)
      .map((key) => ({ fix: `needs ${key}`, commands: [`skillet config set ${formatSkillKey(skill, key)}`] })),
    ...(variables.length > 3
      ? [{ fix: `needs ${variables.length - 3} more`, commands: [`skillet show ${quoteIfNeeded(skill.name)}`] }]
      : []),
    ...(capabilities.length > 0 ? [{ fix: `needs the capability ${capabilities.join(", ")}`, commands: [grant] }] : []),
  ];
}

const PROJECT_ORIGIN = { scope: "workspace", source: ".agents/skills" } as const;

/** Returns the project skills that this approval also trusts: those shown completely, or whose hidden parts were trusted before. */
function findTrustedByApproval(
  coming: readonly PendingSkill[],
  where: { skillsDir: SkillsDir; found: DiscoverResult; work: string },
): ReadonlySet<string> {
  const { skillsDir, found, work } = where;
  if (!needsTrust(skillsDir)) return new Set(coming.map(({ name }) => name));
  const given = new Map(found.trust.list());
  const isSeen = (one: PendingSkill) => {
    if (one.is === "new") return true;
    const trusted = given.get(join(skillsDir.folder, one.name));
    return (
      trusted !== undefined && trusted.digest === digestTree(one.difference.before, join(work, "trusted", one.name))
    );
  };
  return new Set(coming.filter(isSeen).map(({ name }) => name));
}

function digestTree(tree: FileTree, folder: string): string | undefined {
  writeTree(folder, tree);
  const skill = readTreeSkill(folder);
  return skill && copySkillFolder(skill).digest;
}

function readTreeSkill(folder: string): Skill | undefined {
  const read = readFolderSkill(folder, PROJECT_ORIGIN);
  return read && "skill" in read ? read.skill : undefined;
}

interface AdditionFacts {
  /** The lock file's entries before the change. */
  locked: LockedSkills;
  /** By name. */
  signatures: ReadonlyMap<string, SignatureState>;
}

function toFilesJson(files: LockedFiles): object[] {
  return Object.entries(files).map(([path, { size, sha256, mode }]) => ({ path, bytes: size, digest: sha256, mode }));
}

/** Formats an addition or update for `--json`. Unchanged skills are reported as locked. */
async function toAdditionJson(addition: PlannedAddition, { locked, signatures }: AdditionFacts): Promise<object> {
  const { name, is, prepared } = addition;
  const entry = "put" in addition ? addition.put.entry : locked[name];
  const {
    source,
    path,
    ref,
    commit,
    digest = prepared.digest,
    files = toLockedFiles(prepared.tree),
    grants,
  } = entry ?? {};
  const facts = { name, state: is, source, path, ref, commit, digest, files: toFilesJson(files), grants };
  const findings = prepared.findings.map(({ file, ...finding }) => ({ ...finding, path: file }));
  const signature = signatures.get(name);
  const signed = signature ? { signature: toSignatureJson(signature) } : {};
  switch (addition.is) {
    case "new":
      return { ...facts, requirements: await listRequirements(addition.skill), ...signed, findings };
    case "update": {
      const { skill, difference } = addition;
      const required = {
        requirements: await listRequirements(skill),
        newRequirements: await listNewRequirements(skill, difference.before),
      };
      return {
        ...facts,
        commitBefore: locked[name]?.commit,
        ...required,
        kept: listKeptFiles(addition),
        ...signed,
        findings,
      };
    }
    case "conflict":
      return {
        ...facts,
        conflicts: addition.conflicts.map(({ path: at, reason, lines }) => ({ path: at, reason, lines })),
      };
    default:
      return facts;
  }
}

/** The outcome of checking one skill of a source before it is chosen. */
type ListingVerdict =
  | { is: "fine" }
  /** The scanner found something that a person should look at. */
  | { is: "look"; findings: readonly ScanFinding[] }
  | { is: "refused"; error: SkillError };

export interface ListingVerdicts {
  of(candidate: RemoteCandidate): Promise<ListingVerdict>;
}

/** Checks and scans each skill of a source once, when it is first shown. `work`: a folder for intermediate files. */
export function createListingVerdicts(fetched: FetchedSource, work: string): ListingVerdicts {
  const known = new Map<RemoteCandidate, ListingVerdict>();
  return {
    async of(candidate) {
      const verdict =
        known.get(candidate) ?? (await checkCandidate(candidate, fetched, join(work, "verdicts", String(known.size))));
      known.set(candidate, verdict);
      return verdict;
    },
  };
}

async function checkCandidate(
  candidate: RemoteCandidate,
  fetched: FetchedSource,
  folder: string,
): Promise<ListingVerdict> {
  try {
    const findings = (await prepareCandidate(candidate, fetched, folder)).findings.filter(
      ({ weight }) => weight !== "low",
    );
    return findings.length > 0 ? { is: "look", findings } : { is: "fine" };
  } catch (error) {
    if (error instanceof SkillError) return { is: "refused", error };
    throw error;
  }
}

/** Prints one line per skill: number, verdict, name, and its description or why it needs a look. */
export async function printListing(
  out: Printer,
  candidates: readonly RemoteCandidate[],
  { verdicts, isNumbered }: { verdicts: ListingVerdicts; isNumbered: boolean },
): Promise<void> {
  const digits = isNumbered ? String(candidates.length).length : 0;
  const longest = Math.min(32, Math.max(0, ...candidates.map(({ skill }) => skill.name.length)));
  for (const [index, candidate] of candidates.entries()) {
    const verdict = await verdicts.of(candidate);
    const number = isNumbered ? `${String(index + 1).padStart(digits)}  ` : "";
    const name = candidate.skill.name.padEnd(longest);
    const room = Math.max(20, out.width - number.length - name.length - 5);
    const text = truncateLine(describeCandidate(candidate, verdict), Math.min(room, 120));
    out.line`${number}${out[VERDICT_COLORS[verdict.is]](VERDICT_MARKS[verdict.is])} ${out.bold(name)}  ${out.dim(text)}`;
  }
}

const VERDICT_MARKS: Record<ListingVerdict["is"], string> = { fine: "✓", look: "!", refused: "✗" };
const VERDICT_COLORS = { fine: "green", look: "yellow", refused: "red" } as const satisfies Record<
  ListingVerdict["is"],
  string
>;

function describeCandidate({ skill }: RemoteCandidate, verdict: ListingVerdict): string {
  const { parent } = skill.origin;
  const skillsDir = parent === undefined ? "" : `(inside ${parent}) `;
  if (verdict.is === "refused") return `${skillsDir}refused: ${getRootMessage(verdict.error)}`;
  return `${skillsDir}${verdict.is === "look" ? `(scan: ${formatFindingCounts(verdict.findings)}) ` : ""}${skill.description}`;
}

/** Returns the reason alone if the message also names the skill. */
function getRootMessage({ message, cause }: SkillError): string {
  return cause instanceof SkillError ? cause.message : message;
}

export function toVerdictJson({ skill, path }: RemoteCandidate, verdict: ListingVerdict): object {
  const { name, description } = skill;
  const facts = { name, path, description, state: verdict.is };
  if (verdict.is === "look")
    return { ...facts, findings: verdict.findings.map(({ file, ...finding }) => ({ ...finding, path: file })) };
  if (verdict.is === "fine") return facts;
  return { ...facts, error: verdict.error.problem };
}
