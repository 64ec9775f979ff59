import type {
  InputRequiredResult,
  McpServer,
  RegisteredTool,
  ServerContext,
  StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";
import { createRefusalResult } from "../../agent/run/run-result.ts";
import type { Session, SessionCallOptions } from "../../agent/session/session.ts";
import { type McpTextLimits, UNKNOWN_CLIENT_LIMITS } from "../../catalog/client-listings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { createWireNames } from "../../skill/tool-names.ts";
import type { ServerScope } from "../../store/server-tokens.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { createElicitations, type Elicitations, type ServedCallContext } from "./elicitation.ts";
import { listPublishedNames } from "./published-skill.ts";
import {
  type AdmitCall,
  addListNote,
  type ClientToolOptions,
  createClientTools,
  findScopeProblem,
  getToolScope,
  omitSchemaProperty,
  SERVER_TOOLS,
  type ServerToolRow,
} from "./server-tools.ts";
import { getListingRoom } from "./skill-prompts.ts";
import {
  createResultEnvelope,
  createToolListing,
  createToolMeta,
  type McpToolListing,
  normalizeSchema,
  type ResultEnvelope,
} from "./tool-envelope.ts";

export interface MountOptions {
  /** Adds the tools that check skills while they are written. */
  authoring?: boolean;
  /** Called with notices for the operator, for example about a tool whose name is taken. */
  onNotice?(text: string): void;
}

/** Skills on a server. */
export interface SkillMount {
  /** Removes the tools of the session and of its skills from the server, and stops following the session. */
  unmount(): void;
}

/**
 * Adds the tools of a session to your server, connected or not: `list_skills`, `load_skill` and so on, and those of each skill while it is
 * loaded, by a client or by the program. Throws a SkillError for a connected server without tools.
 */
export function mountSkills(mcp: McpServer, session: Session, options: MountOptions = {}): SkillMount {
  if (mcp.isConnected() && mcp.server.getCapabilities().tools === undefined) {
    throw new SkillError("server-connected", {
      message: "The server is connected and declares no tools, so none can be added",
      fix: "call mountSkills before connect, or create it with capabilities: { tools: { listChanged: true } }",
    });
  }
  const asking = createElicitations();
  const tools = mountTools(mcp, session, {
    ...options,
    asking,
    isWithoutHooks: true,
    clientName: () => mcp.server.getClientVersion()?.name,
  });
  onConnectionClosed(mcp, () => asking.close());
  return {
    unmount() {
      tools.unmount();
      asking.close();
    },
  };
}

/** Calls `close` when a connection of the server ends: the server's own `onclose` belongs to the program. */
export function onConnectionClosed(mcp: McpServer, close: () => void): void {
  const follow = (transport: Parameters<McpServer["connect"]>[0]) => {
    const { onclose } = transport;
    transport.onclose = () => {
      onclose?.();
      close();
    };
  };
  if (mcp.server.transport) follow(mcp.server.transport);
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    follow(transport);
    return connect(transport);
  };
}

/** Tools of a session on a server. */
interface ToolMount {
  /** The session's own tools that the server has, by name. */
  registered: ReadonlyMap<string, RegisteredTool>;
  /** Registers the available tools, and removes all others. */
  sync(): void;
  /** Resolves when no call is in progress or waiting for approval. */
  settled(): Promise<void>;
  unmount(): void;
}

interface ToolMountOptions extends MountOptions, ClientToolOptions {
  asking: Elicitations;
  /** Returns an additional note for the model about the list of skills. */
  note?(): string | undefined;
  /** Omits the tool for prompt hooks. */
  isWithoutHooks?: boolean;
}

