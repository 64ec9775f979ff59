import { createHash } from "node:crypto";
import { shortenTexts } from "../agent/run/redaction.ts";
import type { Approval, ApprovalRequest, ApprovalScope } from "../host/approval.ts";
import { formatHomePath } from "../skill/source/locations.ts";
import { getUserHome } from "../util/system.ts";
import { compareText, formatNumber, truncateLine } from "../util/text.ts";
import { escapeForTerminal, escapeLine } from "../util/untrusted-text.ts";
import { foldColumns, foldLines } from "./format.ts";
import { type CommandIo, createPrinter, type Printer } from "./output.ts";
import type { ApprovalOrigin } from "./run-output.ts";

interface ApprovalChoice {
  key: string;
  label: string;
  scope?: ApprovalScope;
}

/** The possible answers, and a note on their scope if the keys do not state it. */
interface ApprovalQuestion {
  choices: readonly ApprovalChoice[];
  scopeNote?: string;
}

const MAX_CHOICES_WIDTH = 80;
const NO_CHOICE: ApprovalChoice = { key: "n", label: "no" };

/** Workspace changes are approved for the whole run: asking for each one trains users to confirm unread. */
function createRunQuestion({
  on,
  skill,
  tool,
  isOnce,
}: Pick<ApprovalRequest, "on" | "skill" | "tool" | "isOnce">): ApprovalQuestion {
  if (isOnce) return { choices: [{ key: "y", label: "yes, this once", scope: "once" }, NO_CHOICE] };
  const always = (label: string): ApprovalChoice[] => (skill === "" ? [] : [{ key: "a", label, scope: "always" }]);
  if (on === "workspace") {
    const by = skill === "" ? "" : `, by ${skill},`;
    return {
      choices: [{ key: "y", label: "yes, for this run", scope: "run" }, ...always("always in this folder"), NO_CHOICE],
      scopeNote: `yes covers all file changes here${by} in this run`,
    };
  }
  const choices = (run: string): ApprovalChoice[] => [
    { key: "y", label: "once", scope: "once" },
    { key: "r", label: run, scope: "run" },
    ...always("always for this tool"),
    NO_CHOICE,
  ];
  const each = `each call to ${tool} in this run`;
  if (formatChoices(choices(each)).length <= MAX_CHOICES_WIDTH) return { choices: choices(each) };
  return { choices: choices("this run"), scopeNote: `this run: ${each}, whatever its input` };
}

/** The question for a call that the user at the terminal makes. */
function createCallQuestion({ skill, on, isOnce }: Pick<ApprovalRequest, "skill" | "on" | "isOnce">): ApprovalQuestion {
  const yes: ApprovalChoice = { key: "y", label: "yes", scope: "once" };
  const label = on === "workspace" ? "always in this folder" : "always for this tool";
  const always: ApprovalChoice = { key: "a", label, scope: "always" };
  return { choices: [yes, ...(skill === "" || isOnce ? [] : [always]), NO_CHOICE] };
}

function formatChoices(choices: readonly ApprovalChoice[]): string {
  return `${choices.map(({ key, label }) => `[${key}] ${label}`).join("  ")} `;
}

const MAX_TRIES = 3;

/** Asks at the terminal. An answer in another process ends the question. */
export async function askForApproval(
  io: CommandIo,
  request: ApprovalRequest,
  { signal, by }: { signal: AbortSignal; by: ApprovalOrigin },
): Promise<Approval> {
  const out = createPrinter(io.stderr, io.env);
  const { choices, scopeNote: reach } = by === "call" ? createCallQuestion(request) : createRunQuestion(request);
  if (signal.aborted) return INTERRUPTED_APPROVAL;
  signal.addEventListener("abort", () => printRemoteAnswer(out, signal.reason), { once: true });
  if (!printApprovalRequest(out, request, getUserHome(io.env)) && !(await isInputReviewed(io, out, request, signal)))
    return signal.aborted ? INTERRUPTED_APPROVAL : createDenial("");
  if (reach !== undefined) out.line`${out.dim(reach)}`;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = await io.ask?.(formatChoices(choices), signal);
    if (signal.aborted) return INTERRUPTED_APPROVAL;
    if (answer === undefined) return createDenial("");
    const reply = answer.trim().toLowerCase();
    const chosen = choices.find(({ key }) => key === (ANSWER_ALIASES[reply] ?? reply));
    if (chosen?.scope) return { isApproved: true, scope: chosen.scope };
    if (chosen && by === "call") return createDenial("");
    if (chosen) return createDenial((await io.ask?.("Why not? (for the model; may be empty) ", signal)) ?? "");
    if (tries + 1 < MAX_TRIES) out.line`${out.dim(`answer with one of: ${choices.map(({ key }) => key).join(", ")}`)}`;
  }
  out.line`${out.dim("no valid answer: not approved")}`;
  return createDenial("");
}

