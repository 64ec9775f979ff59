import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import type { Worker } from "node:worker_threads";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { Caller } from "../../host/approval.ts";
import type { CallOptions, ToolEffect, ToolOutcome, ToolOwner, ToolResult } from "../../skill/tool.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { endingThreads } from "../../util/system.ts";
import { truncateLine } from "../../util/text.ts";
import type { WorkerEntry } from "./worker-entry.ts";

/** The start options of a toolset's thread. */
export interface ThreadStart {
  /** The folder of the checked copy of the skill. */
  root: string;
  /** The SHA-256 of each file by path: no other file is imported. */
  digests: ReadonlyMap<string, string>;
  /** The skill's own folder: shown in messages, and used to find packages. */
  folder: string;
  /** True if packages installed next to the skill may be imported: they are not part of the trusted files. */
  hasPackages: boolean;
  toolsets: readonly { file: string; export: string }[];
  given: ToolsetContext;
}

/** The argument for the constructor of a toolset class. */
export interface ToolsetContext {
  skill: ToolOwner;
  workspace?: string;
  caller?: Caller;
}

/** A tool as the thread describes it. */
export interface ToolsetOffer {
  name: string;
  description: string;
  inputSchema: JsonObject;
  hasEffect: boolean;
  isReadOnly: boolean;
}

/** The options of a call, without its input. */
export interface ThreadCall {
  run?: string;
  key?: string;
  skill?: ToolOwner;
  env?: Readonly<Record<string, string>>;
  hasSandbox: boolean;
}

export type MessageToThread =
  | { type: "call"; id: number; tool: string; input: unknown; call: ThreadCall }
  | { type: "effect"; id: number; tool: string; input: unknown }
  | { type: "abort"; id: number }
  | { type: "ran"; program: number; outcome: ToolOutcome }
  | { type: "not-run"; program: number; code: ErrorCode; message: string };

export type MessageFromThread =
  | { type: "ready"; offers: readonly ToolsetOffer[] }
  | { type: "problem"; problem: Problem }
  | { type: "called"; id: number; result: ToolResult }
  | { type: "effect"; id: number; effect: ToolEffect | undefined }
  | { type: "printed"; text: string }
  | { type: "progress"; id: number; text: string }
  | { type: "run"; id: number; program: number; argv: readonly [string, ...string[]]; stdin?: string; seconds?: number }
  | { type: "stop"; program: number };

interface ToolsetThreadOptions {
  /** The environment variables of the thread. */
  env: Readonly<Record<string, string>>;
  name: string;
  /** Removes secrets from a text. */
  redact(text: string): string;
  /** Receives the output of its code. Discarded by default. */
  onPrinted?: ((text: string) => void) | undefined;
}

/** The thread of a skill's toolsets, as seen by the host. */
export interface ToolsetThread {
  readonly offers: readonly ToolsetOffer[];
  /** Contract: never throws. Ends with the signal. */
  call(tool: string, input: unknown, options?: CallOptions): Promise<ToolResult>;
  effect(tool: string, input: unknown): Promise<ToolEffect | undefined>;
  /** Returns why it no longer answers, or undefined while it does. */
  getEndReason(): string | undefined;
  close(): void;
}

const IMPORT_TIMEOUT_MS = 10_000;
/** The time that an aborted call may take to end. */
const CALL_GRACE_MS = 1000;
/** The time limit for describing an effect. */
const EFFECT_TIMEOUT_MS = 2000;
const THREAD_MEMORY_MB = 512;
const CLOSED_REASON = "the toolsets were closed";

/** Imports toolsets in a separate thread. Returns the problem if that fails. */
export async function startToolsetThread(
  start: ThreadStart,
  options: ToolsetThreadOptions,
): Promise<ToolsetThread | { problem: Problem }> {
  // Loaded only for skills with toolsets.
  const [{ Worker }, { workerEntry }] = await Promise.all([import("node:worker_threads"), import("./worker-entry.ts")]);
  const entry = workerEntry();
  const begin = () => new LiveThread(createWorker(Worker, { ...start, entry }, options), options);
  let live = begin();
  let isClosed = false;
  let isResting = false;
  const opened = await live.ready;
  if ("problem" in opened) return opened;
  const uncalled = {
    suspend() {
      if (live.ended !== undefined) return;
      isResting = true;
      live.end(CLOSED_REASON);
    },
  };
  addIdleThread(uncalled);
  /** Returns a live thread. Restarts one that was ended because a call did not stop, or that was suspended. */
  const alive = async (): Promise<LiveThread> => {
    removeIdleThread(uncalled);
    await live.decided();
    if ((live.isReplaceable || isResting) && !isClosed) live = begin();
    isResting = false;
    await live.ready;
    return live;
  };
  return {
    offers: opened.offers,
    call: async (tool, input, callOptions = {}) => (await alive()).call(tool, input, callOptions),
    effect: async (tool, input) => (await alive()).effect(tool, input),
    getEndReason: () => (live.isReplaceable || isResting ? undefined : live.ended),
    close: () => {
      isClosed = true;
      removeIdleThread(uncalled);
      live.end(CLOSED_REASON);
    },
  };
}

