import { formatCost, formatDuration, formatRunState, formatRunSubject } from "../../src/cli/run-format.ts";
import type { RunSummary } from "../../src/store/run-rules.ts";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { useReport } from "../api.ts";
import {
  Cell,
  Empty,
  Line,
  Loaded,
  Mark,
  type MarkKind,
  Page,
  Rows,
  SearchField,
  Select,
  Time,
} from "../components.tsx";
import type { RunsReport } from "../reports.ts";
import { Link, useParameter } from "../router.tsx";

export function RunsPage() {
  const report = useReport<RunsReport>("/api/runs", ["runs"]);
  return (
    <Page title="Runs" summary={report.value && formatCount(report.value.total, "run")}>
      <Loaded report={report}>{({ runs }) => <RunTable runs={runs} />}</Loaded>
    </Page>
  );
}

function RunTable({ runs }: { runs: readonly RunSummary[] }) {
  const [query, setQuery] = useParameter("q");
  const [state, setState] = useParameter("state");
  const [skill, setSkill] = useParameter("skill");
  if (runs.length === 0)
    return (
      <Empty title="There are no runs yet." command="skillet run host-report">
        Each run of a skill and each answer of a chat is recorded, with its steps and its cost.
      </Empty>
    );
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = runs.filter(
    (run) =>
      (state === "" || formatRunState(run) === state) &&
      (skill === "" || formatRunSubject(run) === skill) &&
      words.every((word) => `${formatRunSubject(run)} ${run.task} ${run.id}`.toLowerCase().includes(word)),
  );
  const choices = (of: (run: RunSummary) => string) =>
    [...new Set(runs.map(of))].sort().map((one) => [one, one] as const);
  return (
    <>
      <div class="filters">
        <SearchField label="Search tasks" value={query} onInput={setQuery} />
        <Select label="State" value={state} options={choices(formatRunState)} onChange={setState} />
        <Select label="Skill" value={skill} options={choices(formatRunSubject)} onChange={setSkill} />
      </div>
      <p class={`hits${shown.length === runs.length ? " hidden" : ""}`} role="status">
        {shown.length === runs.length
          ? formatCount(runs.length, "run")
          : `${formatNumber(shown.length)} of ${formatCount(runs.length, "run")}`}
      </p>
      {shown.length === 0 ? (
        <Empty title="No run matches.">Remove a word or a filter.</Empty>
      ) : (
        <Rows
          class="runs"
          label="Runs"
          count={shown.length}
          rowHeight={ROW_HEIGHT}
          keyOf={(index) => shown[index]?.id ?? ""}
          head={COLUMNS.map(([title, name]) => (
            <div key={title} class={name} role="columnheader">
              {title}
            </div>
          ))}
          render={(index) => {
            const run = shown[index];
            return run && <RunCells run={run} />;
          }}
        />
      )}
    </>
  );
}

const ROW_HEIGHT = 52;

const COLUMNS = [
  ["State", "state"],
  ["Run", "what"],
  ["Duration", "number wide"],
  ["Tokens", "number wide"],
  ["Cost", "number wide"],
  ["Started", "when"],
] as const;

function RunCells({ run }: { run: RunSummary }) {
  const { id, task, at, end, approvalRequest, state } = run;
  const isAsking = approvalRequest !== undefined && (state === "waiting" || state === "running");
  return (
    <>
      <Cell class="state">
        <RunState run={run} />
      </Cell>
      <Cell class="what">
        <Link to={`/runs/${encodeURIComponent(id)}`} class="name">
          <Line text={formatRunSubject(run)} />
        </Link>
        <span class="description">
          <Line text={isAsking ? `asks: ${approvalRequest.what}` : task} />
        </span>
      </Cell>
      <Cell class="number wide">{end && <span class="figure">{formatDuration(end.ms)}</span>}</Cell>
      <Cell class="number wide">
        {end && <span class="figure">{formatNumber(end.usage.inputTokens + end.usage.outputTokens)}</span>}
      </Cell>
      <Cell class="number wide">{end?.cost !== undefined && <span class="figure">{formatCost(end.cost)}</span>}</Cell>
      <Cell class="when">
        <Time at={at} />
      </Cell>
    </>
  );
}

const STATE_MARKS: Readonly<Record<RunSummary["state"], MarkKind>> = {
  queued: "idle",
  running: "busy",
  stuck: "bad",
  interrupted: "warn",
  waiting: "warn",
  answered: "busy",
  ended: "good",
  cancelled: "idle",
  corrupt: "bad",
};

export function RunState({ run }: { run: RunSummary }) {
  const isFailed = run.state === "ended" && run.end?.isError === true;
  return (
    <span class="nowrap">
      <Mark kind={isFailed ? "bad" : STATE_MARKS[run.state]} /> {formatRunState(run)}
    </span>
  );
}
