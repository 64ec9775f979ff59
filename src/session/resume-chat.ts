import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import type { RunResult } from "../run/result.ts";
import { type ResumeOptions, takeUp } from "../run/resume.ts";
import { type Run, startRun } from "../run/start-run.ts";
import { type Asked, driveTurn } from "./converse.ts";
import type { Session } from "./session.ts";

/** Goes on with what was said to an agent and has no answer yet. Contract: as `resumeRun`. */
export function resumeChat(
  session: Session,
  given: Partial<Host>,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  const host: Host = { settings: NO_SETTINGS, ...given };
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const taken = takeUp(host, id, "chat");
    if ("refused" in taken) return taken.refused;
    const { journal, asked } = taken;
    const messages = [...(asked.messages ?? [])];
    const turn = { session, host, messages, asked: asked.request as unknown as Asked };
    return driveTurn({ ...turn, id: journal.id, pass, signal, journal });
  }, options.signal);
}
