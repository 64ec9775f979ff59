// JSON-RPC and nothing else: the lower bound of a server in Node.
import { createInterface } from "node:readline";

const tools = [{ name: "nothing", description: "Does nothing.", inputSchema: { type: "object" } }];
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "raw", version: "1.0.0" },
  }),
  "tools/list": () => ({ tools }),
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const result = ANSWERS[method]?.(params);
  if (result) process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
});
