import type { Catalog } from "../catalog/catalog.ts";
import type { HostOptions } from "../host/complete-host.ts";
import type { RunEvent } from "../host/events.ts";
import type { RunResult } from "../run/result.ts";
import { goOn, type ResumeOptions } from "../run/resume.ts";
import type { Run } from "../run/start-run.ts";
import { type Asked, driveTurn } from "./converse.ts";
import { type ActiveSkill, openSession } from "./session.ts";

/** Goes on with what was said to an agent and has no answer yet, with what it had loaded. Contract: as `resumeRun`. */
export function resumeChat(
  catalog: Catalog,
  given: HostOptions,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  return goOn<Begun>({ ...options, kind: "chat", given, id }, async ({ asked: begun, ...taken }) => {
    const { active = [], brought = [], ...asked } = begun;
    const session = openSession(catalog, taken.host, { active });
    try {
      await session.ready();
      await session.bring(brought.flatMap((name) => catalog.find(name) ?? []));
      return await driveTurn({ session, asked, ...taken });
    } finally {
      session.close();
    }
  });
}

/** What was asked, and what the conversation had by then. */
interface Begun extends Asked {
  active?: readonly ActiveSkill[];
  brought?: readonly string[];
}
