import type {
  InputRequiredResult,
  McpServer,
  RegisteredTool,
  ServerContext,
  StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";
import type { Session, SessionCallOptions } from "../../agent/session/session.ts";
import { type McpTextLimits, UNKNOWN_CLIENT_LIMITS } from "../../catalog/client-listings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { CallOptions, Tool } from "../../skill/tool.ts";
import { createWireNames } from "../../skill/tool-names.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { createElicitations, type Elicitations, type ServedCallContext } from "./elicitation.ts";
import { listPublishedNames } from "./published-skill.ts";
import { getListingRoom } from "./server-listing.ts";
import {
  addListNote,
  type ClientToolOptions,
  createClientTools,
  omitSchemaProperty,
  SERVER_TOOLS,
  type ServerToolRow,
} from "./server-tools.ts";
import {
  createResultEnvelope,
  createToolListing,
  createToolMeta,
  type McpToolListing,
  normalizeSchema,
  type ResultEnvelope,
} from "./tool-envelope.ts";

export interface MountOptions {
  /** Also the tools that check skills while they are written. */
  authoring?: boolean;
  /** Called with what an operator should look at, for example a tool whose name the server has already. */
  onNotice?(text: string): void;
}

/** Skills on a server. */
export interface SkillMount {
  /** Takes the tools of the session and of its skills from the server, and stops to follow the session. */
  unmount(): void;
}

/**
 * Adds the tools of a session to a server that the program has, connected or not: `list_skills`, `load_skill` and so on, and those of
 * each skill as long as it is loaded, by a client or by the program. Throws a SkillError for a connected server without tools.
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
  /** Registers the tools that are available now, and removes all others. */
  sync(): void;
  /** Resolves when no call is under way, nor waits for an approval. */
  settled(): Promise<void>;
  unmount(): void;
}

interface ToolMountOptions extends MountOptions, ClientToolOptions {
  asking: Elicitations;
  /** Returns what else a model should know of the list of skills. */
  note?(): string | undefined;
  /** Leaves out the tool that prompt hooks call. */
  isWithoutHooks?: boolean;
}

