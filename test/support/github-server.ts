import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { createGithubProvider, type GithubProviderOptions } from "../../src/capabilities/github/github-provider.ts";
import type { ProviderCall } from "../../src/host/capability-contract.ts";
import { findSchemaProblem } from "../../src/host/json-schema.ts";
import { CLONE_TOKEN, type Json } from "./github-shapes.ts";

/** As long as a real one: a fine-grained token. */
export const TOKEN = `github_pat_11AAAAAAA0${"x".repeat(21)}_${"Y".repeat(40)}`;
export const CLIENT_ID = "Iv1.8a61f9b3a7aba766";
export const DEVICE_CODE = "3584d83530557fdd1f46af8289938c8ef79f9dc5";

export interface Got {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: IncomingHttpHeaders;
  body: unknown;
}

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  /** JSON; a text as it is. */
  body?: unknown;
  /** Closes the connection instead, or never answers. */
  ending?: "breaks" | "hangs";
}

/** The answer to one method and path. */
export type Routes = Readonly<Record<string, Reply | ((got: Got) => Reply)>>;

export interface GithubServer {
  url: string;
  requests: Got[];
}

/**
 * GitHub's REST API and its sign-in on the loopback interface. As the real one, it refuses a request without the token, the version of
 * the API or a user agent, and returns 404 for an unknown route.
 */
export async function startGithubServer(routes: Routes = {}, { token = TOKEN } = {}): Promise<GithubServer> {
  const requests: Got[] = [];
  const server = createServer(async (request, response) => {
    const got = await read(request);
    requests.push(got);
    const route = routes[`${got.method} ${got.path}`];
    const isWeb = got.path.startsWith("/login/");
    const reply =
      (isWeb ? webProblem(got) : headProblem(got, token)) ?? (typeof route === "function" ? route(got) : route);
    send(response, reply ?? problem(404, "Not Found"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/** Returns a provider's answer to `github.issues list`, which must match its schema and contain no credential. */
export async function ask(
  { url }: Pick<GithubServer, "url">,
  what: string,
  input: unknown,
  {
    signal = AbortSignal.timeout(10_000),
    ...more
  }: Partial<ProviderCall & GithubProviderOptions & { signal: AbortSignal }> = {},
): Promise<Json> {
  const [capability = "", operation = ""] = what.split(" ");
  const provider = createGithubProvider({ baseUrl: url, ...more });
  const call = { capability, operation, input, context: { run: "r1", skill: "github", source: "bundled" }, key: KEY };
  const { output } = await provider.invoke({ ...call, credential: CREDENTIAL, ...more }, { signal });
  const { capabilities } = await provider.describe({ signal });
  const described = capabilities.find(({ id }) => id === capability)?.operations.find(({ name }) => name === operation);
  expect(await findSchemaProblem(described?.outputSchema ?? { not: {} }, structuredClone(output))).toBeUndefined();
  for (const secret of [TOKEN, CLONE_TOKEN, KEY]) expect(JSON.stringify(output)).not.toContain(secret);
  return output as Json;
}

/** The key of a call: GitHub does not use it. */
export const KEY = "idempotency-key-7d1f";
export const CREDENTIAL = { account: "ada", secret: { token: TOKEN } };

/** Returns a page of a list, with the header that has the next page. */
export function paged(
  items: readonly unknown[],
  { query, headers, path }: Got,
  wrap = (page: unknown): unknown => page,
): Reply {
  const size = Number(query["per_page"] ?? 30);
  const page = Number(query["page"] ?? 1);
  const last = Math.max(1, Math.ceil(items.length / size));
  const at = (to: number, rel: string) => {
    // GitHub names a repository by its id here.
    const there = path.replace(/^\/repos\/[^/]+\/[^/]+/, "/repositories/1296269");
    return `<http://${headers.host}${there}?${new URLSearchParams({ ...query, page: String(to) })}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [at(page - 1, "prev")] : []),
    ...(page < last ? [at(page + 1, "next"), at(last, "last")] : []),
    ...(page > 1 ? [at(1, "first")] : []),
  ];
  return {
    ...(links.length > 0 ? { headers: { link: links.join(", ") } } : {}),
    body: wrap(items.slice((page - 1) * size, page * size)),
  };
}

export function problem(
  status: number,
  message: string,
  more: { headers?: Record<string, string>; errors?: unknown[] } = {},
): Reply {
  const body: Json = { message, documentation_url: "https://docs.github.com/rest", status: String(status) };
  if (more.errors) body["errors"] = more.errors;
  return { status, ...(more.headers ? { headers: more.headers } : {}), body };
}

async function read(request: IncomingMessage): Promise<Got> {
  const { method = "", url = "", headers } = request;
  const [path = "", query = ""] = url.split("?");
  const written = await text(request);
  const isForm = headers["content-type"]?.startsWith("application/x-www-form-urlencoded");
  const body =
    written === "" ? undefined : isForm ? Object.fromEntries(new URLSearchParams(written)) : JSON.parse(written);
  return { method, path, query: Object.fromEntries(new URLSearchParams(query)), headers, body };
}

function headProblem({ method, headers, body }: Got, token: string): Reply | undefined {
  if (!headers["user-agent"])
    return {
      status: 403,
      body: "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
    };
  if (headers.authorization !== `Bearer ${token}`) return problem(401, "Bad credentials");
  if (headers["x-github-api-version"] !== "2022-11-28") return problem(400, "The API version is not supported.");
  if (headers.accept !== "application/vnd.github+json") return problem(415, "Unsupported 'Accept' header");
  if (method !== "GET" && (headers["content-type"] !== "application/json" || typeof body !== "object")) {
    return problem(400, "Problems parsing JSON");
  }
  return undefined;
}

/** Its pages are not part of the API and must not receive a token. */
function webProblem({ method, headers, body }: Got): Reply | undefined {
  if (headers.authorization !== undefined || method !== "POST") return { status: 400, body: "no" };
  if (headers.accept !== "application/json") return { body: "error=not_json" };
  if ((body as Json)["client_id"] !== CLIENT_ID) return problem(404, "Not Found");
  return undefined;
}

function send(response: ServerResponse, { status = 200, headers = {}, body, ending }: Reply): void {
  if (ending === "hangs") return;
  if (ending === "breaks") {
    response.destroy();
    return;
  }
  const limits = { "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999", "x-ratelimit-reset": "1893456000" };
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", ...limits, ...headers });
  response.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body));
}
