// Your own tool, with an approval before each call: npx node examples/03-tools.ts skill "message"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type ApprovalRequest, createDirectorySource, loadCatalog, Tool, useSkill } from "skillet";
import { z } from "zod";

const [skill = "travel-expenses", message = "Book a night in Oslo."] = process.argv.slice(2);
const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const book = Tool.define("book_hotel", {
  description: "Books a hotel for some nights.",
  parameters: z.object({ city: z.string(), nights: z.number().int().min(1) }),
  effect: ({ city, nights }) => ({ on: "outside", what: `book ${nights} nights in ${city}`, isReversible: false }),
  execute: async ({ city, nights }, { key }) => `booked ${nights} nights in ${city} as ${key}`,
});

async function approve({ what, skill }: ApprovalRequest) {
  process.stderr.write(`? ${skill} wants to ${what}\n`); // ask the user here
  return { isApproved: process.env["AGREED"] === "yes", reason: "the budget is spent" };
}

const catalog = await loadCatalog([createDirectorySource({ path: `${import.meta.dirname}/skills` })]);
const host = { models: { default: provider(MODEL_NAME) }, tools: [book], approve };
const { content, isError } = await useSkill(catalog, host, { skill, message });
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
