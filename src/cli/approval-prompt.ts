import { createHash } from "node:crypto";
import { shortenTexts } from "../agent/run/tool-policy.ts";
import type { DiscoverResult } from "../config/discover.ts";
import type { Approval, ApprovalRequest, ApprovalScope, Approve } from "../host/approval.ts";
import { formatHomePath } from "../skill/source/locations.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import { getUserHome } from "../util/system.ts";
import { compareText, formatNumber, truncateLine } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { escapeForTerminal, foldColumns, foldLines } from "./format.ts";
import { type CommandIo, createPrinter, type Printer } from "./output.ts";
import type { Progress } from "./progress.ts";

export interface ApprovalOptions {
  /** Agree to changes in the workspace beforehand. */
  yes?: boolean;
  /** False: refuse what nobody can be asked about. */
  wait?: boolean;
}

/** `run`: a model wants it. `call`: whoever sits there does. */
type ApprovalOrigin = "run" | "call";

/** Asks whoever sits at the terminal what has to be asked. Nothing where nobody does. */
export function createApprovalPrompt(io: CommandIo, by: ApprovalOrigin = "run"): Approve | undefined {
  if (!io.ask) return undefined;
  return (effect, { signal }) => askForApproval(io, effect, { signal, by });
}

/** A host that asks at this terminal, one question at a time; and what to wait for before anything else is written there. */
export function createApprovingHost<Found extends DiscoverResult>(
  io: CommandIo,
  found: Found,
  options: ApprovalOptions,
  progress?: Pick<Progress, "hold" | "release">,
): { host: Found & { approve?: Approve }; asking(): Promise<unknown> } {
  let before: Promise<unknown> = Promise.resolve();
  const ask = createApprovalPrompt(io);
  const oneByOne: Approve = (effect, { signal }) => {
    const word = before.then(async () => {
      await new Promise(setImmediate); // What has happened until now is shown first.
      progress?.hold();
      try {
        return (await ask?.(effect, { signal })) ?? NO_APPROVER;
      } finally {
        progress?.release();
      }
    });
    before = word.catch(() => {});
    return word;
  };
  const approve = ask ? { approve: oneByOne } : options.wait === false ? { approve: async () => NO_APPROVER } : {};
  const approvals = options.yes ? preapproveWorkspaceChanges(found.approvals) : found.approvals;
  return { host: { ...found, ...approve, approvals }, asking: () => before };
}

const NO_APPROVER: Approval = { isApproved: false, reason: "there is nobody to ask" };

/** With what was said on the command line: nothing of it is written down, and nothing outside of the workspace is meant by it. */
function preapproveWorkspaceChanges(approvals: ApprovalStore): ApprovalStore {
  return { ...approvals, isAlways: (effect) => isWorkspaceChange(effect) || approvals.isAlways(effect) };
}

function isWorkspaceChange({ on, isOnce }: Pick<ApprovalRequest, "on" | "isOnce">): boolean {
  return on === "workspace" && !isOnce;
}

interface ApprovalChoice {
  key: string;
  says: string;
  scope?: ApprovalScope;
}

/** What can be answered, and how far an answer reaches where its key does not say it. */
interface ApprovalQuestion {
  choices: readonly ApprovalChoice[];
  reach?: string;
}

const MAX_CHOICES_WIDTH = 80;
const NO_CHOICE: ApprovalChoice = { key: "n", says: "no" };

