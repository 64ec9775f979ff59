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
import { readInstructions } from "../../skill/source/file-skill.ts";
import type { ToolResult } from "../../skill/tool.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findFirstDenial, findUnavailability, isToolDisabled } from "../policy/skill-policies.ts";
import type { ListingLimits, QueryOptions, SessionOptions } from "./session.ts";

/** The parts of a conversation that a disclosure depends on. */
export interface DisclosureContext {
  /** Names of skills, the one used last first. */
  recent: readonly string[];
  /** Names of skills, the most used first, when the conversation began. */
  usage: readonly string[];
  /** True if skills with `context: fork` can run in a sub-agent. */
  canFork: boolean;
  /** The context window of the conversation's model in tokens, if known. */
  contextWindow?: number | undefined;
}

/** Discloses the skills that are available on this host, according to its settings. Loads no code that runs skills. */
export async function discloseForHost(
  catalog: Catalog,
  host: Host,
  query: string,
  { context: { contextWindow, ...context }, options }: { context: DisclosureContext; options: QueryOptions },
): Promise<Disclosure> {
  const { settings, resolveFolder: folderOf } = host;
  const isForModel = (skill: Skill) => isInvocableBy("model", skill) && isSkillAvailable(skill, host);
  const visible = new Set(withSteadyTrust(host, () => catalog.skills.filter(isForModel)));
  return disclose(catalog, query, {
    toolsets: "on-load",
    ...settings.disclosure,
    ...omitUndefined({ listingBudget: getListingBudget(settings, contextWindow) }),
    ...options,
    ...(folderOf ? { folderOf } : {}),
    ...context,
    mode: getDisclosureMode(settings, context.canFork),
    isVisible: (skill) => visible.has(skill),
    isCallable: (skill) => isSkillVisible(skill, host),
    search: "search_skills",
  });
}

/** Lists the skills that a model may know, the same for every query, within the budget and at most `room` characters. Empty for no skills. */
export function formatHostListing(
  catalog: Catalog,
  host: Host,
  { usage, contextWindow, canFork, room, isOmitted = () => false }: Omit<DisclosureContext, "recent"> & ListingLimits,
): string {
  const { budget = DISCLOSURE_DEFAULTS.budget } = host.settings.disclosure;
  const listingBudget = getListingBudget(host.settings, contextWindow) ?? DISCLOSURE_DEFAULTS.listingBudget;
  const isListed = (skill: Skill) =>
    isInvocableBy("model", skill) && !isOmitted(skill) && isSkillAvailable(skill, host) && isOfferedByDefault(skill);
  const skills = withSteadyTrust(host, () => catalog.skills.filter(isListed));
  if (skills.length === 0) return "";
  const max = Math.min(room ?? Number.POSITIVE_INFINITY, Math.min(listingBudget, budget) * 4);
  const options = { room: max, usage, search: "search_skills" };
  if (getDisclosureMode(host.settings, canFork) === "adaptive") return fitListing(skills, options).text;
  return fitPromptSection(skills, { ...options, ...(host.resolveFolder ? { pathOf: host.resolveFolder } : {}) }).text;
}

/** Returns the mode in effect: the static list names `use_skill`, so it needs sub-agents. */
export function getDisclosureMode({ disclosure }: Pick<Settings, "disclosure">, canUse: boolean): DisclosureMode {
  return disclosure.mode === "static" && canUse ? "static" : "adaptive";
}

/** Lists the same skills as data, with those of other packages, within the budget and at most `room` bytes. */
export function listHostSkills(
  { skills, diagnostics }: Catalog,
  host: Host,
  {
    usage,
    room,
    isOmitted = () => false,
    note,
  }: ListingLimits & { usage: readonly string[]; note?: string | undefined },
): SkillList {
  const isListed = (skill: Skill) =>
    isInvocableBy("model", skill) && !isOmitted(skill) && isSkillAvailable(skill, host);
  const listed = withSteadyTrust(host, () => skills.filter(isListed));
  const options = { search: "search_skills", usage, ...omitUndefined({ limit: room, note }) };
  return listSkillEntries({ skills: listed, diagnostics }, host, options);
}

/** Returns the token budget of a list of skills: the configured one, or 1 % of the context window, or undefined if neither is known. */
export function getListingBudget(
  { disclosure }: Pick<Settings, "disclosure">,
  contextWindow: number | undefined,
): number | undefined {
  return disclosure.listingBudget ?? (contextWindow === undefined ? undefined : Math.floor(contextWindow / 100));
}

/** Returns true if a skill can be used here. Only such skills are offered. */
export function isSkillAvailable(skill: Skill, host: Host): boolean {
  return findUnavailability(skill, host) === undefined;
}

