import { useEffect, useState } from "preact/hooks";
import { formatCount, formatNumber } from "../../src/util/text.ts";
import { useReport } from "../api.ts";
import { Block, Empty, Facts, Line, Loaded, Loading, Mark, Page, SearchField, Section, Tabs } from "../components.tsx";
import type { ClientReport, ExplainReport, SkillExplanation, SkillsReport, TiersReport } from "../reports.ts";
import { Link, useParameter } from "../router.tsx";

type Match = ExplainReport["matches"][number];

const CLIENT_TABS = [
  { id: "prompt", title: "Prompt" },
  { id: "claude", title: "Claude Code" },
  { id: "codex", title: "Codex" },
  { id: "gemini", title: "Gemini CLI" },
  { id: "opencode", title: "OpenCode" },
  { id: "copilot", title: "Copilot CLI" },
] as const;
type TextView = (typeof CLIENT_TABS)[number]["id"];

/** Typing asks again after this pause. */
const TYPING_MS = 80;

export function ExplainPage() {
  const [query, setQuery] = useParameter("q");
  const [skill, setSkill] = useParameter("skill");
  const [view, setView] = useParameter("as");
  const asked = usePaused(query);
  const report = useReport<ExplainReport>(`/api/explain?query=${encodeURIComponent(asked)}`, ["skills"]);
  const shown = usePrevious(report.value);
  const selected: TextView = CLIENT_TABS.find(({ id }) => id === view)?.id ?? "prompt";
  return (
    <Page title="Explain" summary="Which skills a message brings up, why, and the exact text that a model gets.">
      <SearchField
        label="A user’s message"
        placeholder="Type what a user would ask…"
        value={query}
        onInput={setQuery}
        isLarge
      />
      {report.problem ? (
        <Loaded report={report}>{() => null}</Loaded>
      ) : (
        shown && (
          <div class="columns halves">
            <div>
              <Verdict report={shown} />
              <WhyNot query={asked} skill={skill} onSelect={setSkill} />
              <Ranking report={shown} selected={skill} onSelect={setSkill} />
            </div>
            <div>
              <Tabs
                label="The text for"
                tabs={CLIENT_TABS}
                selected={selected}
                onSelect={(id) => setView(id === "prompt" ? "" : id)}
              />
              {selected === "prompt" ? (
                <PromptText report={shown} query={asked} />
              ) : (
                <ClientText query={asked} client={selected} />
              )}
            </div>
          </div>
        )
      )}
    </Page>
  );
}

function usePaused(value: string): string {
  const [paused, setPaused] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(value), TYPING_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return paused;
}

/** Keeps the last answer until the next one is there, so that the page does not jump while the user types. */
function usePrevious<T>(value: T | undefined): T | undefined {
  const [kept, setKept] = useState(value);
  useEffect(() => {
    if (value !== undefined) setKept(() => value);
  }, [value]);
  return value ?? kept;
}

const TIER_TITLES: Readonly<Record<ExplainReport["tier"], string>> = {
  none: "Nothing is added",
  breadcrumb: "The number of skills",
  registry: "The list of skills",
  full: "Full instructions",
};

function Verdict({ report }: { report: ExplainReport }) {
  const { tier, reason, tokens, isCut, hasMore } = report;
  return (
    <div class="verdict">
      <p>
        <strong>{TIER_TITLES[tier]}</strong> <code class="code">{tier}</code>
        <span class="figure"> ~{formatCount(tokens, "token")}</span>
      </p>
      <p class="soft">
        <Line text={reason} />
      </p>
      {isCut && <p class="soft">Only the beginning of this message is matched.</p>}
      {hasMore && <p class="soft">More skills match; the best 100 are shown.</p>}
    </div>
  );
}

const GROUPS = [
  { title: "Matched", isIn: ({ level }: Match) => level !== "weak" && level !== "words" },
  {
    title: "Not selective enough",
    note: "ranked, never included in full",
    isIn: ({ level }: Match) => level === "weak",
  },
  { title: "By words alone", note: "found by search_skills", isIn: ({ level }: Match) => level === "words" },
] as const;

