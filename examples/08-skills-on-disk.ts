// Skills from folders with other maintainers, copied for Claude: npx node examples/08-skills-on-disk.ts "question"

import { evaluateWithClaude } from "skillet/claude";
import { markdown, promptTemplate, skillRef, skillsSection } from "skillet/prompts";

const template = promptTemplate({
  ns: "examples",
  key: "skills-on-disk",
  sections: [
    markdown({ title: "Question", key: "question", template: "$question" }),
    skillsSection({
      skillRefs: [
        skillRef({ path: "skills/travel-expenses", basePath: import.meta.dirname }),
        // Read only when it is enabled.
        skillRef({ path: "/opt/skills/compliance", enabled: () => process.env["ENABLE_COMPLIANCE"] === "1" }),
      ],
    }),
  ],
});

const question = process.argv[2] ?? "What may a night in Oslo cost?";
const { content, installed, isError } = await evaluateWithClaude(template.bind({ question }), {
  model: process.env["MODEL_NAME"] ?? "sonnet",
  isolation: true,
});
process.stderr.write(`· installed ${installed.join(", ")}\n`);
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
