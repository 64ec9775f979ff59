import {
  CLIENT_INFO_META_KEY,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  McpServer,
  ProtocolErrorCode,
  specTypeSchemas,
} from "@modelcontextprotocol/server";
import { SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import type { Session } from "../../agent/session/session.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { ListingClient, McpTextLimits } from "../../catalog/client-listings.ts";
import { isOfferedByDefault } from "../../catalog/listing.ts";
import { formatProblem, type Problem } from "../../errors/problem.ts";
import type { Tool } from "../../skill/tool.ts";
import type { ServerScope } from "../../store/server-tokens.ts";
import { omitUndefined } from "../../util/objects.ts";
import { packageVersion } from "../../util/system.ts";
import { truncateLine } from "../../util/text.ts";
import { createElicitations, type Elicitations } from "./elicitation.ts";
import { mountTools, onConnectionClosed, registerServerTool } from "./mount-skills.ts";
import { type AdmitCall, findScopeProblem, getToolScope, hideHookTools, SERVER_TOOLS } from "./server-tools.ts";
import {
  findListingClient,
  formatOmittedNote,
  formatServedListing,
  getListingRoom,
  type ServedListing,
  type ServedListingOptions,
  serveSkillPrompts,
} from "./skill-prompts.ts";
import { createSkillResources } from "./skill-resources.ts";
import { createResultEnvelope, createToolListing } from "./tool-envelope.ts";

export interface McpServerOptions {
  /** Adds the tools that check skills while they are written. */
  authoring?: boolean;
  /** Loaded skills are forgotten after each response, for servers that last for one request. */
  isStateless?: boolean;
  /** False: skills are not served as prompts, and you can register your own. */
  prompts?: boolean;
  /** The name of the server. Defaults to skillet. */
  name?: string;
  version?: string;
  /** Instructions for the client's model, before those about skills. */
  instructions?: string;
  /** Called with notices for the operator. */
  onNotice?(text: string): void;
}

/** Shared state for servers that last for one request: a question of one is answered to another. */
interface SharedServerState {
  /** The scopes of the caller. Defaults to all. */
  scopes?: ReadonlySet<ServerScope> | undefined;
  admit?: AdmitCall | undefined;
  elicitations?: Elicitations;
  /** Returns the listings of catalogs for the current settings. Contract: all servers that share them have the same host, which decides what is visible. */
  listings?(): WeakMap<Catalog, CachedListings>;
  /** Returns an additional note for the model about the served skills. */
  note?(): string | undefined;
  /** Returns the names of the skills that the client lists itself. They are omitted from its lists. */
  listedByClient?(client: ListingClient): Promise<ReadonlySet<string>>;
}

/**
 * Creates an MCP server for a session. Connect it to your own transport; you can register your own tools and resources on it. It does not
 * close the session: the caller does, when the connection is closed.
 */
export function createMcpServer(session: Session, options: McpServerOptions = {}): McpServer {
  const asking = createElicitations({ canAnswer: options.isStateless !== true });
  const { mcp } = createMcpServerHandle(session, options, { elicitations: asking });
  onConnectionClosed(mcp, () => asking.close());
  return mcp;
}

/** Cached texts of a catalog for clients. */
export interface CachedListings {
  /** The names of all skills that a model or a user may call. */
  names?: string;
  /** By the room of the client and the length of other texts. */
  served: Map<string, ServedListing>;
}

export interface McpServerHandle {
  mcp: McpServer;
  /** Reads the sources again, and notifies the client of changes. */
  refresh(): Promise<void>;
  /** Resolves when no call is in progress or waiting for approval. */
  settled(): Promise<void>;
}

export function createMcpServerHandle(
  session: Session,
  options: McpServerOptions,
  shared: SharedServerState = {},
): McpServerHandle {
  const {
    elicitations: asking = createElicitations(),
    listings = () => new WeakMap(),
    note = () => undefined,
  } = shared;
  const listOmitted = async () => {
    const client = findListingClient(clientName);
    return (client && (await shared.listedByClient?.(client))) ?? new Set<string>();
  };
  const { scopes } = shared;
  const canLoad = scopes?.has("load") !== false;
  const hasPrompts = options.prompts !== false && canLoad;
  const mcp = new McpServer(
    { title: "Skills", ...createServerInfo(options) },
    {
      capabilities: {
        ...(canLoad ? { resources: { listChanged: true } } : {}),
        ...(hasPrompts ? { prompts: { listChanged: true }, completions: {} } : {}),
      },
      // Loading a skill with ten tools sends one notification.
      debouncedNotificationMethods: LIST_KINDS.map((what) => `notifications/${what}/list_changed`),
    },
  );
  explainErrors(
    mcp,
    (tool) =>
      session.findRevocation(tool) ??
      (Object.hasOwn(SERVER_TOOLS, tool) ? findScopeProblem(scopes, getToolScope(tool), tool) : undefined),
  );
  let clientName: string | undefined;
  /** The description of load_skill that the client has. */
  let listed: string | undefined;
  const listing = async () =>
    getServedListing(session, getListingRoom(clientName), listings(), {
      before: options.instructions,
      after: note(),
      loadDescription: formatLoadDescription(session),
      omitted: await listOmitted(),
    });
  trackClient(mcp, {
    onClient(name) {
      clientName = name;
    },
    instructions: async () => (await listing()).instructions,
  });
  hideHookTools(
    mcp,
    () => clientName,
    (tool) => Object.hasOwn(SERVER_TOOLS, String(tool)) && SERVER_TOOLS[String(tool)]?.isForHooks === true,
  );
  prepareToolRequests(mcp, {
    loading: (tool) => (tool === undefined || !registered.has(tool) ? session.toolsLoading : undefined),
    async onList() {
      const { loadDescription } = await listing();
      const load = registered.get(LOAD_TOOL_NAME);
      listed = loadDescription;
      if (load) load.description = loadDescription;
    },
  });
  const tools = mountTools(mcp, session, {
    ...options,
    scopes,
    admit: shared.admit,
    asking,
    note,
    clientName: () => clientName,
    async list() {
      const names = await listOmitted();
      const room = getListingRoom(clientName).toolResult - LIST_OVERHEAD - (note() ?? "").length;
      return session.listSkills({
        room,
        isOmitted: ({ name }) => names.has(name),
        note: formatOmittedNote(session, names),
      });
    },
  });
  const { registered, sync } = tools;
  const { onNotice } = options;
  // If all tools are disabled now, some may be enabled later, when the capability can no longer be added.
  if (registered.size === 0)
    registerServerTool(mcp, "none", createToolListing(EMPTY_TOOL), async () =>
      createResultEnvelope(EMPTY_RESULT),
    ).remove();
  if (canLoad)
    new SkillsExtension({
      source: createSkillResources(session, omitUndefined({ onNotice })),
      onWarning: ({ path, message }) => onNotice?.(`${path}: ${message}`),
    }).attach(mcp);
  if (hasPrompts) serveSkillPrompts(mcp, session, sync);
  // Compares with the state that the client knows, not with the session: a call may have reloaded it.
  const known = () => ({ catalog: session.catalog, names: getServedNames(session, listings()) });
  let lastSent = known();
  return {
    mcp,
    settled: tools.settled,
    async refresh() {
      await session.reload();
      await session.ready();
      sync();
      const now = known();
      if ((now.catalog === lastSent.catalog && now.names === lastSent.names) || !mcp.isConnected()) return;
      lastSent = now;
      if (listed !== undefined && listed !== (await listing()).loadDescription) mcp.sendToolListChanged();
      if (canLoad) mcp.sendResourceListChanged();
      if (hasPrompts) mcp.sendPromptListChanged();
    },
  };
}

const EMPTY_RESULT = { text: "", isError: false };
const EMPTY_TOOL: Tool = {
  name: "none",
  description: "",
  category: "skills",
  inputSchema: {},
  execute: async () => EMPTY_RESULT,
};

/** The number of characters of a result in addition to the list: the keys of the structured form and of a note. */
const LIST_OVERHEAD = 40;

const LIST_KINDS = ["tools", "prompts", "resources"];

function createServerInfo({ name, version }: McpServerOptions): { name: string; version: string } {
  return { name: name ?? "skillet", version: version ?? (name === undefined ? packageVersion() : "0.0.0") };
}

const LOAD_TOOL_NAME = "load_skill";

/** Returns the description of `load_skill` without a list. */
export function formatLoadDescription({ tools }: Session): string {
  return tools.find(({ name }) => name === LOAD_TOOL_NAME)?.description ?? "";
}

async function getServedListing(
  session: Session,
  room: McpTextLimits,
  known: WeakMap<Catalog, CachedListings>,
  options: ServedListingOptions,
): Promise<ServedListing> {
  const { served } = getCachedListings(session, known);
  const { before = "", after = "", loadDescription } = options;
  const names = [...(options.omitted ?? [])].join(" ");
  const key = [room.instructions, room.toolDescription, before, after, loadDescription, names].join("\n");
  const listing = served.get(key) ?? (await formatServedListing(session, room, options));
  served.set(key, listing);
  return listing;
}

function getServedNames(session: Session, known: WeakMap<Catalog, CachedListings>): string {
  const listings = getCachedListings(session, known);
  listings.names ??= [
    ...session.listVisible().filter((skill) => isOfferedByDefault(skill)),
    ...session.listVisible("user"),
  ]
    .map(({ name }) => name)
    .join("\n");
  return listings.names;
}

function getCachedListings({ catalog }: Session, known: WeakMap<Catalog, CachedListings>): CachedListings {
  const listings = known.get(catalog) ?? { served: new Map() };
  known.set(catalog, listings);
  return listings;
}

interface ClientTracker {
  /** Called with each name of the client, before its request is handled. */
  onClient(name: string): void;
  /** Returns the instructions for the current client. */
  instructions(): Promise<string>;
}

/**
 * Gives a server instructions that depend on the client. The SDK takes one text when a server is created; the client sends its name later,
 * in `initialize` or, since the revision 2026-07-28, in every request.
 */
function trackClient(mcp: McpServer, { onClient, instructions }: ClientTracker): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const { onmessage } = transport;
    const send = transport.send.bind(transport);
    const opening = new Set<JSONRPCRequest["id"]>();
    // The SDK calls an existing handler before its own.
    transport.onmessage = (message, extra) => {
      onmessage?.(message, extra);
      if (!isJSONRPCRequest(message)) return;
      const name = getClientName(message);
      if (name !== undefined) onClient(name);
      if (OPENING_METHODS.includes(message.method)) opening.add(message.id);
    };
    transport.send = async (message, options) => {
      if (!isJSONRPCResultResponse(message) || !opening.delete(message.id)) return send(message, options);
      return send({ ...message, result: { ...message.result, instructions: await instructions() } }, options);
    };
    return connect(transport);
  };
}

