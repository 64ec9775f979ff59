import { Option } from "commander";
import { findDenials, findUnavailability } from "../../agent/policy/skill-policies.ts";
import {
  canUseSkills,
  type DisclosureContext,
  discloseForHost,
  getListingBudget,
  listMostUsed,
  MAX_RECENT_SKILLS,
} from "../../agent/session/session-disclosure.ts";
import { DISCLOSURE_DEFAULTS } from "../../catalog/catalog.ts";
import type { ListingClient } from "../../catalog/client-listings.ts";
import { type Disclosure, MAX_BY_WORDS, TIERS, type Tier } from "../../catalog/disclose.ts";
import { getMatcher, isSelectedMatch, type Match, type MatchReason } from "../../catalog/search/matcher.ts";
import { MAX_QUERY_LENGTH, QUERY_CUT_NOTE } from "../../catalog/search/query.ts";
import { readSearchableBody } from "../../catalog/search/search-index.ts";
import type { WeakCause } from "../../catalog/search/trigger-weights.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { formatFix, SkillError } from "../../errors/problem.ts";
import { isInvocableBy, type Skill, stopsLoading } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { mapAsync } from "../../util/async.ts";
import { estimateTokens, formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  printConfigurationWarnings,
} from "../command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printTextExcerpt,
  printTriggerRow,
  printWrappedLine,
} from "../output.ts";

/** `skillet explain`. */
export const explainCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show what a model receives for a query and why each skill was chosen or not")
      .argument("<query>", "The user's message")
      .option("-s, --skill <skill>", "Explain one skill")
      .option("--file <file...>", "Assume that the conversation is about these files, for skills with `paths`")
      .option("--max-skills <number>", "Include the instructions of at most this many skills")
      .option("--budget <tokens>", "Limit the instructions and the list to this many tokens")
      .option("--listing-budget <tokens>", "Limit the list of skills to this many tokens")
      .option("--shortlist", "Name the skills whose text matches if no trigger does")
      .addOption(
        new Option("--as <client>", "Show what this client's model receives from the client, the server and the hook")
          .choices(LISTING_CLIENTS)
          .conflicts("skill"),
      )
      .addOption(
        new Option("--tier <tier>", "Show the text of this tier instead of the one that applies")
          .choices(TIERS)
          .conflicts("as"),
      )
      .option("--text", "Print only the text for the model")
      .addHelpText(
        "after",
        formatExamples(
          'skillet explain "greet the new team"',
          'skillet explain "review my change" --skill code-review',
          'skillet explain "list skills" --budget 1500 --text',
          'skillet explain "greet the new team" --tier registry',
          'skillet explain "review my change" --as claude',
        ),
      ),
  run: explainQuery,
};

export const LISTING_CLIENTS = ["claude", "codex", "gemini", "opencode", "copilot"] satisfies ListingClient[];

interface ExplainOptions {
  skill?: string;
  file?: string[];
  maxSkills?: string;
  budget?: string;
  listingBudget?: string;
  shortlist?: boolean;
  text?: boolean;
  as?: ListingClient;
  tier?: Tier;
}

/** Shows what a model receives for a query, and why each skill was chosen or not. */
async function explainQuery({ io, options, args }: CommandContext<ExplainOptions>): Promise<number> {
  const [query = ""] = args;
  const found = await discoverForCommand(io, options, { remote: "soon" });
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  if (options.as !== undefined) {
    const { explainClient } = await import("./explain-client.ts");
    await explainClient(io, query, found, { ...options, client: options.as });
    return code;
  }
  const facts = await collectExplanation(query, found, options);
  if (options.skill !== undefined) {
    const skill = found.catalog.find(options.skill);
    if (!skill) return (await import("./show.ts")).failMissingSkill(io, found, options.skill);
    const one = explainSkill(facts, skill);
    if (options.json) printJson(io.stdout, one);
    else printSkillExplanation(io, one);
  } else if (options.json) printJson(io.stdout, toExplainJson(facts));
  else if (options.text) io.stdout.write(facts.told.text === "" ? "" : `${facts.told.text}\n`);
  else await printExplainFacts(io, facts);
  return code;
}

