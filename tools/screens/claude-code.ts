import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";

/** The servers of the tests of real clients, which have no types. */
const models = (name: string) => import(new URL(`../clients/models/${name}.mjs`, import.meta.url).href);
const packages = join(import.meta.dirname, "..", "..", "test", "claude", "node_modules", "@anthropic-ai");

/** Returns the program of Claude Code that the long tests install, or undefined. */
export function findClaudeCode(): string | undefined {
  const names = ["", "-musl"].map((suffix) => `claude-agent-sdk-${process.platform}-${process.arch}${suffix}`);
  return names.map((name) => join(packages, name, "claude")).find((path) => existsSync(path));
}

interface ModelRequest {
  tools: { name: string; first?: object }[];
  results: string[];
}

/** The calls of the scripted model, in order. Its answer is made from the result of the last one. */
const CALLS = [
  { tool: "mcp__skillet__load_skill", input: { skill: "repo-health" } },
  { tool: "mcp__skillet__run_skill_script", input: { skill: "repo-health", script: "health.mjs" } },
];

function respond({ tools, results }: ModelRequest) {
  const call = CALLS[results.length];
  if (!call) {
    const found = results.at(-1)?.match(/^! .*(?:\n {2}.*)*/gm) ?? [];
    return { text: `What to clean up:\n${found.map((line) => line.replace("!", "-")).join("\n")}` };
  }
  const tool = tools.find(({ name }) => name === call.tool);
  if (!tool) return { text: "A title" };
  // A tool that Claude Code announces by its name alone is looked up first.
  return {
    call: tool.first ? { id: `first_${tool.name}`, ...tool.first } : { id: `call_${results.length}`, ...call, tool },
  };
}

/** Puts Claude Code into a home folder, and starts a scripted model for it on the loopback interface. */
export async function startClaudeCode(home: string): Promise<{ env: Record<string, string>; close(): void }> {
  const program = findClaudeCode();
  if (program === undefined) throw new Error("Claude Code is not installed: run `node tools/test-packages.mjs long`");
  symlinkSync(program, join(home, "bin", "claude"));
  const problems: string[] = [];
  const { anthropic } = await models("anthropic");
  const { modelServer } = await models("server");
  const server = await modelServer(anthropic, { next: respond, problems });
  const env = {
    ...{ ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: "key-of-the-recording" },
    ...{ HTTP_PROXY: server.url, HTTPS_PROXY: server.url, NO_PROXY: "127.0.0.1,localhost" },
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
  return { env, close: () => server.close() };
}