/** Returns true if a skill may be called by its name. */
export function isSkillVisible(skill: Skill, host: Host): boolean {
  return findFirstDenial(skill, host)?.kind !== "access";
}

/** Runs synchronous work that checks many skills: each lock file is read once. */
export function withSteadyTrust<T>(host: Host, work: () => T): T {
  return host.trust ? host.trust.withCache(work) : work();
}

/** Returns true if sub-agents are available: a host without models, model settings and an environment has none. */
export function canUseSkills(host: Host, { isReadOnly, allowsSubAgents: uses }: SessionOptions = {}): boolean {
  const { models, settings, env } = host;
  if (isReadOnly || uses === false || isToolDisabled("use_skill", host)) return false;
  return models !== undefined || settings.models.size > 0 || env !== undefined;
}

/** Returns the names of the most used skills. */
export async function listMostUsed({ statistics }: Host): Promise<readonly string[]> {
  return (await statistics?.mostUsed?.(MAX_RECENT_SKILLS)) ?? (await statistics?.recent(MAX_RECENT_SKILLS)) ?? [];
}

/** Length of a shortened description when not even all names fit, in characters. A description with a cue may be longer. */
const MAX_BRIEF_DESCRIPTION = 160;

/** A list of skills for a model. */
export interface SkillList extends JsonObject {
  skills: JsonObject[];
  /** The number of omitted skills. */
  more?: number;
  /** The tool that finds them. */
  find?: string;
  note?: string;
}

/** Creates the result of a list of skills. Its text is one JSON array; an entry without a name is a note or the number of omitted skills. */
export function createSkillListResult(list: SkillList): ToolResult {
  const { skills, note, ...rest } = list;
  const shown = skills.map(({ isTriggered: _, ...entry }) => entry); // Only programs need it.
  const entries = [
    ...shown,
    ...(Object.keys(rest).length > 0 ? [rest] : []),
    ...(note === undefined ? [] : [{ note }]),
  ];
  return { text: JSON.stringify(entries), data: list, isError: false };
}

interface SkillListOptions {
  /** The tool that finds skills. */
  search?: string;
  /** Maximum size in bytes of JSON, even if the budget allows more: some clients count bytes. */
  limit?: number;
  /** Names of skills, the most used first: they keep their descriptions longest. */
  usage?: readonly string[];
  /** An entry at the end. */
  note?: string | undefined;
}

/** Lists complete descriptions while they fit; then shortened ones with a note; then as many entries as fit, with the number of omitted ones. */
export function listSkillEntries(
  { skills, diagnostics }: Pick<Catalog, "skills" | "diagnostics">,
  { settings }: Pick<Host, "settings">,
  { search, limit = Number.POSITIVE_INFINITY, usage, note }: SkillListOptions = {},
): SkillList {
  const sizeOf = (value: unknown) => {
    const text = JSON.stringify(value);
    return limit === Number.POSITIVE_INFINITY ? text.length : Buffer.byteLength(text);
  };
  const max = Math.min((settings.disclosure.budget ?? DISCLOSURE_DEFAULTS.budget) * 4, limit);
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
  const withNote = (skills: JsonObject[], ...texts: (string | undefined)[]): SkillList => {
    const all = texts.filter((text) => text !== undefined);
    return { skills, ...(all.length === 0 ? {} : { note: all.join(". ") }) };
  };
  const notes = (...texts: (string | undefined)[]) => {
    const { note } = withNote([], ...texts);
    return note === undefined ? [] : [{ note }];
  };
  const whole = skills.map((skill) => ({
    ...entryOf(skill, describeSkill(skill)),
    ...(skill.manifest.version ? { version: sanitizeLine(skill.manifest.version, 64) } : {}),
    tags: skill.manifest.tags.slice(0, 20).map((tag) => sanitizeLine(tag, 64)),
  }));
  if (sizeOf([...whole, ...notes(note)]) <= max) return withNote(whole, note);
  const all = { shortened: skills.length, named: skills.length };
  const names = skills.map((skill) => entryOf(skill, ""));
  const room = max - sizeOf([...names, ...notes(formatCutNote(skills.length, all, search), note)]);
  if (room >= 0) {
    const { descriptions, ...cut } = fitDescriptions(skills, { room, usage, cost: (text) => sizeOf(text) - 2 });
    const fitted = skills.map((skill, index) => entryOf(skill, descriptions[index] ?? ""));
    const isCut = cut.shortened + cut.named > 0;
    return withNote(fitted, isCut ? formatCutNote(skills.length, cut, search) : undefined, note);
  }
  const brief = skills.map((skill) => entryOf(skill, describeSkillWithin(skill, MAX_BRIEF_DESCRIPTION)));
  let used = 64 + sizeOf(notes(note));
  const number = brief.findIndex((entry) => {
    used += sizeOf(entry) + 1;
    return used > max;
  });
  const rest = { more: brief.length - number, ...(search === undefined ? {} : { find: search }) };
  return number === -1 ? withNote(brief, note) : { ...withNote(brief.slice(0, number), note), ...rest };
}

