import { resolveModel } from "../../src/agent/models/resolve-model.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { Message, Model, ModelRequest, ModelSettings, ModelTool } from "../../src/host/model-contract.ts";
import { API_KEY, MODEL, startModelServer, type Turn } from "../support/model-server.ts";

/** Each question about a model's answer, and the provider that it is configured for. */
export const WAYS = {
  openai: "openai-compatible",
  anthropic: "anthropic",
  responses: "openai",
} as const;
export type Way = keyof typeof WAYS;
export const ALL_WAYS = Object.keys(WAYS) as Way[];

export const WEATHER: ModelTool = {
  name: "weather",
  description: "Says what the weather is.",
  inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

export function createHostWith(models: Record<string, ModelSettings>, host: Partial<Host> = {}): Host {
  return { settings: { ...DEFAULT_SETTINGS, models: new Map(Object.entries(models)) }, ...host };
}

/** Resolves a model as the configuration does, against a server that follows the script. */
export async function resolveModelAt(way: Way, script: readonly Turn[] | Turn, settings: ModelSettings = {}) {
  const { url, requests } = await startModelServer(way, script, { model: settings.model ?? MODEL });
  const configured = { provider: WAYS[way], model: MODEL, baseUrl: url, apiKey: API_KEY, ...settings };
  const { model } = await resolveModel(createHostWith({ default: configured }), undefined);
  return { model, requests, url };
}

export interface Heard {
  texts: string[];
  retries: string[];
}

export function createModelRequest(parts: Partial<ModelRequest> = {}): ModelRequest & Heard {
  const texts: string[] = [];
  const retries: string[] = [];
  return {
    instructions: "Be brief.",
    messages: [user("What is it?")],
    tools: [WEATHER],
    task: { message: "What is it?" },
    signal: new AbortController().signal,
    onText: (text) => texts.push(text),
    onRetry: (reason) => retries.push(reason),
    texts,
    retries,
    ...parts,
  };
}

export function user(text: string): Message {
  return { role: "user", text };
}

/** Returns the error that the call failed with. */
export async function catchFailure(model: Model, request: ModelRequest) {
  try {
    await model.respond(request);
  } catch (error) {
    return error as Error & { code: string; fix: string };
  }
  throw new Error("it did not fail");
}
