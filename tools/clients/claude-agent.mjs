// Claude Code, as a program starts it that uses the Agent SDK: claude-agent.mjs FILE_WITH_SERVERS PROMPT
import { readFileSync } from "node:fs";
import { query } from "@anthropic-ai/claude-agent-sdk";

const [file, prompt] = process.argv.slice(2);
const { mcpServers } = JSON.parse(readFileSync(file, "utf8"));

const conversation = query({
  prompt,
  options: {
    mcpServers,
    settingSources: [],
    // All tools of the server, and none else: nobody is there to be asked.
    permissionMode: "dontAsk",
    allowedTools: Object.keys(mcpServers).map((name) => `mcp__${name}`),
    model: "claude-sonnet-4-5",
    maxTurns: 10,
    stderr: (text) => process.stderr.write(text),
  },
});
for await (const message of conversation) console.log(JSON.stringify(message));
