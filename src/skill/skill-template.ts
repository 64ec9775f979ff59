/** The placeholder after the title in the description of a new skill. */
export const DESCRIPTION_PLACEHOLDER = "describe here in one sentence what it does";

/** The instructions of a new skill, below its title. `skillet new` writes them, and `check` reports them until they are edited. */
export const INSTRUCTIONS_TEMPLATE = [
  "State the goal in one sentence, so that the agent knows when it is done.",
  "",
  "## Steps",
  "",
  "1. Describe what to look at first.",
  "2. Describe what to do, with the exact commands.",
  "3. Describe how to verify the result.",
  "",
  "## Good to know",
  "",
  "- What usually goes wrong, and how to fix it.",
  "- Long details belong in files next to this one: name them here, and they are read only when needed.",
];

const PLACEHOLDER_LINES: ReadonlySet<string> = new Set(INSTRUCTIONS_TEMPLATE.filter((line) => line.endsWith(".")));

/** Returns true if a line of the instructions is still the one that `skillet new` wrote. */
export function isTemplateLine(line: string): boolean {
  return PLACEHOLDER_LINES.has(line.trimEnd());
}
