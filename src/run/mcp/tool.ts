import type { CallToolResult, Progress } from "@modelcontextprotocol/client";
import type { McpSettings } from "../../host/settings.ts";
import { inLine } from "../../shared/prompt.ts";
import { isData } from "../../skill/data.ts";
import { plainSchema } from "../../skill/plain-schema.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { wireName } from "../../skill/wire-name.ts";

/** A tool as a server says it, as far as it can be one. */
export interface ListedTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema: { type: "object"; [keyword: string]: unknown };
  annotations: { title?: unknown; readOnlyHint?: unknown; destructiveHint?: unknown };
}

type Call = (tool: ListedTool, input: unknown, options?: CallOptions) => Promise<ToolResult>;

const LONGEST_DESCRIPTION = 2048;

/** What a server lists, read as one: nothing where it can be none. */
export function readTool(listed: unknown): ListedTool[] {
  const { name, title, description, inputSchema, annotations } = Object(listed) as Record<string, unknown>;
  if (typeof name !== "string" || name === "" || !isData(inputSchema)) return [];
  return [
    {
      name,
      ...(typeof title === "string" ? { title } : {}),
      ...(typeof description === "string" ? { description } : {}),
      inputSchema: { ...inputSchema, type: "object" },
      annotations: isData(annotations) ? annotations : {},
    },
  ];
}

/** A tool of a server as it is called here: `server.tool`. What it gives is raw: whoever offers it holds it to bounds. */
export function asTool(server: string, listed: ListedTool, settings: McpSettings, call: Call): Tool {
  const { name, title, description, annotations } = listed;
  const what = inLine(String(title ?? annotations.title ?? name), 120);
  const isFree = annotations.readOnlyHint === true || settings.withoutAsking?.some((entry) => isNamed(listed, entry));
  const isReversible = annotations.destructiveHint === false;
  return {
    name: `${server}.${partOf(name)}`,
    description: inLine(description ?? "", LONGEST_DESCRIPTION) || what,
    category: "mcp",
    inputSchema: plainSchema(listed.inputSchema) ?? { type: "object" },
    ...(isFree ? {} : { effect: () => ({ on: "outside", what, where: server, isReversible }) }),
    execute: (input, options) => call(listed, input, options),
  };
}

/** Whether an entry of the configuration means this tool. */
export function isNamed({ name }: Pick<ListedTool, "name">, entry: string): boolean {
  return entry === name || entry === partOf(name);
}

/** What stands behind the dot. A name that nobody could write into a list has a hash in it. */
function partOf(name: string): string {
  return /^[\w./-]{1,128}$/.test(name) ? name : wireName(name);
}

export function resultOf({ content = [], structuredContent, isError }: CallToolResult): ToolResult {
  const parts = content.map(partText).filter((part) => part !== "");
  if (structuredContent !== undefined && !content.some(({ type }) => type === "text"))
    parts.push(JSON.stringify(structuredContent));
  return {
    content: parts.join("\n") || "It gave nothing.",
    isError: isError === true,
    ...(isError === true ? { code: "failed" } : {}),
  };
}

function partText(part: CallToolResult["content"][number]): string {
  if (part.type === "text") return part.text;
  if (part.type === "image" || part.type === "audio")
    return `[${part.type}, ${inLine(part.mimeType, 64)}, ${Math.ceil(part.data.length * 0.75)} bytes; not shown]`;
  if (part.type === "resource_link") return `[resource ${inLine(part.name, 120)}: ${inLine(part.uri, 300)}]`;
  const { uri, mimeType = "of no type" } = part.resource;
  const line = `[resource ${inLine(uri, 300)}, ${inLine(mimeType, 64)}]`;
  return "text" in part.resource ? `${line}\n${part.resource.text}` : line;
}

export function sayProgress({ progress, total, message }: Progress, hide: (text: string) => string): string {
  if (message !== undefined && message !== "") return inLine(hide(message), 2000); // Whoever shows it shows less.
  return total === undefined ? String(progress) : `${progress} of ${total}`;
}
