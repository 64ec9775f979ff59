import type { Effect } from "../host/approvals.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { Journal } from "../host/journal.ts";
import { type ModelReply, NO_USAGE, type Usage } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { plus } from "./loop-options.ts";
import { asNotice } from "./notice.ts";
import { openWaits, type Port, wordOn } from "./port.ts";
import type { RunResult } from "./result.ts";

export interface Driven {
  host: Host;
  run: string;
  skill: string;
  /** What was written down before, to go on with. */
  journal?: Journal | undefined;
  /** Writes the run down from its first step on. Throws a SkillError when it cannot be. */
  open(): Journal;
  emit(event: RunEvent): void;
  signal: AbortSignal;
}

/** A run that is written down: what was done is not done again, and what nobody can agree to now waits. Contract: resolves as `work` does. */
export async function drive(
  driven: Driven,
  work: (port: Port, signal: AbortSignal) => Promise<RunResult>,
): Promise<RunResult> {
  const driver = openDriver(driven);
  try {
    const result = await work(driver.port, driver.signal);
    return driver.halted() ?? (driver.isCancelled() ? { ...result, error: CALLED_OFF } : result);
  } catch (error) {
    const halted = driver.halted();
    if (halted) return halted;
    throw error;
  } finally {
    driver.close();
  }
}

const CALLED_OFF: Notice = { code: "run-cancelled", message: "The run was called off", fix: "" };

/** Why a run goes no further: it waits for a word, or cannot be written down any more. */
type Halt = { effect: Effect } | { error: Notice };

interface State {
  journal: Journal | undefined;
  /** There is no journal, and there will be none. */
  isUnwritten: boolean;
  halt?: Halt;
  iterations: number;
  usage: Usage;
}

/** What leaves a run for another time: it was stopped, or what it needs was not there. */
const RESUMABLE: ReadonlySet<RunResult["stop"]> = new Set(["aborted", "error"]);
const LOOK_MS = 500;
/** What says how far something is, and is nothing once that is over. */
const UNKEPT: ReadonlySet<RunEvent["type"]> = new Set(["text-said", "tool-progressed"]);

