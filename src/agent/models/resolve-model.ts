import type { Host } from "../../config/host.ts";
import { resolveReference } from "../../config/settings.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import {
  type AiSdkModel,
  MODEL_PROVIDERS,
  type Model,
  type ModelProvider,
  type ModelSettings,
} from "../../host/model-contract.ts";
import { createRedactor, type Secrets } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { formatConfigPath } from "../policy/trust-policy.ts";
import { createSdkModel } from "./ai-sdk-model.ts";
import {
  findOllamaModel,
  formatSdkModelName,
  getOllamaUrl,
  getProviderLimit,
  MODEL_PROVIDER_TABLE,
} from "./model-providers.ts";
import { RUNBOOK_NAME, runbookModel } from "./runbook.ts";

export interface ResolvedModel {
  model: Model;
  /** The alias under which it was found. */
  alias: string;
  warnings: readonly Problem[];
}

/** A name by which a model can be requested. */
export interface ModelAlias {
  alias: string;
  /** `anthropic/claude-…`, or the configured text if nothing else is known. */
  model: string;
  from: "program" | "settings" | "built-in";
  isDefault: boolean;
  /** The reason why it cannot be used, if that was checked: a missing key, an invalid URL. */
  problem?: Problem;
}

/**
 * Returns the model of an alias or of `provider/model`. An unknown alias resolves to the default, with a warning (W-15). Throws a
 * SkillError for a known model that is unavailable (`model-key-missing`, `model-settings`), or if there is no model at all
 * (`model-missing`).
 */
export async function resolveModel(host: Host, wanted: string | undefined): Promise<ResolvedModel> {
  // `inherit` is left over if no caller passed on its model.
  const requested = wanted === undefined || wanted === "" || wanted === "inherit" ? DEFAULT_ALIAS : wanted;
  const known =
    listConfiguredModels(host).get(requested) ??
    findQualifiedModel(host, requested) ??
    (requested === RUNBOOK_NAME ? createRunbookChoice(requested) : undefined); // Other names may need a request to Ollama.
  if (known) return { model: await known.open(), alias: known.alias, warnings: [] };
  const all = await listModelChoices(host);
  const found = all.get(requested) ?? all.get(DEFAULT_ALIAS);
  if (!found) throw new SkillError("model-missing", NO_MODEL_PROBLEM);
  const model = await found.open();
  // Without a language model, the family names have no meaning.
  const isKnown = all.has(requested) || (model === runbookModel && MODEL_FAMILIES.has(requested));
  return {
    model,
    alias: found.alias,
    warnings: isKnown ? [] : [createUnknownAliasNotice(requested, [...all.keys()], model, host)],
  };
}

const NO_MODEL_PROBLEM = {
  message: "No model is configured for skills",
  fix: "set the host option models: { default: … }, or use the model `runbook`",
};
const MODEL_FAMILIES = new Set(Object.values(MODEL_PROVIDER_TABLE).flatMap(({ aliases }) => Object.keys(aliases)));

/** Lists every alias, for display. */
export async function listModelAliases(host: Host): Promise<readonly ModelAlias[]> {
  const all = await listModelChoices(host);
  const usual = all.get(DEFAULT_ALIAS);
  return Array.from(all, ([alias, { says, from, alias: own }]) => ({
    alias,
    model: says,
    from,
    isDefault: own === usual?.alias,
  }));
}

/** Lists every alias, with the problem of the default and the configured ones. Each of these is opened as for a chat, but not called. */
export async function checkModelAliases(host: Host): Promise<readonly ModelAlias[]> {
  return Promise.all(
    (await listModelAliases(host)).map(async (alias) => {
      if (!alias.isDefault && alias.from !== "settings") return alias;
      try {
        await resolveModel(host, alias.alias);
        return alias;
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        return { ...alias, problem: error.problem };
      }
    }),
  );
}

const DEFAULT_ALIAS = "default";

interface ModelChoice {
  alias: string;
  says: string;
  from: ModelAlias["from"];
  open(): Model | Promise<Model>;
}

