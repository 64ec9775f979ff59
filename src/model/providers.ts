import type { Provider, SdkModel } from "../host/models.ts";
import { loadPeer } from "../host/peers.ts";
import { SkillError } from "../shared/error.ts";
import { OLLAMA, ollamaUrl } from "./ollama.ts";

/** How a model of a provider is asked. */
export interface Access {
  model: string;
  baseUrl: string;
  apiKey: string | undefined;
}

interface ProviderRow {
  /** The variable that has its key, and the one that has its address; only both together, as they are one account's. */
  key?: string;
  address?: string;
  /** The address that the variable stands for, where it is not written as one. */
  read?(written: string): string;
  /** Where it is, and what its interface is below there. */
  host?: string;
  path?: string;
  /** Its models by short names: the newest of each family. */
  aliases: Readonly<Record<string, string>>;
  /** Whether its models can be told how hard to think. */
  takesEffort: boolean;
  open(access: Access): Promise<SdkModel>;
}

/** Who has models. Each is loaded when one of its models is first opened. */
export const PROVIDER_ROWS: Readonly<Record<Provider, ProviderRow>> = {
  anthropic: {
    key: "ANTHROPIC_API_KEY",
    address: "ANTHROPIC_BASE_URL",
    host: "https://api.anthropic.com",
    path: "/v1",
    takesEffort: true,
    aliases: {
      default: "claude-sonnet-5-5",
      fast: "claude-haiku-5-5",
      haiku: "claude-haiku-5-5",
      sonnet: "claude-sonnet-5-5",
      opus: "claude-opus-5-5",
      fable: "claude-fable-5-2",
    },
    async open({ model, baseUrl, apiKey = "" }) {
      const { createAnthropic } = await loadPeer.anthropic();
      return createAnthropic({ baseURL: baseUrl, apiKey, fetch: fetchHere })(model);
    },
  },
  openai: {
    key: "OPENAI_API_KEY",
    address: "OPENAI_BASE_URL",
    host: "https://api.openai.com",
    path: "/v1",
    takesEffort: true,
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
    async open({ model, baseUrl, apiKey = "" }) {
      const { createOpenAI } = await loadPeer.openai();
      return createOpenAI({ baseURL: baseUrl, apiKey, fetch: fetchHere }).responses(model);
    },
  },
  ollama: {
    address: "OLLAMA_HOST",
    read: (written) => ollamaUrl({ OLLAMA_HOST: written }),
    host: OLLAMA,
    path: "/v1",
    takesEffort: false,
    aliases: {},
    open: openCompatible,
  },
  // No variable has its key: that of OpenAI is for OpenAI.
  "openai-compatible": {
    // Some servers refuse a request over it, and a skill that asks for much thought is better used with less than not at all.
    takesEffort: false,
    aliases: {},
    open: openCompatible,
  },
};

async function openCompatible({ model, baseUrl, apiKey }: Access): Promise<SdkModel> {
  const { createOpenAICompatible } = await loadPeer.openaiCompatible();
  return createOpenAICompatible({
    name: "openai-compatible",
    baseURL: baseUrl,
    ...(apiKey === undefined ? {} : { apiKey }),
    includeUsage: true,
    fetch: fetchHere,
  })(model);
}

// A key goes to the host that was named and no other: of the headers that hold one, not all are left out on the way to a host
// that the first one names.
const fetchHere: typeof fetch = async (input, init) => {
  const response = await fetch(input, { ...init, redirect: "error" });
  return new Response(response.body?.pipeThrough(bounded()) ?? null, response);
};

const LARGEST = 64 * 1024 * 1024;
const TOO_LONG = new SkillError("model-broken", {
  message: "The answer of the model's server is longer than 64 MiB",
  fix: "check what base_url names, or use another model",
});

/** All of an answer is kept in memory, and a server may have no end of it. */
function bounded(): TransformStream<Uint8Array, Uint8Array> {
  let room = LARGEST;
  return new TransformStream({
    transform(bytes, controller) {
      room -= bytes.length;
      if (room < 0) controller.error(TOO_LONG);
      else controller.enqueue(bytes);
    },
  });
}
