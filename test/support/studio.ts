import { type IncomingHttpHeaders, request as sendRequest } from "node:http";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import type { StudioChange } from "../../src/adapters/studio/studio-changes.ts";
import type { Ran, RunOptions } from "./command.ts";

export interface StudioAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
  /** The body, if it is JSON. */
  json: ReturnType<typeof JSON.parse>;
}

export interface StudioCall {
  method?: string;
  headers?: Record<string, string>;
  body?: unknown;
}

export interface StudioProcess {
  /** The address without the token. */
  url: string;
  /** The link that starts a session once. */
  link: string;
  token: string;
  /** Sends a request as it is, without a session. */
  send(path: string, call?: StudioCall): Promise<StudioAnswer>;
  /** Starts a session with the token. */
  open(): Promise<StudioSession>;
  stop(): Promise<Ran>;
}

/** Sends requests with the headers of a session. */
export interface StudioSession {
  (path: string, call?: StudioCall): Promise<StudioAnswer>;
  /** The headers that make a request part of the session. */
  credentials: Record<string, string>;
}

export type StudioRun = (args: readonly string[], options?: RunOptions) => Promise<Ran>;

/** Starts `skillet studio` on any free port, until the test has finished. */
export async function startStudio(run: StudioRun, ...args: string[]): Promise<StudioProcess> {
  const ending = new AbortController();
  let ended: Promise<Ran> | undefined;
  const link = await new Promise<string>((resolve, reject) => {
    let printed = "";
    const onOutput = (piece: string) => {
      printed += piece;
      if (printed.endsWith("\n")) resolve(JSON.parse(printed).link);
    };
    ended = run(["studio", "--json", "--port", "0", "--no-open", ...args], { signal: ending.signal, onOutput });
    ended.then(({ stderr, stdout }) => reject(new Error(`studio ended: ${stdout}${stderr}`)), reject);
  });
  const stop = async () => {
    ending.abort();
    return (await ended) as Ran;
  };
  onTestFinished(async () => void (await stop()));
  const [url = "", fragment = ""] = link.split("#");
  const token = fragment.replace("token=", "");
  const send = (path: string, call?: StudioCall) => sendTo(url, path, call);
  return {
    ...{ url, link, token, send, stop },
    async open() {
      const { headers, json } = await send("/api/session", { method: "POST", body: { token } });
      const cookie = headers["set-cookie"]?.[0]?.split(";")[0] ?? "";
      const credentials = { cookie, "x-skillet-key": String(json.key) };
      const sendWith = (path: string, call: StudioCall = {}) =>
        send(path, { ...call, headers: { ...credentials, ...call.headers } });
      return Object.assign(sendWith, { credentials });
    },
  };
}

/** Unlike `fetch`, this sends any header, such as Host. */
function sendTo(
  url: string,
  path: string,
  { method = "GET", headers = {}, body }: StudioCall = {},
): Promise<StudioAnswer> {
  const { hostname, port } = new URL(url);
  const type = body === undefined ? {} : { "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const request = sendRequest(
      { hostname, port, path, method, headers: { ...type, ...headers } },
      async (response) => {
        const given = await text(response);
        const isJson = response.headers["content-type"]?.startsWith("application/json");
        const json = isJson ? JSON.parse(given) : undefined;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: given, json });
      },
    );
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Follows the changes until the test ends. Resolves when the stream is open. */
export async function followChanges(url: string, { credentials }: StudioSession): Promise<() => StudioChange[]> {
  let received = "";
  await new Promise<void>((resolve, reject) => {
    const request = sendRequest(new URL("/api/changes", url), { headers: credentials }, (response) => {
      expect(response.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
      response.on("error", () => {}); // The server has ended.
      response.setEncoding("utf8").on("data", (piece) => {
        received += piece;
        resolve();
      });
    });
    onTestFinished(() => void request.destroy());
    request.on("error", reject).end();
  });
  return () => Array.from(received.matchAll(/^data: (.*)$/gm), ([, data = ""]) => JSON.parse(data));
}
