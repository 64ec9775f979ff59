import type { Stop } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { NO_USAGE } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import { emit } from "./loop-options.ts";
import type { Port } from "./port.ts";
import { type RunResult, sayRefusals } from "./result.ts";

interface Unbegun {
  run: string;
  skill: string;
  host: Host;
  port: Port;
  /** The run that would have started it. */
  parent?: string | undefined;
  /** When it was asked for, as `performance.now` counts. */
  start: number;
  /** What ended it before it began, where that was no refusal. */
  stop?: Stop;
}

/** A run that does not begin: says so, and gives the result that it has all the same. */
export async function refusedRun(
  { run, skill, host, port, parent, start, stop = "refused" }: Unbegun,
  refusals: readonly Notice[],
): Promise<RunResult> {
  const { caller } = host;
  const result: RunResult = {
    run,
    skill,
    content: sayRefusals(refusals),
    isError: true,
    iterations: 0,
    stop,
    refusals: stop === "refused" ? refusals : [],
    warnings: [],
    usage: NO_USAGE,
    ms: Math.round(performance.now() - start),
    ...defined({ caller }),
  };
  return port.step("refused", async () => {
    emit(port, { run, skill }, { type: "run-refused", refusals, ...defined({ parent, caller }) });
    return result;
  });
}
