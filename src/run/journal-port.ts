import type { Effect } from "../host/approvals.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { Journal } from "../host/journal.ts";
import { type ModelReply, NO_USAGE, type Usage } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { plus } from "./loop-options.ts";
import { asNotice } from "./notice.ts";
import { type Answered, type Ask, NOBODY, openWaits, type Port, wordOn } from "./port.ts";
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
  const driver = new Driver(driven);
  try {
    const result = await work(driver.port(), driver.signal);
    const isCalledOff = result.stop === "aborted" && driver.isCancelled();
    return driver.halted() ?? (isCalledOff ? { ...result, error: CALLED_OFF } : result);
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

/** What leaves a run for another time: it was stopped, or what it needs was not there. */
const RESUMABLE: ReadonlySet<RunResult["stop"]> = new Set(["aborted", "error"]);
const LOOK_MS = 500;
/** What says how far something is, and is nothing once that is over. */
const UNKEPT: ReadonlySet<RunEvent["type"]> = new Set(["text-said", "tool-progressed"]);

class Driver {
  readonly signal: AbortSignal;
  readonly #driven: Driven;
  readonly #cancel = new AbortController();
  readonly #waits = openWaits();
  readonly #start = performance.now();
  readonly #timer: NodeJS.Timeout;
  #journal: Journal | undefined;
  /** There is no journal, and there will be none. */
  #isUnwritten = false;
  #halt: Halt | undefined;
  #iterations = 0;
  #usage: Usage = NO_USAGE;

  constructor(driven: Driven) {
    this.#driven = driven;
    this.#journal = driven.journal;
    this.signal = AbortSignal.any([driven.signal, this.#cancel.signal]);
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
    for (const event of begunIn(driven.journal)) driven.emit({ ...event, isResumed: true });
  }

  port(prefix = ""): Port {
    return {
      step: (name, work) => this.#step(prefix, name, work),
      done: (name) => this.#done(prefix + name),
      approval: (name, ask) => this.#approval(prefix + name, ask),
      ask: (ask) => this.#waits.during(() => wordOn(this.#driven.host, ask)),
      waited: this.#waits.waited,
      emit: (event) => this.#emit(event),
      within: (name) => this.port(`${prefix}${name}/`),
    };
  }

  isCancelled(): boolean {
    return this.#cancel.signal.aborted;
  }

  /** What there is of a run that goes no further for now. */
  halted(): RunResult | undefined {
    if (!this.#halt) return undefined;
    const { run, skill, emit } = this.#driven;
    const ms = Math.round(performance.now() - this.#start + (this.#journal?.elapsedMs ?? 0));
    const came = { run, skill, isError: true, iterations: this.#iterations, ms, usage: this.#usage };
    const result: RunResult = { ...came, ...sayHalt(this.#halt), refusals: [], warnings: [] };
    emit({ type: "run-ended", at: new Date().toISOString(), ...came, stop: result.stop });
    return result;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#journal?.close();
  }

  async #step<T>(prefix: string, name: string, work: () => Promise<T>): Promise<T> {
    this.#check();
    const isTop = prefix === "";
    // What is refused before it begins is not written down.
    const journal = isTop && name === "refused" ? this.#journal : this.#begin();
    const known = journal?.stepOf(prefix + name);
    const value = known ? (known.value as T) : await work();
    this.#check();
    if (name.startsWith("model:")) this.#count(isTop, (value as ModelReply).usage);
    if (known || !journal || this.#isLeaving()) return value;
    if (isTop && (name === "end" || name === "refused")) return this.#end(journal, value as RunResult) as T;
    return this.#kept(() => journal.step(prefix + name, value)) as T;
  }

  #done<T>(name: string): { value: T } | undefined {
    const known = this.#journal?.stepOf(name) as { value: T } | undefined;
    if (known && name.endsWith("/end")) this.#count(false, (known.value as RunResult).usage);
    return known;
  }

  async #approval(name: string, ask: Ask): Promise<Answered> {
    this.#check();
    const journal = this.#begin();
    const known = journal?.answerTo(name);
    // A word is on what was shown. What is done by now needs none.
    const isDone = journal?.stepOf(name.replace(/approval:(?=[^/]*$)/, "tool:")) !== undefined;
    if (known && (isDone || isSame(known.effect, ask.effect))) return { effect: ask.effect, ...known };
    let isAsked = false;
    const onAsked = () => {
      if (!isAsked) ask.onAsked();
      isAsked = true;
    };
    const word = await this.#waits.during(() => wordOn(this.#driven.host, { ...ask, onAsked }));
    if (word || !journal) {
      // What is said once nobody waits for it is no word.
      const isKept = !this.#isLeaving() && !ask.signal.aborted;
      if (word && journal && isKept) this.#kept(() => journal.answer(name, word, ask.effect));
      return { approval: word ?? NOBODY, effect: ask.effect };
    }
    onAsked();
    this.#kept(() => journal.ask(name, ask.effect));
    this.#halt = { effect: ask.effect };
    throw haltedError();
  }

  #emit(event: RunEvent): void {
    if (this.#halt) return;
    this.#driven.emit(event);
    if (UNKEPT.has(event.type) || this.#isLeaving()) return;
    try {
      this.#kept(() => this.#journal?.event(event));
    } catch {} // The next step says so.
  }

  #begin(): Journal | undefined {
    if (this.#journal || this.#isUnwritten) return this.#journal;
    const { open, emit, run, skill } = this.#driven;
    try {
      this.#journal = open();
    } catch (error) {
      // Nothing was promised yet: it is done as if nobody wrote it down.
      this.#isUnwritten = true;
      const { code, message } = asNotice(error);
      const warning = { code, message: `The run is not written down: ${message}`, fix: "it cannot be gone on with" };
      emit({ type: "run-warned", run, skill, at: new Date().toISOString(), ...warning });
    }
    return this.#journal;
  }

  #end(journal: Journal, result: RunResult): RunResult {
    const { stop, isError, iterations, ms, usage, cost, model } = result;
    // One that was taken up and is refused now may be let later.
    const isLater = RESUMABLE.has(stop) || (journal === this.#driven.journal && stop === "refused");
    if (isLater && !journal.isCancelled()) return result;
    const tail = { stop, isError, iterations, ms, usage, ...defined({ cost, model }) };
    this.#kept(() => journal.end({ ...result }, tail));
    return result;
  }

  /** Once it is not written down any more nothing is done any more: all that follows unwinds. */
  #kept<T>(write: () => T): T {
    try {
      return write();
    } catch (error) {
      this.#halt ??= { error: asNotice(error) };
      throw error;
    }
  }

  #check(): void {
    if (this.#halt) throw haltedError();
  }

  #count(isTop: boolean, usage: Usage): void {
    if (isTop) this.#iterations++;
    this.#usage = plus(this.#usage, usage);
  }

  /** What is done while a run is being stopped is not what it would have come to. */
  #isLeaving(): boolean {
    return this.#driven.signal.aborted;
  }

  /** Whether somebody has called it off. */
  #look(): void {
    try {
      if (this.#kept(() => this.#journal?.isCancelled())) this.#cancel.abort();
    } catch {} // The next step says so.
  }
}

function haltedError(): SkillError {
  return new SkillError("halted", { message: "The run goes no further" });
}

/** Where its words come from is left aside: what was read by then and is not read again is not known any more. */
function isSame(a: Effect | undefined, b: Effect): boolean {
  const whole = ({ from: _, ...effect }: Effect) => JSON.stringify(effect);
  return a !== undefined && whole(a) === whole(b);
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

/** Why it goes no further, and what there is instead of an answer. */
function sayHalt(halt: Halt): Pick<RunResult, "stop" | "content" | "error" | "effect"> {
  if ("error" in halt) {
    const { message, fix } = halt.error;
    return { stop: "error", error: halt.error, content: `[${message}: ${fix}]` };
  }
  const { what, tool } = halt.effect;
  return { stop: "waiting", effect: halt.effect, content: `[It waits for somebody to agree: ${tool}, ${what}]` };
}
