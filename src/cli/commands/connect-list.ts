import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { CLIENTS, type Place, type Scope } from "../../mcp/config/clients.ts";
import { type ConnectionRecord, openConnections } from "../../mcp/config/connection-record.ts";
import { type ConnectionState, findServerName, readConnection } from "../../mcp/config/connection-state.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { CommonOptions } from "../program.ts";

/** A client, and the state of its connection at one level. */
export interface ConnectionFacts {
  client: string;
  title: string;
  scope: Scope;
  /** Its program or its folder is on this machine. */
  isFound: boolean;
  state: ConnectionState;
}

/** Reads the connections of all clients, at the user's level, and in the project those that are connected there. */
export async function connectionsOf(
  place: Place,
  records: Readonly<Record<string, ConnectionRecord>>,
): Promise<ConnectionFacts[]> {
  const facts: ConnectionFacts[] = [];
  for (const [client, row] of Object.entries(CLIENTS)) {
    const isFound = existsSync(row.folder(place)) || isInPath(row.program, place);
    for (const scope of ["user", "project"] as const) {
      const name = (await findServerName({ client, scope, place })) ?? "skillet";
      const state = await readConnection({ client, scope, place, name }, records);
      const isSame = scope === "project" && row.user(place) === row.project(place);
      if (scope === "user" || (!isSame && isConnected(state)))
        facts.push({ client, title: row.title, scope, isFound, state });
    }
  }
  return facts;
}

export function isConnected({ server, hook }: ConnectionState): boolean {
  return server.entry !== undefined || hook?.handler !== undefined;
}

/** Prints which clients are on this machine, and whether each is connected. */
export async function listConnections(io: Io, options: CommonOptions): Promise<number> {
  const around = surroundingsFor(io, options);
  const place = { ...around, env: io.env, platform: process.platform };
  const all = await connectionsOf(place, openConnections(around.skilletHome).entries());
  const facts = all.filter(({ isFound, scope, state }) => isFound || scope === "project" || isConnected(state));
  if (options.json) {
    printJson(io.stdout, { clients: all.map(asJson) });
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  if (facts.length === 0)
    out.line`No client is on this machine that skillet can connect. Supported clients: ${Object.keys(CLIENTS).join(", ")}`;
  const widest = Math.max(0, ...facts.map(({ title }) => title.length));
  for (const { client, title, scope, state } of facts) {
    const problem = state.server.problem ?? state.hook?.problem;
    const { mark, text } = problem
      ? { mark: out.red("✗"), text: problem.message }
      : isConnected(state)
        ? { mark: out.green("✓"), text: partsOf(state) }
        : { mark: out.dim("·"), text: `not connected: skillet connect ${client}` };
    out.line`${mark} ${title.padEnd(widest)}  ${scope === "project" ? "this project: " : ""}${text}`;
  }
  const missing = all.filter(({ isFound, scope, state }) => !isFound && scope === "user" && !isConnected(state));
  if (missing.length > 0)
    out.line`${out.dim(`Not found on this machine: ${missing.map(({ title }) => title).join(", ")}`)}`;
  return EXIT.fine;
}

function partsOf({ server, hook }: ConnectionState): string {
  const parts = [server.entry && "server", hook?.handler && "prompt hook"].filter((part) => part !== undefined);
  return parts.join(" and ");
}

function asJson({ client, title, scope, isFound, state: { server, hook } }: ConnectionFacts) {
  const problem = server.problem ?? hook?.problem;
  return {
    client,
    title,
    scope,
    isFound,
    server: { file: server.file, isConnected: server.entry !== undefined },
    hook: hook ? { file: hook.file, isConnected: hook.handler !== undefined } : null,
    problem: problem ? { code: problem.code, message: problem.message, fix: problem.fix ?? "" } : null,
  };
}

function isInPath(program: string, { env, platform }: Place): boolean {
  const names = platform === "win32" ? [`${program}.exe`, `${program}.cmd`] : [program];
  return (env["PATH"] ?? "").split(delimiter).some((folder) =>
    names.some((name) => {
      try {
        if (folder === "") return false;
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    }),
  );
}
