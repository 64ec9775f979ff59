import { createServer, request as sendRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy on the loopback interface that passes requests to servers in turn; with stickiness, those of a session always to one. */
export async function startBalancer(
  servers: readonly URL[],
  { isSticky = false, host }: { isSticky?: boolean; host?: string } = {},
) {
  const counts = servers.map(() => 0);
  const bySession = new Map<string, number>();
  let turn = 0;
  const proxy = createServer((incoming, outgoing) => {
    const session = String(incoming.headers["mcp-session-id"] ?? "");
    const known = isSticky ? bySession.get(session) : undefined;
    const index = known ?? turn++ % servers.length;
    counts[index] = (counts[index] ?? 0) + 1;
    const { hostname, port } = servers[index] as URL;
    const headers = { ...incoming.headers, host: host ?? `${hostname}:${port}` };
    const passed = sendRequest({ hostname, port, path: incoming.url, method: incoming.method, headers }, (answer) => {
      const started = answer.headers["mcp-session-id"];
      if (typeof started === "string") bySession.set(started, index);
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    proxy.close();
    proxy.closeAllConnections();
  });
  return { url: new URL(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`), counts };
}
