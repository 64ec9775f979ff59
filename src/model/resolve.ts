import type { Host } from "../host/host.ts";
import type { Model, ModelSettings, Provider, SdkModel } from "../host/models.ts";
import { PROVIDERS } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { configFile } from "../policy/shown-path.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { sdkModelName } from "./context-windows.ts";
import { localModel, ollamaUrl } from "./ollama.ts";
import { isComplete, MODEL_DEFAULTS, openConfigured, type Place, providerOf, tableFor } from "./open.ts";
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
  /** Why it cannot be asked, where that was looked for: a missing key, a bad address. */
  problem?: Notice;
}

/**
 * The model of an alias, or of `provider/model`. An alias that is not known is the default, with a warning (W-15).
 * Throws a SkillError for one that is known and cannot be had: `model-key-missing`, `model-settings`; and where there is none
 * at all: `model-missing`.
 */
export async function resolveModel(host: Host, wanted: string | undefined): Promise<ResolvedModel> {
  // Of `inherit`, what is left where no caller's model was passed on.
  const asked = wanted === undefined || wanted === "" || wanted === "inherit" ? DEFAULT : wanted;
  const known = configured(host).get(asked) ?? spelledOut(host, asked);
  if (known) return { model: await known.open(), alias: known.alias, warnings: [] };
  const all = await choices(host);
  const found = all.get(asked) ?? all.get(DEFAULT);
  if (!found) throw new SkillError("model-missing", NO_MODEL);
  const model = await found.open();
  // Where there is no language model, there is none of a family to choose.
  const isKnown = all.has(asked) || (model === runbook && FAMILIES.has(asked));
  return { model, alias: found.alias, warnings: isKnown ? [] : [unknown(asked, [...all.keys()], model, host)] };
}

const NO_MODEL = {
  message: "No model is there for skills to use",
  fix: "give the host models: { default: … }, or ask for the model `runbook`",
};
const FAMILIES = new Set(Object.values(PROVIDER_ROWS).flatMap(({ aliases }) => Object.keys(aliases)));

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

/** The same, with what keeps the default and the configured ones from being asked: each is opened as a chat opens it, and not asked. */
export async function checkAliases(host: Host): Promise<readonly ModelAlias[]> {
  return Promise.all(
    (await aliasesOf(host)).map(async (alias) => {
      if (!alias.isDefault && alias.from !== "settings") return alias;
      try {
        await resolveModel(host, alias.alias);
        return alias;
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        return { ...alias, problem: { code: error.code, message: error.message, fix: error.fix ?? "" } };
      }
    }),
  );
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
  const usual = found.get(defaultAlias(host) ?? "");
  return usual ? found.set(DEFAULT, usual) : found;
}

/** The same, with what is built in: the aliases of the provider in use, and `runbook`. */
async function choices(host: Host): Promise<Map<string, Choice>> {
  const found = configured(host);
  const add = (choice: Choice) => found.has(choice.alias) || found.set(choice.alias, choice);
  const usual = found.get(DEFAULT);
  for (const choice of usual ? besides(host, usual) : await detected(host)) add(choice);
  add(asRunbook(RUNBOOK));
  // It runs commands: a program that says nothing of models has not asked for that.
  if (host.env) add(asRunbook(DEFAULT));
  return found;
}

/** The one called so, or else the first: of the program, or else of what the configuration says enough about. */
function defaultAlias({ models = {}, settings }: Host): string | undefined {
  const [first] = Object.keys(models);
  if (Object.hasOwn(models, DEFAULT) || (first === undefined && settings.models.has(DEFAULT))) return DEFAULT;
  return first ?? [...settings.models].find(([alias, one]) => isComplete(one, alias))?.[0];
}

/** The short names of the provider that the configuration's default has. */
function besides(host: Host, { alias, from }: Choice): Choice[] {
  const settings = from === "settings" ? host.settings.models.get(alias) : undefined;
  return settings ? builtIn(host, providerOf(settings), settings, alias) : [];
}

function given(alias: string, model: Model | SdkModel): Choice {
  if (!("doStream" in model)) return { alias, says: model.name, from: "program", open: () => model };
  const name = sdkModelName(model);
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
    if (key !== undefined && host.env[key]?.trim())
      return builtIn(host, provider, {}).map((choice) => withConsent(host, key, choice));
  }
  const model = await localModel(ollamaUrl(host.env));
  if (model === undefined) return [];
  return [{ ...written(host, DEFAULT, { provider: "ollama", model }), from: "built-in" }];
}

function asRunbook(alias: string): Choice {
  return { alias, says: RUNBOOK, from: "built-in", open: () => runbook };
}

/** `provider/model`, asked as the configuration asks that provider. */
function spelledOut(host: Host, asked: string): Choice | undefined {
  const [, who = "", model = ""] = /^([a-z-]+)\/(.+)$/s.exec(asked) ?? [];
  const provider = PROVIDERS.find((name) => name === who);
  if (provider === undefined) return undefined;
  const [table, base] = [...host.settings.models].find(([, one]) => providerOf(one) === provider) ?? [provider];
  if (!base && provider === "openai-compatible") return undefined;
  const place: Place = { alias: asked, table: tableFor(table) };
  const open = () => openConfigured(host, { ...base, provider, model }, place);
  const choice: Choice = { alias: asked, says: asked, from: "built-in", open };
  const { key } = PROVIDER_ROWS[provider];
  return base || key === undefined ? choice : withConsent(host, key, choice);
}

/** A model that nothing but a key in the environment makes available. A key that a client passed is spent with the user's consent only. */
function withConsent(host: Host, key: string, choice: Choice): Choice {
  if (!host.isEnvOfClient || host.settings.serving.useClientKey === true || !host.env?.[key]?.trim()) return choice;
  return {
    ...choice,
    open() {
      throw new SkillError("client-key-consent", {
        message: `The only key for a model is ${key}, which the client passed to this server, and you have not allowed skillet to spend it`,
        fix: `To allow it, run: skillet config set mcp.use_client_key true. Or add [models.default] with a key of its own to ${configFile(host)}`,
      });
    },
  };
}

function unknown(asked: string, names: readonly string[], { name }: Model, host: Host): Notice {
  const shown = inLine(asked, 100);
  return {
    code: "model-unknown",
    message: `There is no model called '${shown}': ${inLine(name, 100)} is used`,
    fix: `name one of ${names.map((one) => inLine(one, 64)).join(", ")}, or add ${tableFor(shown)} to ${configFile(host)}`,
  };
}
