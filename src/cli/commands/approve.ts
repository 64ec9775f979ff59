import { Option } from "commander";
import { createHostRedactor } from "../../agent/run/redaction.ts";
import {
  applyHeldChanges,
  createHeldRequest,
  discardHeldChanges,
  formatHeldPaths,
  type HeldChanges,
  listHeldChanges,
  readHeldChanges,
} from "../../agent/workspace/held-changes.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Approval, ApprovalRequest } from "../../host/approval.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import { createNotWaitingError, type RunSummary, requireKnownFormat, searchRuns } from "../../store/run-rules.ts";
import type { RunStore } from "../../store/runs.ts";
import { getUserHome } from "../../util/system.ts";
import { formatCount } from "../../util/text.ts";
import { isInputReviewed, printApprovalRequest } from "../approval-prompt.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommandStores,
  type CommonOptions,
  createNotApprovedError,
  discoverForCommand,
  EXIT,
  formatExamples,
  openCommandStores,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printDiff, printJson } from "../output.ts";
import { formatRunId } from "../run-format.ts";
import { resumeAndPrint } from "./resume.ts";
import { printRunList } from "./runs.ts";

/** `skillet approve`. */
export const approveCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Approve or deny a pending request, apply held changes, or list all of them")
      .argument(
        "[id]",
        "A run id or its start or end, `last` for the last waiting run, or held changes such as held-3f2a91c0",
      )
      .addOption(
        new Option("--deny [reason]", "Deny the request with a reason for the model, or remove held changes").conflicts(
          ["run", "always"],
        ),
      )
      .option("--run", "Approve for the rest of this run")
      .addOption(
        new Option(
          "--always",
          "Approve always for this copy of the skill, or for file changes in this folder",
        ).conflicts("run"),
      )
      .option("--resume", "Resume the run immediately")
      .addOption(
        new Option("--details", "Show the whole input or every held file without deciding").conflicts([
          "deny",
          "run",
          "always",
          "resume",
          "yes",
        ]),
      )
      .option("-y, --yes", "Skip the confirmation, required without a terminal")
      .addOption(
        new Option("--forget <skill>", "Revoke the permanent approvals of a skill").conflicts([
          "deny",
          "run",
          "always",
          "resume",
        ]),
      )
      .option("-q, --quiet", "With --resume: print only the answer")
      .addHelpText(
        "after",
        formatExamples(
          "skillet approve",
          "skillet approve 3f2a91c0 --resume",
          "skillet approve 3f2a91c0 --resume --yes",
          "skillet approve held-3f2a91c0",
          'skillet approve 3f2a91c0 --deny "ask Ann first" --resume',
          "skillet approve --forget mailer",
        ),
      ),
  run: decideApproval,
};

interface ApproveOptions {
  deny?: string | true;
  run?: boolean;
  always?: boolean;
  resume?: boolean;
  yes?: boolean;
  details?: boolean;
  forget?: string;
}

type AnsweredOptions = Omit<ApproveOptions, "deny"> & { deny?: string };

