import { listWithin } from "../catalog/budget.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { DEFAULTS, type DisclosureMode } from "../catalog/defaults.ts";
import { type Disclosure, disclose } from "../catalog/disclose.ts";
import { sectionWithin } from "../catalog/listing.ts";
import { isInReach } from "../catalog/reach.ts";
import type { Host } from "../host/host.ts";
import type { Settings } from "../host/settings.ts";
import { firstDenial, unavailability } from "../policy/policy.ts";
import { isDisabled } from "../policy/tools.ts";
import { listedSkills } from "../run/skill-list.ts";
import { defined } from "../shared/defined.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { MOST_RECENT } from "./recent.ts";
import type { ListingRoom, SessionOptions, TellOptions } from "./session.ts";

/** The parts of a conversation that a disclosure depends on. */
export interface DisclosureContext {
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
export function discloseFor(
  catalog: Catalog,
  host: Host,
  query: string,
  { context: { contextWindow, ...context }, options }: { context: DisclosureContext; options: TellOptions },
): Disclosure {
  const { settings, folderOf } = host;
  return steadily(host, () =>
    disclose(catalog, query, {
      toolsets: "on-load",
      ...settings.disclosure,
      ...defined({ listingBudget: listingBudgetFor(settings, contextWindow) }),
      ...options,
      ...(folderOf ? { folderOf } : {}),
      ...context,
      mode: modeFor(settings, context.canFork),
      isVisible: (skill) => isAvailable(skill, host),
      isCallable: (skill) => isVisible(skill, host),
      search: "search_skills",
    }),
  );
}

/** Lists what a model may know of here, the same for every query, within the budget and at most `room` characters. Empty for no skills. */
export function listFor(
  catalog: Catalog,
  host: Host,
  { usage, contextWindow, canFork, room, isLeftOut = () => false }: Omit<DisclosureContext, "recent"> & ListingRoom,
): string {
  const { budget = DEFAULTS.budget } = host.settings.disclosure;
  const listingBudget = listingBudgetFor(host.settings, contextWindow) ?? DEFAULTS.listingBudget;
  const isListed = (skill: Skill) =>
    isFor("model", skill) && !isLeftOut(skill) && isAvailable(skill, host) && isInReach(skill);
  const skills = steadily(host, () => catalog.skills.filter(isListed));
  if (skills.length === 0) return "";
  const most = Math.min(room ?? Number.POSITIVE_INFINITY, Math.min(listingBudget, budget) * 4);
  const options = { room: most, usage, search: "search_skills" };
  if (modeFor(host.settings, canFork) === "adaptive") return listWithin(skills, options).text;
  return sectionWithin(skills, { ...options, ...(host.folderOf ? { pathOf: host.folderOf } : {}) }).text;
}

/** Returns the mode in effect: the static list names `use_skill`, so it needs sub-agents. */
export function modeFor({ disclosure }: Pick<Settings, "disclosure">, canUse: boolean): DisclosureMode {
  return disclosure.mode === "static" && canUse ? "static" : "adaptive";
}

/** Lists the same as JSON, with skills of other packages, within the budget and at most `room` bytes. */
export function listJson(
  { skills, diagnostics }: Catalog,
  host: Host,
  { usage, room, isLeftOut = () => false, note }: ListingRoom & { usage: readonly string[]; note?: string | undefined },
): string {
  const isListed = (skill: Skill) => isFor("model", skill) && !isLeftOut(skill) && isAvailable(skill, host);
  const listed = steadily(host, () => skills.filter(isListed));
  const options = { search: "search_skills", usage, ...defined({ limit: room, note }) };
  return JSON.stringify(listedSkills({ skills: listed, diagnostics }, host, options));
}

/** Returns how many tokens a list of skills may take: what is configured, or 1 % of the context window, or undefined if neither is known. */
export function listingBudgetFor(
  { disclosure }: Pick<Settings, "disclosure">,
  contextWindow: number | undefined,
): number | undefined {
  return disclosure.listingBudget ?? (contextWindow === undefined ? undefined : Math.floor(contextWindow / 100));
}

/** Returns whether a skill is offered: one that cannot be used here is not. */
export function isAvailable(skill: Skill, host: Host): boolean {
  return unavailability(skill, host) === undefined;
}

/** Returns whether a skill may be called by its name. */
export function isVisible(skill: Skill, host: Host): boolean {
  return firstDenial(skill, host)?.kind !== "access";
}

/** Does work that asks about many skills at once and waits for nothing: it looks at each lock file once. */
export function steadily<T>(host: Host, work: () => T): T {
  return host.trust ? host.trust.steadily(work) : work();
}

/** Returns whether sub-agents are available: a host without models, settings for them and an environment has none. */
export function canUseSkills(host: Host, { isReadOnly, uses }: SessionOptions = {}): boolean {
  const { models, settings, env } = host;
  if (isReadOnly || uses === false || isDisabled("use_skill", host)) return false;
  return models !== undefined || settings.models.size > 0 || env !== undefined;
}

/** Returns the names of the most used skills. */
export function mostUsed({ statistics }: Host): readonly string[] {
  return statistics?.mostUsed?.(MOST_RECENT) ?? statistics?.recent(MOST_RECENT) ?? [];
}
