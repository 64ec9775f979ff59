// A server of tools that the tests start as a program: `node mcp-server.ts KIND`.
import { appendFileSync } from "node:fs";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { type Kind, toolServer } from "./mcp-tools.ts";

const [kind = "usual"] = process.argv.slice(2);
const log = process.env["MCP_LOG"];
if (log) appendFileSync(log, `start ${process.pid}\n`);

const ODD: Record<string, () => void> = {
  /** Says nothing, and does not end when its input does. */
  silent: () => void setInterval(() => {}, 1000),
  /** Prints what is no message, for ever. */
  floods() {
    const line = `${"no message ".repeat(500)}\n`;
    const write = () => {
      while (process.stdout.write(line));
      process.stdout.once("drain", write);
    };
    write();
  },
  /** Ends at once. */
  dies() {
    process.stderr.write("the key is missing\n");
    process.exitCode = 7;
  },
  /** Prints lines of its own between its messages, and much on its standard error. */
  chatty() {
    process.stdout.write("Starting up...\n{not json}\n");
    process.stderr.write("w".repeat(5_000_000));
    serveStdio(() => toolServer("usual"));
  },
  /** Does not end when it is told to. */
  stubborn() {
    process.on("SIGTERM", () => {});
    setInterval(() => {}, 1000);
    serveStdio(() => toolServer("usual"));
  },
  /** Knows only the newer way to be greeted. */
  modern: () => void serveStdio(() => toolServer("usual"), { legacy: "reject" }),
};

const odd = ODD[kind];
if (odd) odd();
else serveStdio(() => toolServer(kind as Kind));
