import { inLine } from "../shared/prompt.ts";
import { firstSentence, oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { fitDescription, shortenDescription } from "./shorten-description.ts";

/** The longest description that is listed whole, with `when_to_use`, in characters: what the open standard allows. */
const LONGEST_WHOLE = 1024;
/** So much of a description is read, in characters. */
const LONGEST_READ = 4096;

/** The description and when to use the skill, as a part of a line of a prompt. One that is too long is shortened, never its cue. */
export function describeSkill(skill: Skill): string {
  const { description, manifest } = skill;
  const whole = inLine(manifest.whenToUse ? `${description} ${manifest.whenToUse}` : description, LONGEST_READ);
  return whole.length <= LONGEST_WHOLE ? whole + remoteMark(skill) : (descriptionVersions(skill)[0] ?? "");
}

/** Returns what marks the description of a skill of an MCP server: a model must not take it for a local one. Empty for all others. */
export function remoteMark({ origin: { remote } }: Skill): string {
  return remote ? ` (remote skill from MCP server ${inLine(remote.server, 64)})` : "";
}

/** The same in shorter and shorter versions, the one that counts as whole first. */
export function descriptionVersions(skill: Skill): readonly string[] {
  const known = VERSIONS.get(skill);
  if (known) return known;
  const { description, manifest } = skill;
  const derived = oneLine(firstSentence(description), manifest.briefDescription.length);
  const made = shortenDescription({
    description: inLine(description, LONGEST_READ),
    whenToUse: manifest.whenToUse && inLine(manifest.whenToUse, LONGEST_READ),
    brief: derived === manifest.briefDescription ? undefined : inLine(manifest.briefDescription, LONGEST_READ),
  });
  const fitting = made.filter(({ length }) => length <= LONGEST_WHOLE);
  // Parts that were apart may read as a tag once they are joined.
  const versions = (fitting.length === 0 ? [fitDescription(made, LONGEST_WHOLE)] : fitting).map(
    (version) => inLine(version, LONGEST_WHOLE) + remoteMark(skill),
  );
  VERSIONS.set(skill, versions);
  return versions;
}

const VERSIONS = new WeakMap<Skill, readonly string[]>();

/** The skill in at most so many characters where its cue allows it. */
export function describeWithin(skill: Skill, limit: number): string {
  return fitDescription(descriptionVersions(skill), limit);
}
