import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Approval, ApprovalRequest } from "../../host/approval.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import { type ModelReply, NO_USAGE } from "../../host/model-contract.ts";
import type { Usage } from "../../skill/tool.ts";
import type { Journal } from "../../store/journal.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createWaitTracker } from "../../util/timeout.ts";
import { formatRefusals, type RunResult, toProblem } from "./run-result.ts";
import { type AnsweredApproval, NO_APPROVER, type RequestApprovalOptions, requestApproval } from "./tool-policy.ts";

/**
 * What a run is driven by. Everything that happens to the world happens in a step, and what a run does next follows from what its steps
 * gave: so another driver can remember them, and go on after the program was killed.
 */
export interface StepRunner {
  /** Contract: each name once in a run. What it resolves with is plain data. Events are emitted in steps, so that none is told twice. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** What a step gave that was done before. Nothing when it was not. */
  done<T>(name: string): { value: T } | undefined;
  /** The word, and what it was given on: for a call that was made before, that may be another thing than is asked now. */
  approval(name: string, ask: RequestApprovalOptions): Promise<AnsweredApproval>;
  /** Asks now, and writes nothing down. Resolves with `undefined` where it cannot be asked for here. */
  ask(ask: RequestApprovalOptions): Promise<Approval | undefined>;
  emit(event: RunEvent): void;
  /** For how many milliseconds somebody was being asked: nobody's time limit is for that. */
  waited(): number;
  /** The port of a run within this one: its names do not meet these. */
  within(name: string): StepRunner;
}

/** Everything happens now, and nothing is remembered. */
export function createLiveStepRunner(
  host: Pick<Host, "approve" | "approvals">,
  emit: (event: RunEvent) => void,
): StepRunner {
  const waits = createWaitTracker();
  const port: StepRunner = {
    step: (_, work) => work(),
    done: () => undefined,
    approval: async (_, ask) => ({
      approval: (await waits.during(() => requestApproval(host, ask))) ?? NO_APPROVER,
      effect: ask.effect,
    }),
    ask: (ask) => waits.during(() => requestApproval(host, ask)),
    waited: waits.waited,
    emit,
    within: () => port,
  };
  return port;
}

interface RecordedRunOptions {
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
export async function runWithJournal(
  driven: RecordedRunOptions,
  work: (port: StepRunner, signal: AbortSignal) => Promise<RunResult>,
): Promise<RunResult> {
  const driver = new JournalStepRunner(driven);
  try {
    const result = await work(driver.port(), driver.signal);
    const isCalledOff = result.stop === "aborted" && driver.isCancelled();
    return driver.halted() ?? (isCalledOff ? { ...result, error: RUN_CANCELLED } : result);
  } catch (error) {
    const halted = driver.halted();
    if (halted) return halted;
    throw error;
  } finally {
    driver.close();
  }
}

const RUN_CANCELLED: Problem = { code: "run-cancelled", message: "The run was called off", fix: "" };

/** Why a run goes no further: it waits for a word, or cannot be written down any more. */
type RunHalt = { effect: ApprovalRequest } | { error: Problem };

/** What leaves a run for another time: it was stopped, or what it needs was not there. */
const RESUMABLE_STOPS: ReadonlySet<RunResult["stop"]> = new Set(["aborted", "error"]);
const CANCEL_POLL_MS = 500;
/** What says how far something is, and is nothing once that is over. */
const TRANSIENT_EVENTS: ReadonlySet<RunEvent["type"]> = new Set(["text-said", "tool-progressed"]);

class JournalStepRunner {
  readonly signal: AbortSignal;
  readonly #driven: RecordedRunOptions;
  readonly #cancel = new AbortController();
  readonly #waits = createWaitTracker();
  readonly #start = performance.now();
  readonly #timer: NodeJS.Timeout;
  #journal: Journal | undefined;
  /** There is no journal, and there will be none. */
  #isUnwritten = false;
  #halt: RunHalt | undefined;
  #iterations = 0;
  #usage: Usage = NO_USAGE;

