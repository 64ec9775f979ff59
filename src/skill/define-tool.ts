import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { escapeInvisible, sanitizeLine } from "../util/untrusted-text.ts";
import type { CallOptions, Tool, ToolEffect, ToolOwner, ToolResult, ToolSandbox } from "./tool.ts";

/** A schema of zod, or of any other library that implements Standard Schema and converts to JSON Schema. */
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

/** The context of a tool call, in addition to its arguments. */
export interface ToolContext {
  /** The skill that provides the tool, or the active one; absent in an embedder's own agent. */
  skill?: ToolOwner;
  run?: string;
  /** The same for a repeated call, even after a crash. Pass it on as an idempotency key. */
  key?: string;
  signal: AbortSignal;
  /** Values of the variables that the skill declares; empty if it is only loaded. Never the host's environment. */
  env: Readonly<Record<string, string>>;
  /** Reports progress to the caller. */
  progress(text: string): void;
  sandbox: ToolSandbox;
}

/**
 * The output of a tool: a text for the model, optionally with a title for people and data for programs; or a message and a value.
 * The model reads the value as its `render` method formats it.
 */
export type ToolOutput =
  | string
  | { output: string; title?: string; metadata?: JsonObject; isError?: boolean }
  // biome-ignore lint/suspicious/noExplicitAny: with unknown, `this` in a literal's render() would have no properties
  | { message: string; value: any; isError?: boolean };

export interface ToolDefinition<Schema extends StandardSchema | JsonObject> {
  description: string;
  /** A zod schema, or JSON Schema. */
  parameters: Schema;
  /** The effect of a call, which then needs approval. Absent for a tool that only reads. */
  effect?:
    | ToolEffect["on"]
    | ToolEffect
    | ((args: ToolArguments<Schema>) => ToolEffect | undefined | Promise<ToolEffect | undefined>);
  /** True if a call changes nothing. Such calls of one model turn are made at the same time. Defaults to false. */
  isReadOnly?: boolean;
  category?: string;
  execute(args: ToolArguments<Schema>, context: ToolContext): ToolOutput | Promise<ToolOutput>;
}

/** The format of a tool's name. */
export const TOOL_ID: RegExp = /^[A-Za-z0-9](?:[\w.-]{0,62}[\w-])?$/;