/** Answers a pending approval request, applies held changes, or lists both with the permanent approvals. */
async function decideApproval({ io, options: raw, args: [value] }: CommandContext<ApproveOptions>): Promise<number> {
  const { deny, ...rest } = raw;
  const options = { ...rest, ...(deny === undefined ? {} : { deny: deny === true ? "" : deny }) };
  const stores = await openCommandStores(io, options);
  const { runs, approvals } = stores;
  const { skilletHome } = resolveCommandEnvironment(io, options);
  if (options.forget !== undefined) return await forgetApprovals(io, approvals, options.forget, options.json ?? false);
  if (value === undefined)
    return await printWaiting(io, { runs, approvals, held: listHeldChanges(skilletHome) }, options.json ?? false);
  const held = readHeldChanges(skilletHome, value);
  if (held) return approveHeld(io, held, options);
  const run = await findWaitingRun(runs, value);
  const { approvalRequest: request } = run;
  requireKnownFormat(run);
  if (!isAsking(run) || !request) throw createNotWaitingError(run);
  if (options.details) {
    printApprovalRequest(createPrinter(io.stdout, io.env), request, getUserHome(io.env), { isWhole: true });
    return EXIT.fine;
  }
  const approval = createApproval({ ...options, ...(await askForReason(io, options)) }, request);
  const isAsked = approval.isApproved && !options.yes;
  const out = createPrinter(io.stderr, io.env);
  const isShown = isAsked || !options.json ? printApprovalRequest(out, request, getUserHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isInputReviewed(io, out, request));
  if (isAsked && !(isRead && (await isConfirmed(io, formatConfirmation(approval, request))))) {
    throw createUndecidedError(io, run);
  }
  await answerRequest(stores, { ...run, approvalRequest: request }, approval);
  if (options.json && !options.resume) printJson(io.stdout, { run: run.id, approvalRequest: request, ...approval });
  // A worker resumes a queued run by itself.
  const isResumed = options.resume === true && run.owner === undefined && run.queue === undefined;
  if (options.json && options.resume && !isResumed)
    printJson(io.stdout, { run: run.id, approvalRequest: request, ...approval });
  if (!options.json) printDecision(io, run, approval, isResumed);
  // `--yes` covers this request only: later ones ask again.
  const { yes: _, ...others } = options;
  return isResumed ? resumeAndPrint(io, await runs.find(run.id), others) : EXIT.fine;
}

/** Records the answer to exactly this request. Throws a SkillError if the run asks for something else by now. */
export async function answerRequest(
  { runs, approvals, openApprovals }: Pick<CommandStores, "runs" | "approvals" | "openApprovals">,
  { id, approvalRequest: request, caller, ...run }: AnsweredRun,
  approval: Approval,
): Promise<void> {
  await runs.answer(id, approval, request);
  if (!approval.isApproved || approval.scope !== "always") return;
  const scope = { tenant: run.tenant ?? caller?.tenant, person: caller?.userId };
  await (openApprovals?.(scope) ?? approvals).add(request);
}

type AnsweredRun = Pick<RunSummary, "id" | "tenant" | "caller"> & { approvalRequest: ApprovalRequest };

/** Returns true if a run waits for an approval, or if its owner asks for one now. */
export function isAsking({ state, approvalRequest: request }: RunSummary): boolean {
  return request !== undefined && (state === "waiting" || state === "running");
}

async function listAsking(runs: RunStore): Promise<RunSummary[]> {
  const open = await searchRuns(runs, { states: ["waiting", "running"], limit: Number.POSITIVE_INFINITY });
  return open.runs.filter(isAsking);
}

/** Finds the run. `last` is the last waiting one. */
async function findWaitingRun(runs: RunStore, value: string): Promise<RunSummary> {
  const [waiting] = value === "last" ? await listAsking(runs) : [];
  return waiting ?? (await runs.find(value));
}

/** Returns the error for an unanswered request: a process that can start this program does not count as a user. */
function createUndecidedError(io: CommandIo, { id }: RunSummary): SkillError {
  const fix = `review the request (skillet runs show ${formatRunId(id)}), then add --yes`;
  return createNotApprovedError(io, `Nothing was recorded, ${id} is still waiting`, fix);
}

/** Returns the reason with secrets redacted: it is recorded and sent to the model. */
async function askForReason(
  io: CommandIo,
  { deny, ...options }: AnsweredOptions & CommonOptions,
): Promise<{ deny?: string }> {
  if (deny === undefined || deny.trim() === "") return {};
  return { deny: createHostRedactor(await discoverForCommand(io, options)).redact(deny) };
}

