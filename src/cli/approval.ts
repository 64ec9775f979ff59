import type { Approval, Approvals, Approve, Effect, WordScope } from "../host/approvals.ts";
import type { Discovered } from "../host/discover.ts";
import { userHome } from "../host/home.ts";
import { pageInput, showEffect } from "./effect.ts";
import { type Io, type Printer, printer } from "./io.ts";
import type { Progress } from "./progress.ts";

export interface ApprovalOptions {
  /** Agree to changes in the workspace beforehand. */
  yes?: boolean;
  /** False: refuse what nobody can be asked about. */
  wait?: boolean;
}

/** `run`: a model wants it. `call`: whoever sits there does. */
type AskedBy = "run" | "call";

/** Asks whoever sits at the terminal what has to be asked. Nothing where nobody does. */
export function askApproval(io: Io, by: AskedBy = "run"): Approve | undefined {
  if (!io.ask) return undefined;
  return (effect, { signal }) => wordOn(io, effect, { signal, by });
}

/** A host that asks at this terminal, one question at a time; and what to wait for before anything else is written there. */
export function agreeing<Found extends Discovered>(
  io: Io,
  found: Found,
  options: ApprovalOptions,
  progress?: Pick<Progress, "hold" | "release">,
): { host: Found & { approve?: Approve }; asking(): Promise<unknown> } {
  let before: Promise<unknown> = Promise.resolve();
  const ask = askApproval(io);
  const oneByOne: Approve = (effect, { signal }) => {
    const word = before.then(async () => {
      await new Promise(setImmediate); // What has happened until now is shown first.
      progress?.hold();
      try {
        return (await ask?.(effect, { signal })) ?? NOBODY;
      } finally {
        progress?.release();
      }
    });
    before = word.catch(() => {});
    return word;
  };
  const approve = ask ? { approve: oneByOne } : options.wait === false ? { approve: async () => NOBODY } : {};
  const approvals = options.yes ? agreedBefore(found.approvals) : found.approvals;
  return { host: { ...found, ...approve, approvals }, asking: () => before };
}

const NOBODY: Approval = { isApproved: false, reason: "there is nobody to ask" };

/** With what was said on the command line: nothing of it is written down, and nothing outside of the workspace is meant by it. */
function agreedBefore(approvals: Approvals): Approvals {
  return { ...approvals, isAlways: (effect) => isHere(effect) || approvals.isAlways(effect) };
}

function isHere({ on, isOnce }: Pick<Effect, "on" | "isOnce">): boolean {
  return on === "workspace" && !isOnce;
}

interface Choice {
  key: string;
  says: string;
  scope?: WordScope;
}

/** What can be answered, and how far an answer reaches where its key does not say it. */
interface Question {
  choices: readonly Choice[];
  reach?: string;
}

const WIDEST = 80;
const NO: Choice = { key: "n", says: "no" };

/** Changes in the workspace are agreed to for a run: nobody reads the tenth question. */
function questionOn({ on, skill, tool, isOnce }: Pick<Effect, "on" | "skill" | "tool" | "isOnce">): Question {
  if (isOnce) return { choices: [{ key: "y", says: "yes, this once", scope: "once" }, NO] };
  const always = (says: string): Choice[] => (skill === "" ? [] : [{ key: "a", says, scope: "always" }]);
  if (on === "workspace") {
    const by = skill === "" ? "" : `, by ${skill},`;
    return {
      choices: [{ key: "y", says: "yes, for this run", scope: "run" }, ...always("always in this folder"), NO],
      reach: `yes holds for all changes of files here${by} in this run`,
    };
  }
  const choices = (run: string): Choice[] => [
    { key: "y", says: "once", scope: "once" },
    { key: "r", says: run, scope: "run" },
    ...always("always for this tool"),
    NO,
  ];
  const each = `each call of ${tool} in this run`;
  if (sayChoices(choices(each)).length <= WIDEST) return { choices: choices(each) };
  return { choices: choices("this run"), reach: `this run: ${each}, whatever its input` };
}

/** For one call that whoever sits there makes themselves. */
function questionOnCall({ skill, on, isOnce }: Pick<Effect, "skill" | "on" | "isOnce">): Question {
  const yes: Choice = { key: "y", says: "yes", scope: "once" };
  const says = on === "workspace" ? "always in this folder" : "always for this tool";
  const always: Choice = { key: "a", says, scope: "always" };
  return { choices: [yes, ...(skill === "" || isOnce ? [] : [always]), NO] };
}

function sayChoices(choices: readonly Choice[]): string {
  return `${choices.map(({ key, says }) => `[${key}] ${says}`).join("  ")} `;
}

const MOST_TRIES = 3;

async function wordOn(io: Io, effect: Effect, { signal, by }: { signal: AbortSignal; by: AskedBy }): Promise<Approval> {
  const out = printer(io.stderr, io.env);
  const { choices, reach } = by === "call" ? questionOnCall(effect) : questionOn(effect);
  if (signal.aborted) return INTERRUPTED;
  if (!showEffect(out, effect, userHome(io.env)) && !(await isReadInFull(io, out, effect, signal)))
    return signal.aborted ? INTERRUPTED : refusal("");
  if (reach !== undefined) out.line`${out.dim(reach)}`;
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const answer = await io.ask?.(sayChoices(choices), signal);
    if (signal.aborted) return INTERRUPTED;
    if (answer === undefined) return refusal("");
    const word = answer.trim().toLowerCase();
    const chosen = choices.find(({ key }) => key === (WORDS[word] ?? word));
    if (chosen?.scope) return { isApproved: true, scope: chosen.scope };
    if (chosen && by === "call") return refusal("");
    if (chosen) return refusal((await io.ask?.("Why not? (for the model; may be empty) ", signal)) ?? "");
    if (tries + 1 < MOST_TRIES) out.line`${out.dim(`one of ${choices.map(({ key }) => key).join(", ")}`)}`;
  }
  out.line`${out.dim("no clear answer: that is a no")}`;
  return refusal("");
}

/** Offers to show all of an input that is too long to be shown at once. Returns false where somebody would rather not: that is a no. */
export async function isReadInFull(io: Io, out: Printer, effect: Effect, signal?: AbortSignal): Promise<boolean> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const answer = (await io.ask?.("[d] show all of the input  [n] no ", signal))?.trim().toLowerCase();
    if (answer === undefined || signal?.aborted || answer === "n" || answer === "no") return false;
    if (answer !== "d" && answer !== "details") continue;
    if (await pageInput(io, out, effect, signal)) return signal?.aborted !== true;
  }
  return false;
}

const WORDS: Readonly<Record<string, string>> = { yes: "y", no: "n", run: "r", always: "a" };
const INTERRUPTED: Approval = { isApproved: false, reason: "the run was interrupted" };

function refusal(reason: string): Approval {
  const why = reason.trim();
  return { isApproved: false, ...(why === "" ? {} : { reason: why }) };
}
