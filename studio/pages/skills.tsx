import { useMemo } from "preact/hooks";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { useReport } from "../api.ts";
import {
  Cell,
  Empty,
  Fix,
  Line,
  Loaded,
  Mark,
  type MarkKind,
  Page,
  Path,
  Rows,
  SearchField,
  Select,
  Tabs,
  Time,
  TokenCount,
} from "../components.tsx";
import type {
  ClientsReport,
  ExplainReport,
  ListedSkillRow,
  SkillsReport,
  SkillTokens,
  StatsReport,
  TokensReport,
} from "../reports.ts";
import { Link, useParameter } from "../router.tsx";

type Diagnostic = SkillsReport["diagnostics"][number];

interface SkillRow {
  name: string;
  /** What the detail page opens: the name, or `name@source` for a copy. */
  address: string;
  description: string;
  scope: string;
  source: string;
  trust: string | undefined;
  denial: string | undefined;
  findings: readonly Diagnostic[];
  clients: readonly string[];
  tokens: SkillTokens | undefined;
  lastUseAt: string | undefined;
  copies: number;
}

const VIEWS = ["used", "unavailable", "shadowed", "problems"] as const;
type SkillsView = (typeof VIEWS)[number];

export function SkillsPage() {
  const report = useReport<SkillsReport>("/api/skills", ["skills"]);
  return (
    <Page title="Skills" summary={report.value && <Summary report={report.value} />}>
      <Budget />
      <Loaded report={report}>{(value) => <SkillTable report={value} />}</Loaded>
    </Page>
  );
}

function Summary({ report }: { report: SkillsReport }) {
  const used = report.skills.filter((skill) => !("denial" in skill)).length;
  return (
    <>
      {formatCount(used, "skill")} in use of {formatNumber(report.skills.length)} found
    </>
  );
}

/** How much of the listing budget the list of skills takes, in a model's prompt. */
function Budget() {
  const { value } = useReport<ExplainReport>("/api/explain?query=", ["skills", "statistics"]);
  if (!value) return <div class="budget" aria-hidden="true" />;
  const { prefix, listingBudget, listed } = value;
  const share = Math.min(1, prefix.tokens / Math.max(1, listingBudget));
  const parts = listed
    ? [
        `${formatCount(listed.whole, "description")} whole`,
        listed.shortened > 0 && `${formatNumber(listed.shortened)} shortened`,
        listed.named > 0 && `${formatNumber(listed.named)} by name alone`,
        listed.left > 0 && `${formatNumber(listed.left)} not listed`,
      ].filter(Boolean)
    : ["every skill has triggers: a model gets their number alone"];
  return (
    <div class="budget">
      <div
        class="bar"
        role="meter"
        aria-label="Listing budget used"
        aria-valuemin={0}
        aria-valuemax={listingBudget}
        aria-valuenow={Math.min(prefix.tokens, listingBudget)}
      >
        <span style={{ width: `${share * 100}%` }} class={share > 0.9 ? "full" : ""} />
      </div>
      <p>
        List for a model: <span class="figure">~{formatNumber(prefix.tokens)}</span> of{" "}
        <span class="figure">{formatNumber(listingBudget)}</span> tokens; {parts.join(", ")}
      </p>
    </div>
  );
}

const FINDING_FILTERS = [
  ["some", "with findings"],
  ["error", "with errors"],
  ["none", "without findings"],
] as const;