/** Creates the answer that the options state. Throws a SkillError for a scope that the request cannot have. */
export function createApproval(
  { deny, run, always }: AnsweredOptions,
  { on, skill, isOnce }: ApprovalRequest,
): Approval {
  if (deny !== undefined) return { isApproved: false, ...(deny.trim() === "" ? {} : { reason: deny.trim() }) };
  if (isOnce && (run || always)) {
    const message = `This request needs approval each time: it cannot be approved ${always ? "always" : "for a run"}`;
    throw new SkillError("usage", { message, fix: `omit ${always ? "--always" : "--run"} to approve it once` });
  }
  if (always && skill === "") {
    const fix = "add --run to approve it for this run";
    throw new SkillError("usage", { message: "No skill made this request, so it cannot be approved always", fix });
  }
  return { isApproved: true, scope: always ? "always" : run || (on === "workspace" && !isOnce) ? "run" : "once" };
}

function formatConfirmation({ scope = "once" }: Approval, { on, tool }: ApprovalRequest): string {
  if (scope === "once") return "Approve this once?";
  const what = on === "workspace" ? "all file changes here" : `each call to ${tool}`;
  return `Approve ${what}, ${scope === "run" ? "for the rest of the run" : "always"}?`;
}

const SCOPE_LABELS = { once: "once", run: "for this run", always: "always" };

function printDecision(
  io: CommandIo,
  { id, approvalRequest: request, owner, queue }: RunSummary,
  approval: Approval,
  isResumed: boolean,
): void {
  const { isApproved, scope = "once" } = approval;
  const out = createPrinter(io.stderr, io.env);
  const reach = scope === "always" ? (request?.on === "workspace" ? " in this folder" : " for this skill") : "";
  if (isApproved) out.line`${out.green("✓")} approved ${SCOPE_LABELS[scope]}${reach}: ${id}`;
  else out.line`${out.green("✓")} denied: ${id}; the model is informed and may try another way`;
  if (owner) out.line`  the run continues in ${owner.label}`;
  else if (queue !== undefined) out.line`  a worker continues the run`;
  else if (!isResumed) out.line`  ${out.cyan(`skillet resume ${formatRunId(id)}`)}  resumes the run`;
}

interface WaitingLists {
  runs: RunStore;
  approvals: ApprovalStore;
  held: readonly HeldChanges[];
}

/** Returns the value of `approve --json`: all that waits for the user. */
export async function toApproveJson({ runs, approvals, held }: WaitingLists) {
  const problem = await approvals.problem();
  return {
    waiting: await listAsking(runs),
    always: await approvals.list(),
    held: held.map(toHeldChangesJson),
    ...(problem === undefined ? {} : { problem }),
  };
}

async function printWaiting(io: CommandIo, { runs, approvals, held }: WaitingLists, asJson: boolean): Promise<number> {
  const facts = await toApproveJson({ runs, approvals, held });
  const { waiting, always, problem } = facts;
  if (asJson) printJson(io.stdout, facts);
  else {
    const out = createPrinter(io.stdout, io.env);
    printRunList(out, waiting, { hasInput: true });
    printHeldChanges(out, held, getUserHome(io.env));
    for (const { skill, source, location, allowed } of always) {
      const from = location === "" ? source : formatHomePath(location, getUserHome(io.env));
      out.line`${out.green("✓")} always: ${out.bold(skill)}  ${allowed.map(formatAllowedEffect).join(", ")}  ${out.dim(from)}`;
    }
    const error = createPrinter(io.stderr, io.env);
    if (waiting.length === 0) error.line`no run is waiting for approval`;
    else error.line`${error.dim("skillet approve ID --deny REASON --resume denies the request and resumes the run")}`;
    if (held.length > 0) error.line`${error.dim("skillet approve ID shows held changes and applies them")}`;
    if (always.length > 0) error.line`${error.dim("skillet approve --forget SKILL revokes permanent approvals")}`;
  }
  if (problem !== undefined && !asJson) createPrinter(io.stderr, io.env).line`! ${problem}`;
  return problem === undefined ? EXIT.fine : EXIT.findings;
}

function formatAllowedEffect(request: string): string {
  return request.replace(/^tool:/, "").replace(/^workspace:/, "changes in ");
}

