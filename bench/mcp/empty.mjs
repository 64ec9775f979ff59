// A server that has one tool, which does nothing. It is run as it is, and bundled.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
  const mcp = new McpServer({ name: "empty", version: "1.0.0" });
  mcp.registerTool("nothing", { description: "Does nothing." }, () => ({ content: [] }));
  return mcp;
});
