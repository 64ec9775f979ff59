import type { Discovered } from "../../host/discover.ts";
import type { SkillStatistics, Total } from "../../host/statistics.ts";
import { unavailability } from "../../policy/policy.ts";
import { defined } from "../../shared/defined.ts";
import { byText, count, grouped, oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { money } from "../progress.ts";
import { sinceOf } from "../since.ts";

interface StatsOptions {
  since?: string;
}

/** What was used, how often, and what came of it. */
export async function stats({ io, options }: Context<StatsOptions>): Promise<number> {
  const since = options.since === undefined ? undefined : sinceOf(options.since);
  const found = await discoverFor(io, options);
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  const { statistics } = found;
  const from = since === undefined ? {} : { since };
  const skills = [...statistics.perSkill(from)].sort((a, b) => b.runs - a.runs || byText(a.skill, b.skill));
  const total = statistics.total(from);
  const neverUsed = namesWithout(skills, found);
  if (options.json) printJson(io.stdout, { ...(since ? { since } : {}), skills: skills.map(asJson), total, neverUsed });
  else if (skills.length === 0) sayNothing(io, since, neverUsed);
  else {
    const out = printer(io.stdout, io.env);
    printTable(out, skills, total);
    if (neverUsed.length > 0) out.line``;
    for (const line of folded(since ? "not used since then: " : "never used: ", neverUsed, out)) out.line`${line}`;
  }
  return code;
}

function asJson({ skill, lastUse, ...counts }: SkillStatistics): object {
  return { name: skill, ...counts, ...defined({ lastUseAt: lastUse }) };
}

function namesWithout(skills: readonly SkillStatistics[], found: Discovered): string[] {
  const used = new Set(skills.map(({ skill }) => skill));
  const available = found.catalog.available((skill) => unavailability(skill, found));
  return available.map(({ name }) => name).filter((name) => !used.has(name));
}

function sayNothing(io: Io, since: Date | undefined, there: readonly string[]): void {
  const out = printer(io.stderr, io.env);
  if (since) out.line`nothing was used since ${since.toISOString()}: without --since, all is counted`;
  else if (there.length === 0) out.line`nothing was used yet, and no skill is found: \`skillet new NAME\` makes one`;
  else
    out.line`nothing was used yet: \`skillet run ${there.find((name) => name === "host-report") ?? there[0] ?? ""}\` or \`skillet chat\` uses a skill`;
}

interface Column {
  title: string;
  width: number;
  of(skill: SkillStatistics): string;
  all?(total: Total): string;
}

const COLUMNS: readonly Column[] = [
  { title: "runs", width: 6, of: ({ runs }) => grouped(runs), all: ({ runs }) => grouped(runs) },
  { title: "p50", width: 8, of: ({ p50Ms }) => duration(p50Ms) },
  { title: "p95", width: 8, of: ({ p95Ms }) => duration(p95Ms) },
  { title: "tokens", width: 8, of: tokens, all: tokens },
  { title: "cost", width: 9, of: ({ cost }) => price(cost), all: ({ cost }) => price(cost) },
  { title: "loads", width: 7, of: ({ loads }) => grouped(loads), all: ({ loads }) => grouped(loads) },
];
const LAST = "last use";
/** `11 months ago` */
const LAST_WIDTH = 15;

function printTable(out: Printer, skills: readonly SkillStatistics[], total: Total): void {
  const room = out.width - LAST_WIDTH - COLUMNS.reduce((sum, { width }) => sum + width, 0);
  const widest = Math.max("total".length, ...skills.map(({ skill }) => skill.length));
  const width = Math.max(8, Math.min(widest, room));
  const cells = (of: (column: Column) => string) => COLUMNS.map((column) => of(column).padStart(column.width)).join("");
  out.line`${out.dim(`${"skill".padEnd(width)}${cells(({ title }) => title)}  ${LAST}`)}`;
  for (const row of skills) {
    const last = row.lastUse === undefined ? "" : ago(Date.now() - Date.parse(row.lastUse));
    out.line`${out.bold(oneLine(row.skill, width).padEnd(width))}${cells(({ of }) => of(row))}  ${last}`;
    const outcomes = outcomesOf(row);
    if (outcomes.length > 0) out.line`${out.dim(`  ${outcomes.join(", ")}`)}`;
  }
  if (skills.length > 1) out.line`${"total".padEnd(width)}${cells(({ all }) => all?.(total) ?? "")}`;
}

/** What came of it, in the order in which people ask. */
const OUTCOMES: readonly [says: string, stops: readonly string[]][] = [
  ["done", ["answer", "complete"]],
  ["failed", ["failed", "error"]],
  ["at a limit", ["max-steps", "timeout", "budget"]],
  ["interrupted", ["aborted"]],
  ["waiting", ["waiting"]],
];

function outcomesOf({ outcomes, refused }: SkillStatistics): string[] {
  const parts = OUTCOMES.map(([says, stops]) => ({ says, number: sum(stops.map((stop) => outcomes[stop] ?? 0)) }));
  const all = [...parts, { says: "refused", number: refused }].filter(({ number }) => number > 0);
  return all.map(({ says, number }) => `${grouped(number)} ${says}`);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}

function tokens({ inputTokens, outputTokens }: Pick<Total, "inputTokens" | "outputTokens">): string {
  const number = inputTokens + outputTokens;
  if (number < 10_000) return number === 0 ? "–" : grouped(number);
  return number < 999_500 ? `${(number / 1000).toFixed(0)}k` : `${(number / 1e6).toFixed(1)}M`;
}

function price(cost: number | undefined): string {
  return cost === undefined ? "–" : money(cost);
}

function duration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 5_400_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}

const AGES: readonly [upTo: number, one: number, noun: string][] = [
  [60, 1, "minute"],
  [24 * 60, 60, "hour"],
  [60 * 24 * 60, 24 * 60, "day"],
  [Number.POSITIVE_INFINITY, 30 * 24 * 60, "month"],
];

function ago(ms: number): string {
  const minutes = ms / 60_000;
  if (minutes < 1) return "just now";
  const [, one, noun] = AGES.find(([upTo]) => minutes < upTo) ?? [0, 1, "minute"];
  return `${count(Math.floor(minutes / one), noun)} ago`;
}

const MOST_NAMED = 30;

/** Names behind a title, on lines of at most 80 characters. */
function folded(title: string, names: readonly string[], { width }: Printer): string[] {
  if (names.length === 0) return [];
  const shown = names.slice(0, MOST_NAMED);
  const words = [...shown.slice(0, -1).map((name) => `${name},`), shown.at(-1) ?? ""];
  if (names.length > MOST_NAMED) words.push(`and ${names.length - MOST_NAMED} more`);
  const lines = [title.trimEnd()];
  for (const word of words) {
    const last = lines.at(-1) ?? "";
    if (`${last} ${word}`.length <= Math.min(80, width)) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`  ${word}`);
  }
  return lines;
}
