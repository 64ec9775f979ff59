import {
  type Catalog,
  DISCLOSURE_DEFAULTS,
  type DisclosureMode,
  findReplacedCopy,
  formatReplacedNote,
} from "../../catalog/catalog.ts";
import { describeSkill, describeSkillWithin } from "../../catalog/describe-skill.ts";
import { type Disclosure, disclose } from "../../catalog/disclose.ts";
import {
  fitDescriptions,
  fitListing,
  fitPromptSection,
  formatCutNote,
  isOfferedByDefault,
} from "../../catalog/listing.ts";
import type { Host } from "../../config/host.ts";
import type { Settings } from "../../config/settings.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findFirstDenial, findUnavailability, isToolDisabled } from "../policy/skill-policies.ts";
import type { ListingLimits, QueryOptions, SessionOptions } from "./session.ts";

/** The parts of a conversation that a disclosure depends on. */
interface DisclosureContext {
  /** Names of skills, the one used last first. */
  recent: readonly string[];
  /** Names of skills, the most used first, when the conversation began. */
  usage: readonly string[];
  /** Whether skills with `context: fork` can run in a sub-agent. */
  canFork: boolean;
  /** How many tokens the model of the conversation can read at once, if that is known. */
  contextWindow?: number | undefined;
}

/** Discloses what is available on this host, by its settings. It loads nothing that runs a skill. */
export function discloseForHost(
  catalog: Catalog,
  host: Host,
  query: string,
  { context: { contextWindow, ...context }, options }: { context: DisclosureContext; options: QueryOptions },
): Disclosure {
  const { settings, folderOf } = host;
  return withSteadyTrust(host, () =>
    disclose(catalog, query, {
      toolsets: "on-load",
      ...settings.disclosure,
      ...omitUndefined({ listingBudget: getListingBudget(settings, contextWindow) }),
      ...options,
      ...(folderOf ? { folderOf } : {}),
      ...context,
      mode: getDisclosureMode(settings, context.canFork),
      isVisible: (skill) => isSkillAvailable(skill, host),
      isCallable: (skill) => isSkillVisible(skill, host),
      search: "search_skills",
    }),
  );
}

/** Lists what a model may know of here, the same for every query, within the budget and at most `room` characters. Empty for no skills. */
export function formatHostListing(
  catalog: Catalog,
  host: Host,
  { usage, contextWindow, canFork, room, isLeftOut = () => false }: Omit<DisclosureContext, "recent"> & ListingLimits,
): string {
  const { budget = DISCLOSURE_DEFAULTS.budget } = host.settings.disclosure;
  const listingBudget = getListingBudget(host.settings, contextWindow) ?? DISCLOSURE_DEFAULTS.listingBudget;
  const isListed = (skill: Skill) =>
    isInvocableBy("model", skill) && !isLeftOut(skill) && isSkillAvailable(skill, host) && isOfferedByDefault(skill);
  const skills = withSteadyTrust(host, () => catalog.skills.filter(isListed));
  if (skills.length === 0) return "";
  const most = Math.min(room ?? Number.POSITIVE_INFINITY, Math.min(listingBudget, budget) * 4);
  const options = { room: most, usage, search: "search_skills" };
  if (getDisclosureMode(host.settings, canFork) === "adaptive") return fitListing(skills, options).text;
  return fitPromptSection(skills, { ...options, ...(host.folderOf ? { pathOf: host.folderOf } : {}) }).text;
}

/** Returns the mode in effect: the static list names `use_skill`, so it needs sub-agents. */
export function getDisclosureMode({ disclosure }: Pick<Settings, "disclosure">, canUse: boolean): DisclosureMode {
  return disclosure.mode === "static" && canUse ? "static" : "adaptive";
}

/** Lists the same as JSON, with skills of other packages, within the budget and at most `room` bytes. */
export function formatListingJson(
  { skills, diagnostics }: Catalog,
  host: Host,
  {
    usage,
    room,
    isLeftOut = () => false,
    note,
  }: ListingLimits & { usage: readonly string[]; note?: string | undefined },
): string {
  const isListed = (skill: Skill) =>
    isInvocableBy("model", skill) && !isLeftOut(skill) && isSkillAvailable(skill, host);
  const listed = withSteadyTrust(host, () => skills.filter(isListed));
  const options = { search: "search_skills", usage, ...omitUndefined({ limit: room, note }) };
  return JSON.stringify(listSkillEntries({ skills: listed, diagnostics }, host, options));
}

/** Returns how many tokens a list of skills may take: what is configured, or 1 % of the context window, or undefined if neither is known. */
export function getListingBudget(
  { disclosure }: Pick<Settings, "disclosure">,
  contextWindow: number | undefined,
): number | undefined {
  return disclosure.listingBudget ?? (contextWindow === undefined ? undefined : Math.floor(contextWindow / 100));
}

/** Returns whether a skill is offered: one that cannot be used here is not. */
export function isSkillAvailable(skill: Skill, host: Host): boolean {
  return findUnavailability(skill, host) === undefined;
}

/** Returns whether a skill may be called by its name. */
export function isSkillVisible(skill: Skill, host: Host): boolean {
  return findFirstDenial(skill, host)?.kind !== "access";
}

