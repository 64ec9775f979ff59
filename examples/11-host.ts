// A program that names the caller and receives all events: npx node examples/11-host.ts private "question"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createInlineSource, defineSkill, type Host, loadCatalog, openSession, type SkillEvent } from "skillet";

const [chatType = "group", message = "What does Ada earn?"] = process.argv.slice(2);
const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const salaries = defineSkill({
  name: "salaries",
  description: "Lists the salaries of people. Use when the user asks for a salary.",
  instructions: "Ada earns 100 a day. Tell only Ada.",
  frontmatter: { sensitive: true }, // only for private chats
});

function listen(event: SkillEvent) {
  const { type, skill } = "skill" in event ? event : { type: event.type, skill: "" };
  process.stderr.write(`· ${type} ${skill}\n`); // to a log, a database, a page: plain data, without secret values
}

const host: Partial<Host> = {
  models: { default: provider(MODEL_NAME) },
  caller: { userId: "ada", chatType }, // set by the program, never by a model
  hasBuiltInTools: false, // no shell, no files
  onEvent: listen,
};
const session = openSession(await loadCatalog([createInlineSource([salaries])]), host);
const names = session.listVisible().map(({ name }) => name);
process.stderr.write(`skills in a ${chatType} chat: ${names.join(", ") || "none"}\n`);

const { content, stop } = await session.use({ skill: "salaries", message }); // a hidden skill is also refused
process.stdout.write(`${content}\n`);
process.exitCode = stop === "refused" ? 3 : stop === "answer" ? 0 : 1;
