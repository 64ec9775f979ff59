import { asksWhatThereIs } from "../catalog/asks.ts";
import { bullet } from "../catalog/budget.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { dynamicCommands, skillContent } from "../catalog/content.ts";
import { argumentsIn, matcherOf } from "../catalog/disclose.ts";
import { isSelected, LEVELS, type Level, type Match } from "../catalog/match.ts";
import { narrowCatalog } from "../catalog/narrow.ts";
import { isInReach } from "../catalog/reach.ts";
import { selectShortlist } from "../catalog/shortlist.ts";
import { type HostOptions, readHost } from "../host/complete-host.ts";
import type { Host } from "../host/host.ts";
import { firstDenial, unavailability } from "../policy/policy.ts";
import { isTrusted } from "../policy/trust.ts";
import { shortHash } from "../shared/hash.ts";
import { inLine } from "../shared/prompt.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import type { AdviceMemory } from "./advice-memory.ts";
import { canUseSkills, modeFor } from "./disclose-for.ts";
import { openStanding } from "./standing.ts";

/** The longest advice, in characters: Claude Code and Cursor take 10,000 from a hook, with what they add. */
export const ADVICE_LIMIT = 9500;
const MOST_LISTED = 5;

export interface AdviseContext {
  catalog: Catalog;
  /** Its policies and trust decide which skills are considered. Defaults to no settings, where all skills are trusted. */
  host?: HostOptions;
  /** The conversation's id. What it received before, by the memory, is not repeated. */
  conversation?: string;
  /** Defaults to none: each call is then the first one. */
  memory?: AdviceMemory;
  /** The longest text. Defaults to 9,500. */
  limit?: number;
  /** The unit of the limit. Defaults to characters. */
  counts?: "characters" | "bytes";
  /** The most that is given: one skill's instructions, or only a shortlist. Defaults to instructions. */
  gives?: "instructions" | "shortlist";
  /** How a model loads a skill of a shortlist, as the end of a sentence. Defaults to the `load_skill` tool. */
  loadWith?: string;
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** True when the client has just summarized the conversation: what it received is given again when it is needed. Defaults to false. */
  isSummarized?: boolean;
  /** Returns true when the skill's instructions, as they are now, are in the conversation. */
  isLoaded?: (skill: Skill) => boolean;
}

/** A skill in an advice. */
export interface AdvisedSkill {
  name: string;
  source: string;
  level: Level;
}

/** What to add to a prompt before a model sees it. */
export interface Advice {
  kind: "none" | "shortlist" | "instructions";
  /** For the model. Empty when the kind is `none`. */
  text: string;
  /** The skills that the text describes, or the one whose instructions it has. */
  skills: readonly AdvisedSkill[];
  /** Why, in sentences for people. They may quote a skill's triggers. */
  reasons: readonly string[];
}

/**
 * Decides what to tell a model about skills for one prompt: nothing, up to five descriptions, or the instructions of the one skill that
 * a trigger or a mention selects. Words alone never give instructions.
 */
export async function advise(prompt: string, context: AdviseContext): Promise<Advice> {
  const { catalog, conversation, memory } = context;
  const { host, problem } = readHost(context.host);
  if (problem) return nothing(`${problem.message}: ${problem.fix}`);
  if (context.isSummarized && conversation !== undefined) await memory?.forget(conversation);
  if (modeFor(host.settings, canUseSkills(host)) === "static")
    return nothing("the disclosure mode is static: the list of skills has them");
  if (prompt.trim() === "") return nothing("the prompt is empty");
  const { selected, ranked } = findSkills(prompt, catalog, host, context.files ?? []);
  if (asksWhatThereIs(prompt, host.settings.disclosure.asks) && selected[0]?.level !== "explicit")
    return nothing("the prompt asks which skills there are: list_skills answers it");
  if (selected.length + ranked.length === 0) return nothing("no skill fits the prompt well enough");
  const received = (conversation !== undefined && (await memory?.received(conversation))) || NOTHING_RECEIVED;
  const { digests, ...advice } = decide({ prompt, selected, ranked, received, context, host });
  if (conversation !== undefined && digests.length > 0) await memory?.add(conversation, digests);
  return advice;
}

