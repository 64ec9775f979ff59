import { useEffect, useState } from "preact/hooks";
import { formatCost, formatDuration } from "../../src/cli/run-format.ts";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { type PageProblem, RequestError, request, useReport } from "../api.ts";
import { ChartView } from "../chart-view.tsx";
import {
  Command,
  Empty,
  Facts,
  Fix,
  Line,
  Loaded,
  Loading,
  Mark,
  Page,
  Path,
  ProblemView,
  Section,
  Time,
} from "../components.tsx";
import type { DoctorReport, SandboxReport, StatsReport } from "../reports.ts";
import { Link } from "../router.tsx";
import { DiagnosticView } from "./skills.tsx";

export function HealthPage() {
  const stats = useReport<StatsReport>("/api/stats", ["statistics"]);
  const doctor = useRequest<DoctorReport>("/api/doctor", true);
  return (
    <Page
      title="Health"
      summary={
        stats.value &&
        `${formatCount(stats.value.total.runs, "run")}, ${formatNumber(stats.value.total.inputTokens + stats.value.total.outputTokens)} tokens${stats.value.total.cost === undefined ? "" : `, ${formatCost(stats.value.total.cost)}`} so far`
      }
      actions={
        <button type="button" disabled={doctor.isBusy} onClick={doctor.send}>
          Check again
        </button>
      }
    >
      <Loaded report={stats}>{(value) => <Statistics stats={value} />}</Loaded>
      {doctor.problem && <ProblemView problem={doctor.problem} />}
      {doctor.value ? <Doctor report={doctor.value} /> : doctor.isBusy && <Loading text="Checking this machine…" />}
      <SandboxTest />
    </Page>
  );
}

/** Sends a POST, at once or when it is asked for: what starts processes is no GET. */
function useRequest<T>(path: string, isImmediate: boolean) {
  const [value, setValue] = useState<T>();
  const [problem, setProblem] = useState<PageProblem>();
  const [isBusy, setBusy] = useState(isImmediate);
  const send = () => {
    setBusy(true);
    setProblem(undefined);
    request<T>(path, {})
      .then(setValue, (error) => {
        if (error instanceof RequestError) setProblem(error.problem);
      })
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    if (isImmediate) send();
  }, []);
  return { value, problem, isBusy, send };
}

/** The latest days. */
const MAX_DAYS = 60;

function Statistics({ stats }: { stats: StatsReport }) {
  const days = (stats.days ?? []).slice(-MAX_DAYS);
  if (days.length === 0)
    return (
      <Empty title="No skill has run yet." command="skillet run host-report">
        Runs, durations and cost of each day appear here.
      </Empty>
    );
  const labels = days.map(({ day }) => day.slice(5));
  const seconds = (ms: number | undefined) => (ms === undefined ? null : ms / 1000);
  const hasCost = days.some(({ cost }) => cost !== undefined);
  return (
    <div class="charts">
      <ChartView
        title="Runs per day"
        labels={labels}
        format={formatNumber}
        isWhole
        series={[
          { title: "all", kind: "bars", color: "--line-strong", values: days.map(({ runs }) => runs) },
          { title: "done", kind: "bars", color: "--good", values: days.map(({ succeeded }) => succeeded) },
        ]}
      />
      <ChartView
        title="Duration in seconds"
        labels={labels}
        format={(value) => `${Number(value.toPrecision(3))} s`}
        series={[
          { title: "median", kind: "line", color: "--ink", values: days.map(({ p50Ms }) => seconds(p50Ms)) },
          {
            title: "95th percentile",
            kind: "line",
            color: "--accent",
            values: days.map(({ p95Ms }) => seconds(p95Ms)),
          },
        ]}
      />
      {hasCost && (
        <ChartView
          title="Cost per day"
          labels={labels}
          format={(value) => `$${Number(value.toPrecision(3))}`}
          series={[{ title: "dollars", kind: "bars", color: "--accent", values: days.map(({ cost }) => cost ?? null) }]}
        />
      )}
      <SkillUse stats={stats} />
    </div>
  );
}

/** The skills that were used most. */
const MAX_USED = 8;

