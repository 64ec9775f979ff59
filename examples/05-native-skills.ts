// Skills in code that Claude finds itself: npx node examples/05-native-skills.ts

import { evaluateWithClaude } from "skillet/claude";
import { markdown, promptTemplate, skill, skillsSection } from "skillet/prompts";

const review = skill({
  name: "house-review",
  description: "Code review workflow and severity levels of this house. Use when code is to be reviewed.",
  title: "Code Review",
  template: `
    # Code review

    1. **Security**: hard-coded secrets, injection, paths that leave their folder
    2. **Tests**: what changed is covered
    3. **Names**: say what a thing is, not how it is made

    Critical: security, loss of data. Major: missing tests. Minor: style.
  `,
});
const refactoring = skill({
  name: "refactoring",
  description: "Safe refactoring in small steps. Use when code is to be restructured.",
  title: "Refactoring",
  template: "# Refactoring\n\nOne step at a time, and the tests pass after each.",
});

const template = promptTemplate({
  ns: "examples",
  key: "native-skills",
  sections: [
    markdown({ title: "Task", key: "task", template: "Review the code in $folder." }),
    skillsSection({ skills: [review, refactoring] }),
  ],
});

const run = evaluateWithClaude(template.bind({ folder: process.argv[2] ?? "this folder" }), {
  model: process.env["MODEL_NAME"] ?? "sonnet",
  isolation: true,
});
for await (const event of run) {
  if (event.type === "skills-installed") process.stderr.write(`· installed ${event.skills.join(", ")}\n`);
}
const { content, isError } = await run;
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
