import { SkillError } from "../../shared/error.ts";
import { oneLine } from "../../shared/text.ts";
import { type Io, interruptible } from "../io.ts";
import { waitingFor } from "../progress.ts";

/** Fetches. Ctrl-C ends it. */
export function fetching<T>(io: Io, what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return waitingFor(io, `fetching ${oneLine(what, 200)}`, () => stoppable(io, work));
}

/** An answer from whoever sits at the terminal. Ctrl-C is none: it ends all. */
export function answerOf(io: Io, question: string): Promise<string> {
  return stoppable(io, async (signal) => ((await io.ask?.(question, signal)) ?? "").trim());
}

/** What somebody may stop. `nothing`: what has not happened then. */
export async function unlessStopped(nothing: string, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError) || error.code !== STOPPED) throw error;
    throw new SkillError(STOPPED, { message: `interrupted: ${nothing}` });
  }
}

const STOPPED = "interrupted";

async function stoppable<T>(io: Io, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  let isStopped = () => false;
  const stop = () => new SkillError(STOPPED, { message: "It was interrupted", fix: "try again" });
  try {
    const result = await interruptible(io, (signal) => {
      isStopped = () => signal.aborted;
      return work(signal);
    });
    if (isStopped()) throw stop();
    return result;
  } catch (error) {
    throw isStopped() ? stop() : error;
  }
}
