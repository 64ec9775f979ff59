import { resolveReference } from "../../config/config-file.ts";
import type { Host } from "../../config/host.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { findSchemaProblem, formatInvalidInput } from "../../host/json-schema.ts";
import { listDeclaredVariables } from "../../skill/requirements.ts";
import type { Skill } from "../../skill/skill.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { MIN_SECRET_BYTES, type Redactor, type Secrets } from "../../util/redact.ts";
import { truncateLine } from "../../util/text.ts";
import { collectModelSecrets, type ResolvedModel, resolveModel } from "../models/resolve-model.ts";
import { RUNBOOK_NAME } from "../models/runbook.ts";
import type { UseContext, UseRequest } from "./use-skill.ts";

interface UseInput {
  input?: unknown;
  message?: string | undefined;
  context?: string | undefined;
}

const MAX_INPUT_LENGTH = 256 * 1024;

/** The input as the skill's schema wants it, with its defaults put in; or what is wrong with it. */
export async function readUseInput(
  { manifest: { inputSchema } }: Skill,
  given: UseInput,
): Promise<{ value: unknown; hasTakenContext?: boolean } | { problem: string }> {
  const read = given.input === undefined ? { value: undefined } : parseInput(given.input);
  if ("problem" in read) return read;
  let { value } = read;
  if (inputSchema === undefined) return { value };
  value ??= fillTextInput(inputSchema, given);
  const problem = await findSchemaProblem(inputSchema, value);
  if (problem !== undefined) return { problem };
  const hasTakenContext = given.input === undefined && given.message === undefined && given.context !== undefined;
  return { value, hasTakenContext: hasTakenContext && Object.values(value as object).includes(given.context) };
}

/** What was given, as JSON has it. */
function parseInput(input: unknown): { value: unknown } | { problem: string } {
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (error) {
    return formatInvalidInput(
      error instanceof RangeError ? TOO_DEEP_MESSAGE : `it is no JSON: ${truncateLine(getErrorMessage(error), 100)}`,
    );
  }
  if (text === undefined) return formatInvalidInput("it is no JSON");
  if (text.length > MAX_INPUT_LENGTH) return formatInvalidInput("it is larger than 256 KiB");
  const value: unknown = JSON.parse(text);
  return isDeeperThan(value, MAX_INPUT_DEPTH) ? formatInvalidInput(TOO_DEEP_MESSAGE) : { value };
}

const MAX_INPUT_DEPTH = 100;
const TOO_DEEP_MESSAGE = `it is nested more than ${MAX_INPUT_DEPTH} deep`;

function isDeeperThan(value: unknown, most: number): boolean {
  let level = [value];
  for (let depth = 0; depth <= most && level.length > 0; depth++) {
    level = level.flatMap((item) => (item !== null && typeof item === "object" ? Object.values(item) : []));
  }
  return level.length > 0;
}

/** Nothing but a text is asked for, and nothing but a text was given: that is the one. */
function fillTextInput(schema: JsonObject, { message, context }: UseInput): JsonObject {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isJsonObject(schema["properties"]) ? schema["properties"] : {};
  const [only] = required;
  const text = message ?? context;
  const wanted = typeof only === "string" && Object.hasOwn(properties, only) ? properties[only] : undefined;
  if (required.length !== 1 || text === undefined || !isJsonObject(wanted) || wanted["type"] !== "string") return {};
  return { [only]: text };
}

/**
 * The caller's word over the configuration's, that over the skill's, and that over what whoever started it all asked for; but where they
 * asked for no language model, there is none. `inherit` is the model of whoever calls. A caller's alias that there is not is refused:
 * what they said must not go to another one.
 */
export async function resolveUseModel(
  { name, manifest }: Skill,
  { host, request, chain }: Pick<UseContext, "host" | "request" | "chain">,
): Promise<ResolvedModel> {
  if (request.model !== undefined) return requireKnownModel(await resolveModel(host, request.model));
  if (chain.asked !== undefined) {
    const asked = await resolveModel(host, chain.asked);
    if (asked.model.name === RUNBOOK_NAME) return asked;
  }
  const own = manifest.model === "inherit" ? chain.model : manifest.model;
  return resolveModel(host, host.settings.skills.get(name)?.model ?? own ?? chain.asked);
}

/** Throws where an alias was not known. */
export function requireKnownModel(resolved: ResolvedModel): ResolvedModel {
  const unknown = resolved.warnings.find(({ code }) => code === "model-unknown");
  if (!unknown) return resolved;
  throw new SkillError(unknown.code, { message: unknown.message.replace(/: \S* is used$/s, ""), fix: unknown.fix });
}

