import { join } from "node:path";
import { type Catalog, filterCatalog } from "../../catalog/catalog.ts";
import { formatBullet, isListIntent, isOfferedByDefault } from "../../catalog/listing.ts";
import {
  getMatcher,
  isSelectedMatch,
  MATCH_LEVELS,
  type Match,
  type MatchLevel,
  selectShortlist,
} from "../../catalog/search/matcher.ts";
import { findDynamicCommands, formatSkillContent, parseInvocationArguments } from "../../catalog/skill-content.ts";
import { type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import { formatProblem } from "../../errors/problem.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { readCacheFile, writeCacheFile } from "../../store/json-store.ts";
import { filterAsync } from "../../util/async.ts";
import { shortHash } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findFirstDenial, findUnavailability } from "../policy/skill-policies.ts";
import { createTextTrust, trustPolicy } from "../policy/trust-policy.ts";
import { canUseSkills, getDisclosureMode, withSteadyTrust } from "./session-disclosure.ts";

/** The maximum length of an advice, in characters. Claude Code and Cursor accept 10,000 from a hook, including the text that they add. */
export const ADVICE_LIMIT = 9500;
const MAX_ADVISED_SKILLS = 5;

export interface AdviseContext {
  catalog: Catalog;
  /** Its policies and trust decide which skills are considered. Defaults to no settings, where all skills are trusted. */
  host?: HostOptions;
  /** The conversation's id. Texts that it received before, according to the memory, are not repeated. */
  conversation?: string;
  /** Defaults to none: each call is then the first one. */
  memory?: AdviceMemory;
  /** The longest text. Defaults to 9,500. */
  limit?: number;
  /** The unit of the limit. Defaults to characters. */
  counts?: "characters" | "bytes";
  /** The most that an advice contains: one skill's instructions, or only a shortlist. Defaults to instructions. */
  gives?: "instructions" | "shortlist";
  /** Tells a model how to load a skill of a shortlist, as the end of a sentence. Defaults to the `load_skill` tool. */
  loadWith?: string;
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** True when the client has just summarized the conversation: texts that it received are sent again when needed. Defaults to false. */
  isSummarized?: boolean;
  /** Returns true when the skill's current instructions are in the conversation. */
  isLoaded?: (skill: Skill) => Promise<boolean>;
}

/** A skill in an advice. */
export interface AdvisedSkill {
  name: string;
  source: string;
  level: MatchLevel;
}

/** The text to add to a prompt before a model sees it. */
export interface Advice {
  kind: "none" | "shortlist" | "instructions";
  /** For the model. Empty when the kind is `none`. */
  text: string;
  /** The skills that the text describes, or the one whose instructions it has. */
  skills: readonly AdvisedSkill[];
  /** The reasons for the advice, as sentences for users. They may quote a skill's triggers. */
  reasons: readonly string[];
}

/**
 * Decides what to tell a model about skills for one prompt: nothing, up to five descriptions, or the instructions of the one skill that
 * a trigger or a mention selects. Keywords alone never select instructions.
 */
export async function advise(prompt: string, context: AdviseContext): Promise<Advice> {
  const { catalog, conversation, memory } = context;
  const { host, problem } = tryCompleteHost(context.host);
  if (problem) return createNoAdvice(formatProblem(problem));
  if (context.isSummarized && conversation !== undefined) await memory?.forget(conversation);
  if (getDisclosureMode(host.settings, canUseSkills(host)) === "static")
    return createNoAdvice("the disclosure mode is static: all skills are in the list of skills");
  if (prompt.trim() === "") return createNoAdvice("the prompt is empty");
  const { selected, ranked } = await findSkills(prompt, catalog, host, context.files ?? []);
  if (isListIntent(prompt, host.settings.disclosure.listIntents) && selected[0]?.level !== "explicit")
    return createNoAdvice("the prompt asks for a list of skills: list_skills answers it");
  if (selected.length + ranked.length === 0) return createNoAdvice("no skill fits the prompt well enough");
  const received = (conversation !== undefined && (await memory?.received(conversation))) || NOTHING_RECEIVED;
  const { digests, ...advice } = await decideAdvice({ prompt, selected, ranked, received, context, host });
  if (conversation !== undefined && digests.length > 0) await memory?.add(conversation, digests);
  return advice;
}

