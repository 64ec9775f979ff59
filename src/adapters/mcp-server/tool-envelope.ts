import type { Tool, ToolResult } from "../../skill/tool.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

/** What a client may think of a tool before it calls it. */
export interface ToolHints {
  /** It changes nothing. */
  readOnlyHint: boolean;
  /** What it changes may be lost. */
  destructiveHint: boolean;
  /** Called again with the same, it changes nothing more. */
  idempotentHint: boolean;
  /** It reaches what is not here. */
  openWorldHint: boolean;
}

export const READ_HINTS: ToolHints = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
};
/** A program in a sandbox: it leaves nothing behind, but is not the same twice. */
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

/** What a tool carries for clients that sort by it. */
export const CATEGORY_KEY = "skillet/category";

/** A tool as a client lists it, but for its name, which depends on the others. */
export interface McpToolListing {
  title: string;
  description: string;
  inputSchema: JsonObject;
  annotations: ToolHints;
  _meta: Record<string, unknown>;
}

/** A tool that a skill brings. */
export function createToolListing(tool: Tool): McpToolListing {
  return {
    title: sanitizeLine(tool.owner ? `${tool.owner.name}: ${getShortToolName(tool)}` : tool.name, 128),
    description: tool.description,
    inputSchema: normalizeSchema(tool.inputSchema),
    annotations: getToolHints(tool),
    _meta: createToolMeta(tool),
  };
}

/** One that starts nothing and has no effect only reads. */
function getToolHints({ starts, effect }: Tool): ToolHints {
  if (starts !== undefined) return starts === "use" ? CHANGE_HINTS : RUN_HINTS;
  return effect ? CHANGE_HINTS : READ_HINTS;
}

/** What a client is told of a tool that means nothing to a model. Claude shows others by name alone until its model looks for them. */
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

/** `run`, of a skill's `skill.run`. */
function getShortToolName({ name, owner }: Tool): string {
  return owner && name.startsWith(`${owner.name}.`) ? name.slice(owner.name.length + 1) : name;
}

/** The schema of an object, as every client wants it at the top; what it lets through of objects stays the same. */
export function normalizeSchema(schema: JsonObject): JsonObject {
  const { $schema: _, $id: _id, type: _type, properties, ...rest } = schema;
  return { type: "object", ...(isJsonObject(properties) ? { properties } : { properties: {} }), ...rest };
}

/** What a call came to, as a client reads it. */
export interface ResultEnvelope {
  content: { type: "text"; text: string }[];
  isError?: true;
  structuredContent?: Record<string, unknown>;
  _meta?: Record<string, unknown>;
}

/** `structured`: the same for programs, where the tool says what it looks like. Of what went wrong there is only the text. */
export function createResultEnvelope(
  result: ToolResult,
  structured?: (result: ToolResult) => JsonObject | undefined,
): ResultEnvelope {
  const { content, isError, code } = result;
  const data = isError ? undefined : structured?.(result);
  const meta = createResultMeta(result);
  const followed = formatRunNote(result);
  return {
    content: [{ type: "text", text: followed === undefined ? content : `${content}\n${followed}` }],
    ...(isError ? { isError } : {}),
    ...(data ? { structuredContent: data } : {}),
    ...(code !== undefined || meta
      ? { _meta: { ...meta, ...(code === undefined ? {} : { "skillet/code": code }) } }
      : {}),
  };
}

/** What of a use is worth knowing for whoever looks on. */
function createResultMeta({ iterations, usage, cost, metadata }: ToolResult): Record<string, unknown> | undefined {
  if (iterations === undefined) return undefined;
  return {
    "skillet/use": { ...metadata, iterations, ...(usage ? { usage } : {}), ...(cost === undefined ? {} : { cost }) },
  };
}

/** Who did the work of a use: an agent should know whom it quotes; and how one that waits is gone on with. */
function formatRunNote({ iterations, metadata, code, isError }: ToolResult): string | undefined {
  const run = metadata?.["run"];
  if (code === "waiting" && typeof run === "string") {
    return `[It is kept as run ${run}. Tell the user: \`skillet runs show ${run}\` says what it would do, \`skillet approve ${run} --resume\` at their terminal agrees to it and goes on]`;
  }
  const model = metadata?.["model"];
  if (iterations === undefined || typeof model !== "string") return undefined;
  if (model === "runbook" && isError) {
    return "[No language model followed it: load_skill it, and follow it yourself]";
  }
  if (model === "runbook") {
    return "[Followed by runbook, which is no language model: it did what the skill's instructions spell out, and judged nothing]";
  }
  return `[Followed by the model ${sanitizeLine(model, 128)}, asked ${iterations === 1 ? "once" : `${iterations} times`}]`;
}
