import type { EvalCaseReport, EvalReport, EvalSkillReport, NamedRate } from "./eval-report.ts";
import { formatReportPage } from "./report-page.ts";
import { escapeMarkup, formatPoints, formatRange, formatShare, formatSpending } from "./report-text.ts";

/** A format of a report for other programs or for people. */
export const REPORT_FORMATS = ["json", "junit", "sarif", "markdown", "html"] as const;
export type ReportFormat = (typeof REPORT_FORMATS)[number];

/** Formats a report. */
export function formatEvalReport(report: EvalReport, format: ReportFormat): string {
  return FORMATTERS[format](report);
}

const FORMATTERS: Readonly<Record<ReportFormat, (report: EvalReport) => string>> = {
  json: (report) => `${JSON.stringify(report, null, 2)}\n`,
  junit: formatJunit,
  sarif: formatSarif,
  markdown: formatMarkdown,
  html: formatReportPage,
};

/** The arm whose trials decide about a case: the skill, or the replayed run. */
function getDecidingArm({ arms }: EvalCaseReport) {
  return arms["skill"] ?? arms["replay"] ?? Object.values(arms)[0];
}

/** Returns true if at least half of the trials with the skill passed. */
function hasCasePassed(one: EvalCaseReport): boolean {
  const arm = getDecidingArm(one);
  return arm !== undefined && arm.trials > 0 && arm.passed * 2 >= arm.trials;
}

/** A suite for each skill. Cases are tests; at the levels route and trigger, each miss is a failed one. */
function formatJunit({ skills, level, ms, at }: EvalReport): string {
  const suites = skills.map(({ name, cases, misses, rates }) => {
    const hits = rates.filter((rate) => isHitRate(rate)).reduce((sum, { total }) => sum + total, 0);
    const tests = [
      ...cases.map((one) => ({
        name: one.name,
        ms: getDecidingArm(one)?.ms ?? 0,
        failure: hasCasePassed(one) ? undefined : (one.failures[0] ?? "it did not pass"),
      })),
      ...misses.map(({ query, shouldTrigger, takenBy }) => ({
        name: query,
        ms: 0,
        failure: shouldTrigger
          ? `the skill was not chosen${takenBy === undefined ? "" : `, but ${takenBy}`}`
          : "the skill was chosen and should not be",
      })),
    ];
    const failures = tests.filter(({ failure }) => failure !== undefined).length;
    const body = tests.map(({ name: test, ms: took, failure }) => {
      const open = `    <testcase classname="${escapeMarkup(name)}" name="${escapeMarkup(test)}" time="${took / 1000}"`;
      return failure === undefined
        ? `${open}/>`
        : `${open}>\n      <failure message="${escapeMarkup(failure)}"/>\n    </testcase>`;
    });
    const count = Math.max(tests.length, hits);
    return `  <testsuite name="${escapeMarkup(name)}" tests="${count}" failures="${failures}" timestamp="${at}">\n${body.join("\n")}\n  </testsuite>`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="skillet eval --level ${level}" time="${ms / 1000}">\n${suites.join("\n")}\n</testsuites>\n`;
}

/** The rates whose total counts queries: one for those that the skill is for, one for the others. */
function isHitRate({ name }: NamedRate): boolean {
  return ["recall@1", "picked", "false triggers"].includes(name);
}

const SARIF_RULES = {
  "eval-missed": "A query that the skill is for does not find it.",
  "eval-false-trigger": "A query that the skill is not for finds it.",
  "eval-failed": "A case does not pass with the skill.",
} as const;

function formatSarif({ skills }: EvalReport): string {
  const results = skills.flatMap(({ name, misses, cases }) => {
    const locate = (file: string) => [
      { physicalLocation: { artifactLocation: { uri: `${encodeURIComponent(name)}/${file}` } } },
    ];
    const missed = misses.map(({ query, shouldTrigger, takenBy }) => ({
      ruleId: shouldTrigger ? "eval-missed" : "eval-false-trigger",
      level: "warning",
      message: { text: `${name}: "${query}"${takenBy === undefined ? "" : ` goes to ${takenBy}`}` },
      locations: locate("evals/triggers.json"),
    }));
    const failed = cases
      .filter((one) => !hasCasePassed(one))
      .map((one) => ({
        ruleId: "eval-failed",
        level: "error",
        message: { text: `${name}: ${one.name}: ${one.failures[0] ?? "it did not pass"}` },
        locations: locate("evals"),
      }));
    return [...missed, ...failed];
  });
  const rules = Object.entries(SARIF_RULES).map(([id, text]) => ({ id, shortDescription: { text } }));
  const log = {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [{ tool: { driver: { name: "skillet", rules } }, results }],
  };
  return `${JSON.stringify(log, null, 2)}\n`;
}

function describeComparison({
  verdict,
  baseline,
  arm,
  difference,
  low,
  high,
  pairs,
}: EvalSkillReport["comparisons"][number]): string {
  return `${arm} against ${baseline}: ${verdict} (${formatPoints(difference)} points, 95 % ${formatPoints(low)} to ${formatPoints(high)}, ${pairs} pairs)`;
}

function escapeCell(text: string): string {
  return text.replace(/\s+/g, " ").replace(/[\\`*_{}[\]<>()#+!|~]/g, (mark) => `\\${mark}`);
}

function formatMarkdown(report: EvalReport): string {
  const lines = [
    `## skillet eval: ${report.level}${report.model === undefined ? "" : `, ${escapeCell(report.model)}`}`,
    "",
  ];
  for (const { name, rates, comparisons, cases, misses, warnings } of report.skills) {
    lines.push(`### ${escapeCell(name)}`, "");
    lines.push("| | share | of | 95 % |", "|---|---:|---:|---|");
    for (const rate of rates)
      lines.push(
        `| ${escapeCell(rate.name)} | ${formatShare(rate.rate)} | ${rate.successes}/${rate.total} | ${formatRange(rate)} |`,
      );
    lines.push("", ...comparisons.map((one) => `- **${escapeCell(describeComparison(one))}**`));
    for (const one of cases.filter((each) => !hasCasePassed(each)))
      lines.push(
        `- failed: ${escapeCell(one.name)}${one.failures[0] === undefined ? "" : `: ${escapeCell(one.failures[0])}`}`,
      );
    for (const { query, shouldTrigger, takenBy } of misses.slice(0, 20))
      lines.push(
        `- ${shouldTrigger ? "missed" : "false"}: ${escapeCell(query)}${takenBy === undefined ? "" : ` (went to ${escapeCell(takenBy)})`}`,
      );
    lines.push(...warnings.map((warning) => `- note: ${escapeCell(warning)}`), "");
  }
  const spending = formatSpending(report);
  if (spending !== "") lines.push(spending, "");
  return `${lines
    .join("\n")
    .replace(/\n{3,}/g, "\n\n")
    .trimEnd()}\n`;
}