/** Registers the tools of a session on a server: its own, and those of the loaded skills. */
export function mountTools(mcp: McpServer, session: Session, options: ToolMountOptions): ToolMount {
  const { asking, note = () => undefined, clientName = () => undefined, onNotice } = options;
  const clients = createClientTools(session, options);
  const listening = new Set<() => void>();
  const registered = new Map<string, RegisteredTool>();
  /** Names taken by the program's own tools. */
  const taken = new Set<string>();
  /** True if tools were added since the last response. */
  let hasNewTools = false;
  let isMounted = true;
  let awaited: Promise<void> | undefined;
  const execute = async (name: string, input: unknown, callOptions: SessionCallOptions): Promise<ResultEnvelope> => {
    const needed = getToolScope(
      name,
      session.tools.find((tool) => tool.name === name),
    );
    const unscoped = findScopeProblem(options.scopes, needed, name);
    if (unscoped) return createResultEnvelope(createRefusalResult([unscoped]));
    const own = clients.find((tool) => tool.name === name && !session.isDisabled(name));
    const row = Object.hasOwn(SERVER_TOOLS, name) ? SERVER_TOOLS[name] : undefined;
    const resolved = row ? resolvePublishedName(input, session) : input;
    const work = () =>
      own
        ? own.execute(resolved, callOptions)
        : session.call(name, name === "load_skill" ? { ...Object(resolved), again: true } : resolved, callOptions);
    const { admit } = options;
    const result = admit && GATED_SCOPES.has(needed) ? await callAdmitted(admit, callOptions, work) : await work();
    sync();
    // Clients fetch the list again after a change, and pass their current list to the model when the response arrives.
    const isHeard =
      hasNewTools && mcp.isConnected() && !options.isStateless && refreshesTools(getListingRoom(clientName()));
    hasNewTools = false;
    if (isHeard) await waitForListRequest(listening, callOptions.signal);
    const { output } = row ?? {};
    if (output)
      return createResultEnvelope(output.ifEmpty === undefined ? result : addListNote(result, output.ifEmpty, note()), {
        isStructured: true,
      });
    const room = { ...getListingRoom(clientName()), ...(options.isStateless ? { offersNewTools: false } : {}) };
    const hint =
      LOADING_TOOLS.includes(name) && !result.isError && result.code === undefined
        ? formatToolHints(session, room)
        : [];
    const content = [result.text, ...hint, ...session.takeToolUpdates()].join("\n");
    return createResultEnvelope({ ...result, text: content });
  };
  const underWay = new Set<Promise<unknown>>();
  const call: CallSessionTool = (name, input, context) =>
    asking.call(mcp, context, name, ({ getWaitingRequest: waiting, ...asked }) => {
      const work = execute(name, input, { ...asked, onProgress: createProgressSender(waiting) });
      underWay.add(work);
      return work.finally(() => underWay.delete(work));
    });
  const mounting = createSkillToolRegistry(mcp, { own: registered, call, ...omitUndefined({ onNotice }) });
  const onListed = () => {
    for (const done of listening) done();
  };
  const isOffered = (name: string) => !(options.isWithoutHooks && SERVER_TOOLS[name]?.isForHooks);
  const sync = () => {
    if (!isMounted) return;
    const offered = session.tools;
    const isAllowed = (tool: Tool) => options.scopes?.has(getToolScope(tool.name, tool)) !== false;
    const tools = listOwnTools(session, [...offered, ...clients], options).filter(
      (tool) => isOffered(tool.name) && isAllowed(tool),
    );
    for (const [name, tool] of registered) {
      if (tools.some((there) => there.name === name)) continue;
      tool.remove();
      registered.delete(name);
    }
    for (const tool of tools.filter(({ name }) => !registered.has(name))) {
      const run = (input: unknown, context: ServerContext) => call(tool.name, input, context);
      try {
        registered.set(tool.name, registerOwnTool(mcp, tool, run, onListed));
        taken.delete(tool.name);
      } catch {
        if (!taken.has(tool.name))
          onNotice?.(`${tool.name} is not listed because the server has a tool with that name`);
        taken.add(tool.name);
      }
    }
    const { toolsLoading: arriving } = session;
    if (arriving && arriving !== awaited) {
      awaited = arriving;
      void arriving.then(() => mcp.isConnected() && sync());
    }
    // One change of the list for each skill: its other tools are listed together with those of its toolsets.
    const loading = session.loadingTools;
    const ready = offered.filter(
      (tool) => tool.owner === undefined || (!loading.includes(tool.owner.name) && isAllowed(tool)),
    );
    if (mounting.sync(ready) && underWay.size > 0) hasNewTools = true;
  };
  const unfollow = session.onToolsChanged(sync);
  sync();
  return {
    registered,
    sync,
    async settled() {
      await Promise.allSettled(underWay);
    },
    unmount() {
      isMounted = false;
      unfollow();
      mounting.sync([]);
      for (const tool of registered.values()) tool.remove();
      registered.clear();
    },
  };
}