function createWorker(
  Thread: typeof Worker,
  start: ThreadStart & { entry: WorkerEntry },
  options: ToolsetThreadOptions,
): Worker {
  const { entry } = start;
  const { env, name } = options;
  return new Thread("file" in entry ? entry.file : entry.code, {
    eval: !("file" in entry),
    workerData: { ...start, compileCache: findCompileCache() },
    env: { ...env },
    argv: [],
    execArgv: ["--disable-warning=ExperimentalWarning"],
    name: truncateLine(name, 64),
    stdout: true, // These streams are not read: output arrives as messages, since reading a stream would keep the process alive.
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
  });
}

/** Returns the folder where this process keeps compiled code: without it, each thread compiles two megabytes when it starts. */
function findCompileCache(): string | undefined {
  const folder = getCompileCacheDir();
  // Node adds a folder for its version.
  return folder === undefined ? undefined : dirname(folder);
}

interface PendingCall {
  settle(answer: ToolResult | ToolEffect | undefined): void;
  options: CallOptions;
}

/** One thread, from its start to its end. */
class LiveThread {
  readonly ready: Promise<{ offers: readonly ToolsetOffer[] } | { problem: Problem }>;
  /** The reason why it ended. */
  ended: string | undefined;
  isReplaceable = false;
  readonly #worker: Worker;
  readonly #opened = Promise.withResolvers<{ offers: readonly ToolsetOffer[] } | { problem: Problem }>();
  readonly #pending = new Map<number, PendingCall>();
  readonly #programs = new Map<number, AbortController>();
  readonly #ending = new Map<number, Promise<void>>();
  readonly #onPrinted: ((text: string) => void) | undefined;
  #count = 0;

  constructor(worker: Worker, { redact: hide, onPrinted }: Pick<ToolsetThreadOptions, "redact" | "onPrinted">) {
    this.#worker = worker;
    this.ready = this.#opened.promise;
    const late = setTimeout(() => {
      this.#opened.resolve({ problem: createImportTimeout() });
      this.end("the import timed out");
    }, IMPORT_TIMEOUT_MS);
    this.ready.then(() => clearTimeout(late));
    this.#onPrinted = onPrinted;
    worker.on("message", (message: MessageFromThread) => this.#take(message));
    worker.on("messageerror", () => this.end("its message could not be read"));
    worker.on("error", (error) => this.#over(`it threw: ${truncateLine(hide(getErrorMessage(error)), 300)}`));
    worker.on("exit", (code) => this.#over(`it called process.exit (code ${code})`));
  }

  call(tool: string, input: unknown, options: CallOptions): Promise<ToolResult> {
    const { run, key, skill, env, sandbox, signal } = options;
    const call = { hasSandbox: sandbox !== undefined, ...omitUndefined({ run, key, skill, env: env && { ...env } }) };
    const id = ++this.#count;
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve(ABORTED_RESULT);
      const onAbort = () => {
        resolve(ABORTED_RESULT);
        this.#tellToEnd(id);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#ask({ type: "call", id, tool, input, call }, options, (answer) => {
        signal?.removeEventListener("abort", onAbort);
        resolve(answer as ToolResult);
      });
    });
  }

  /** Resolves once every aborted call has ended, or the thread has. */
  async decided(): Promise<void> {
    await Promise.all(this.#ending.values());
  }

  #tellToEnd(id: number): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#post({ type: "abort", id });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#ending.set(id, promise);
    const grace = setTimeout(() => {
      this.isReplaceable = true;
      this.end("an aborted call did not stop");
    }, CALL_GRACE_MS);
    const { settle } = pending;
    pending.settle = (answer) => {
      clearTimeout(grace);
      this.#ending.delete(id);
      resolve();
      settle(answer);
    };
  }

