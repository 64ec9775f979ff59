import { SkillError } from "../shared/error.ts";
import { oneLine } from "../shared/text.ts";

/** What `--since` takes, for the help of whatever takes it. */
export const SINCE = "7d, 24h, 30m, 2w, or a date such as 2026-11-01";

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** `7d`, `24h`, or a date: that of a day begins where the user is. */
export function sinceOf(written: string, now = new Date()): Date {
  const [, number, unit] = /^(\d{1,6})([smhdw])$/.exec(written) ?? [];
  if (number !== undefined && unit !== undefined) return new Date(now.getTime() - Number(number) * (UNITS[unit] ?? 0));
  const [, day = ""] = /^(\d{4}-\d\d-\d\d)(?:T[\d:.]{5,12}(?:Z|[+-]\d\d:\d\d)?)?$/.exec(written) ?? [];
  const date = new Date(written === day ? `${day}T00:00` : written);
  if (isDay(day) && !Number.isNaN(date.getTime())) return date;
  throw new SkillError("usage", {
    message: `--since takes a time, not "${oneLine(written, 40)}"`,
    fix: "for example --since 7d, --since 24h or --since 2026-11-01",
  });
}

/** The language takes the 31st of February for the 3rd of March. */
function isDay(day: string): boolean {
  const start = new Date(`${day}T00:00Z`);
  return !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day);
}