function Ranking({
  report,
  selected,
  onSelect,
}: {
  report: ExplainReport;
  selected: string;
  onSelect(name: string): void;
}) {
  const { matches, notConsidered, visible } = report;
  if (matches.length === 0 && notConsidered.length === 0)
    return (
      <Empty title={`None of ${formatCount(visible, "skill")} matches.`}>
        Other words may: type a task of one of your skills.
      </Empty>
    );
  return (
    <>
      {GROUPS.map(({ title, isIn, ...group }) => {
        const rows = matches.filter(isIn);
        if (rows.length === 0) return null;
        return (
          <Section key={title} title={title} note={"note" in group ? group.note : undefined}>
            <ol class="ranking">
              {rows.map((match) => (
                <li key={match.name} class={match.name === selected ? "selected" : ""}>
                  <button type="button" data-entry onClick={() => onSelect(match.name)}>
                    <span class="figure rank">{match.rank}</span>
                    <span>
                      <span class="name">
                        <Line text={match.name} />
                      </span>{" "}
                      {match.isShown && <span class="tag strong">in full</span>}
                      {match.isShortlisted && <span class="tag">offered</span>}
                      <Reasons match={match} />
                    </span>
                    <span class="soft level">{match.level}</span>
                  </button>
                </li>
              ))}
            </ol>
          </Section>
        );
      })}
      {notConsidered.length > 0 && (
        <Section title="Not considered" note={notConsidered.length}>
          <ul class="plain">
            {notConsidered.slice(0, MAX_NOT_CONSIDERED).map(({ name, reason }) => (
              <li key={name}>
                <span class="name">
                  <Line text={name} />
                </span>
                <span class="description">
                  <Line text={reason} />
                </span>
              </li>
            ))}
          </ul>
          {notConsidered.length > MAX_NOT_CONSIDERED && (
            <p class="soft">and {formatNumber(notConsidered.length - MAX_NOT_CONSIDERED)} more</p>
          )}
        </Section>
      )}
    </>
  );
}

const MAX_NOT_CONSIDERED = 20;

/** The triggers on one line, then the words that it shares with the message. */
function Reasons({ match }: { match: Match }) {
  const { reasons, level, fields, score, isRecent } = match;
  const cues = [
    ...(level === "words"
      ? []
      : reasons.map(({ kind, text, weak }) => `${kind} “${text}”${weak ? " (too common)" : ""}`)),
    ...(isRecent ? ["used recently"] : []),
  ];
  const words = fields.map(({ field, words: found }) => `${found.join(", ")} in its ${field}`);
  return (
    <>
      {cues.length > 0 && (
        <span class="cues">
          <Line text={cues.join("; ")} />
        </span>
      )}
      {words.length > 0 && (
        <span class="description">
          <Line text={`words ${score.toFixed(1)}: ${words.join("; ")}`} />
        </span>
      )}
    </>
  );
}

