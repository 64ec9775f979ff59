import { listAvailableSkills } from "../../agent/policy/skill-policies.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { DayStatistics, SkillStatistics, StatisticsFilter, StatisticsTotal } from "../../store/statistics.ts";
import { omitUndefined } from "../../util/objects.ts";
import { compareText, formatCount, formatNumber, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  openCommandStores,
  parseSince,
  printConfigurationWarnings,
  SINCE_HELP,
} from "../command-context.ts";
import { type CommandIo, createPrinter, type Printer, printJson } from "../output.ts";
import { formatCost } from "../run-format.ts";

export const statsCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the usage, outcomes, duration and cost of skills")
      .option("--since <when>", `Count only runs since this time: ${SINCE_HELP}`)
      .option("--user <name>", "Count only the uses of this user")
      .option("--tenant <name>", "Count only the uses of this tenant")
      .addHelpText("after", formatExamples("skillet stats", "skillet stats --since 7d", "skillet stats --json")),
  run: showStatistics,
};

interface StatsOptions {
  since?: string;
  user?: string;
  tenant?: string;
}

/** Shows the statistics of skills. */
async function showStatistics({ io, options }: CommandContext<StatsOptions>): Promise<number> {
  const since = options.since === undefined ? undefined : parseSince(options.since);
  const found = await discoverForCommand(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const { statistics } = await openCommandStores(io, options);
  const facts = await collectStatistics(
    { ...found, statistics },
    omitUndefined({ since, user: options.user, tenant: options.tenant }),
  );
  const { skills, total, neverUsed } = facts;
  if (options.json) printJson(io.stdout, toStatsJson(facts));
  else if (skills.length === 0) printNoStatistics(io, since, neverUsed);
  else {
    const out = createPrinter(io.stdout, io.env);
    printStatsTable(out, skills, total);
    if (neverUsed.length > 0) out.line``;
    for (const line of wrapNameList(since ? "not used since then: " : "never used: ", neverUsed, out))
      out.line`${line}`;
  }
  return code;
}

interface StatisticsFacts {
  since?: Date;
  skills: readonly SkillStatistics[];
  total: StatisticsTotal;
  /** Absent if the store does not count days. */
  days?: readonly DayStatistics[];
  neverUsed: readonly string[];
}

/** Collects what `stats` prints: the skills that were used most come first. */
export async function collectStatistics(found: DiscoverResult, from: StatisticsFilter = {}): Promise<StatisticsFacts> {
  const skills = [...(await found.statistics.perSkill(from))].sort(
    (a, b) => b.runs - a.runs || compareText(a.skill, b.skill),
  );
  const total = await found.statistics.total(from);
  const days = await found.statistics.perDay?.(from);
  return { ...omitUndefined({ since: from.since, days }), skills, total, neverUsed: listUnusedSkills(skills, found) };
}

/** Returns the value of `stats --json`. */
export function toStatsJson({ skills, ...facts }: StatisticsFacts) {
  return { ...facts, skills: skills.map(toStatisticsJson) };
}

function toStatisticsJson({ skill, lastUse, ...counts }: SkillStatistics) {
  return { name: skill, ...counts, ...omitUndefined({ lastUseAt: lastUse }) };
}

function listUnusedSkills(skills: readonly SkillStatistics[], found: DiscoverResult): string[] {
  const used = new Set(skills.map(({ skill }) => skill));
  const available = listAvailableSkills(found.catalog, found);
  return available.map(({ name }) => name).filter((name) => !used.has(name));
}

function printNoStatistics(io: CommandIo, since: Date | undefined, there: readonly string[]): void {
  const out = createPrinter(io.stderr, io.env);
  if (since) out.line`no skill was used since ${since.toISOString()}: omit --since to count all runs`;
  else if (there.length === 0)
    out.line`no skill was used yet, and none was found: create one with \`skillet new NAME\``;
  else
    out.line`no skill was used yet: run \`skillet run ${there.find((name) => name === "host-report") ?? there[0] ?? ""}\` or \`skillet chat\``;
}

interface StatsColumn {
  title: string;
  width: number;
  of(skill: SkillStatistics): string;
  all?(total: StatisticsTotal): string;
}

const STATS_COLUMNS: readonly StatsColumn[] = [
  { title: "runs", width: 6, of: ({ runs }) => formatNumber(runs), all: ({ runs }) => formatNumber(runs) },
  { title: "p50", width: 8, of: ({ p50Ms }) => formatMeanDuration(p50Ms) },
  { title: "p95", width: 8, of: ({ p95Ms }) => formatMeanDuration(p95Ms) },
  { title: "tokens", width: 8, of: formatTokenCount, all: formatTokenCount },
  { title: "cost", width: 9, of: ({ cost }) => formatPrice(cost), all: ({ cost }) => formatPrice(cost) },
  { title: "loads", width: 7, of: ({ loads }) => formatNumber(loads), all: ({ loads }) => formatNumber(loads) },
];
const LAST_USE_TITLE = "last use";
/** `11 months ago` */
const LAST_USE_WIDTH = 15;

function printStatsTable(out: Printer, skills: readonly SkillStatistics[], total: StatisticsTotal): void {
  const room = out.width - LAST_USE_WIDTH - STATS_COLUMNS.reduce((sum, { width }) => sum + width, 0);
  const widest = Math.max("total".length, ...skills.map(({ skill }) => skill.length));
  const width = Math.max(8, Math.min(widest, room));
  const cells = (of: (column: StatsColumn) => string) =>
    STATS_COLUMNS.map((column) => of(column).padStart(column.width)).join("");
  out.line`${out.dim(`${"skill".padEnd(width)}${cells(({ title }) => title)}  ${LAST_USE_TITLE}`)}`;
  for (const row of skills) {
    const last = row.lastUse === undefined ? "" : formatLastUse(Date.now() - Date.parse(row.lastUse));
    out.line`${out.bold(truncateLine(row.skill, width).padEnd(width))}${cells(({ of }) => of(row))}  ${last}`;
    const outcomes = formatOutcomes(row);
    if (outcomes.length > 0) out.line`${out.dim(`  ${outcomes.join(", ")}`)}`;
  }
  if (skills.length > 1) out.line`${"total".padEnd(width)}${cells(({ all }) => all?.(total) ?? "")}`;
}

/** The outcomes, the most relevant first. */
const OUTCOME_GROUPS: readonly [label: string, stops: readonly string[]][] = [
  ["done", ["answer", "complete"]],
  ["failed", ["failed", "error"]],
  ["at a limit", ["max-iterations", "timeout", "budget"]],
  ["interrupted", ["aborted"]],
  ["waiting", ["waiting"]],
];

function formatOutcomes({ outcomes, refused }: SkillStatistics): string[] {
  const parts = OUTCOME_GROUPS.map(([label, stops]) => ({
    label,
    number: sumNumbers(stops.map((stop) => outcomes[stop] ?? 0)),
  }));
  const all = [...parts, { label: "refused", number: refused }].filter(({ number }) => number > 0);
  return all.map(({ label, number }) => `${formatNumber(number)} ${label}`);
}

function sumNumbers(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}

function formatTokenCount({
  inputTokens,
  outputTokens,
}: Pick<StatisticsTotal, "inputTokens" | "outputTokens">): string {
  const number = inputTokens + outputTokens;
  if (number < 10_000) return number === 0 ? "–" : formatNumber(number);
  return number < 999_500 ? `${(number / 1000).toFixed(0)}k` : `${(number / 1e6).toFixed(1)}M`;
}

function formatPrice(cost: number | undefined): string {
  return cost === undefined ? "–" : formatCost(cost);
}

function formatMeanDuration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 5_400_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}

