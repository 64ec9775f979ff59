import { execFile } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { createProject } from "./project.ts";

interface Framework {
  name: string;
  packages: readonly string[];
  /** Versions of packages that the framework's own dependencies need instead of the newest. */
  overrides?: Record<string, string>;
}

const FRAMEWORKS: readonly Framework[] = [
  { name: "openai-agents", packages: ["@openai/agents@0.20.0", "zod@4"] },
  {
    name: "langchain",
    packages: ["langchain@1.5.14", "@langchain/core@1.2.13", "@langchain/openai@1.6.0"],
    overrides: { "@langchain/langgraph": "1.4.13" },
  },
  { name: "mastra", packages: ["@mastra/core@1.71.0", "ai@7", "@ai-sdk/openai-compatible@3", "zod@4"] },
];

interface ChatRequest {
  messages: { role: string; content: unknown }[];
  tools: { function: { name: string; parameters: unknown } }[];
  stream?: boolean;
}

/** A chat completions model, as every framework supports it: it loads the skill, then greets. */
async function greetingModel(): Promise<{ url: string; requests: ChatRequest[] }> {
  const requests: ChatRequest[] = [];
  const server = createServer(async (request, response) => {
    const asked = (await json(request)) as ChatRequest;
    requests.push(asked);
    const hasResult = asked.messages.some(({ role }) => role === "tool");
    const call = { id: "call_1", type: "function", function: { name: "load_skill", arguments: '{"skill":"greet"}' } };
    const message = hasResult
      ? { role: "assistant", content: "Salve!" }
      : { role: "assistant", content: null, tool_calls: [call] };
    const whole = {
      id: `chat_${requests.length}`,
      object: "chat.completion",
      created: 1,
      model: "test-model",
      choices: [{ index: 0, message, finish_reason: hasResult ? "stop" : "tool_calls" }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(whole));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests };
}

it.each(FRAMEWORKS)(
  "an agent of $name loads a skill with the documented line",
  async ({ name, packages, overrides }) => {
    const project = createProject();
    onTestFinished(project.remove);
    cpSync(join(import.meta.dirname, "frameworks"), project.folder, { recursive: true });
    if (overrides) {
      const file = join(project.folder, "package.json");
      const manifest = JSON.parse(project.run("cat", file));
      writeFileSync(file, JSON.stringify({ ...manifest, overrides }));
    }
    project.install(...packages);
    const { url, requests } = await greetingModel();
    const started = promisify(execFile)(process.execPath, [`${name}.mjs`, url], { cwd: project.folder });
    expect((await started).stdout.trim()).toBe("Salve!");
    const [first, second] = requests;
    expect(first?.tools.map(({ function: { name: tool } }) => tool)).toContain("load_skill");
    expect(JSON.stringify(first?.messages)).toContain("greet");
    const result = second?.messages.find(({ role }) => role === "tool");
    expect(JSON.stringify(result?.content)).toContain("Say salve.");
    expect(JSON.stringify(result?.content)).not.toContain("isError");
  },
);
