import type { EvalCaseReport, EvalReport, EvalSkillReport, EvalSpending, NamedRate } from "./eval-report.ts";

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
  html: formatHtml,
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

function escapeMarkup(text: string): string {
  // Other control characters are not allowed in XML.
  return text
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]/g, "\ufffd")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
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

const formatShare = (share: number | null) => (share === null ? "-" : `${Math.round(share * 100)} %`);
const formatRange = ({ low, high }: { low: number; high: number }) =>
  `${Math.round(low * 100)} to ${Math.round(high * 100)} %`;
const formatPoints = (share: number) => `${share > 0 ? "+" : ""}${Math.round(share * 100)}`;

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

/** Formats the cost with the date of the prices. */
export function formatDollars({ dollars = 0, priceDate }: Pick<EvalSpending, "dollars" | "priceDate">): string {
  return `$${dollars.toFixed(4)}${priceDate === undefined ? "" : ` (prices of ${priceDate})`}`;
}

function formatSpending({ spent }: EvalReport): string {
  if (!spent) return "";
  const dollars = spent.dollars === undefined ? "" : `, ${formatDollars(spent)}`;
  return `${spent.calls} model calls, ${spent.inputTokens} input and ${spent.outputTokens} output tokens${dollars}`;
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

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --bar: #4c78a8; --good: #2e8b57; --bad: #c0392b; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .dim { color: var(--dim); }
.helps { color: var(--good); font-weight: 600; } .hurts { color: var(--bad); font-weight: 600; } .unsure { font-weight: 600; }
svg { display: block; max-width: 100%; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
`;

/** A page without scripts that needs no other file. */
function formatHtml(report: EvalReport): string {
  const title = `skillet eval: ${report.level}`;
  const facts = [
    report.at,
    report.model ?? "",
    formatSpending(report),
    report.passed === null ? "" : report.passed ? "passed" : "failed",
  ];
  const parts = report.skills.map(formatSkillHtml);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeMarkup(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeMarkup(title)}</h1>
<p class="dim">${facts
    .filter((fact) => fact !== "")
    .map(escapeMarkup)
    .join(" · ")}</p>
${parts.join("\n")}
</body>
</html>
`;
}

function formatSkillHtml({ name, rates, comparisons, cases, misses, warnings }: EvalSkillReport): string {
  const verdicts = comparisons.map((one) => {
    const kind = one.verdict === "cannot tell" ? "unsure" : one.verdict;
    return `<p class="${kind}">${escapeMarkup(describeComparison(one))}</p>`;
  });
  return [
    `<h2>${escapeMarkup(name)}</h2>`,
    ...verdicts,
    drawRates(rates),
    ...(comparisons.length === 0 ? [] : [drawComparisons(comparisons)]),
    ...(cases.length === 0 ? [] : [formatCaseTable(cases)]),
    ...(misses.length === 0 ? [] : [formatMissTable(misses)]),
    ...(warnings.length === 0
      ? []
      : [`<ul class="dim">${warnings.map((text) => `<li>${escapeMarkup(text)}</li>`).join("")}</ul>`]),
  ].join("\n");
}

const CHART = { label: 130, width: 480, row: 26, value: 150 } as const;

/** Draws a bar for each rate, with its interval. */
function drawRates(rates: readonly NamedRate[]): string {
  const { label, width, row, value } = CHART;
  const x = (share: number) => (label + share * width).toFixed(1);
  const rows = rates.map((rate, at) => {
    const middle = at * row + row / 2;
    const bar =
      rate.rate === null
        ? ""
        : `<rect x="${label}" y="${middle - 7}" width="${(rate.rate * width).toFixed(1)}" height="14" fill="var(--bar)" opacity=".75"/>`;
    const interval = `<path d="M${x(rate.low)} ${middle}H${x(rate.high)}M${x(rate.low)} ${middle - 5}v10M${x(rate.high)} ${middle - 5}v10" stroke="currentColor" fill="none"/>`;
    const text = `${formatShare(rate.rate)} (${rate.successes}/${rate.total})`;
    return `<text x="${label - 8}" y="${middle + 4}" text-anchor="end">${escapeMarkup(rate.name)}</text>${bar}${interval}<text x="${label + width + 10}" y="${middle + 4}">${text}</text>`;
  });
  return drawChart("Rates with their 95 % intervals", rows, rates.length * row, label + width + value);
}

/** Draws the difference of each comparison with its interval, around zero. */
function drawComparisons(comparisons: EvalSkillReport["comparisons"]): string {
  const { label, width, row, value } = CHART;
  const x = (share: number) => (label + ((share + 1) / 2) * width).toFixed(1);
  const height = comparisons.length * row;
  const zero = `<path d="M${x(0)} 0V${height}" stroke="var(--line)"/>`;
  const rows = comparisons.map(({ baseline, difference, low, high, verdict }, at) => {
    const middle = at * row + row / 2;
    const color = verdict === "helps" ? "var(--good)" : verdict === "hurts" ? "var(--bad)" : "currentColor";
    const line = `<path d="M${x(low)} ${middle}H${x(high)}" stroke="${color}" stroke-width="3"/><circle cx="${x(difference)}" cy="${middle}" r="5" fill="${color}"/>`;
    return `<text x="${label - 8}" y="${middle + 4}" text-anchor="end">against ${escapeMarkup(baseline)}</text>${line}<text x="${label + width + 10}" y="${middle + 4}">${formatPoints(difference)} points</text>`;
  });
  return drawChart(
    "Difference to the other arms, in points from -100 to +100",
    [zero, ...rows],
    height,
    label + width + value,
  );
}

function drawChart(title: string, parts: readonly string[], height: number, width: number): string {
  return `<figure><figcaption class="dim">${title}</figcaption><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${title}">${parts.join("")}</svg></figure>`;
}

function formatCaseTable(cases: readonly EvalCaseReport[]): string {
  const arms = [...new Set(cases.flatMap((one) => Object.keys(one.arms)))];
  const head = `<tr><th>case</th>${arms.map((arm) => `<th class="n">${escapeMarkup(arm)}</th>`).join("")}<th>most frequent failures</th></tr>`;
  const rows = cases.map(({ name, arms: totals, failures }) => {
    const cells = arms.map((arm) => {
      const { passed = 0, trials = 0 } = totals[arm] ?? {};
      return `<td class="n">${passed}/${trials}</td>`;
    });
    return `<tr><td>${escapeMarkup(name)}</td>${cells.join("")}<td class="dim">${failures.slice(0, 3).map(escapeMarkup).join("<br>")}</td></tr>`;
  });
  return `<table>${head}${rows.join("")}</table>`;
}

function formatMissTable(misses: EvalSkillReport["misses"]): string {
  const rows = misses.map(
    ({ query, shouldTrigger, takenBy = "" }) =>
      `<tr><td>${shouldTrigger ? "missed" : "false"}</td><td>${escapeMarkup(query)}</td><td class="dim">${escapeMarkup(takenBy)}</td></tr>`,
  );
  return `<table><tr><th>outcome</th><th>query</th><th>chosen instead</th></tr>${rows.join("")}</table>`;
}