const STATS_AGE_UNITS: readonly [upTo: number, one: number, noun: string][] = [
  [60, 1, "minute"],
  [24 * 60, 60, "hour"],
  [60 * 24 * 60, 24 * 60, "day"],
  [Number.POSITIVE_INFINITY, 30 * 24 * 60, "month"],
];

function formatLastUse(ms: number): string {
  const minutes = ms / 60_000;
  if (minutes < 1) return "just now";
  const [, one, noun] = STATS_AGE_UNITS.find(([upTo]) => minutes < upTo) ?? [0, 1, "minute"];
  return `${formatCount(Math.floor(minutes / one), noun)} ago`;
}

const MAX_NAMED = 30;

/** Wraps names after a title, in lines of at most 80 characters. */
function wrapNameList(title: string, names: readonly string[], { width }: Printer): string[] {
  if (names.length === 0) return [];
  const shown = names.slice(0, MAX_NAMED);
  const words = [...shown.slice(0, -1).map((name) => `${name},`), shown.at(-1) ?? ""];
  if (names.length > MAX_NAMED) words.push(`and ${names.length - MAX_NAMED} more`);
  const lines = [title.trimEnd()];
  for (const word of words) {
    const last = lines.at(-1) ?? "";
    if (`${last} ${word}`.length <= Math.min(80, width)) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`  ${word}`);
  }
  return lines;
}