interface FoundSkills {
  /** Selected by a trigger or a mention, the strongest first. */
  selected: readonly Match[];
  /** Found by keywords, the best first. */
  ranked: readonly Match[];
}

/** Finds the skills that may be offered: a skill that is disabled, unavailable or not trusted is treated as if it did not exist. */
async function findSkills(
  prompt: string,
  catalog: Catalog,
  host: Host,
  files: readonly string[],
): Promise<FoundSkills> {
  const isVisible = (skill: Skill) =>
    isInvocableBy("model", skill) &&
    isOfferedByDefault(skill, prompt, files) &&
    findUnavailability(skill, host) === undefined;
  const { offered, visible } = withSteadyTrust(host, () => {
    const offered = filterOfferedCatalog(catalog, host);
    return { offered, visible: new Set(offered.skills.filter(isVisible)) };
  });
  const { matches } = await getMatcher(offered).match(prompt, {
    files,
    bodies: true,
    isVisible: (skill) => visible.has(skill),
    isCallable: (skill) => isInvocableBy("user", skill) && findFirstDenial(skill, host)?.kind !== "access",
  });
  // Comparing a skill with its trusted version reads its files, so only the few candidates are compared.
  const isServed = ({ skill }: Match) => getTextTrust(host)(skill) === undefined;
  return withSteadyTrust(host, () => ({
    selected: matches.filter(isSelectedMatch).slice(0, MAX_COMPARED_SKILLS).filter(isServed),
    ranked: selectShortlist(matches, prompt, offered.skills.length).matches.filter(isServed),
  }));
}

/** Returns the catalog without text that waits for approval: its words would change the ranking of other skills. */
function filterOfferedCatalog(catalog: Catalog, host: Host): Catalog {
  const { trust } = host;
  if (!trust) return catalog;
  const narrowed = filterCatalog(
    catalog,
    (skill) => trust.text.covers(skill) || trustPolicy(skill, host) === undefined,
  );
  if (narrowed.skills === catalog.skills) return catalog;
  const known = OFFERED_CATALOGS.get(catalog);
  if (known && isEqualList(known.skills, narrowed.skills)) return known;
  OFFERED_CATALOGS.set(catalog, narrowed);
  return narrowed;
}

const OFFERED_CATALOGS = new WeakMap<Catalog, Catalog>();

function isEqualList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

const MAX_COMPARED_SKILLS = 20;

function getTextTrust(host: Host): ReturnType<typeof createTextTrust> {
  if (!host.trust) return () => undefined;
  const textTrust = TEXT_TRUST_CHECKS.get(host.trust) ?? createTextTrust(host);
  TEXT_TRUST_CHECKS.set(host.trust, textTrust);
  return textTrust;
}

const TEXT_TRUST_CHECKS = new WeakMap<object, ReturnType<typeof createTextTrust>>();

interface AdviceContext extends FoundSkills {
  prompt: string;
  received: ReadonlySet<string>;
  context: AdviseContext;
  host: Host;
}

interface AdviceDecision extends Advice {
  /** Digests of the texts that the conversation receives. */
  digests: readonly string[];
}

async function decideAdvice(decision: AdviceContext): Promise<AdviceDecision> {
  const { selected, ranked, context } = decision;
  const [first, second] = selected;
  if (!first) return await createShortlistAdvice(ranked, decision, ranked.map(formatMatchReason));
  // If skills match equally well, the model chooses.
  const isClear = MATCH_LEVELS.indexOf(first.level) < MATCH_LEVELS.indexOf(second?.level ?? "words");
  if (!isClear) return await createShortlistAdvice(selected, decision, selected.map(formatMatchReason));
  if (await context.isLoaded?.(first.skill))
    return { ...createNoAdvice(`${first.skill.name} is loaded already`), digests: [] };
  const text = await formatAdvisedInstructions(first, decision);
  if ("problem" in text)
    return await createShortlistAdvice(selected, decision, [formatMatchReason(first), text.problem]);
  const { skill } = first;
  const digest = digestAdvice(skill, text.content);
  if (decision.received.has(digest))
    return { ...createNoAdvice(`the conversation already has the instructions of ${skill.name}`), digests: [] };
  return {
    kind: "instructions",
    text: text.content,
    skills: [toAdvisedSkill(first)],
    reasons: [formatMatchReason(first)],
    digests: [digest, digestAdvice(skill, formatSkillLine(skill))], // The description is not sent later either.
  };
}

