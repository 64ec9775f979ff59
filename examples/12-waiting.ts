// A run that waits for an approval and resumes in another process: npx node examples/12-waiting.ts, then … 12-waiting.ts ID yes
import { homedir } from "node:os";
import { join } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createDirectorySource, loadCatalog, resumeRun, Tool, useSkill } from "skillet";
import { createRunStore } from "skillet/store";
import { z } from "zod";

const [id, word] = process.argv.slice(2);
const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const book = Tool.define("book_hotel", {
  description: "Books a hotel for some nights.",
  parameters: z.object({ city: z.string(), nights: z.number().int().min(1) }),
  effect: { on: "outside", what: "book a hotel", isReversible: false },
  execute: ({ city, nights }, { key }) => `booked ${nights} nights in ${city} as ${key}`, // the same key after a crash
});

const runs = createRunStore(join(homedir(), ".skillet")); // each step is saved before the next; `skillet runs` lists runs
const host = { models: { default: provider(MODEL_NAME) }, tools: [book], runs }; // no `approve`: non-interactive
const catalog = await loadCatalog([createDirectorySource({ path: `${import.meta.dirname}/skills` })]);

if (id !== undefined) await runs.answer(id, { isApproved: word === "yes", reason: "the budget is spent" });
const result = await (id === undefined
  ? useSkill(catalog, host, { skill: "travel-expenses", message: "Book two nights in Oslo." })
  : resumeRun(catalog, host, id)); // finished steps are not repeated
if (result.stop === "waiting")
  process.stderr.write(`? ${result.approvalRequest?.what}: node 12-waiting.ts ${result.run} yes\n`);
process.stdout.write(`${result.stop === "waiting" ? result.run : result.content}\n`);
process.exitCode = result.stop === "waiting" ? 5 : result.isError ? 1 : 0;
