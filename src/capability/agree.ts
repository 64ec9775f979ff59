import type { Approval, Effect } from "../host/approvals.ts";
import { SkillError } from "../shared/error.ts";
import { type Answer, refused } from "./answer.ts";
import { overChanges } from "./quota.ts";
import type { Scene } from "./scene.ts";

export interface Question {
  /** The same for the same question, however often the run is gone on with. */
  name: string;
  effect: Effect;
  /** What it is known by, for whoever waits. */
  about: string;
  /** Ends when whoever asked is gone. */
  gone?: AbortSignal | undefined;
}

/** Asks whether something may be done, now and once. Gives why it is not. */
export async function agreeTo(
  scene: Scene,
  { name, effect, about, gone }: Question,
): Promise<(Answer & { ok: false }) | undefined> {
  const { run } = scene;
  const tooMany = await overChanges(scene, name);
  if (tooMany) return tooMany;
  const signal = AbortSignal.any([run.signal, ...(gone ? [gone] : [])]);
  let word: Approval;
  try {
    word = await run.agree(name, effect, signal);
  } catch (error) {
    if (signal.aborted) return withdrawn();
    if (!(error instanceof SkillError && error.code === "halted")) throw error;
    scene.halt();
    return refused(
      PENDING,
      `It waits for the user to agree (${about})`,
      "end here: the run goes on when there is a word",
    );
  }
  if (signal.aborted) return withdrawn();
  if (word.isApproved) return undefined;
  const why = word.reason ? `: ${run.hide(word.reason)}` : "";
  return refused(
    "not-approved",
    `The user did not agree${why}`,
    "do not ask for the same again; find another way, or end",
  );
}

export const PENDING = "approval-pending";
export const WITHDRAWN = "request-withdrawn";

/** A word for whoever is not there any more is none: nothing is done behind a run's back. */
function withdrawn(): Answer & { ok: false } {
  return refused(WITHDRAWN, "Nobody waits for it any more: it was not done", "ask again, and wait for the answer");
}
