import type { IncomingMessage } from "node:http";

type Env = Readonly<Record<string, string | undefined>>;

const PORT = 11434;
export const OLLAMA = `http://127.0.0.1:${PORT}`;

const LONGEST_WAIT_MS = 300;
const LARGEST_LIST = 1024 * 1024;

/** Where Ollama is: on this machine, or where its own variable says. */
export function ollamaUrl(env: Env = {}): string {
  const written = env["OLLAMA_HOST"]?.trim() ?? "";
  const hasScheme = /^https?:\/\//.test(written);
  const address = hasScheme ? written : `http://${written.startsWith(":") ? `127.0.0.1${written}` : written}`;
  if (written === "" || !URL.canParse(address)) return `${OLLAMA}/v1`;
  const url = new URL(address);
  if (!hasScheme && !/:\d+(?:\/|$)/.test(written)) url.port = String(PORT);
  // What a server listens at is no place to ask.
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  if (url.hostname === "[::]") url.hostname = "[::1]";
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1`;
}

/** The first model that a server there lists, if there is a server, and it has one that can answer. */
export async function localModel(baseUrl: string): Promise<string | undefined> {
  try {
    const { data } = JSON.parse(await textAt(`${baseUrl}/models`)) as { data?: unknown };
    const names = (Array.isArray(data) ? data : []).map((entry) => Object(entry).id);
    // Those for embeddings are listed too, and can say nothing.
    return names.find((name) => typeof name === "string" && name !== "" && !/embed/i.test(name));
  } catch {
    return undefined;
  }
}

// `fetch` would be loaded for this alone, and takes longer to load than to ask.
async function textAt(url: string): Promise<string> {
  const { get } = await (url.startsWith("https:") ? import("node:https") : import("node:http"));
  const signal = AbortSignal.timeout(LONGEST_WAIT_MS);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { signal, agent: false }, resolve).on("error", reject);
  });
  let text = "";
  for await (const piece of response.setEncoding("utf8")) {
    text += piece;
    if (text.length > LARGEST_LIST) throw new Error("too long");
  }
  return response.statusCode === 200 ? text : "";
}
