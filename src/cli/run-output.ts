import { formatConfiguredAccess } from "../agent/policy/trust-policy.ts";
import { readSkillSecrets } from "../agent/run/run-inputs.ts";
import type { Run, RunResult } from "../agent/run/run-result.ts";
import type { DiscoverResult } from "../config/discover.ts";
import type { Host } from "../config/host.ts";
import type { Approval, ApprovalRequest, Approve } from "../host/approval.ts";
import type { RunEvent } from "../host/events.ts";
import { listDeclaredVariables, type Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import type { RunStore } from "../store/runs.ts";
import { getSkillLocation } from "../store/trust.ts";
import { formatCount, truncateLine } from "../util/text.ts";
import { escapeForTerminal } from "../util/untrusted-text.ts";
import { EXIT, NOT_A_TERMINAL } from "./command-context.ts";
import { countColumns } from "./format.ts";
import { type CommandIo, createPrinter, isConfirmed, printJson, printJsonLine, printProblem } from "./output.ts";
import { createProgress, type Progress } from "./progress.ts";
import { formatUsage } from "./run-format.ts";

export type RunOutputOptions = OutcomeOptions & ApprovalOptions;

/** Runs a skill, shows its progress, and asks for approvals at the terminal. */
export async function runWithProgress(
  io: CommandIo,
  found: DiscoverResult & Pick<Host, "onEvent">,
  options: RunOutputOptions,
  start: (host: DiscoverResult & Pick<Host, "onEvent">) => Run<RunEvent, RunResult>,
): Promise<RunResult> {
  const progress = options.quiet || options.events || options.json ? undefined : createProgress(io);
  const { host, asking } = createApprovingHost(io, found, options, progress);
  const running = start(host);
  try {
    for await (const event of running) {
      if (options.events) printJsonLine(io.stdout, event);
      else {
        await asking();
        progress?.take(event);
      }
    }
  } finally {
    progress?.end();
  }
  return running;
}

interface OutcomeOptions {
  json?: boolean;
  events?: boolean;
  quiet?: boolean;
  showSecrets?: boolean;
  workspace?: string;
}

/** Prints the result of a run: the answer to stdout, everything else to stderr. */
export async function printRunResult(
  io: CommandIo,
  found: DiscoverResult,
  result: RunResult,
  options: OutcomeOptions,
): Promise<void> {
  const shown = options.showSecrets ? revealResult(result, [result.skill], found) : result;
  if (options.events) printJsonLine(io.stdout, { type: "result", ...shown });
  else if (options.json) printJson(io.stdout, shown);
  else await printRunAnswer(io, found, shown, options);
}

async function printRunAnswer(
  io: CommandIo,
  found: DiscoverResult,
  result: RunResult,
  options: OutcomeOptions,
): Promise<void> {
  const text = getRunAnswer(result);
  const { width } = createPrinter(io.stdout, io.env);
  if (text !== "") io.stdout.write(`${wrapAnswer(escapeForTerminal(text), width)}\n`);
  printRunProblems(io, result, options);
  if (!options.quiet) {
    if (!options.showSecrets) printSecretHints(io, found, result);
    printRunOutcome(io, result);
  }
  await printNextCommands(io, found, result, options);
}

/** Returns the answer, or the partial one. The reasons for a missing answer are printed elsewhere. */
export function getRunAnswer({ stop, error, content, answer = "" }: RunResult): string {
  if (stop === "refused" || stop === "waiting") return "";
  return stop === "error" && error ? answer : content;
}

/** Prints why a run was refused or failed, with the fix. */
export function printRunProblems(
  io: CommandIo,
  { refusals, error }: RunResult,
  { workspace }: Pick<OutcomeOptions, "workspace"> = {},
): void {
  const out = createPrinter(io.stderr, io.env);
  for (const problem of [...refusals, ...(error ? [error] : [])]) printProblem(out, out.red("✗"), problem, workspace);
}

/** Explains redacted values, which appear as names in brackets. */
function printSecretHints(io: CommandIo, found: DiscoverResult, { skill, content }: RunResult): void {
  const used = found.catalog.find(skill);
  const shown = used ? listDeclaredVariables(used).filter((name) => content.includes(`[${name}]`)) : [];
  const out = createPrinter(io.stderr, io.env);
  for (const name of shown) out.line`${out.dim(`· [${name}] is a redacted value; --show-secrets shows it`)}`;
}

/** Prints the outcome of a run in one line. */
export function printRunOutcome(io: CommandIo, result: RunResult): void {
  const { isError, iterations, ms, model, isolation, usage, cost, stop } = result;
  if (stop === "refused") return;
  const error = createPrinter(io.stderr, io.env);
  const details = [
    formatCount(iterations, "iteration"),
    `${(ms / 1000).toFixed(1)} s`,
    ...formatUsage(usage, cost),
    ...(model === undefined ? [] : [model]),
    ...(isolation === undefined ? [] : [isolation.level === "none" ? "NOT ISOLATED" : `${isolation.level} isolation`]),
  ];
  const mark = stop === "waiting" ? error.yellow("?") : isError ? error.red("✗") : error.green("✓");
  const outcome = result.error?.code === "run-cancelled" ? "cancelled" : STOP_DESCRIPTIONS[stop];
  error.line`${mark} ${outcome} ${error.dim(`(${details.join(", ")})`)}`;
  const set = LIMIT_SETTINGS[stop];
  if (set !== undefined) error.line`  the lowest of these applies: ${set}`;
}

/** Prints the commands that continue a run. A pending approval is printed even with `--quiet`. */
export async function printNextCommands(
  io: CommandIo,
  { runs }: DiscoverResult,
  { run, stop, approvalRequest: request }: RunResult,
  { quiet }: OutcomeOptions,
): Promise<void> {
  const out = createPrinter(io.stderr, io.env);
  if (stop === "waiting") {
    if (request) out.line`${out.yellow("!")} approval needed: ${truncateLine(formatApprovalLine(request), 300)}`;
    out.line`  ${out.cyan(`skillet approve ${run} --resume`)}  approves it and resumes the run; --deny REASON denies it`;
    out.line`  ${out.cyan(`skillet runs show ${run}`)}  shows the request and the steps so far`;
  } else if (!quiet && (stop === "aborted" || stop === "error") && (await isResumable(runs, run))) {
    out.line`  ${out.cyan(`skillet resume ${run}`)}  resumes the run`;
  }
}

async function isResumable(runs: RunStore, id: string): Promise<boolean> {
  try {
    const { state } = await runs.find(id);
    return state === "interrupted" || state === "waiting"; // Waiting: the question was interrupted.
  } catch {
    return false; // The run was not recorded.
  }
}

const LIMIT_SETTINGS: Partial<Record<RunResult["stop"], string>> = {
  "max-iterations": "max_iterations of the skill, --max-iterations, [limits]",
  timeout: "--timeout, timeout_seconds of [limits]",
  budget: "--budget, tokens of [limits]",
};

const STOP_DESCRIPTIONS: Record<RunResult["stop"], string> = {
  answer: "done",
  complete: "done",
  failed: "could not be done",
  refused: "refused",
  "max-iterations": "stopped at its iteration limit",
  timeout: "stopped at its time limit",
  budget: "stopped at its token limit",
  aborted: "interrupted",
  waiting: "waiting for approval",
  error: "failed",
};

const RUN_EXIT_CODES: Partial<Record<RunResult["stop"], number>> = {
  refused: EXIT.refused,
  "max-iterations": EXIT.limit,
  timeout: EXIT.limit,
  budget: EXIT.limit,
  aborted: EXIT.interrupted,
  waiting: EXIT.waiting,
};

export function getRunExitCode({ stop, isError, refusals }: RunResult): number {
  if (refusals.some(({ code }) => code === "not-found")) return EXIT.findings;
  return RUN_EXIT_CODES[stop] ?? (isError ? EXIT.findings : EXIT.fine);
}

/** Replaces the names of these skills' variables in a text by their values, for a user who requested it. */
function revealSecrets(text: string, skills: Iterable<string>, found: DiscoverResult): string {
  let shown = text;
  for (const name of skills) {
    const skill = found.catalog.find(name);
    if (!skill) continue;
    for (const [variable, value] of readSkillSecrets(skill, found).secrets)
      shown = shown.replaceAll(`[${variable}]`, () => value);
  }
  return shown;
}

/** Replaces the names of redacted values in a result with the values. */
export function revealResult(result: RunResult, skills: Iterable<string>, found: DiscoverResult): RunResult {
  const reveal = (text: string) => revealSecrets(text, skills, found);
  const { content, answer } = result;
  return { ...result, content: reveal(content), ...(answer === undefined ? {} : { answer: reveal(answer) }) };
}

interface CodedRefusal {
  code: string;
}

const TRUST_CODES: ReadonlySet<string> = new Set(["untrusted", "changed"]);
const VALUES_CODE = "secret-not-approved";

/** Returns true if a use was refused only for missing trust or values, which the user at a terminal can grant. */
export function isPendingTrust(refusals: readonly CodedRefusal[]): boolean {
  return refusals.length > 0 && refusals.every(({ code }) => TRUST_CODES.has(code) || code === VALUES_CODE);
}

/** Asks at a terminal for the missing trust and values. Returns false without a terminal, or if one was denied. */
export async function askForPendingTrust(
  io: CommandIo,
  found: DiscoverResult,
  waiting: readonly { skill: Skill; refusals: readonly CodedRefusal[] }[],
): Promise<boolean> {
  const untrusted = waiting.filter(({ refusals }) => refusals.some(({ code }) => TRUST_CODES.has(code)));
  if (untrusted.length > 0) {
    const { askForTrust } = await import("./commands/trust.ts"); // Loads the scanner.
    const skills = untrusted.map(({ skill }) => skill);
    if (!(await askForTrust(io, found, skills))) return false;
  }
  for (const { skill, refusals } of waiting)
    if (refusals.some(({ code }) => code === VALUES_CODE) && !(await askToGrantValues(io, found, skill))) return false;
  return true;
}

/** Asks at a terminal to grant the configured values to this copy. Only used if no copy has them yet. */
async function askToGrantValues(io: CommandIo, found: DiscoverResult, skill: Skill): Promise<boolean> {
  const { grants, around: environment } = found;
  if (!io.ask) return false;
  const out = createPrinter(io.stderr, io.env);
  const location = getSkillLocation(skill);
  out.line`${out.bold(skill.name)}  ${formatConfiguredAccess(skill, found)} ${out.dim("in config.toml, not granted to any copy yet")}`;
  out.line`  grant to: ${location === "" ? "" : `${formatDisplayPath(location, environment)} `}(from ${skill.origin.source})`;
  if (!(await isConfirmed(io, "Grant this to this copy only?"))) return false;
  return grants.isOwner(skill, grants.claim(skill));
}

/** Wraps the text of an answer as it arrives. */
interface AnswerWrapper {
  /** Returns what can be printed now. The last word is held back until it is complete. */
  write(text: string): string;
  /** Returns the rest of the line, and starts a new one. */
  end(): string;
}

const FENCE = /^(?:`{3,}|~{3,})/;
const BULLET = /^(?:[-*+]|\d{1,3}[.)]|>)$/;
/** Rows of a table, JSON, markup and commands are not prose. */
const VERBATIM_START = /^(?:[|{<]|\[\{|[[$]$)/;
/** Markdown shows lines with this indentation as code. */
const CODE_INDENT = /^(?: {4}| *\t)/;

/**
 * Creates a wrapper for the prose of an answer. Code blocks, tables and aligned columns stay as they are, and so does text in backticks: a
 * command or a regular expression is not split.
 */
export function createAnswerWrapper(width: number): AnswerWrapper {
  let fence = "";
  let indent = "";
  let word = "";
  let column = 0;
  let hang = "";
  let mode: "start" | "prose" | "verbatim" = "start";

  const begin = () => {
    [indent, word, hang, column, mode] = ["", "", "", 0, "start"];
  };
  const putFirst = (): string => {
    const [mark] = FENCE.exec(word) ?? [];
    const isBullet = BULLET.test(word);
    const isCode = fence !== "" || mark !== undefined || (CODE_INDENT.test(indent) && !isBullet);
    if (mark !== undefined && fence === "") fence = mark;
    else if (mark?.startsWith(fence)) fence = "";
    mode = isCode || VERBATIM_START.test(word) ? "verbatim" : "prose";
    hang = word === ">" ? `${indent}> ` : indent + (isBullet ? " ".repeat(word.length + 1) : "");
    const text = indent + word;
    column = countWidth(text);
    word = "";
    return text;
  };
  const putWord = (): string => {
    const columns = countWidth(word);
    const isWrapped = column + 1 + columns > width && column > hang.length;
    const text = isWrapped ? `\n${hang}${word}` : ` ${word}`;
    column = (isWrapped ? hang.length : column + 1) + columns;
    word = "";
    return text;
  };
  /** Prints what is held back at the end of a line. A backtick without a second one is prose, so its words wrap. */
  const putRest = (): string => {
    let shown = "";
    for (const one of mode === "start" && fence !== "" ? [word] : word.split(" ")) {
      word = one;
      if (mode === "verbatim") shown += shown === "" ? word : ` ${word}`;
      else if (mode === "start") shown += putFirst();
      else if (word !== "") shown += putWord();
    }
    return shown;
  };
  const take = (character: string): string => {
    if (character === "\n") {
      const text = putRest();
      begin();
      return `${text}\n`;
    }
    if (mode === "verbatim") return character;
    if (character !== " " && character !== "\t") {
      word += character;
      return "";
    }
    if (mode === "start" && word === "") {
      indent += character;
      return "";
    }
    if (mode === "start") {
      const isOpen = hasOpenBacktick(word) && !FENCE.test(word);
      if (isOpen) word += character;
      const text = isOpen ? "" : putFirst();
      if (character === "\t" && !isOpen) mode = "verbatim";
      return (mode as string) === "verbatim" ? text + character : text;
    }
    if (hasOpenBacktick(word)) {
      word += character;
      return "";
    }
    if (word !== "" && character === " ") return putWord();
    // Two spaces or a tab align columns.
    const text = word === "" ? " " : putWord();
    mode = "verbatim";
    return text + character;
  };
  return {
    write(text) {
      if (!Number.isFinite(width)) return text;
      let shown = "";
      for (const character of text) shown += take(character);
      return shown;
    },
    end() {
      const text = putRest();
      begin();
      return text;
    },
  };
}

/** Wraps a whole answer. */
export function wrapAnswer(text: string, width: number): string {
  const wrapper = createAnswerWrapper(width);
  return wrapper.write(text) + wrapper.end();
}

function hasOpenBacktick(word: string): boolean {
  return word.split("`").length % 2 === 0;
}

function countWidth(text: string): number {
  let columns = 0;
  for (const character of text) columns += countColumns(character);
  return columns;
}

export interface ApprovalOptions {
  /** Approves changes in the workspace in advance. */
  yes?: boolean;
  /** False: refuse requests in non-interactive use instead of waiting. */
  wait?: boolean;
}

/** `run`: requested by a model. `call`: requested by the user at the terminal. */
export type ApprovalOrigin = "run" | "call";

/** Returns a function that asks for approval at the terminal; undefined if there is no terminal. */
export function createApprovalPrompt(io: CommandIo, by: ApprovalOrigin = "run"): Approve | undefined {
  if (!io.ask) return undefined;
  return async (request, { signal }) => {
    const { askForApproval } = await import("./approval-prompt.ts"); // Loaded only when there is a question.
    return askForApproval(io, request, { signal, by });
  };
}

/** Returns a host that asks at this terminal, one question at a time. Await `asking()` before writing anything else to the terminal. */
export function createApprovingHost<Found extends DiscoverResult>(
  io: CommandIo,
  found: Found,
  options: ApprovalOptions,
  progress?: Pick<Progress, "hold" | "release">,
): { host: Found & { approve?: Approve }; asking(): Promise<unknown> } {
  let before: Promise<unknown> = Promise.resolve();
  const ask = createApprovalPrompt(io);
  const oneByOne: Approve = (request, { signal }) => {
    const answer = before.then(async () => {
      await new Promise(setImmediate); // Lets pending events print first.
      progress?.hold();
      try {
        return (await ask?.(request, { signal })) ?? NO_APPROVER;
      } finally {
        progress?.release();
      }
    });
    before = answer.catch(() => {});
    return answer;
  };
  const approve = ask ? { approve: oneByOne } : options.wait === false ? { approve: async () => NO_APPROVER } : {};
  const approvals = options.yes ? preapproveWorkspaceChanges(found.approvals) : found.approvals;
  return { host: { ...found, ...approve, approvals }, asking: () => before };
}

const NO_APPROVER: Approval = { isApproved: false, reason: `no user to ask: ${NOT_A_TERMINAL}` };

/** Adds the approval given on the command line. It is not saved, and covers changes in the workspace only. */
export function preapproveWorkspaceChanges(approvals: ApprovalStore): ApprovalStore {
  return {
    ...approvals,
    isAlwaysApproved: async (request) => isWorkspaceChange(request) || (await approvals.isAlwaysApproved(request)),
  };
}

function isWorkspaceChange({ on, isOnce }: Pick<ApprovalRequest, "on" | "isOnce">): boolean {
  return on === "workspace" && !isOnce;
}

/** Formats a request in one line: `mailer.send: send a mail (team@example.com)`. */
export function formatApprovalLine({
  tool,
  what,
  where = "",
}: Pick<ApprovalRequest, "tool" | "what" | "where">): string {
  return `${tool}: ${what}${where === "" ? "" : ` (${where})`}`;
}
