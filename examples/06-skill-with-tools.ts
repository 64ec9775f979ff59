// A skill with a tool: the prompt has its summary until Claude opens it: npx node examples/06-skill-with-tools.ts [file …]
import { readFileSync } from "node:fs";
import { Tool } from "skillet";
import { evaluateWithClaude } from "skillet/claude";
import { markdown, promptTemplate, skill, skillsSection } from "skillet/prompts";
import { z } from "zod";

/** The result of the tool; the model reads the text of `render`. */
class Lint {
  readonly issues: readonly string[];
  constructor(issues: readonly string[]) {
    this.issues = issues;
  }
  render(): string {
    return [`Found ${this.issues.length} issues`, ...this.issues].join("\n");
  }
}

const lintCode = Tool.define("lint_code", {
  description: "Finds blanks at the end of lines, and lines that are too long",
  parameters: z.object({ paths: z.array(z.string()).max(50) }),
  execute({ paths }) {
    const issues = paths.flatMap((path) =>
      readFileSync(path, "utf8")
        .split("\n")
        .flatMap((line, index) => (/[ \t]$|^.{121}/.test(line) ? [`${path}:${index + 1}`] : [])),
    );
    return { message: "Linting complete", value: new Lint(issues) };
  },
});

const linting = skill({
  name: "linting",
  description: "Code linting workflow with a linter. Use when files are to be linted.",
  title: "Linting",
  template: "Call `lint_code` with the changed files, then explain how to fix each issue.",
  tools: [lintCode],
});

const template = promptTemplate({
  ns: "examples",
  key: "skill-with-tools",
  sections: [
    markdown({ title: "Task", key: "task", template: "Lint these files: $files" }),
    skillsSection({ skills: [linting] }),
  ],
});

const files = process.argv.length > 2 ? process.argv.slice(2) : [import.meta.filename];
const run = evaluateWithClaude(template.bind({ files: files.join(", ") }), {
  model: process.env["MODEL_NAME"] ?? "sonnet",
  isolation: true,
});
for await (const event of run) {
  if (event.type === "skill-expanded") process.stderr.write(`· opened ${event.skillKey}\n`);
}
const { content, isError } = await run;
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