/** Returns the text with the skill's instructions, or the reason why a hook cannot send them. */
async function formatAdvisedInstructions(
  match: Match,
  { prompt, context, host }: AdviceContext,
): Promise<{ content: string } | { problem: string }> {
  const { skill, reasons } = match;
  const { limit = ADVICE_LIMIT, gives = "instructions" } = context;
  if (gives === "shortlist") return { problem: "the client does not accept instructions from a hook" };
  if (skill.manifest.context === "fork") return { problem: `${skill.name} runs in a sub-agent (context: fork)` };
  if (skill.origin.remote)
    return { problem: `${skill.name} is remote: its instructions are fetched when a model loads it` };
  try {
    if (findDynamicCommands(await skill.body()).length > 0)
      return { problem: `${skill.name} has commands that run when it is loaded` };
    const values = parseInvocationArguments(prompt, skill, reasons);
    const body = await formatSkillContent(skill, {
      arguments: values,
      folder: host.resolveFolder?.(skill),
      toolsets: "on-load",
    });
    const name = `${sanitizeLine(skill.name, 64)}${formatOriginMark(skill)}`;
    const heading = `The skill ${name} matches this request. Follow its instructions where they fit:`;
    const content = `${heading}\n${body}`;
    const length = measureText(content, context);
    return length <= limit ? { content } : { problem: `the instructions of ${skill.name} are longer than ${limit}` };
  } catch {
    return { problem: `the instructions of ${skill.name} cannot be read` };
  }
}

/** Creates an advice with the descriptions that the conversation has not received, within the limit; no advice if it received all. */
async function createShortlistAdvice(
  matches: readonly Match[],
  decision: AdviceContext,
  reasons: readonly string[],
): Promise<AdviceDecision> {
  const { context, received } = decision;
  const { limit = ADVICE_LIMIT, loadWith = "call load_skill with its name" } = context;
  const isKnown = async ({ skill }: Match) =>
    received.has(digestAdvice(skill, formatSkillLine(skill))) || (await context.isLoaded?.(skill)) === true;
  // A model cannot load a skill that only users may invoke.
  const offered = matches.filter(({ skill }) => isInvocableBy("model", skill)).slice(0, MAX_ADVISED_SKILLS);
  const known = await filterAsync(offered, isKnown);
  const heading = `Skills that may fit this request. Take one or none. To use one, ${loadWith}, then follow its instructions:`;
  const before =
    known.length === 0
      ? []
      : [`Described earlier: ${known.map(({ skill }) => sanitizeLine(skill.name, 64)).join(", ")}`];
  const textOf = (shown: readonly Match[]) =>
    [heading, ...shown.map(({ skill }) => formatSkillLine(skill)), ...before].join("\n");
  const shown: Match[] = [];
  for (const match of offered) {
    if (!known.includes(match) && measureText(textOf([...shown, match]), context) <= limit) shown.push(match);
  }
  if (shown.length === 0) {
    const why = known.length > 0 ? "the conversation already has the descriptions" : "no description fits the limit";
    return { ...createNoAdvice(...reasons, why), digests: [] };
  }
  return {
    kind: "shortlist",
    text: textOf(shown),
    skills: shown.map(toAdvisedSkill),
    reasons,
    digests: shown.map(({ skill }) => digestAdvice(skill, formatSkillLine(skill))),
  };
}

const NOTHING_RECEIVED: ReadonlySet<string> = new Set();

