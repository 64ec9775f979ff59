import type {
  InputRequiredResult,
  McpServer,
  RegisteredTool,
  ServerContext,
  StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";
import { inLine } from "../shared/prompt.ts";
import type { Data } from "../skill/data.ts";
import type { Tool } from "../skill/tool.ts";
import { wireNames } from "../skill/wire-name.ts";
import { type Envelope, type ListedTool, listedTool } from "./transform.ts";

/** Calls a tool of the session by its own name. */
export type Call = (tool: string, input: unknown, context: ServerContext) => Promise<Envelope | InputRequiredResult>;

export interface Mounting {
  /** Lists what the loaded skills bring, of what a session offers now, and nothing else of theirs. The client is told where that changed. Contract: whether tools came that nothing else calls. */
  sync(offered: readonly Tool[]): boolean;
}

interface Mounted {
  id: string;
  registered: RegisteredTool;
  /** What was said of it. */
  said: string;
}

export interface MountingOptions {
  /** The server's own tools, by name. */
  own: ReadonlyMap<string, unknown>;
  call: Call;
  onNotice?(text: string): void;
}

/** Keeps the tools that loaded skills bring on the server's list. */
export function openMounting(mcp: McpServer, { own, call, onNotice }: MountingOptions): Mounting {
  const mounted = new Map<string, Mounted>();
  /** Names that tools of somebody else's have on this server. */
  const taken = new Set<string>();
  return {
    sync(offered) {
      const tools = offered.filter(({ owner }) => owner !== undefined);
      const { toWire } = wireNames([...own.keys(), ...tools.map(({ name }) => name)]);
      const wanted = new Map(tools.map((tool) => [toWire(tool.name), tool]));
      for (const [wire, { registered, id, said }] of mounted) {
        const tool = wanted.get(wire);
        if (tool?.name === id && JSON.stringify(listedTool(tool)) === said) continue;
        registered.remove();
        mounted.delete(wire);
      }
      for (const wire of taken) if (!wanted.has(wire)) taken.delete(wire);
      const missing = [...wanted].filter(([wire]) => !mounted.has(wire) && !taken.has(wire));
      const fresh = missing.filter(([wire, tool]) => mount(wire, tool));
      return fresh.some(([, { starts }]) => starts !== "use"); // `use_skill` is the same as a skill's `run`.
    },
  };

  function mount(wire: string, tool: Tool): boolean {
    const listed = listedTool(tool);
    try {
      const registered = register(mcp, wire, listed, (input, context) => call(tool.name, input, context));
      mounted.set(wire, { id: tool.name, registered, said: JSON.stringify(listed) });
      return true;
    } catch {
      taken.add(wire);
      onNotice?.(
        `${inLine(tool.name, 128)} is not listed, since the server has another ${wire}: call_skill_tool calls it`,
      );
      return false;
    }
  }
}

/** `onListed` hears that the list was made. Contract: throws when the server has a tool of this name. */
export function register(
  mcp: McpServer,
  name: string,
  { inputSchema, outputSchema, ...listed }: ListedTool & { outputSchema?: Data },
  run: (input: unknown, context: ServerContext) => ReturnType<Call>,
  onListed?: () => void,
): RegisteredTool {
  const output = outputSchema ? { outputSchema: asGiven(outputSchema) } : {};
  return mcp.registerTool(name, { ...listed, inputSchema: asGiven(inputSchema, onListed), ...output }, run as never);
}

/** A schema that is only shown: the session itself takes other spellings too, and answers wrong input so that a model can mend it. */
function asGiven(schema: Data, onShown?: () => void): StandardSchemaWithJSON {
  const shown = () => {
    onShown?.();
    return schema;
  };
  const props = { version: 1, vendor: "skillet", validate: (value: unknown) => ({ value }) } as const;
  return { "~standard": { ...props, jsonSchema: { input: shown, output: shown } } };
}
