import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { escapeInvisible, sanitizeLine } from "../util/untrusted-text.ts";
import type { CallOptions, Tool, ToolEffect, ToolOwner, ToolResult, ToolSandbox } from "./tool.ts";

/** A schema of zod, or of any other library that follows Standard Schema and says itself as JSON Schema. */
export interface StandardSchema<Value = unknown> {
  readonly "~standard": {
    readonly version: number;
    readonly vendor: string;
    validate(value: unknown): SchemaValidation | Promise<SchemaValidation>;
    readonly jsonSchema?: { input(options: { target: string }): Record<string, unknown> };
    readonly types?: { readonly output: Value } | undefined;
  };
}
type SchemaValidation = { value?: unknown; issues?: readonly SchemaIssue[] | undefined };
type SchemaIssue = { message: string; path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined };

type ToolArguments<Schema> = Schema extends { "~standard": { types?: { output: infer Value } | undefined } }
  ? Value
  : JsonObject;

/** What a tool is called with, beside its arguments. */
export interface ToolContext {
  /** The skill that brought it, or that is followed; none in an agent of the embedder's own. */
  skill?: ToolOwner;
  run?: string;
  /** The same for the same call, also when it is made again after a crash: pass it on to what must not happen twice. */
  key?: string;
  signal: AbortSignal;
  /** Values of the variables that the skill declares; none when it is only loaded. Never the host's environment. */
  env: Readonly<Record<string, string>>;
  /** Says how far it is, for whoever waits. */
  progress(text: string): void;
  sandbox: ToolSandbox;
}

/**
 * What a tool gives back: a text for the model, or that with a title for people and data for programs; or what was done, and a value,
 * of which a model reads what its `render` gives.
 */
export type ToolOutput =
  | string
  | { output: string; title?: string; metadata?: JsonObject; isError?: boolean }
  // biome-ignore lint/suspicious/noExplicitAny: with unknown, `this` in a literal's render() would have no properties
  | { message: string; value: any; isError?: boolean };

export interface ToolDefinition<Schema extends StandardSchema | JsonObject> {
  description: string;
  /** A schema of zod, or JSON Schema. */
  parameters: Schema;
  /** What a call changes: then somebody is asked first. Left out: it only reads. */
  effect?:
    | ToolEffect["on"]
    | ToolEffect
    | ((args: ToolArguments<Schema>) => ToolEffect | undefined | Promise<ToolEffect | undefined>);
  category?: string;
  execute(args: ToolArguments<Schema>, context: ToolContext): ToolOutput | Promise<ToolOutput>;
}

/** What a tool can be called. */
export const TOOL_ID: RegExp = /^[A-Za-z0-9](?:[\w.-]{0,62}[\w-])?$/;

export function defineTool<Schema extends StandardSchema | JsonObject>(
  id: string,
  definition: ToolDefinition<Schema>,
): Tool {
  const { description, parameters, effect, category = "tools", execute } = definition ?? {};
  const where = `Tool.define("${truncateLine(String(id), 80)}")`;
  if (typeof id !== "string" || !TOOL_ID.test(id)) {
    throw new SkillError("tool-invalid", {
      message: `${where}: it is no name for a tool`,
      fix: "use up to 64 letters, digits, `-`, `_` and `.`, and begin with a letter or digit",
    });
  }
  if (typeof description !== "string" || description.trim() === "")
    throw createToolDefinitionError(where, "a `description`");
  if (typeof execute !== "function") throw createToolDefinitionError(where, "a function `execute`");
  if (effect !== undefined && !isEffect(effect)) {
    throw new SkillError("tool-invalid", {
      message: `${where}: its \`effect\` is none`,
      fix: 'say what a call changes: "workspace", "outside", { on: "outside", what: "…" }, or a function that gives such',
    });
  }
  const schema = resolveInputSchema(parameters, where);
  const read = async (input: unknown) => validateToolInput(parameters, input ?? {});
  return {
    name: id,
    description,
    category,
    inputSchema: schema,
    ...(effect === undefined ? {} : { effect: createEffectResolver(effect, read) }),
    async execute(input, options = {}) {
      try {
        const given = await read(input);
        if ("problem" in given) return { content: given.problem, isError: true, code: "input-invalid" };
        return await toToolResult(await execute(given.value as ToolArguments<Schema>, createToolContext(options)), id);
      } catch (error) {
        return { content: `It failed: ${getErrorMessage(error)}`, isError: true, code: "failed" };
      }
    },
  };
}

