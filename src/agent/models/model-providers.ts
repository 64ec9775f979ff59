import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Host } from "../../config/host.ts";
import { SkillError } from "../../errors/problem.ts";
import {
  type AiSdkModel,
  MODEL_PROVIDERS,
  type Model,
  type ModelPrice,
  type ModelProvider,
  type ModelSettings,
} from "../../host/model-contract.ts";
import type { Usage } from "../../skill/tool.ts";
import { fetchUnderLease } from "../../util/async.ts";
import { loadPeer } from "../../util/peer-packages.ts";

/** The options to create a model of a provider. */
interface ModelAccess {
  model: string;
  baseUrl: string;
  apiKey: string | undefined;
}

interface ProviderRow {
  /** The environment variables of its key and its URL. They are used together only, as they belong to one account. */
  key?: string;
  address?: string;
  /** Parses the variable if it is not a URL. */
  parseAddress?(written: string): string;
  /** The default host, and the path of its API. */
  host?: string;
  path?: string;
  /** Short names: the newest model of each family. */
  aliases: Readonly<Record<string, string>>;
  /** True if its models accept a reasoning effort. */
  supportsEffort: boolean;
  create(access: ModelAccess): Promise<AiSdkModel>;
}

const OLLAMA_PORT = 11434;
const OLLAMA_URL = `http://127.0.0.1:${OLLAMA_PORT}`;

// A key goes only to the configured host: on a redirect to another host, `fetch` does not drop every header that may contain one.
const fetchWithoutRedirect: typeof fetch = async (input, init) => {
  const response = await fetchUnderLease(input, { ...init, redirect: "error" });
  return new Response(response.body?.pipeThrough(createSizeLimit()) ?? null, response);
};

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
const RESPONSE_TOO_LONG = new SkillError("model-broken", {
  message: "The answer of the model server is larger than 64 MiB",
  fix: "check base_url, or use another model",
});

/** The model providers. Each is loaded when one of its models is first opened. */
export const MODEL_PROVIDER_TABLE: Readonly<Record<ModelProvider, ProviderRow>> = {
  anthropic: {
    key: "ANTHROPIC_API_KEY",
    address: "ANTHROPIC_BASE_URL",
    host: "https://api.anthropic.com",
    path: "/v1",
    supportsEffort: true,
    aliases: {
      default: "claude-sonnet-5-5",
      fast: "claude-haiku-5-5",
      haiku: "claude-haiku-5-5",
      sonnet: "claude-sonnet-5-5",
      opus: "claude-opus-5-5",
      fable: "claude-fable-5-2",
    },
    async create({ model, baseUrl, apiKey = "" }) {
      const { createAnthropic } = await loadPeer.anthropic();
      return createAnthropic({ baseURL: baseUrl, apiKey, fetch: fetchWithoutRedirect })(model);
    },
  },
  openai: {
    key: "OPENAI_API_KEY",
    address: "OPENAI_BASE_URL",
    host: "https://api.openai.com",
    path: "/v1",
    supportsEffort: true,
    aliases: {
      default: "gpt-6-astra",
      fast: "gpt-6-luna",
      astra: "gpt-6-astra",
      luna: "gpt-6-luna",
      sol: "gpt-6.1-sol",
      terra: "gpt-6.1-terra",
      mini: "gpt-5.4-mini",
      nano: "gpt-5.4-nano",
    },
    async create({ model, baseUrl, apiKey = "" }) {
      const { createOpenAI } = await loadPeer.openai();
      return createOpenAI({ baseURL: baseUrl, apiKey, fetch: fetchWithoutRedirect }).responses(model);
    },
  },
  ollama: {
    address: "OLLAMA_HOST",
    parseAddress: (written) => getOllamaUrl({ OLLAMA_HOST: written }),
    host: OLLAMA_URL,
    path: "/v1",
    supportsEffort: false,
    aliases: {},
    create: createCompatibleModel,
  },
  // It has no key variable: OpenAI's key is for OpenAI only.
  "openai-compatible": {
    // Some servers refuse requests with an effort, and a skill that requests one should still work.
    supportsEffort: false,
    aliases: {},
    create: createCompatibleModel,
  },
};

