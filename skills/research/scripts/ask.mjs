#!/usr/bin/env node
// Asks Perplexity one question and prints the answer with its sources.
// Usage: ask.mjs [--pro] [--since hour|day|week|month|year] QUESTION   (or the question on standard input)
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { connect as tlsConnect } from "node:tls";
import { parseArgs } from "node:util";

const HOST = "api.perplexity.ai";
const SECONDS = 50; // Scripts of skills have a limit of 60 seconds.
const PERIODS = ["hour", "day", "week", "month", "year"];
const USAGE = `usage: ask.mjs [--pro] [--since ${PERIODS.join("|")}] 'QUESTION'`;
const SETTINGS = `Add to ~/.skillet/config.toml:
  [skills.research]
  PERPLEXITY_API_KEY = "env:PERPLEXITY_API_KEY"
  network = ["${HOST}:443"]`;

// A sandbox reaches the network through a proxy. Older versions of Node do not use it, and no version reports why it refused.
const PROXY = process.env.HTTPS_PROXY ?? process.env.https_proxy ?? "";
const key = (process.env.PERPLEXITY_API_KEY ?? "").trim();

/** An error that the caller can act on. */
class Failure extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

try {
  const { question, model, since } = await readCommand();
  if (key === "") throw new Failure(`The API key is missing: PERPLEXITY_API_KEY is not set.\n${SETTINGS}`);
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new Failure(
      "PERPLEXITY_API_KEY is not a valid key: it contains blanks, line breaks or other invalid characters.",
    );
  const body = { model, messages: [{ role: "user", content: question }] };
  if (since !== undefined) body.search_recency_filter = since;
  process.stdout.write(answerOf(await ask(JSON.stringify(body))));
} catch (error) {
  const failure = error instanceof Failure ? error : new Failure(`Unexpected error: ${error.code ?? error.name}.`);
  process.stderr.write(`${withoutKey(failure.message)}\n`);
  process.exitCode = failure.exitCode;
}

async function readCommand() {
  const options = { pro: { type: "boolean", default: false }, since: { type: "string" } };
  let parsed;
  try {
    parsed = parseArgs({ options, allowPositionals: true });
  } catch {
    throw new Failure(USAGE, 2);
  }
  const { pro, since } = parsed.values;
  if (since !== undefined && !PERIODS.includes(since)) throw new Failure(USAGE, 2);
  const isPiped = parsed.positionals.length === 0 && !process.stdin.isTTY;
  const question = (isPiped ? await text(process.stdin) : parsed.positionals.join(" ")).trim();
  if (question === "") throw new Failure(USAGE, 2);
  return { question, model: pro ? "sonar-pro" : "sonar", since };
}

async function ask(body) {
  const signal = AbortSignal.timeout(SECONDS * 1000);
  try {
    const response = await post(body, signal);
    const received = await text(response);
    if (response.statusCode === 200) return received;
    throw new Failure(`${whyRefused(response.statusCode)}${detailOf(received)}`);
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (signal.aborted) throw new Failure(`${HOST} did not answer within ${SECONDS} seconds. Ask a narrower question.`);
    throw new Failure(
      `${HOST} cannot be reached (${error.code ?? error.name}).${PROXY ? "" : ` Network access is not allowed.\n${SETTINGS}`}`,
    );
  }
}

async function post(body, signal) {
  const socket = PROXY === "" ? undefined : await tunnel(new URL(PROXY), signal);
  const headers = {
    Authorization: `Bearer ${key}`,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  };
  const way = socket ? { createConnection: () => tlsConnect({ socket, servername: HOST }) } : {};
  return new Promise((resolve, reject) => {
    const request = httpsRequest({ host: HOST, path: "/chat/completions", method: "POST", headers, signal, ...way });
    request.on("response", resolve).on("error", reject).end(body);
  });
}

function tunnel({ hostname, port }, signal) {
  const path = `${HOST}:443`;
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: hostname, port, method: "CONNECT", path, signal, agent: false });
    request.on("error", reject).on("connect", ({ statusCode, statusMessage }, socket) => {
      if (statusCode === 200) return resolve(socket);
      socket.destroy();
      const why = `The proxy refused the connection to ${path} (${statusCode} ${oneLine(statusMessage)}).`;
      const isClosed = statusCode === 403 && !/looked up/.test(statusMessage);
      reject(new Failure(isClosed ? `${why} Network access is not allowed.\n${SETTINGS}` : why));
    });
    request.end();
  });
}

function whyRefused(status) {
  if (status === 401 || status === 403)
    return "The key was refused: it is wrong, was revoked, or its account has no credit. Create a new one or add credit in the API settings of the Perplexity account.";
  if (status === 429) return "Too many requests. Wait a minute, then try again.";
  if (status >= 500) return `Perplexity has a server error (${status}). Try again later.`;
  return `Perplexity did not accept the question (${status}).`;
}

/** Returns the service's own error message, if the response is JSON. */
function detailOf(received) {
  try {
    const { error } = JSON.parse(received);
    return typeof error?.message === "string" ? `\nMessage: ${oneLine(error.message)}` : "";
  } catch {
    return "";
  }
}

function answerOf(received) {
  let answer;
  try {
    answer = JSON.parse(received);
  } catch {
    answer = undefined;
  }
  const content = answer?.choices?.[0]?.message?.content;
  if (typeof content !== "string") throw new Failure(`${HOST} returned an invalid answer. Try again.`);
  const sources = answer.search_results ?? (answer.citations ?? []).map((url) => ({ url }));
  const lines = sources.map(({ title, date, url }, index) => {
    const words = [title, date && `(${date})`, url].filter((word) => typeof word === "string" && word !== "");
    return `[${index + 1}] ${oneLine(words.join(" "))}`;
  });
  return withoutKey(`${content.trim()}\n\n${lines.length > 0 ? `Sources:\n${lines.join("\n")}` : "No sources."}\n`);
}

function oneLine(words) {
  return String(words ?? "")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 500);
}

function withoutKey(words) {
  return key === "" ? words : words.replaceAll(key, "[PERPLEXITY_API_KEY]");
}
