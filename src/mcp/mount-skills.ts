import type { McpServer, RegisteredTool, ServerContext } from "@modelcontextprotocol/server";
import { type McpRoom, UNKNOWN_CLIENT } from "../catalog/client-listings.ts";
import type { Session, SessionCallOptions } from "../session/session.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { CallOptions, Tool } from "../skill/tool.ts";
import { type Asked, type Asking, openAsking } from "./asking.ts";
import { roomFor } from "./listing.ts";
import { type Call, openMounting, register } from "./mounting.ts";
import { publishedNames } from "./publish-name.ts";
import { clientTools, noted, type OwnOptions, ROWS, type Row, without } from "./tools.ts";
import { type Envelope, envelope, metaOf, objectSchema } from "./transform.ts";

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
  const asking = openAsking();
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
export interface ToolMount {
  /** The session's own tools that the server has, by name. */
  registered: ReadonlyMap<string, RegisteredTool>;
  /** Registers the tools that are available now, and removes all others. */
  sync(): void;
  /** Resolves when no call is under way, nor waits for an approval. */
  settled(): Promise<void>;
  unmount(): void;
}

interface ToolMountOptions extends MountOptions, OwnOptions {
  asking: Asking;
  /** Returns what else a model should know of the list of skills. */
  note?(): string | undefined;
  /** Leaves out the tool that prompt hooks call. */
  isWithoutHooks?: boolean;
}

/** Keeps the tools of a session on a server's list: its own, and those of the skills that are loaded. */
export function mountTools(mcp: McpServer, session: Session, options: ToolMountOptions): ToolMount {
  const { asking, note = () => undefined, clientName = () => undefined, onNotice } = options;
  const clients = clientTools(session, options);
  const listening = new Set<() => void>();
  const registered = new Map<string, RegisteredTool>();
  /** Names that tools of the program have on this server. */
  const taken = new Set<string>();
  /** Whether tools were added since the last answer. */
  let hasNewTools = false;
  let isMounted = true;
  let awaited: Promise<void> | undefined;
  const execute = async (name: string, input: unknown, callOptions: SessionCallOptions): Promise<Envelope> => {
    const own = clients.find((tool) => tool.name === name && !session.isDisabled(name));
    const row = Object.hasOwn(ROWS, name) ? ROWS[name] : undefined;
    const given = row ? byOwnName(input, session) : input;
    const result = await (own
      ? own.execute(given, callOptions)
      : session.call(name, name === "load_skill" ? { ...Object(given), again: true } : given, callOptions));
    sync();
    // Clients fetch the list anew when they hear of a change, and give their model what they have when the answer comes.
    const isHeard = hasNewTools && mcp.isConnected() && !options.isStateless && canRefresh(roomFor(clientName()));
    hasNewTools = false;
    if (isHeard) await heard(listening, callOptions.signal);
    const { output } = row ?? {};
    if (output)
      return envelope(output.ifEmpty === undefined ? result : noted(result, output.ifEmpty, note()), output.of);
    const room = { ...roomFor(clientName()), ...(options.isStateless ? { offersNewTools: false } : {}) };
    const hint = LOADS.includes(name) && !result.isError && result.code === undefined ? toolHint(session, room) : [];
    const content = [result.content, ...hint, ...session.toolUpdates()].join("\n");
    return envelope({ ...result, content });
  };
  const underWay = new Set<Promise<unknown>>();
  const call: Call = (name, input, context) =>
    asking.call(mcp, context, name, ({ waiting, ...asked }) => {
      const work = execute(name, input, { ...asked, onProgress: progressTo(waiting) });
      underWay.add(work);
      return work.finally(() => underWay.delete(work));
    });
  const mounting = openMounting(mcp, { own: registered, call, ...defined({ onNotice }) });
  const onListed = () => {
    for (const done of listening) done();
  };
  const isOffered = (name: string) => !(options.isWithoutHooks && ROWS[name]?.isForHooks);
  const sync = () => {
    if (!isMounted) return;
    const offered = session.tools;
    const tools = ownTools(session, [...offered, ...clients], options).filter(({ name }) => isOffered(name));
    for (const [name, tool] of registered) {
      if (tools.some((there) => there.name === name)) continue;
      tool.remove();
      registered.delete(name);
    }
    for (const tool of tools.filter(({ name }) => !registered.has(name))) {
      const run = (input: unknown, context: ServerContext) => call(tool.name, input, context);
      try {
        registered.set(tool.name, registerOwn(mcp, tool, run, onListed));
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
const LOADS = ["load_skill", "activate_skills_for"];

/** False for a client that is known to keep its first list of tools. */
function canRefresh(room: McpRoom): boolean {
  return room.refreshesTools || room === UNKNOWN_CLIENT;
}

/** How to call the tools of a skill that was just loaded, where the client's list does not have them by the model's next request. */
function toolHint(session: Session, { offersNewTools }: McpRoom): string[] {
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
const HEARD_MS = 80;
const TAKEN_UP_MS = 40;

/** Resolves when the client has fetched the list, or after a moment: many never do. */
function heard(listening: Set<() => void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(late);
      listening.delete(listed);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const listed = () => void setTimeout(end, TAKEN_UP_MS);
    const late = setTimeout(end, HEARD_MS);
    listening.add(listed);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}

/** The session's tools and those that only a client needs, in the order of the table. */
function ownTools(session: Session, there: readonly Tool[], { authoring = false }: MountOptions): Tool[] {
  return Object.entries(ROWS).flatMap(([name, { isForAuthors }]) => {
    const tool = there.find((candidate) => candidate.name === name);
    return tool && (authoring || !isForAuthors) && !session.isDisabled(name) ? [tool] : [];
  });
}

/** A skill may be called as it is published, where it is called otherwise. */
function byOwnName(input: unknown, { catalog }: Session): unknown {
  const { skill } = Object(input);
  if (typeof skill !== "string" || catalog.has(skill)) return input;
  const published = publishedNames(catalog).get(skill);
  return published ? { ...Object(input), skill: published.name } : input;
}

/** Contract: the tool has a row. */
function registerOwn(
  mcp: McpServer,
  tool: Tool,
  run: Parameters<typeof register>[3],
  onListed: () => void,
): RegisteredTool {
  const { title, annotations, output, isAtHand, lacks } = ROWS[tool.name] as Row;
  const { description, inputSchema } = tool;
  const listed = {
    title,
    description,
    inputSchema: objectSchema(without(inputSchema, lacks)),
    annotations,
    _meta: metaOf({ ...tool, isAtHand }),
  };
  return register(mcp, tool.name, { ...listed, ...(output ? { outputSchema: output.schema } : {}) }, run, onListed);
}

/** For who asked for it, and waits now. */
function progressTo(waiting: Asked["waiting"]): NonNullable<CallOptions["onProgress"]> {
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