interface FoundSkills {
  /** Selected by a trigger or a mention, the strongest first. */
  selected: readonly Match[];
  /** Found by words, the best first. */
  ranked: readonly Match[];
}

/** Finds the skills that may be offered: a skill that is disabled, unavailable or not trusted is treated as if it did not exist. */
function findSkills(prompt: string, catalog: Catalog, host: Host, files: readonly string[]): FoundSkills {
  const find = (): FoundSkills => {
    const offered = offeredCatalog(catalog, host);
    const { matches } = matcherOf(offered).match(prompt, {
      files,
      bodies: true,
      isVisible: (skill) =>
        isFor("model", skill) && isInReach(skill, prompt, files) && unavailability(skill, host) === undefined,
      isCallable: (skill) => isFor("user", skill) && firstDenial(skill, host)?.kind !== "access",
    });
    // Comparing a skill with what was trusted reads its files: only the few that would be given are compared.
    const isServed = ({ skill }: Match) => standingIn(host)(skill) === undefined;
    return {
      selected: matches.filter(isSelected).slice(0, MOST_COMPARED).filter(isServed),
      ranked: selectShortlist(matches, prompt, offered.skills.length).matches.filter(isServed),
    };
  };
  return host.trust ? host.trust.steadily(find) : find();
}

/** The catalog without text that waits for approval: by its words it would make those of other skills common, and take their places. */
function offeredCatalog(catalog: Catalog, host: Host): Catalog {
  const { trust } = host;
  if (!trust) return catalog;
  const narrowed = narrowCatalog(catalog, (skill) => trust.text.covers(skill) || isTrusted(skill, host) === undefined);
  if (narrowed.skills === catalog.skills) return catalog;
  const known = OFFERED.get(catalog);
  if (known && isEqualList(known.skills, narrowed.skills)) return known;
  OFFERED.set(catalog, narrowed);
  return narrowed;
}

const OFFERED = new WeakMap<Catalog, Catalog>();

function isEqualList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

const MOST_COMPARED = 20;

function standingIn(host: Host): ReturnType<typeof openStanding> {
  if (!host.trust) return () => undefined;
  const standing = STANDINGS.get(host.trust) ?? openStanding(host);
  STANDINGS.set(host.trust, standing);
  return standing;
}

const STANDINGS = new WeakMap<object, ReturnType<typeof openStanding>>();

interface Decision extends FoundSkills {
  prompt: string;
  received: ReadonlySet<string>;
  context: AdviseContext;
  host: Host;
}

interface Decided extends Advice {
  /** What the conversation receives with it. */
  digests: readonly string[];
}

function decide(decision: Decision): Decided {
  const { selected, ranked, context } = decision;
  const [first, second] = selected;
  if (!first) return shortlist(ranked, decision, ranked.map(reasonOf));
  // Skills that match equally well are for the model to choose from.
  const isClear = LEVELS.indexOf(first.level) < LEVELS.indexOf(second?.level ?? "words");
  if (!isClear) return shortlist(selected, decision, selected.map(reasonOf));
  if (context.isLoaded?.(first.skill)) return { ...nothing(`${first.skill.name} is loaded already`), digests: [] };
  const text = instructionsFor(first, decision);
  if ("problem" in text) return shortlist(selected, decision, [reasonOf(first), text.problem]);
  const { skill } = first;
  const digest = digestOf(skill, text.content);
  if (decision.received.has(digest))
    return { ...nothing(`the conversation has the instructions of ${skill.name}`), digests: [] };
  return {
    kind: "instructions",
    text: text.content,
    skills: [advised(first)],
    reasons: [reasonOf(first)],
    digests: [digest, digestOf(skill, lineOf(skill))], // Nor is it described from now on.
  };
}

