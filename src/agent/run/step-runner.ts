import type { Host } from "../../config/host.ts";
import { formatProblem, type Problem, SkillError } from "../../errors/problem.ts";
import type { Approval, ApprovalRequest } from "../../host/approval.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import { type ModelReply, NO_USAGE } from "../../host/model-contract.ts";
import type { Usage } from "../../skill/tool.ts";
import type { Journal } from "../../store/journal.ts";
import type { NewRun } from "../../store/run-rules.ts";
import type { RunStore } from "../../store/runs.ts";
import { createWaitTracker, runWithLease, sendUnderLease } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { createHostRedactor, redactJournal, redactNewRun, redactRecord, redactRunResult } from "./redaction.ts";
import { formatRefusals, type RunResult, toProblem } from "./run-result.ts";
import { type AnsweredApproval, NO_APPROVER, type RequestApprovalOptions, requestApproval } from "./tool-policy.ts";

/**
 * Drives a run. Every side effect happens in a step, and the next action of a run depends only on the results of its steps:
 * so an implementation can record the steps and resume after the process was killed.
 */
export interface StepRunner {
  /**
   * Contract: each name once per run. It resolves with plain data. Events are emitted inside steps, so that none is emitted twice.
   * `refusal`: the work only returns why a call is not made.
   */
  step<T>(name: string, work: () => Promise<T>, kind?: "refusal"): Promise<T>;
  /** Returns the result of a step that was completed earlier, or undefined. */
  findStep<T>(name: string): { value: T } | undefined;
  /** Returns the approval and the request it answers. For a call of an earlier process, that may differ from the current request. */
  requestApproval(name: string, requestApprovalNow: RequestApprovalOptions): Promise<AnsweredApproval>;
  /** Asks now and records nothing. Resolves with `undefined` if no one can be asked here. */
  ask(ask: RequestApprovalOptions): Promise<Approval | undefined>;
  emit(event: RunEvent): void;
  /** Returns the milliseconds spent waiting for answers, which count toward no time limit. */
  waited(): number;
  /** Runs work outside of steps that leaves this process, such as a request to a provider, while this process has the run. */
  underLease<T>(work: () => Promise<T>): Promise<T>;
  /** Creates the step runner of a nested run: its step names do not collide with these. */
  createChild(name: string): StepRunner;
}

/** Creates a step runner that executes every step at once and records nothing. */
export function createLiveStepRunner(
  host: Pick<Host, "approve" | "approvals">,
  emit: (event: RunEvent) => void,
): StepRunner {
  const waits = createWaitTracker();
  const steps: StepRunner = {
    step: (_, work) => work(),
    findStep: () => undefined,
    requestApproval: async (_, ask) => ({
      approval: (await waits.during(() => requestApproval(host, ask))) ?? NO_APPROVER,
      request: ask.request,
    }),
    ask: (ask) => waits.during(() => requestApproval(host, ask)),
    waited: waits.waited,
    emit,
    createChild: () => steps,
    underLease: (work) => work(),
  };
  return steps;
}

interface RecordedRunOptions {
  host: Host;
  run: string;
  skill: string;
  runs: RunStore;
  redactor: Redactor;
  /** The journal to resume from. */
  journal?: Journal | undefined;
  /** Creates the record of a new run, at the first step. */
  createRecord(): NewRun;
  emit(event: RunEvent): void;
  signal: AbortSignal;
}

/**
 * Runs `work` with a journal: completed steps are not repeated, and a request that no one can answer now suspends the run.
 * Contract: resolves as `work` does.
 */
export async function runWithJournal(
  driven: RecordedRunOptions,
  work: (steps: StepRunner, signal: AbortSignal) => Promise<RunResult>,
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
    await driver.close();
  }
}

const RUN_CANCELLED: Problem = { code: "run-cancelled", message: "The run was cancelled", fix: "" };

/** The reason why a run was suspended: it waits for an approval, or its journal cannot be written. */
type RunHalt = { approvalRequest: ApprovalRequest } | { error: Problem };

