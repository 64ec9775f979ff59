import type { Catalog } from "../../catalog/catalog.ts";
import { type CallOptions, createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { createWireNames } from "../../skill/tool-names.ts";
import type { Session } from "./session.ts";

/** A tool of a session in the shape that agent frameworks take: a name that every provider accepts, a JSON Schema, and a text. */
export interface AgentTool {
  name: string;
  description: string;
  inputSchema: Tool["inputSchema"];
  /** Returns what the model is to read. Contract: resolves, also when the call failed or was refused. */
  execute(input: unknown, options?: { signal?: AbortSignal }): Promise<string>;
}

/** A tool that frameworks are offered, and how it is called. */
export interface SessionToolOffer extends Pick<Tool, "description" | "category" | "inputSchema"> {
  name: string;
  call(input: unknown, options: CallOptions): Promise<ToolResult>;
}

/**
 * Creates the tools of a session for an agent framework. The list is that of the moment; `call_skill_tool` reaches what skills provide
 * that are loaded later.
 */
export function createAgentTools(session: Session): AgentTool[] {
  return listOfferedTools(session).map(({ name, description, inputSchema, call }) => ({
    name,
    description,
    inputSchema,
    async execute(input, options) {
      // Frameworks pass their own context here.
      const signal = options?.signal;
      return (await call(input, signal instanceof AbortSignal ? { signal } : {})).content;
    },
  }));
}

/** The tools of a session with the names that providers take. */
export function listOfferedTools(session: Session): SessionToolOffer[] {
  const { tools } = session;
  const { toWire } = createWireNames(tools.map(({ name }) => name));
  const own = tools.map(
    ({ name, description, category, inputSchema }): SessionToolOffer => ({
      ...{ name: toWire(name), description, category, inputSchema },
      call: (input, options) => session.call(name, input, options),
    }),
  );
  return hasToolsets(session) ? [...own, createCallTool(session)] : own;
}

/** The tools of one call stay what they are, also when a skill is loaded while it goes on: this reaches what that brought. */
function createCallTool(session: Session): SessionToolOffer {
  const { name, description, category, inputSchema, execute } = createTool(
    {
      name: "call_skill_tool",
      description:
        "Calls a tool that a loaded skill brought and that is not among your tools: one of those that load_skill named.",
      category: "skills",
      parameters: {
        tool: { type: "string", says: "the tool's name, as load_skill gave it", isRequired: true },
        input: { type: "object", says: "the tool's input" },
      },
    },
    ({ tool, input = {} }, options) => session.call(tool, input, options),
  );
  return { name, description, category, inputSchema, call: execute };
}

function hasToolsets({ catalog }: Session): boolean {
  const known = TOOLSET_CATALOGS.get(catalog) ?? catalog.skills.some(({ manifest }) => manifest.toolsets.length > 0);
  TOOLSET_CATALOGS.set(catalog, known);
  return known;
}

/** Of ten thousand skills it takes a while to say. */
const TOOLSET_CATALOGS = new WeakMap<Catalog, boolean>();
