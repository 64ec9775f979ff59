import { setUp } from "./clients.mjs";
import { modelServer } from "./models/server.mjs";
import { runProgram } from "./process.mjs";

/** The model's answer to every request of a captured prompt. */
const ANSWER = "Done.";

/**
 * Starts a client once with a prompt and returns the model requests that it made, as text, the largest first one first: titles and other
 * side requests have no tools. Contract: the client's processes are gone afterwards.
 */
export async function capture(client, home, prompt) {
  const requests = [];
  const problems = [];
  const conversation = {
    problems,
    next({ tools, body }) {
      requests.push({ hasTools: tools.length > 0, body });
      return { text: ANSWER };
    },
  };
  const model = await modelServer(client.protocol, conversation);
  try {
    setUp(client, home, model.url);
    const { command, env } = client.ask({ path: home.path, url: model.url, prompt });
    const ended = await runProgram(command, {
      cwd: home.workspace,
      env: { ...home.env, HTTP_PROXY: model.url, HTTPS_PROXY: model.url, NO_PROXY: "127.0.0.1,localhost", ...env },
    });
    const first = requests.find(({ hasTools }) => hasTools) ?? requests[0];
    if (!first) problems.push("it made no model request");
    return { first: first?.body, requests: requests.map(({ body }) => body), problems, ended };
  } finally {
    model.close();
  }
}

/** Returns every text in a request, joined: descriptions arrive escaped and cut into parts. */
export function textsIn(value) {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return "";
  return Object.values(value).map(textsIn).filter(Boolean).join("\n");
}
