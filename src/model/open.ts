import type { Host } from "../host/host.ts";
import { type Model, type ModelSettings, PROVIDERS, type Provider } from "../host/models.ts";
import { resolved } from "../host/reference.ts";
import { configFile } from "../policy/shown-path.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { openHiding, type Secrets } from "../shared/redact.ts";
import { PROVIDER_ROWS } from "./providers.ts";
import { RUNBOOK, runbook } from "./runbook.ts";
import { sdkModel } from "./sdk.ts";

/** How long one answer may take, and how often it is asked for again, where nothing says so. */
export const MODEL_DEFAULTS = { seconds: 300, retries: 2 };

/** What a model is configured as, for what is said of it. */
export interface Place {
  alias: string;
  /** Its table in the configuration. */
  table: string;
}

/** The model that the settings describe. Throws a SkillError where they do not: `model-settings`, `model-key-missing`. */
export async function openConfigured(host: Host, settings: ModelSettings, place: Place): Promise<Model> {
  if (isRunbook(settings)) return runbook;
  const provider = providerOf(settings) ?? refuseSettings(host, place, "says no provider", providerLine(settings));
  const row = PROVIDER_ROWS[provider];
  const model =
    modelIn(settings, provider, place.alias) ?? refuseSettings(host, place, "names no model", `model = "…"`);
  const key = keyOf(host, settings, provider, place);
  const { url, from } = addressOf(host, settings, provider, place);
  return sdkModel(await row.open({ model, baseUrl: url, apiKey: key?.value }), {
    name: `${provider}/${model}`,
    seconds: settings.seconds ?? MODEL_DEFAULTS.seconds,
    retries: settings.retries ?? MODEL_DEFAULTS.retries,
    ...(settings.maxTokens === undefined ? {} : { maxTokens: settings.maxTokens }),
    ...(settings.contextWindow === undefined ? {} : { contextWindow: settings.contextWindow }),
    takesEffort: row.takesEffort,
    address: shownAddress(url),
    ...(from === undefined ? {} : { addressFrom: from }),
    ...(key === undefined ? {} : { key: key.said }),
    secrets: { text: (text) => openHiding(modelSecrets(host)).text(text) },
  });
}

/** Who is asked: what the settings say, or what follows from the rest of them. */
export function providerOf({ provider, model, baseUrl }: ModelSettings): Provider | undefined {
  if (provider !== undefined) return provider;
  return baseUrl === undefined ? PROVIDERS.find((name) => model?.startsWith(`${name}/`)) : "openai-compatible";
}

/** Whether it says who is asked for what, and where, as far as that does not follow. */
export function isComplete(settings: ModelSettings, alias: string): boolean {
  if (isRunbook(settings)) return true;
  const provider = providerOf(settings);
  if (provider === undefined || modelIn(settings, provider, alias) === undefined) return false;
  return (settings.baseUrl ?? PROVIDER_ROWS[provider].host) !== undefined;
}

/** The keys of all models, by name: what must not be shown anywhere. */
export function modelSecrets(host: Host): Secrets {
  const secrets = new Map<string, string>();
  for (const { key } of Object.values(PROVIDER_ROWS)) {
    const value = key === undefined ? undefined : host.env?.[key]?.trim();
    if (key !== undefined && value) secrets.set(key, value);
  }
  for (const [alias, { apiKey }] of host.settings.models) {
    if (apiKey === undefined) continue;
    try {
      const name = /^env:([\w]+)$/.exec(apiKey)?.[1] ?? `models.${alias}.api_key`;
      secrets.set(name, resolved(apiKey, host, none).trim());
    } catch {
      // What cannot be had cannot be shown.
    }
  }
  return secrets;
}

export function tableFor(alias: string): string {
  return `[models.${/^[\w-]+$/.test(alias) ? alias : JSON.stringify(alias)}]`;
}

function none(): never {
  throw new Error("there is none");
}

function isRunbook({ model, provider }: ModelSettings): boolean {
  return model === RUNBOOK && provider === undefined;
}

function modelIn({ model, provider, baseUrl }: ModelSettings, found: Provider, alias: string): string | undefined {
  const { aliases } = PROVIDER_ROWS[found];
  if (model === undefined) return aliases[alias] ?? aliases["default"];
  const isWhole = provider === undefined && baseUrl === undefined && model.startsWith(`${found}/`);
  return isWhole ? model.slice(found.length + 1) : model;
}

