// An agent with skills: npx node examples/01-agent.ts "question" [folder of skills …]
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount } from "ai";
import { createSkillToolset } from "skillet/ai";

const [question = "What can you do?", ...folders] = process.argv.slice(2);
const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const skills = await createSkillToolset(folders.length > 0 ? folders : [`${import.meta.dirname}/skills`]);

const { text } = await generateText({
  model: provider(MODEL_NAME), // or any other model of the AI SDK
  instructions: `You are a helpful assistant.\n\n${await skills.instructionsFor(question)}`,
  prompt: question,
  tools: skills.tools,
  stopWhen: isStepCount(10),
  abortSignal: AbortSignal.timeout(300_000),
});
process.stdout.write(`${text}\n`);
