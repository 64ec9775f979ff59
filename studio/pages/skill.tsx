import { useEffect, useState } from "preact/hooks";
import { formatCost, formatDuration } from "../../src/cli/run-format.ts";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { type PageProblem, RequestError, request, useReport } from "../api.ts";
import {
  Block,
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
  Tabs,
  Time,
} from "../components.tsx";
import type { ClientsReport, SkillFileReport, SkillReport, StatsReport } from "../reports.ts";
import { Link } from "../router.tsx";
import { DiagnosticView, TrustLabel } from "./skills.tsx";

export function SkillPage({ name }: { name: string }) {
  const report = useReport<SkillReport>(`/api/skills/${encodeURIComponent(name)}`, ["skills"]);
  return (
    <Page
      title={name}
      isName
      summary={report.value && <Line text={report.value.description} />}
      parent={<Link to="/skills">Skills</Link>}
    >
      <Loaded report={report}>{(skill) => <SkillView skill={skill} />}</Loaded>
    </Page>
  );
}

function SkillView({ skill }: { skill: SkillReport }) {
  const { denials, diagnostics, copies, files, exports } = skill;
  return (
    <>
      {denials.map((denial) => (
        <div key={denial.code} class="notice">
          <p>
            <Mark kind="warn" /> <Line text={denial.message} /> <code class="code">{denial.code}</code>
          </p>
          <Fix fix={denial.fix} commands={denial.commands} />
        </div>
      ))}
      <div class="columns">
        <div>
          <Instructions skill={skill} />
          {diagnostics.length > 0 && (
            <Section title="Findings" note={diagnostics.length}>
              <ul class="findings">
                {diagnostics.map((one, index) => (
                  <DiagnosticView key={`${one.code}:${index}`} diagnostic={one} />
                ))}
              </ul>
            </Section>
          )}
          {files.length > 0 && <Files skill={skill} />}
        </div>
        <div>
          <Origin skill={skill} />
          <Triggers skill={skill} />
          {copies.length > 1 && (
            <Section title="Precedence" note="the first is used">
              <ol class="plain">
                {copies.map(({ name, source, file }, index) => (
                  <li key={`${source}:${file}`}>
                    <Mark kind={index === 0 ? "good" : "idle"} />{" "}
                    <Link to={`/skills/${encodeURIComponent(`${name}@${source}`)}`}>
                      <Line text={`${name}@${source}`} />
                    </Link>
                    {file !== undefined && (
                      <span class="place">
                        <Path path={file} />
                      </span>
                    )}
                  </li>
                ))}
              </ol>
            </Section>
          )}
          <Use name={skill.name} />
          <Clients name={skill.name} />
          {exports.length > 0 && (
            <Section title="Exported copies" note={exports.length}>
              <ul class="plain">
                {exports.map(({ client, folder, state }) => (
                  <li key={folder}>
                    <Mark kind={state === "up-to-date" ? "good" : "warn"} /> {client}: {state}
                    <span class="place">
                      <Path path={folder} />
                    </span>
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </div>
      </div>
    </>
  );
}

type InstructionsView = "rendered" | "source";

function Instructions({ skill }: { skill: SkillReport }) {
  const [view, setView] = useState<InstructionsView>("rendered");
  const { body = "" } = skill as { body?: string };
  return (
    <section aria-label="Instructions">
      <Tabs
        label="Instructions"
        selected={view}
        onSelect={(id: InstructionsView) => setView(id)}
        tabs={[
          { id: "rendered", title: "Instructions" },
          { id: "source", title: "As text" },
        ]}
      />
      {body.trim() === "" ? (
        <Empty title="This skill has no instructions." command={`skillet check ${skill.name}`} />
      ) : view === "source" || body.length > MAX_RENDERED ? (
        <Block text={body} />
      ) : (
        <Markdown text={body} />
      )}
    </section>
  );
}

/** Larger texts are shown as text: rendering them would block the page. */
const MAX_RENDERED = 200_000;

function Markdown({ text }: { text: string }) {
  const [html, setHtml] = useState<string>();
  useEffect(() => {
    let isCurrent = true;
    void import("../markdown.ts").then(({ renderMarkdown }) => {
      if (isCurrent) setHtml(renderMarkdown(text));
    });
    return () => {
      isCurrent = false;
    };
  }, [text]);
  if (html === undefined) return <Loading />;
  // The value is a TrustedHTML of the sanitizer: the policy of the page refuses any other.
  return <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />;
}

function Origin({ skill }: { skill: SkillReport }) {
  const { scope, source, file, trust, tokens, version, tags, parent, remote, locations, capabilities, packages } =
    skill;
  const { added, signature } = skill as {
    added?: { source: string; state: string; isEdited: boolean };
    signature?: { state: string; signer?: string };
  };
  return (
    <Section title="Origin">
      <Facts
        rows={[
          ["Source", source === scope ? scope : `${source} (${scope})`],
          ["File", file && <Path path={file} />],
          [
            "Also at",
            locations.length > 1 &&
              locations.slice(1).map((one) => <Path key={one.file} path={`${one.file ?? one.source} `} />),
          ],
          ["Inside", parent && <Line text={parent} />],
          ["Server", remote?.server],
          ["Version", version],
          ["Tags", tags.length > 0 && <Line text={tags.join(", ")} />],
          ["Trust", <TrustLabel key="trust" trust={trust} />],
          ["Added from", added && <Line text={added.source} />],
          ["Lock file", added && (LOCK_LABELS[added.state] ?? added.state)],
          ["Signature", signature && [signature.state, signature.signer].filter(Boolean).join(", ")],
          ["In a list", `~${formatCount(tokens.listed, "token")}`],
          ["In full", `~${formatCount(tokens.full, "token")}`],
          [
            "Capabilities",
            capabilities.length > 0 &&
              capabilities.map(({ id, isGranted }) => `${id} (${isGranted ? "granted" : "not granted"})`).join(", "),
          ],
          ["Packages", [...packages.system, ...packages.python, ...packages.npm].join(", ")],
        ]}
      />
      <p class="next">
        <Command text={`skillet show ${skill.name}`} />
      </p>
    </Section>
  );
}

const LOCK_LABELS: Readonly<Record<string, string>> = {
  unchanged: "as locked",
  changed: "changed since it was added",
};

/** The frontmatter keys that make a skill fire. */
const TRIGGER_KEYS = ["keywords", "verbs", "patterns", "paths", "examples", "negative"] as const;

function Triggers({ skill }: { skill: SkillReport }) {
  const { frontmatter } = skill as { frontmatter: Record<string, unknown> };
  const declared = { ...Object(frontmatter["triggers"]), paths: frontmatter["paths"] } as Record<string, unknown>;
  const rows = TRIGGER_KEYS.flatMap((key) => {
    const values = [declared[key]].flat().filter((value): value is string => typeof value === "string");
    return values.length === 0 ? [] : [[key, <Line key={key} text={values.join(", ")} />] as const];
  });
  return (
    <Section title="Triggers">
      {rows.length > 0 ? (
        <Facts rows={rows} />
      ) : (
        <p class="soft">None: its description decides when a model uses it.</p>
      )}
      <p class="next">
        <Link to={`/explain?skill=${encodeURIComponent(skill.name)}`}>Why does it fire, or not?</Link>
      </p>
    </Section>
  );
}

function Use({ name }: { name: string }) {
  const { value } = useReport<StatsReport>("/api/stats", ["statistics"]);
  const row = value?.skills.find((one) => one.name === name);
  if (!value) return null;
  return (
    <Section title="Use">
      {row ? (
        <Facts
          rows={[
            ["Runs", formatNumber(row.runs)],
            ["Loads", formatNumber(row.loads)],
            ["Refused", row.refused > 0 && formatNumber(row.refused)],
            ["Median", row.p50Ms !== undefined && formatDuration(row.p50Ms)],
            ["95th percentile", row.p95Ms !== undefined && formatDuration(row.p95Ms)],
            ["Tokens", formatNumber(row.inputTokens + row.outputTokens)],
            ["Cost", row.cost !== undefined && formatCost(row.cost)],
            ["Last use", row.lastUseAt && <Time at={row.lastUseAt} />],
          ]}
        />
      ) : (
        <p class="soft">
          Not used yet. <Command text={`skillet run ${name}`} />
        </p>
      )}
    </Section>
  );
}

function Clients({ name }: { name: string }) {
  const { value } = useReport<ClientsReport>("/api/clients", ["skills"]);
  const finding = value?.clients.filter(({ skills }) => skills.some((skill) => skill.name === name)) ?? [];
  if (finding.length === 0) return null;
  return (
    <Section title="Clients" note="that find it in their own folders">
      <ul class="plain">
        {finding.map(({ id, title }) => (
          <li key={id}>{title}</li>
        ))}
      </ul>
    </Section>
  );
}

function Files({ skill }: { skill: SkillReport }) {
  const [open, setOpen] = useState<number>();
  return (
    <Section title="Files" note={skill.files.length}>
      <ul class="files">
        {skill.files.map(({ path, bytes, isExecutable }, index) => (
          <li key={path}>
            <button
              type="button"
              aria-expanded={open === index}
              onClick={() => setOpen(open === index ? undefined : index)}
            >
              <span class="name">
                <Line text={path} />
              </span>
              <span class="figure soft">
                {isExecutable && "executable, "}
                {formatCount(bytes, "byte")}
              </span>
            </button>
            {open === index && <FileView skill={skill} index={index} path={path} />}
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Files are requested by their number; the answer names the path, in case the list has changed. */
function FileView({ skill, index, path }: { skill: SkillReport; index: number; path: string }) {
  const [file, setFile] = useState<SkillFileReport>();
  const [problem, setProblem] = useState<PageProblem>();
  const address = `${skill.name}@${skill.source}`;
  useEffect(() => {
    request<SkillFileReport>(`/api/skills/${encodeURIComponent(address)}/files/${index}`).then(setFile, (error) => {
      if (error instanceof RequestError) setProblem(error.problem);
    });
  }, [address, index]);
  if (problem) return <ProblemView problem={problem} />;
  if (!file) return <Loading />;
  if (file.path !== path) return <Empty title="The files have changed. Close and open this one again." />;
  return <Block text={file.text} />;
}