/** Lists the models of the program and of the configuration, the program's first. */
function listConfiguredModels(host: Host): Map<string, ModelChoice> {
  const found = new Map<string, ModelChoice>();
  for (const [alias, model] of Object.entries(host.models ?? {})) found.set(alias, createHostChoice(alias, model));
  for (const [alias, settings] of host.settings.models) {
    if (!found.has(alias)) found.set(alias, createSettingsChoice(host, alias, settings));
  }
  const usual = found.get(findDefaultAlias(host) ?? "");
  return usual ? found.set(DEFAULT_ALIAS, usual) : found;
}

/** Lists all models, including the built-in ones: the aliases of the provider in use, and `runbook`. */
async function listModelChoices(host: Host): Promise<Map<string, ModelChoice>> {
  const found = listConfiguredModels(host);
  const add = (choice: ModelChoice) => found.has(choice.alias) || found.set(choice.alias, choice);
  const usual = found.get(DEFAULT_ALIAS);
  for (const choice of usual ? listDefaultProviderModels(host, usual) : await detectModels(host)) add(choice);
  add(createRunbookChoice(RUNBOOK_NAME));
  // Runbook runs commands, so it is not the default of a program that configures no models.
  if (host.env) add(createRunbookChoice(DEFAULT_ALIAS));
  return found;
}

/** Returns the alias `default`, or else the first model of the program, or else the first complete one of the configuration. */
function findDefaultAlias({ models = {}, settings }: Host): string | undefined {
  const [first] = Object.keys(models);
  if (Object.hasOwn(models, DEFAULT_ALIAS) || (first === undefined && settings.models.has(DEFAULT_ALIAS)))
    return DEFAULT_ALIAS;
  return first ?? [...settings.models].find(([alias, one]) => isCompleteModel(one, alias))?.[0];
}

/** Lists the short names of the default model's provider. */
function listDefaultProviderModels(host: Host, { alias, from }: ModelChoice): ModelChoice[] {
  const settings = from === "settings" ? host.settings.models.get(alias) : undefined;
  return settings ? createBuiltInChoices(host, inferProvider(settings), settings, alias) : [];
}

function createHostChoice(alias: string, model: Model | AiSdkModel): ModelChoice {
  if (!("doStream" in model)) return { alias, says: model.name, from: "program", open: () => model };
  const name = formatSdkModelName(model);
  return { alias, says: name, from: "program", open: () => createSdkModel(model, { name, ...MODEL_DEFAULTS }) };
}

function createSettingsChoice(host: Host, alias: string, settings: ModelSettings): ModelChoice {
  const table: ModelTable = { alias, table: formatModelTable(alias) };
  const says = [settings.provider, settings.model].filter((part) => part !== undefined).join("/");
  return { alias, says, from: "settings", open: () => createConfiguredModel(host, settings, table) };
}

/** Creates choices for a provider's short names, with the settings of `base`, which is configured as `table`. */
function createBuiltInChoices(
  host: Host,
  provider: ModelProvider | undefined,
  base: ModelSettings,
  table = DEFAULT_ALIAS,
): ModelChoice[] {
  if (provider === undefined) return [];
  return Object.entries(MODEL_PROVIDER_TABLE[provider].aliases).map(([alias, model]) => ({
    alias,
    says: `${provider}/${model}`,
    from: "built-in",
    open: () => createConfiguredModel(host, { ...base, provider, model }, { alias, table: formatModelTable(table) }),
  }));
}

/** Detects the models of this machine if none is configured. A host without an environment gets none. */
async function detectModels(host: Host): Promise<ModelChoice[]> {
  if (!host.env) return [];
  for (const provider of MODEL_PROVIDERS) {
    const { key } = MODEL_PROVIDER_TABLE[provider];
    if (key !== undefined && host.env[key]?.trim())
      return createBuiltInChoices(host, provider, {}).map((choice) => requireConsent(host, key, choice));
  }
  const model = await findOllamaModel(getOllamaUrl(host.env));
  if (model === undefined) return [];
  return [{ ...createSettingsChoice(host, DEFAULT_ALIAS, { provider: "ollama", model }), from: "built-in" }];
}