/** Collects what `explain` prints. */
export async function collectExplanation(
  query: string,
  found: DiscoverResult,
  options: ExplainOptions = {},
): Promise<ExplainFacts> {
  const context = {
    recent: await found.statistics.recent(MAX_RECENT_SKILLS),
    usage: await listMostUsed(found),
    canFork: canUseSkills(found),
    contextWindow: await readContextWindow(found),
  };
  return collectExplainFacts(query, found, { ...options, context });
}

/** Returns the context window of the chat model. Read only if models are configured. */
async function readContextWindow(found: DiscoverResult): Promise<number | undefined> {
  if (found.settings.models.size === 0) return undefined;
  return (await import("../../agent/models/model-providers.ts")).getDefaultContextWindow(found);
}

type ExplainFacts = Awaited<ReturnType<typeof collectExplainFacts>>;

async function collectExplainFacts(
  query: string,
  found: DiscoverResult,
  { context, ...options }: ExplainOptions & { context: DisclosureContext },
) {
  const files = options.file ?? [];
  const tellOptions = {
    toolsets: "there" as const, // As in a chat.
    files,
    ...(options.maxSkills === undefined ? {} : { maxSkills: parseWholeNumber(options.maxSkills, "--max-skills") }),
    ...(options.budget === undefined ? {} : { budget: parseWholeNumber(options.budget, "--budget") }),
    ...(options.listingBudget === undefined
      ? {}
      : { listingBudget: parseWholeNumber(options.listingBudget, "--listing-budget") }),
    ...(options.shortlist === undefined ? {} : { shortlist: options.shortlist }),
    ...(options.tier === undefined ? {} : { tier: options.tier }),
  };
  const disclosure: Disclosure = await discloseForHost(found.catalog, found, query, { context, options: tellOptions });
  const { hasMore, rejected } = disclosure;
  const matches = await explainMatches(disclosure, query, found, context.recent);
  const matched = new Set(matches.map(({ skill }) => skill));
  const considered = new Set(disclosure.considered);
  const hidden = found.catalog.skills.filter((skill) => !considered.has(skill) && !matched.has(skill));
  return {
    query: query.slice(0, MAX_QUERY_LENGTH),
    isCut: disclosure.isCut,
    hasMore,
    tier: disclosure.tier,
    reason: disclosure.reason,
    tokens: disclosure.tokens,
    listingBudget:
      tellOptions.listingBudget ??
      getListingBudget(found.settings, context.contextWindow) ??
      DISCLOSURE_DEFAULTS.listingBudget,
    visible: disclosure.considered.length,
    matches,
    notConsidered: [
      ...rejected.flatMap(({ skill, cue }) =>
        matched.has(skill) ? [] : { name: skill.name, reason: `"${cue}" in the query excludes it` },
      ),
      ...hidden.map((skill) => ({ name: skill.name, reason: explainHidden(skill, found) })),
      ...found.catalog.diagnostics.filter(stopsLoading).map(({ file, message }) => ({
        name: formatDisplayPath(file, found.around),
        reason: `did not load: ${message}`,
      })),
    ],
    told: disclosure,
  };
}

/** A match of a disclosure, with its place in the result. */
interface ExplainedMatch extends Match {
  /** From 1. */
  rank: number;
  /** True if its instructions are in the text. */
  isShown: boolean;
  isShortlisted: boolean;
  /** True if it was used recently: that decides between equal matches. */
  isRecent: boolean;
  /** The query words in each of its fields. */
  fields: readonly { field: string; words: readonly string[] }[];
}

function explainMatches(
  { matches, shown, shortlist }: Disclosure,
  query: string,
  { catalog }: DiscoverResult,
  recent: readonly string[],
): Promise<ExplainedMatch[]> {
  return mapAsync(matches.entries(), async ([index, match]) => ({
    ...match,
    rank: index + 1,
    isShown: shown.includes(match.skill),
    isShortlisted: shortlist.includes(match.skill),
    isRecent: recent.includes(match.skill.name),
    fields: await getMatcher(catalog).wordsIn(match.skill, query, { bodies: true }),
  }));
}

