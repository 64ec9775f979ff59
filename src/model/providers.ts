import type { Provider, SdkModel } from "../host/models.ts";

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
      const { createAnthropic } = await import("@ai-sdk/anthropic");
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
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI({ baseURL: baseUrl, apiKey, fetch: fetchHere }).responses(model);
    },
  },
  // No variable has its key: that of OpenAI is for OpenAI.
  "openai-compatible": {
    // Some servers refuse a request over it, and a skill that asks for much thought is better used with less than not at all.
    takesEffort: false,
    aliases: {},
    async open({ model, baseUrl, apiKey }) {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return createOpenAICompatible({
        name: "openai-compatible",
        baseURL: baseUrl,
        ...(apiKey === undefined ? {} : { apiKey }),
        includeUsage: true,
        fetch: fetchHere,
      })(model);
    },
  },
};

// A key goes to the host that was named and no other: of the headers that hold one, not all are left out on the way to a host
// that the first one names.
const fetchHere: typeof fetch = (input, init) => fetch(input, { ...init, redirect: "error" });
