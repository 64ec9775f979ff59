import type { Discovered } from "../host/discover.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { RunResult } from "../run/result.ts";
import type { Run } from "../run/start-run.ts";
import { type ApprovalOptions, agreeing } from "./approval.ts";
import { type Io, printJsonLine } from "./io.ts";
import type { OutcomeOptions } from "./outcome.ts";
import { openProgress } from "./progress.ts";

export type SeenOptions = OutcomeOptions & ApprovalOptions;

/** A run that is looked at: what happens is shown, and whoever sits there is asked what somebody has to agree to. */
export async function seenRun(
  io: Io,
  found: Discovered & Pick<Host, "onEvent">,
  options: SeenOptions,
  start: (host: Discovered & Pick<Host, "onEvent">) => Run<RunEvent, RunResult>,
): Promise<RunResult> {
  const progress = options.quiet || options.events || options.json ? undefined : openProgress(io);
  const { host, asking } = agreeing(io, found, options, progress);
  const running = start(host);
  try {
    for await (const event of running) {
      if (options.events) printJsonLine(io.stdout, event);
      else {
        await asking();
        progress?.take(event);
      }
    }
  } finally {
    progress?.end();
  }
  return running;
}
