import { type Catalog, replacedCopy, sayReplaced } from "../catalog/catalog.ts";
import { DEFAULTS } from "../catalog/defaults.ts";
import { describeSkill, describeWithin } from "../catalog/describe-skill.ts";
import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";

/** How long a shortened description is, in characters, where its cue allows it. */
const BRIEF = 160;

/** Whole while that fits what a model may be told; then briefly; then as many as fit, and how many more there are. */
export function listedSkills(
  { skills, diagnostics }: Pick<Catalog, "skills" | "diagnostics">,
  { settings }: Pick<Host, "settings">,
  search?: string,
): unknown[] {
  const room = (settings.disclosure.budget ?? DEFAULTS.budget) * 4;
  const broken = diagnostics.filter(({ code }) => code === "nearer-copy-broken");
  const noteOn = ({ name }: Skill) => {
    const replaced = broken.length === 0 ? undefined : replacedCopy({ diagnostics: broken }, name);
    return replaced ? { note: sayReplaced(replaced) } : {};
  };
  const whole = skills.map((skill) => ({
    ...{ name: inLine(skill.name, 64), description: describeSkill(skill), ...noteOn(skill) },
    version: skill.manifest.version && inLine(skill.manifest.version, 64),
    tags: skill.manifest.tags.slice(0, 20).map((tag) => inLine(tag, 64)),
  }));
  if (JSON.stringify(whole).length <= room) return whole;
  const brief = skills.map((skill) => ({
    name: inLine(skill.name, 64),
    description: describeWithin(skill, BRIEF),
    ...noteOn(skill),
  }));
  let used = 64;
  const most = brief.findIndex((entry) => {
    used += JSON.stringify(entry).length + 1;
    return used > room;
  });
  return most === -1
    ? brief
    : [...brief.slice(0, most), { more: brief.length - most, ...(search === undefined ? {} : { find: search }) }];
}
