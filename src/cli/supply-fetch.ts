import { SkillError } from "../shared/error.ts";
import { oneLine } from "../shared/text.ts";
import { EXIT } from "./exit.ts";
import { type Io, interruptible, printer } from "./io.ts";

/** Fetches, and says so where it takes a moment. Ctrl-C ends it. */
export async function fetching<T>(io: Io, what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const out = printer(io.stderr, io.env);
  const timer = setTimeout(() => out.line`${out.dim("·")} fetching ${oneLine(what, 200)}`, PATIENCE_MS);
  try {
    return await stoppable(io, work);
  } finally {
    clearTimeout(timer);
  }
}

const PATIENCE_MS = 700;

/** An answer from whoever sits at the terminal. Ctrl-C is none: it ends all. */
export function answerOf(io: Io, question: string): Promise<string> {
  return stoppable(io, async (signal) => ((await io.ask?.(question, signal)) ?? "").trim());
}

/** What ends with a code of its own when somebody stops it. `nothing`: what has not happened then. */
export async function unlessStopped(io: Io, nothing: string, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError) || error.code !== STOPPED) throw error;
    const out = printer(io.stderr, io.env);
    out.line`${out.red("✗")} interrupted: ${nothing}`;
    return EXIT.interrupted;
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