async function forgetApprovals(
  io: CommandIo,
  approvals: ApprovalStore,
  skill: string,
  asJson: boolean,
): Promise<number> {
  const copies = await approvals.forget(skill);
  if (copies === 0) {
    const names = [...new Set((await approvals.list()).map((row) => row.skill))];
    const fix =
      names.length === 0
        ? "no skill has permanent approvals"
        : `skills with approvals: ${names.slice(0, 10).join(", ")}`;
    throw new SkillError("not-found", { message: `${skill} has no permanent approvals`, fix });
  }
  if (asJson) printJson(io.stdout, { name: skill, copies });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} ${skill} needs approval again${copies > 1 ? ` (${formatCount(copies, "copy", "copies")})` : ""}`;
  }
  return EXIT.fine;
}

interface ApproveHeldOptions extends CommonOptions {
  deny?: string;
  yes?: boolean;
  details?: boolean;
}

/** Shows held changes with their complete diff, and applies or removes them. */
async function approveHeld(io: CommandIo, held: HeldChanges, options: ApproveHeldOptions): Promise<number> {
  if (options.details) return printHeldDetails(io, held, options);
  const home = resolveCommandEnvironment(io, options).skilletHome;
  const isApproved = options.deny === undefined;
  const hiding = createHostRedactor(await discoverForCommand(io, options));
  const request = createHeldRequest(held, { hiding, where: formatHomePath(held.workspace, getUserHome(io.env)) });
  const isAsked = isApproved && !options.yes;
  const out = createPrinter(io.stderr, io.env);
  const isShown = isAsked || !options.json ? printApprovalRequest(out, request, getUserHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isInputReviewed(io, out, request));
  if (isAsked && !(isRead && (await isConfirmed(io, "Apply this to the workspace?"))))
    throw createHeldUndecidedError(io, held);
  if (isApproved) applyHeldChanges(home, held);
  else discardHeldChanges(home, held.id);
  if (options.json) printJson(io.stdout, { held: toHeldChangesJson(held), isApproved });
  else if (isApproved) out.line`${out.green("✓")} applied: ${formatHeldPaths(held.changes)}`;
  else out.line`${out.green("✓")} removed: ${held.id}`;
  return EXIT.fine;
}

/** Prints all of the held changes, with the files that a diff only counts, and decides nothing. */
function printHeldDetails(io: CommandIo, held: HeldChanges, { json }: ApproveHeldOptions): number {
  if (json) printJson(io.stdout, { held: toHeldChangesJson(held) });
  const out = createPrinter(io.stdout, io.env);
  for (const { path, change, diff, details } of json ? [] : held.changes) {
    out.line`${out.bold(path)} (${change})`;
    printDiff(out, [...diff.split("\n"), ...(details?.split("\n") ?? [])]);
  }
  return EXIT.fine;
}

function createHeldUndecidedError(io: CommandIo, { id }: HeldChanges): SkillError {
  const command = `skillet approve ${id} --yes`;
  return createNotApprovedError(io, `Nothing was changed, ${id} is still held`, "read the diff above, then run", [
    command,
  ]);
}

/** Prints held changes for a list. */
function printHeldChanges(out: Printer, all: readonly HeldChanges[], home: string): void {
  for (const { id, workspace, skill, changes } of all) {
    const where = formatHomePath(workspace, home);
    out.line`${out.yellow("!")} held: ${out.bold(id)}  ${formatHeldPaths(changes, 5)}  ${out.dim([where, skill].filter(Boolean).join(", "))}`;
  }
}

/** Formats held changes for `--json`. */
export function toHeldChangesJson({ id, workspace, at, skill, changes }: HeldChanges) {
  const shown = changes.map(({ path, change, group, diff, details, problem }) => ({
    ...{ path, change, group, diff },
    ...(details === undefined ? {} : { details }),
    ...(problem === undefined ? {} : { problem }),
  }));
  return { id, workspace, at, skill, changes: shown };
}
