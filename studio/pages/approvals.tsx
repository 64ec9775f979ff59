import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatRunId } from "../../src/cli/run-format.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import type { RunSummary } from "../../src/store/run-rules.ts";
import { diffLines } from "../../src/util/diff.ts";
import { formatCount } from "../../src/util/text.ts";
import { escapeInvisible } from "../../src/util/untrusted-text.ts";
import { type PageProblem, RequestError, request, useReport } from "../api.ts";
import {
  Block,
  Command,
  Empty,
  Facts,
  Line,
  Loaded,
  Mark,
  Page,
  Path,
  ProblemView,
  Section,
  Time,
} from "../components.tsx";
import type { ApprovalsReport, HeldReport, StudioReport } from "../reports.ts";
import { Link } from "../router.tsx";
import { formatInput } from "./run.tsx";

export function ApprovalsPage({ studio }: { studio: StudioReport }) {
  const report = useReport<ApprovalsReport>("/api/approvals", ["approvals"]);
  return (
    <Page title="Approvals" summary="What runs ask for before they change something.">
      <Loaded report={report}>{(approvals) => <Waiting approvals={approvals} studio={studio} />}</Loaded>
    </Page>
  );
}

function Waiting({ approvals, studio }: { approvals: ApprovalsReport; studio: StudioReport }) {
  const { waiting, held, always, digests, problem } = approvals;
  return (
    <>
      {problem !== undefined && <ProblemView problem={{ code: "approvals-unreadable", message: problem, fix: "" }} />}
      {waiting.length + held.length === 0 && (
        <Empty title="Nothing waits for you." command="skillet approve">
          A run that wants to change something waits here, also one that was started in a terminal.
        </Empty>
      )}
      <ul class="requests">
        {waiting.map((run) => (
          <li key={run.id}>
            <RequestView run={run} digest={digests[run.id] ?? ""} studio={studio} />
          </li>
        ))}
        {held.map((one) => (
          <li key={one.id}>
            <HeldView held={one} digest={digests[one.id] ?? ""} studio={studio} />
          </li>
        ))}
      </ul>
      {always.length > 0 && (
        <Section title="Always approved" note={<Command text="skillet approve --forget SKILL" />}>
          <Facts
            rows={always.map(({ skill, allowed }) => [skill, <Line key={skill} text={allowed.join(", ")} />] as const)}
          />
        </Section>
      )}
    </>
  );
}

/** The request of one run, on the page of the run. */
export function RunApproval({ id, studio }: { id: string; studio: StudioReport }) {
  const { value } = useReport<ApprovalsReport>("/api/approvals", ["approvals"]);
  const run = value?.waiting.find((one) => one.id === id);
  if (!run) return null;
  return <RequestView run={run} digest={value?.digests[id] ?? ""} studio={studio} />;
}

const SCOPES: Readonly<Record<ApprovalRequest["on"], string>> = {
  workspace: "wants to change files in the workspace",
  outside: "wants to change something outside the workspace",
  other: "has a side effect that the skill did not declare",
};

interface RequestProps {
  run: RunSummary;
  digest: string;
  studio: StudioReport;
}

type Decision = "once" | "run" | "deny";

function RequestView({ run, digest, studio }: RequestProps) {
  const { approvalRequest: asked, id, owner } = run;
  const [reason, setReason] = useState("");
  const { problem, isSent, send } = useAnswer(`/api/approvals/${encodeURIComponent(id)}`, digest);
  const reasonField = useRef<HTMLInputElement>(null);
  if (!asked) return null;
  const { skill, source, location, tool, what, where, amount, from, reason: because, isOnce, on, input } = asked;
  const decide = (decision: Decision) => send(decision === "deny" ? { decision, reason } : { decision });
  // `n` first goes to the reason; Enter there denies.
  const handleKey = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "y") void decide("once");
    else if (event.key === "r" && !isOnce) void decide("run");
    else if (event.key === "n") reasonField.current?.focus();
    else return;
    event.preventDefault();
  };
  const isForRun = on === "workspace" && !isOnce;
  return (
    <Card isReadOnly={studio.isReadOnly || isSent} label={`${tool}: ${what}`} onKey={handleKey}>
      <p class="request-title">
        <Mark kind="warn" />{" "}
        <span class="name">
          <Line text={tool} />
        </span>{" "}
        {SCOPES[on]}
      </p>
      <Facts
        rows={[
          ["What", <Line key="what" text={what} />],
          ["From", from && <Line text={from.join("; ")} />],
          ["Where", where && <Line text={where} />],
          ["How much", amount],
          ["Undo", formatUndo(asked)],
          [
            "Asked by",
            <span key="who">
              <Line text={skill || source || "the conversation"} />{" "}
              {location !== "" && (
                <span class="soft">
                  <Path path={location} />
                </span>
              )}
            </span>,
          ],
          ["Because", on === "other" && !from && because],
          [
            "Run",
            <span key="run">
              <Link to={`/runs/${encodeURIComponent(id)}`}>{formatRunId(id)}</Link> <Time at={run.changedAt} />
              {owner ? `, ${owner.label} asks now` : ", no process works on it: it is resumed here"}
            </span>,
          ],
        ]}
      />
      <InputView input={input} />
      {problem && <ProblemView problem={problem} />}
      {isSent ? (
        <p class="soft" role="status">
          Answered.
        </p>
      ) : studio.isReadOnly ? (
        <Command text={`skillet approve ${formatRunId(id)}`} />
      ) : (
        <div class="answers">
          <button type="button" class="primary" onClick={() => decide("once")}>
            {isForRun ? "Approve for this run" : "Approve once"}
            <kbd>y</kbd>
          </button>
          {!isOnce && !isForRun && (
            <button type="button" onClick={() => decide("run")}>
              Approve for this run
              <kbd>r</kbd>
            </button>
          )}
          <form
            class="deny"
            onSubmit={(event) => {
              event.preventDefault();
              void decide("deny");
            }}
          >
            <input
              ref={reasonField}
              value={reason}
              maxLength={500}
              aria-label="Reason for the model"
              placeholder="Reason for the model"
              onInput={(event) => setReason(event.currentTarget.value)}
            />
            <button type="submit">
              Deny<kbd>n</kbd>
            </button>
          </form>
        </div>
      )}
    </Card>
  );
}

