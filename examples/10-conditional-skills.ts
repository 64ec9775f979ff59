// Parameters decide which skills are enabled: npx node examples/10-conditional-skills.ts typescript
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { evaluatePrompt, markdown, promptTemplate, skill, skillRef, skillsSection } from "skillet/prompts";

const { MODEL_BASE_URL = "http://localhost:11434/v1", MODEL_NAME = "qwen3", MODEL_API_KEY = "none" } = process.env;
const provider = createOpenAICompatible({ name: "example", baseURL: MODEL_BASE_URL, apiKey: MODEL_API_KEY });

type Review = { language: string };
const forLanguage = (language: string, title: string, template: string) =>
  skill<Review>({
    name: `${language}-review`,
    description: `Review guidance for ${title} alone. Use when ${title} is reviewed.`,
    title: `${title} Review`,
    template,
    enabled: (params) => params.language === language,
  });

const template = promptTemplate({
  ns: "examples",
  key: "conditional-skills",
  sections: [
    markdown<Review>({ title: "Task", key: "task", template: "Say what to look at first when $language is reviewed." }),
    skillsSection({
      skills: [
        forLanguage("python", "Python", "Types at every border. No mutable defaults."),
        forLanguage("typescript", "TypeScript", "No `any`. Narrow instead of casting."),
      ],
      skillRefs: [
        skillRef({
          path: "skills/travel-expenses",
          basePath: import.meta.dirname,
          enabled: () => process.env["WITH_EXPENSES"] === "1",
        }),
      ],
    }),
  ],
});

const prompt = template.bind({ language: process.argv[2] ?? "python" });
process.stderr.write(
  `· skills: ${prompt
    .skills()
    .map(({ name }) => name)
    .join(", ")}\n`,
);
const { content, isError } = await evaluatePrompt(prompt, { models: { default: provider(MODEL_NAME) } });
process.stdout.write(`${content}\n`);
process.exitCode = isError ? 1 : 0;
