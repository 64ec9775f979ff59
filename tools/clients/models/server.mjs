import { createServer } from "node:http";
import { json } from "node:stream/consumers";

/**
 * Starts a model on the loopback interface that follows a conversation, with a provider's protocol.
 * It is also the client's proxy, if the client uses one: requests to other hosts are refused and recorded.
 */
export async function modelServer(protocol, conversation) {
  const elsewhere = new Set();
  const server = createServer(async (request, response) => {
    if (!request.url.startsWith("/")) {
      elsewhere.add(new URL(request.url).host);
      response.writeHead(403).end();
      return;
    }
    try {
      const { pathname } = new URL(request.url, "http://127.0.0.1");
      if (request.method !== "POST" || !protocol.isAsked(pathname)) {
        send(response, protocol.aside?.(pathname) ?? {});
        return;
      }
      const body = await json(request);
      const read = protocol.read(body, pathname);
      const answer = conversation.next({ ...read, body });
      if (read.isStream)
        response
          .writeHead(200, { "content-type": "text/event-stream" })
          .end(`${protocol.stream(answer, read).join("\n\n")}\n\n`);
      else send(response, protocol.answer(answer, read));
    } catch (error) {
      conversation.problems.push(`the model server: ${error.stack}`);
      send(response, { error: { type: "invalid_request_error", message: error.message } }, 400);
    }
  });
  server.on("connect", ({ url }, socket) => {
    elsewhere.add(url);
    socket.on("error", () => {});
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    elsewhere,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function send(response, value, status = 200) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}
