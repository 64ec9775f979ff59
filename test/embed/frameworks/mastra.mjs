import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { defineSkill, inlineSource, openCatalog, openSession } from "skillet";
import { skillToolset } from "skillet/ai";

const [url] = process.argv.slice(2);
const catalog = await openCatalog([
  inlineSource([
    defineSkill({ name: "greet", description: "Greets. Use when asked to greet.", instructions: "Say salve." }),
  ]),
]);
const skills = await skillToolset(openSession(catalog, {}));
const model = createOpenAICompatible({ name: "test", baseURL: url, apiKey: "test-key" })("test-model");
const agent = new Agent({ id: "a", name: "a", model, instructions: skills.instructions, tools: skills.tools });
process.stdout.write((await agent.generate("Greet me.")).text);
