import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  formatCost,
  formatDuration,
  formatNextCommand,
  formatRunSubject,
  formatUsage,
} from "../../src/cli/run-format.ts";
import type { TimelineEntry } from "../../src/store/run-timeline.ts";
import { formatCount } from "../../src/util/text.ts";
import { type PageProblem, RequestError, request, useReport } from "../api.ts";
import {
  Block,
  Command,
  Facts,
  Line,
  Loaded,
  Mark,
  type MarkKind,
  Page,
  Path,
  ProblemView,
  Section,
  Time,
} from "../components.tsx";
import type { RunReport, StudioReport } from "../reports.ts";
import { Link } from "../router.tsx";
import { RunApproval } from "./approvals.tsx";
import { RunState } from "./runs.tsx";

export function RunPage({ id, studio }: { id: string; studio: StudioReport }) {
  const report = useReport<RunReport>(`/api/runs/${encodeURIComponent(id)}`, ["runs"], { names: [id] });
  const { summary } = report.value ?? {};
  return (
    <Page
      title={summary ? formatRunSubject(summary) : "Run"}
      isName
      parent={<Link to="/runs">Runs</Link>}
      summary={summary && <Line text={summary.task} />}
      actions={summary && <RunActions report={report.value as RunReport} studio={studio} />}
    >
      <Loaded report={report}>{(run) => <RunView run={run} studio={studio} />}</Loaded>
    </Page>
  );
}

function RunActions({ report: { summary }, studio }: { report: RunReport; studio: StudioReport }) {
  const { id, state } = summary;
  const [problem, setProblem] = useState<PageProblem>();
  const act = async (action: "resume" | "cancel") => {
    setProblem(undefined);
    try {
      await request(`/api/runs/${encodeURIComponent(id)}/${action}`, {});
    } catch (error) {
      if (error instanceof RequestError) setProblem(error.problem);
    }
  };
  const isOpen = state !== "ended" && state !== "cancelled" && state !== "corrupt";
  const canResume = state === "interrupted" || state === "answered";
  return (
    <>
      {!studio.isReadOnly && canResume && (
        <button type="button" class="primary" onClick={() => act("resume")}>
          Resume
        </button>
      )}
      {!studio.isReadOnly && isOpen && (
        <button type="button" onClick={() => act("cancel")}>
          Cancel the run
        </button>
      )}
      {problem && <ProblemView problem={problem} />}
    </>
  );
}

