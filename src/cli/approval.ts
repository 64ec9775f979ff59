import type { Approval, Approvals, Approve, Effect, WordScope } from "../host/approvals.ts";
import type { Discovered } from "../host/discover.ts";
import { userHome } from "../host/home.ts";
import { showEffect } from "./effect.ts";
import { type Io, printer } from "./io.ts";
import type { Progress } from "./progress.ts";

export interface ApprovalOptions {
  /** Agree to changes in the workspace beforehand. */
  yes?: boolean;
  /** False: refuse what nobody can be asked about. */
  wait?: boolean;
}

/** Asks whoever sits at the terminal what a run has to ask. Nothing where nobody does. */
export function askApproval(io: Io): Approve | undefined {
  if (!io.ask) return undefined;
  return (effect, { signal }) => wordOn(io, effect, signal);
}

/** A host that asks at this terminal, one question at a time; and what to wait for before anything else is written there. */
export function agreeing(
  io: Io,
  found: Discovered,
  options: ApprovalOptions,
  progress?: Pick<Progress, "hold" | "release">,
): { host: Discovered & { approve?: Approve }; asking(): Promise<unknown> } {
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
  return { ...approvals, isAlways: (effect) => effect.on === "workspace" || approvals.isAlways(effect) };
}

interface Choice {
  key: string;
  says: string;
  scope?: WordScope;
}

const ONCE: Choice = { key: "y", says: "once", scope: "once" };
const RUN: Choice = { key: "r", says: "this run", scope: "run" };
const ALWAYS: Choice = { key: "a", says: "always for this skill", scope: "always" };
const NO: Choice = { key: "n", says: "no" };

/** Changes in the workspace are agreed to for a run: nobody reads the tenth question. */
export function choicesFor({ on, skill }: Pick<Effect, "on" | "skill">): readonly Choice[] {
  const yes = on === "workspace" ? [{ ...RUN, key: "y" }] : [ONCE, RUN];
  return [...yes, ...(skill === "" ? [] : [ALWAYS]), NO];
}

const MOST_TRIES = 3;

async function wordOn(io: Io, effect: Effect, signal: AbortSignal): Promise<Approval> {
  const out = printer(io.stderr, io.env);
  const choices = choicesFor(effect);
  const question = `${choices.map(({ key, says }) => `[${key}] ${says}`).join("  ")} `;
  if (signal.aborted) return INTERRUPTED;
  showEffect(out, effect, userHome(io.env));
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const answer = (await answerTo(io, question, signal)).trim().toLowerCase();
    if (signal.aborted) return INTERRUPTED;
    const chosen = choices.find(({ key }) => key === (WORDS[answer] ?? answer));
    if (chosen?.scope) return { isApproved: true, scope: chosen.scope };
    if (chosen) return refusal(await answerTo(io, "Why not? (for the model; may be empty) ", signal));
    if (tries + 1 < MOST_TRIES) out.line`${out.dim(`one of ${choices.map(({ key }) => key).join(", ")}`)}`;
  }
  out.line`${out.dim("no clear answer: that is a no")}`;
  return refusal("");
}

const WORDS: Readonly<Record<string, string>> = { yes: "y", no: "n", run: "r", always: "a" };
const INTERRUPTED: Approval = { isApproved: false, reason: "the run was interrupted" };

function refusal(reason: string): Approval {
  const why = reason.trim();
  return { isApproved: false, ...(why === "" ? {} : { reason: why }) };
}

/** Ends with the signal: whoever is not asked any more has not answered. */
async function answerTo(io: Io, question: string, signal: AbortSignal): Promise<string> {
  return (await io.ask?.(question, signal)) ?? "";
}
