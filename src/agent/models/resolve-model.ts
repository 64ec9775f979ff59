import { resolveReference } from "../../config/config-file.ts";
import type { Host } from "../../config/host.ts";
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
import { formatConfigPath } from "../policy/setup-policy.ts";
import { createSdkModel } from "./ai-sdk-model.ts";
import { findOllamaModel, formatSdkModelName, getOllamaUrl, MODEL_PROVIDER_TABLE } from "./model-providers.ts";
import { RUNBOOK_NAME, runbookModel } from "./runbook.ts";

export interface ResolvedModel {
  model: Model;
  /** What it was found under. */
  alias: string;
  warnings: readonly Problem[];
}

/** What a model can be asked for by. */
export interface ModelAlias {
  alias: string;
  /** `anthropic/claude-…`; what the configuration says, where that is all that is known. */
  model: string;
  from: "program" | "settings" | "built-in";
  isDefault: boolean;
  /** Why it cannot be asked, where that was looked for: a missing key, a bad address. */
  problem?: Problem;
}

/**
 * The model of an alias, or of `provider/model`. An alias that is not known is the default, with a warning (W-15).
 * Throws a SkillError for one that is known and cannot be had: `model-key-missing`, `model-settings`; and where there is none
 * at all: `model-missing`.
 */
export async function resolveModel(host: Host, wanted: string | undefined): Promise<ResolvedModel> {
  // Of `inherit`, what is left where no caller's model was passed on.
  const asked = wanted === undefined || wanted === "" || wanted === "inherit" ? DEFAULT_ALIAS : wanted;
  const known = listConfiguredModels(host).get(asked) ?? findQualifiedModel(host, asked);
  if (known) return { model: await known.open(), alias: known.alias, warnings: [] };
  const all = await listModelChoices(host);
  const found = all.get(asked) ?? all.get(DEFAULT_ALIAS);
  if (!found) throw new SkillError("model-missing", NO_MODEL_PROBLEM);
  const model = await found.open();
  // Where there is no language model, there is none of a family to choose.
  const isKnown = all.has(asked) || (model === runbookModel && MODEL_FAMILIES.has(asked));
  return {
    model,
    alias: found.alias,
    warnings: isKnown ? [] : [createUnknownAliasNotice(asked, [...all.keys()], model, host)],
  };
}

const NO_MODEL_PROBLEM = {
  message: "No model is there for skills to use",
  fix: "give the host models: { default: … }, or ask for the model `runbook`",
};
const MODEL_FAMILIES = new Set(Object.values(MODEL_PROVIDER_TABLE).flatMap(({ aliases }) => Object.keys(aliases)));

/** Every alias that there is, for people. */
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

