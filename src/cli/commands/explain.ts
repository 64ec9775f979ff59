import type { ListingClient } from "../../catalog/client-listings.ts";
import { type Disclosure, matcherOf, type Tier } from "../../catalog/disclose.ts";
import { bodyOf, isSelected, LONGEST_QUERY, type Reason } from "../../catalog/match.ts";
import { CUT_NOTE } from "../../catalog/query.ts";
import type { WeakCause } from "../../catalog/selectivity.ts";
import type { Discovered } from "../../host/discover.ts";
import { denials, unavailability } from "../../policy/policy.ts";
import { canUseSkills, discloseFor, isAvailable, mostUsed, steadily } from "../../session/disclose-for.ts";
import { MOST_RECENT } from "../../session/recent.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { count, estimateTokens } from "../../shared/text.ts";
import { stopsLoading } from "../../skill/diagnostic.ts";
import { isFor, type Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { printHanging, printText } from "../wrap.ts";

interface ExplainOptions {
  skill?: string;
  file?: string[];
  maxSkills?: string;
  budget?: string;
  listingBudget?: string;
  shortlist?: boolean;
  text?: boolean;
  as?: ListingClient;
}

/** Says what a model would be told for a query, and why each skill was chosen or not. */
export async function explain({ io, options, args }: Context<ExplainOptions>): Promise<number> {
  const [query = ""] = args;
  const found = await discoverFor(io, options, { remote: "soon" });
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  if (options.as !== undefined) {
    const { explainClient } = await import("./explain-client.ts");
    await explainClient(io, query, found, { ...options, client: options.as });
    return code;
  }
  const contextWindow = await contextWindowFor(found);
  const facts = steadily(found, () => factsOf(query, found, { ...options, ...defined({ contextWindow }) }));
  if (options.skill !== undefined) {
    const skill = found.catalog.find(options.skill);
    if (!skill) return (await import("./show.ts")).explainMissing(io, found, options.skill);
    const one = oneSkill(facts, skill);
    if (options.json) printJson(io.stdout, one);
    else printOne(io, one);
  } else if (options.json) printJson(io.stdout, jsonOf(facts));
  else if (options.text) io.stdout.write(facts.told.text === "" ? "" : `${facts.told.text}\n`);
  else printFacts(io, facts);
  return code;
}

/** The window of the model that a chat asks. Read only where models are configured. */
async function contextWindowFor(found: Discovered): Promise<number | undefined> {
  if (found.settings.models.size === 0) return undefined;
  return (await import("../../model/context-windows.ts")).defaultContextWindow(found);
}

type Facts = ReturnType<typeof factsOf>;
type Explained = Facts["matches"][number];

function factsOf(query: string, found: Discovered, options: ExplainOptions & { contextWindow?: number }) {
  const files = options.file ?? [];
  const recent = found.statistics.recent(MOST_RECENT);
  const context = {
    recent,
    usage: mostUsed(found),
    canFork: canUseSkills(found),
    contextWindow: options.contextWindow,
  };
  const tellOptions = {
    toolsets: "there" as const, // As in a chat.
    files,
    ...(options.maxSkills === undefined ? {} : { maxSkills: wholeNumber(options.maxSkills, "--max-skills") }),
    ...(options.budget === undefined ? {} : { budget: wholeNumber(options.budget, "--budget") }),
    ...(options.listingBudget === undefined
      ? {}
      : { listingBudget: wholeNumber(options.listingBudget, "--listing-budget") }),
    ...(options.shortlist === undefined ? {} : { shortlist: options.shortlist }),
  };
  const told: Disclosure = discloseFor(found.catalog, found, query, { context, options: tellOptions });
  const visible = new Set(found.catalog.skills.filter((skill) => isFor("model", skill) && isAvailable(skill, found)));
  const isCallable = (skill: Skill) => isFor("user", skill) && denials(skill, found).length === 0;
  const matcher = matcherOf(found.catalog);
  const { matches, hasMore, against } = matcher.match(query, {
    recent,
    files,
    bodies: true,
    limit: MOST_BY_WORDS,
    isVisible: (skill) => visible.has(skill),
    isCallable,
  });
  const [shown, shortlist] = [new Set(told.shown), new Set(told.shortlist)];
  const matched = new Set(matches.map(({ skill }) => skill));
  const hidden = found.catalog.skills.filter((skill) => !visible.has(skill) && !matched.has(skill));
  return {
    query: query.slice(0, LONGEST_QUERY),
    isCut: told.isCut,
    hasMore,
    tier: told.tier,
    why: told.why,
    tokens: told.tokens,
    visible: visible.size,
    matches: matches.map((match, index) => ({
      ...match,
      rank: index + 1,
      isShown: shown.has(match.skill),
      isShortlisted: shortlist.has(match.skill),
      isRecent: recent.includes(match.skill.name),
      fields: matcher.wordsIn(match.skill, query, { bodies: true }),
    })),
    notConsidered: [
      ...against.flatMap(({ skill, cue }) =>
        matched.has(skill) ? [] : { name: skill.name, why: `"${cue}" in the query speaks against it` },
      ),
      ...hidden.map((skill) => ({ name: skill.name, why: whyHidden(skill, found) })),
      ...found.catalog.diagnostics
        .filter(stopsLoading)
        .map(({ file, message }) => ({ name: displayPath(file, found.around), why: `did not load: ${message}` })),
    ],
    told,
  };
}

function wholeNumber(text: string, option: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new SkillError("usage", {
    message: `${option} takes a whole number, not "${text}"`,
    fix: `for example ${option} 3`,
  });
}

function whyHidden(skill: Skill, found: Discovered): string {
  const denial = denials(skill, found)[0] ?? unavailability(skill, found);
  if (denial) return `${denial.message}; ${denial.fix}`;
  return "it is for people to call by name (disable-model-invocation)";
}

function jsonOf({ told, ...facts }: Facts): object {
  const { text, prefix, suffix, cut, listed } = told;
  return {
    ...facts,
    matches: facts.matches.map(asJson),
    shown: told.shown.map(({ name }) => name),
    shortlist: told.shortlist.map(({ name }) => name),
    ...(listed ? { listed } : {}),
    cut,
    text,
    prefix: { text: prefix, tokens: estimateTokens(prefix) },
    suffix: { text: suffix, tokens: estimateTokens(suffix) },
  };
}

function oneSkill(facts: Facts, skill: Skill) {
  const match = facts.matches.find((candidate) => candidate.skill.name === skill.name);
  const hidden = facts.notConsidered.find((candidate) => candidate.name === skill.name);
  const isFull = facts.matches.filter(({ level }) => level === "words").length === MOST_BY_WORDS;
  const missing = facts.hasMore
    ? "it does not match, or 100 other skills match better"
    : `none of its triggers is in the query, ${isFull ? "and others fit better by their words" : "and none of its words"}`;
  return {
    name: skill.name,
    parent: skill.origin.parent,
    query: facts.query,
    tier: facts.tier,
    isConsidered: hidden === undefined,
    why: hidden?.why ?? (match ? reasonsOf(match) : missing),
    ...(match ? { match: asJson(match) } : {}),
    triggers: { ...skill.manifest.triggers, paths: skill.manifest.paths },
  };
}

function asJson({ skill, ...match }: Explained) {
  return { name: skill.name, parent: skill.origin.parent, ...match };
}

const SAYS: Record<Tier, (told: Disclosure, visible: number) => string> = {
  none: () => "nothing",
  breadcrumb: (_, visible) => `how many skills there are, ${visible}`,
  registry: (_, visible) => `names and descriptions of ${count(visible, "skill")}`,
  full: ({ shown, noted }) =>
    shown.length > 0
      ? `the instructions of ${shown.map(({ name }) => name).join(", ")}`
      : `a note on ${noted.map(({ name }) => name).join(", ")}`,
};

function printFacts(io: Io, facts: Facts): void {
  const out = printer(io.stdout, io.env);
  const { told, tier } = facts;
  const said = `${SAYS[tier](told, facts.visible)}: ${told.why} ~${told.tokens} tokens`;
  printHanging(out, out.text`${out.bold(tier)}  `, [said], { indent: 2, start: tier.length + 2 });
  const { names, instructions } = told.cut;
  const { shortened = 0, named = 0, left = 0 } = told.listed ?? {};
  const cut = [
    shortened > 0 && `${count(shortened, "description")} shortened`,
    named + left > 0 && `${count(named + left, "description")} left out`,
    names > 0 && `${count(names, "name")} left out`,
    instructions.length > 0 && `the instructions of ${instructions.join(", ")} left out`,
  ].filter((part) => part !== false);
  if (cut.length > 0) out.line`${out.yellow("!")} to fit: ${cut.join(", ")}`;
  if (facts.isCut) out.line`${out.yellow("!")} ${CUT_NOTE}`;
  if (facts.hasMore) out.line`${out.yellow("!")} more skills match; the best 100 are shown`;
  printMatches(out, "Matched", facts.matches.filter(isSelected));
  printMatches(
    out,
    "Not selective enough: ranked, never told in full",
    facts.matches.filter(({ level }) => level === "weak"),
  );
  printMatches(
    out,
    "By words alone: offered or found by search_skills, never told in full",
    facts.matches.filter(({ level }) => level === "words"),
  );
  if (facts.notConsidered.length > 0) out.line`\n${out.bold("Not considered")}`;
  for (const { name, why } of facts.notConsidered.slice(0, 20))
    printHanging(out, `  ${name}  `, [why], { indent: 4, start: name.length + 4 });
  if (facts.notConsidered.length > 20) out.line`  and ${facts.notConsidered.length - 20} more`;
  printText(out, "The same for every query", told.prefix);
  printText(out, "For this query", told.suffix.trimStart());
}

const MOST_BY_WORDS = 10;

function printMatches(out: Printer, title: string, matches: readonly Explained[]): void {
  if (matches.length === 0) return;
  out.line`\n${out.bold(title)}`;
  const widest = Math.min(32, Math.max(...matches.map(({ skill }) => skill.name.length)));
  for (const match of matches) {
    const mark = match.isShown ? out.green("✓") : match.isShortlisted ? out.green("+") : out.dim("·");
    const cost = !isSelected(match) ? "" : ` ~${estimateTokens(bodyOf(match.skill))} tokens`;
    const name = match.skill.name.padEnd(widest);
    const before = out.text`${mark} ${String(match.rank).padStart(2)}  ${name}  ${match.level.padEnd(8)}  `;
    printHanging(out, before, [`${reasonsOf(match)}${cost}`], { indent: 6, start: name.length + 18 });
  }
}

const WEAK_CAUSES: Record<WeakCause, (reason: Reason) => string> = {
  "common-word": ({ kind }) => `too common: ${kind === "pattern" ? "no specific word" : "a common word"}`,
  "many-skills": ({ skills, of }) => `too common: in ${skills} of ${of} skills`,
  glob: () => "a glob alone",
  "in-passing": () => "a name in passing",
};

function reasonOf(reason: Reason): string {
  const { kind, text, weight = 0, weak } = reason;
  return `${kind} "${text}"${weak ? ` (weight ${weight.toFixed(2)}, ${WEAK_CAUSES[weak](reason)})` : ""}`;
}

function reasonsOf({ reasons, level, fields, score, isRecent }: Explained): string {
  const cues = level === "words" ? [] : reasons.map(reasonOf);
  // Among those that match alike, and only among them, it comes first.
  if (isRecent && isSelected({ level })) cues.push("used recently");
  const words = fields.map(({ field, words: found }) => `${found.join(", ")} in its ${field}`);
  if (words.length > 0) cues.push(`words ${score.toFixed(1)}: ${words.join("; ")}`);
  return cues.join(", ");
}

function printOne(io: Io, { name, parent, isConsidered, why, match, triggers }: ReturnType<typeof oneSkill>): void {
  const out = printer(io.stdout, io.env);
  const place = match ? `${match.level}, rank ${match.rank}${match.isShown ? ", told in full" : ""}` : "not matched";
  out.line`${out.bold(name)}  ${isConsidered ? place : "not considered"}`;
  if (parent !== undefined) out.line`  ${out.dim("inside")} ${parent}`;
  out.line`  ${why}`;
  if (match) return;
  for (const [kind, values] of Object.entries(triggers)) {
    if (values.length > 0) out.line`  ${out.dim(kind.padEnd(9))} ${values.slice(0, 12).join(", ")}`;
  }
}