function formatUndo({ isReversible, on }: ApprovalRequest): string {
  if (isReversible === undefined) return on === "workspace" ? "only by hand" : "unknown";
  return isReversible ? "possible" : "not possible";
}

interface CardProps {
  label: string;
  isReadOnly: boolean;
  onKey(event: KeyboardEvent): void;
  children: ComponentChildren;
}

/** A request that can have the focus, so that its keys work. */
function Card({ label, isReadOnly, onKey, children }: CardProps) {
  return (
    <article class="request" aria-label={label} tabIndex={0} data-entry onKeyDown={isReadOnly ? undefined : onKey}>
      {children}
    </article>
  );
}

/** The complete input: as a diff for a change of a file, otherwise as it is. */
function InputView({ input }: { input: unknown }) {
  const { path, content, old, new: fresh, diff } = Object(input) as Record<string, unknown>;
  const isEdit = typeof old === "string" && typeof fresh === "string";
  const isWrite = typeof path === "string" && typeof content === "string";
  if (isEdit || isWrite) {
    const lines = isEdit
      ? diffLines(old, fresh)
      : String(content)
          .split("\n")
          .map((line) => `+${line}`);
    const others = Object.fromEntries(
      Object.entries(Object(input)).filter(([key]) => !(isEdit ? ["old", "new"] : ["content"]).includes(key)),
    );
    const { path: file, ...rest } = others;
    return (
      <>
        <p class="diff-path name">
          <Line text={String(file ?? "")} />
        </p>
        {Object.keys(rest).length > 0 && <Block text={formatInput(rest)} />}
        <Diff lines={lines} label={isEdit ? "The change" : "The complete new content"} />
      </>
    );
  }
  if (typeof diff === "string") return <Diff lines={diff.split("\n")} label="The change" />;
  return <Block text={formatInput(input)} />;
}

const LINE_CLASSES: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "hunk" };

function Diff({ lines, label }: { lines: readonly string[]; label: string }) {
  return (
    <section class="diff" aria-label={label} tabIndex={0}>
      {lines.map((line, index) => (
        <div key={index} class={LINE_CLASSES[line[0] ?? ""]}>
          {escapeInvisible(line).text || " "}
        </div>
      ))}
    </section>
  );
}

function HeldView({ held, digest, studio }: { held: HeldReport; digest: string; studio: StudioReport }) {
  const { id, workspace, skill, at, changes } = held;
  const { problem, isSent, send } = useAnswer(`/api/held/${encodeURIComponent(id)}`, digest);
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === "y") void send({ decision: "apply" });
    else return;
    event.preventDefault();
  };
  return (
    <Card isReadOnly={studio.isReadOnly || isSent} label={`Held changes ${id}`} onKey={handleKey}>
      <p class="request-title">
        <Mark kind="warn" /> {formatCount(changes.length, "change")} of sensitive files, held back
      </p>
      <Facts
        rows={[
          ["Where", <Path key="where" path={workspace} />],
          ["Skill", skill && <Line text={skill} />],
          ["When", <Time key="at" at={at} />],
        ]}
      />
      {changes.map(({ path, change, diff }) => (
        <section key={path} aria-label={path}>
          <h3>
            <Line text={path} /> <span class="note">{change}</span>
          </h3>
          <Diff lines={diff.split("\n")} label={`Change of ${path}`} />
        </section>
      ))}
      {problem && <ProblemView problem={problem} />}
      {isSent ? (
        <p class="soft" role="status">
          Answered.
        </p>
      ) : studio.isReadOnly ? (
        <Command text={`skillet approve ${id}`} />
      ) : (
        <div class="answers">
          <button type="button" class="primary" onClick={() => send({ decision: "apply" })}>
            Apply<kbd>y</kbd>
          </button>
          <button type="button" onClick={() => send({ decision: "remove" })}>
            Remove
          </button>
        </div>
      )}
    </Card>
  );
}

/** Sends one answer: a second press before the list is read again does nothing. */
function useAnswer(path: string, digest: string) {
  const [problem, setProblem] = useState<PageProblem>();
  const [sent, setSent] = useState("");
  const isBusy = useRef(false);
  useEffect(() => setSent(""), [digest]);
  const send = async (body: object) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setProblem(undefined);
    try {
      await request(path, { ...body, digest });
      setSent(digest);
    } catch (error) {
      if (error instanceof RequestError) setProblem(error.problem);
    }
    isBusy.current = false;
  };
  return { problem, isSent: sent === digest && sent !== "", send };
}