const OPENING_METHODS = ["initialize", "server/discover"];

function getClientName({ params }: JSONRPCRequest): string | undefined {
  const { clientInfo, _meta } = Object(params) as { clientInfo?: unknown; _meta?: Record<string, unknown> };
  const { name } = Object(clientInfo ?? _meta?.[CLIENT_INFO_META_KEY]) as { name?: unknown };
  return typeof name === "string" ? name : undefined;
}

/** Returns the reason why a tool that a client may still list is gone. */
type FindRevocation = (tool: string) => Problem | undefined;

/**
 * Explains errors of the SDK by the requests that they answer: invalid params are -32602 with one sentence, where the SDK reports its
 * validator's complete output, and a removed tool is answered with the reason. A method that the revision does not have stays unknown,
 * whatever its params: over HTTP this is the status 404.
 */
function explainErrors(mcp: McpServer, revocationOf: FindRevocation): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const { onmessage } = transport;
    const send = transport.send.bind(transport);
    const requests = new Map<unknown, JSONRPCRequest>();
    transport.onmessage = (message, extra) => {
      if (isJSONRPCRequest(message)) requests.set(message.id, message);
      for (const oldest of requests.keys()) if (requests.size > MAX_OPEN_REQUESTS) requests.delete(oldest);
      onmessage?.(message, extra);
    };
    transport.send = (message, options) => {
      const id = "id" in message && !("method" in message) ? message.id : undefined;
      const request = requests.get(id);
      requests.delete(id);
      const isExplained = isJSONRPCErrorResponse(message) && message.error.code !== ProtocolErrorCode.MethodNotFound;
      const error = request && isExplained ? explainError(request, revocationOf) : undefined;
      return send(
        error
          ? ({ ...message, error: { ...(message as JSONRPCErrorResponse).error, ...error } } as JSONRPCMessage)
          : message,
        options,
      );
    };
    return connect(transport);
  };
}

