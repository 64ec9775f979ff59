import { formatCost } from "../../src/cli/run-format.ts";
import type { EvalReport, EvalSkillReport, NamedRate } from "../../src/eval/eval-report.ts";
import { formatCount } from "../../src/util/text.ts";
import { useReport } from "../api.ts";
import { ChartView } from "../chart-view.tsx";
import { Command, Empty, Line, Loaded, Mark, Page, Section, Select, Time } from "../components.tsx";
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
  if (reports.length === 0)
    return (
      <Empty title="Nothing was evaluated yet." command="skillet eval">
        Write <code>evals/triggers.json</code> next to a SKILL.md, with queries that should bring it up and some that
        should not. Each evaluation is kept and shown here.
      </Empty>
    );
  const names = [...new Set(reports.flatMap(({ skills }) => skills.map(({ name }) => name)))].sort();
  const levels = [...new Set(reports.map((one) => one.level))];
  const shown = reports.filter(
    (one) => (level === "" || one.level === level) && (skill === "" || findSkill(one, skill)),
  );
  const [latest] = shown;
  return (
    <>
      <div class="filters">
        <Select label="Skill" value={skill} options={names.map((name) => [name, name])} onChange={setSkill} />
        <Select label="Level" value={level} options={levels.map((one) => [one, one])} onChange={setLevel} />
      </div>
      {latest === undefined && <Empty title="No evaluation matches.">Remove a filter.</Empty>}
      {skill !== "" && shown.length > 1 && <History reports={shown} skill={skill} />}
      {latest && <Latest report={latest} skill={skill} />}
      {shown.length > 1 && (
        <Section title="Earlier">
          <table class="data">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Level</th>
                <th scope="col" class="number">
                  Skills
                </th>
                <th scope="col">Model</th>
                <th scope="col" class="number">
                  Cost
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(1).map(({ id, at, level: of, skills, model, spent }) => (
                <tr key={id}>
                  <th scope="row">
                    <Time at={at} />
                  </th>
                  <td>{of}</td>
                  <td class="number figure">{skills.length}</td>
                  <td>{model ?? "–"}</td>
                  <td class="number figure">{spent?.dollars === undefined ? "–" : formatCost(spent.dollars)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Section>
      )}
    </>
  );
}

function findSkill({ skills }: EvalReport, name: string): EvalSkillReport | undefined {
  return skills.find((one) => one.name === name);
}

/** The rates of one skill over time, the earliest first. */
function History({ reports, skill }: { reports: readonly EvalReport[]; skill: string }) {
  const past = reports.toReversed();
  const names = [...new Set(past.flatMap((one) => findSkill(one, skill)?.rates.map(({ name }) => name) ?? []))];
  const colors = ["--ink", "--accent", "--good", "--bad"];
  return (
    <ChartView
      title={`${skill} over time`}
      labels={past.map(({ at }) => at.slice(5, 16).replace("T", " "))}
      format={(value) => `${Math.round(value * 100)} %`}
      series={names.slice(0, colors.length).map((name, index) => ({
        title: name,
        kind: "line",
        color: colors[index] ?? "--ink",
        values: past.map((one) => findSkill(one, skill)?.rates.find((rate) => rate.name === name)?.rate ?? null),
      }))}
    />
  );
}

function Latest({ report, skill }: { report: EvalReport; skill: string }) {
  const { at, level, model, passed, skills } = report;
  const shown = skill === "" ? skills : skills.filter(({ name }) => name === skill);
  return (
    <Section title="Latest" note={<Time at={at} />}>
      <p class="soft">
        {LEVELS[level]}
        {model === undefined ? "" : `, with ${model}`}
        {passed === null ? "" : passed ? ": passed" : ": failed"}
      </p>
      {shown.map((one) => (
        <SkillRates key={one.name} report={one} />
      ))}
      <p class="next">
        <Command text={skill === "" ? "skillet eval --misses" : `skillet eval ${skill} --misses`} />
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

function SkillRates({ report }: { report: EvalSkillReport }) {
  const { name, rates, warnings, misses, comparisons, cases } = report;
  return (
    <article class="eval">
      <h3>
        <Link to={`/skills/${encodeURIComponent(name)}`} class="name">
          <Line text={name} />
        </Link>
      </h3>
      <dl class="rates">
        {rates.map((rate) => (
          <RateView key={rate.name} rate={rate} />
        ))}
      </dl>
      {comparisons.length > 0 && (
        <ul class="plain">
          {comparisons.map(({ arm, baseline }) => (
            <li key={arm}>
              {arm} compared with {baseline}
            </li>
          ))}
        </ul>
      )}
      {cases.length > 0 && (
        <ul class="plain">
          {cases.map((one) => (
            <li key={one.name}>
              <Line text={one.name} />:{" "}
              <span class="figure">
                {Object.entries(one.arms)
                  .map(([arm, { passed, trials }]) => `${arm} ${passed}/${trials}`)
                  .join(", ")}
              </span>
              {one.failures[0] !== undefined && (
                <span class="description">
                  <Line text={one.failures[0]} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
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
                  {takenBy !== undefined && `; first was ${takenBy}`}
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </article>
  );
}

/** A rate with its 95 % interval, as a dot on a line. */
function RateView({ rate: { name, rate, low, high } }: { rate: NamedRate }) {
  if (rate === null) return null;
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  return (
    <div class="rate">
      <dt>{name}</dt>
      <dd>
        <span class="figure strong">{percent(rate)}</span>
        <span class="interval" aria-hidden="true">
          <i style={{ left: `${low * 100}%`, right: `${(1 - high) * 100}%` }} />
          <b style={{ left: `${rate * 100}%` }} />
        </span>
        <span class="soft figure">
          {percent(low)} to {percent(high)}
        </span>
      </dd>
    </div>
  );
}
