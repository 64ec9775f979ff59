import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

export const skillet = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");
const HELD = pathToFileURL(join(import.meta.dirname, "held.mjs")).href;
const REVISION = "2025-11-25";

/** Starts a server and speaks to it over its streams. `isWatched`: it also reports its memory. `refreshes`: lists the tools again after a change. */
export function startServer({ args, cwd, env, isWatched = false, refreshes = false }) {
  const flags = isWatched ? ["--expose-gc", "--import", HELD] : [];
  const stdio = ["pipe", "pipe", "pipe", ...(isWatched ? ["ipc"] : [])];
  const child = spawn(process.execPath, [...flags, ...args], { cwd, env, stdio });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const waiting = new Map();
  let said = "";
  let count = 0;
  let onFirst;
  const firstLine = new Promise((resolve) => {
    onFirst = resolve;
  });
  child.stderr.on("data", (bytes) => {
    said = `${said}${bytes}`.slice(-2000);
  });
  child.stdin.on("error", () => {}); // The error below has the output of the server.
  createInterface({ input: child.stdout }).on("line", (line) => {
    onFirst(line);
    const { id, method, ...answer } = JSON.parse(line);
    if (refreshes && method === "notifications/tools/list_changed") send({ id: ++count, method: "tools/list" });
    if (id === undefined || method !== undefined) return;
    waiting.get(id)?.resolve(answer);
    waiting.delete(id);
  });
  const fail = () => {
    const error = new Error(`${args.slice(0, 3).join(" ")} ended: ${said.trim()}`);
    for (const { reject } of waiting.values()) reject(error);
    onFirst("");
  };
  ended.then(fail);
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  return {
    firstLine,
    /** Contract: rejects when the server ended or returned an error. */
    async ask(method, params = {}) {
      const id = ++count;
      const answered = Promise.withResolvers();
      waiting.set(id, answered);
      send({ id, method, params });
      return resultOf(await answered.promise, method);
    },
    tell: (method) => send({ method }),
    held() {
      const answered = new Promise((resolve) => child.once("message", resolve));
      child.send("held");
      return answered;
    },
    async stop({ isSignalled = false } = {}) {
      if (child.connected) child.disconnect();
      child.stdin.end();
      if (isSignalled) child.kill("SIGINT");
      await ended;
    },
  };
}

export function initializing() {
  const clientInfo = { name: "bench", version: "1.0.0" };
  return { protocolVersion: REVISION, capabilities: {}, clientInfo };
}

/** Starts `skillet serve` over stdio, and resolves when it answers. */
export async function openStdio(home, options = {}) {
  const server = startServer({ args: [skillet, "serve"], ...home, ...options });
  await server.ask("initialize", initializing());
  server.tell("notifications/initialized");
  return server;
}

export function resultOf({ result, error }, what) {
  if (error || result?.isError) throw new Error(`${what}: ${error?.message ?? JSON.stringify(result.content)}`);
  return result;
}
