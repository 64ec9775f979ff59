// A server with one tool that does nothing. It runs from source, and bundled.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
  const mcp = new McpServer({ name: "empty", version: "1.0.0" });
  mcp.registerTool("nothing", { description: "Does nothing." }, () => ({ content: [] }));
  return mcp;
});