/** Prints the answer that was given in another process, such as the page of `skillet studio`. */
function printRemoteAnswer(out: Printer, answer: Partial<Approval>): void {
  const { isApproved, scope = "once", reason } = answer;
  if (isApproved === undefined) return;
  const what = isApproved ? `approved ${scope === "run" ? "for this run" : scope}` : "denied";
  out.line``;
  out.line`${out.dim("·")} ${what} in another process${reason ? `: ${reason}` : ""}`;
}

/** Offers to show all of an input that is too long for one screen. Returns false if the user declines, which denies the request. */
export async function isInputReviewed(
  io: CommandIo,
  out: Printer,
  request: ApprovalRequest,
  signal?: AbortSignal,
): Promise<boolean> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const answer = (await io.ask?.("[d] show the whole input  [n] no ", signal))?.trim().toLowerCase();
    if (answer === undefined || signal?.aborted || answer === "n" || answer === "no") return false;
    if (answer !== "d" && answer !== "details") continue;
    if (await pageInput(io, out, request, signal)) return signal?.aborted !== true;
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
  /** Shows the whole input, whatever its length. */
  isWhole?: boolean;
}

/**
 * Prints an approval request: the action, its scope, whether it can be undone, the requester, and the exact input. Returns false if the
 * input was truncated: then it must not be approved yet.
 */
export function printApprovalRequest(
  out: Printer,
  request: ApprovalRequest,
  home: string,
  options: PrintRequestOptions = {},
): boolean {
  const { skill, source, location, tool, what, from, where, amount, reason, input } = request;
  const who = skill || source || "the conversation";
  const path = formatHomePath(location, home);
  const copy = skill === "" || path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, text: string | undefined][] = [
    ["what", what],
    ["from", from?.join("\n")],
    ["where", where],
    ["how much", amount],
    ["undo", formatReversibility(request)],
    ["asked by", `${escapeLine(who)}${copy === "" ? "" : ` (${escapeLine(copy)})`}`],
    // The headline already gives the reason, except for an undeclared side effect.
    ["because", request.on === "other" && !from ? reason : undefined],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)}${from && request.on === "other" ? UNTRUSTED_INPUT_NOTE : EFFECT_SCOPES[request.on]}`;
  for (const [label, text] of rows) if (text !== undefined && text !== "") printField(out, label, text);
  return printInput(out, input, options);
}

/** Shows the whole input, one screen at a time. Returns true if it was shown to the end. */
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
  workspace: " wants to change files in the workspace",
  outside: " wants to change something outside the workspace",
  other: ": the skill did not declare this side effect",
};

const UNTRUSTED_INPUT_NOTE = ": its input comes from untrusted text";

/** Formats the input in one line: `to: ann@example.com, subject: Minutes`. Empty without an input. */
export function formatInputLine({ input }: Pick<ApprovalRequest, "input">): string {
  const fields = formatInputFields(input);
  return fields[0] === "" || fields[0] === "{}" ? "" : truncateLine(fields.join(", "));
}

const LABEL_WIDTH = 10;

function printField(out: Printer, label: string, text: string): void {
  const lines = foldColumns(text, out.width - LABEL_WIDTH - 3);
  for (const [index, line] of lines.entries())
    out.line`  ${out.dim((index === 0 ? label : "").padEnd(LABEL_WIDTH))}${line}`;
}

function formatReversibility({ isReversible, on }: Pick<ApprovalRequest, "isReversible" | "on">): string {
  if (isReversible === undefined) return on === "workspace" ? "only by hand" : "unknown";
  return isReversible ? "possible" : "not possible";
}

/** The longest input that is shown at once. Longer inputs show the beginning of each text, and the rest on request. */
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
    out.line`  ${out.yellow("!")} The input has ${size} characters and is not shown in full. Review all of it before you approve it.`;
  }
  return isWhole || isShort;
}

const MAX_INPUT_LINES = 60;

interface InputLine {
  text: string;
  /** True for the rest of a line that is wider than the terminal. */
  isFolded: boolean;
}

/** Only fields start at the margin, so text cannot imitate a field. */
function formatInputLines(fields: readonly string[], width: number): InputLine[] {
  return fields.flatMap((field) =>
    foldLines(field, width - 8).flatMap((pieces, line) =>
      pieces.map((text, piece) => ({ text: line + piece === 0 ? text : `  ${text}`, isFolded: piece > 0 })),
    ),
  );
}

/** Prints lines of input. Folded parts have a different border, so text cannot imitate a separate line, such as one of a diff. */
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

/** Returns warnings for words that mix Latin letters with look-alikes of other scripts. */
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

/** Returns one entry per field. A field with line breaks spans several lines. */
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