/** The scopes of calls that run code or ask a model. */
const GATED_SCOPES: ReadonlySet<ServerScope> = new Set(["run", "use"]);

/** Makes a call when there is a place for it. */
async function callAdmitted(
  admit: AdmitCall,
  { signal = new AbortController().signal }: SessionCallOptions,
  work: () => Promise<ToolResult>,
): Promise<ToolResult> {
  const admitted = await admit(signal);
  if (typeof admitted !== "function") return createRefusalResult([admitted]);
  try {
    return await work();
  } finally {
    admitted();
  }
}

/** The tools that load skills. */
const LOADING_TOOLS = ["load_skill", "activate_skills_for"];

/** Returns false for a client that is known to keep its first list of tools. */
function refreshesTools(room: McpTextLimits): boolean {
  return room.refreshesTools || room === UNKNOWN_CLIENT_LIMITS;
}

/** Returns hints for calling the tools of a newly loaded skill, if the client's list does not have them at the model's next request. */
function formatToolHints(session: Session, { offersNewTools }: McpTextLimits): string[] {
  const isLoading = session.loadingTools.length > 0;
  const hasTools = isLoading || session.tools.some(({ owner }) => owner !== undefined);
  if (!hasTools || session.isReadOnly || session.isDisabled("call_skill_tool")) return [];
  if (isLoading) return [LOADING_HINT];
  return offersNewTools ? [] : [CALL_HINT];
}

const CALL_HINT =
  "[Call a tool that is not in your list with call_skill_tool: its name as `tool`, its input as `input`]";
const LOADING_HINT =
  "[Call a tool that is not in your list yet with call_skill_tool: its name as `tool`, its input as `input`; an unknown name returns the available names]";

/** Time that a response waits for the client to fetch the list, and then to use it. */
const LIST_REQUEST_MS = 80;
const LIST_USE_MS = 40;

/** Resolves when the client has fetched the list, or after a moment: many never do. */
function waitForListRequest(listening: Set<() => void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(late);
      listening.delete(listed);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const listed = () => void setTimeout(end, LIST_USE_MS);
    const late = setTimeout(end, LIST_REQUEST_MS);
    listening.add(listed);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}

/** Lists the session's tools and those for clients, in the order of the table. */
function listOwnTools(session: Session, tools: readonly Tool[], { authoring = false }: MountOptions): Tool[] {
  return Object.entries(SERVER_TOOLS).flatMap(([name, { isForAuthors }]) => {
    const tool = tools.find((candidate) => candidate.name === name);
    return tool && (authoring || !isForAuthors) && !session.isDisabled(name) ? [tool] : [];
  });
}

/** Resolves a skill's published name, if it differs from its name. */
function resolvePublishedName(input: unknown, { catalog }: Session): unknown {
  const { skill } = Object(input);
  if (typeof skill !== "string" || catalog.has(skill)) return input;
  const published = listPublishedNames(catalog).get(skill);
  return published ? { ...Object(input), skill: published.name } : input;
}

/** Registers one of the session's own tools. Contract: the tool has a row. */
function registerOwnTool(
  mcp: McpServer,
  tool: Tool,
  run: Parameters<typeof registerServerTool>[3],
  onListed: () => void,
): RegisteredTool {
  const {
    title,
    annotations,
    output,
    alwaysLoad: isAtHand,
    omitParam: lacks,
  } = SERVER_TOOLS[tool.name] as ServerToolRow;
  const { description, inputSchema } = tool;
  const listed = {
    title,
    description,
    inputSchema: normalizeSchema(omitSchemaProperty(inputSchema, lacks)),
    annotations,
    _meta: createToolMeta({ ...tool, isAtHand }),
  };
  return registerServerTool(
    mcp,
    tool.name,
    { ...listed, ...(output ? { outputSchema: output.schema } : {}) },
    run,
    onListed,
  );
}

