// Starts Claude Code as a program with the Agent SDK does: claude-agent.mjs FILE_WITH_SERVERS PROMPT
import { readFileSync } from "node:fs";
import { query } from "@anthropic-ai/claude-agent-sdk";

const [file, prompt] = process.argv.slice(2);
const { mcpServers } = JSON.parse(readFileSync(file, "utf8"));

const conversation = query({
  prompt,
  options: {
    mcpServers,
    settingSources: [],
    // Allows only the tools of the server: the run is non-interactive.
    permissionMode: "dontAsk",
    allowedTools: Object.keys(mcpServers).map((name) => `mcp__${name}`),
    model: "claude-sonnet-4-5",
    maxTurns: 10,
    stderr: (text) => process.stderr.write(text),
  },
});
for await (const message of conversation) console.log(JSON.stringify(message));