function SkillTable({ report }: { report: SkillsReport }) {
  const { value: tokens } = useReport<TokensReport>("/api/tokens", ["skills"]);
  const { value: stats } = useReport<StatsReport>("/api/stats", ["statistics"]);
  const { value: clients } = useReport<ClientsReport>("/api/clients", ["skills"]);
  const [query, setQuery] = useParameter("q");
  const [view, setView] = useParameter("view");
  const [scope, setScope] = useParameter("scope");
  const [source, setSource] = useParameter("source");
  const [client, setClient] = useParameter("client");
  const [trust, setTrust] = useParameter("trust");
  const [findings, setFindings] = useParameter("findings");
  const [sort, setSort] = useParameter("sort");
  const all = useMemo(() => createRows(report, { tokens, stats, clients }), [report, tokens, stats, clients]);
  const selected: SkillsView = VIEWS.find((id) => id === view) ?? "used";
  const problems = report.diagnostics;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const ofView = selected === "problems" ? [] : all[selected];
  const rows = ofView.filter(
    (row) =>
      words.every((word) => row.name.toLowerCase().includes(word) || row.description.toLowerCase().includes(word)) &&
      (scope === "" || row.scope === scope) &&
      (source === "" || row.source === source) &&
      (client === "" || row.clients.includes(client)) &&
      (trust === "" || row.trust === trust) &&
      hasFindings(row, findings),
  );
  const order = SORTS[sort];
  const sorted = order ? rows.toSorted(order) : rows;
  const choices = (of: (row: SkillRow) => string | undefined) =>
    [...new Set(ofView.flatMap((row) => of(row) ?? []))].sort().map((one) => [one, one] as const);
  return (
    <>
      <Tabs
        label="Which skills"
        selected={selected}
        onSelect={(id) => setView(id === "used" ? "" : id)}
        tabs={[
          { id: "used", title: "In use", count: all.used.length },
          { id: "unavailable", title: "Not available", count: all.unavailable.length },
          { id: "shadowed", title: "Shadowed", count: all.shadowed.length },
          { id: "problems", title: "Problems", count: problems.length },
        ]}
      />
      {selected === "problems" ? (
        <Diagnostics all={problems} />
      ) : (
        <>
          <div class="filters many">
            <SearchField label="Search names and descriptions" value={query} onInput={setQuery} />
            <Select label="Scope" value={scope} options={choices((row) => row.scope)} onChange={setScope} />
            <Select label="Source" value={source} options={choices((row) => row.source)} onChange={setSource} />
            <Select
              label="Client"
              value={client}
              options={(clients?.clients ?? []).map(({ id, title }) => [id, title] as const)}
              onChange={setClient}
            />
            <Select label="Trust" value={trust} options={choices((row) => row.trust)} onChange={setTrust} />
            <Select label="Findings" value={findings} options={FINDING_FILTERS} onChange={setFindings} />
          </div>
          <p class={`hits${rows.length === ofView.length ? " hidden" : ""}`} role="status">
            {rows.length === ofView.length
              ? formatCount(rows.length, "skill")
              : `${formatNumber(rows.length)} of ${formatCount(ofView.length, "skill")}`}
          </p>
          {ofView.length === 0 ? (
            <NoSkills view={selected} />
          ) : rows.length === 0 ? (
            <Empty title="No skill matches.">Remove a word or a filter.</Empty>
          ) : (
            <Rows
              class="skills"
              label="Skills"
              count={sorted.length}
              rowHeight={ROW_HEIGHT}
              keyOf={(index) => sorted[index]?.address ?? ""}
              head={<Head sort={sort} onSort={setSort} />}
              render={(index) => {
                const row = sorted[index];
                return row && <SkillCells row={row} />;
              }}
            />
          )}
        </>
      )}
    </>
  );
}

const ROW_HEIGHT = 52;

function hasFindings({ findings }: SkillRow, filter: string): boolean {
  if (filter === "some") return findings.length > 0;
  if (filter === "none") return findings.length === 0;
  return filter === "" || findings.some(({ severity }) => severity === filter);
}

interface JoinedReports {
  tokens: TokensReport | undefined;
  stats: StatsReport | undefined;
  clients: ClientsReport | undefined;
}

/** What a row shows of a listed skill, or of a shadowed one, which has neither trust nor denial. */
type ListedFields = Pick<ListedSkillRow, "name" | "description" | "scope" | "source" | "file"> &
  Partial<Pick<ListedSkillRow, "denial">> & { trust?: ListedSkillRow["trust"] | undefined };

function createRows(report: SkillsReport, { tokens, stats, clients }: JoinedReports) {
  const byFile = Map.groupBy(report.diagnostics, ({ file }) => file);
  const uses = new Map(stats?.skills.map(({ name, lastUseAt }) => [name, lastUseAt]));
  const shadows = Map.groupBy(report.shadowed, ({ name }) => name);
  const reading = new Map<string, string[]>();
  for (const { id, skills } of clients?.clients ?? [])
    for (const { name, source } of skills)
      reading.set(`${name}@${source}`, [...(reading.get(`${name}@${source}`) ?? []), id]);
  const toRow = (skill: ListedFields): SkillRow => ({
    ...{ name: skill.name, address: skill.name, description: skill.description },
    ...{ scope: skill.scope, source: skill.source, trust: skill.trust },
    denial: skill.denial?.message,
    findings: byFile.get(skill.file ?? "") ?? [],
    clients: reading.get(`${skill.name}@${skill.source}`) ?? [],
    tokens: tokens?.tokens[skill.name],
    lastUseAt: uses.get(skill.name),
    copies: shadows.get(skill.name)?.length ?? 0,
  });
  const rows = report.skills.map(toRow);
  return {
    used: rows.filter(({ denial }) => denial === undefined),
    unavailable: rows.filter(({ denial }) => denial !== undefined),
    shadowed: report.shadowed.map((skill) => ({
      ...toRow(skill),
      address: `${skill.name}@${skill.source}`,
      tokens: undefined,
    })),
  };
}