/** Creates a progress callback for the waiting request, if it asked for progress. */
function createProgressSender(waiting: ServedCallContext["getWaitingRequest"]): NonNullable<CallOptions["onProgress"]> {
  let progress = 0;
  return (message) => {
    const { mcpReq } = waiting() ?? {};
    const progressToken = mcpReq?._meta?.progressToken;
    if (progressToken === undefined) return;
    progress++;
    const params = { progressToken, progress, message };
    void mcpReq?.notify({ method: "notifications/progress", params }).catch(() => {}); // Ignored if the client has disconnected.
  };
}

/** Calls a tool of the session by its own name. */
type CallSessionTool = (
  tool: string,
  input: unknown,
  context: ServerContext,
) => Promise<ResultEnvelope | InputRequiredResult>;

interface SkillToolRegistry {
  /** Registers the offered tools of loaded skills, and removes all others. Notifies the client of changes. Contract: returns true if tools were added that no other tool calls. */
  sync(offered: readonly Tool[]): boolean;
}

interface RegisteredSkillTool {
  id: string;
  registered: RegisteredTool;
  /** The serialized listing. */
  listing: string;
}

interface SkillToolRegistryOptions {
  /** The server's own tools, by name. */
  own: ReadonlyMap<string, unknown>;
  call: CallSessionTool;
  onNotice?(text: string): void;
}

/** Keeps the tools of loaded skills registered on a server. */
function createSkillToolRegistry(mcp: McpServer, { own, call, onNotice }: SkillToolRegistryOptions): SkillToolRegistry {
  const mounted = new Map<string, RegisteredSkillTool>();
  /** Names taken by other tools on this server. */
  const taken = new Set<string>();
  return {
    sync(offered) {
      const tools = offered.filter(({ owner }) => owner !== undefined);
      const { toWire } = createWireNames([...own.keys(), ...tools.map(({ name }) => name)]);
      const wanted = new Map(tools.map((tool) => [toWire(tool.name), tool]));
      for (const [wire, { registered, id, listing }] of mounted) {
        const tool = wanted.get(wire);
        if (tool?.name === id && JSON.stringify(createToolListing(tool)) === listing) continue;
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
    const listed = createToolListing(tool);
    try {
      const registered = registerServerTool(mcp, wire, listed, (input, context) => call(tool.name, input, context));
      mounted.set(wire, { id: tool.name, registered, listing: JSON.stringify(listed) });
      return true;
    } catch {
      taken.add(wire);
      onNotice?.(
        `${sanitizeLine(tool.name, 128)} is not listed because the server has another ${wire}: call it with call_skill_tool`,
      );
      return false;
    }
  }
}

/** Registers a tool. `onListed` is called when a list is created. Contract: throws if the server has a tool with this name. */
export function registerServerTool(
  mcp: McpServer,
  name: string,
  { inputSchema, outputSchema, ...listed }: McpToolListing & { outputSchema?: JsonObject },
  run: (input: unknown, context: ServerContext) => ReturnType<CallSessionTool>,
  onListed?: () => void,
): RegisteredTool {
  const output = outputSchema ? { outputSchema: createPassthroughSchema(outputSchema) } : {};
  return mcp.registerTool(
    name,
    { ...listed, inputSchema: createPassthroughSchema(inputSchema, onListed), ...output },
    run as never,
  );
}

/** Creates a schema that is shown but not enforced: the session accepts other spellings, and answers invalid input so that a model can fix it. */
function createPassthroughSchema(schema: JsonObject, onShown?: () => void): StandardSchemaWithJSON {
  const shown = () => {
    onShown?.();
    return schema;
  };
  const props = { version: 1, vendor: "skillet", validate: (value: unknown) => ({ value }) } as const;
  return { "~standard": { ...props, jsonSchema: { input: shown, output: shown } } };
}