/** The same, with what keeps the default and the configured ones from being asked: each is opened as a chat opens it, and not asked. */
export async function checkModelAliases(host: Host): Promise<readonly ModelAlias[]> {
  return Promise.all(
    (await listModelAliases(host)).map(async (alias) => {
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

const DEFAULT_ALIAS = "default";

interface ModelChoice {
  alias: string;
  says: string;
  from: ModelAlias["from"];
  open(): Model | Promise<Model>;
}

/** What the program and the configuration say, the program first. */
function listConfiguredModels(host: Host): Map<string, ModelChoice> {
  const found = new Map<string, ModelChoice>();
  for (const [alias, model] of Object.entries(host.models ?? {})) found.set(alias, createHostChoice(alias, model));
  for (const [alias, settings] of host.settings.models) {
    if (!found.has(alias)) found.set(alias, createSettingsChoice(host, alias, settings));
  }
  const usual = found.get(findDefaultAlias(host) ?? "");
  return usual ? found.set(DEFAULT_ALIAS, usual) : found;
}

/** The same, with what is built in: the aliases of the provider in use, and `runbook`. */
async function listModelChoices(host: Host): Promise<Map<string, ModelChoice>> {
  const found = listConfiguredModels(host);
  const add = (choice: ModelChoice) => found.has(choice.alias) || found.set(choice.alias, choice);
  const usual = found.get(DEFAULT_ALIAS);
  for (const choice of usual ? listDefaultProviderModels(host, usual) : await detectModels(host)) add(choice);
  add(createRunbookChoice(RUNBOOK_NAME));
  // It runs commands: a program that says nothing of models has not asked for that.
  if (host.env) add(createRunbookChoice(DEFAULT_ALIAS));
  return found;
}

/** The one called so, or else the first: of the program, or else of what the configuration says enough about. */
function findDefaultAlias({ models = {}, settings }: Host): string | undefined {
  const [first] = Object.keys(models);
  if (Object.hasOwn(models, DEFAULT_ALIAS) || (first === undefined && settings.models.has(DEFAULT_ALIAS)))
    return DEFAULT_ALIAS;
  return first ?? [...settings.models].find(([alias, one]) => isCompleteModel(one, alias))?.[0];
}

/** The short names of the provider that the configuration's default has. */
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
  const place: ModelTable = { alias, table: formatModelTable(alias) };
  const says = [settings.provider, settings.model].filter((part) => part !== undefined).join("/");
  return { alias, says, from: "settings", open: () => createConfiguredModel(host, settings, place) };
}

/** A provider's own short names, asked as `base` is, which is configured as `table`. */
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

/** What this machine has, where nothing was configured. A host without an environment asks for nothing to be looked for. */
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

/** `provider/model`, asked as the configuration asks that provider. */
function findQualifiedModel(host: Host, asked: string): ModelChoice | undefined {
  const [, who = "", model = ""] = /^([a-z-]+)\/(.+)$/s.exec(asked) ?? [];
  const provider = MODEL_PROVIDERS.find((name) => name === who);
  if (provider === undefined) return undefined;
  const [table, base] = [...host.settings.models].find(([, one]) => inferProvider(one) === provider) ?? [provider];
  if (!base && provider === "openai-compatible") return undefined;
  const place: ModelTable = { alias: asked, table: formatModelTable(table) };
  const open = () => createConfiguredModel(host, { ...base, provider, model }, place);
  const choice: ModelChoice = { alias: asked, says: asked, from: "built-in", open };
  const { key } = MODEL_PROVIDER_TABLE[provider];
  return base || key === undefined ? choice : requireConsent(host, key, choice);
}

/** A model that nothing but a key in the environment makes available. A key that a client passed is spent with the user's consent only. */
function requireConsent(host: Host, key: string, choice: ModelChoice): ModelChoice {
  if (!host.isEnvOfClient || host.settings.serving.useClientKey === true || !host.env?.[key]?.trim()) return choice;
  return {
    ...choice,
    open() {
      throw new SkillError("client-key-consent", {
        message: `The only key for a model is ${key}, which the client passed to this server, and you have not allowed skillet to spend it`,
        fix: `To allow it, run: skillet config set mcp.use_client_key true. Or add [models.default] with a key of its own to ${formatConfigPath(host)}`,
      });
    },
  };
}

function createUnknownAliasNotice(asked: string, names: readonly string[], { name }: Model, host: Host): Problem {
  const shown = sanitizeLine(asked, 100);
  return {
    code: "model-unknown",
    message: `There is no model called '${shown}': ${sanitizeLine(name, 100)} is used`,
    fix: `name one of ${names.map((one) => sanitizeLine(one, 64)).join(", ")}, or add ${formatModelTable(shown)} to ${formatConfigPath(host)}`,
  };
}

/** How long one answer may take, and how often it is asked for again, where nothing says so. */
const MODEL_DEFAULTS = { seconds: 300, retries: 2 };

/** What a model is configured as, for what is said of it. */
interface ModelTable {
  alias: string;
  /** Its table in the configuration. */
  table: string;
}

/** The model that the settings describe. Throws a SkillError where they do not: `model-settings`, `model-key-missing`. */
async function createConfiguredModel(host: Host, settings: ModelSettings, place: ModelTable): Promise<Model> {
  if (isRunbookModel(settings)) return runbookModel;
  const provider =
    inferProvider(settings) ?? throwSettingsError(host, place, "says no provider", formatProviderLine(settings));
  const row = MODEL_PROVIDER_TABLE[provider];
  const model =
    resolveModelId(settings, provider, place.alias) ?? throwSettingsError(host, place, "names no model", `model = "…"`);
  const key = resolveModelKey(host, settings, provider, place);
  const { url, from } = resolveModelAddress(host, settings, provider, place);
  return createSdkModel(await row.open({ model, baseUrl: url, apiKey: key?.value }), {
    name: `${provider}/${model}`,
    seconds: settings.seconds ?? MODEL_DEFAULTS.seconds,
    retries: settings.retries ?? MODEL_DEFAULTS.retries,
    ...(settings.maxTokens === undefined ? {} : { maxTokens: settings.maxTokens }),
    ...(settings.contextWindow === undefined ? {} : { contextWindow: settings.contextWindow }),
    takesEffort: row.takesEffort,
    address: formatModelAddress(url),
    ...(from === undefined ? {} : { addressFrom: from }),
    ...(key === undefined ? {} : { key: key.said }),
    secrets: { text: (text) => createRedactor(collectModelSecrets(host)).text(text) },
  });
}

/** Who is asked: what the settings say, or what follows from the rest of them. */
function inferProvider({ provider, model, baseUrl }: ModelSettings): ModelProvider | undefined {
  if (provider !== undefined) return provider;
  return baseUrl === undefined ? MODEL_PROVIDERS.find((name) => model?.startsWith(`${name}/`)) : "openai-compatible";
}

/** Whether it says who is asked for what, and where, as far as that does not follow. */
function isCompleteModel(settings: ModelSettings, alias: string): boolean {
  if (isRunbookModel(settings)) return true;
  const provider = inferProvider(settings);
  if (provider === undefined || resolveModelId(settings, provider, alias) === undefined) return false;
  return (settings.baseUrl ?? MODEL_PROVIDER_TABLE[provider].host) !== undefined;
}

/** The keys of all models, by name: what must not be shown anywhere. */
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
      // What cannot be had cannot be shown.
    }
  }
  return secrets;
}