/** How much a use may take: a skill and a caller can ask for less than the settings allow, never for more. */
export function resolveRunLimits(
  /** What the skill says; none, when it says nothing. */
  wanted: number | undefined,
  { settings: { limits } }: Host,
  request: Pick<UseRequest, "iterations" | "seconds" | "tokens">,
): { iterations: number; seconds: number; tokens?: number } {
  const iterations = pickSmallestLimit(wanted ?? limits.iterations, limits.mostIterations, request.iterations);
  return {
    iterations: Math.max(1, Math.floor(iterations ?? 1)),
    seconds: pickSmallestLimit(limits.seconds, request.seconds) ?? limits.seconds,
    ...omitUndefined({ tokens: pickSmallestLimit(limits.tokens, request.tokens) }),
  };
}

/** Of those that are bounds at all. */
function pickSmallestLimit(...given: (number | undefined)[]): number | undefined {
  const bounds = given.filter((bound) => bound !== undefined && Number.isFinite(bound) && bound > 0) as number[];
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

/** The values of a skill's variables; with what kept them from being had, when something did. */
export interface SkillSecrets {
  secrets: Secrets;
  problem?: unknown;
}

export function readSkillSecrets(skill: Skill, host: Host): SkillSecrets {
  try {
    return { secrets: resolveVariables(skill, host) };
  } catch (problem) {
    return { secrets: new Map(), problem };
  }
}

/** Everything that nobody is shown: this skill's values under their own names, then all others that are configured, and the keys of models, servers and providers. */
export function collectSecrets(own: Secrets, host: Host): Secrets {
  const secrets = new Map(own);
  const add = (name: string, value: string, longer: string) => {
    if (value === "" || [...secrets.values()].includes(value)) return;
    secrets.set(secrets.has(name) ? longer : name, value);
  };
  for (const [name, value] of collectModelSecrets(host)) add(name, value, `models.${name}`);
  for (const [skill, { variables }] of host.settings.skills) {
    for (const [name, written] of variables) add(name, resolveOrEmpty(written, host), `${skill}.${name}`);
  }
  const { apiKey } = host.settings.tools.webSearch ?? {};
  if (apiKey !== undefined) add("web_search.api_key", resolveOrEmpty(apiKey, host), "tools.web_search.api_key");
  for (const [server, { env, token }] of host.settings.mcp) {
    for (const [name, written] of env) add(name, resolveOrEmpty(written, host), `${server}.${name}`);
    if (token !== undefined) add(`${server}.token`, resolveOrEmpty(token, host), `tools.mcp.${server}.token`);
  }
  for (const [namespace, { env = new Map() }] of host.settings.providers) {
    for (const [name, written] of env) add(name, resolveOrEmpty(written, host), `${namespace}.${name}`);
  }
  return secrets;
}

/** What cannot be had cannot be shown. */
function resolveOrEmpty(written: string, host: Host): string {
  try {
    return resolveReference(written, host, () => {
      throw new Error("there is none");
    });
  } catch {
    return "";
  }
}

/** The variables that a skill declares, with the values that the configuration has for it. Throws a SkillError for one that cannot be had. */
export function resolveVariables(skill: Skill, host: Host): Secrets {
  const configured = host.settings.skills.get(skill.name)?.variables;
  return new Map(
    listDeclaredVariables(skill).map((name) => {
      const value = resolveReference(configured?.get(name) ?? "", host, (why) => {
        throw new SkillError("missing-variable", {
          message: `Skill '${skill.name}' needs ${name}, and ${why}`,
          fix: "correct the value in config.toml, or what it refers to",
        });
      });
      return [name, value];
    }),
  );
}

/** Without secrets. */
export function createProblemRedactor(hiding: Redactor): (notice: Problem) => Problem {
  return ({ code, message, fix, diff }) => ({
    code,
    message: hiding.text(message),
    fix: hiding.text(fix),
    ...(diff === undefined ? {} : { diff: hiding.text(diff) }),
  });
}

/** Plain data without secrets, wherever they stand in it; what stands too deep is left out. */
export function redactData<T>(hiding: Redactor, value: T, depth = 0): T {
  if (typeof value === "string") return hiding.text(value) as T;
  if (value === null || typeof value !== "object") return value;
  if (depth === MAX_REDACTED_DEPTH) return undefined as T;
  if (Array.isArray(value)) return value.map((item) => redactData(hiding, item, depth + 1)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [hiding.text(key), redactData(hiding, item, depth + 1)]),
  ) as T;
}

const MAX_REDACTED_DEPTH = 200;

/** Values that are too short to be hidden. */
export function warnShortSecrets(secrets: Secrets): Problem[] {
  const short = [...secrets].filter(([, value]) => Buffer.byteLength(value) < MIN_SECRET_BYTES).map(([name]) => name);
  if (short.length === 0) return [];
  return [
    {
      code: "secret-short",
      message: `${short.join(", ")} is too short to be told from other text: it is not hidden in the output`,
      fix: `use a value of ${MIN_SECRET_BYTES} characters or more`,
    },
  ];
}
