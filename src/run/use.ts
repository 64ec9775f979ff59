import type { Catalog } from "../catalog/catalog.ts";
import { type HostOptions, readHost } from "../host/complete-host.ts";
import type { RunEvent, Stop } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { Journal } from "../host/journal.ts";
import { notify } from "../host/notify.ts";
import type { NewRun } from "../host/runs.ts";
import type { Notice } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding } from "../shared/redact.ts";
import { boundTime } from "./bound-time.ts";
import { boundsOf } from "./bounds.ts";
import { type Chain, TOP } from "./chain.ts";
import { runId } from "./id.ts";
import { drive } from "./journal-port.ts";
import { judgeUse } from "./judge-use.ts";
import { stopOf } from "./loop.ts";
import { asNotice, hide, hideIn } from "./notice.ts";
import { livePort, type Port } from "./port.ts";
import { refusedRun } from "./refused.ts";
import { contentOf, type RunResult } from "./result.ts";
import { allSecrets } from "./secrets.ts";
import { type Run, startRun } from "./start-run.ts";

export interface UseRequest {
  skill: string;
  /** What it is to do. */
  message?: string;
  /** What it must know of the conversation, which it does not see. */
  context?: string;
  /** For a skill with an input schema. */
  input?: unknown;
  /** Who asks: what a skill says about who may invoke it is held to. Nobody is asked about, when left out. */
  by?: "model" | "user";
  /** A model's alias, over what the configuration and the skill say. */
  model?: string;
  /** Lower limits than those of the settings and the skill. */
  iterations?: number;
  seconds?: number;
  tokens?: number;
  signal?: AbortSignal;
}

/** Uses a skill: a sub-agent follows it on its own, and only its answer comes back. Awaited it gives the result, iterated what happens. */
export function useSkill(catalog: Catalog, given: HostOptions, request: UseRequest): Run<RunEvent, RunResult> {
  const { host, problem } = readHost(given);
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const id = runId();
    const refuse = (why: Notice) => {
      const unbegun = { run: id, skill: inLine(String(request.skill), 64), start: performance.now() };
      return refusedRun({ ...unbegun, host: SAFE_HOST, port: livePort(SAFE_HOST, pass) }, [why]);
    };
    if (problem) return refuse(problem);
    // A part of the host that is not what its type says fails somewhere below: the run resolves all the same.
    return driveUse({ catalog, host, request, id, pass, signal }).catch((error) => refuse(asNotice(error)));
  }, request.signal);
}

const SAFE_HOST: Host = readHost({}).host;

interface DrivenUse extends Pick<Use, "catalog" | "host" | "request" | "signal"> {
  id: string;
  pass(event: RunEvent): void;
  /** One that was written down before, to go on with. */
  journal?: Journal;
}

/** A use that no other run started, written down where the host keeps runs. */
export function driveUse({ catalog, host, request, id, pass, signal, journal }: DrivenUse): Promise<RunResult> {
  const emit = (event: RunEvent) => {
    pass(event);
    notify(host, event);
  };
  const use = { catalog, host, request, chain: TOP, id };
  const { runs } = host;
  if (!runs) return useWithin({ ...use, port: livePort(host, emit), signal });
  const skill = inLine(String(request.skill), 64);
  const open = () => runs.begin(newRun(use, skill));
  const start = performance.now() - (journal?.elapsedMs ?? 0);
  return drive({ host, run: id, skill, journal, open, emit, signal }, (port, bounded) =>
    useWithin({ ...use, port, signal: bounded, start }),
  );
}

/** What is written down of it, without secrets. */
function newRun({ host, request, id }: Pick<Use, "host" | "request"> & { id: string }, skill: string): NewRun {
  const hiding = openHiding(allSecrets(new Map(), host));
  const { signal: _, ...asked } = request;
  const { workspace, caller } = host;
  const task = inLine(hiding.text(request.message ?? ""), 200);
  return {
    head: { id, kind: "use", skill, task, ...defined({ workspace, caller }) },
    request: hideIn(hiding, asked),
  };
}

/** What one use is about. */
export interface Use {
  catalog: Catalog;
  host: Host;
  request: UseRequest;
  /** The runs that it was started by. */
  chain: Chain;
  port: Port;
  signal: AbortSignal;
  /** A new one, when left out. */
  id?: string;
  /** When it began, as `performance.now` counts; now, when left out. */
  start?: number;
}

/** The same, driven by a port. Contract: resolves. */
export async function useWithin(given: Use): Promise<RunResult> {
  const use = { ...given, id: given.id ?? runId(), start: given.start ?? performance.now() };
  const { host, request, signal } = use;
  const done = use.port.done<RunResult>("end") ?? use.port.done<RunResult>("refused");
  if (done) return doneBefore(use, done.value);
  const taken = use.port.done<Taken>("skill")?.value;
  const judged = await judgeUse(use, taken).catch((error) => ({ refusals: [asNotice(error)] }));
  if ("refusals" in judged) return refused(use, judged.refusals);
  const { skill } = judged;
  const hiding = openHiding(judged.hidden);
  try {
    const { iterations, seconds, tokens } = boundsOf(skill.manifest.maxSteps, host, request);
    const budget = use.chain.budget ?? { used: 0, most: tokens };
    const { runSubAgent } = await import("./sub-agent.ts"); // Only who runs one loads what it needs.
    return await boundTime(
      seconds,
      signal,
      async (bounded) => {
        try {
          return await runSubAgent(
            { ...use, signal: bounded },
            { ...judged, hiding, bounds: { iterations, seconds, budget } },
          );
        } catch (error) {
          if (!bounded.aborted) throw error;
          const stop = stopOf(bounded);
          const content = contentOf({ stop, text: "", iterations, seconds, tokens, error: undefined });
          return refused({ ...use, stop }, [{ code: stop, message: content, fix: "" }]);
        }
      },
      () => use.port.waited(),
    );
  } catch (error) {
    return refused(use, [hide(hiding)(asNotice(error))]);
  }
}

/** What it came to before counts as it did then. */
function doneBefore({ chain }: Use, result: RunResult): RunResult {
  const { inputTokens, outputTokens } = result.usage;
  if (chain.budget) chain.budget.used += inputTokens + outputTokens;
  return result;
}

/** What a use began with. */
export interface Taken {
  digest: string;
  input: unknown;
  hasTakenContext: boolean;
}

/** A use that has begun. */
export type Begun = Use & { id: string; start: number };

function refused(
  { id, request, chain, ...use }: Begun & { stop?: Stop },
  refusals: readonly Notice[],
): Promise<RunResult> {
  const skill = inLine(openHiding(allSecrets(new Map(), use.host)).text(String(request.skill)), 64);
  return refusedRun({ ...use, run: id, skill, parent: chain.parent }, refusals);
}
