// A server of tools that the tests start as a program: `node mcp-server.ts KIND`.
import { appendFileSync } from "node:fs";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createToolServer, type Kind } from "./mcp-tools.ts";

const [kind = "usual"] = process.argv.slice(2);
const log = process.env["MCP_LOG"];
if (log) appendFileSync(log, `start ${process.pid}\n`);

const ODD: Record<string, () => void> = {
  /** Prints nothing, and does not end at the end of its input. */
  silent: () => void setInterval(() => {}, 1000),
  /** Prints invalid messages without end. */
  floods() {
    const line = `${"no message ".repeat(500)}\n`;
    const write = () => {
      while (process.stdout.write(line));
      process.stdout.once("drain", write);
    };
    write();
  },
  /** Ends immediately. */
  dies() {
    process.stderr.write("the key is missing\n");
    process.exitCode = 7;
  },
  /** Prints other lines between its messages, and a lot on stderr. */
  chatty() {
    process.stdout.write("Starting up...\n{not json}\n");
    process.stderr.write("w".repeat(5_000_000));
    serveStdio(() => createToolServer("usual"));
  },
  /** Ignores the signal to end. */
  stubborn() {
    process.on("SIGTERM", () => {});
    setInterval(() => {}, 1000);
    serveStdio(() => createToolServer("usual"));
  },
  /** Supports only the newer handshake. */
  modern: () => void serveStdio(() => createToolServer("usual"), { legacy: "reject" }),
};

const odd = ODD[kind];
if (odd) odd();
else serveStdio(() => createToolServer(kind as Kind));