/** Changes in the workspace are agreed to for a run: nobody reads the tenth question. */
function createRunQuestion({
  on,
  skill,
  tool,
  isOnce,
}: Pick<ApprovalRequest, "on" | "skill" | "tool" | "isOnce">): ApprovalQuestion {
  if (isOnce) return { choices: [{ key: "y", says: "yes, this once", scope: "once" }, NO_CHOICE] };
  const always = (says: string): ApprovalChoice[] => (skill === "" ? [] : [{ key: "a", says, scope: "always" }]);
  if (on === "workspace") {
    const by = skill === "" ? "" : `, by ${skill},`;
    return {
      choices: [{ key: "y", says: "yes, for this run", scope: "run" }, ...always("always in this folder"), NO_CHOICE],
      reach: `yes holds for all changes of files here${by} in this run`,
    };
  }
  const choices = (run: string): ApprovalChoice[] => [
    { key: "y", says: "once", scope: "once" },
    { key: "r", says: run, scope: "run" },
    ...always("always for this tool"),
    NO_CHOICE,
  ];
  const each = `each call of ${tool} in this run`;
  if (formatChoices(choices(each)).length <= MAX_CHOICES_WIDTH) return { choices: choices(each) };
  return { choices: choices("this run"), reach: `this run: ${each}, whatever its input` };
}

/** For one call that whoever sits there makes themselves. */
function createCallQuestion({ skill, on, isOnce }: Pick<ApprovalRequest, "skill" | "on" | "isOnce">): ApprovalQuestion {
  const yes: ApprovalChoice = { key: "y", says: "yes", scope: "once" };
  const says = on === "workspace" ? "always in this folder" : "always for this tool";
  const always: ApprovalChoice = { key: "a", says, scope: "always" };
  return { choices: [yes, ...(skill === "" || isOnce ? [] : [always]), NO_CHOICE] };
}

function formatChoices(choices: readonly ApprovalChoice[]): string {
  return `${choices.map(({ key, says }) => `[${key}] ${says}`).join("  ")} `;
}

const MAX_TRIES = 3;

async function askForApproval(
  io: CommandIo,
  effect: ApprovalRequest,
  { signal, by }: { signal: AbortSignal; by: ApprovalOrigin },
): Promise<Approval> {
  const out = createPrinter(io.stderr, io.env);
  const { choices, reach } = by === "call" ? createCallQuestion(effect) : createRunQuestion(effect);
  if (signal.aborted) return INTERRUPTED_APPROVAL;
  if (!printApprovalRequest(out, effect, getUserHome(io.env)) && !(await isInputReviewed(io, out, effect, signal)))
    return signal.aborted ? INTERRUPTED_APPROVAL : createDenial("");
  if (reach !== undefined) out.line`${out.dim(reach)}`;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = await io.ask?.(formatChoices(choices), signal);
    if (signal.aborted) return INTERRUPTED_APPROVAL;
    if (answer === undefined) return createDenial("");
    const word = answer.trim().toLowerCase();
    const chosen = choices.find(({ key }) => key === (ANSWER_ALIASES[word] ?? word));
    if (chosen?.scope) return { isApproved: true, scope: chosen.scope };
    if (chosen && by === "call") return createDenial("");
    if (chosen) return createDenial((await io.ask?.("Why not? (for the model; may be empty) ", signal)) ?? "");
    if (tries + 1 < MAX_TRIES) out.line`${out.dim(`one of ${choices.map(({ key }) => key).join(", ")}`)}`;
  }
  out.line`${out.dim("no clear answer: that is a no")}`;
  return createDenial("");
}

/** Offers to show all of an input that is too long to be shown at once. Returns false where somebody would rather not: that is a no. */
export async function isInputReviewed(
  io: CommandIo,
  out: Printer,
  effect: ApprovalRequest,
  signal?: AbortSignal,
): Promise<boolean> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = (await io.ask?.("[d] show all of the input  [n] no ", signal))?.trim().toLowerCase();
    if (answer === undefined || signal?.aborted || answer === "n" || answer === "no") return false;
    if (answer !== "d" && answer !== "details") continue;
    if (await pageInput(io, out, effect, signal)) return signal?.aborted !== true;
  }
  return false;
}

const ANSWER_ALIASES: Readonly<Record<string, string>> = { yes: "y", no: "n", run: "r", always: "a" };
const INTERRUPTED_APPROVAL: Approval = { isApproved: false, reason: "the run was interrupted" };