const SORTS: Readonly<Record<string, (a: SkillRow, b: SkillRow) => number>> = {
  source: (a, b) => compare(a.source, b.source),
  trust: (a, b) => compare(a.trust, b.trust),
  findings: (a, b) => b.findings.length - a.findings.length,
  listed: (a, b) => (b.tokens?.listed ?? 0) - (a.tokens?.listed ?? 0),
  full: (a, b) => (b.tokens?.full ?? 0) - (a.tokens?.full ?? 0),
  used: (a, b) => compare(b.lastUseAt, a.lastUseAt),
};

function compare(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

const COLUMNS = [
  { id: "", title: "Skill", class: "what", order: "ascending" },
  { id: "source", title: "Source", class: "wide", order: "ascending" },
  { id: "trust", title: "Trust", class: "wide", order: "ascending" },
  { id: "findings", title: "Findings", class: "number", order: "descending" },
  { id: "listed", title: "List tokens", class: "number wide", order: "descending" },
  { id: "full", title: "Tokens", class: "number", order: "descending" },
  { id: "used", title: "Last use", class: "when", order: "descending" },
] as const;

function Head({ sort, onSort }: { sort: string; onSort(id: string): void }) {
  return (
    <>
      {COLUMNS.map(({ id, title, class: name, order }) => (
        <div key={id} class={name} role="columnheader" aria-sort={sort === id ? order : "none"}>
          <button type="button" class="sort" onClick={() => onSort(id)}>
            {title}
          </button>
        </div>
      ))}
    </>
  );
}

function SkillCells({ row }: { row: SkillRow }) {
  const { address, name, description, source, scope, trust, denial, findings, tokens, lastUseAt, copies } = row;
  const worst = findings.find(({ severity }) => severity === "error") ?? findings[0];
  return (
    <>
      <Cell class="what">
        <Link to={`/skills/${encodeURIComponent(address)}`} class="name">
          <Line text={name} />
        </Link>
        {copies > 0 && <span class="tag">{formatCount(copies, "shadowed copy", "shadowed copies")}</span>}
        <span class="description">
          {denial === undefined ? <Line text={cut(description)} /> : <Line text={denial} />}
        </span>
      </Cell>
      <Cell class="wide">
        <Line text={source} />
        {source !== scope && <span class="sub">{scope}</span>}
      </Cell>
      <Cell class="wide">{trust && <TrustLabel trust={trust} />}</Cell>
      <Cell class="number">
        {worst && (
          <span class="figure" title={worst.message}>
            <Mark kind={SEVERITY_MARKS[worst.severity] ?? "idle"} /> {findings.length}
          </span>
        )}
      </Cell>
      <Cell class="number wide">
        <TokenCount tokens={tokens?.listed} />
      </Cell>
      <Cell class="number">
        <TokenCount tokens={tokens?.full} />
      </Cell>
      <Cell class="when">{lastUseAt ? <Time at={lastUseAt} /> : <span class="never">never</span>}</Cell>
    </>
  );
}

/** A description has up to a megabyte: a row shows its beginning. */
function cut(description: string): string {
  return description.length > MAX_ROW_TEXT ? `${description.slice(0, MAX_ROW_TEXT)}…` : description;
}

const MAX_ROW_TEXT = 240;

export const SEVERITY_MARKS: Readonly<Record<string, MarkKind>> = { error: "bad", warning: "warn", info: "idle" };

const TRUST_MARKS: Readonly<Record<string, MarkKind>> = {
  own: "idle",
  trusted: "good",
  untrusted: "warn",
  changed: "bad",
};

export function TrustLabel({ trust }: { trust: string }) {
  return (
    <span class="nowrap">
      <Mark kind={TRUST_MARKS[trust] ?? "idle"} /> {trust}
    </span>
  );
}

function NoSkills({ view }: { view: SkillsView }) {
  if (view === "unavailable") return <Empty title="Every skill that was found can be used here." />;
  if (view === "shadowed") return <Empty title="No skill is shadowed by a nearer copy." />;
  return (
    <Empty title="No skills were found." command="skillet new my-skill">
      Create one in this workspace, or add some with <code>skillet add SOURCE</code>.
    </Empty>
  );
}

function Diagnostics({ all }: { all: readonly Diagnostic[] }) {
  if (all.length === 0) return <Empty title="No problems were found." command="skillet check" />;
  return (
    <ul class="findings">
      {all.map((one, index) => (
        <DiagnosticView key={`${one.file}:${one.code}:${index}`} diagnostic={one} />
      ))}
    </ul>
  );
}

export function DiagnosticView({ diagnostic }: { diagnostic: Diagnostic }) {
  const { severity, code, message, file, line, fix, commands } = diagnostic;
  return (
    <li>
      <p>
        <Mark kind={SEVERITY_MARKS[severity] ?? "idle"} /> <span class="hidden">{severity}: </span>
        <Line text={message} /> <code class="code">{code}</code>
      </p>
      <p class="place">
        <Path path={`${file}${line === undefined ? "" : `:${line}`}`} />
      </p>
      <Fix fix={fix} commands={commands} />
    </li>
  );
}
