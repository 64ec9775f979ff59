import { useEffect, useRef, useState } from "preact/hooks";
import type { ChangeType, StudioChange } from "../src/adapters/studio/studio-changes.ts";
import type { Problem } from "../src/errors/problem.ts";

/** A problem as the page shows it: those of the server, and those of the connection. */
export type PageProblem = Pick<Problem, "message" | "fix"> & { code: string; commands?: readonly string[] };

/** A request that was refused, or did not arrive. */
export class RequestError extends Error {
  readonly problem: PageProblem;
  constructor(problem: PageProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

const KEY_NAME = "skillet-studio-key";

/** Exchanges the token of the link for a session. The token is removed from the address, which the history keeps. */
export async function openSession(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const { key } = await request<{ key: string }>("/api/session", { token });
  localStorage.setItem(KEY_NAME, key);
}

const early = new Map<string, Promise<unknown>>();

/** Requests a report before the view that shows it exists. `useReport` takes the answer. */
export function prefetch(path: string): void {
  const answer = request(path);
  answer.catch(() => {}); // The view reports it.
  early.set(path, answer);
}

function takePrefetched<T>(path: string): Promise<T> | undefined {
  const answer = early.get(path) as Promise<T> | undefined;
  early.delete(path);
  return answer;
}

/** Sends a request: a POST if it has a body. Throws a RequestError. */
export async function request<T>(path: string, body?: object, signal?: AbortSignal): Promise<T> {
  const response = await send(path, body, signal);
  const value = (await response.json()) as T & { error?: PageProblem };
  if (!response.ok) throw new RequestError(value.error ?? UNREACHABLE);
  return value;
}

async function send(path: string, body?: object, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { "x-skillet-key": localStorage.getItem(KEY_NAME) ?? "" };
  const init: RequestInit = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(path, { ...init, headers, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(UNREACHABLE);
  }
}

const UNREACHABLE: PageProblem = {
  code: "unreachable",
  message: "skillet studio does not answer: its process has ended",
  fix: "start it again",
  commands: ["skillet studio"],
};

type ChangeListener = (change: StudioChange) => void;
const listeners = new Set<ChangeListener>();

/** Calls back with changes until the returned function is called. */
export function onChange(listener: ChangeListener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const ALL_TYPES: readonly ChangeType[] = ["skills", "runs", "approvals", "evals", "statistics"];
const RETRY_MS = 1500;

/**
 * Receives changes for as long as the page is open. An `EventSource` cannot send the key, so the stream is read by hand. After a lost
 * connection everything counts as changed.
 */
export async function receiveChanges(onState: (isConnected: boolean) => void): Promise<never> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      const response = await send("/api/changes");
      if (!response.ok || !response.body) throw new RequestError(UNREACHABLE);
      onState(true);
      if (!isFirst) for (const type of ALL_TYPES) announce({ type, names: [] });
      await readEvents(response.body, announce);
    } catch {} // Retried below.
    onState(false);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function announce(change: StudioChange): void {
  for (const listener of [...listeners]) listener(change);
}

async function readEvents(body: ReadableStream<Uint8Array>, onEvent: ChangeListener): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) if (event.startsWith("data: ")) onEvent(JSON.parse(event.slice(6)));
  }
}

export interface Report<T> {
  value?: T;
  problem?: PageProblem;
  /** True until the first answer. */
  isLoading: boolean;
}

/** The last answers, so that a page that was open before is shown at once. */
const known = new Map<string, unknown>();
const MAX_KNOWN = 30;

interface ReportOptions {
  /** Only changes with one of these names count. Changes without names always do. */
  names?: readonly string[];
}

/** Reads a report, and reads it again when one of these types has changed. No path: no report. */
export function useReport<T>(
  path: string | undefined,
  types: readonly ChangeType[],
  { names }: ReportOptions = {},
): Report<T> {
  const [report, setReport] = useState<Report<T> & { of?: string | undefined }>({ isLoading: true });
  const latest = useRef(0);
  useEffect(() => {
    if (path === undefined) return;
    const controller = new AbortController();
    let isBusy = false;
    let isStale = false;
    const read = async () => {
      if (isBusy) {
        isStale = true;
        return;
      }
      isBusy = true;
      const turn = ++latest.current;
      try {
        const value = await (takePrefetched<T>(path) ?? request<T>(path, undefined, controller.signal));
        remember(path, value);
        if (turn === latest.current) setReport({ value, isLoading: false, of: path });
      } catch (error) {
        if (!controller.signal.aborted && error instanceof RequestError)
          setReport((before) => ({ ...before, problem: error.problem, isLoading: false, of: path }));
      }
      isBusy = false;
      if (isStale && !controller.signal.aborted) {
        isStale = false;
        void read();
      }
    };
    void read();
    const end = onChange((change) => {
      const isMeant =
        names === undefined || change.names.length === 0 || change.names.some((one) => names.includes(one));
      if (types.includes(change.type) && isMeant) void read();
    });
    return () => {
      controller.abort();
      end();
    };
  }, [path, types.join(), names?.join()]);
  if (path === undefined) return { isLoading: false };
  // A report of another path is kept while this one is read only where it is known.
  if (report.of === path) return report;
  const before = known.get(path) as T | undefined;
  return before === undefined ? { isLoading: true } : { value: before, isLoading: false };
}

function remember(path: string, value: unknown): void {
  known.delete(path);
  known.set(path, value);
  const [oldest] = known.keys();
  if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
}