function resolveInputSchema(parameters: StandardSchema | JsonObject, where: string): JsonObject {
  const isSchema = parameters !== null && (typeof parameters === "object" || typeof parameters === "function");
  if (!isSchema) throw createToolDefinitionError(where, "`parameters`: a schema of zod, or JSON Schema");
  const standard = (parameters as Partial<StandardSchema>)["~standard"];
  let schema: unknown = parameters;
  if (standard) {
    if (!standard.jsonSchema) {
      throw new SkillError("tool-invalid", {
        message: `${where}: its \`parameters\` (${truncateLine(standard.vendor, 40)}) cannot say themselves as JSON Schema`,
        fix: "use zod 4.2 or newer, or give JSON Schema",
      });
    }
    try {
      const { $schema: _, ...rest } = standard.jsonSchema.input({ target: "draft-2020-12" });
      schema = rest;
    } catch (error) {
      throw new SkillError("tool-invalid", {
        message: `${where}: its \`parameters\` cannot be said as JSON Schema: ${getErrorMessage(error)}`,
        fix: "leave out what JSON has not: dates, maps, functions",
        cause: error,
      });
    }
  }
  if (isJsonObject(schema) && schema["type"] === "object") return schema;
  throw new SkillError("tool-invalid", {
    message: `${where}: its \`parameters\` are no object`,
    fix: "wrap them: z.object({ … })",
  });
}

async function validateToolInput(
  parameters: StandardSchema | JsonObject,
  input: unknown,
): Promise<{ value: unknown } | { problem: string }> {
  const standard = (parameters as Partial<StandardSchema>)["~standard"];
  if (!standard) return { value: input }; // Whoever calls holds it to the JSON Schema.
  const { value, issues } = await standard.validate(input);
  if (!issues) return { value };
  return { problem: `Invalid input: ${issues.slice(0, 10).map(formatSchemaIssue).join("; ")}` };
}

function formatSchemaIssue({ message, path = [] }: SchemaIssue): string {
  const place = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return truncateLine(place === "" ? message : `"${place}": ${message}`, 200);
}

function createEffectResolver<Schema extends StandardSchema | JsonObject>(
  effect: NonNullable<ToolDefinition<Schema>["effect"]>,
  read: (input: unknown) => Promise<{ value: unknown } | { problem: string }>,
): NonNullable<Tool["effect"]> {
  if (typeof effect === "string") return () => ({ on: effect });
  if (typeof effect === "object") return () => effect;
  return async (input) => {
    try {
      const given = await read(input);
      return "problem" in given ? undefined : await effect(given.value as ToolArguments<Schema>);
    } catch {
      return { on: "outside" }; // Whoever does not know what a call changes is to ask.
    }
  };
}

function isEffect(effect: unknown): boolean {
  const on = typeof effect === "string" ? effect : (Object(effect) as Partial<ToolEffect>).on;
  return typeof effect === "function" || on === "workspace" || on === "outside";
}

const MISSING_SANDBOX: ToolSandbox = {
  run: async () => {
    throw new SkillError("sandbox-missing", {
      message: "There is no sandbox here to start a program in",
      fix: "call the tool from a run of a skill",
    });
  },
};