export function defineTool<Schema extends StandardSchema | JsonObject>(
  id: string,
  definition: ToolDefinition<Schema>,
): Tool {
  const { description, parameters, effect, isReadOnly, category = "tools", execute } = definition ?? {};
  const where = `Tool.define("${truncateLine(String(id), 80)}")`;
  if (typeof id !== "string" || !TOOL_ID.test(id)) {
    throw new SkillError("tool-invalid", {
      message: `${where}: the name is not valid for a tool`,
      fix: "use up to 64 letters, digits, `-`, `_` and `.`, and begin with a letter or digit",
    });
  }
  if (typeof description !== "string" || description.trim() === "")
    throw createToolDefinitionError(where, "a `description`");
  if (typeof execute !== "function") throw createToolDefinitionError(where, "a function `execute`");
  if (effect !== undefined && !isEffect(effect)) {
    throw new SkillError("tool-invalid", {
      message: `${where}: the \`effect\` is invalid`,
      fix: 'use "workspace", "outside", { on: "outside", what: "…" }, or a function that returns one of them',
    });
  }
  if (isReadOnly && effect !== undefined) {
    throw new SkillError("tool-invalid", {
      message: `${where}: a tool with an \`effect\` is not read-only`,
      fix: "remove `effect` or `isReadOnly`",
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
    ...(isReadOnly === true ? { isReadOnly } : {}),
    async execute(input, options = {}) {
      try {
        const parsed = await read(input);
        if ("problem" in parsed) return { text: parsed.problem, isError: true, code: "input-invalid" };
        return await toToolResult(await execute(parsed.value as ToolArguments<Schema>, createToolContext(options)), id);
      } catch (error) {
        return { text: `It failed: ${getErrorMessage(error)}`, isError: true, code: "failed" };
      }
    },
  };
}

function resolveInputSchema(parameters: StandardSchema | JsonObject, where: string): JsonObject {
  const isSchema = parameters !== null && (typeof parameters === "object" || typeof parameters === "function");
  if (!isSchema) throw createToolDefinitionError(where, "`parameters`: a zod schema, or JSON Schema");
  const standard = (parameters as Partial<StandardSchema>)["~standard"];
  let schema: unknown = parameters;
  if (standard) {
    if (!standard.jsonSchema) {
      throw new SkillError("tool-invalid", {
        message: `${where}: its \`parameters\` (${truncateLine(standard.vendor, 40)}) cannot be converted to JSON Schema`,
        fix: "use zod 4.2 or newer, or pass JSON Schema",
      });
    }
    try {
      const { $schema: _, ...rest } = standard.jsonSchema.input({ target: "draft-2020-12" });
      schema = rest;
    } catch (error) {
      throw new SkillError("tool-invalid", {
        message: `${where}: its \`parameters\` cannot be converted to JSON Schema: ${getErrorMessage(error)}`,
        fix: "remove types without a JSON form: dates, maps, functions",
        cause: error,
      });
    }
  }
  if (isJsonObject(schema) && schema["type"] === "object") return schema;
  throw new SkillError("tool-invalid", {
    message: `${where}: its \`parameters\` are not an object schema`,
    fix: "wrap them: z.object({ … })",
  });
}

async function validateToolInput(
  parameters: StandardSchema | JsonObject,
  input: unknown,
): Promise<{ value: unknown } | { problem: string }> {
  const standard = (parameters as Partial<StandardSchema>)["~standard"];
  if (!standard) return { value: input }; // The caller validates it against the JSON Schema.
  const { value, issues } = await standard.validate(input);
  if (!issues) return { value };
  return { problem: `Invalid input: ${issues.slice(0, 10).map(formatSchemaIssue).join("; ")}` };
}

function formatSchemaIssue({ message, path = [] }: SchemaIssue): string {
  const location = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return truncateLine(location === "" ? message : `"${location}": ${message}`, 200);
}

function createEffectResolver<Schema extends StandardSchema | JsonObject>(
  effect: NonNullable<ToolDefinition<Schema>["effect"]>,
  read: (input: unknown) => Promise<{ value: unknown } | { problem: string }>,
): NonNullable<Tool["effect"]> {
  if (typeof effect === "string") return () => ({ on: effect });
  if (typeof effect === "object") return () => effect;
  return async (input) => {
    try {
      const parsed = await read(input);
      return "problem" in parsed ? undefined : await effect(parsed.value as ToolArguments<Schema>);
    } catch {
      return { on: "outside" }; // An unknown effect needs approval.
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
      message: "No sandbox is available to start a program",
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

async function toToolResult(returned: unknown, id: string): Promise<ToolResult> {
  if (typeof returned === "string") return { text: returned, isError: false };
  const parts = Object(returned) as { output?: unknown; title?: unknown; metadata?: unknown; isError?: unknown };
  const { output, title, metadata } = hasValue(returned) ? await formatValueOutput(returned) : parts;
  if (typeof output !== "string") {
    const content = `Tool '${id}' returned no text: it must return a text, { title, metadata, output }, or { message, value }`;
    return { text: content, isError: true, code: "failed" };
  }
  return {
    text: output,
    isError: parts.isError === true,
    ...(parts.isError === true ? { code: "failed" } : {}),
    ...(typeof title === "string" ? { title } : {}),
    ...(isJsonObject(metadata) ? { data: metadata } : {}),
  };
}

/** Returns true for a message with a value. An error object has a message too, but no value. */
function hasValue(returned: unknown): returned is { message: string; value: unknown } {
  const { message, output } = Object(returned);
  return typeof output !== "string" && typeof message === "string" && "value" in Object(returned);
}

/**
 * Formats a value for the model with its `render` method, or returns the message if there is no value. Programs get the value as
 * data.
 */
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

/** Returns undefined for values without a JSON form: the call succeeded, and the model may still read the rendered text. */
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
    message: `${where} needs ${what}`,
    fix: "write it like Tool.define('count', { description: '…', parameters: z.object({ … }), execute: async (args) => '…' })",
  });
}

/** Keywords of a schema that are documentation and do not affect validation. */
const TEXT_KEYS = new Set(["description", "title", "$comment"]);
const MAX_TEXT_LENGTH = 1024;

/**
 * Returns a schema without hidden characters, for a model. Returns undefined if a keyword that affects validation contains one.
 */
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
