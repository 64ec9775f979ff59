import { DEFAULTS } from "../catalog/defaults.ts";
import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";

/** Whole while that fits what a model may be told; then briefly; then as many as fit, and how many more there are. */
export function listedSkills(
  skills: readonly Skill[],
  { settings }: Pick<Host, "settings">,
  search?: string,
): unknown[] {
  const room = (settings.disclosure.budget ?? DEFAULTS.budget) * 4;
  const whole = skills.map(({ name, description, manifest }) => ({
    name: inLine(name, 64),
    description: inLine(manifest.whenToUse ? `${description} ${manifest.whenToUse}` : description),
    version: manifest.version && inLine(manifest.version, 64),
    tags: manifest.tags.slice(0, 20).map((tag) => inLine(tag, 64)),
  }));
  if (JSON.stringify(whole).length <= room) return whole;
  const brief = skills.map(({ name, manifest }) => ({
    name: inLine(name, 64),
    description: inLine(manifest.briefDescription, 160),
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
