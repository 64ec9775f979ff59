import { cutNote, fitDescriptions } from "../catalog/budget.ts";
import { type Catalog, replacedCopy, sayReplaced } from "../catalog/catalog.ts";
import { DEFAULTS } from "../catalog/defaults.ts";
import { describeSkill, describeWithin } from "../catalog/describe-skill.ts";
import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";

/** How long a shortened description is where not even all names fit, in characters, where its cue allows it. */
const BRIEF = 160;

export interface SkillListOptions {
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
export function listedSkills(
  { skills, diagnostics }: Pick<Catalog, "skills" | "diagnostics">,
  { settings }: Pick<Host, "settings">,
  { search, limit = Number.POSITIVE_INFINITY, usage, note }: SkillListOptions = {},
): unknown[] {
  const sizeOf = (value: unknown) => {
    const text = JSON.stringify(value);
    return limit === Number.POSITIVE_INFINITY ? text.length : Buffer.byteLength(text);
  };
  const most = Math.min((settings.disclosure.budget ?? DEFAULTS.budget) * 4, limit);
  const broken = diagnostics.filter(({ code }) => code === "nearer-copy-broken");
  const noteOn = ({ name }: Skill) => {
    const replaced = broken.length === 0 ? undefined : replacedCopy({ diagnostics: broken }, name);
    return replaced ? { note: sayReplaced(replaced) } : {};
  };
  const entryOf = (skill: Skill, description: string) => ({
    name: inLine(skill.name, 64),
    description,
    ...noteOn(skill),
  });
  const notes = (...texts: (string | undefined)[]) => {
    const all = texts.filter((text) => text !== undefined);
    return all.length === 0 ? [] : [{ note: all.join(". ") }];
  };
  const whole = skills.map((skill) => ({
    ...entryOf(skill, describeSkill(skill)),
    version: skill.manifest.version && inLine(skill.manifest.version, 64),
    tags: skill.manifest.tags.slice(0, 20).map((tag) => inLine(tag, 64)),
  }));
  if (sizeOf([...whole, ...notes(note)]) <= most) return [...whole, ...notes(note)];
  const all = { shortened: skills.length, named: skills.length };
  const names = skills.map((skill) => entryOf(skill, ""));
  const room = most - sizeOf([...names, ...notes(cutNote(skills.length, all, search), note)]);
  if (room >= 0) {
    const { descriptions, ...cut } = fitDescriptions(skills, { room, usage, cost: (text) => sizeOf(text) - 2 });
    const fitted = skills.map((skill, index) => entryOf(skill, descriptions[index] ?? ""));
    const isCut = cut.shortened + cut.named > 0;
    return [...fitted, ...notes(isCut ? cutNote(skills.length, cut, search) : undefined, note)];
  }
  const brief = skills.map((skill) => entryOf(skill, describeWithin(skill, BRIEF)));
  let used = 64 + sizeOf(notes(note));
  const number = brief.findIndex((entry) => {
    used += sizeOf(entry) + 1;
    return used > most;
  });
  const rest = { more: brief.length - number, ...(search === undefined ? {} : { find: search }) };
  return number === -1 ? [...brief, ...notes(note)] : [...brief.slice(0, number), rest, ...notes(note)];
}
