import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";
import { onTestFinished } from "vitest";

export type Answer = string | Uint8Array | ((request: IncomingMessage, response: ServerResponse) => void);

export interface SkillSite {
  /** `http://127.0.0.1:…` without a slash at its end. */
  url: string;
  /** The requested paths, in order. */
  asked: string[];
  /** The headers of the last request. */
  headers: IncomingMessage["headers"];
}

const SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
export const INDEX_PATH = "/.well-known/agent-skills/index.json";

/** A site on the loopback interface that answers these paths, until the test is over. */
export async function startSite(answers: Readonly<Record<string, Answer>>): Promise<SkillSite> {
  return start((request, response) => {
    const answer = answers[request.url ?? ""];
    if (answer === undefined) response.writeHead(404).end();
    else if (typeof answer === "function") answer(request, response);
    else response.end(answer);
  });
}

/** Serves the files of a folder over http, like a static server without git. */
export async function startFiles(folder: string): Promise<SkillSite> {
  return start((request, response) => {
    const path = normalize(new URL(request.url ?? "", "http://x").pathname);
    try {
      response.end(readFileSync(join(folder, path)));
    } catch {
      response.writeHead(404).end();
    }
  });
}

/**
 * A repository over http, as git's own server does. It uses the old protocol, in which only the commits of branches and tags
 * can be requested.
 */
export async function startGitServer(folder: string): Promise<SkillSite> {
  return start((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    const backend = spawn("git", ["http-backend"], {
      stdio: ["pipe", "pipe", "ignore"],
      env: {
        PATH: process.env["PATH"],
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        GIT_CONFIG_GLOBAL: "/dev/null",
        PATH_INFO: pathname,
        QUERY_STRING: String(searchParams),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"],
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
      },
    });
    request.pipe(backend.stdin.on("error", () => {}));
    const pieces: Buffer[] = [];
    backend.stdout.on("data", (piece: Buffer) => pieces.push(piece));
    backend.on("close", () => {
      const said = Buffer.concat(pieces);
      const end = said.indexOf("\r\n\r\n");
      const headers = said.subarray(0, end).toString().split("\r\n");
      for (const [name = "", value = ""] of headers.map((line) => line.split(": "))) {
        if (name === "Status") response.statusCode = Number.parseInt(value, 10);
        else response.setHeader(name, value);
      }
      response.end(said.subarray(end + 4));
    });
  });
}

/** The text of an index of these entries. */
export function siteIndex(skills: readonly unknown[], schema: unknown = SCHEMA): string {
  return JSON.stringify({ $schema: schema, skills });
}

/** Returns a valid entry. */
export function siteEntry(
  name: string,
  type: string,
  url: string,
  content: string | Uint8Array,
): Record<string, unknown> {
  const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  return { name, type, description: `Does ${name}.`, url, digest };
}

/** A folder as a compressed tar, created by the system's own tar. */
export function tarGz(folder: string, ...paths: string[]): Buffer {
  return execFileSync("tar", ["-czf", "-", "-C", folder, ...(paths.length > 0 ? paths : ["."])]);
}

async function start(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<SkillSite> {
  const site: SkillSite = { url: "", asked: [], headers: {} };
  const server = createServer((request, response) => {
    site.asked.push(request.url ?? "");
    site.headers = request.headers;
    handle(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  site.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return site;
}