function createRunbookChoice(alias: string): ModelChoice {
  return { alias, says: RUNBOOK_NAME, from: "built-in", open: () => runbookModel };
}

/** Finds `provider/model`, with the configured settings of that provider. */
function findQualifiedModel(host: Host, requested: string): ModelChoice | undefined {
  const [, who = "", model = ""] = /^([a-z-]+)\/(.+)$/s.exec(requested) ?? [];
  const provider = MODEL_PROVIDERS.find((name) => name === who);
  if (provider === undefined) return undefined;
  const [table, base] = [...host.settings.models].find(([, one]) => inferProvider(one) === provider) ?? [provider];
  if (!base && provider === "openai-compatible") return undefined;
  const modelTable: ModelTable = { alias: requested, table: formatModelTable(table) };
  const open = () => createConfiguredModel(host, { ...base, provider, model }, modelTable);
  const choice: ModelChoice = { alias: requested, says: requested, from: "built-in", open };
  const { key } = MODEL_PROVIDER_TABLE[provider];
  return base || key === undefined ? choice : requireConsent(host, key, choice);
}

/** Guards a model that is available only through a key in the environment. A key passed by a client is used only with the user's consent. */
function requireConsent(host: Host, key: string, choice: ModelChoice): ModelChoice {
  if (!host.isClientEnv || host.settings.serving.useClientKey === true || !host.env?.[key]?.trim()) return choice;
  return {
    ...choice,
    open() {
      throw new SkillError("client-key-consent", {
        message: `The only key for a model is ${key}, which the client passed to this server, and you have not allowed skillet to use it`,
        fix: `Add [models.default] with its own key to ${formatConfigPath(host)}, or allow it`,
        commands: ["skillet config set mcp.use_client_key true"],
      });
    },
  };
}

function createUnknownAliasNotice(requested: string, names: readonly string[], { name }: Model, host: Host): Problem {
  const shown = sanitizeLine(requested, 100);
  return {
    code: "model-unknown",
    message: `Unknown model '${shown}': using ${sanitizeLine(name, 100)}`,
    data: { model: shown },
    fix: `use one of ${names.map((one) => sanitizeLine(one, 64)).join(", ")}, or add ${formatModelTable(shown)} to ${formatConfigPath(host)}`,
  };
}

/** The default time limit of an answer and number of retries. */
const MODEL_DEFAULTS = { seconds: 300, retries: 2 };

/** The alias and table of a model, for messages. */
interface ModelTable {
  alias: string;
  /** Its table in config.toml. */
  table: string;
}

/** Creates the model that the settings describe. Throws a SkillError if they are incomplete: `model-settings`, `model-key-missing`. */
async function createConfiguredModel(host: Host, settings: ModelSettings, table: ModelTable): Promise<Model> {
  if (isRunbookModel(settings)) return runbookModel;
  const provider =
    inferProvider(settings) ?? throwSettingsError(host, table, "has no provider", formatProviderLine(settings));
  const row = MODEL_PROVIDER_TABLE[provider];
  const model =
    resolveModelId(settings, provider, table.alias) ??
    throwSettingsError(host, table, "has no model name", `model = "…"`);
  const key = resolveModelKey(host, settings, provider, table);
  const { url, from } = resolveModelAddress(host, settings, provider, table);
  return createSdkModel(await row.create({ model, baseUrl: url, apiKey: key?.value }), {
    name: `${provider}/${model}`,
    seconds: settings.seconds ?? MODEL_DEFAULTS.seconds,
    retries: settings.retries ?? MODEL_DEFAULTS.retries,
    ...(settings.maxTokens === undefined ? {} : { maxTokens: settings.maxTokens }),
    ...(settings.contextWindow === undefined ? {} : { contextWindow: settings.contextWindow }),
    supportsEffort: row.supportsEffort,
    limit: {
      account: getProviderLimit(provider, url, key?.value),
      rates: { requestsPerMinute: settings.requestsPerMinute, tokensPerMinute: settings.tokensPerMinute },
    },
    address: formatModelAddress(url),
    ...(from === undefined ? {} : { addressFrom: from }),
    ...(key === undefined ? {} : { key: key.said }),
    secrets: { text: (text) => createRedactor(collectModelSecrets(host)).redact(text) },
  });
}

