import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { createInlineSource, defineSkill, loadCatalog, openSession } from "skillet";
import { createSkillToolset } from "skillet/ai";

const [url] = process.argv.slice(2);
const catalog = await loadCatalog([
  createInlineSource([
    defineSkill({ name: "greet", description: "Greets. Use when asked to greet.", instructions: "Say salve." }),
  ]),
]);
const skills = await createSkillToolset(openSession(catalog, {}));
const model = createOpenAICompatible({ name: "test", baseURL: url, apiKey: "test-key" })("test-model");
const agent = new Agent({ id: "a", name: "a", model, instructions: await skills.instructions(), tools: skills.tools });
process.stdout.write((await agent.generate("Greet me.")).text);