/** Explains one skill, also one that does not match. */
function WhyNot({ query, skill, onSelect }: { query: string; skill: string; onSelect(name: string): void }) {
  const { value: list } = useReport<SkillsReport>("/api/skills", ["skills"]);
  const names = list?.skills.map(({ name }) => name) ?? [];
  const isKnown = names.includes(skill);
  const path = `/api/explain?query=${encodeURIComponent(query)}&skill=${encodeURIComponent(skill)}`;
  const report = useReport<SkillExplanation>(isKnown ? path : undefined, ["skills"]);
  const one = usePrevious(report.value);
  return (
    <section class="why" aria-label="Why, or why not?">
      <label class="field">
        <span>Why, or why not?</span>
        <input
          list="skill-names"
          value={skill}
          placeholder="Name of a skill"
          autocomplete="off"
          onInput={(event) => onSelect(event.currentTarget.value)}
        />
      </label>
      <datalist id="skill-names">
        {names.slice(0, MAX_NAMES).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {isKnown && one?.name === skill && (
        <>
          <p class="answer">
            <Mark kind={one.match ? "good" : one.isConsidered ? "idle" : "warn"} />{" "}
            {one.match
              ? `rank ${one.match.rank}, ${one.match.level}`
              : one.isConsidered
                ? "not matched"
                : "not considered"}
            : <Line text={one.reason} />
          </p>
          <Facts
            rows={Object.entries(one.triggers).flatMap(([kind, values]) =>
              (values as readonly string[]).length === 0
                ? []
                : [[kind, <Line key={kind} text={(values as readonly string[]).join(", ")} />] as const],
            )}
          />
          <p class="next">
            <Link to={`/skills/${encodeURIComponent(skill)}`}>Open {skill}</Link>
          </p>
        </>
      )}
    </section>
  );
}

const MAX_NAMES = 500;

/** The text of the tier that applies, and what each of the others would be. */
function PromptText({ report, query }: { report: ExplainReport; query: string }) {
  const [wanted, setWanted] = useParameter("tier");
  const tiers = useReport<TiersReport>(`/api/explain/tiers?query=${encodeURIComponent(query)}`, ["skills"]);
  const all = usePrevious(tiers.value)?.tiers ?? [];
  const tier = all.find((one) => one.tier === wanted)?.tier ?? report.tier;
  const { prefix, suffix } = tier === report.tier ? report : (all.find((one) => one.tier === tier) ?? report);
  const isEmpty = prefix.text.trim() === "" && suffix.text.trim() === "";
  return (
    <>
      <Tabs
        label="Tier"
        selected={tier}
        onSelect={(id) => setWanted(id === report.tier ? "" : id)}
        tabs={TIER_IDS.map((id) => {
          const tokens = id === report.tier ? report.tokens : all.find((one) => one.tier === id)?.tokens;
          return {
            id,
            title: id === report.tier ? `${id} ✓` : id,
            count: tokens === undefined ? "" : `~${formatNumber(tokens)}`,
          };
        })}
      />
      <p class="soft">
        {tier === report.tier
          ? "This is what a model gets for this message."
          : `Not used for this message: ${report.tier} applies.`}
      </p>
      {isEmpty && <p class="soft">This tier adds no text.</p>}
      <TextPart title="The same for every message" text={prefix.text} tokens={prefix.tokens} />
      <TextPart title="For this message" text={suffix.text} tokens={suffix.tokens} />
    </>
  );
}

const TIER_IDS: readonly ExplainReport["tier"][] = ["none", "breadcrumb", "registry", "full"];

function TextPart({ title, text, tokens }: { title: string; text: string; tokens: number }) {
  if (text.trim() === "") return null;
  return (
    <section aria-label={title}>
      <h3>
        {title} <span class="note figure">~{formatCount(tokens, "token")}</span>
      </h3>
      <Block text={text.trim()} class="tall" />
    </section>
  );
}

function ClientText({ query, client }: { query: string; client: TextView }) {
  const report = useReport<ClientReport>(`/api/explain?query=${encodeURIComponent(query)}&as=${client}`, ["skills"]);
  const shown = usePrevious(report.value);
  if (report.problem) return <Loaded report={report}>{() => null}</Loaded>;
  if (!shown || shown.client !== client) return <Loading />;
  const { title, version, own, server, hook } = shown;
  const listed = own.skills.filter((one) => one.shown !== "dropped");
  const text = listed
    .map(({ name, description }) => (description === "" ? `- ${name}` : `- ${name}: ${description}`))
    .join("\n");
  const { whole, cut, name, dropped } = own.counts;
  return (
    <>
      <p class="soft">
        {title} {version}: {formatCount(whole, "description")} whole, {cut} truncated, {name} by name alone, {dropped}{" "}
        dropped
      </p>
      <TextPart title="Its own list" text={text} tokens={own.tokens} />
      {server.instructions.limit > 0 && (
        <TextPart
          title="skillet’s server: instructions"
          text={server.instructions.text}
          tokens={server.instructions.tokens}
        />
      )}
      <TextPart title="skillet’s server: load_skill" text={server.loadSkill.text} tokens={server.loadSkill.tokens} />
      <TextPart title={`The prompt hook adds (${hook.kind})`} text={hook.text} tokens={hook.tokens} />
      {hook.kind === "none" && (
        <p class="soft">
          The prompt hook adds nothing: <Line text={hook.reasons.join("; ")} />
        </p>
      )}
    </>
  );
}
