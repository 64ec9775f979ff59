import type { Catalog } from "../catalog/catalog.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { NO_USAGE } from "../host/models.ts";
import { notify } from "../host/notify.ts";
import type { Notice } from "../host/sandbox.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { resolveModel } from "../model/resolve.ts";
import { claimSecrets } from "../policy/secrets.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";
import { boundTime } from "./bound-time.ts";
import { boundsOf } from "./bounds.ts";
import { type Chain, TOP } from "./chain.ts";
import { runId } from "./id.ts";
import { judgeUse } from "./judge-use.ts";
import { asNotice, hide } from "./notice.ts";
import { type RunResult, sayRefusals } from "./result.ts";
import { type Run, startRun } from "./start-run.ts";
import type { Prepared } from "./sub-agent.ts";

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
export function useSkill(catalog: Catalog, given: Partial<Host>, request: UseRequest): Run<RunEvent, RunResult> {
  return useWithin(catalog, { settings: NO_SETTINGS, ...given }, request, TOP);
}

/** The same for a run that other runs have started. */
export function useWithin(catalog: Catalog, host: Host, request: UseRequest, chain: Chain): Run<RunEvent, RunResult> {
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const emit = (event: RunEvent) => {
      pass(event);
      notify(host, event);
    };
    const scene: Scene = { catalog, host, request, chain, id: runId(), emit, pass, start: performance.now(), signal };
    try {
      return await begin(scene);
    } catch (error) {
      return refused(scene, [asNotice(error)]);
    }
  }, request.signal);
}

/** What one use is about. */
export interface Scene {
  catalog: Catalog;
  host: Host;
  request: UseRequest;
  chain: Chain;
  id: string;
  emit(event: RunEvent): void;
  /** For the events of runs within this one, which the host was told already. */
  pass(event: RunEvent): void;
  start: number;
  signal: AbortSignal;
}

async function begin(scene: Scene): Promise<RunResult> {
  const judged = await judgeUse(scene);
  if ("refusals" in judged) return refused(scene, judged.refusals);
  const { skill, hidden } = judged;
  const hiding = openHiding(hidden);
  try {
    const { model, warnings } = await resolveModel(scene.host, wantedModel(skill, scene.host, scene.request));
    claimSecrets(skill, scene.host);
    return await withLimits(scene, { ...judged, hiding, model, warnings });
  } catch (error) {
    return refused(scene, [hide(hiding)(asNotice(error))]);
  }
}

async function withLimits(scene: Scene, prepared: Prepared): Promise<RunResult> {
  const { iterations, seconds, tokens } = boundsOf(prepared.skill, scene.host, scene.request);
  const budget = scene.chain.budget ?? { used: 0, most: tokens };
  const { runSubAgent } = await import("./sub-agent.ts"); // Only who runs one loads what it needs.
  return boundTime(seconds, scene.signal, (signal) =>
    runSubAgent({ ...scene, signal }, prepared, { iterations, seconds, budget }),
  );
}

/** The caller's word over the configuration's, and that over the skill's. */
export function wantedModel({ name, manifest }: Skill, { settings }: Host, request: UseRequest): string | undefined {
  return request.model ?? settings.skills.get(name)?.model ?? manifest.model;
}

function refused({ request, host, chain, id, emit, start }: Scene, refusals: readonly Notice[]): RunResult {
  const caller = host.caller === undefined ? {} : { caller: host.caller };
  const parent = chain.parent === undefined ? {} : { parent: chain.parent };
  const skill = inLine(request.skill, 64);
  emit({ type: "run-refused", run: id, skill, refusals, ...parent, ...caller });
  return {
    run: id,
    skill,
    content: sayRefusals(refusals),
    isError: true,
    iterations: 0,
    stop: "refused",
    refusals,
    warnings: [],
    usage: NO_USAGE,
    ms: Math.round(performance.now() - start),
    ...caller,
  };
}
