import { formatCost, formatDuration } from "../../src/cli/run-format.ts";
import type { ArmComparison, EvalReport, EvalSkillReport, NamedRate } from "../../src/eval/eval-report.ts";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { escapeLine } from "../../src/util/untrusted-text.ts";
import { useReport } from "../api.ts";
import type { ChartSeries } from "../chart.ts";
import { ChartView } from "../chart-view.tsx";
import { Command, Empty, Line, Loaded, Mark, type MarkKind, Page, Section, Select, Time } from "../components.tsx";
import type { EvalsReport } from "../reports.ts";
import { Link, useParameter } from "../router.tsx";

export function EvaluationPage() {
  const report = useReport<EvalsReport>("/api/evals", ["evals"]);
  return (
    <Page title="Evaluation" summary={report.value && formatCount(report.value.reports.length, "stored evaluation")}>
      <Loaded report={report}>{({ reports }) => <Evaluations reports={reports} />}</Loaded>
    </Page>
  );
}

function Evaluations({ reports }: { reports: readonly EvalReport[] }) {
  const [skill, setSkill] = useParameter("skill");
  const [level, setLevel] = useParameter("level");
  const [selected] = useParameter("report");
  if (reports.length === 0)
    return (
      <Empty title="Nothing was evaluated yet." command="skillet eval">
        Write <code>evals/triggers.json</code> next to a SKILL.md, with queries that should bring it up and some that
        should not, or <code>evals/tasks.yaml</code> with tasks that are graded with and without the skill. Each
        evaluation is kept and shown here.
      </Empty>
    );
  const names = [...new Set(reports.flatMap(({ skills }) => skills.map(({ name }) => name)))].sort();
  const levels = [...new Set(reports.map((one) => one.level))].sort();
  const shown = reports.filter(
    (one) => (level === "" || one.level === level) && (skill === "" || findSkill(one, skill)),
  );
  const report = shown.find(({ id }) => id === selected) ?? shown[0];
  return (
    <>
      <div class="filters">
        <Select label="Skill" value={skill} options={names.map((name) => [name, name])} onChange={setSkill} />
        <Select label="Level" value={level} options={levels.map((one) => [one, one])} onChange={setLevel} />
      </div>
      {report === undefined ? (
        <Empty title="No evaluation matches.">Remove a filter.</Empty>
      ) : (
        <>
          {skill !== "" && <History reports={shown} skill={skill} />}
          <Details report={report} skill={skill} isLatest={report === shown[0]} />
          {shown.length > 1 && <Evaluated reports={shown} skill={skill} selected={report} />}
        </>
      )}
    </>
  );
}

function findSkill({ skills }: EvalReport, name: string): EvalSkillReport | undefined {
  return skills.find((one) => one.name === name);
}