/** The recently used skills of all conversations. */
export interface RecentSkills {
  /** The most recently used skill comes first. */
  names(): Promise<readonly string[]>;
  note(name: string): void;
}

/** Creates the list of recent skills. `first` are those that this conversation has used. */
export function createRecentSkills(first: readonly string[], { statistics }: Host): RecentSkills {
  let noted = [...first];
  // Read on first use: many sessions, such as those for a single request, never need it, and the statistics are a database.
  let stored: Promise<readonly string[]> | undefined;
  return {
    async names() {
      stored ??= statistics?.recent(MAX_RECENT_SKILLS);
      return [...new Set([...noted, ...((await stored) ?? [])])].slice(0, MAX_RECENT_SKILLS);
    },
    note(name) {
      noted = [name, ...noted.filter((other) => other !== name)].slice(0, MAX_RECENT_SKILLS);
    },
  };
}

/** The number of recent skills that are remembered. */
export const MAX_RECENT_SKILLS = 100;

/** A catalog shared by many conversations. If a reload finds no change, it stays the same object. */
interface SharedCatalog {
  /** Rate-limits `reload`, also on derived catalogs, if reading is slow: any client may call it. */
  readonly catalog: Catalog;
  /** Reads the sources again without rate limit. A read in progress may have missed a change, so a new one starts. */
  reloadNow(): Promise<Catalog>;
}

export function createSharedCatalog(first: Catalog, now = () => performance.now()): SharedCatalog {
  let reading: Promise<Catalog> | undefined;
  /** The read that starts when the current one ends. */
  let next: Promise<Catalog> | undefined;
  let last: Promise<Catalog> | undefined;
  let restsUntil = 0;
  const readSource = async (): Promise<Catalog> => {
    const read = await source.reload();
    if (!isSameCatalog(source, read)) {
      source = read;
      latest = share(read);
    }
    return latest;
  };
  const read = (): Promise<Catalog> => {
    const from = now();
    next = undefined;
    reading = readSource().finally(() => {
      const to = now();
      restsUntil = to + getRestMs(to - from);
      reading = undefined;
    });
    last = reading;
    return reading;
  };
  const resting = () => (now() < restsUntil ? last : undefined);
  const reload = () => reading ?? next ?? resting() ?? read();
  const renew = () => {
    if (reading) next ??= reading.then(read, read);
    return next ?? read();
  };
  const share = (catalog: Catalog): Catalog => ({ ...catalog, reload });
  let source = first;
  let latest = share(first);
  return { catalog: latest, reloadNow: renew };
}

/** Returns the pause after a read: at most a tenth of the time is spent reading, but a new skill appears within seconds. */
function getRestMs(took: number): number {
  return took <= QUICK_READ_MS ? 0 : Math.min(took * 9, MAX_REST_MS);
}

const QUICK_READ_MS = 20;
const MAX_REST_MS = 2000;

/** Returns true if two catalogs have the same skills and findings, and the files listed from the first are unchanged. */
export function isSameCatalog(a: Catalog, b: Catalog): boolean {
  if (a.skills.length !== b.skills.length || a.shadowed.length !== b.shadowed.length) return false;
  if (JSON.stringify(a.diagnostics) !== JSON.stringify(b.diagnostics)) return false;
  return a.skills.every((skill, index) => {
    const other = b.skills[index];
    if (skill.hasOtherFiles?.()) return false;
    if (!other || skill.name !== other.name || skill.origin.file !== other.origin.file) return false;
    if (skill.origin.folderId !== other.origin.folderId) return false;
    if (skill.origin.remote?.digest !== other.origin.remote?.digest) return false;
    if (skill.origin.remote?.uri !== other.origin.remote?.uri) return false;
    if (skill.origin.fileId !== other.origin.fileId && !canReadSkill(skill)) return false;
    return JSON.stringify(skill.manifest.data) === JSON.stringify(other.manifest.data);
  });
}

/** Returns true if its file can still be read: a link to a changed file cannot. */
function canReadSkill(skill: Skill): boolean {
  try {
    readInstructions(skill);
    return true;
  } catch {
    return false;
  }
}