/** Canceled requests have no answer. */
const MAX_OPEN_REQUESTS = 1000;

/** Requests with params, by their method. */
const REQUEST_TYPES: Readonly<Record<string, keyof typeof specTypeSchemas>> = {
  initialize: "InitializeRequest",
  "tools/call": "CallToolRequest",
  "tools/list": "ListToolsRequest",
  "prompts/get": "GetPromptRequest",
  "prompts/list": "ListPromptsRequest",
  "resources/list": "ListResourcesRequest",
  "resources/templates/list": "ListResourceTemplatesRequest",
  "resources/read": "ReadResourceRequest",
  "completion/complete": "CompleteRequest",
};

/** Returns a better error for a request, or undefined if the SDK's is good. */
function explainError(
  request: JSONRPCRequest,
  revocationOf: FindRevocation,
): { code?: number; message: string; data?: unknown } | undefined {
  const { method, params } = request;
  const name = String(Object(params).name);
  const revoked = method === "tools/call" ? revocationOf(name) : undefined;
  if (revoked) return { message: truncateLine(formatProblem(revoked), 300), data: { "skillet/code": revoked.code } };
  // The SDK looks names up in plain objects, and finds inherited properties such as `constructor`.
  if (name in Object.prototype && method === "tools/call") return { message: `Tool ${name} not found` };
  if (name in Object.prototype && method === "prompts/get") return { message: `Unknown prompt "${name}"` };
  const type = Object.hasOwn(REQUEST_TYPES, method) ? REQUEST_TYPES[method] : undefined;
  const [issue] = (type && specTypeSchemas[type]["~standard"].validate(request).issues) ?? [];
  const path = issue?.path?.map((part) => String(typeof part === "object" ? part.key : part)) ?? [];
  if (!issue || path[0] !== "params") return undefined;
  const complaint = `${path.slice(1).join(".")}: ${issue.message}`;
  return { code: ProtocolErrorCode.InvalidParams, message: `Invalid params: ${truncateLine(complaint, 300)}` };
}

