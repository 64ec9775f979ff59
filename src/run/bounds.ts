import type { Host } from "../host/host.ts";
import { defined } from "../shared/defined.ts";
import type { UseRequest } from "./use.ts";

/** How much a use may take: a skill and a caller can ask for less than the settings allow, never for more. */
export function boundsOf(
  /** What the skill says; none, when it says nothing. */
  wanted: number | undefined,
  { settings: { limits } }: Host,
  request: Pick<UseRequest, "iterations" | "seconds" | "tokens">,
): { iterations: number; seconds: number; tokens?: number } {
  const iterations = least(wanted ?? limits.iterations, limits.mostIterations, request.iterations);
  return {
    iterations: Math.max(1, Math.floor(iterations ?? 1)),
    seconds: least(limits.seconds, request.seconds) ?? limits.seconds,
    ...defined({ tokens: least(limits.tokens, request.tokens) }),
  };
}

/** Of those that are bounds at all. */
function least(...given: (number | undefined)[]): number | undefined {
  const bounds = given.filter((bound) => bound !== undefined && Number.isFinite(bound) && bound > 0) as number[];
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}