/** Returns the configured provider, or infers it from the other settings. */
function inferProvider({ provider, model, baseUrl }: ModelSettings): ModelProvider | undefined {
  if (provider !== undefined) return provider;
  return baseUrl === undefined ? MODEL_PROVIDERS.find((name) => model?.startsWith(`${name}/`)) : "openai-compatible";
}

/** Returns true if provider, model and URL are configured or can be inferred. */
function isCompleteModel(settings: ModelSettings, alias: string): boolean {
  if (isRunbookModel(settings)) return true;
  const provider = inferProvider(settings);
  if (provider === undefined || resolveModelId(settings, provider, alias) === undefined) return false;
  return (settings.baseUrl ?? MODEL_PROVIDER_TABLE[provider].host) !== undefined;
}

/** Collects the keys of all models by name, for redaction. */
export function collectModelSecrets(host: Host): Secrets {
  const secrets = new Map<string, string>();
  for (const { key } of Object.values(MODEL_PROVIDER_TABLE)) {
    const value = key === undefined ? undefined : host.env?.[key]?.trim();
    if (key !== undefined && value) secrets.set(key, value);
  }
  for (const [alias, { apiKey }] of host.settings.models) {
    if (apiKey === undefined) continue;
    try {
      const name = /^env:([\w]+)$/.exec(apiKey)?.[1] ?? `models.${alias}.api_key`;
      secrets.set(name, resolveReference(apiKey, host, throwNoAnswer).trim());
    } catch {
      // An unresolvable key cannot leak.
    }
  }
  return secrets;
}

function formatModelTable(alias: string): string {
  return `[models.${/^[\w-]+$/.test(alias) ? alias : JSON.stringify(alias)}]`;
}

function throwNoAnswer(): never {
  throw new Error("unresolved");
}

function isRunbookModel({ model, provider }: ModelSettings): boolean {
  return model === RUNBOOK_NAME && provider === undefined;
}

function resolveModelId(
  { model, provider, baseUrl }: ModelSettings,
  found: ModelProvider,
  alias: string,
): string | undefined {
  const { aliases } = MODEL_PROVIDER_TABLE[found];
  if (model === undefined) return aliases[alias] ?? aliases["default"];
  const isWhole = provider === undefined && baseUrl === undefined && model.startsWith(`${found}/`);
  return isWhole ? model.slice(found.length + 1) : model;
}

/** Guesses the provider from a model name; the first match counts. */
const PROVIDER_GUESSES: readonly (readonly [RegExp, ModelProvider])[] = [
  [/^ft:/, "openai"],
  [/:/, "ollama"],
  [/^claude/, "anthropic"],
  [/^(?:chat)?gpt|^o\d/, "openai"],
];

function formatProviderLine({ model }: ModelSettings): string {
  const guess = model === undefined ? "anthropic" : PROVIDER_GUESSES.find(([names]) => names.test(model))?.[1];
  return `provider = "${guess ?? "…"}"${guess === undefined ? `   # ${MODEL_PROVIDERS.join(", ")}` : ""}`;
}

interface ModelAddress {
  url: string;
  /** The setting to correct if it is wrong. */
  from?: string;
}

const VERSION_PATH = /\/v\d\w*(?:\/|$)/;