function openDriver({ host, run, skill, journal: earlier, open, emit, signal: outer }: Driven) {
  const cancel = new AbortController();
  const signal = AbortSignal.any([outer, cancel.signal]);
  const state: State = { journal: earlier, isUnwritten: false, iterations: 0, usage: NO_USAGE };
  const waits = openWaits();
  const start = performance.now();
  // Once it is not written down any more nothing is done any more: all that follows unwinds.
  const kept = <T>(write: () => T): T => {
    try {
      return write();
    } catch (error) {
      state.halt ??= { error: asNotice(error) };
      throw error;
    }
  };
  const timer = setInterval(() => {
    try {
      if (kept(() => state.journal?.isCancelled())) cancel.abort();
    } catch {} // The next step says so.
  }, LOOK_MS);
  timer.unref();
  const check = () => {
    if (state.halt) throw new SkillError("halted", { message: "The run goes no further" });
  };
  const begin = (): Journal | undefined => {
    if (state.journal || state.isUnwritten) return state.journal;
    try {
      state.journal = open();
    } catch (error) {
      // Nothing was promised yet: it is done as if nobody wrote it down.
      state.isUnwritten = true;
      const { code, message } = asNotice(error);
      const warning = { code, message: `The run is not written down: ${message}`, fix: "it cannot be gone on with" };
      emit({ type: "run-warned", run, skill, at: new Date().toISOString(), ...warning });
    }
    return state.journal;
  };
  for (const event of begunIn(earlier)) emit({ ...event, isResumed: true });
  // What is done while a run is being stopped is not what it would have come to.
  const isLeaving = () => outer.aborted;
  const counted = (name: string, prefix: string, value: unknown) => {
    if (!name.startsWith("model:")) return;
    if (prefix === "") state.iterations++;
    state.usage = plus(state.usage, (value as ModelReply).usage);
  };
  const portAt = (prefix: string): Port => ({
    async step<T>(name: string, work: () => Promise<T>): Promise<T> {
      check();
      const isTop = prefix === "";
      // What is refused before it begins is not written down.
      const journal = isTop && name === "refused" ? state.journal : begin();
      const known = journal?.stepOf(prefix + name);
      const value = known ? (known.value as T) : await work();
      check();
      counted(name, prefix, value);
      if (known) return value;
      if (!journal || isLeaving()) return value;
      if (isTop && (name === "end" || name === "refused")) return ended(journal, value as RunResult) as T;
      return kept(() => journal.step(prefix + name, value)) as T;
    },
    done<T>(name: string) {
      const known = state.journal?.stepOf(prefix + name) as { value: T } | undefined;
      if (known && name === "end") state.usage = plus(state.usage, (known.value as RunResult).usage);
      return known;
    },
    async approval(name, ask) {
      check();
      const journal = begin();
      const known = journal?.answerTo(prefix + name);
      // A word is on what was shown. What is done by now needs none.
      const isDone = journal?.stepOf(prefix + name.replace(/^approval:/, "tool:")) !== undefined;
      if (known && (isDone || isSame(known.effect, ask.effect))) return known.approval;
      const word = await waits.during(() => wordOn(host, ask));
      if (!journal) return word ?? { isApproved: false, reason: "there is nobody to ask" };
      if (word) {
        if (!isLeaving()) kept(() => journal.answer(prefix + name, word, ask.effect));
        return word;
      }
      ask.onAsked();
      kept(() => journal.ask(prefix + name, ask.effect));
      state.halt = { effect: ask.effect };
      return check() as never;
    },
    waited: waits.waited,
    emit(event) {
      if (state.halt) return;
      emit(event);
      if (UNKEPT.has(event.type) || !state.journal || isLeaving()) return;
      try {
        kept(() => state.journal?.event(event));
      } catch {} // The next step says so.
    },
    within: (name) => portAt(`${prefix}${name}/`),
  });
  const ended = (journal: Journal, result: RunResult): RunResult => {
    // One that was taken up and is refused now may be let later.
    const isLater = RESUMABLE.has(result.stop) || (journal === earlier && result.stop === "refused");
    if (isLater && !journal.isCancelled()) return result;
    const { stop, isError, iterations, ms, usage, cost, model } = result;
    const tail = { stop, isError, iterations, ms, usage };
    kept(() =>
      journal.end(
        { ...result },
        { ...tail, ...(cost === undefined ? {} : { cost }), ...(model === undefined ? {} : { model }) },
      ),
    );
    return result;
  };
  const haltedResult = (halt: Halt): RunResult => {
    const { iterations, usage, journal } = state;
    const ms = Math.round(performance.now() - start + (journal?.elapsedMs ?? 0));
    return { ...resultOf(halt), run, skill, isError: true, iterations, refusals: [], warnings: [], usage, ms };
  };
  return {
    port: portAt(""),
    signal,
    halted(): RunResult | undefined {
      if (!state.halt) return undefined;
      const result = haltedResult(state.halt);
      const { stop, isError, iterations: times, ms, usage } = result;
      emit({
        type: "run-ended",
        run,
        skill,
        at: new Date().toISOString(),
        stop,
        isError,
        iterations: times,
        ms,
        usage,
      });
      return result;
    },
    isCancelled: () => cancel.signal.aborted,
    close() {
      clearInterval(timer);
      state.journal?.close();
    },
  };
}

function isSame(a: Effect | undefined, b: Effect): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** What began before and has no end: whoever looks on now has to know of it. */
function begunIn(journal: Journal | undefined) {
  const begun = new Map<string, Extract<RunEvent, { type: "run-started" }>>();
  for (const line of journal?.lines ?? []) {
    if (line.type !== "event") continue;
    if (line.event.type === "run-started") begun.set(line.event.run, line.event);
    if (line.event.type === "run-ended" && line.event.run !== journal?.id) begun.delete(line.event.run);
  }
  return begun.values();
}

/** What there is to say of a run that goes no further for now. */
function resultOf(halt: Halt): Pick<RunResult, "stop" | "content" | "error" | "effect"> {
  if ("error" in halt) {
    const { message, fix } = halt.error;
    return { stop: "error", error: halt.error, content: `[${message}: ${fix}]` };
  }
  const { what, tool } = halt.effect;
  return { stop: "waiting", effect: halt.effect, content: `[It waits for somebody to agree: ${tool}, ${what}]` };
}
