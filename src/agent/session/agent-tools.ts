import type { Catalog } from "../../catalog/catalog.ts";
import { type CallOptions, createTool, type Tool, type ToolResult } from "../../skill/tool.ts";
import { createWireNames } from "../../skill/tool-names.ts";
import type { Session } from "./session.ts";

/** A tool of a session in the shape that agent frameworks expect: a name that every provider accepts, a JSON Schema, and a text result. */
export interface AgentTool {
  name: string;
  description: string;
  inputSchema: Tool["inputSchema"];
  /** Returns the text for the model. Contract: resolves even when the call failed or was refused. */
  execute(input: unknown, options?: { signal?: AbortSignal }): Promise<string>;
}

/** A session tool offered to frameworks, with the function that calls it. */
export interface SessionToolOffer extends Pick<Tool, "description" | "category" | "inputSchema"> {
  name: string;
  call(input: unknown, options: CallOptions): Promise<ToolResult>;
}

/**
 * Creates the tools of a session for an agent framework. The list does not change later; `call_skill_tool` calls tools of skills that are
 * loaded afterwards.
 */
export function createAgentTools(session: Session): AgentTool[] {
  return listOfferedTools(session).map(({ name, description, inputSchema, call }) => ({
    name,
    description,
    inputSchema,
    async execute(input, options) {
      // Frameworks pass their own context here.
      const signal = options?.signal;
      return (await call(input, signal instanceof AbortSignal ? { signal } : {})).text;
    },
  }));
}

/** Lists the tools of a session with names that providers accept. */
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

/** Creates the tool that calls the tools of skills loaded later: frameworks do not change the tool list during a request. */
function createCallTool(session: Session): SessionToolOffer {
  const { name, description, category, inputSchema, execute } = createTool(
    {
      name: "call_skill_tool",
      description: "Calls a tool of a loaded skill that is not in your list of tools. load_skill names these tools.",
      category: "skills",
      parameters: {
        tool: { type: "string", description: "the tool's name, as shown by load_skill", isRequired: true },
        input: { type: "object", description: "the tool's input" },
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

/** Cached: with ten thousand skills the check takes time. */
const TOOLSET_CATALOGS = new WeakMap<Catalog, boolean>();