function RunView({ run, studio }: { run: RunReport; studio: StudioReport }) {
  const { summary, timeline, lines, problems } = run;
  const { id, at, workspace, state, approvalRequest, end, owner } = summary;
  const asked = lines.find((line) => line.type === "request");
  const message = asked?.type === "request" ? String(asked.request["message"] ?? "") : "";
  const answered = lines.findLast((line) => line.type === "result");
  const content = answered?.type === "result" ? String(answered.result["content"] ?? "") : "";
  const isAsking = approvalRequest !== undefined && (state === "waiting" || state === "running");
  const next = formatNextCommand(summary);
  return (
    <>
      {isAsking && <RunApproval id={id} studio={studio} />}
      <div class="columns">
        <div>
          {message !== "" && message !== summary.task && (
            <section aria-label="Message">
              <Block text={message} />
            </section>
          )}
          <Section title="Timeline" note={formatCount(timeline.length, "entry", "entries")}>
            <ol class="timeline" aria-live={state === "running" ? "polite" : "off"}>
              {timeline.map((entry, index) => (
                <Entry key={index} entry={entry} start={Date.parse(at)} />
              ))}
              {state === "running" && (
                <li class="now">
                  <Mark kind="busy" /> running{owner ? ` in ${owner.label}` : ""}
                </li>
              )}
            </ol>
          </Section>
          {content !== "" && (
            <Section title="Result">
              <Block text={content} class="tall" />
            </Section>
          )}
          {problems.length > 0 && (
            <Section title="Problems of the journal">
              <ul class="findings">
                {problems.map(({ message: text }) => (
                  <li key={text}>
                    <Mark kind="bad" /> {text}
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </div>
        <div>
          <Section title="Run">
            <Facts
              rows={[
                ["State", <RunState key="state" run={summary} />],
                ["Id", <code key="id">{id}</code>],
                ["Started", <Time key="at" at={at} />],
                ["Workspace", workspace && <Path path={workspace} />],
                ["Model", end?.model],
                ["Duration", end && formatDuration(end.ms)],
                ["Steps", end && formatCount(end.iterations, "iteration")],
                ["Use", end && formatUsage(end.usage, undefined).join(", ")],
                ["Cost", end?.cost !== undefined && formatCost(end.cost)],
                ["Stopped by", end?.stop],
              ]}
            />
            <p class="next">
              <Command text={next ?? `skillet runs show ${id}`} />
            </p>
          </Section>
        </div>
      </div>
    </>
  );
}

function Entry({ entry, start }: { entry: TimelineEntry; start: number }) {
  const passed = Math.max(0, Date.parse(entry.at) - start);
  return (
    <li class={`entry ${entry.type}`} style={{ marginLeft: `${Math.min(entry.depth, MAX_INDENT) * 1.5}rem` }}>
      <span class="clock figure">+{formatDuration(passed)}</span>
      <EntryText entry={entry} />
    </li>
  );
}

const MAX_INDENT = 6;

/** An entry in one line, with its input and output to open. */
function EntryText({ entry }: { entry: TimelineEntry }) {
  if (entry.type === "resumed") return <Head kind="busy">resumed by process {entry.pid}</Head>;
  if (entry.type === "started")
    return (
      <Head kind="busy">
        <strong class="name">
          <Line text={entry.skill === "" ? "chat" : entry.skill} />
        </strong>{" "}
        with {entry.model}
      </Head>
    );
  if (entry.type === "step")
    return (
      <Details
        title={`model call ${entry.step}`}
        note={[formatDuration(entry.ms), ...formatUsage(entry.usage, entry.cost)].join(" · ")}
        kind="idle"
      >
        {entry.text !== undefined && <Block text={entry.text} />}
      </Details>
    );
  if (entry.type === "call") return <Call entry={entry} />;
  if (entry.type === "approval") {
    const { request: asked, decision } = entry;
    const kind: MarkKind = decision === undefined ? "warn" : decision.isApproved ? "good" : "bad";
    const text =
      decision === undefined ? "pending" : decision.isApproved ? `approved ${decision.scope ?? "once"}` : "denied";
    return (
      <Details title={`${asked.tool}: ${asked.what}`} note={text} kind={kind}>
        {decision?.reason !== undefined && (
          <p class="soft">
            <Line text={decision.reason} />
          </p>
        )}
      </Details>
    );
  }
  if (entry.type === "ended")
    return (
      <Head kind={entry.isError ? "bad" : "good"}>
        <span class="name">
          <Line text={entry.skill} />
        </span>{" "}
        {entry.stop}, {formatDuration(entry.ms)}
      </Head>
    );
  if (entry.type === "cancelled") return <Head kind="idle">cancelled</Head>;
  return (
    <Head kind={entry.isFine ? "idle" : "warn"}>
      <Line text={entry.fix ? `${entry.text}: ${entry.fix}` : entry.text} />
    </Head>
  );
}

function Call({ entry }: { entry: Extract<TimelineEntry, { type: "call" }> }) {
  const { tool, input, outcome, output, isAgain } = entry;
  const kind: MarkKind = outcome === undefined ? "busy" : outcome.isError ? "bad" : "good";
  const notes = [
    outcome === undefined ? "not finished" : formatDuration(outcome.ms),
    outcome?.isError && (outcome.code ?? "error"),
    isAgain && "again: it was started before",
  ].filter(Boolean);
  return (
    <Details title={tool} preview={formatPreview(input)} note={notes.join(" · ")} kind={kind}>
      {outcome?.message !== undefined && (
        <p class="soft">
          <Line text={outcome.message} />
        </p>
      )}
      <h3>Input</h3>
      <Block text={formatInput(input)} />
      {output !== undefined && (
        <>
          <h3>Output</h3>
          <Block text={output} />
        </>
      )}
    </Details>
  );
}

/** The values of an input on one line: enough to tell calls apart. */
function formatPreview(input: unknown): string {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [input];
  const text = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" ");
  return text.length > MAX_PREVIEW ? `${text.slice(0, MAX_PREVIEW)}…` : text;
}

const MAX_PREVIEW = 120;

export function formatInput(input: unknown): string {
  return typeof input === "string" ? input : (JSON.stringify(input, null, 2) ?? "");
}

function Head({ kind, children }: { kind: MarkKind; children: ComponentChildren }) {
  return (
    <span class="entry-head">
      <Mark kind={kind} /> {children}
    </span>
  );
}

interface DetailsProps {
  title: string;
  preview?: string;
  note: string;
  kind: MarkKind;
  children: ComponentChildren;
}

function Details({ title, preview = "", note, kind, children }: DetailsProps) {
  const head = (
    <>
      <Mark kind={kind} />{" "}
      <span class="name">
        <Line text={title} />
      </span>{" "}
      {preview !== "" && (
        <span class="preview">
          <Line text={preview} />
        </span>
      )}{" "}
      <span class="soft figure">{note}</span>
    </>
  );
  const isEmpty = Array.isArray(children) ? children.every((one) => !one) : !children;
  if (isEmpty) return <span class="entry-head">{head}</span>;
  return (
    <details>
      <summary class="entry-head" data-entry>
        {head}
      </summary>
      {children}
    </details>
  );
}