  constructor(driven: RecordedRunOptions) {
    this.#driven = driven;
    this.#journal = driven.journal;
    this.signal = AbortSignal.any([driven.signal, this.#cancel.signal]);
    this.#timer = setInterval(() => this.#look(), CANCEL_POLL_MS);
    this.#timer.unref();
    for (const event of findOpenRuns(driven.journal)) driven.emit({ ...event, isResumed: true });
  }

  port(prefix = ""): StepRunner {
    return {
      step: (name, work) => this.#step(prefix, name, work),
      done: (name) => this.#done(prefix + name),
      approval: (name, ask) => this.#approval(prefix + name, ask),
      ask: (ask) => this.#waits.during(() => requestApproval(this.#driven.host, ask)),
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
    const result: RunResult = { ...came, ...createHaltResult(this.#halt), refusals: [], warnings: [] };
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

  async #approval(name: string, ask: RequestApprovalOptions): Promise<AnsweredApproval> {
    this.#check();
    const journal = this.#begin();
    const known = journal?.answerTo(name);
    // A word is on what was shown. What is done by now needs none.
    const isDone = journal?.stepOf(name.replace(/approval:(?=[^/]*$)/, "tool:")) !== undefined;
    if (known && (isDone || isSameRequest(known.effect, ask.effect))) return { effect: ask.effect, ...known };
    let isAsked = false;
    const onAsked = () => {
      if (!isAsked) ask.onAsked();
      isAsked = true;
    };
    const word = await this.#waits.during(() => requestApproval(this.#driven.host, { ...ask, onAsked }));
    if (word || !journal) {
      // What is said once nobody waits for it is no word.
      const isKept = !this.#isLeaving() && !ask.signal.aborted;
      if (word && journal && isKept) this.#kept(() => journal.answer(name, word, ask.effect));
      return { approval: word ?? NO_APPROVER, effect: ask.effect };
    }
    onAsked();
    this.#kept(() => journal.ask(name, ask.effect));
    this.#halt = { effect: ask.effect };
    throw createHaltedError();
  }

  #emit(event: RunEvent): void {
    if (this.#halt) return;
    this.#driven.emit(event);
    if (TRANSIENT_EVENTS.has(event.type) || this.#isLeaving()) return;
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
      const { code, message } = toProblem(error);
      const warning = { code, message: `The run is not written down: ${message}`, fix: "it cannot be gone on with" };
      emit({ type: "run-warned", run, skill, at: new Date().toISOString(), ...warning });
    }
    return this.#journal;
  }

  #end(journal: Journal, result: RunResult): RunResult {
    const { stop, isError, iterations, ms, usage, cost, model } = result;
    // One that was taken up and is refused now may be let later.
    const isLater = RESUMABLE_STOPS.has(stop) || (journal === this.#driven.journal && stop === "refused");
    if (isLater && !journal.isCancelled()) return result;
    const tail = { stop, isError, iterations, ms, usage, ...omitUndefined({ cost, model }) };
    this.#kept(() => journal.end({ ...result }, tail));
    return result;
  }

  /** Once it is not written down any more nothing is done any more: all that follows unwinds. */
  #kept<T>(write: () => T): T {
    try {
      return write();
    } catch (error) {
      this.#halt ??= { error: toProblem(error) };
      throw error;
    }
  }

  #check(): void {
    if (this.#halt) throw createHaltedError();
  }

  #count(isTop: boolean, usage: Usage): void {
    if (isTop) this.#iterations++;
    this.#usage = addUsage(this.#usage, usage);
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

function createHaltedError(): SkillError {
  return new SkillError("halted", { message: "The run goes no further" });
}

/** Where its words come from is left aside: what was read by then and is not read again is not known any more. */
function isSameRequest(a: ApprovalRequest | undefined, b: ApprovalRequest): boolean {
  const whole = ({ from: _, ...effect }: ApprovalRequest) => JSON.stringify(effect);
  return a !== undefined && whole(a) === whole(b);
}

/** What began before and has no end: whoever looks on now has to know of it. */
function findOpenRuns(journal: Journal | undefined) {
  const begun = new Map<string, Extract<RunEvent, { type: "run-started" }>>();
  for (const line of journal?.lines ?? []) {
    if (line.type !== "event") continue;
    if (line.event.type === "run-started") begun.set(line.event.run, line.event);
    if (line.event.type === "run-ended" && line.event.run !== journal?.id) begun.delete(line.event.run);
  }
  return begun.values();
}

/** Why it goes no further, and what there is instead of an answer. */
function createHaltResult(halt: RunHalt): Pick<RunResult, "stop" | "content" | "error" | "effect"> {
  if ("error" in halt) {
    const { message, fix } = halt.error;
    return { stop: "error", error: halt.error, content: `[${message}: ${fix}]` };
  }
  const { what, tool } = halt.effect;
  return { stop: "waiting", effect: halt.effect, content: `[It waits for somebody to agree: ${tool}, ${what}]` };
}

interface RefusedRunContext {
  run: string;
  skill: string;
  host: Host;
  port: StepRunner;
  /** The run that would have started it. */
  parent?: string | undefined;
  /** When it was asked for, as `performance.now` counts. */
  start: number;
  /** What ended it before it began, where that was no refusal. */
  stop?: StopReason;
}

/** A run that does not begin: says so, and gives the result that it has all the same. */
export async function refuseRun(
  { run, skill, host, port, parent, start, stop = "refused" }: RefusedRunContext,
  refusals: readonly Problem[],
): Promise<RunResult> {
  const { caller } = host;
  const result: RunResult = {
    run,
    skill,
    content: formatRefusals(refusals),
    isError: true,
    iterations: 0,
    stop,
    refusals: stop === "refused" ? refusals : [],
    warnings: [],
    usage: NO_USAGE,
    ms: Math.round(performance.now() - start),
    ...omitUndefined({ caller }),
  };
  return port.step("refused", async () => {
    emitRunEvent(port, { run, skill }, { type: "run-refused", refusals, ...omitUndefined({ parent, caller }) });
    return result;
  });
}

/** An event without whose it is. */
type RunEventBody = RunEvent extends infer E ? (E extends unknown ? Omit<E, "run" | "skill" | "at"> : never) : never;

/** Says what happens in this run. */
export function emitRunEvent(
  port: StepRunner,
  { run, skill }: { run: string; skill: string },
  event: RunEventBody,
): void {
  port.emit({ run, skill, at: new Date().toISOString(), ...event } as RunEvent);
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}
