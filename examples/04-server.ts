// Your own MCP server with skills: `npx node examples/04-server.ts [folder...]`, started by any MCP client.
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createDirectorySource, loadCatalog, openSession } from "skillet";
import { createMcpServer } from "skillet/mcp";
import { z } from "zod";

const folders = process.argv.length > 2 ? process.argv.slice(2) : [`${import.meta.dirname}/skills`];
const catalog = await loadCatalog(folders.map((path) => createDirectorySource({ path, scope: "user" })));

serveStdio(() => {
  const session = openSession(catalog, {}, { provides: "all" }); // one for each client
  const server = createMcpServer(session);
  server.registerTool("today", { description: "The date, as an ISO date.", inputSchema: z.object({}) }, () => ({
    content: [{ type: "text", text: new Date().toISOString().slice(0, 10) }],
  }));
  server.server.onclose = () => session.close();
  return server;
});
