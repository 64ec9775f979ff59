import { join } from "node:path";
import { type HttpMcpServer, serveHttp } from "../../src/adapters/mcp-server/http-server.ts";
import { createMcpServer } from "../../src/adapters/mcp-server/mcp-server.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { discover } from "../../src/config/discover.ts";
import { addFixtures } from "./support/fixtures.ts";

/** Skillet's own HTTP server, with the tools, resources and prompts that the conformance suite requests in addition to this home's skills. */
export async function conformanceServer(home: string): Promise<HttpMcpServer> {
  const found = await discover({ workspace: join(home, "project"), env: { HOME: home }, index: false });
  const serving = await serveHttp(
    ({ era }) => {
      const session = openSession(found.catalog, found, { provides: "all" });
      const server = createMcpServer(session, { prompts: false, isStateless: era === "modern" });
      server.server.onclose = () => session.close();
      addFixtures(server, {
        toolsChanged: () => (era === "modern" ? serving.notify.toolsChanged() : server.sendToolListChanged()),
        promptsChanged: () => (era === "modern" ? serving.notify.promptsChanged() : server.sendPromptListChanged()),
      });
      return server;
    },
    { token: false },
  );
  return serving;
}
