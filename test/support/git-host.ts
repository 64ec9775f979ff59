import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer as createProxy } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./folder.ts";

/**
 * Serves the repositories of a folder as github.com: a server with a certificate of that name, and a proxy whose every
 * tunnel ends at it. The test's end closes both.
 */
export async function startGithub(folder: string): Promise<{ proxy: string; certificate: string }> {
  const files = temporaryFolder();
  const [key, certificate] = [join(files, "key.pem"), join(files, "certificate.pem")];
  const subject = ["-subj", "/CN=github.com", "-addext", "subjectAltName=DNS:github.com"];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"];
  execFileSync("openssl", [...made, "-keyout", key, "-out", certificate, ...subject], { stdio: "ignore" });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) => {
    const { pathname, search } = new URL(request.url ?? "/", "https://github.com");
    const [, owner, name, ...rest] = pathname.split("/");
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env["PATH"],
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: `/${owner}/${name?.replace(/\.git$/, "")}/.git/${rest.join("/")}`,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
        ...{ GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: "*" },
      },
    });
    request.pipe(backend.stdin);
    const parts: Buffer[] = [];
    backend.stdout.on("data", (part: Buffer) => parts.push(part));
    backend.on("close", () => {
      const answer = Buffer.concat(parts);
      const end = answer.indexOf("\r\n\r\n");
      const headers = answer
        .subarray(0, end)
        .toString()
        .split("\r\n")
        .map((line) => line.split(": ") as [string, string]);
      const status = headers.find(([name]) => name === "Status")?.[1] ?? "200";
      for (const [name, value] of headers) if (name !== "Status") response.setHeader(name, value);
      response.writeHead(Number.parseInt(status, 10)).end(answer.subarray(end + 4));
    });
  });
  const proxy = createProxy().on("connect", (_, client, head) => {
    const tunnel = connect((server.address() as AddressInfo).port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      tunnel.write(head);
      tunnel.pipe(client).pipe(tunnel);
    });
    for (const socket of [client, tunnel]) socket.on("error", () => socket.destroy());
  });
  for (const one of [server, proxy]) await new Promise<void>((resolve) => one.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const one of [server, proxy]) {
      one.closeAllConnections();
      one.close();
    }
  });
  return { proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, certificate };
}
