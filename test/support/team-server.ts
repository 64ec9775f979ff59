import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, onTestFinished, vi } from "vitest";
import { skillet } from "./command.ts";
import { type Called, connectClient, type Era, negotiation } from "./mcp-client.ts";
import { type McpProcess, type Place, startMcpProcess } from "./mcp-process.ts";

const SOON = { timeout: 45_000, interval: 20 };

/** Returns the code of a result. */
export const codeOf = ({ meta }: Pick<Called, "meta">) => meta["skillet/code"];

/** A server for several people, as a process, and the commands of its operator. */
export interface TeamServer {
  place: Place;
  process: McpProcess;
  url: URL;
  /** The token of the server itself. */
  token: string;
  /** Creates a token of a person with a command. */
  createToken(person: string, ...options: string[]): Promise<{ id: string; token: string }>;
  connect(token: string, era?: Era, more?: ClientParts): Promise<TeamClient>;
  /** Runs a command of the operator, which must succeed. */
  command(...args: string[]): Promise<string>;
  /** Sends a request without a client. */
  send(path: string, init?: RequestInit & { token?: string }): Promise<Response>;
}

interface ClientParts {
  capabilities?: ConstructorParameters<typeof Client>[1] extends infer O ? O : never;
}

export type TeamClient = ReturnType<typeof connectClient> & { session(): string | undefined };

const OWN_TOKEN = "the-token-of-this-server-alone";

export async function startTeamServer(
  place: Place,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<TeamServer> {
  const process = startMcpProcess(place, ["--http", "0", "--token", "env:OWN_TOKEN", ...args], {
    env: { OWN_TOKEN, ...env },
  });
  const url = await vi.waitFor(() => new URL(process.lines()[0] ?? ""), SOON);
  const command = async (...words: string[]) => {
    const { code, stdout, stderr } = await skillet(words, { cwd: place.cwd, env: { HOME: place.home } });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  return {
    place,
    process,
    url,
    token: OWN_TOKEN,
    command,
    async createToken(person, ...options) {
      return JSON.parse(await command("token", "create", person, ...options, "--json"));
    },
    connect: (token, era = "2025-11-25", { capabilities } = {}) => connectWith(url, token, era, capabilities),
    send: (path, { token, ...init } = {}) =>
      fetch(new URL(path, url), {
        ...init,
        headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...init.headers },
      }),
  };
}

/** Connects a client with a token. */
export async function connectWith(url: URL, token: string, era: Era, options: object = {}): Promise<TeamClient> {
  const client = new Client({ name: "test", version: "1.0.0" }, { ...negotiation(era), ...options });
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { ...connectClient(client), session: () => transport.sessionId };
}
