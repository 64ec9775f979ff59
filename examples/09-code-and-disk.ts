// Skills in code and on disk in one prompt, with any model of the AI SDK: npx node examples/09-code-and-disk.ts "question"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Tool } from "skillet";
import { evaluatePrompt, markdown, promptTemplate, skill, skillRef, skillsSection } from "skillet/prompts";
import { z } from "zod";

const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

const exchange = Tool.define("to_euro", {
  description: "Turns an amount of kroner into euros",
  parameters: z.object({ kroner: z.number() }),
  execute: ({ kroner }) => ({
    message: "Exchanged",
    value: { euros: Math.round(kroner / 11.5), render: () => `${Math.round(kroner / 11.5)} EUR` },
  }),
});

const template = promptTemplate({
  ns: "examples",
  key: "code-and-disk",
  sections: [
    markdown({ title: "Question", key: "question", template: "$question" }),
    skillsSection({
      skills: [
        skill({
          name: "currencies",
          description: "Amounts in other currencies. Use when an amount is not in euros.",
          title: "Currencies",
          template: "Turn every amount into euros with `to_euro` before you compare it.",
          tools: [exchange],
        }),
        skillRef({ path: "skills/travel-expenses", basePath: import.meta.dirname }),
        skill({
          name: "tone",
          description: "How answers are written. Use before you answer.",
          title: "Tone",
          template: "One sentence, with the amount first.",
        }),
      ],
    }),
  ],
});

const question = process.argv[2] ?? "Is a night in Oslo for 2,000 kroner within the rate?";
const run = evaluatePrompt(template.bind({ question }), { models: { default: provider(MODEL_NAME) } });
for await (const event of run) {
  if (event.type === "skill-expanded") process.stderr.write(`· opened ${event.skillKey}\n`);
}
const { content, isError } = await run;
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
