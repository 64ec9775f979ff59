import { mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { skillText, temporaryFolder } from "./folder.ts";

/** Frontmatter with everything that `--fix` would change if it took the file for a skill. */
function tempting(more: string): string {
  return `\ufeff--- \r\nname: Other Name\r\ndescription: Use: it\r\n${more}---\r\n\r\n# Text\r\n`;
}

/** Files of a public repository that are not skills. Most of them were once changed, or reported, as if they were. */
export const OTHER_FILES: Readonly<Record<string, string>> = {
  "README.md": tempting(""),
  "AGENTS.md": tempting(""),
  "CONTRIBUTING.md": "# Contributing\n",
  "reviewer.md": tempting("model: opus\r\n"),
  "action.yml": "name: Check\ndescription: Use: it\nruns:\n  using: composite\n",
  "package.json": '{ "name": "acme", "devDependencies": {} }\n',
  "package-lock.json": '{ "name": "acme", "lockfileVersion": 3 }\n',
  "pnpm-lock.yaml": `lockfileVersion: '9.0'\n\nimporters:\n  .:\n    devDependencies: {}\n\ndevDependencies:\n  tsx: 4.0.0\n`,
  "mkdocs.yml": "site_name: Acme\nname: acme\ndescription: Docs\ninstructions: read them\ntag: x\n",
  "docker-compose.yml": "name: acme\nservices:\n  db: { image: postgres }\n",
  ".github/dependabot.yml": "version: 2\nupdates:\n  - package-ecosystem: npm\n",
  ".github/FUNDING.yml": "github: [acme]\n",
  ".github/workflows/ci.yml": "name: CI\non: push\njobs: {}\n",
  ".github/ISSUE_TEMPLATE/bug.md": tempting("about: Report a bug\r\nlabels: bug\r\n"),
  ".github/ISSUE_TEMPLATE/feature.yml": "name: Feature\ndescription: Ask: for one\nbody: []\n",
  ".github/ISSUE_TEMPLATE/config.yml": "blank_issues_enabled: false\n",
  ".github/PULL_REQUEST_TEMPLATE.md": "## What\r\n",
  ".github/prompts/review.prompt.md": tempting("mode: agent\r\n"),
  ".github/agents/planner.agent.md": tempting("agents: [a]\r\nmodels: [b]\r\n"),
  ".github/instructions/ts.instructions.md": tempting('applyTo: "**/*.ts"\r\n'),
  ".claude/agents/tester.md": tempting("tools: Read\r\n"),
  ".claude/commands/ship.md": tempting("alowed_tools: [bash]\r\n"),
  ".claude-plugin/marketplace.json":
    '{ "name": "acme", "plugins": [{ "name": "notes", "source": "./plugins/notes" }] }\n',
  "agents/writer.md": tempting("models: [a]\r\n"),
  "agents/writer.yaml": "name: writer\ndescription: Writes: text\ninstructions: Write.\n",
  "commands/deploy.md": tempting("agents: [x]\r\n"),
  "prompts/plan.md": tempting("mode: plan\r\n"),
  "prompts/plan.yaml": "name: plan\ndescription: Plans.\ninstructions: Plan.\nmodels: [a]\n",
  "templates/agent.md": tempting(""),
  "docs/skill.md": "---\ntitle: What is a skill?\ndescription: Use: it\n---\n\nText.\n",
  "docs/skills.md": "---\ntitle: Skills\ndescription: Use: it\n---\n\nText.\n",
  "docs/skills/intro.md": "---\ntitle: Intro\ndescription: Use: it\n---\n\nText.\n",
  "docs/skills/sidebar.yaml": "name: sidebar\ndescription: Use: it\nitems: []\n",
  "site/content/post.md": tempting("title: Post\r\n"),
  "evals/triggers.yaml": "name: triggers\ndescription: Evaluates: them\ncases: []\n",
  "skills/README.md": "# Our skills\r\n",
  "skills/CATALOG.md": "# Catalog\r\n",
  "skills/pnpm-lock.yaml": "lockfileVersion: '9.0'\ndevDependencies: {}\n",
  "skills/review/agents/openai.yaml": "interface:\n  display_name: Review\n  short_description: Use: it\n",
  "skills/review/evals/evals.yaml": "name: evals\ndescription: Evaluates: it\ninstructions: Do it.\n",
  "skills/review/references/guide.md": tempting(""),
  "plugins/notes/.claude-plugin/plugin.json": '{ "name": "notes" }\n',
  "plugins/notes/agents/scribe.md": tempting(""),
  "plugins/notes/commands/note.md": tempting(""),
  "plugins/notes/skills/overview.md": "---\ntitle: Overview\ndescription: Use: it\n---\n\nText.\n",
};

const REVIEW = skillText("review", { more: "metadata:\n  version: 1.0.0\n  tags: [a]\n" });

/** Skills of the same repository, by how they are wrong. */
export const SKILL_FILES: Readonly<Record<string, string>> = {
  "skills/review/SKILL.md": REVIEW,
  "skills/deploy/SKILL.md": "---\nname: deploy\ndescription: Deploys: the shop\n# kept\nlicense: MIT\n---\n\nDo it.\n",
  "skills/windows/SKILL.md": `\ufeff${skillText("windows").replaceAll("\n", "\r\n")}`,
  "skills/nameless/SKILL.md": "---\n# The first line.\ndescription: Has no name. Use when asked.\n---\n\nDo it.\n",
  "skills/renamed/SKILL.md": skillText("another"),
  "skills/flow/SKILL.md": "---\n{ description: In braces. Use when asked. }\n---\n\nDo it.\n",
  "skills/keys/SKILL.md": skillText("keys", {
    more: "package: effect\nmodels: [a]\nmode: plan\nagents: [b]\ntag: x\nalowed_tools: [bash]\n",
  }),
  "skills/short.md": "--- \nname: short\ndescription: Is flat. Use when asked.\n---\n\nDo it.\n",
  "skills/plain.yaml": "name: plain\ndescription: Is YAML: all of it\ninstructions: Do it.\n",
  "plugins/notes/skills/take-notes/SKILL.md": "---\nname: take-notes\ndescription: Takes: notes\n---\t\n\nDo it.\n",
  "plugins/notes/skills/flat.md": skillText("flat", { description: "Is flat: too" }),
  "packages/app/.claude/skills/local/SKILL.md":
    "\n\n---\nname: local\ndescription: Is local. Use when asked.\n---\n\nDo it.\n",
  "test/broken/SKILL.md": "just text\r\n",
};

/** Skills that are inside the folder of another one, and in a folder of examples there. */
export const NESTED_FILES: Readonly<Record<string, string>> = {
  "skills/review/parts/inner/SKILL.md": "---\nname: inner\ndescription: Is inside: another\n---\n\nDo it.\n",
  "skills/review/examples/sample/SKILL.md": "---\nname: sample\ndescription: Is: an example\n---\n\nDo it.\n",
};

/** Links of the repository: several paths lead to one file. */
const LINKS: Readonly<Record<string, string>> = {
  "CLAUDE.md": "AGENTS.md",
  ".claude/skills": "../skills",
  ".agents/skills/mine": "../../skills/renamed",
  ".agents/skills/other/SKILL.md": "../../../skills/renamed/SKILL.md",
  "aaa/SKILL.md": "../skills/nameless/SKILL.md",
  "plugins/copy/skills/deploy": "../../../skills/deploy",
  "docs/latest": "v9",
  "docs/more.md": "gone.md",
  "examples/self": "..",
};

/** Creates a folder with a repository in the shape of public ones. */
export function createPublicRepository(): string {
  const root = temporaryFolder({
    ...OTHER_FILES,
    ...SKILL_FILES,
    ...NESTED_FILES,
    ".git/HEAD": "ref: refs/heads/main\n",
  });
  for (const [path, target] of Object.entries(LINKS)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    symlinkSync(target, join(root, path));
  }
  return root;
}