function parseWholeNumber(text: string, option: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new SkillError("usage", {
    message: `${option} takes a whole number, not "${text}"`,
    fix: `for example ${option} 3`,
  });
}

function explainHidden(skill: Skill, found: DiscoverResult): string {
  const denial = findDenials(skill, found)[0] ?? findUnavailability(skill, found);
  if (denial) return `${denial.message}; ${formatFix(denial)}`;
  const { belongsTo } = skill.origin;
  if (belongsTo !== undefined && isInvocableBy("model", skill))
    return `it is for files in ${belongsTo}, and the query names none of them (--file)`;
  return "only users can call it by name (disable-model-invocation)";
}

/** Returns the value of `explain --json`. */
export function toExplainJson({ told: disclosure, ...facts }: ExplainFacts) {
  const { text, prefix, suffix, omitted: cut, listed } = disclosure;
  return {
    ...facts,
    matches: facts.matches.map(toMatchJson),
    shown: disclosure.shown.map(({ name }) => name),
    shortlist: disclosure.shortlist.map(({ name }) => name),
    ...(listed ? { listed } : {}),
    cut,
    text,
    prefix: { text: prefix, tokens: estimateTokens(prefix) },
    suffix: { text: suffix, tokens: estimateTokens(suffix) },
  };
}

/** Returns the value of `explain --skill --json`. */
export function explainSkill(facts: ExplainFacts, skill: Skill) {
  const match = facts.matches.find((candidate) => candidate.skill.name === skill.name);
  const hidden = facts.notConsidered.find((candidate) => candidate.name === skill.name);
  const isFull = facts.matches.filter(({ level }) => level === "words").length === MAX_BY_WORDS;
  const missing = facts.hasMore
    ? "it does not match, or 100 other skills match better"
    : `none of its triggers is in the query${isFull ? ", and the text of other skills matches better" : ", and none of its words"}`;
  return {
    name: skill.name,
    parent: skill.origin.parent,
    query: facts.query,
    tier: facts.tier,
    isConsidered: hidden === undefined,
    reason: hidden?.reason ?? (match ? formatReasons(match) : missing),
    ...(match ? { match: toMatchJson(match) } : {}),
    triggers: { ...skill.manifest.triggers, paths: skill.manifest.paths },
  };
}

function toMatchJson({ skill, ...match }: ExplainedMatch) {
  return { name: skill.name, parent: skill.origin.parent, ...match };
}

const TIER_DESCRIPTIONS: Record<Tier, (disclosure: Disclosure, visible: number) => string> = {
  none: () => "nothing",
  breadcrumb: (_, visible) => `the number of skills, ${visible}`,
  registry: (_, visible) => `names and descriptions of ${formatCount(visible, "skill")}`,
  full: ({ shown, mentioned: noted }) =>
    shown.length > 0
      ? `the instructions of ${shown.map(({ name }) => name).join(", ")}`
      : noted.length > 0
        ? `a note on ${noted.map(({ name }) => name).join(", ")}`
        : "no instructions, because no skill is mentioned or triggered",
};

