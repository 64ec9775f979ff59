import type { Catalog } from "../catalog/catalog.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { Journal } from "../host/journal.ts";
import type { JournalLine } from "../host/journal-lines.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { SkillError } from "../shared/error.ts";
import { asNotice } from "./notice.ts";
import { livePort } from "./port.ts";
import { refusedRun } from "./refused.ts";
import type { RunResult } from "./result.ts";
import { type Run, startRun } from "./start-run.ts";
import { driveUse, type UseRequest } from "./use.ts";

export interface ResumeOptions {
  signal?: AbortSignal;
}

/** Goes on with a use that was interrupted or waits: what was done is not done again. Contract: the run resolves, also when it cannot be. */
export function resumeRun(
  catalog: Catalog,
  given: Partial<Host>,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  const host: Host = { settings: NO_SETTINGS, ...given };
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const taken = takeUp(host, id, "use");
    if ("refused" in taken) return taken.refused;
    const { journal, asked } = taken;
    const request = asked.request as unknown as UseRequest;
    return driveUse({ catalog, host, request, id: journal.id, pass, signal, journal });
  }, options.signal);
}

type Asked = Extract<JournalLine, { type: "request" }>;

/** Takes up a run of this kind; or says why it cannot be. */
export function takeUp(
  host: Host,
  id: string,
  kind: "use" | "chat",
): { journal: Journal; asked: Asked } | { refused: Promise<RunResult> } {
  try {
    if (!host.runs) throw new SkillError("run-unknown", { message: "Runs are not written down here", fix: "" });
    const journal = host.runs.open(id);
    const asked = journal.lines.find((line) => line.type === "request");
    if (journal.head.kind === kind && asked?.type === "request") return { journal, asked };
    journal.close();
    const message = `Run ${id} is no ${kind === "use" ? "use of a skill" : "conversation"}`;
    throw new SkillError("run-unknown", { message, fix: "`skillet runs` lists them" });
  } catch (error) {
    const port = livePort(host, () => {});
    return { refused: refusedRun({ run: id, skill: "", host, port, start: performance.now() }, [asNotice(error)]) };
  }
}
