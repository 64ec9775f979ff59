import type { Discovered } from "../../host/discover.ts";
import { type ConnectionCheck, checkConnections, type PartCheck } from "../../mcp/config/connection-check.ts";
import { openConnections } from "../../mcp/config/connection-record.ts";
import { PROMPT_HOOKS } from "../../mcp/config/hook-config.ts";
import { type Io, type Printer, untilInterrupted } from "../io.ts";
import { waitingFor } from "../progress.ts";
import { type ConnectionFacts, connectionsOf, isConnected } from "./connect-list.ts";
import { ownProgram } from "./mcp-config.ts";

/** A connected client, and what came of starting its server and its hook. */
export interface CheckedClient {
  client: string;
  title: string;
  scope: string;
  server: PartCheck | null;
  hook: PartCheck | null;
  problems: { code: string; message: string; fix: string }[];
}

/** Reads the configuration of each client, and starts its server and its hook. */
export async function connectionFacts(io: Io, { around }: Discovered): Promise<CheckedClient[]> {
  const place = { ...around, env: io.env, platform: process.platform };
  const all = await connectionsOf(place, openConnections(around.skilletHome).entries());
  const facts = all.filter(({ isFound, state }) => isConnected(state) || (isFound && problemOf(state) !== undefined));
  if (facts.length === 0) return [];
  const context = { place, skilletHome: around.skilletHome, program: ownProgram() };
  const checks = await waitingFor(io, "starting the servers and hooks of clients", () =>
    untilInterrupted(io, (signal) => checkConnections(facts, { ...context, signal })),
  );
  return facts.map((fact, at) => checkedClient(fact, checks[at]));
}

function checkedClient({ client, title, scope, state }: ConnectionFacts, check?: ConnectionCheck): CheckedClient {
  const command = `skillet connect ${client}${scope === "project" ? " --project" : ""}`;
  const problems: CheckedClient["problems"] = [];
  const broken = problemOf(state);
  if (broken) problems.push({ code: broken.code, message: broken.message, fix: broken.fix ?? "" });
  const report = (what: string, part: PartCheck | undefined) => {
    if (part?.state !== "fails") return;
    const message = `${title} is connected, and its ${what} does not work: ${part.detail}`;
    problems.push({ code: "connection-broken", message, fix: `Run: ${command}` });
  };
  report("server", check?.server);
  // A hook that calls the server fails with it: one problem is enough.
  if (check?.server?.state !== "fails" || !isToolHook(state)) report("prompt hook", check?.hook);
  return { client, title, scope, server: check?.server ?? null, hook: check?.hook ?? null, problems };
}

function isToolHook({ hook }: ConnectionFacts["state"]): boolean {
  return Object(hook?.handler)["type"] === "mcp_tool";
}

function problemOf({ server, hook }: ConnectionFacts["state"]) {
  return server.problem ?? hook?.problem;
}

export function printConnections(out: Printer, clients: readonly CheckedClient[]): void {
  out.line`\n${out.bold("Connections")} ${out.dim("`skillet connect` lists the clients on this machine")}`;
  if (clients.length === 0) out.line`  ${out.dim("no client is connected")}`;
  for (const { client, title, scope, server, hook, problems } of clients) {
    const mark = problems.length > 0 ? out.red("✗") : out.green("✓");
    const hint = hook === null && PROMPT_HOOKS[client] !== undefined ? "no prompt hook" : undefined;
    const parts = [server && `server: ${said(server)}`, hook ? `prompt hook: ${said(hook)}` : hint];
    out.line`  ${mark} ${title}${scope === "project" ? " (this project)" : ""}  ${parts.filter(Boolean).join("; ")}`;
  }
}

function said({ state, detail }: PartCheck): string {
  return state === "fails" ? "fails" : state === "untried" ? `not tried: ${detail}` : detail;
}