/** Whose a model probably is, by its name; the first that fits. */
const GUESSES: readonly (readonly [RegExp, Provider])[] = [
  [/^ft:/, "openai"],
  [/:/, "ollama"],
  [/^claude/, "anthropic"],
  [/^(?:chat)?gpt|^o\d/, "openai"],
];

function providerLine({ model }: ModelSettings): string {
  const guess = model === undefined ? "anthropic" : GUESSES.find(([names]) => names.test(model))?.[1];
  return `provider = "${guess ?? "…"}"${guess === undefined ? `   # ${PROVIDERS.join(", ")}` : ""}`;
}

interface Address {
  url: string;
  /** What to correct where it is wrong. */
  from?: string;
}

const VERSION = /\/v\d\w*(?:\/|$)/;

// A provider's variable goes to the provider, or where the variable beside it says, and to no other address.
function addressOf(host: Host, { baseUrl, apiKey }: ModelSettings, provider: Provider, place: Place): Address {
  const { key, address = "", read = String, host: usual = "", path = "" } = PROVIDER_ROWS[provider];
  const isBeside = baseUrl === undefined && (apiKey === undefined || key === undefined);
  const variable = isBeside ? host.env?.[address]?.trim() : undefined;
  const url = (baseUrl ?? (variable ? read(variable) : usual)).trim().replace(/\/+$/, "");
  if (!isAddress(url)) {
    if (variable) throw new SkillError("model-settings", notAnAddress(address));
    return refuseSettings(host, place, "has no base_url that can be asked", `base_url = "http://127.0.0.1:8000/v1"`);
  }
  const { pathname } = new URL(url);
  // Others that read these variables add the version themselves.
  const lacksVersion = variable ? !VERSION.test(pathname) : pathname === "/";
  const from = variable ? address : baseUrl && `base_url of ${place.table} in config.toml`;
  return { url: lacksVersion ? `${url}${path}` : url, ...(from ? { from } : {}) };
}

/** A name and password in it would be shown wherever the address is, and nobody would send them. */
function isAddress(written: string): boolean {
  const url = URL.parse(written);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

/** Without a query, which may hold a key. */
function shownAddress(address: string): string {
  const url = URL.parse(address);
  return url ? inLine(`${url.origin}${url.pathname}`.replace(/\/$/, ""), 200) : "another address";
}

function notAnAddress(variable: string) {
  return { message: `${variable} of the environment is no web address`, fix: `write it as "https://…"` };
}

interface Key {
  value: string;
  /** Which it is and where it comes from. */
  said: string;
}

function keyOf(host: Host, { apiKey, baseUrl }: ModelSettings, provider: Provider, place: Place): Key | undefined {
  const { key } = PROVIDER_ROWS[provider];
  const refuse = (why: string): never => {
    throw new SkillError("model-key-missing", {
      message: `The model '${inLine(place.alias, 100)}' (${provider}) has no key that can be used: ${why}`,
      fix: [
        `add to ${configFile(host)}:`,
        `  ${place.table}`,
        `  provider = "${provider}"`,
        `  api_key = "${key === undefined || baseUrl === undefined ? "…" : `env:${key}`}"${key === undefined || baseUrl !== undefined ? "" : `   # or set ${key}`}`,
      ].join("\n"),
    });
  };
  if (apiKey !== undefined) {
    const [, kind, where] = /^(env|file):(.+)$/s.exec(apiKey) ?? [];
    const value = checked(
      resolved(apiKey, host, (why) => refuse(kind ? why : "api_key is empty")),
      refuse,
    );
    const own = `api_key of ${place.table}`;
    return { value, said: kind === "env" ? `${where} of the environment` : kind ? `the file ${where}` : own };
  }
  if (key === undefined) return undefined;
  if (baseUrl !== undefined)
    return refuse(
      `it is asked at ${shownAddress(baseUrl)}, and ${key} goes nowhere else than to ${provider} unless you say so`,
    );
  const value = host.env?.[key]?.trim();
  if (!value) return refuse(`${key} is not set`);
  return { value: checked(value, refuse), said: `${key} of the environment` };
}

/** As it can be sent. What cannot would be told by whoever refuses to send it. */
function checked(written: string, refuse: (why: string) => never): string {
  const value = written.trim();
  return /^[!-~]+$/.test(value)
    ? value
    : refuse("its value is no key: it is empty, or holds blanks or other characters that no key has");
}

function refuseSettings(host: Host, { alias, table }: Place, what: string, line: string): never {
  throw new SkillError("model-settings", {
    message: `The model '${inLine(alias, 100)}' ${what}`,
    fix: `add to ${configFile(host)}:\n  ${table}\n  ${line}`,
  });
}