function createNoAdvice(...reasons: string[]): Advice {
  return { kind: "none", text: "", skills: [], reasons };
}

function toAdvisedSkill({ skill, level }: Match): AdvisedSkill {
  return { name: skill.name, source: skill.origin.source, level };
}

function formatMatchReason({ skill, reasons }: Match): string {
  const why = reasons.slice(0, 3).map(({ kind, text }) => `${kind} "${text}"`);
  return `${skill.name}: ${why.join(", ")}`;
}

function formatSkillLine(skill: Skill): string {
  return `${formatBullet(skill)}${formatOriginMark(skill)}`;
}

/** Marks a skill that comes with the workspace: its author may not be the user. */
function formatOriginMark({ origin }: Skill): string {
  return origin.scope === "workspace" ? " (from this workspace)" : "";
}

function digestAdvice({ name, origin }: Skill, text: string): string {
  return shortHash(`${name}@${origin.source}\n${text}`);
}

function measureText(text: string, { counts }: AdviseContext): number {
  return counts === "bytes" ? Buffer.byteLength(text) : text.length;
}

/** Remembers which texts conversations received, by digest. Never stores a prompt or the text of a skill. */
export interface AdviceMemory {
  received(conversation: string): Promise<ReadonlySet<string>>;
  add(conversation: string, digests: readonly string[]): Promise<void>;
  /** Forgets a conversation that was summarized or cleared: the texts that it received may no longer be in it. */
  forget(conversation: string): Promise<void>;
}

/** A conversation without advice for longer than this is forgotten: its client has probably summarized it since. */
const MAX_MEMORY_MS = 24 * 60 * 60 * 1000;
const MAX_CONVERSATIONS = 256;
/** The number of digests stored for a conversation, the latest ones. */
const MAX_DIGESTS = 256;

/** Creates a memory in this process. */
export function createAdviceMemory(now = () => Date.now()): AdviceMemory {
  const known = new Map<string, { at: number; digests: readonly string[] }>();
  const digestsOf = (conversation: string) => {
    const entry = known.get(conversation);
    return entry && entry.at > now() - MAX_MEMORY_MS ? entry.digests : [];
  };
  return {
    received: async (conversation) => new Set(digestsOf(conversation)),
    async add(conversation, digests) {
      const all = keepLatest([...digestsOf(conversation), ...digests]);
      known.delete(conversation);
      known.set(conversation, { at: now(), digests: all });
      for (const oldest of known.keys()) if (known.size > MAX_CONVERSATIONS) known.delete(oldest);
    },
    async forget(conversation) {
      known.delete(conversation);
    },
  };
}

const ADVICE_FILE_BOUNDS = {
  ending: ".advice",
  mostBytes: 64 * 1024,
  mostFiles: MAX_CONVERSATIONS,
  longestMs: MAX_MEMORY_MS,
};

/** Creates a memory in small files of this folder, one for each conversation, for hooks that run as separate processes. A lost file only means that a text is sent again. */
export function createFileAdviceMemory(folder: string): AdviceMemory {
  const fileOf = (conversation: string) => join(folder, `${shortHash(conversation)}${ADVICE_FILE_BOUNDS.ending}`);
  const digestsOf = (conversation: string) => {
    const bytes = readCacheFile(fileOf(conversation), ADVICE_FILE_BOUNDS);
    return bytes ? Buffer.from(bytes).toString("utf8").split("\n").filter(Boolean) : [];
  };
  return {
    received: async (conversation) => new Set(digestsOf(conversation)),
    async add(conversation, digests) {
      const lines = keepLatest([...digestsOf(conversation), ...digests]).join("\n");
      writeCacheFile(folder, fileOf(conversation), Buffer.from(`${lines}\n`), ADVICE_FILE_BOUNDS);
    },
    async forget(conversation) {
      writeCacheFile(folder, fileOf(conversation), Buffer.from(""), ADVICE_FILE_BOUNDS);
    },
  };
}

function keepLatest(digests: readonly string[]): readonly string[] {
  return [...new Set(digests)].slice(-MAX_DIGESTS);
}
