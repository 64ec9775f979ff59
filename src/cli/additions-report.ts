import { formatSkillKey } from "../agent/policy/trust-policy.ts";
import type { DiscoverResult } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import type {
  AdditionPlan,
  AdditionResult,
  PendingSkill,
  PlannedAddition,
  ReviewOptions,
} from "../remote/apply-additions.ts";
import type { CandidateVerdict, RefusedSkill, RemoteCandidate } from "../remote/candidate.ts";
import { toLockedFiles } from "../remote/file-tree.ts";
import { listDeclaredVariables, type Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import type { LockedFiles } from "../store/lock-file.ts";
import { mapAsync } from "../util/async.ts";
import { formatCount, quoteIfNeeded, truncateLine } from "../util/text.ts";
import { type CommonOptions, createNotApprovedError, EXIT, ReportedError } from "./command-context.ts";
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

interface ReviewCommandOptions extends CommonOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
}

interface ReviewContext {
  io: CommandIo;
  options: ReviewCommandOptions;
  found: DiscoverResult;
  verb: "Add" | "Update";
  /** Skills that could not be fetched or cannot be written. */
  refused: readonly RefusedSkill[];
  /** Receives the `--json` report when several folders are reported together. */
  onReport?(facts: AdditionsReport): void;
}

export interface AdditionsReport {
  folder: string;
  isDryRun: boolean;
  skills: readonly object[];
  problems: readonly object[];
}

interface Review {
  /** Prints the plan of `addSkills` or `updateSkills`, and asks for approval. */
  options: ReviewOptions;
  /** Reports the result and returns the exit code. Throws a SkillError if it was not approved. */
  report(result: AdditionResult): Promise<number>;
}

/** Creates the terminal's side of adding or updating skills. */
export function createReview(context: ReviewContext): Review {
  const { io, options, refused } = context;
  const { yes, requireSignature, dryRun: isDryRun } = options;
  const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
  const approve = yes || ((pending: readonly PendingSkill[]) => isReviewApproved(out, pending, context));
  return {
    options: { requireSignature, isDryRun, onPlan: (plan) => printPlan(out, plan, context), approve },
    report: async (result) => {
      if (result.outcome === "declined")
        throw createNotApprovedError(
          io,
          `nothing was ${VERB_RESULTS[context.verb]}`,
          "review it with --dry-run --show, then add --yes",
        );
      if (result.outcome === "planned") printDryRun(out, result.pending, context);
      for (const folder of result.backups.values())
        out.line`  ${out.dim(`your version is kept in ${formatDisplayPath(folder, context.found.around)}`)}`;
      await reportJson(result, context);
      if (result.outcome === "applied" && !options.json) printApplied(out, result, context);
      return refused.length > 0 || result.additions.some(({ is }) => is === "conflict") ? EXIT.findings : EXIT.fine;
    },
  };
}

/** Prints the planned changes. Throws the error of the refused skills if none can be added. */
async function printPlan(out: Printer, plan: AdditionPlan, context: ReviewContext): Promise<void> {
  const { io, options, found, refused, verb } = context;
  const { additions, pending, skillsDir, locked, signatures, notes } = plan;
  printSkillErrors(createPrinter(io.stderr, io.env), refused);
  if (verb === "Add" && additions.length === 0) throw createNothingAddableError(io, refused);
  printUnchanged(out, additions);
  const conflicts = additions.filter((one) => one.is === "conflict");
  for (const { name, conflicts: all } of conflicts) {
    out.line`${out.red("✗")} ${out.bold(name)} was not changed:`;
    printConflicts(out, all);
  }
  const isAsking = io.ask !== undefined && !options.yes && !options.dryRun;
  if (!options.json || isAsking)
    await printPendingSkills(out, pending, { found, skillsDir, locked, signatures, isWhole: options.show ?? false });
  for (const note of notes) printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
  if (conflicts.length > 0) printConflictCommands(io, conflicts, options);
}

/** Creates the error for a source of which no skill can be added. The reasons were printed. */
function createNothingAddableError(io: CommandIo, refused: readonly RefusedSkill[]): ReportedError {
  const [first] = refused;
  const { code = "usage", message = "", ...problem } = first?.error.problem ?? {};
  if (refused.length === 1) return new ReportedError(code, { message, ...problem });
  const rest = `none of ${refused.length} skills can be added`;
  createPrinter(io.stderr, io.env).line`${rest}`;
  return new ReportedError(code, { message, fix: rest });
}

