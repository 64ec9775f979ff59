import type { McpServer } from "@modelcontextprotocol/server";

/**
 * Lets a request for the list of tools, or for a tool that is not listed yet, wait for the toolsets that are being imported. A list that
 * is asked for because a skill was loaded would lack them otherwise. `arriving` gets the tool's name, or undefined for the list.
 */
export function waitForTools(mcp: McpServer, arriving: (tool: string | undefined) => Promise<void> | undefined): void {
  const { server } = mcp;
  // The SDK adds the tools' handlers with the first tool.
  const setRequestHandler = server.setRequestHandler.bind(server) as (method: string, ...rest: unknown[]) => void;
  const set = (method: string, ...rest: unknown[]) => {
    const handle = rest.at(-1);
    if (!["tools/list", "tools/call"].includes(method) || typeof handle !== "function")
      return setRequestHandler(method, ...rest);
    const waiting = async (request: { params?: { name?: string } }, ...more: unknown[]) => {
      const wait = arriving(request.params?.name);
      if (wait) await (method === "tools/list" ? soon(wait) : wait);
      return handle(request, ...more);
    };
    setRequestHandler(method, ...rest.slice(0, -1), waiting);
  };
  server.setRequestHandler = set as typeof server.setRequestHandler;
}

/** Resolves with the promise, or after a while: an import may take long. */
function soon(promise: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, LONGEST_WAIT_MS);
    void promise.then(() => {
      clearTimeout(late);
      resolve();
    });
  });
}

const LONGEST_WAIT_MS = 5000;