// The key from a provider's variable goes to the provider, or to the URL of the variable next to it, and nowhere else.
function resolveModelAddress(
  host: Host,
  { baseUrl, apiKey }: ModelSettings,
  provider: ModelProvider,
  table: ModelTable,
): ModelAddress {
  const {
    key,
    address = "",
    parseAddress: read = String,
    host: usual = "",
    path = "",
  } = MODEL_PROVIDER_TABLE[provider];
  const isBeside = baseUrl === undefined && (apiKey === undefined || key === undefined);
  const variable = isBeside ? host.env?.[address]?.trim() : undefined;
  const url = (baseUrl ?? (variable ? read(variable) : usual)).trim().replace(/\/+$/, "");
  if (!isUsableAddress(url)) {
    if (variable) throw new SkillError("model-settings", formatAddressProblem(address));
    return throwSettingsError(host, table, "has no valid base_url", `base_url = "http://127.0.0.1:8000/v1"`);
  }
  const { pathname } = new URL(url);
  // Other programs that read these variables add the version themselves.
  const lacksVersion = variable ? !VERSION_PATH.test(pathname) : pathname === "/";
  const from = variable ? address : baseUrl && `base_url of ${table.table} in config.toml`;
  return { url: lacksVersion ? `${url}${path}` : url, ...(from ? { from } : {}) };
}

/** Returns true for a usable URL. One with a user name and password would be shown in messages, and they would not be sent. */
function isUsableAddress(written: string): boolean {
  const url = URL.parse(written);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

/** Formats a URL without its query, which may contain a key. */
function formatModelAddress(address: string): string {
  const url = URL.parse(address);
  return url ? sanitizeLine(`${url.origin}${url.pathname}`.replace(/\/$/, ""), 200) : "another address";
}

function formatAddressProblem(variable: string) {
  return { message: `The environment variable ${variable} is not a web address`, fix: `set it to "https://…"` };
}

interface ModelKey {
  value: string;
  /** The key's name and where it comes from. */
  said: string;
}

function resolveModelKey(
  host: Host,
  { apiKey, baseUrl }: ModelSettings,
  provider: ModelProvider,
  table: ModelTable,
): ModelKey | undefined {
  const { key } = MODEL_PROVIDER_TABLE[provider];
  const refuse = (why: string): never => {
    throw new SkillError("model-key-missing", {
      message: `The model '${sanitizeLine(table.alias, 100)}' (${provider}) has no usable key: ${why}`,
      fix: [
        `add to ${formatConfigPath(host)}:`,
        `  ${table.table}`,
        `  provider = "${provider}"`,
        `  api_key = "${key === undefined || baseUrl === undefined ? "…" : `env:${key}`}"${key === undefined || baseUrl !== undefined ? "" : `   # or set ${key}`}`,
      ].join("\n"),
    });
  };
  if (apiKey !== undefined) {
    const [, kind, where] = /^(env|file):(.+)$/s.exec(apiKey) ?? [];
    const value = requireSendableKey(
      resolveReference(apiKey, host, (why) => refuse(kind ? why : "api_key is empty")),
      refuse,
    );
    const own = `api_key of ${table.table}`;
    return { value, said: kind === "env" ? `${where} of the environment` : kind ? `the file ${where}` : own };
  }
  if (key === undefined) return undefined;
  if (baseUrl !== undefined)
    return refuse(
      `its server is ${formatModelAddress(baseUrl)}, and ${key} is sent only to ${provider} unless you configure it`,
    );
  const value = host.env?.[key]?.trim();
  if (!value) return refuse(`${key} is not set`);
  return { value: requireSendableKey(value, refuse), said: `${key} of the environment` };
}

/** Returns a key that can be sent as a header. Otherwise an error message of the HTTP client would show it. */
function requireSendableKey(written: string, refuse: (why: string) => never): string {
  const value = written.trim();
  return /^[!-~]+$/.test(value)
    ? value
    : refuse("its value is not a key: it is empty, or contains spaces or other invalid characters");
}

function throwSettingsError(host: Host, { alias, table }: ModelTable, what: string, line: string): never {
  throw new SkillError("model-settings", {
    message: `The model '${sanitizeLine(alias, 100)}' ${what}`,
    fix: `add to ${formatConfigPath(host)}:\n  ${table}\n  ${line}`,
  });
}
