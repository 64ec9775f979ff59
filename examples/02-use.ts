// A skill as a sub-agent: npx node examples/02-use.ts skill "message"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createDirectorySource, loadCatalog, useSkill } from "skillet";

const [skill = "travel-expenses", message = "What may a night in Oslo cost?"] = process.argv.slice(2);
const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const catalog = await loadCatalog([createDirectorySource({ path: `${import.meta.dirname}/skills` })]);
const run = useSkill(catalog, { models: { default: provider(MODEL_NAME) } }, { skill, message, seconds: 300 });

for await (const event of run) {
  if (event.type === "tool-called") process.stderr.write(`· ${event.tool} ${JSON.stringify(event.input)}\n`);
}
const { content, isError, iterations } = await run; // only the answer comes back
process.stdout.write(`${content}\n`);
process.stderr.write(`${isError ? "✗" : "✓"} ${iterations} iterations\n`);
process.exitCode = isError ? 1 : 0;
