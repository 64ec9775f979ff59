import type { Host } from "../host/host.ts";
import type { Skill } from "../skill/skill.ts";
import type { UseRequest } from "./use.ts";

/** How much a use may take: a skill and a caller can ask for less than the settings allow, never for more. */
export function boundsOf(
  { manifest }: Skill,
  { settings: { limits } }: Host,
  request: Pick<UseRequest, "iterations" | "seconds" | "tokens">,
): { iterations: number; seconds: number; tokens?: number } {
  const { maxSteps = limits.iterations } = manifest;
  const tokens = Math.min(limits.tokens ?? Number.POSITIVE_INFINITY, request.tokens ?? Number.POSITIVE_INFINITY);
  return {
    iterations: Math.max(1, Math.floor(Math.min(maxSteps, limits.mostIterations, request.iterations ?? maxSteps))),
    seconds: Math.min(limits.seconds, request.seconds ?? limits.seconds),
    ...(Number.isFinite(tokens) ? { tokens } : {}),
  };
}