/** Stop reasons after which a run can be resumed: it was stopped, or something it needs was missing. */
const RESUMABLE_STOPS: ReadonlySet<RunResult["stop"]> = new Set(["aborted", "error"]);
const CANCEL_POLL_MS = 500;
/** Progress events, which have no meaning once the step is over. */
const TRANSIENT_EVENTS: ReadonlySet<RunEvent["type"]> = new Set(["text-generated", "tool-progressed"]);

class JournalStepRunner {
  readonly signal: AbortSignal;
  readonly #driven: RecordedRunOptions;
  readonly #cancel = new AbortController();
  readonly #waits = createWaitTracker();
  readonly #start = performance.now();
  readonly #timer: NodeJS.Timeout;
  #journal: Journal | undefined;
  /** True if there is no journal and there will be none. */
  #isUnwritten = false;
  #isLooking = false;
  #opening: Promise<Journal | undefined> | undefined;
  /** The last event that is being written. The journal keeps the order of the calls. */
  #eventWrite: Promise<void> = Promise.resolve();
  #halt: RunHalt | undefined;
  #iterations = 0;
  #usage: Usage = NO_USAGE;
  /** Requests that the user is asked for now: each looks for an answer of another process. */
  readonly #questions = new Set<() => void>();

  constructor(driven: RecordedRunOptions) {
    this.#driven = driven;
    this.#journal = driven.journal && redactJournal(driven.redactor, driven.journal);
    this.signal = AbortSignal.any([driven.signal, this.#cancel.signal]);
    this.#timer = setInterval(() => void this.#look(), CANCEL_POLL_MS);
    this.#timer.unref();
    for (const event of findOpenRuns(driven.journal)) driven.emit({ ...event, isResumed: true });
  }

  port(prefix = ""): StepRunner {
    return {
      step: (name, work) => this.#step(prefix, name, work),
      findStep: (name) => this.#done(prefix + name),
      requestApproval: (name, ask) => this.#approval(prefix + name, ask),
      ask: (ask) => this.#waits.during(() => requestApproval(this.#driven.host, ask)),
      waited: this.#waits.waited,
      emit: (event) => this.#emit(event),
      createChild: (name) => this.port(`${prefix}${name}/`),
      underLease: (work) => this.#runWithLease(this.#journal, work),
    };
  }

  isCancelled(): boolean {
    return this.#cancel.signal.aborted;
  }

  /** Returns the result of a suspended run, or undefined. */
  halted(): RunResult | undefined {
    if (!this.#halt) return undefined;
    const { run, skill, emit, redactor } = this.#driven;
    const ms = Math.round(performance.now() - this.#start + (this.#journal?.elapsedMs ?? 0));
    const outcome = { run, skill, isError: true, iterations: this.#iterations, ms, usage: this.#usage };
    const result: RunResult = { ...outcome, ...createHaltResult(this.#halt), refusals: [], warnings: [] };
    emit({ type: "run-ended", at: new Date().toISOString(), ...outcome, stop: result.stop });
    return redactRunResult(redactor, result);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#eventWrite;
    await this.#journal?.close();
  }

  async #step<T>(prefix: string, name: string, work: () => Promise<T>): Promise<T> {
    this.#check();
    const isTop = prefix === "";
    // A refusal before the run begins is not recorded.
    const journal = isTop && name === "refused" ? this.#journal : await this.#begin();
    const known = journal?.getStep(prefix + name);
    const value = known ? (known.value as T) : await this.#runWithLease(journal, work);
    await this.#eventWrite;
    this.#check();
    if (name.startsWith("model:")) this.#count(isTop, (value as ModelReply).usage);
    if (known || !journal || this.#isLeaving()) return value;
    if (isTop && (name === "end" || name === "refused")) return (await this.#end(journal, value as RunResult)) as T;
    return (await this.#record(() => journal.step(prefix + name, value))) as T;
  }

  /** Runs work that may send requests: each leaves only while this process has the run. */
  #runWithLease<T>(journal: Journal | undefined, work: () => Promise<T>): Promise<T> {
    if (!journal?.lease) return work();
    const { isHeld, renew } = journal.lease;
    return runWithLease({ isHeld, renew: () => this.#record(renew) }, () => sendUnderLease(work));
  }

  #done<T>(name: string): { value: T } | undefined {
    const known = this.#journal?.getStep(name) as { value: T } | undefined;
    if (known && name.endsWith("/end")) this.#count(false, (known.value as RunResult).usage);
    return known;
  }

  async #approval(name: string, request: RequestApprovalOptions): Promise<AnsweredApproval> {
    this.#check();
    // As it is recorded: a resumed run compares them.
    const ask = { ...request, request: redactRecord(this.#driven.redactor, request.request) };
    const journal = await this.#begin();
    const known = journal?.getAnswer(name);
    // An approval covers only the request that was shown. A call that is already done needs none.
    const isDone = journal?.getStep(name.replace(/approval:(?=[^/]*$)/, "tool:")) !== undefined;
    if (known && (isDone || isSameRequest(known.approvalRequest, ask.request)))
      return { request: ask.request, ...known };
    let recorded: Promise<unknown> | undefined;
    const onRequested = () => {
      if (!recorded) ask.onRequested();
      // It is recorded before the user is asked: another process may show and answer it, and a killed run waits for it.
      recorded ??= this.#record(async () => journal?.ask(name, ask.request)).catch(() => {}); // The next step reports it.
    };
    const answers = new AbortController();
    const signal = AbortSignal.any([ask.signal, answers.signal]);
    /** Returns the answer that another process gave to this request. */
    const findAnswer = () => {
      const answer = journal?.getAnswer(name);
      return answer && answer !== known && isSameRequest(answer.approvalRequest, ask.request)
        ? answer.approval
        : undefined;
    };
    const look = () => {
      const answer = findAnswer();
      if (answer) answers.abort(answer);
    };
    this.#questions.add(look);
    const here = await this.#waits
      .during(() => requestApproval(this.#driven.host, { ...ask, signal, onRequested }))
      .finally(() => this.#questions.delete(look));
    await recorded;
    const elsewhere = findAnswer();
    if (elsewhere && !ask.signal.aborted) {
      ask.onAnswered(elsewhere);
      return { approval: elsewhere, request: ask.request };
    }
    const approval = here;
    if (approval || !journal) {
      // An answer that arrives after the run was stopped does not count.
      const isKept = !this.#isLeaving() && !ask.signal.aborted;
      if (approval && journal && isKept) await this.#record(() => journal.answer(name, approval, ask.request));
      return { approval: approval ?? NO_APPROVER, request: ask.request };
    }
    onRequested();
    await recorded;
    this.#check();
    this.#halt = { approvalRequest: ask.request };
    throw createHaltedError();
  }

  #emit(event: RunEvent): void {
    if (this.#halt) return;
    this.#driven.emit(event);
    if (TRANSIENT_EVENTS.has(event.type) || this.#isLeaving()) return;
    const journal = this.#journal;
    if (!journal) return;
    this.#eventWrite = this.#record(() => journal.event(event)).catch(() => {}); // The next step reports it.
  }

  /** Opens the journal. Steps that begin at once open one. */
  async #begin(): Promise<Journal | undefined> {
    if (this.#journal || this.#isUnwritten) return this.#journal;
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<Journal | undefined> {
    const { runs, createRecord, redactor, emit, run, skill } = this.#driven;
    try {
      this.#journal = redactJournal(redactor, await runs.create(redactNewRun(redactor, createRecord())));
    } catch (error) {
      // Nothing was recorded yet, so the run continues without a journal.
      this.#isUnwritten = true;
      const { code, message } = toProblem(error);
      const warning = { code, message: `The run is not recorded: ${message}`, fix: "it cannot be resumed" };
      emit({ type: "run-warned", run, skill, at: new Date().toISOString(), ...warning });
    }
    return this.#journal;
  }

  async #end(journal: Journal, result: RunResult): Promise<RunResult> {
    const { stop, isError, iterations, ms, usage, cost, model } = result;
    // A resumed run that is refused now may be allowed later.
    const isLater = RESUMABLE_STOPS.has(stop) || (this.#driven.journal && stop === "refused");
    if (isLater && !(await journal.isCancelled())) return result;
    const tail = { stop, isError, iterations, ms, usage, ...omitUndefined({ cost, model }) };
    await this.#record(() => journal.end({ ...result }, tail));
    return result;
  }

  /** Writes to the journal. If that fails, the run stops: every later step throws. */
  async #record<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
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

  /** Returns true while the run is being stopped: results from then on are not recorded. */
  #isLeaving(): boolean {
    return this.#driven.signal.aborted;
  }

  /** Aborts the run if it was cancelled from outside, and ends questions that another process has answered. */
  async #look(): Promise<void> {
    const journal = this.#journal;
    if (!journal || this.#isLooking) return;
    this.#isLooking = true;
    try {
      if (await this.#record(() => journal.isCancelled())) this.#cancel.abort();
      for (const look of this.#questions) look();
    } catch {
      // The next step reports it.
    } finally {
      this.#isLooking = false;
    }
  }
}

function createHaltedError(): SkillError {
  return new SkillError("halted", { message: "The run is suspended" });
}

/**
 * Compares two requests without their origins: text that was read in an earlier process and is not read again is unknown now. The location of
 * the skill does not count either: a run is bound to the digest of its skill, which another machine has in another folder. Version 0.1.0
 * recorded no digest.
 */
function isSameRequest(a: ApprovalRequest | undefined, b: ApprovalRequest): boolean {
  const whole = ({ from: _, location: __, digest: ___, ...request }: ApprovalRequest) => JSON.stringify(request);
  const isSameCopy = a?.digest === undefined || b.digest === undefined || a.digest === b.digest;
  return a !== undefined && isSameCopy && whole(a) === whole(b);
}

/** Returns the start events of runs without an end, for observers of the resumed run. */
function findOpenRuns(journal: Journal | undefined) {
  const begun = new Map<string, Extract<RunEvent, { type: "run-started" }>>();
  for (const line of journal?.lines ?? []) {
    if (line.type !== "event") continue;
    if (line.event.type === "run-started") begun.set(line.event.run, line.event);
    if (line.event.type === "run-ended" && line.event.run !== journal?.id) begun.delete(line.event.run);
  }
  return begun.values();
}

/** Creates the stop reason and the content of a suspended run. */
function createHaltResult(halt: RunHalt): Pick<RunResult, "stop" | "content" | "error" | "approvalRequest"> {
  if ("error" in halt) {
    return { stop: "error", error: halt.error, content: `[${formatProblem(halt.error)}]` };
  }
  const { what, tool } = halt.approvalRequest;
  return {
    stop: "waiting",
    approvalRequest: halt.approvalRequest,
    content: `[Waiting for approval: ${tool}, ${what}]`,
  };
}

interface RefusedRunContext {
  run: string;
  skill: string;
  host: Host;
  steps: StepRunner;
  /** Defaults to one for the secrets of the host. */
  redactor?: Redactor;
  /** The run that would have started it. */
  parent?: string | undefined;
  /** The time of the request, as `performance.now()` counts. */
  start: number;
  /** The stop reason, if it is not a refusal. */
  stop?: StopReason;
}

/** Refuses a run: emits the event and returns the result. */
export async function refuseRun(
  { run, skill, host, steps, parent, start, stop = "refused", ...context }: RefusedRunContext,
  refusals: readonly Problem[],
): Promise<RunResult> {
  const { caller } = host;
  const { redactor = createHostRedactor(host) } = context;
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
  return endRun({ steps, redactor, step: "refused" }, result, () =>
    emitRunEvent(steps, { run, skill }, { type: "run-refused", refusals, ...omitUndefined({ parent, caller }) }),
  );
}

/** Records the result of a run, with its last events. */
export function endRun(
  { steps, redactor, step }: { steps: StepRunner; redactor: Redactor; step: "end" | "refused" },
  result: RunResult,
  emitEnd: () => void,
): Promise<RunResult> {
  const redacted = redactRunResult(redactor, result);
  return steps.step(step, async () => {
    emitEnd();
    return redacted;
  });
}

/** An event without the fields of its run. */
type RunEventBody = RunEvent extends infer E ? (E extends unknown ? Omit<E, "run" | "skill" | "at"> : never) : never;

/** Emits an event of this run. */
export function emitRunEvent(
  steps: StepRunner,
  { run, skill }: { run: string; skill: string },
  event: RunEventBody,
): void {
  steps.emit({ run, skill, at: new Date().toISOString(), ...event } as RunEvent);
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}
