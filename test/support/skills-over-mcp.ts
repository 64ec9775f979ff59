import { createHash } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

interface Resource {
  uri: string;
  digest: string;
  size: number;
}

/** A skill as `skills/list` returns it; tests of hostile servers put anything into it. */
export interface ListedSkill {
  uri: string;
  frontmatter: Record<string, unknown>;
  resources: Resource[] | "dynamic";
}

/** Returns the entry of a skill with these files, by their paths. */
export function listedSkill(
  name: string,
  files: Record<string, string>,
  frontmatter: Record<string, unknown> = {},
): ListedSkill {
  const uriOf = (path: string) => `skill://${name}/${path}`;
  const resources = Object.entries(files).map(([path, content]) => ({
    uri: uriOf(path),
    digest: digestOf(content),
    size: Buffer.byteLength(content),
  }));
  return { uri: uriOf("SKILL.md"), frontmatter: { name, description: descriptionOf(name), ...frontmatter }, resources };
}

/** Returns a SKILL.md that fits `listedSkill`. */
export function listedText(name: string, body: string, more = ""): string {
  return `---\nname: ${name}\ndescription: ${descriptionOf(name)}\n${more}---\n\n${body}\n`;
}

function descriptionOf(name: string): string {
  return `Does ${name}. Use when asked for ${name}.`;
}

function digestOf(content: string): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

export interface SkillsOverMcp {
  url: string;
  /** The requests so far: the method, with the URI or cursor. */
  requests: string[];
  /** The listed entries, by page. */
  pages: (cursor: string | undefined) => { skills: unknown[]; nextCursor?: string; ttlMs?: number };
  /** The content of each file, by its URI. */
  files: Map<string, string>;
  /** Answers a request in its own way. Returns false to leave it to the server. */
  intercept: (method: string, response: ServerResponse) => boolean;
  /** Listings are answered after this. */
  isReady: Promise<void>;
  stop(): void;
}

/** An MCP server over HTTP that serves skills, written by hand: it can do what no library lets a server do. */
export async function startSkillsServer(skills: Record<string, Record<string, string>>): Promise<SkillsOverMcp> {
  const server = createServer(async (request, response) => {
    const message = JSON.parse(request.method === "POST" ? await text(request) : "{}");
    const { id, method = "", params = {} } = message;
    const { uri, cursor } = params;
    state.requests.push([method, uri ?? cursor].filter(Boolean).join(" "));
    if (state.intercept(method, response)) return;
    const answer = (body: object) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...body }));
    };
    if (id === undefined) response.writeHead(202).end();
    else if (method === "initialize") answer({ result: INITIALIZED });
    else if (method === "skills/list") void state.isReady.then(() => answer({ result: state.pages(cursor) }));
    else if (method === "resources/read" && state.files.has(uri)) answer({ result: { contents: [contentOf(uri)] } });
    else answer({ error: { code: method === "resources/read" ? -32602 : -32601, message: "unknown" } });
  });
  const contentOf = (uri: string) => ({ uri, text: state.files.get(uri) ?? "" });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const state: SkillsOverMcp = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    requests: [],
    pages: () => ({ skills: Object.entries(skills).map(([name, files]) => listedSkill(name, files)) }),
    files: new Map(
      Object.entries(skills).flatMap(([name, files]) =>
        Object.entries(files).map(([path, content]) => [`skill://${name}/${path}`, content] as const),
      ),
    ),
    intercept: () => false,
    isReady: Promise.resolve(),
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
  onTestFinished(state.stop);
  return state;
}

const INITIALIZED = {
  protocolVersion: "2025-11-25",
  serverInfo: { name: "hand-written", version: "1.0.0" },
  capabilities: { resources: {}, extensions: { "io.modelcontextprotocol/skills": {} } },
};