interface ToolRequestHooks {
  /** Returns the import to wait for. `tool` is undefined for the list. */
  loading(tool: string | undefined): Promise<void> | undefined;
  /** Called before a list of tools is created. */
  onList(): Promise<void>;
}

/**
 * Delays a request for the list of tools, or for a tool that is not listed yet, until the toolsets are imported. Otherwise a list requested
 * after a skill was loaded would lack them.
 */
function prepareToolRequests(mcp: McpServer, { loading, onList }: ToolRequestHooks): void {
  const { server } = mcp;
  // The SDK adds the tools' handlers with the first tool.
  const setRequestHandler = server.setRequestHandler.bind(server) as (method: string, ...rest: unknown[]) => void;
  const set = (method: string, ...rest: unknown[]) => {
    const handle = rest.at(-1);
    if (!["tools/list", "tools/call"].includes(method) || typeof handle !== "function")
      return setRequestHandler(method, ...rest);
    const waiting = async (request: { params?: { name?: string } }, ...more: unknown[]) => {
      const wait = loading(request.params?.name);
      if (wait) await (method === "tools/list" ? waitBriefly(wait) : wait);
      if (method === "tools/list") await onList();
      return handle(request, ...more);
    };
    setRequestHandler(method, ...rest.slice(0, -1), waiting);
  };
  server.setRequestHandler = set as typeof server.setRequestHandler;
}

/** Resolves with the promise, or after a timeout: an import may take long. */
function waitBriefly(promise: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, TOOL_WAIT_MS);
    void promise.then(() => {
      clearTimeout(late);
      resolve();
    });
  });
}

const TOOL_WAIT_MS = 5000;