  effect(tool: string, input: unknown): Promise<ToolEffect | undefined> {
    const id = ++this.#count;
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#settle(id, UNKNOWN_EFFECT), EFFECT_TIMEOUT_MS);
      this.#ask({ type: "effect", id, tool, input }, {}, (answer) => {
        clearTimeout(late);
        resolve(isErrorResult(answer) ? UNKNOWN_EFFECT : (answer as ToolEffect | undefined));
      });
    });
  }

  end(why: string): void {
    this.#over(why);
    const ended = this.#worker.terminate().finally(() => endingThreads.delete(ended));
    endingThreads.add(ended);
  }

  #ask(message: MessageToThread & { id: number }, options: CallOptions, settle: PendingCall["settle"]): void {
    if (this.ended !== undefined) settle(createEndedResult(this.ended));
    else {
      this.#pending.set(message.id, { settle, options });
      this.#worker.ref();
      this.#post(message, message.id);
    }
  }

  #post(message: MessageToThread, id?: number): void {
    try {
      this.#worker.postMessage(message);
    } catch (error) {
      // The input contains something that cannot be cloned, such as a function.
      if (id !== undefined)
        this.#settle(id, {
          text: `Invalid input: ${truncateLine(getErrorMessage(error), 200)}`,
          isError: true,
          code: "input-invalid",
        });
    }
  }

  readonly #handle: {
    [Type in MessageFromThread["type"]]: (message: Extract<MessageFromThread, { type: Type }>) => void;
  } = {
    ready: ({ offers }) => {
      this.#worker.unref();
      this.#opened.resolve({ offers });
    },
    problem: ({ problem }) => {
      this.#opened.resolve({ problem });
      this.end("it could not be imported");
    },
    called: ({ id, result }) => this.#settle(id, result),
    effect: ({ id, effect }) => this.#settle(id, effect),
    printed: ({ text }) => this.#onPrinted?.(String(text)),
    progress: ({ id, text }) => this.#pending.get(id)?.options.onProgress?.(String(text)),
    run: (message) => void this.#run(message),
    stop: ({ program }) => this.#programs.get(program)?.abort(),
  };

  #take(message: MessageFromThread): void {
    // Its code can send anything: unknown messages are ignored.
    if (Object.hasOwn(this.#handle, Object(message).type)) this.#handle[message.type](message as never);
  }

  #settle(id: number, answer: ToolResult | ToolEffect | undefined): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#worker.unref();
    pending?.settle(answer);
  }

  /** Starts a program for a call, in the sandbox of its caller. */
  async #run({ id, program, argv, stdin, seconds }: Extract<MessageFromThread, { type: "run" }>): Promise<void> {
    const { sandbox, signal } = this.#pending.get(id)?.options ?? {};
    const controller = new AbortController();
    this.#programs.set(program, controller);
    try {
      if (!sandbox) throw new Error("its call has already ended");
      const signals = [controller.signal, ...(signal ? [signal] : [])];
      const outcome = await sandbox.run(argv, {
        signal: AbortSignal.any(signals),
        ...(stdin === undefined ? {} : { stdin }),
        ...(seconds === undefined ? {} : { seconds }),
      });
      const { ending, exitCode, stdout, stderr } = outcome;
      this.#post({
        type: "ran",
        program,
        outcome: { ending, stdout, stderr, ...(exitCode === undefined ? {} : { exitCode }) },
      });
    } catch (error) {
      const code = error instanceof SkillError ? error.code : "failed";
      this.#post({ type: "not-run", program, code, message: getErrorMessage(error) });
    } finally {
      this.#programs.delete(program);
    }
  }

  #over(why: string): void {
    if (this.ended !== undefined) return;
    this.ended = why;
    this.#opened.resolve({ problem: createEndedProblem(why) });
    for (const controller of this.#programs.values()) controller.abort();
    for (const id of [...this.#pending.keys()]) this.#settle(id, createEndedResult(why));
  }
}

/** The effect of a call that could not be described: it needs approval. */
const UNKNOWN_EFFECT: ToolEffect = { on: "outside" };
const ABORTED_RESULT: ToolResult = { text: "It was interrupted.", isError: true, code: "aborted" };

function createEndedResult(why: string): ToolResult {
  const content = `The skill's tools are no longer available: ${why}. Load the skill again to restart them.`;
  return { text: content, isError: true, code: "toolset-exited" };
}

function isErrorResult(answer: unknown): boolean {
  return typeof answer === "object" && answer !== null && "isError" in answer;
}

function createEndedProblem(why: string): Problem {
  return {
    code: "toolset-broken",
    message: `Its tools could not be imported: ${why}`,
    fix: "fix the toolset: importing it must only define tools",
  };
}

function createImportTimeout(): Problem {
  return {
    code: "toolset-timeout",
    message: `Its tools were not imported within ${IMPORT_TIMEOUT_MS / 1000} seconds`,
    fix: "move slow work to `execute`: importing must only define tools",
  };
}

/** A thread that can be suspended and restarted unnoticed: no tool was called in it, so it has no state to lose. */
interface IdleThread {
  suspend(): void;
}

/**
 * The maximum number of threads that wait for their first call. A thread takes about 20 MB, and a server loads many skills
 * that are never called.
 */
const MAX_IDLE_THREADS = 4;

/** Idle threads, oldest first. */
const idleThreads = new Set<IdleThread>();

/** Registers a newly opened thread. If too many are idle, suspends the oldest. */
function addIdleThread(thread: IdleThread): void {
  idleThreads.add(thread);
  const [oldest] = idleThreads;
  if (oldest === undefined || idleThreads.size <= MAX_IDLE_THREADS) return;
  idleThreads.delete(oldest);
  oldest.suspend();
}

/** Removes a thread that is called now or was closed. */
function removeIdleThread(thread: IdleThread): void {
  idleThreads.delete(thread);
}