async function printExplainFacts(io: CommandIo, facts: ExplainFacts): Promise<void> {
  const out = createPrinter(io.stdout, io.env);
  const { told: disclosure, tier } = facts;
  const text = `${TIER_DESCRIPTIONS[tier](disclosure, facts.visible)}: ${disclosure.reason} ~${disclosure.tokens} tokens`;
  printHanging(out, out.text`${out.bold(tier)}  `, [text], { indent: 2, start: tier.length + 2 });
  const { names, instructions } = disclosure.omitted;
  const { shortened = 0, named = 0, left = 0 } = disclosure.listed ?? {};
  const cut = [
    shortened > 0 && `${formatCount(shortened, "description")} shortened`,
    named + left > 0 && `${formatCount(named + left, "description")} omitted`,
    names > 0 && `${formatCount(names, "name")} omitted`,
    instructions.length > 0 && `the instructions of ${instructions.join(", ")} omitted`,
  ].filter((part) => part !== false);
  if (cut.length > 0) out.line`${out.yellow("!")} to fit: ${cut.join(", ")}`;
  if (facts.isCut) out.line`${out.yellow("!")} ${QUERY_CUT_NOTE}`;
  if (facts.hasMore) out.line`${out.yellow("!")} more skills match; only the best 100 are shown`;
  await printMatches(out, "Matched", facts.matches.filter(isSelectedMatch));
  await printMatches(
    out,
    "Not selective enough: ranked, never included in full",
    facts.matches.filter(({ level }) => level === "weak"),
  );
  await printMatches(
    out,
    "By text alone: offered or found by search_skills, never included in full",
    facts.matches.filter(({ level }) => level === "words"),
  );
  if (facts.notConsidered.length > 0) out.line`\n${out.bold("Not considered")}`;
  const listed = facts.notConsidered.slice(0, 20);
  const column = Math.min(32, Math.max(...listed.map(({ name }) => name.length))) + 4;
  for (const { name, reason } of listed)
    printHanging(out, `  ${name}  `.padEnd(column), [reason], { indent: 4, start: Math.max(column, name.length + 4) });
  if (facts.notConsidered.length > 20) out.line`  and ${facts.notConsidered.length - 20} more`;
  printTextExcerpt(out, "The same for every query", disclosure.prefix);
  printTextExcerpt(out, "For this query", disclosure.suffix.trimStart());
}

async function printMatches(out: Printer, title: string, matches: readonly ExplainedMatch[]): Promise<void> {
  if (matches.length === 0) return;
  out.line``;
  printWrappedLine(out, title, out.bold);
  const widest = Math.min(32, Math.max(...matches.map(({ skill }) => skill.name.length)));
  for (const match of matches) {
    const mark = match.isShown ? out.green("✓") : match.isShortlisted ? out.green("+") : out.dim("·");
    const cost = !isSelectedMatch(match) ? "" : ` ~${estimateTokens(await readSearchableBody(match.skill))} tokens`;
    const name = match.skill.name.padEnd(widest);
    const before = out.text`${mark} ${String(match.rank).padStart(2)}  ${name}  ${match.level.padEnd(8)}  `;
    printHanging(out, before, [`${formatReasons(match)}${cost}`], { indent: 6, start: name.length + 18 });
  }
}

const WEAK_CAUSE_LABELS: Record<WeakCause, (reason: MatchReason) => string> = {
  "common-word": ({ kind }) => `too common: ${kind === "pattern" ? "no specific word" : "a common word"}`,
  "many-skills": ({ skills, of }) => `too common: in ${skills} of ${of} skills`,
  glob: () => "a glob alone",
  "in-passing": () => "a name mentioned in passing",
};

function formatReason(reason: MatchReason): string {
  const { kind, text, weight = 0, weak } = reason;
  return `${kind} "${text}"${weak ? ` (weight ${weight.toFixed(2)}, ${WEAK_CAUSE_LABELS[weak](reason)})` : ""}`;
}

function formatReasons({ reasons, level, fields, score, isRecent }: ExplainedMatch): string {
  const cues = level === "words" ? [] : reasons.map(formatReason);
  // Breaks ties between equal matches.
  if (isRecent && isSelectedMatch({ level })) cues.push("used recently");
  const words = fields.map(({ field, words: found }) => `${found.join(", ")} in its ${field}`);
  if (words.length > 0) cues.push(`words ${score.toFixed(1)}: ${words.join("; ")}`);
  return cues.join(", ");
}

function printSkillExplanation(
  io: CommandIo,
  { name, parent, isConsidered, reason, match, triggers }: ReturnType<typeof explainSkill>,
): void {
  const out = createPrinter(io.stdout, io.env);
  const verdict = match
    ? `${match.level}, rank ${match.rank}${match.isShown ? ", included in full" : ""}`
    : "not matched";
  out.line`${out.bold(name)}  ${isConsidered ? verdict : "not considered"}`;
  if (parent !== undefined) out.line`  ${out.dim("inside")} ${parent}`;
  printHanging(out, "  ", [reason], { indent: 2 });
  if (match) return;
  for (const [kind, values] of Object.entries(triggers)) {
    printTriggerRow(out, kind, values.slice(0, 12));
  }
}
