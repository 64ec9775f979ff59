import { skillContent } from "../catalog/content.ts";
import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";

/** What a conversation gets when a skill is loaded: its instructions, its files, and what loading does not give. */
export function loadedText(skill: Skill, host: Host, given: string | undefined): string {
  const folder = host.folderOf?.(skill);
  const content = skillContent(skill, {
    ...(given === undefined ? {} : { arguments: given }),
    ...(folder === undefined ? {} : { folder }),
  });
  return [content, ...notes(skill)].join("\n");
}

/** One row a thing that loading leaves out: what the skill declares, or nothing. */
const LEFT_OUT: readonly [label: string, declared: (skill: Skill) => readonly (string | undefined)[]][] = [
  ["env", ({ manifest }) => manifest.env],
  ["capabilities", ({ manifest }) => manifest.capabilities],
  ["packages", ({ manifest }) => manifest.packages],
  ["model", ({ manifest }) => [manifest.model]],
  ["effort", ({ manifest }) => [manifest.effort]],
  ["agent", ({ manifest }) => [manifest.agent]],
  ["allowed_tools", ({ manifest }) => manifest.tools.allowed],
  ["disallowed-tools", ({ manifest }) => manifest.tools.disallowed],
  ["toolsets", ({ manifest }) => manifest.toolsets],
];

function notes(skill: Skill): string[] {
  const left = LEFT_OUT.flatMap(([label, declared]) => {
    const values = declared(skill).flatMap((value) => (value === undefined ? [] : inLine(value, 120)));
    return values.length === 0 ? [] : `${label} (${values.join(", ")})`;
  });
  const found: string[] = [];
  if (left.length > 0) found.push(`[Not in force for loaded instructions: ${left.join("; ")}]`);
  if (skill.manifest.context === "fork") {
    found.push(
      "[The skill asks to run on its own (context: fork); there is nobody to run it here, so follow it yourself]",
    );
  }
  if (DYNAMIC.test(skill.body())) found.push("[The commands in !`…` were not run; their output is not in the text]");
  return found;
}

const DYNAMIC = /(?:^|\s)!`[^`\n]+`|^```!/m;
