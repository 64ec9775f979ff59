import { markdown, type Section } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skill, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { Tool } from "../../src/skill/tool.ts";

export const task = markdown({ title: "Task", key: "task", template: "Look at the code." });
/** Native: it has no tools. */
export const architecture = skill({
  name: "architecture",
  description: "System architecture principles.",
  title: "Architecture",
  template: "# Architecture\n\nDraw the kestrel first.",
});
const runTests = Tool.define("run_tests", {
  description: "Runs the tests below a path",
  parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  execute: ({ path }: { path: string }) => `12 passed in ${path}`,
});
/** It stays in the prompt: it has a tool. */
export const testing = skill({
  name: "testing",
  description: "Testing workflows with execution tools.",
  title: "Testing",
  template: "Run the tests before the wombat is fed.",
  tools: [runTests],
});

/** Story 3. */
export function mixedPrompt() {
  return promptOf(task, skillsSection({ skills: [architecture, testing] }));
}

export function promptOf(...sections: readonly Section<never>[]) {
  return promptTemplate({ ns: "review", key: "mixed", sections }).bind({} as never);
}