/** Keeps the tools of a session on a server's list: its own, and those of the skills that are loaded. */
export function mountTools(mcp: McpServer, session: Session, options: ToolMountOptions): ToolMount {
  const { asking, note = () => undefined, clientName = () => undefined, onNotice } = options;
  const clients = createClientTools(session, options);
  const listening = new Set<() => void>();
  const registered = new Map<string, RegisteredTool>();
  /** Names that tools of the program have on this server. */
  const taken = new Set<string>();
  /** Whether tools were added since the last answer. */
  let hasNewTools = false;
  let isMounted = true;
  let awaited: Promise<void> | undefined;
  const execute = async (name: string, input: unknown, callOptions: SessionCallOptions): Promise<ResultEnvelope> => {
    const own = clients.find((tool) => tool.name === name && !session.isDisabled(name));
    const row = Object.hasOwn(SERVER_TOOLS, name) ? SERVER_TOOLS[name] : undefined;
    const given = row ? resolvePublishedName(input, session) : input;
    const result = await (own
      ? own.execute(given, callOptions)
      : session.call(name, name === "load_skill" ? { ...Object(given), again: true } : given, callOptions));
    sync();
    // Clients fetch the list anew when they hear of a change, and give their model what they have when the answer comes.
    const isHeard =
      hasNewTools && mcp.isConnected() && !options.isStateless && refreshesTools(getListingRoom(clientName()));
    hasNewTools = false;
    if (isHeard) await waitForListRequest(listening, callOptions.signal);
    const { output } = row ?? {};
    if (output)
      return createResultEnvelope(
        output.ifEmpty === undefined ? result : addListNote(result, output.ifEmpty, note()),
        output.of,
      );
    const room = { ...getListingRoom(clientName()), ...(options.isStateless ? { offersNewTools: false } : {}) };
    const hint =
      LOADING_TOOLS.includes(name) && !result.isError && result.code === undefined
        ? formatToolHints(session, room)
        : [];
    const content = [result.content, ...hint, ...session.toolUpdates()].join("\n");
    return createResultEnvelope({ ...result, content });
  };
  const underWay = new Set<Promise<unknown>>();
  const call: CallSessionTool = (name, input, context) =>
    asking.call(mcp, context, name, ({ waiting, ...asked }) => {
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
    const tools = listOwnTools(session, [...offered, ...clients], options).filter(({ name }) => isOffered(name));
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
        if (!taken.has(tool.name)) onNotice?.(`${tool.name} is not listed, since the server has a tool of that name`);
        taken.add(tool.name);
      }
    }
    const { arriving } = session;
    if (arriving && arriving !== awaited) {
      awaited = arriving;
      void arriving.then(() => mcp.isConnected() && sync());
    }
    // One change of the list for each skill: what else it brings is listed with the tools of its toolsets.
    const loading = session.loadingTools;
    const ready = offered.filter(({ owner }) => owner === undefined || !loading.includes(owner.name));
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

/** The tools that load skills. */
const LOADING_TOOLS = ["load_skill", "activate_skills_for"];

/** False for a client that is known to keep its first list of tools. */
function refreshesTools(room: McpTextLimits): boolean {
  return room.refreshesTools || room === UNKNOWN_CLIENT_LIMITS;
}

/** How to call the tools of a skill that was just loaded, where the client's list does not have them by the model's next request. */
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
  "[Call a tool that is not in your list yet with call_skill_tool: its name as `tool`, its input as `input`; an unknown name is answered with the names]";

/** How long an answer waits for the client to fetch the list, and then for the client to take it up. */
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

/** The session's tools and those that only a client needs, in the order of the table. */
function listOwnTools(session: Session, there: readonly Tool[], { authoring = false }: MountOptions): Tool[] {
  return Object.entries(SERVER_TOOLS).flatMap(([name, { isForAuthors }]) => {
    const tool = there.find((candidate) => candidate.name === name);
    return tool && (authoring || !isForAuthors) && !session.isDisabled(name) ? [tool] : [];
  });
}

/** A skill may be called as it is published, where it is called otherwise. */
function resolvePublishedName(input: unknown, { catalog }: Session): unknown {
  const { skill } = Object(input);
  if (typeof skill !== "string" || catalog.has(skill)) return input;
  const published = listPublishedNames(catalog).get(skill);
  return published ? { ...Object(input), skill: published.name } : input;
}

/** Contract: the tool has a row. */
function registerOwnTool(
  mcp: McpServer,
  tool: Tool,
  run: Parameters<typeof registerServerTool>[3],
  onListed: () => void,
): RegisteredTool {
  const { title, annotations, output, isAtHand, lacks } = SERVER_TOOLS[tool.name] as ServerToolRow;
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

/** For who asked for it, and waits now. */
function createProgressSender(waiting: ServedCallContext["waiting"]): NonNullable<CallOptions["onProgress"]> {
  let progress = 0;
  return (message) => {
    const { mcpReq } = waiting() ?? {};
    const progressToken = mcpReq?._meta?.progressToken;
    if (progressToken === undefined) return;
    progress++;
    const params = { progressToken, progress, message };
    void mcpReq?.notify({ method: "notifications/progress", params }).catch(() => {}); // Who has gone need not know.
  };
}

/** Calls a tool of the session by its own name. */
type CallSessionTool = (
  tool: string,
  input: unknown,
  context: ServerContext,
) => Promise<ResultEnvelope | InputRequiredResult>;

interface SkillToolRegistry {
  /** Lists what the loaded skills bring, of what a session offers now, and nothing else of theirs. The client is told where that changed. Contract: whether tools came that nothing else calls. */
  sync(offered: readonly Tool[]): boolean;
}

interface RegisteredSkillTool {
  id: string;
  registered: RegisteredTool;
  /** What was said of it. */
  said: string;
}

interface SkillToolRegistryOptions {
  /** The server's own tools, by name. */
  own: ReadonlyMap<string, unknown>;
  call: CallSessionTool;
  onNotice?(text: string): void;
}

/** Keeps the tools that loaded skills bring on the server's list. */
function createSkillToolRegistry(mcp: McpServer, { own, call, onNotice }: SkillToolRegistryOptions): SkillToolRegistry {
  const mounted = new Map<string, RegisteredSkillTool>();
  /** Names that tools of somebody else's have on this server. */
  const taken = new Set<string>();
  return {
    sync(offered) {
      const tools = offered.filter(({ owner }) => owner !== undefined);
      const { toWire } = createWireNames([...own.keys(), ...tools.map(({ name }) => name)]);
      const wanted = new Map(tools.map((tool) => [toWire(tool.name), tool]));
      for (const [wire, { registered, id, said }] of mounted) {
        const tool = wanted.get(wire);
        if (tool?.name === id && JSON.stringify(createToolListing(tool)) === said) continue;
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
      mounted.set(wire, { id: tool.name, registered, said: JSON.stringify(listed) });
      return true;
    } catch {
      taken.add(wire);
      onNotice?.(
        `${sanitizeLine(tool.name, 128)} is not listed, since the server has another ${wire}: call_skill_tool calls it`,
      );
      return false;
    }
  }
}

/** `onListed` hears that the list was made. Contract: throws when the server has a tool of this name. */
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

/** A schema that is only shown: the session itself takes other spellings too, and answers wrong input so that a model can mend it. */
function createPassthroughSchema(schema: JsonObject, onShown?: () => void): StandardSchemaWithJSON {
  const shown = () => {
    onShown?.();
    return schema;
  };
  const props = { version: 1, vendor: "skillet", validate: (value: unknown) => ({ value }) } as const;
  return { "~standard": { ...props, jsonSchema: { input: shown, output: shown } } };
}