function createDenial(reason: string): Approval {
  const why = reason.trim();
  return { isApproved: false, ...(why === "" ? {} : { reason: why }) };
}

interface PrintRequestOptions {
  /** Shows all of the input, however long it is. */
  isWhole?: boolean;
}

/**
 * Shows an approval request: what, where, how much, whether it can be undone, who asks, and the input as it will be executed. Returns whether
 * all of the input was shown: if not, nobody may approve it yet.
 */
export function printApprovalRequest(
  out: Printer,
  effect: ApprovalRequest,
  home: string,
  options: PrintRequestOptions = {},
): boolean {
  const { skill, source, place, tool, what, from, where, amount, reason, input } = effect;
  const who = skill || source || "the conversation";
  const path = formatHomePath(place, home);
  const copy = skill === "" || path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, says: string | undefined][] = [
    ["what", what],
    ["from", from?.join("\n")],
    ["where", where],
    ["how much", amount],
    ["undo", formatReversibility(effect)],
    ["asked by", `${escapeLine(who)}${copy === "" ? "" : ` (${escapeLine(copy)})`}`],
    // The headline says it already, but where a skill said what it does without asking.
    ["because", effect.on === "other" && !from ? reason : undefined],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)}${from && effect.on === "other" ? UNTRUSTED_INPUT_NOTE : EFFECT_SCOPES[effect.on]}`;
  for (const [label, says] of rows) if (says !== undefined && says !== "") printField(out, label, says);
  return printInput(out, input, options);
}

/** Shows all of the input, a screen at a time. Returns whether it was shown to its end. */
async function pageInput(
  io: CommandIo,
  out: Printer,
  { input }: ApprovalRequest,
  signal?: AbortSignal,
): Promise<boolean> {
  const lines = formatInputLines(formatInputFields(input), out.width);
  const room = Math.max(5, (io.stderr.rows ?? 24) - 2);
  for (let at = 0; at < lines.length; at += room) {
    printInputLines(out, lines.slice(at, at + room));
    const left = lines.length - at - room;
    if (left <= 0) break;
    const answer = await io.ask?.(`[Enter] more (${formatNumber(left)} lines)  [q] stop `, signal);
    if (answer === undefined || /^\s*q/i.test(answer)) return false;
  }
  out.line`  ${out.dim(`${hashInput(input)}, the complete input`)}`;
  return true;
}

const EFFECT_SCOPES: Record<ApprovalRequest["on"], string> = {
  workspace: " would change files of the workspace",
  outside: " would change something outside of the workspace",
  other: ": the skill did not say beforehand that it would do this",
};

const UNTRUSTED_INPUT_NOTE = ": what it is given comes from text that you did not write";

/** The same in a line: `mailer.send: send a mail (team@example.com)`. */
export function formatApprovalLine({
  tool,
  what,
  where = "",
}: Pick<ApprovalRequest, "tool" | "what" | "where">): string {
  return `${tool}: ${what}${where === "" ? "" : ` (${where})`}`;
}

/** What it is given, in a line: `to: ann@example.com, subject: Minutes`. Empty where it is given nothing. */
export function formatInputLine({ input }: Pick<ApprovalRequest, "input">): string {
  const fields = formatInputFields(input);
  return fields[0] === "" || fields[0] === "{}" ? "" : truncateLine(fields.join(", "));
}

const LABEL_WIDTH = 10;

function printField(out: Printer, label: string, says: string): void {
  const lines = foldColumns(says, out.width - LABEL_WIDTH - 3);
  for (const [index, line] of lines.entries())
    out.line`  ${out.dim((index === 0 ? label : "").padEnd(LABEL_WIDTH))}${line}`;
}

function formatReversibility({ isReversible, on }: Pick<ApprovalRequest, "isReversible" | "on">): string {
  if (isReversible === undefined) return on === "workspace" ? "only by hand" : "not known whether it is possible";
  return isReversible ? "possible" : "not possible";
}

/** The longest input that is shown at once. Of a longer one the beginning of each text is shown, and the rest on request. */
const MAX_INPUT_LENGTH = 6000;
const EXCERPT_LENGTH = 200;

function printInput(
  out: Printer,
  input: unknown,
  { isWhole = !Number.isFinite(out.width) }: PrintRequestOptions,
): boolean {
  const all = formatInputFields(input);
  if (all[0] === "" || all[0] === "{}") return true;
  const isShort = countCharacters(all) <= MAX_INPUT_LENGTH;
  out.line`  ${out.dim("input")}`;
  const texts = isWhole || isShort ? all : formatInputFields(shortenTexts(input, EXCERPT_LENGTH));
  const lines = formatInputLines(texts, out.width);
  const most = isWhole || isShort ? lines.length : MAX_INPUT_LINES;
  printInputLines(out, lines.slice(0, most));
  for (const warning of findMixedScripts(all.join("\n"))) {
    const [first = "", ...rest] = foldColumns(warning, out.width - 6);
    out.line`  ${out.yellow("!")} ${first}`;
    for (const line of rest) out.line`    ${line}`;
  }
  if (isWhole || isShort) out.line`  ${out.dim(hashInput(input))}`;
  else {
    const size = formatNumber(countCharacters(all));
    out.line`  ${out.yellow("!")} The input has ${size} characters and is not shown in full. Look at all of it before you approve it.`;
  }
  return isWhole || isShort;
}

const MAX_INPUT_LINES = 60;

interface InputLine {
  text: string;
  /** Whether it is the rest of a line that is wider than the terminal. */
  isFolded: boolean;
}

/** Only a field begins at the edge: a text cannot begin a line that looks like one. */
function formatInputLines(fields: readonly string[], width: number): InputLine[] {
  return fields.flatMap((field) =>
    foldLines(field, width - 8).flatMap((pieces, line) =>
      pieces.map((text, piece) => ({ text: line + piece === 0 ? text : `  ${text}`, isFolded: piece > 0 })),
    ),
  );
}

/** Prints lines of input. What was folded has another border: text cannot pass for a line by itself, such as one of a diff. */
function printInputLines(out: Printer, lines: readonly InputLine[]): void {
  for (const { text, isFolded } of lines) out.line`  ${out.dim(isFolded ? "┆" : "│")} ${text}`;
}

/** Identifies an input, with its keys in order: the same digest is the same input. */
function hashInput(input: unknown): string {
  const ordered = JSON.stringify(input, (_, value: unknown) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => compareText(a, b)))
      : value,
  );
  return `sha256:${createHash("sha256")
    .update(ordered ?? "")
    .digest("hex")
    .slice(0, 16)}`;
}

/** Warns of words that mix Latin letters with look-alikes of other scripts. */
function findMixedScripts(text: string): string[] {
  if (/^[\x00-\x7f]*$/.test(text)) return [];
  const words = text.match(/[\p{L}\p{N}\p{M}.@_-]+/gu) ?? [];
  const mixed = words.filter(
    (word) => /\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}]/u.test(word),
  );
  return [...new Set(mixed)].slice(0, 5).map((word) => {
    const [letter = ""] = /[\p{Script=Cyrillic}\p{Script=Greek}]/u.exec(word) ?? [];
    const code = letter.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
    return `"${truncateLine(escapeForTerminal(word), 60)}" mixes alphabets: ${letter} is U+${code}`;
  });
}

/** A line each, or several where a text has them. */
function formatInputFields(input: unknown): string[] {
  const entries = input !== null && typeof input === "object" && !Array.isArray(input) ? Object.entries(input) : [];
  if (entries.length === 0) return [JSON.stringify(input) ?? ""];
  return entries.map(
    ([key, value]) => `${escapeLine(key)}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
}

function countCharacters(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}
