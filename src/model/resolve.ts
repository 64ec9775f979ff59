import type { Host } from "../host/host.ts";
import type { Model, ModelSettings, Provider, SdkModel } from "../host/models.ts";
import { PROVIDERS } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { inLine } from "../shared/prompt.ts";
import { localModel, ollamaUrl } from "./ollama.ts";
import { configFile, MODEL_DEFAULTS, openConfigured, type Place, providerOf, tableFor } from "./open.ts";
import { PROVIDER_ROWS } from "./providers.ts";
import { RUNBOOK, runbook } from "./runbook.ts";
import { sdkModel } from "./sdk.ts";

export interface ResolvedModel {
  model: Model;
  /** What it was found under. */
  alias: string;
  warnings: readonly Notice[];
}

/** What a model can be asked for by. */
export interface ModelAlias {
  alias: string;
  /** `anthropic/claude-…`; what the configuration says, where that is all that is known. */
  model: string;
  from: "program" | "settings" | "built-in";
  isDefault: boolean;
}

/**
 * The model of an alias, or of `provider/model`. An alias that is not known is the default, with a warning (W-15).
 * Throws a SkillError for one that is known and cannot be had: `model-key-missing`, `model-settings`.
 */
export async function resolveModel(host: Host, wanted: string | undefined): Promise<ResolvedModel> {
  // `inherit` is what clients write for the model of whoever asks.
  const asked = wanted === undefined || wanted === "" || wanted === "inherit" ? DEFAULT : wanted;
  const found = configured(host).get(asked) ?? (await choices(host)).get(asked) ?? (await spelledOut(host, asked));
  if (found) return { model: await found.open(), alias: found.alias, warnings: [] };
  const all = await choices(host);
  const usual = all.get(DEFAULT) as Choice;
  return { model: await usual.open(), alias: usual.alias, warnings: [unknown(asked, [...all.keys()], usual, host)] };
}

/** Every alias that there is, for people. */
export async function aliasesOf(host: Host): Promise<readonly ModelAlias[]> {
  const all = await choices(host);
  const usual = all.get(DEFAULT);
  return Array.from(all, ([alias, { says, from, alias: own }]) => ({
    alias,
    model: says,
    from,
    isDefault: own === usual?.alias,
  }));
}

const DEFAULT = "default";

interface Choice {
  alias: string;
  says: string;
  from: ModelAlias["from"];
  open(): Model | Promise<Model>;
}

/** What the program and the configuration say, the program first. */
function configured(host: Host): Map<string, Choice> {
  const found = new Map<string, Choice>();
  for (const [alias, model] of Object.entries(host.models ?? {})) found.set(alias, given(alias, model));
  for (const [alias, settings] of host.settings.models) {
    if (!found.has(alias)) found.set(alias, written(host, alias, settings));
  }
  const [first] = host.settings.models.keys();
  if (!found.has(DEFAULT) && first !== undefined) found.set(DEFAULT, found.get(first) as Choice);
  return found;
}

/** The same, with what is built in: the aliases of the provider in use, and `runbook`. */
async function choices(host: Host): Promise<Map<string, Choice>> {
  const found = configured(host);
  const add = (choice: Choice) => found.has(choice.alias) || found.set(choice.alias, choice);
  const usual = defaultSettings(host);
  if (usual) {
    const [alias, settings] = usual;
    for (const choice of builtIn(host, providerOf(settings), settings, alias)) add(choice);
  } else if (!found.has(DEFAULT)) {
    for (const choice of await detected(host)) add(choice);
  }
  add(asRunbook(RUNBOOK));
  add(asRunbook(DEFAULT));
  return found;
}

/** What the configuration's default is, with its alias, where the program has none of its own. */
function defaultSettings({ models, settings }: Host): [string, ModelSettings] | undefined {
  if (models && Object.hasOwn(models, DEFAULT)) return undefined;
  const named = settings.models.get(DEFAULT);
  return named ? [DEFAULT, named] : [...settings.models][0];
}

function given(alias: string, model: Model | SdkModel): Choice {
  if (!("doStream" in model)) return { alias, says: model.name, from: "program", open: () => model };
  const name = `${model.provider.replace(/\..*/s, "")}/${model.modelId}`;
  return { alias, says: name, from: "program", open: () => sdkModel(model, { name, ...MODEL_DEFAULTS }) };
}

function written(host: Host, alias: string, settings: ModelSettings): Choice {
  const place: Place = { alias, table: tableFor(alias) };
  const says = [settings.provider, settings.model].filter((part) => part !== undefined).join("/");
  return { alias, says, from: "settings", open: () => openConfigured(host, settings, place) };
}

/** A provider's own short names, asked as `base` is, which is configured as `table`. */
function builtIn(host: Host, provider: Provider | undefined, base: ModelSettings, table = DEFAULT): Choice[] {
  if (provider === undefined) return [];
  return Object.entries(PROVIDER_ROWS[provider].aliases).map(([alias, model]) => ({
    alias,
    says: `${provider}/${model}`,
    from: "built-in",
    open: () => openConfigured(host, { ...base, provider, model }, { alias, table: tableFor(table) }),
  }));
}

/** What this machine has, where nothing was configured. A host without an environment asks for nothing to be looked for. */
async function detected(host: Host): Promise<Choice[]> {
  if (!host.env) return [];
  for (const provider of PROVIDERS) {
    const { key } = PROVIDER_ROWS[provider];
    if (key !== undefined && host.env[key]?.trim()) return builtIn(host, provider, {});
  }
  const model = await localModel(ollamaUrl(host.env));
  return model === undefined ? [] : [atOllama(host, model, DEFAULT)];
}

function asRunbook(alias: string): Choice {
  return { alias, says: RUNBOOK, from: "built-in", open: () => runbook };
}

/** `provider/model`, asked as the configuration asks that provider. */
async function spelledOut(host: Host, asked: string): Promise<Choice | undefined> {
  const [, who = "", model = ""] = /^([a-z-]+)\/(.+)$/s.exec(asked) ?? [];
  if (who === "ollama") return atOllama(host, model, asked);
  const provider = PROVIDERS.find((name) => name === who);
  if (provider === undefined) return undefined;
  const base = [...host.settings.models.values()].find((settings) => providerOf(settings) === provider);
  if (!base && provider === "openai-compatible") return undefined;
  const place: Place = { alias: asked, table: tableFor(provider) };
  const open = () => openConfigured(host, { ...base, provider, model }, place);
  return { alias: asked, says: asked, from: "built-in", open };
}

function atOllama(host: Host, model: string, alias: string): Choice {
  const says = `ollama/${model}`;
  const settings: ModelSettings = { provider: "openai-compatible", model, baseUrl: ollamaUrl(host.env) };
  return {
    alias,
    says,
    from: "built-in",
    open: () => openConfigured(host, settings, { alias, table: tableFor(alias), name: says }),
  };
}

function unknown(asked: string, names: readonly string[], usual: Choice, host: Host): Notice {
  const shown = inLine(asked, 100);
  return {
    code: "model-unknown",
    message: `There is no model called '${shown}', so the default (${inLine(usual.says, 100)}) is used; there are: ${names.map((name) => inLine(name, 64)).join(", ")}`,
    fix: `add [models.${/^[\w-]+$/.test(shown) ? shown : JSON.stringify(shown)}] to ${configFile(host)}, or name one of these`,
  };
}
