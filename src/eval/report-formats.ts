import { formatNumber } from "../util/text.ts";
import type {
  ArmComparison,
  EvalCaseReport,
  EvalReport,
  EvalSkillReport,
  EvalSpending,
  NamedRate,
} from "./eval-report.ts";

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

export const formatShare = (share: number | null) => (share === null ? "-" : `${Math.round(share * 100)} %`);
export const formatRange = ({ low, high }: { low: number; high: number }) =>
  `${Math.round(low * 100)} to ${Math.round(high * 100)} %`;
export const formatPoints = (share: number) => `${share > 0 ? "+" : ""}${Math.round(share * 100)}`;

/** Formats the cost with the date of the prices. */
export function formatDollars({ dollars = 0, priceDate }: Pick<EvalSpending, "dollars" | "priceDate">): string {
  return `$${dollars.toFixed(4)}${priceDate === undefined ? "" : ` (prices of ${priceDate})`}`;
}

export function formatSpending({ spent }: EvalReport): string {
  if (!spent) return "";
  const dollars = spent.dollars === undefined ? "" : `, ${formatDollars(spent)}`;
  return `${formatNumber(spent.calls)} model calls, ${formatNumber(spent.inputTokens)} input and ${formatNumber(spent.outputTokens)} output tokens${dollars}`;
}

