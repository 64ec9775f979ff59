import type { Catalog } from "../catalog/catalog.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import type { RunResult } from "../run/result.ts";
import { type ResumeOptions, takeUp } from "../run/resume.ts";
import { type Run, startRun } from "../run/start-run.ts";
import { type Asked, driveTurn } from "./converse.ts";
import { type ActiveSkill, openSession } from "./session.ts";

/** Goes on with what was said to an agent and has no answer yet, with what it had loaded. Contract: as `resumeRun`. */
export function resumeChat(
  catalog: Catalog,
  given: Partial<Host>,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const taken = takeUp({ settings: NO_SETTINGS, ...given }, id, "chat");
    if ("refused" in taken) return taken.refused;
    const { journal, asked, host } = taken;
    const { active = [], brought = [], ...begun } = asked.request as unknown as Begun;
    const request = options.model === undefined ? begun : { ...begun, model: options.model };
    const session = openSession(catalog, host, { active });
    try {
      await session.ready();
      await session.bring(brought.flatMap((name) => catalog.find(name) ?? []));
      const messages = [...(asked.messages ?? [])];
      return await driveTurn({ session, host, messages, asked: request, id: journal.id, pass, signal, journal });
    } finally {
      session.close();
    }
  }, options.signal);
}

/** What was asked, and what the conversation had by then. */
interface Begun extends Asked {
  active?: readonly ActiveSkill[];
  brought?: readonly string[];
}
