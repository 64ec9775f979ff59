import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { createAgentTools, createInlineSource, defineSkill, loadCatalog, openSession } from "skillet";

setTracingDisabled(true);
const [url] = process.argv.slice(2);
const catalog = await loadCatalog([
  createInlineSource([
    defineSkill({ name: "greet", description: "Greets. Use when asked to greet.", instructions: "Say salve." }),
  ]),
]);
const session = openSession(catalog, {});
const tools = createAgentTools(session).map((one) => tool({ ...one, parameters: one.inputSchema, strict: false }));
const model = new OpenAIChatCompletionsModel(new OpenAI({ baseURL: url, apiKey: "test-key" }), "test-model");
const agent = new Agent({ name: "a", model, instructions: await session.formatListing(), tools });
process.stdout.write((await run(agent, "Greet me.")).finalOutput);
