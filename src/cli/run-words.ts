import type { Stop } from "../host/events.ts";
import { openRuns, type RunState, type RunSummary, type Runs } from "../host/runs.ts";
import { count } from "../shared/text.ts";
import { surroundingsFor } from "./found.ts";
import type { Io, Printer, Safe } from "./io.ts";
import type { CommonOptions } from "./program.ts";

/** The runs of whoever calls. No skill is looked for. */
export function runsFor(io: Io, options: CommonOptions): Runs {
  return openRuns(surroundingsFor(io, options).skilletHome);
}

/** The end of an id, which is a name for it too. */
export function shortId(id: string): string {
  return /^\d{8}-\d{6}-([0-9a-f]{8})$/.exec(id)?.[1] ?? id;
}

/** What is followed. */
export function subjectOf({ kind, skill }: Pick<RunSummary, "kind" | "skill">): string {
  return kind === "chat" ? "chat" : skill || "?";
}

/** What became of it, in a word or two. */
export function outcomeOf({ state, end }: Pick<RunSummary, "state" | "end">): string {
  return state === "ended" && end ? STOPS[end.stop] : state;
}

const STOPS: Record<Stop, string> = {
  answer: "done",
  complete: "done",
  failed: "not done",
  refused: "refused",
  "max-steps": "step limit",
  timeout: "time limit",
  budget: "token limit",
  aborted: "interrupted",
  waiting: "waiting",
  error: "failed",
};

type Colour = "green" | "red" | "yellow" | "cyan" | "dim";

const COLOURS: Record<RunState, [mark: string, colour: Colour]> = {
  running: ["▸", "cyan"],
  interrupted: ["!", "yellow"],
  waiting: ["?", "yellow"],
  answered: ["?", "cyan"],
  ended: ["✓", "green"],
  cancelled: ["·", "dim"],
  corrupt: ["✗", "red"],
};

export function markOf(out: Printer, { state, end }: Pick<RunSummary, "state" | "end">): Safe {
  const [mark, colour] = COLOURS[state === "ended" && end?.isError ? "corrupt" : state];
  return out[colour](mark);
}

export function paintOutcome(out: Printer, run: Pick<RunSummary, "state" | "end">, text = outcomeOf(run)): Safe {
  const [, colour] = COLOURS[run.state === "ended" && run.end?.isError ? "corrupt" : run.state];
  return out[colour](text);
}

const UNITS: readonly [seconds: number, noun: string][] = [
  [7 * 86_400, "week"],
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

/** `2 hours ago`. What is long past has its date. */
export function ago(at: string, now = Date.now()): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (!Number.isFinite(seconds)) return "at no time";
  if (seconds < 60) return "just now";
  if (seconds > 60 * 86_400) return at.slice(0, 10);
  const [size, noun] = UNITS.find(([unit]) => seconds >= unit) ?? [60, "minute"];
  return `${count(Math.floor(seconds / size), noun)} ago`;
}

export function tookOf(ms: number): string {
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 100 * 60_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

/** What goes on with it, where something does. */
export function nextOf({ id, state }: Pick<RunSummary, "id" | "state">): string | undefined {
  const command = NEXT[state];
  return command?.replace("ID", shortId(id));
}

const NEXT: Partial<Record<RunState, string>> = {
  waiting: "skillet approve ID --resume",
  answered: "skillet resume ID",
  interrupted: "skillet resume ID",
};
