import type { Host } from "../host/host.ts";
import { type Model, type ModelSettings, PROVIDERS, type Provider } from "../host/models.ts";
import { resolved } from "../host/reference.ts";
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
  /** What it is called, where that is not `provider/model`. */
  name?: string;
}

/** The model that the settings describe. Throws a SkillError where they do not: `model-settings`, `model-key-missing`. */
export async function openConfigured(host: Host, settings: ModelSettings, place: Place): Promise<Model> {
  if (settings.model === RUNBOOK && settings.provider === undefined) return runbook;
  const provider = providerOf(settings) ?? refuseSettings(host, place, "says no provider", `provider = "anthropic"`);
  const row = PROVIDER_ROWS[provider];
  const model =
    modelIn(settings, provider) ??
    row.aliases[place.alias] ??
    row.aliases["default"] ??
    refuseSettings(host, place, "names no model", `model = "…"`);
  const key = keyOf(host, settings, provider, place);
  const baseUrl =
    addressOf(host, settings, provider) ??
    refuseSettings(host, place, "has no base_url that can be asked", `base_url = "http://127.0.0.1:8000/v1"`);
  return sdkModel(await row.open({ model, baseUrl, apiKey: key?.value }), {
    name: place.name ?? `${provider}/${model}`,
    seconds: settings.seconds ?? MODEL_DEFAULTS.seconds,
    retries: settings.retries ?? MODEL_DEFAULTS.retries,
    ...(settings.maxTokens === undefined ? {} : { maxTokens: settings.maxTokens }),
    takesEffort: row.takesEffort,
    address: baseUrl,
    ...(key === undefined ? {} : { key: key.said }),
    secrets: { text: (text) => openHiding(modelSecrets(host)).text(text) },
  });
}

/** Who is asked: what the settings say, or what follows from the rest of them. */
export function providerOf({ provider, model, baseUrl }: ModelSettings): Provider | undefined {
  if (provider !== undefined) return provider;
  return baseUrl === undefined ? PROVIDERS.find((name) => model?.startsWith(`${name}/`)) : "openai-compatible";
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

export function configFile({ home }: Host): string {
  return `${home ?? "~/.skillet"}/config.toml`;
}

export function tableFor(alias: string): string {
  return `[models.${/^[\w-]+$/.test(alias) ? alias : JSON.stringify(alias)}]`;
}

function none(): never {
  throw new Error("there is none");
}

function modelIn({ model, provider, baseUrl }: ModelSettings, found: Provider): string | undefined {
  return provider === undefined && baseUrl === undefined && model?.startsWith(`${found}/`)
    ? model.slice(found.length + 1)
    : model;
}

// A provider's variable goes to the provider, or where the variable beside it says, and to no other address.
function addressOf({ env }: Host, { baseUrl, apiKey }: ModelSettings, provider: Provider): string | undefined {
  const { host, path = "", address } = PROVIDER_ROWS[provider];
  const beside = apiKey === undefined && address !== undefined ? env?.[address] : undefined;
  const written = (baseUrl ?? (beside?.trim() || host) ?? "").trim().replace(/\/+$/, "");
  if (!/^https?:\/\//i.test(written) || !URL.canParse(written)) return undefined;
  return new URL(written).pathname === "/" ? `${written}${path}` : written;
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
      `it is asked at ${inLine(baseUrl, 200)}, and ${key} goes nowhere else than to ${provider} unless you say so`,
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
