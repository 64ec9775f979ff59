import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { createAgentTools, createInlineSource, defineSkill, loadCatalog, openSession } from "skillet";

const [url] = process.argv.slice(2);
const catalog = await loadCatalog([
  createInlineSource([
    defineSkill({ name: "greet", description: "Greets. Use when asked to greet.", instructions: "Say salve." }),
  ]),
]);
const session = openSession(catalog, {});
const tools = createAgentTools(session).map((one) => tool(one.execute, { ...one, schema: one.inputSchema }));
const model = new ChatOpenAI({
  model: "test-model",
  apiKey: "test-key",
  configuration: { baseURL: url },
  useResponsesApi: false,
});
const agent = createAgent({ model, tools, systemPrompt: await session.formatListing() });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Greet me." }] });
process.stdout.write(messages.at(-1).content);