function SkillUse({ stats }: { stats: StatsReport }) {
  const { skills } = stats;
  return (
    <table class="data">
      <caption>Most used skills</caption>
      <thead>
        <tr>
          <th scope="col">Skill</th>
          <th scope="col" class="number">
            Runs
          </th>
          <th scope="col" class="number">
            Median
          </th>
          <th scope="col" class="number wide">
            95th percentile
          </th>
          <th scope="col" class="when">
            Last use
          </th>
        </tr>
      </thead>
      <tbody>
        {skills.slice(0, MAX_USED).map(({ name, runs, p50Ms, p95Ms, lastUseAt }) => (
          <tr key={name}>
            <th scope="row">
              <Link to={`/skills/${encodeURIComponent(name)}`} class="name">
                <Line text={name} />
              </Link>
            </th>
            <td class="number figure">{formatNumber(runs)}</td>
            <td class="number figure">{p50Ms === undefined ? "–" : formatDuration(p50Ms)}</td>
            <td class="number figure wide">{p95Ms === undefined ? "–" : formatDuration(p95Ms)}</td>
            <td class="when">{lastUseAt ? <Time at={lastUseAt} /> : "never"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Doctor({ report }: { report: DoctorReport }) {
  const { skillet, node, platform, home, workspace, folders, clients, code, models, configuration, diagnostics } =
    report;
  const found = folders.filter(({ exists, sameAs }) => exists || sameAs !== undefined);
  const missing = folders.filter(
    ({ exists, sameAs, client }) => !exists && sameAs === undefined && client === undefined,
  );
  const isDefault = models.find((model) => model.isDefault);
  return (
    <>
      <div class="columns">
        <div>
          <Section title="Machine">
            <Facts
              rows={[
                ["skillet", skillet],
                ["Node", `${node} on ${platform}`],
                ["Workspace", <Path key="workspace" path={workspace} />],
                ["Home", <Path key="home" path={home} />],
                [
                  "Configuration",
                  configuration
                    .filter(({ exists }) => exists)
                    .map(({ file }) => file)
                    .join(", ") || "defaults",
                ],
                ["Model", isDefault && <ModelLabel model={isDefault} />],
                [
                  "Sandbox",
                  code.missing === null ? (
                    `${code.level}, by ${code.engine}`
                  ) : (
                    <SandboxMissing key="missing" engine={code.missing} />
                  ),
                ],
                [
                  "Trust",
                  code.waitingForTrust > 0 && (
                    <>
                      the code of {formatCount(code.waitingForTrust, "skill")} waits for your trust{" "}
                      {code.trustCommand !== null && <Command text={code.trustCommand} />}
                    </>
                  ),
                ],
              ]}
            />
          </Section>
          <Section title="Clients" note="skills that each finds itself">
            <Facts
              rows={clients
                .filter(({ skills }) => skills > 0)
                .map(({ title, skills }) => [title, formatCount(skills, "skill")])}
            />
          </Section>
        </div>
        <div>
          <Section title="Folders" note="later ones win">
            <Facts
              rows={[
                ...found.map(
                  ({ name, skills, sameAs }) =>
                    [name, sameAs !== undefined ? `the same as ${sameAs}` : formatCount(skills, "skill")] as const,
                ),
                ["Not there", missing.map(({ name }) => name).join(", ")],
              ]}
            />
          </Section>
        </div>
      </div>
      <Section title="Findings" note={diagnostics.length}>
        {diagnostics.length === 0 ? (
          <p class="soft">
            <Mark kind="good" /> No problems were found.
          </p>
        ) : (
          <ul class="findings">
            {diagnostics.map((one, index) => (
              <DiagnosticView key={`${one.file}:${one.code}:${index}`} diagnostic={one} />
            ))}
          </ul>
        )}
      </Section>
    </>
  );
}

function ModelLabel({ model }: { model: DoctorReport["models"][number] }) {
  const { problem } = model;
  return (
    <>
      <Mark kind={problem ? "bad" : "good"} /> {model.model}
      {problem && (
        <>
          : <Line text={problem.message} /> <Fix fix={problem.fix} commands={problem.commands} />
        </>
      )}
    </>
  );
}

function SandboxMissing({ engine }: { engine: string }) {
  return (
    <>
      <Mark kind="bad" /> {engine} is not installed, so no code runs <Command text="skillet doctor --fix" />
    </>
  );
}

function SandboxTest() {
  const { value, problem, isBusy, send } = useRequest<SandboxReport>("/api/sandbox", false);
  return (
    <Section title="Sandbox" note="tries every guarantee on this machine">
      {!isBusy && (
        <button type="button" onClick={send}>
          {value || problem ? "Test again" : "Test the sandbox"}
        </button>
      )}
      {isBusy && <Loading text="Testing the sandbox…" />}
      {problem && <ProblemView problem={problem} />}
      {value && (
        <>
          <p class="answer">
            <strong>
              {formatNumber(value.held)} of {formatCount(value.of, "guarantee")} hold
            </strong>{" "}
            <span class="soft">
              {value.level}, by {value.by} {value.version}
            </span>
          </p>
          <ul class="probes">
            {value.probes.map(({ id, name, holds, detail }) => (
              <li key={`${id}:${name}`}>
                <Mark kind={holds === undefined ? "idle" : holds ? "good" : "bad"} /> {name}
                {holds !== true && detail !== "" && <span class="description">{detail}</span>}
              </li>
            ))}
          </ul>
        </>
      )}
    </Section>
  );
}