async function reportJson(result: AdditionResult, { io, options, refused, onReport }: ReviewContext): Promise<void> {
  if (!options.json) return;
  const facts: AdditionsReport = {
    folder: result.skillsDir.folder,
    isDryRun: options.dryRun ?? false,
    skills: await mapAsync(result.additions, (one) => toAdditionJson(one, result)),
    problems: refused.map(toSkillErrorJson),
  };
  if (onReport) onReport(facts);
  else printJson(io.stdout, facts);
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
  { io, verb, options }: ReviewContext,
): Promise<boolean> {
  if (!io.ask) return false;
  for (;;) {
    const answer = await askLine(io, `${formatApprovalQuestion(verb, coming)} [y/N${options.show ? "" : "/show"}] `);
    if (!/^s(?:how)?$/i.test(answer)) return /^y(?:es)?$/i.test(answer);
    await printPendingContents(out, coming);
  }
}

function printConflictCommands(
  io: CommandIo,
  conflicts: readonly { name: string }[],
  { workspace, project }: ReviewCommandOptions,
): void {
  const error = createPrinter(io.stderr, io.env);
  const names = conflicts.map(({ name }) => quoteIfNeeded(name)).join(" ");
  const command = `skillet update ${names}${project ? " --project" : ""} --conflicts`;
  error.line`  to keep your lines: ${addWorkspaceOption(`${command} mine`, workspace)}`;
  error.line`  to take the source's lines: ${addWorkspaceOption(`${command} theirs`, workspace)}`;
}

function printDryRun(out: Printer, coming: readonly PendingSkill[], { verb }: ReviewContext): void {
  out.line`${out.dim(`dry run: ${formatCount(coming.length, "skill")} would be ${VERB_RESULTS[verb]}; nothing was changed`)}`;
}

const VERB_RESULTS: Record<ReviewContext["verb"], string> = { Add: "added", Update: "updated" };

function printApplied(
  out: Printer,
  { pending: coming, skillsDir, trusted }: AdditionResult,
  { verb, found, options }: ReviewContext,
): void {
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

function toFilesJson(files: LockedFiles): object[] {
  return Object.entries(files).map(([path, { size, sha256, mode }]) => ({ path, bytes: size, digest: sha256, mode }));
}

/** Formats an addition or update for `--json`. Unchanged skills are reported as locked. */
async function toAdditionJson(addition: PlannedAddition, { locked, signatures }: AdditionPlan): Promise<object> {
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

/** Prints one line per skill: number, verdict, name, and its description or why it needs a look. */
export async function printListing(
  out: Printer,
  candidates: readonly RemoteCandidate[],
  { check, isNumbered }: { check(candidate: RemoteCandidate): Promise<CandidateVerdict>; isNumbered: boolean },
): Promise<void> {
  const digits = isNumbered ? String(candidates.length).length : 0;
  const longest = Math.min(32, Math.max(0, ...candidates.map(({ skill }) => skill.name.length)));
  for (const [index, candidate] of candidates.entries()) {
    const verdict = await check(candidate);
    const number = isNumbered ? `${String(index + 1).padStart(digits)}  ` : "";
    const name = candidate.skill.name.padEnd(longest);
    const room = Math.max(20, out.width - number.length - name.length - 5);
    const text = truncateLine(describeCandidate(candidate, verdict), Math.min(room, 120));
    out.line`${number}${out[VERDICT_COLORS[verdict.is]](VERDICT_MARKS[verdict.is])} ${out.bold(name)}  ${out.dim(text)}`;
  }
}

const VERDICT_MARKS: Record<CandidateVerdict["is"], string> = { fine: "✓", look: "!", refused: "✗" };
const VERDICT_COLORS = { fine: "green", look: "yellow", refused: "red" } as const satisfies Record<
  CandidateVerdict["is"],
  string
>;

function describeCandidate({ skill }: RemoteCandidate, verdict: CandidateVerdict): string {
  const { parent } = skill.origin;
  const skillsDir = parent === undefined ? "" : `(inside ${parent}) `;
  if (verdict.is === "refused") return `${skillsDir}refused: ${getRootMessage(verdict.error)}`;
  return `${skillsDir}${verdict.is === "look" ? `(scan: ${formatFindingCounts(verdict.findings)}) ` : ""}${skill.description}`;
}

/** Returns the reason alone if the message also names the skill. */
function getRootMessage({ message, cause }: SkillError): string {
  return cause instanceof SkillError ? cause.message : message;
}

export function toVerdictJson({ skill, path }: RemoteCandidate, verdict: CandidateVerdict): object {
  const { name, description } = skill;
  const facts = { name, path, description, state: verdict.is };
  if (verdict.is === "look")
    return { ...facts, findings: verdict.findings.map(({ file, ...finding }) => ({ ...finding, path: file })) };
  if (verdict.is === "fine") return facts;
  return { ...facts, error: verdict.error.problem };
}