/** All evaluations that match, each to open. */
function Evaluated({
  reports,
  skill,
  selected,
}: {
  reports: readonly EvalReport[];
  skill: string;
  selected: EvalReport;
}) {
  return (
    <Section title="All evaluations" note={reports.length}>
      <table class="data">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Level</th>
            <th scope="col">Result</th>
            <th scope="col" class="wide">
              Model
            </th>
            <th scope="col" class="number">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {reports.map((report) => (
            <tr key={report.id} class={report === selected ? "selected" : ""}>
              <th scope="row">
                <Link to={formatReportAddress(report, skill)} aria-current={report === selected ? "true" : undefined}>
                  <Time at={report.at} />
                </Link>
              </th>
              <td>{report.level}</td>
              <td>
                <Line text={formatResult(report, skill)} />
              </td>
              <td class="wide">
                <Line text={report.model ?? "–"} />
              </td>
              <td class="number figure">{formatSpent(report)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function formatReportAddress({ id }: EvalReport, skill: string): string {
  const query = new URLSearchParams({ ...(skill === "" ? {} : { skill }), report: id });
  return `/evaluation?${query}`;
}

function formatSpent({ spent }: EvalReport): string {
  return spent?.dollars === undefined ? "–" : formatCost(spent.dollars);
}

/** The result in a few words: the verdict of a skill, its first rate, or the number of skills. */
function formatResult(report: EvalReport, skill: string): string {
  const [only] = report.skills;
  const one = findSkill(report, skill) ?? (report.skills.length === 1 ? only : undefined);
  if (!one) return formatCount(report.skills.length, "skill");
  const [comparison] = one.comparisons;
  if (comparison) return `${comparison.verdict}, ${formatPoints(comparison.difference)} points`;
  const [rate] = one.rates;
  return rate?.rate === null || rate === undefined ? "–" : `${rate.name} ${formatPercent(rate.rate)}`;
}

const formatPercent = (share: number) => `${Math.round(share * 100)} %`;

function formatPoints(share: number): string {
  const points = Math.round(share * 100);
  return points > 0 ? `+${points}` : points < 0 ? `−${-points}` : "0";
}

const COLORS = ["--ink", "--accent", "--good", "--bad"];
/** The rate that is better the lower it is. */
const FALSE_TRIGGERS = "false triggers";

/** The results of one skill over time, the earliest first: the rates of each level, and what the skill changes. */
function History({ reports, skill }: { reports: readonly EvalReport[]; skill: string }) {
  const past = reports.toReversed().flatMap((report) => {
    const one = findSkill(report, skill);
    return one ? { report, one } : [];
  });
  return (
    <div class="charts">
      {[...Map.groupBy(past, ({ report }) => report.level)]
        .filter(([, all]) => all.length > 1)
        .map(([level, all]) => (
          <LevelHistory key={level} level={level} all={all} />
        ))}
    </div>
  );
}

interface PastResult {
  report: EvalReport;
  one: EvalSkillReport;
}

function LevelHistory({ level, all }: { level: EvalReport["level"]; all: readonly PastResult[] }) {
  const labels = all.map(({ report }) => report.at.slice(5, 10));
  const listNames = (of: (one: EvalSkillReport) => readonly string[]) => [
    ...new Set(all.flatMap(({ one }) => of(one))),
  ];
  const names = listNames(({ rates }) => rates.map(({ name }) => name));
  const arms = listNames(({ comparisons }) => comparisons.map(({ arm }) => arm));
  const comparisonsOf = (arm: string) => all.map(({ one }) => one.comparisons.find((found) => found.arm === arm));
  return (
    <>
      {arms.length > 0 && (
        <ChartView
          title="Difference to the baseline, with 95 % intervals"
          labels={labels}
          format={(value) => `${formatPoints(value)}`}
          series={[
            ...arms.slice(0, COLORS.length).map((arm, index): ChartSeries => {
              const found = comparisonsOf(arm);
              return {
                ...{ title: arm, kind: "line", color: COLORS[(index + 1) % COLORS.length] ?? "--ink" },
                values: found.map((one) => one?.difference ?? null),
                low: found.map((one) => one?.low ?? null),
                high: found.map((one) => one?.high ?? null),
              };
            }),
            { title: "no difference", kind: "guide", color: "--soft", values: all.map(() => 0) },
          ]}
        />
      )}
      <ChartView
        title={arms.length > 0 ? "Passed, by arm" : LEVELS[level]}
        labels={labels}
        format={formatPercent}
        series={names.slice(0, COLORS.length).map((name, index) => ({
          title: name,
          kind: "line",
          color: name === FALSE_TRIGGERS ? "--soft" : (COLORS[index] ?? "--ink"),
          values: all.map(({ one }) => one.rates.find((rate) => rate.name === name)?.rate ?? null),
        }))}
      />
      {all.some(({ report }) => report.spent?.dollars !== undefined) && (
        <ChartView
          title={`Cost of an evaluation, ${level}`}
          labels={labels}
          format={(value) => `$${Number(value.toPrecision(3))}`}
          series={[
            {
              title: "dollars",
              kind: "bars",
              color: "--accent",
              values: all.map(({ report }) => report.spent?.dollars ?? null),
            },
          ]}
        />
      )}
    </>
  );
}

function Details({ report, skill, isLatest }: { report: EvalReport; skill: string; isLatest: boolean }) {
  const { at, level, model, passed, skills, spent } = report;
  const shown = skill === "" ? skills : skills.filter(({ name }) => name === skill);
  const facts = [
    LEVELS[level],
    model === undefined ? "" : `with ${escapeLine(model)}`,
    passed === null ? "" : passed ? "passed" : "failed",
    spent === undefined
      ? ""
      : `${formatCount(spent.calls, "model call")}, ${formatCount(spent.inputTokens + spent.outputTokens, "token")}`,
    spent?.dollars === undefined ? "" : formatCost(spent.dollars),
    spent?.ceiling === undefined ? "" : `at most ${formatCost(spent.ceiling)}`,
  ];
  return (
    <Section title={isLatest ? "Latest" : "Earlier"} note={<Time at={at} />}>
      <p class="soft figure">{facts.filter((part) => part !== "").join(" · ")}</p>
      {shown.map((one) => (
        <SkillResult key={one.name} report={one} />
      ))}
      <p class="next">
        <Command text={["skillet eval", skill, NEXT_OPTIONS[level]].filter((part) => part !== "").join(" ")} />
      </p>
    </Section>
  );
}

const LEVELS: Readonly<Record<EvalReport["level"], string>> = {
  route: "Matching, without a model",
  trigger: "A model chooses the skills",
  task: "Tasks are done and graded",
  replay: "Recorded runs",
};

const NEXT_OPTIONS: Readonly<Record<EvalReport["level"], string>> = {
  route: "--misses",
  trigger: "--level trigger",
  task: "--level task",
  replay: "--level replay",
};

function SkillResult({ report }: { report: EvalSkillReport }) {
  const { name, rates, warnings, misses, comparisons, cases } = report;
  return (
    <article class="eval">
      <h3>
        <Link to={`/skills/${encodeURIComponent(name)}`} class="name">
          <Line text={name} />
        </Link>
      </h3>
      {comparisons.map((one) => (
        <ComparisonView key={`${one.baseline} ${one.arm}`} comparison={one} />
      ))}
      <dl class="rates">
        {rates.map((rate) => (
          <RateView key={rate.name} rate={rate} />
        ))}
      </dl>
      {cases.length > 0 && <Cases cases={cases} />}
      {warnings.map((text) => (
        <p key={text} class="soft">
          <Mark kind="warn" /> <Line text={text} />
        </p>
      ))}
      {misses.length > 0 && (
        <details>
          <summary>{formatCount(misses.length, "miss", "misses")}</summary>
          <ul class="plain">
            {misses.map(({ query, shouldTrigger, rank, takenBy }) => (
              <li key={query}>
                <Mark kind={shouldTrigger ? "warn" : "bad"} /> <Line text={query} />
                <span class="description">
                  {shouldTrigger
                    ? rank === undefined
                      ? "not found"
                      : `rank ${rank}`
                    : "brought it up, and should not"}
                  {takenBy !== undefined && (
                    <>
                      ; first was <Line text={takenBy} />
                    </>
                  )}
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </article>
  );
}

const VERDICT_MARKS: Readonly<Record<ArmComparison["verdict"], MarkKind>> = {
  helps: "good",
  hurts: "bad",
  "cannot tell": "idle",
};

/** The verdict on an arm, and its difference to the baseline on a scale from −100 to +100 points. */
function ComparisonView({ comparison }: { comparison: ArmComparison }) {
  const { arm, baseline, verdict, difference, low, high, pairs, gained, lost, pValue } = comparison;
  const place = (share: number) => `${(share + 1) * 50}%`;
  return (
    <div class="comparison">
      <p>
        <Mark kind={VERDICT_MARKS[verdict]} /> <strong>{verdict}</strong>{" "}
        <span class="soft">
          <Line text={arm} /> against <Line text={baseline} />
        </span>
      </p>
      <div class="scale">
        <span class="figure strong">{formatPoints(difference)} points</span>
        <span class="interval" aria-hidden="true">
          <u />
          <i style={{ left: place(low), right: `${100 - (high + 1) * 50}%` }} />
          <b style={{ left: place(difference) }} />
        </span>
        <span class="soft figure">
          {formatPoints(low)} to {formatPoints(high)}
        </span>
      </div>
      <p class="soft figure">
        {formatCount(pairs, "pair")}: {formatNumber(gained)} gained, {formatNumber(lost)} lost, p ={" "}
        {Number(pValue.toPrecision(2))}
      </p>
    </div>
  );
}

type EvalCase = EvalSkillReport["cases"][number];
type ArmTotals = EvalCase["arms"][string];

/** The trials of each case by arm, and what each arm used. */
function Cases({ cases }: { cases: readonly EvalCase[] }) {
  const arms = [...new Set(cases.flatMap((one) => Object.keys(one.arms)))];
  const totals = arms.map((arm) => sumTotals(cases.flatMap((one) => one.arms[arm] ?? [])));
  const rows: readonly (readonly [string, (total: ArmTotals) => string])[] = [
    ["All cases", ({ passed, trials }) => `${formatNumber(passed)}/${formatNumber(trials)}`],
    ["Tokens", ({ inputTokens, outputTokens }) => formatNumber(inputTokens + outputTokens)],
    ["Cost", ({ dollars }) => (dollars === undefined ? "–" : formatCost(dollars))],
    ["Time", ({ ms }) => formatDuration(ms)],
  ];
  return (
    <table class="data cases">
      <thead>
        <tr>
          <th scope="col">Case</th>
          {arms.map((arm) => (
            <th key={arm} scope="col" class="number">
              <Line text={arm} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {cases.map(({ name, arms: trials, failures }) => (
          <tr key={name}>
            <th scope="row">
              <Line text={name} />
              {failures[0] !== undefined && (
                <span class="description">
                  <Line text={failures[0]} />
                </span>
              )}
            </th>
            {arms.map((arm) => (
              <td key={arm} class="number figure">
                {trials[arm] ? `${formatNumber(trials[arm].passed)}/${formatNumber(trials[arm].trials)}` : "–"}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
      <tfoot>
        {rows.map(([title, format]) => (
          <tr key={title}>
            <th scope="row">{title}</th>
            {totals.map((total, index) => (
              <td key={arms[index]} class="number figure">
                {format(total)}
              </td>
            ))}
          </tr>
        ))}
      </tfoot>
    </table>
  );
}

function sumTotals(all: readonly ArmTotals[]): ArmTotals {
  const sum = (of: (one: ArmTotals) => number) => all.reduce((total, one) => total + of(one), 0);
  const hasPrice = all.some(({ dollars }) => dollars !== undefined);
  return {
    ...{ passed: sum(({ passed }) => passed), trials: sum(({ trials }) => trials), ms: sum(({ ms }) => ms) },
    ...{ inputTokens: sum((one) => one.inputTokens), outputTokens: sum((one) => one.outputTokens) },
    ...(hasPrice ? { dollars: sum(({ dollars = 0 }) => dollars) } : {}),
  };
}

/** A rate with its 95 % interval, as a dot on a line. */
function RateView({ rate: { name, rate, low, high, successes, total } }: { rate: NamedRate }) {
  if (rate === null) return null;
  return (
    <div class="rate">
      <dt>
        <Line text={name} />{" "}
        <span class="figure">
          {formatNumber(successes)}/{formatNumber(total)}
        </span>
      </dt>
      <dd>
        <span class="figure strong">{formatPercent(rate)}</span>
        <span class="interval" aria-hidden="true">
          <i style={{ left: `${low * 100}%`, right: `${(1 - high) * 100}%` }} />
          <b style={{ left: `${rate * 100}%` }} />
        </span>
        <span class="soft figure">
          {formatPercent(low)} to {formatPercent(high)}
        </span>
      </dd>
    </div>
  );
}