function formatModelTable(alias: string): string {
  return `[models.${/^[\w-]+$/.test(alias) ? alias : JSON.stringify(alias)}]`;
}

function throwNoAnswer(): never {
  throw new Error("there is none");
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

/** Whose a model probably is, by its name; the first that fits. */
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
  /** What to correct where it is wrong. */
  from?: string;
}

const VERSION_PATH = /\/v\d\w*(?:\/|$)/;

// A provider's variable goes to the provider, or where the variable beside it says, and to no other address.
function resolveModelAddress(
  host: Host,
  { baseUrl, apiKey }: ModelSettings,
  provider: ModelProvider,
  place: ModelTable,
): ModelAddress {
  const { key, address = "", read = String, host: usual = "", path = "" } = MODEL_PROVIDER_TABLE[provider];
  const isBeside = baseUrl === undefined && (apiKey === undefined || key === undefined);
  const variable = isBeside ? host.env?.[address]?.trim() : undefined;
  const url = (baseUrl ?? (variable ? read(variable) : usual)).trim().replace(/\/+$/, "");
  if (!isUsableAddress(url)) {
    if (variable) throw new SkillError("model-settings", formatAddressProblem(address));
    return throwSettingsError(
      host,
      place,
      "has no base_url that can be asked",
      `base_url = "http://127.0.0.1:8000/v1"`,
    );
  }
  const { pathname } = new URL(url);
  // Others that read these variables add the version themselves.
  const lacksVersion = variable ? !VERSION_PATH.test(pathname) : pathname === "/";
  const from = variable ? address : baseUrl && `base_url of ${place.table} in config.toml`;
  return { url: lacksVersion ? `${url}${path}` : url, ...(from ? { from } : {}) };
}

/** A name and password in it would be shown wherever the address is, and nobody would send them. */
function isUsableAddress(written: string): boolean {
  const url = URL.parse(written);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

/** Without a query, which may hold a key. */
function formatModelAddress(address: string): string {
  const url = URL.parse(address);
  return url ? sanitizeLine(`${url.origin}${url.pathname}`.replace(/\/$/, ""), 200) : "another address";
}

function formatAddressProblem(variable: string) {
  return { message: `${variable} of the environment is no web address`, fix: `write it as "https://…"` };
}

interface ModelKey {
  value: string;
  /** Which it is and where it comes from. */
  said: string;
}

function resolveModelKey(
  host: Host,
  { apiKey, baseUrl }: ModelSettings,
  provider: ModelProvider,
  place: ModelTable,
): ModelKey | undefined {
  const { key } = MODEL_PROVIDER_TABLE[provider];
  const refuse = (why: string): never => {
    throw new SkillError("model-key-missing", {
      message: `The model '${sanitizeLine(place.alias, 100)}' (${provider}) has no key that can be used: ${why}`,
      fix: [
        `add to ${formatConfigPath(host)}:`,
        `  ${place.table}`,
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
    const own = `api_key of ${place.table}`;
    return { value, said: kind === "env" ? `${where} of the environment` : kind ? `the file ${where}` : own };
  }
  if (key === undefined) return undefined;
  if (baseUrl !== undefined)
    return refuse(
      `it is asked at ${formatModelAddress(baseUrl)}, and ${key} goes nowhere else than to ${provider} unless you say so`,
    );
  const value = host.env?.[key]?.trim();
  if (!value) return refuse(`${key} is not set`);
  return { value: requireSendableKey(value, refuse), said: `${key} of the environment` };
}

/** As it can be sent. What cannot would be told by whoever refuses to send it. */
function requireSendableKey(written: string, refuse: (why: string) => never): string {
  const value = written.trim();
  return /^[!-~]+$/.test(value)
    ? value
    : refuse("its value is no key: it is empty, or holds blanks or other characters that no key has");
}

function throwSettingsError(host: Host, { alias, table }: ModelTable, what: string, line: string): never {
  throw new SkillError("model-settings", {
    message: `The model '${sanitizeLine(alias, 100)}' ${what}`,
    fix: `add to ${formatConfigPath(host)}:\n  ${table}\n  ${line}`,
  });
}
