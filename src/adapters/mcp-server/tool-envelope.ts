import type { Tool, ToolResult } from "../../skill/tool.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

/** Hints for a client about a tool. */
export interface ToolHints {
  /** It changes nothing. */
  readOnlyHint: boolean;
  /** Its changes may destroy data. */
  destructiveHint: boolean;
  /** A repeated call with the same input changes nothing more. */
  idempotentHint: boolean;
  /** It reaches external systems. */
  openWorldHint: boolean;
}

export const READ_HINTS: ToolHints = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};
/** A program in a sandbox: it leaves nothing behind, but may return different results. */
export const RUN_HINTS: ToolHints = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
};
export const CHANGE_HINTS: ToolHints = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** The category of a tool, for clients that group tools. */
export const CATEGORY_KEY = "skillet/category";

/** A tool as a client lists it, except for its name, which depends on the other tools. */
export interface McpToolListing {
  title: string;
  description: string;
  inputSchema: JsonObject;
  annotations: ToolHints;
  _meta: Record<string, unknown>;
}

/** Creates the listing of a skill's tool. */
export function createToolListing(tool: Tool): McpToolListing {
  return {
    title: sanitizeLine(tool.owner ? `${tool.owner.name}: ${getShortToolName(tool)}` : tool.name, 128),
    description: tool.description,
    inputSchema: normalizeSchema(tool.inputSchema),
    annotations: getToolHints(tool),
    _meta: createToolMeta(tool),
  };
}

/** Returns the hints. A tool that starts nothing and has no effect is read-only. */
function getToolHints({ starts, effect }: Tool): ToolHints {
  if (starts !== undefined) return starts === "use" ? CHANGE_HINTS : RUN_HINTS;
  return effect ? CHANGE_HINTS : READ_HINTS;
}

/** Creates the metadata of a tool for the client. Claude shows other tools by name only, until its model searches for them. */
export function createToolMeta({
  category,
  owner,
  isAtHand,
}: Pick<Tool, "category" | "owner"> & { isAtHand?: true | undefined }): Record<string, unknown> {
  return {
    [CATEGORY_KEY]: category,
    ...(owner ? { "skillet/skill": owner.name } : {}),
    ...(isAtHand ? { "anthropic/alwaysLoad": true } : {}),
  };
}

/** Returns `run` for a skill's `skill.run`. */
function getShortToolName({ name, owner }: Tool): string {
  return owner && name.startsWith(`${owner.name}.`) ? name.slice(owner.name.length + 1) : name;
}

/** Normalizes a schema to an object at the top level, as every client requires. It accepts the same objects. */
export function normalizeSchema(schema: JsonObject): JsonObject {
  const { $schema: _, $id: _id, type: _type, properties, ...rest } = schema;
  return { type: "object", ...(isJsonObject(properties) ? { properties } : { properties: {} }), ...rest };
}

/** The result of a call for a client. */
export interface ResultEnvelope {
  content: { type: "text"; text: string }[];
  isError?: true;
  structuredContent?: Record<string, unknown>;
  _meta?: Record<string, unknown>;
}

/** Creates the result. A tool with an output schema also returns its data. An error has only text. */
export function createResultEnvelope(
  result: ToolResult,
  { isStructured = false }: { isStructured?: boolean } = {},
): ResultEnvelope {
  const { text, isError, code } = result;
  const data = isStructured && !isError ? result.data : undefined;
  const meta = createResultMeta(result);
  const followed = formatRunNote(result);
  return {
    content: [{ type: "text", text: followed === undefined ? text : `${text}\n${followed}` }],
    ...(isError ? { isError } : {}),
    ...(data ? { structuredContent: data } : {}),
    ...(code !== undefined || meta
      ? { _meta: { ...meta, ...(code === undefined ? {} : { "skillet/code": code }) } }
      : {}),
  };
}

/** Creates metadata about a sub-agent's run, for observers. */
function createResultMeta({ iterations, usage, cost, data }: ToolResult): Record<string, unknown> | undefined {
  if (iterations === undefined) return undefined;
  return {
    "skillet/use": { ...data, iterations, ...(usage ? { usage } : {}), ...(cost === undefined ? {} : { cost }) },
  };
}

/** Formats a note about who did the work: an agent should know its source, and how to resume a run that waits. */
function formatRunNote({ iterations, data, code, isError }: ToolResult): string | undefined {
  const run = data?.["run"];
  if (code === "waiting" && typeof run === "string") {
    return `[Stored as run ${run}. Tell the user: \`skillet runs show ${run}\` shows what it would do; \`skillet approve ${run} --resume\` in their terminal approves and resumes it]`;
  }
  const model = data?.["model"];
  if (iterations === undefined || typeof model !== "string") return undefined;
  if (model === "runbook" && isError) {
    return "[No language model followed it: load it with load_skill, and follow it yourself]";
  }
  if (model === "runbook") {
    return "[Followed by runbook, which is not a language model: it ran the commands in the skill's instructions without judgment]";
  }
  return `[Followed by the model ${sanitizeLine(model, 128)}, asked ${iterations === 1 ? "once" : `${iterations} times`}]`;
}
