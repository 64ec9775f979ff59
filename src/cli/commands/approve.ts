import { Option } from "commander";
import { collectSecrets } from "../../agent/run/run-inputs.ts";
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
import { createApprovalStore } from "../../store/approvals.ts";
import type { RunSummary } from "../../store/run-summary.ts";
import { createNotWaitingError, type RunStore } from "../../store/runs.ts";
import { createRedactor } from "../../util/redact.ts";
import { getUserHome } from "../../util/system.ts";
import { formatCount } from "../../util/text.ts";
import { isInputReviewed, printApprovalRequest } from "../approval-prompt.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import { discoverForCommand, openCommandRuns, resolveCommandEnvironment } from "../command-host.ts";
import { formatRunId } from "../format.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printDiff, printJson } from "../output.ts";
import { resumeAndPrint } from "./resume.ts";
import { printRunList } from "./runs.ts";

/** `skillet approve`. */
export const approveCommand: CommandDefinition = {
  define: (command) =>
    command
      .description(
        "agree to what a run waits for, or refuse it; apply held changes; without an id: what waits, is held, and is agreed to always",
      )
      .argument(
        "[id]",
        "a run, the beginning or end of its id, or `last`: the last that waits; or held changes, as held-3f2a91c0",
      )
      .addOption(
        new Option("--deny [reason]", "refuse it, and tell the model why; remove held changes").conflicts([
          "run",
          "always",
        ]),
      )
      .option("--run", "agree for the rest of this run")
      .addOption(
        new Option(
          "--always",
          "agree always, for this copy of the skill; for changes of files, in this folder",
        ).conflicts("run"),
      )
      .option("--resume", "and go on with it at once")
      .addOption(
        new Option(
          "--details",
          "show all of the input, or of held changes with every file that their diff counts, and decide nothing",
        ).conflicts(["deny", "run", "always", "resume", "yes"]),
      )
      .option("-y, --yes", "do not ask whether that is meant; needed to agree where there is no terminal")
      .addOption(
        new Option("--forget <skill>", "take back what was agreed to always for a skill").conflicts([
          "deny",
          "run",
          "always",
          "resume",
        ]),
      )
      .option("-q, --quiet", "with --resume: do not say what happens")
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

/** Gives the word that a run waits for, or applies held changes; or says which wait, and what was agreed to for ever. */
async function decideApproval({ io, options: raw, args: [given] }: CommandContext<ApproveOptions>): Promise<number> {
  const { deny, ...rest } = raw;
  const options = { ...rest, ...(deny === undefined ? {} : { deny: deny === true ? "" : deny }) };
  const runs = openCommandRuns(io, options);
  const { skilletHome } = resolveCommandEnvironment(io, options);
  const approvals = createApprovalStore(skilletHome);
  if (options.forget !== undefined) return forgetApprovals(io, approvals, options.forget, options.json ?? false);
  if (given === undefined)
    return printWaiting(io, { runs, approvals, held: listHeldChanges(skilletHome) }, options.json ?? false);
  const held = readHeldChanges(skilletHome, given);
  if (held) return approveHeld(io, held, options);
  const run = findWaitingRun(runs, given);
  const { effect } = run;
  if (run.state !== "waiting" || !effect) throw createNotWaitingError(run);
  if (options.details) {
    printApprovalRequest(createPrinter(io.stdout, io.env), effect, getUserHome(io.env), { isWhole: true });
    return EXIT.fine;
  }
  const approval = createApproval({ ...options, ...(await askForReason(io, options)) }, effect);
  const isAsked = approval.isApproved && !options.yes;
  const out = createPrinter(io.stderr, io.env);
  const isShown = isAsked || !options.json ? printApprovalRequest(out, effect, getUserHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isInputReviewed(io, out, effect));
  if (isAsked && !(isRead && (await isConfirmed(io, formatConfirmation(approval, effect))))) {
    throw createUndecidedError(io, run);
  }
  runs.answer(run.id, approval, effect);
  if (approval.isApproved && approval.scope === "always") approvals.add(effect);
  if (options.json && !options.resume) printJson(io.stdout, { run: run.id, effect, ...approval });
  if (!options.json) printDecision(io, run, approval, options.resume ?? false);
  // What is agreed to with this word is this: what comes next is asked about again.
  const { yes: _, ...others } = options;
  return options.resume ? resumeAndPrint(io, runs.find(run.id), others) : EXIT.fine;
}

/** `last` is the last that waits: only to one that does a word can be given. */
function findWaitingRun(runs: RunStore, given: string): RunSummary {
  const waiting = given === "last" ? runs.list().find(({ state }) => state === "waiting") : undefined;
  return waiting ?? runs.find(given);
}

/** Whoever can start a program is not yet somebody who was asked. */
function createUndecidedError(io: CommandIo, { id }: RunSummary): SkillError {
  if (io.ask) return new SkillError("not-agreed", { message: `nothing was written down: ${id} still waits` });
  return new SkillError("not-agreed", {
    message: `not agreed: nobody was asked, since this is no terminal; ${id} still waits`,
    fix: `look at what it would do (skillet runs show ${formatRunId(id)}), then say --yes`,
  });
}

/** Why not, without secrets: it is written down, and told to the model. */
async function askForReason(
  io: CommandIo,
  { deny, ...options }: AnsweredOptions & CommonOptions,
): Promise<{ deny?: string }> {
  if (deny === undefined || deny.trim() === "") return {};
  return { deny: createRedactor(collectSecrets(new Map(), await discoverForCommand(io, options))).text(deny) };
}

type ApprovalStore = ReturnType<typeof createApprovalStore>;

function createApproval({ deny, run, always }: AnsweredOptions, { on, skill, isOnce }: ApprovalRequest): Approval {
  if (deny !== undefined) return { isApproved: false, ...(deny.trim() === "" ? {} : { reason: deny.trim() }) };
  if (isOnce && (run || always)) {
    const message = `This is asked about each time: it cannot be agreed to ${always ? "always" : "for a run"}`;
    throw new SkillError("usage", { message, fix: `leave out ${always ? "--always" : "--run"} to agree to it once` });
  }
  if (always && skill === "") {
    const fix = "say --run, for this run";
    throw new SkillError("usage", { message: "No skill asks for this, so that none can be let always", fix });
  }
  return { isApproved: true, scope: always ? "always" : run || (on === "workspace" && !isOnce) ? "run" : "once" };
}

function formatConfirmation({ scope = "once" }: Approval, { on, tool }: ApprovalRequest): string {
  if (scope === "once") return "Agree to this, once?";
  const what = on === "workspace" ? "all changes of files here" : `each call of ${tool}`;
  return `Agree to ${what}, ${scope === "run" ? "for the rest of the run" : "always"}?`;
}

const SCOPE_LABELS = { once: "once", run: "for this run", always: "always" };

function printDecision(io: CommandIo, { id, effect }: RunSummary, approval: Approval, isResumed: boolean): void {
  const { isApproved, scope = "once" } = approval;
  const out = createPrinter(io.stderr, io.env);
  const reach = scope === "always" ? (effect?.on === "workspace" ? " in this folder" : " for this skill") : "";
  if (isApproved) out.line`${out.green("✓")} agreed ${SCOPE_LABELS[scope]}${reach}: ${id}`;
  else out.line`${out.green("✓")} refused: ${id}; the model is told, and may find another way`;
  if (!isResumed) out.line`  ${out.cyan(`skillet resume ${formatRunId(id)}`)}  goes on with it`;
}

interface WaitingLists {
  runs: RunStore;
  approvals: ApprovalStore;
  held: readonly HeldChanges[];
}

function printWaiting(io: CommandIo, { runs, approvals, held }: WaitingLists, asJson: boolean): number {
  const waiting = runs.list().filter(({ state }) => state === "waiting");
  const always = approvals.list();
  const problem = approvals.problem();
  if (asJson)
    printJson(io.stdout, {
      waiting,
      always,
      held: held.map(toHeldChangesJson),
      ...(problem === undefined ? {} : { problem }),
    });
  else {
    const out = createPrinter(io.stdout, io.env);
    printRunList(out, waiting, { hasInput: true });
    printHeldChanges(out, held, getUserHome(io.env));
    for (const { skill, source, place, allowed } of always) {
      const from = place === "" ? source : formatHomePath(place, getUserHome(io.env));
      out.line`${out.green("✓")} always: ${out.bold(skill)}  ${allowed.map(formatAllowedEffect).join(", ")}  ${out.dim(from)}`;
    }
    const error = createPrinter(io.stderr, io.env);
    if (waiting.length === 0) error.line`no run waits for a word`;
    else error.line`${error.dim("skillet approve ID --deny REASON --resume does not agree, and goes on")}`;
    if (held.length > 0) error.line`${error.dim("skillet approve ID shows held changes and applies them")}`;
    if (always.length > 0)
      error.line`${error.dim("skillet approve --forget SKILL takes back what is agreed to always")}`;
  }
  if (problem !== undefined && !asJson) createPrinter(io.stderr, io.env).line`! ${problem}`;
  return problem === undefined ? EXIT.fine : EXIT.findings;
}

function formatAllowedEffect(word: string): string {
  return word.replace(/^tool:/, "").replace(/^workspace:/, "changes in ");
}

function forgetApprovals(io: CommandIo, approvals: ApprovalStore, skill: string, asJson: boolean): number {
  const copies = approvals.forget(skill);
  if (copies === 0) {
    const names = [...new Set(approvals.list().map((row) => row.skill))];
    const fix = names.length === 0 ? "nothing is agreed to always" : `there are: ${names.slice(0, 10).join(", ")}`;
    throw new SkillError("not-found", { message: `Nothing was agreed to always for ${skill}`, fix });
  }
  if (asJson) printJson(io.stdout, { name: skill, copies });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} ${skill} is asked about again${copies > 1 ? ` (${formatCount(copies, "copy", "copies")})` : ""}`;
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
  const hiding = createRedactor(collectSecrets(new Map(), await discoverForCommand(io, options)));
  const effect = createHeldRequest(held, { hiding, where: formatHomePath(held.workspace, getUserHome(io.env)) });
  const isAsked = isApproved && !options.yes;
  const out = createPrinter(io.stderr, io.env);
  const isShown = isAsked || !options.json ? printApprovalRequest(out, effect, getUserHome(io.env)) : true;
  const isRead = isShown || !isAsked || (await isInputReviewed(io, out, effect));
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
  if (io.ask) return new SkillError("not-agreed", { message: `Nothing was changed: ${id} is still held` });
  return new SkillError("not-agreed", {
    message: `Not approved, since this is not a terminal: ${id} is still held`,
    fix: `read the diff above, then run: skillet approve ${id} --yes`,
  });
}

/** Prints held changes for a list. */
function printHeldChanges(out: Printer, all: readonly HeldChanges[], home: string): void {
  for (const { id, workspace, skill, changes } of all) {
    const where = formatHomePath(workspace, home);
    out.line`${out.yellow("!")} held: ${out.bold(id)}  ${formatHeldPaths(changes, 5)}  ${out.dim([where, skill].filter(Boolean).join(", "))}`;
  }
}

/** Held changes as `--json` gives them. */
function toHeldChangesJson({ id, workspace, at, skill, changes }: HeldChanges) {
  const shown = changes.map(({ path, change, group, diff, details, problem }) => ({
    ...{ path, change, group, diff },
    ...(details === undefined ? {} : { details }),
    ...(problem === undefined ? {} : { problem }),
  }));
  return { id, workspace, at, skill, changes: shown };
}