/** Returns the text with the skill's instructions, or why a hook cannot give them. */
function instructionsFor(match: Match, { prompt, context, host }: Decision): { content: string } | { problem: string } {
  const { skill, reasons } = match;
  const { limit = ADVICE_LIMIT, gives = "instructions" } = context;
  if (gives === "shortlist") return { problem: "the client takes no instructions from a hook" };
  if (skill.manifest.context === "fork") return { problem: `${skill.name} runs on its own (context: fork)` };
  if (skill.origin.remote) return { problem: `${skill.name} is remote: it is fetched when a model loads it` };
  try {
    if (dynamicCommands(skill.body()).length > 0) return { problem: `${skill.name} has commands that loading it runs` };
    const given = argumentsIn(prompt, skill, reasons);
    const body = skillContent(skill, { arguments: given, folder: host.folderOf?.(skill), toolsets: "on-load" });
    const name = `${inLine(skill.name, 64)}${markOf(skill)}`;
    const heading = `The skill ${name} matches this request. Follow its instructions where they fit:`;
    const content = `${heading}\n${body}`;
    const length = lengthOf(content, context);
    return length <= limit ? { content } : { problem: `the instructions of ${skill.name} are longer than ${limit}` };
  } catch {
    return { problem: `the instructions of ${skill.name} cannot be read` };
  }
}

/** The descriptions that the conversation did not receive, within the limit; nothing when it received all. */
function shortlist(matches: readonly Match[], decision: Decision, reasons: readonly string[]): Decided {
  const { context, received } = decision;
  const { limit = ADVICE_LIMIT, loadWith = "call load_skill with its name" } = context;
  const isKnown = ({ skill }: Match) =>
    received.has(digestOf(skill, lineOf(skill))) || context.isLoaded?.(skill) === true;
  // A model cannot load what only people may call.
  const offered = matches.filter(({ skill }) => isFor("model", skill)).slice(0, MOST_LISTED);
  const known = offered.filter(isKnown);
  const heading = `Skills that may fit this request. Take one or none. To use one, ${loadWith}, then follow its instructions:`;
  const before =
    known.length === 0 ? [] : [`Described earlier: ${known.map(({ skill }) => inLine(skill.name, 64)).join(", ")}`];
  const textOf = (shown: readonly Match[]) =>
    [heading, ...shown.map(({ skill }) => lineOf(skill)), ...before].join("\n");
  const shown: Match[] = [];
  for (const match of offered) {
    if (!isKnown(match) && lengthOf(textOf([...shown, match]), context) <= limit) shown.push(match);
  }
  if (shown.length === 0) {
    const why = known.length > 0 ? "the conversation has the descriptions" : "no description can be given";
    return { ...nothing(...reasons, why), digests: [] };
  }
  return {
    kind: "shortlist",
    text: textOf(shown),
    skills: shown.map(advised),
    reasons,
    digests: shown.map(({ skill }) => digestOf(skill, lineOf(skill))),
  };
}

const NOTHING_RECEIVED: ReadonlySet<string> = new Set();

function nothing(...reasons: string[]): Advice {
  return { kind: "none", text: "", skills: [], reasons };
}

function advised({ skill, level }: Match): AdvisedSkill {
  return { name: skill.name, source: skill.origin.source, level };
}

function reasonOf({ skill, reasons }: Match): string {
  const why = reasons.slice(0, 3).map(({ kind, text }) => `${kind} "${text}"`);
  return `${skill.name}: ${why.join(", ")}`;
}

function lineOf(skill: Skill): string {
  return `${bullet(skill)}${markOf(skill)}`;
}

/** The mark of a skill that came with the workspace: its author is not the user. */
function markOf({ origin }: Skill): string {
  return origin.scope === "workspace" ? " (from this workspace)" : "";
}

function digestOf({ name, origin }: Skill, text: string): string {
  return shortHash(`${name}@${origin.source}\n${text}`);
}

function lengthOf(text: string, { counts }: AdviseContext): number {
  return counts === "bytes" ? Buffer.byteLength(text) : text.length;
}
