// Writes the pages that are made from the program itself. `npm run docs` writes them, a test compares them.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { main } from "../src/cli/main.ts";
import { commandPaths } from "../src/cli/program.ts";
import { settingsTable } from "../src/host/keys.ts";
import { CODES } from "../src/skill/codes.ts";
import { PROFILES } from "../src/skill/diagnostic.ts";

const NAMES: Record<string, string> = { e: "error", w: "warning", i: "hint", "-": "" };

async function helpOf(command: string): Promise<string> {
  let text = "";
  const stream = { write: (part: string) => (text += part), columns: 100 };
  const args = command === "" ? [] : command.split(" ");
  await main([...args, "--help"], { stdout: stream, stderr: stream, env: {}, cwd: "." });
  return text.trimEnd();
}

async function commandPage(): Promise<string> {
  const sections: string[] = [];
  for (const command of commandPaths()) {
    sections.push(`## ${`skillet ${command}`.trim()}\n\n\`\`\`text\n${await helpOf(command)}\n\`\`\``);
  }
  return `# The command line

This page is made from the program's own help.

Data goes to stdout, everything else to stderr. Exit codes: 0 fine, 1 findings or failure, 2 usage or a configuration that cannot be
read, 3 refused, 4 a limit was reached, 5 waiting for approval, 130 interrupted.

${sections.join("\n\n")}
`;
}

function codePage(): string {
  const rows = Object.entries(CODES).map(([code, { weigh, means, fix }]) => {
    const weights = [...weigh].map((letter) => NAMES[letter] ?? "");
    return `| <a id="${code}"></a>\`${code}\` | ${means} | ${fix} | ${weights.join(" | ")} |`;
  });
  return `# Findings

This page is made from the table of codes. Discovery, \`check\` and \`doctor\` all speak it; only the weight differs by profile. In the
profile \`load\`, an error means exactly that the file is not loaded.

| code | what it means | what to do | ${PROFILES.map((profile) => `\`${profile}\``).join(" | ")} |
|---|---|---|${PROFILES.map(() => "---|").join("")}
${rows.join("\n")}
`;
}

function settingsPage(): string {
  const rows = settingsTable().map(
    ({ path, type, means, isForWorkspace }) =>
      `| \`${path}\` | ${type} | ${means} | ${isForWorkspace ? "yes" : "no"} |`,
  );
  return `# Configuration

This page is made from the table of keys.

The configuration is TOML: \`~/.skillet/config.toml\` (\`SKILLET_HOME\` moves the folder), then \`.skillet/config.toml\` in the workspace,
which may set only the keys marked here; anything else in it is refused with its line. An unknown key is a warning with the nearest
known one. A file that cannot be read as TOML is said with its line, and defaults stand in its place. Keep the file to yourself
(\`chmod 600\`): \`skillet doctor\` warns when others can read values in it.

| key | type | what it says | workspace |
|---|---|---|---|
${rows.join("\n")}

\`*\` stands for a name: of a skill, a source, a model's alias, a model at its provider, or a namespace of capabilities. \`UPPER_CASE\` is the
exact name of a variable. A workspace cannot switch on what you switched off, and what it sets as a number counts only where it is lower.
\`skillet config\` shows what holds and where it is written; \`skillet config set KEY VALUE\` writes it.

\`\`\`toml
[skills.research]
enabled = true
model = "fast"
PERPLEXITY_API_KEY = "…"              # or "env:NAME", a variable of yours; or "file:PATH", a file's text
network = ["api.perplexity.ai:443"]  # what its scripts may reach
workspace = "read"                   # whether they see the workspace

[models.fast]
provider = "anthropic"
model = "claude-haiku-4-5"
api_key = "env:ANTHROPIC_API_KEY"

[prices."claude-haiku-4-5"]          # dollars for a million tokens
input = 1.0
output = 5.0

[limits]
max_iterations = 20
tokens = 200000

[scripts]
timeout_seconds = 120

[sources.team]
path = "~/team-skills"
\`\`\`

## Environment

| variable | what it does |
|---|---|
| \`AGENT_WORKSPACE_ROOT\` | the workspace, when \`--workspace\` is not given |
| \`SKILLS_DIR\` | takes the place of the bundled skills |
| \`CUSTOM_SKILLS_DIR\` | takes the place of \`<workspace>/skills\`; relative to the workspace |
| \`SKILLET_HOME\` | takes the place of \`~/.skillet\` |
| \`SKILLET_PACKAGES\` | the folder to build system packages in, in place of \`~/.skillet/packages\` (of root: \`/var/lib/skillet/packages\`) |
| \`NO_COLOR\`, \`FORCE_COLOR\` | no colour, or colour also without a terminal |
`;
}

export async function pages(): Promise<Record<string, string>> {
  return { "docs/cli.md": await commandPage(), "docs/errors.md": codePage(), "docs/config.md": settingsPage() };
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await pages())) writeFileSync(join(import.meta.dirname, "..", path), text);
}