/** Does work that asks about many skills at once and waits for nothing: it looks at each lock file once. */
export function withSteadyTrust<T>(host: Host, work: () => T): T {
  return host.trust ? host.trust.steadily(work) : work();
}

/** Returns whether sub-agents are available: a host without models, settings for them and an environment has none. */
export function canUseSkills(host: Host, { isReadOnly, uses }: SessionOptions = {}): boolean {
  const { models, settings, env } = host;
  if (isReadOnly || uses === false || isToolDisabled("use_skill", host)) return false;
  return models !== undefined || settings.models.size > 0 || env !== undefined;
}

/** Returns the names of the most used skills. */
export function listMostUsed({ statistics }: Host): readonly string[] {
  return statistics?.mostUsed?.(MAX_RECENT_SKILLS) ?? statistics?.recent(MAX_RECENT_SKILLS) ?? [];
}

/** How long a shortened description is where not even all names fit, in characters, where its cue allows it. */
const MAX_BRIEF_DESCRIPTION = 160;

interface SkillListOptions {
  /** The tool that finds skills. */
  search?: string;
  /** At most so many bytes of JSON, also where the budget allows more: some clients count bytes. */
  limit?: number;
  /** Names of skills, the most used first: they keep their descriptions longest. */
  usage?: readonly string[];
  /** An entry at the end. */
  note?: string | undefined;
}

/** Entries with whole descriptions while they fit; then with shortened ones, and a statement of how many; then as many as fit, and how many more there are. */
export function listSkillEntries(
  { skills, diagnostics }: Pick<Catalog, "skills" | "diagnostics">,
  { settings }: Pick<Host, "settings">,
  { search, limit = Number.POSITIVE_INFINITY, usage, note }: SkillListOptions = {},
): unknown[] {
  const sizeOf = (value: unknown) => {
    const text = JSON.stringify(value);
    return limit === Number.POSITIVE_INFINITY ? text.length : Buffer.byteLength(text);
  };
  const most = Math.min((settings.disclosure.budget ?? DISCLOSURE_DEFAULTS.budget) * 4, limit);
  const broken = diagnostics.filter(({ code }) => code === "nearer-copy-broken");
  const noteOn = ({ name }: Skill) => {
    const replaced = broken.length === 0 ? undefined : findReplacedCopy({ diagnostics: broken }, name);
    return replaced ? { note: formatReplacedNote(replaced) } : {};
  };
  const entryOf = (skill: Skill, description: string) => ({
    name: sanitizeLine(skill.name, 64),
    description,
    ...noteOn(skill),
  });
  const notes = (...texts: (string | undefined)[]) => {
    const all = texts.filter((text) => text !== undefined);
    return all.length === 0 ? [] : [{ note: all.join(". ") }];
  };
  const whole = skills.map((skill) => ({
    ...entryOf(skill, describeSkill(skill)),
    version: skill.manifest.version && sanitizeLine(skill.manifest.version, 64),
    tags: skill.manifest.tags.slice(0, 20).map((tag) => sanitizeLine(tag, 64)),
  }));
  if (sizeOf([...whole, ...notes(note)]) <= most) return [...whole, ...notes(note)];
  const all = { shortened: skills.length, named: skills.length };
  const names = skills.map((skill) => entryOf(skill, ""));
  const room = most - sizeOf([...names, ...notes(formatCutNote(skills.length, all, search), note)]);
  if (room >= 0) {
    const { descriptions, ...cut } = fitDescriptions(skills, { room, usage, cost: (text) => sizeOf(text) - 2 });
    const fitted = skills.map((skill, index) => entryOf(skill, descriptions[index] ?? ""));
    const isCut = cut.shortened + cut.named > 0;
    return [...fitted, ...notes(isCut ? formatCutNote(skills.length, cut, search) : undefined, note)];
  }
  const brief = skills.map((skill) => entryOf(skill, describeSkillWithin(skill, MAX_BRIEF_DESCRIPTION)));
  let used = 64 + sizeOf(notes(note));
  const number = brief.findIndex((entry) => {
    used += sizeOf(entry) + 1;
    return used > most;
  });
  const rest = { more: brief.length - number, ...(search === undefined ? {} : { find: search }) };
  return number === -1 ? [...brief, ...notes(note)] : [...brief.slice(0, number), rest, ...notes(note)];
}

/** The skills that were used last, of all conversations. */
export interface RecentSkills {
  /** The one used last first. */
  names(): readonly string[];
  note(name: string): void;
}

/** `first`: what this conversation has used already. */
export function createRecentSkills(first: readonly string[], { statistics }: Host): RecentSkills {
  let known: string[] | undefined;
  // Read when first asked for: many a session, one for a single request above all, never asks, and the statistics are a database.
  const names = () => {
    known ??= [...new Set([...first, ...(statistics?.recent(MAX_RECENT_SKILLS) ?? [])])];
    return known;
  };
  return {
    names,
    note(name) {
      known = [name, ...names().filter((other) => other !== name)].slice(0, MAX_RECENT_SKILLS);
    },
  };
}

/** How many of them are known. */
export const MAX_RECENT_SKILLS = 100;
