import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type CreateMcpHandlerOptions, createMcpHandler } from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import { createToolServer } from "./mcp-tools.ts";

interface HttpOptions extends CreateMcpHandlerOptions {
  /** The only accepted token. */
  token?: string;
  log?: string;
}

/** A server of tools on the loopback interface, by Streamable HTTP. */
export async function startMcpHttpServer({ token, log, ...options }: HttpOptions = {}) {
  const handler = createMcpHandler(() => createToolServer("usual", log), options);
  const requests: string[] = [];
  let isBroken = false;
  const server = createServer(async (request, response) => {
    requests.push(request.method ?? "");
    if (isBroken) {
      isBroken = false;
      request.socket.destroy();
      return;
    }
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(401).end();
      return;
    }
    const body = request.method === "POST" ? await text(request) : undefined;
    const ended = new AbortController();
    response.on("close", () => ended.abort());
    const answer = await handler.fetch(
      new Request(`http://127.0.0.1${request.url}`, {
        method: request.method ?? "GET",
        headers: request.headers as Record<string, string>,
        signal: ended.signal,
        ...(body === undefined ? {} : { body }),
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body as never).pipe(response);
    else response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  /** Closes the connection of the next request. */
  const breakNext = () => {
    isBroken = true;
  };
  onTestFinished(stop);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, requests, stop, breakNext };
}
