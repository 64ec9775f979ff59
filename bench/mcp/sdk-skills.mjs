// Serves a folder of skills with the SDK's loader.
import { McpServer } from "@modelcontextprotocol/server";
import { loadSkills } from "@modelcontextprotocol/server/ext/skills/node";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const skills = await loadSkills(process.argv[2]);
serveStdio(() => {
  const mcp = new McpServer({ name: "skills", version: "1.0.0" });
  mcp.registerTool("nothing", { description: "Does nothing." }, () => ({ content: [] }));
  skills.attach(mcp);
  return mcp;
});
