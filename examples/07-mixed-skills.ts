// One installed skill, and one with tools that stays in the prompt: npx node examples/07-mixed-skills.ts
import { readdirSync } from "node:fs";
import { Tool } from "skillet";
import { evaluateWithClaude } from "skillet/claude";
import { markdown, promptTemplate, skill, skillsSection } from "skillet/prompts";
import { z } from "zod";

const findTests = Tool.define("find_tests", {
  description: "Lists the test files below a folder",
  parameters: z.object({ folder: z.string() }),
  execute({ folder }) {
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
      /\.test\.\w+$/.test(path),
    );
    return { message: "Listed", value: files.join("\n") || "No test files." };
  },
});

const template = promptTemplate({
  ns: "examples",
  key: "mixed-skills",
  sections: [
    markdown({ title: "Task", key: "task", template: "Say which parts of $folder lack tests." }),
    skillsSection({
      skills: [
        skill({
          name: "architecture",
          description: "System architecture principles. Use when parts of a system are judged.",
          title: "Architecture",
          template: "# Architecture\n\nA folder is a part. What nothing depends on is tested last.",
        }),
        skill({
          name: "testing",
          description: "Testing workflows with tools that look at tests. Use when tests are asked about.",
          title: "Testing",
          template: "Call `find_tests` on the folder, then compare with its sources.",
          tools: [findTests],
        }),
      ],
    }),
  ],
});

const run = evaluateWithClaude(template.bind({ folder: process.argv[2] ?? process.cwd() }), {
  model: process.env["MODEL_NAME"] ?? "sonnet",
  isolation: true,
});
for await (const event of run) {
  if (event.type === "skills-installed") process.stderr.write(`· installed ${event.skills.join(", ")}\n`);
  if (event.type === "skill-expanded") process.stderr.write(`· opened ${event.skillKey}\n`);
  if (event.type === "tool-called") process.stderr.write(`· ${event.tool}\n`);
}
const { content, isError } = await run;
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
