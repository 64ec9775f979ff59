/** What a list of Claude Code may take, in characters. */
const CLAUDE_BUDGET = 8000;

/**
 * How clients list skills, written again from what was seen in their requests. No client is run. Only names and descriptions are
 * counted: paths and tags, which some add, would make their lists longer.
 */
export const CLIENT_RULES = [
  { name: "Claude Code's rule", list: withinBudget },
  { name: "Codex's rule", list: all },
  { name: "Gemini CLI's rule", list: all },
];

/** Descriptions by the alphabet while they fit, with room for the names of the others. */
function withinBudget(skills) {
  const rows = inOrder(skills);
  let left = CLAUDE_BUDGET - rows.reduce((sum, { name }) => sum + name.length + 3, 0);
  let isOver = false;
  return rows
    .map(({ name, text }) => {
      isOver ||= text.length + 2 > left;
      if (isOver) return `- ${name}`;
      left -= text.length + 2;
      return `- ${name}: ${text}`;
    })
    .join("\n");
}

function all(skills) {
  return inOrder(skills)
    .map(({ name, text }) => `- ${name}: ${text}`)
    .join("\n");
}

function inOrder(skills) {
  return skills
    .map(({ name, description, whenToUse }) => ({
      name,
      text: whenToUse ? `${description} ${whenToUse}` : description,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