export function escapeMarkup(text: string): string {
  // Other control characters are not allowed in XML.
  return text
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]/g, "\ufffd")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** Formats a report as a page without scripts that needs no other file. */
function formatReportPage(report: EvalReport): string {
  const { level, at, model, passed, skills } = report;
  const facts = [`${at.slice(0, 16).replace("T", " ")} UTC`, model ?? "", formatSpending(report)];
  const state = passed === null ? "" : ` ${formatBadge(passed ? "passed" : "failed", passed ? "good" : "bad")}`;
  const compared = skills.filter(({ comparisons }) => comparisons.length > 0);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>skillet eval: ${escapeMarkup(level)}</title>
<style>${STYLE}</style>
</head>
<body>
<header><h1>skillet eval: ${escapeMarkup(level)}${state}</h1>
<p class="dim">${facts
    .filter((fact) => fact !== "")
    .map(escapeMarkup)
    .join(" · ")}</p></header>
${compared.length > 1 ? formatSummary(compared) : ""}
${skills.map(formatSkill).join("\n")}
</body>
</html>
`;
}

const STYLE = `
:root { color-scheme: light dark; --text: #1f2328; --page: #fff; --dim: #59636e; --line: #d1d9e0; --track: #eff2f5; --bar: #5b8def; --good: #1a7f37; --bad: #cf222e; --unsure: #7d5a00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --page: #0d1117; --dim: #9198a1; --line: #3d444d; --track: #1c2128; --bar: #4a7bd8; --good: #3fb950; --bad: #ff7b72; --unsure: #d29922; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; } .long { overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; } h3 { font-size: .85rem; font-weight: 600; color: var(--dim); margin: 1.25rem 0 .5rem; }
section { margin-top: 2rem; border-top: 1px solid var(--line); padding-top: 1.25rem; } p { margin: .25rem 0; } .dim { color: var(--dim); }
.badge { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.4; padding: .05rem .5rem; border: 1px solid; border-radius: 1rem; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .unsure { color: var(--unsure); }
.chart { display: grid; grid-auto-flow: dense; grid-template-columns: minmax(5rem, max-content) 1fr minmax(8rem, max-content); gap: .4rem .75rem; align-items: center; } .label { grid-column: 1; } .track { grid-column: 2; } .value { grid-column: 3; }
.track { position: relative; height: 1.1rem; background: var(--track); border-radius: 3px; } .track > * { position: absolute; }
.bar { top: 0; bottom: 0; left: 0; background: var(--bar); border-radius: 3px; }
.range { top: 50%; height: 2px; margin-top: -1px; background: currentColor; } .range::before, .range::after { content: ""; position: absolute; top: -4px; height: 10px; width: 2px; background: currentColor; } .range::before { left: 0; } .range::after { right: 0; }
.zero { top: -.2rem; bottom: -.2rem; left: 50%; width: 1px; background: var(--dim); } .point { top: 50%; width: 10px; height: 10px; margin: -5px; border-radius: 50%; background: currentColor; }
.axis { display: flex; justify-content: space-between; grid-column: 2; font-size: .75rem; color: var(--dim); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-size: .85rem; color: var(--dim); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; overflow-wrap: normal; } tr.more td { border-bottom: 1px solid var(--line); color: var(--dim); padding-top: 0; } tr.has-more td { border-bottom: 0; }
ul { margin: .75rem 0 0; padding-left: 1.1rem; }
@media (max-width: 40rem) { .chart { grid-template-columns: 1fr max-content; } .value { grid-column: 2; text-align: right; } .track, .axis { grid-column: 1 / -1; } .track { margin-bottom: .4rem; } .wide { display: none; } }
`;

const VERDICT_STYLES = { helps: "good", hurts: "bad", "cannot tell": "unsure" } as const;

function formatBadge(text: string, style: string): string {
  return `<span class="badge ${style}">${escapeMarkup(text)}</span>`;
}

/** The names of arms for people; other arms are named as on the command line. */
const ARM_TITLES: Readonly<Record<string, string>> = {
  none: "without the skill",
  skill: "with the skill",
  old: "old version",
};

function formatArm(arm: string): string {
  return escapeMarkup(ARM_TITLES[arm] ?? arm);
}

function formatSummary(skills: readonly EvalSkillReport[]): string {
  const rows = skills.map(({ name, rates, comparisons }) => {
    const [first] = comparisons as [ArmComparison, ...ArmComparison[]];
    const share = (arm: string) => formatShare(rates.find((rate) => rate.name === arm)?.rate ?? null);
    return `<tr><td>${escapeMarkup(name)}</td><td>${formatBadge(first.verdict, VERDICT_STYLES[first.verdict])}</td><td class="n">${share(first.baseline)}</td><td class="n">${share(first.arm)}</td><td class="n">${formatDifference(first)}</td></tr>`;
  });
  return `<section><table><tr><th>skill</th><th>verdict</th><th class="n">without</th><th class="n">with</th><th class="n">points</th></tr>${rows.join("")}</table></section>`;
}

function formatDifference({ pairs, difference }: ArmComparison): string {
  return pairs === 0 ? "-" : formatPoints(difference);
}

function formatSkill({ name, rates, comparisons, cases, misses, warnings }: EvalSkillReport): string {
  const parts = [
    `<h2>${escapeMarkup(name)}</h2>`,
    ...comparisons.map(formatVerdict),
    drawRates(rates),
    comparisons.some(({ pairs }) => pairs > 0) ? drawComparisons(comparisons) : "",
    cases.length === 0 ? "" : formatCases(cases),
    misses.length === 0 ? "" : formatMisses(misses),
    warnings.length === 0
      ? ""
      : `<ul class="dim">${warnings.map((text) => `<li>${escapeMarkup(text)}</li>`).join("")}</ul>`,
  ];
  return `<section>${parts.filter((part) => part !== "").join("\n")}</section>`;
}

function formatVerdict(comparison: ArmComparison): string {
  const { verdict, baseline, arm, low, high, pairs, pValue } = comparison;
  const figures =
    pairs === 0
      ? "no pair of trials finished"
      : `${formatDifference(comparison)} points, 95 % ${formatPoints(low)} to ${formatPoints(high)}, p = ${pValue.toFixed(3)}, ${pairs} pairs`;
  return `<p>${formatBadge(verdict, VERDICT_STYLES[verdict])} ${escapeMarkup(arm)} against ${escapeMarkup(baseline)}: ${figures}</p>`;
}

const percent = (share: number) => `${(share * 100).toFixed(1)}%`;

/** Draws a bar for each rate, with its interval. */
function drawRates(rates: readonly NamedRate[]): string {
  const rows = rates.map((rate) => {
    const marks =
      rate.rate === null
        ? ""
        : `<span class="bar" style="width:${percent(rate.rate)}"></span><span class="range" style="left:${percent(rate.low)};width:${percent(rate.high - rate.low)}"></span>`;
    return drawRow(
      formatArm(rate.name),
      marks,
      `${formatShare(rate.rate)} (${rate.successes} of ${rate.total})`,
      rate.rate === null ? "no trials" : `${rate.name}: ${formatShare(rate.rate)}, 95 % ${formatRange(rate)}`,
    );
  });
  return drawChart("Rates with their 95 % intervals", rows, ["0 %", "50 %", "100 %"]);
}

/** Draws the difference of each comparison with its interval, around zero. */
function drawComparisons(comparisons: readonly ArmComparison[]): string {
  const place = (difference: number) => (difference + 1) / 2;
  const rows = comparisons.map((one) => {
    const { baseline, low, high, difference, verdict } = one;
    const marks = `<span class="zero"></span><span class="range ${VERDICT_STYLES[verdict]}" style="left:${percent(place(low))};width:${percent(place(high) - place(low))}"></span><span class="point ${VERDICT_STYLES[verdict]}" style="left:${percent(place(difference))}"></span>`;
    return drawRow(
      `against ${escapeMarkup(baseline)}`,
      marks,
      `${formatDifference(one)} points`,
      `${formatPoints(difference)} points, 95 % ${formatPoints(low)} to ${formatPoints(high)}`,
    );
  });
  return drawChart("Difference in points, with 95 % intervals", rows, ["-100", "0", "+100"]);
}

function drawRow(label: string, marks: string, value: string, title: string): string {
  return `<span class="label">${label}</span><span class="value">${value}</span><span class="track" role="img" aria-label="${escapeMarkup(title)}">${marks}</span>`;
}

function drawChart(title: string, rows: readonly string[], axis: readonly string[]): string {
  const ticks = axis.map((tick) => `<span>${tick}</span>`).join("");
  return `<h3>${title}</h3><div class="chart">${rows.join("")}<span class="axis">${ticks}</span></div>`;
}

function formatCases(cases: readonly EvalCaseReport[]): string {
  const arms = [...new Set(cases.flatMap((one) => Object.keys(one.arms)))];
  const head = `<tr><th>case</th>${arms.map((arm) => `<th class="n">${escapeMarkup(arm)}</th>`).join("")}<th class="n wide">each trial</th></tr>`;
  const rows = cases.map(({ name, arms: totals, failures }) => {
    const cells = arms.map((arm) => {
      const { passed = 0, trials = 0 } = totals[arm] ?? {};
      return `<td class="n">${passed}/${trials}</td>`;
    });
    const more =
      failures.length === 0
        ? ""
        : `<tr class="more"><td class="long" colspan="${arms.length + 2}">${failures.slice(0, 3).map(escapeMarkup).join("<br>")}</td></tr>`;
    return `<tr${more === "" ? "" : ' class="has-more"'}><td>${escapeMarkup(name)}</td>${cells.join("")}<td class="n wide">${formatTrial(totals)}</td></tr>${more}`;
  });
  return `<h3>Cases: trials that passed, and the most frequent failures</h3><table>${head}${rows.join("")}</table>`;
}

/** Formats the average tokens, seconds and dollars of a trial, over all arms. */
function formatTrial(arms: EvalCaseReport["arms"]): string {
  const all = Object.values(arms);
  const sum = (pick: (arm: EvalCaseReport["arms"][string]) => number) =>
    all.reduce((total, arm) => total + pick(arm), 0);
  const trials = sum((arm) => arm.trials);
  if (trials === 0) return "";
  const tokens = Math.round(sum(({ inputTokens, outputTokens }) => inputTokens + outputTokens) / trials);
  const dollars = sum((arm) => arm.dollars ?? 0) / trials;
  const seconds = sum(({ ms }) => ms) / trials / 1000;
  return [
    `${seconds.toFixed(1)} s`,
    ...(tokens > 0 ? [`${tokens} tokens`] : []),
    ...(dollars > 0 ? [`$${dollars.toFixed(4)}`] : []),
  ].join(", ");
}

function formatMisses(misses: EvalSkillReport["misses"]): string {
  const rows = misses.map(({ query, shouldTrigger, takenBy }) => {
    const badge = formatBadge(shouldTrigger ? "missed" : "false", shouldTrigger ? "unsure" : "bad");
    const instead =
      takenBy === undefined ? "" : `<br><span class="dim">chosen instead: ${escapeMarkup(takenBy)}</span>`;
    return `<tr><td>${badge}</td><td class="long">${escapeMarkup(query)}${instead}</td></tr>`;
  });
  return `<h3>Queries with another outcome</h3><table>${rows.join("")}</table>`;
}
