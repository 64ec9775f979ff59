import type { Host } from "../host/host.ts";
import { type Model, type ModelSettings, PROVIDERS, type Provider, type SdkModel } from "../host/models.ts";
import { PROVIDER_ROWS } from "./providers.ts";

/**
 * THE table of context windows: how many tokens the models of a family can read at once, by `provider/model`; the first row that fits. A
 * family has the window of its smallest model. `context_window` of the configuration, or of a program's `Model`, goes before it.
 */
export const CONTEXT_WINDOWS: readonly { family: string; models: RegExp; tokens: number }[] = [
  { family: "Claude", models: /^anthropic\/claude-/, tokens: 200_000 },
  { family: "GPT-4.1", models: /^openai\/gpt-4\.1\b/, tokens: 1_000_000 },
  { family: "GPT-4o", models: /^openai\/(?:chat)?gpt-4o\b/, tokens: 128_000 },
  { family: "OpenAI o-series", models: /^openai\/o\d/, tokens: 200_000 },
  { family: "GPT-5 chat", models: /^openai\/gpt-5[\d.]*-chat\b/, tokens: 128_000 },
  { family: "GPT-5 and later", models: /^openai\/gpt-(?:[5-9]|\d\d)/, tokens: 400_000 },
];

/** Returns how many tokens a model can read at once, by its name with its provider, or undefined if its family is not known. */
export function contextWindowOf(name: string): number | undefined {
  return CONTEXT_WINDOWS.find(({ models }) => models.test(name))?.tokens;
}

/** Returns the name of a model of the AI SDK with its provider: `anthropic/claude-…`. */
export function sdkModelName({ provider, modelId }: Pick<SdkModel, "provider" | "modelId">): string {
  return `${provider.replace(/\..*/s, "")}/${modelId}`;
}

/** Returns the window of the model that is asked where none is named, without opening it. */
export function defaultContextWindow({ models = {}, settings }: Pick<Host, "models" | "settings">): number | undefined {
  const own = models["default"] ?? Object.values(models)[0];
  if (own) return windowOfGiven(own);
  const configured = settings.models.get("default") ?? [...settings.models.values()][0];
  return configured && windowOfSettings(configured);
}

function windowOfGiven(model: Model | SdkModel): number | undefined {
  return "doStream" in model ? contextWindowOf(sdkModelName(model)) : model.contextWindow;
}

function windowOfSettings({ contextWindow, provider, model, baseUrl }: ModelSettings): number | undefined {
  if (contextWindow !== undefined) return contextWindow;
  const found: Provider | undefined = provider ?? PROVIDERS.find((name) => model?.startsWith(`${name}/`));
  if (found === undefined || baseUrl !== undefined) return undefined;
  const { default: usual } = PROVIDER_ROWS[found].aliases;
  const isWhole = provider === undefined && model !== undefined;
  return contextWindowOf(isWhole ? model : `${found}/${model ?? usual}`);
}
