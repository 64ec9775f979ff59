// The page of `skillet studio` uses these functions too: this file imports only types and pure text functions.
import type { StopReason } from "../host/events.ts";
import type { Usage } from "../skill/tool.ts";
import type { RunState, RunSummary } from "../store/run-rules.ts";
import { formatCount, formatNumber } from "../util/text.ts";

/** Returns the end of a run id, which is accepted as a short id. */
export function formatRunId(id: string): string {
  return /^\d{8}-\d{6}-([0-9a-f]{8})$/.exec(id)?.[1] ?? id;
}

/** Returns the subject of a run: its skill, or `chat`. */
export function formatRunSubject({ kind, skill }: Pick<RunSummary, "kind" | "skill">): string {
  return kind === "chat" ? "chat" : skill || "?";
}

/** Returns the state or outcome of a run as a label. */
export function formatRunState({ state, end }: Pick<RunSummary, "state" | "end">): string {
  return state === "ended" && end ? STOP_LABELS[end.stop] : state;
}

const STOP_LABELS: Record<StopReason, string> = {
  answer: "done",
  complete: "done",
  failed: "not done",
  refused: "refused",
  "max-iterations": "step limit",
  timeout: "time limit",
  budget: "token limit",
  aborted: "interrupted",
  waiting: "waiting",
  error: "failed",
};

const AGE_UNITS: readonly [seconds: number, noun: string][] = [
  [7 * 86_400, "week"],
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

/** `2 hours ago`, or the date if it is long past. */
export function formatAge(at: string, now = Date.now()): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (!Number.isFinite(seconds)) return "unknown time";
  if (seconds < 60) return "just now";
  if (seconds > 60 * 86_400) return at.slice(0, 10);
  const [size, noun] = AGE_UNITS.find(([unit]) => seconds >= unit) ?? [60, "minute"];
  return `${formatCount(Math.floor(seconds / size), noun)} ago`;
}

export function formatDuration(ms: number): string {
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 100 * 60_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

/** Returns the command that continues a run, if there is one. */
export function formatNextCommand({ id, state }: Pick<RunSummary, "id" | "state">): string | undefined {
  const command = NEXT_COMMANDS[state];
  return command?.replace("ID", formatRunId(id));
}

const NEXT_COMMANDS: Partial<Record<RunState, string>> = {
  waiting: "skillet approve ID --resume",
  answered: "skillet resume ID",
  interrupted: "skillet resume ID",
  stuck: "skillet resume ID",
};

export function formatCost(dollars: number): string {
  return dollars > 0 && dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

export function formatUsage(usage: Usage, cost: number | undefined): string[] {
  const tokens = usage.inputTokens + usage.outputTokens;
  return [...(tokens > 0 ? [`${formatNumber(tokens)} tokens`] : []), ...(cost === undefined ? [] : [formatCost(cost)])];
}