async function createCompatibleModel({ model, baseUrl, apiKey }: ModelAccess): Promise<AiSdkModel> {
  const { createOpenAICompatible } = await loadPeer.openaiCompatible();
  return createOpenAICompatible({
    name: "openai-compatible",
    baseURL: baseUrl,
    ...(apiKey === undefined ? {} : { apiKey }),
    includeUsage: true,
    fetch: fetchWithoutRedirect,
  })(model);
}

/** Limits the size of an answer, which is kept in memory and could be endless. */
function createSizeLimit(): TransformStream<Uint8Array, Uint8Array> {
  let room = MAX_RESPONSE_BYTES;
  return new TransformStream({
    transform(bytes, controller) {
      room -= bytes.length;
      if (room < 0) controller.error(RESPONSE_TOO_LONG);
      else controller.enqueue(bytes);
    },
  });
}

type OllamaEnv = Readonly<Record<string, string | undefined>>;

const OLLAMA_TIMEOUT_MS = 300;
const MAX_LIST_LENGTH = 1024 * 1024;

/** Returns the URL of Ollama: on this machine, or from `OLLAMA_HOST`. */
export function getOllamaUrl(env: OllamaEnv = {}): string {
  const written = env["OLLAMA_HOST"]?.trim() ?? "";
  const hasScheme = /^https?:\/\//.test(written);
  const address = hasScheme ? written : `http://${written.startsWith(":") ? `127.0.0.1${written}` : written}`;
  if (written === "" || !URL.canParse(address)) return `${OLLAMA_URL}/v1`;
  const url = new URL(address);
  if (!hasScheme && !/:\d+(?:\/|$)/.test(written)) url.port = String(OLLAMA_PORT);
  // A wildcard address is for listening only.
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  if (url.hostname === "[::]") url.hostname = "[::1]";
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1`;
}

/** Returns the first model that the server lists and that can answer, or undefined if there is no server or no such model. */
export async function findOllamaModel(baseUrl: string): Promise<string | undefined> {
  try {
    const { data } = JSON.parse(await fetchOllamaText(`${baseUrl}/models`)) as { data?: unknown };
    const names = (Array.isArray(data) ? data : []).map((entry) => Object(entry).id);
    // Embedding models are listed too, but cannot answer.
    return names.find((name) => typeof name === "string" && name !== "" && !/embed/i.test(name));
  } catch {
    return undefined;
  }
}

// Uses `node:http`, since loading `fetch` takes longer than the request.
async function fetchOllamaText(url: string): Promise<string> {
  const { get } = await (url.startsWith("https:") ? import("node:https") : import("node:http"));
  const signal = AbortSignal.timeout(OLLAMA_TIMEOUT_MS);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { signal, agent: false }, resolve).on("error", reject);
  });
  let text = "";
  for await (const piece of response.setEncoding("utf8")) {
    text += piece;
    if (text.length > MAX_LIST_LENGTH) throw new Error("too long");
  }
  return response.statusCode === 200 ? text : "";
}

/**
 * THE table of context windows in tokens, by `provider/model`; the first matching row counts. A family has the window of its
 * smallest model. `context_window` in the configuration, or of a program's `Model`, takes precedence.
 */
export const CONTEXT_WINDOWS: readonly { family: string; models: RegExp; tokens: number }[] = [
  { family: "Claude", models: /^anthropic\/claude-/, tokens: 200_000 },
  { family: "GPT-4.1", models: /^openai\/gpt-4\.1\b/, tokens: 1_000_000 },
  { family: "GPT-4o", models: /^openai\/(?:chat)?gpt-4o\b/, tokens: 128_000 },
  { family: "OpenAI o-series", models: /^openai\/o\d/, tokens: 200_000 },
  { family: "GPT-5 chat", models: /^openai\/gpt-5[\d.]*-chat\b/, tokens: 128_000 },
  { family: "GPT-5 and later", models: /^openai\/gpt-(?:[5-9]|\d\d)/, tokens: 400_000 },
];

/** Returns the context window of a model in tokens, by its name with provider, or undefined if its family is unknown. */
export function getContextWindow(name: string): number | undefined {
  return CONTEXT_WINDOWS.find(({ models }) => models.test(name))?.tokens;
}

/** Returns the name of a model of the AI SDK with its provider: `anthropic/claude-…`. */
export function formatSdkModelName({ provider, modelId }: Pick<AiSdkModel, "provider" | "modelId">): string {
  return `${provider.replace(/\..*/s, "")}/${modelId}`;
}

/** Returns the context window of the default model without opening it. */
export function getDefaultContextWindow({
  models = {},
  settings,
}: Pick<Host, "models" | "settings">): number | undefined {
  const own = models["default"] ?? Object.values(models)[0];
  if (own) return getModelWindow(own);
  const configured = settings.models.get("default") ?? [...settings.models.values()][0];
  return configured && getConfiguredWindow(configured);
}

function getModelWindow(model: Model | AiSdkModel): number | undefined {
  return "doStream" in model ? getContextWindow(formatSdkModelName(model)) : model.contextWindow;
}

function getConfiguredWindow({ contextWindow, provider, model, baseUrl }: ModelSettings): number | undefined {
  if (contextWindow !== undefined) return contextWindow;
  const found: ModelProvider | undefined = provider ?? MODEL_PROVIDERS.find((name) => model?.startsWith(`${name}/`));
  if (found === undefined || baseUrl !== undefined) return undefined;
  const { default: usual } = MODEL_PROVIDER_TABLE[found].aliases;
  const isWhole = provider === undefined && model !== undefined;
  return getContextWindow(isWhole ? model : `${found}/${model ?? usual}`);
}

const TOKENS_PER_PRICE = 1_000_000;

/** Returns the configured prices of a model: of its whole name, or of its name at the provider. */
export function findPrice(name: string, prices: ReadonlyMap<string, ModelPrice>): ModelPrice | undefined {
  return prices.get(name) ?? prices.get(name.slice(name.indexOf("/") + 1));
}

/** Calculates the cost in US dollars from the configured prices, or returns undefined if a needed price is unknown. */
export function calculateCost(usage: Usage, name: string, prices: ReadonlyMap<string, ModelPrice>): number | undefined {
  const price = findPrice(name, prices);
  if (!price) return undefined;
  const cached = Math.min(usage.cachedTokens, usage.inputTokens);
  const parts = [
    [usage.inputTokens - cached, price.input],
    [cached, price.cached ?? price.input],
    [usage.outputTokens, price.output],
  ] as const;
  let sum = 0;
  for (const [tokens, dollars] of parts) {
    if (tokens > 0 && dollars === undefined) return undefined;
    sum += tokens * (dollars ?? 0);
  }
  return sum / TOKENS_PER_PRICE;
}

/** The rates that a provider allows, for all runs of this process together. */
export interface ProviderRates {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
}

/** Limits the requests to one account of a provider. All runs of this process share it. */
export interface ProviderLimit {
  /** Waits until a request may be sent: until the rates allow it, and a pause is over. Rejects when the signal aborts. */
  wait(rates: ProviderRates, signal: AbortSignal): Promise<void>;
  /** Counts the tokens of an answer. */
  spend(tokens: number): void;
  /** Pauses all requests: the provider has refused one because there are too many. */
  pause(ms: number): void;
}

/** A bucket that refills in a minute. It may be overdrawn by what is only known afterwards, such as tokens. */
interface Bucket {
  left: number | undefined;
  refilledAt: number;
}

/** Creates the limit of one account. `now`: a monotonic clock in milliseconds. */
export function createProviderLimit({
  now = () => performance.now(),
  delay = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }),
}: {
  now?: () => number;
  delay?: (ms: number, signal: AbortSignal) => Promise<unknown>;
} = {}): ProviderLimit {
  const requests: Bucket = { left: undefined, refilledAt: now() };
  const tokens: Bucket = { left: undefined, refilledAt: now() };
  let pausedUntil = 0;
  /** Returns the milliseconds until the bucket has this much. */
  const waitFor = (bucket: Bucket, perMinute: number | undefined, needed: number, most = perMinute): number => {
    if (perMinute === undefined || most === undefined) return 0;
    const at = now();
    const refilled = ((at - bucket.refilledAt) / 60_000) * perMinute;
    bucket.left = Math.min(most, (bucket.left ?? most) + refilled);
    bucket.refilledAt = at;
    return bucket.left >= needed ? 0 : ((needed - bucket.left) / perMinute) * 60_000;
  };
  return {
    async wait({ requestsPerMinute, tokensPerMinute }, signal) {
      for (;;) {
        signal.throwIfAborted();
        const ms = Math.max(
          pausedUntil - now(),
          waitFor(requests, requestsPerMinute, 1, getRequestBurst(requestsPerMinute)),
          waitFor(tokens, tokensPerMinute, Math.min(1, tokensPerMinute ?? 1)),
        );
        if (ms <= 0) break;
        await delay(Math.ceil(ms), signal);
      }
      if (requests.left !== undefined) requests.left--;
    },
    spend(used) {
      if (tokens.left !== undefined) tokens.left -= used;
    },
    pause(ms) {
      pausedUntil = Math.max(pausedUntil, now() + Math.min(ms, MAX_PAUSE_MS));
    },
  };
}

/** Returns the requests that may be sent at once: with more, the first minute would have twice as many as it may. */
export function getRequestBurst(requestsPerMinute: number | undefined): number | undefined {
  return requestsPerMinute === undefined ? undefined : Math.max(1, requestsPerMinute / 20);
}

/** A longer pause would exceed the time limit of an answer. */
export const MAX_PAUSE_MS = 60_000;
const DEFAULT_PAUSE_MS = 5000;

const LIMITS = new Map<string, ProviderLimit>();
let openLimit: (account: string, local: ProviderLimit) => ProviderLimit = (_, local) => local;

/**
 * Shares the limits of accounts with other processes, for models that are created from now on. `open` gets the digest of an account, and the
 * limit of this process alone, which counts while the others cannot be reached.
 */
export function shareProviderLimits(open: (account: string, local: ProviderLimit) => ProviderLimit): void {
  openLimit = open;
  LIMITS.clear();
}

/** Returns the limit of an account: of the provider, address and key. */
export function getProviderLimit(
  provider: string,
  address: string | undefined,
  key: string | undefined,
): ProviderLimit {
  const id = hash("sha256", JSON.stringify([provider, address, key]));
  const known = LIMITS.get(id) ?? openLimit(id, createProviderLimit());
  LIMITS.set(id, known);
  return known;
}

/** Returns the time to pause after a refusal for too many requests (429); undefined for every other error. */
export function getPauseMs(error: unknown): number | undefined {
  const { statusCode, responseHeaders } = Object(error) as { statusCode?: unknown; responseHeaders?: unknown };
  if (statusCode !== 429) return undefined;
  const headers = Object(responseHeaders) as Record<string, unknown>;
  const ms = Number(headers["retry-after-ms"]);
  if (headers["retry-after-ms"] !== undefined && ms >= 0) return ms;
  const written = headers["retry-after"];
  const seconds = Number(written);
  if (written !== undefined && seconds >= 0) return seconds * 1000;
  const at = Date.parse(String(written ?? ""));
  return Number.isNaN(at) ? DEFAULT_PAUSE_MS : Math.max(0, at - Date.now());
}

/** A chunk of an answer from a provider of the AI SDK. */
export interface ModelStreamPart {
  type: string;
  id?: string;
  /** A piece of text, of reasoning, or of the input of the call `id`. */
  delta?: unknown;
  /** The input of a complete call. */
  input?: unknown;
}

const MIB = 1024 * 1024;

const MAX_TEXT_BYTES = 4 * MIB;

const MAX_INPUT_BYTES = MIB;

/** Measures one answer. Throws a SkillError, `model-broken`, if it is too large. */
export function createAnswerLimit(name: string): (part: ModelStreamPart) => void {
  let count = 0;
  const inputs = new Map<string, number>();
  const refuse = (what: string): never => {
    throw new SkillError("model-broken", {
      message: `${name} sent more than ${what}`,
      fix: "set max_tokens of the model in config.toml, or use another model",
    });
  };
  return ({ type, id = "", delta, input }) => {
    const size = measureText(delta);
    count += size;
    if (count > MAX_TEXT_BYTES) refuse("4 MiB in one answer");
    if (type === "tool-input-delta") inputs.set(id, (inputs.get(id) ?? 0) + size);
    if (Math.max(inputs.get(id) ?? 0, measureText(input)) > MAX_INPUT_BYTES) refuse("1 MiB in one tool call");
  };
}

function measureText(text: unknown): number {
  return typeof text === "string" ? Buffer.byteLength(text) : 0;
}