function createToolContext({ signal, onProgress, sandbox, env, skill, run, key }: CallOptions): ToolContext {
  return {
    ...(skill === undefined ? {} : { skill }),
    ...(run === undefined ? {} : { run }),
    ...(key === undefined ? {} : { key }),
    signal: signal ?? new AbortController().signal,
    env: env ?? {},
    progress: (text) => onProgress?.(String(text)),
    sandbox: sandbox ?? MISSING_SANDBOX,
  };
}

async function toToolResult(given: unknown, id: string): Promise<ToolResult> {
  if (typeof given === "string") return { content: given, isError: false };
  const parts = Object(given) as { output?: unknown; title?: unknown; metadata?: unknown; isError?: unknown };
  const { output, title, metadata } = hasValue(given) ? await formatValueOutput(given) : parts;
  if (typeof output !== "string") {
    const content = `Tool '${id}' gave no text: it must give a text, { title, metadata, output }, or { message, value }`;
    return { content, isError: true, code: "failed" };
  }
  return {
    content: output,
    isError: parts.isError === true,
    ...(parts.isError === true ? { code: "failed" } : {}),
    ...(typeof title === "string" ? { title } : {}),
    ...(isJsonObject(metadata) ? { metadata } : {}),
  };
}

/** An error has a message too, and is none: what says nothing of a value was not meant so. */
function hasValue(given: unknown): given is { message: string; value: unknown } {
  const { message, output } = Object(given);
  return typeof output !== "string" && typeof message === "string" && "value" in Object(given);
}

/** A model reads the value as it renders itself, and the message where there is no value; programs have the value as data. */
async function formatValueOutput({ message, value }: { message: string; value: unknown }): Promise<{
  output: string;
  title: string;
  metadata?: JsonObject;
}> {
  const data = toJsonValue(value);
  return {
    output: await renderValue(value, message),
    title: message,
    ...(isJsonObject(data) ? { metadata: data } : {}),
  };
}

/** Nothing for what JSON has not: the call was made all the same, and a model may read what it renders. */
function toJsonValue(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value ?? null));
  } catch {
    return undefined;
  }
}

async function renderValue(value: unknown, message: string): Promise<string> {
  if (value === undefined || value === null) return message;
  if (typeof value === "string") return value;
  const { render } = Object(value) as { render?: unknown };
  return typeof render === "function" ? String(await render.call(value)) : JSON.stringify(value);
}

function createToolDefinitionError(where: string, what: string): SkillError {
  return new SkillError("tool-invalid", {
    message: `${where} lacks ${what}`,
    fix: "as in Tool.define('count', { description: '…', parameters: z.object({ … }), execute: async (args) => '…' })",
  });
}

/** What is said in a schema for whoever reads it, and means nothing to who checks by it. */
const TEXT_KEYS = new Set(["description", "title", "$comment"]);
const MAX_TEXT_LENGTH = 1024;

/** A schema as a model may read it: nothing in it is hidden. Nothing, when something is in what is checked by: that cannot be spelled. */
export function sanitizeSchema(schema: JsonObject): JsonObject | undefined {
  const read = sanitizeSchemaValue(schema);
  return isJsonObject(read) ? read : undefined;
}

function sanitizeSchemaValue(value: unknown): unknown {
  if (typeof value === "string") return hasHiddenCharacters(value) ? undefined : value;
  if (Array.isArray(value)) {
    const items = value.map(sanitizeSchemaValue);
    return items.includes(undefined) ? undefined : items;
  }
  if (!isJsonObject(value)) return value;
  const entries: [string, unknown][] = [];
  for (const [key, item] of Object.entries(value)) {
    const isWords = TEXT_KEYS.has(key) && typeof item === "string";
    const read = isWords ? sanitizeLine(item, MAX_TEXT_LENGTH) : sanitizeSchemaValue(item);
    if (hasHiddenCharacters(key) || (read === undefined && item !== undefined)) return undefined;
    entries.push([key, read]);
  }
  return Object.fromEntries(entries);
}

function hasHiddenCharacters(text: string): boolean {
  return escapeInvisible(text).count > 0;
}
