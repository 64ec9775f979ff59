import { McpServer, type RegisteredTool, type ServerContext } from "@modelcontextprotocol/server";
import { SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import type { Catalog } from "../catalog/catalog.ts";
import { type ListingClient, type McpRoom, UNKNOWN_CLIENT } from "../catalog/client-listings.ts";
import { isInReach } from "../catalog/reach.ts";
import { packageVersion } from "../package.ts";
import type { Session, SessionCallOptions } from "../session/session.ts";
import { defined } from "../shared/defined.ts";
import type { CallOptions, Tool } from "../skill/tool.ts";
import { hideHookTools } from "./advise-tool.ts";
import { type Asked, type Asking, openAsking } from "./asking.ts";
import { followClient } from "./client-info.ts";
import {
  clientOf,
  leftOutNote,
  listForMcp,
  roomFor,
  type ServedListing,
  type ServedListingOptions,
} from "./listing.ts";
import { type Call, openMounting, register } from "./mounting.ts";
import { sayInvalidParams } from "./params.ts";
import { servePrompts } from "./prompts.ts";
import { publishedNames } from "./publish-name.ts";
import { skillSource } from "./skills.ts";
import { clientTools, noted, ROWS, type Row, without } from "./tools.ts";
import { type Envelope, envelope, listedTool, metaOf, objectSchema } from "./transform.ts";
import { waitForTools } from "./wait-for-tools.ts";

export interface McpOptions {
  /** Also the tools that check skills while they are written. */
  authoring?: boolean;
  /** What is loaded is forgotten with the answer, as where each request has a server of its own. */
  isStateless?: boolean;
  /** False: skills are no prompts, and the server is free for yours. */
  prompts?: boolean;
  /** What the server is called, in place of skillet. */
  name?: string;
  version?: string;
  /** What a client tells its model of the server, before what is said of skills. */
  instructions?: string;
  /** What somebody should look at. */
  onNotice?(text: string): void;
}

/** For servers that only last for a request: what is asked of one is answered to another. */
interface Shared {
  asking?: Asking;
  /** Returns the listings of catalogs by the current settings. Contract: all servers that share them have one host, which decides what is visible. */
  listings?(): WeakMap<Catalog, Listings>;
  /** What a model should know besides of what is served. */
  note?(): string | undefined;
  /** Returns the names of the skills that a client lists itself, and that are left out of its lists. */
  listedByClient?(client: ListingClient): ReadonlySet<string>;
}

/**
 * A session as an MCP server, to be connected to a transport of yours; tools and resources of your own can be registered on it. It does
 * not end the session: whoever opened it does, when the connection is closed.
 */
export function createMcpServer(session: Session, options: McpOptions = {}): McpServer {
  const asking = openAsking({ isAnswered: options.isStateless !== true });
  const { mcp } = openServer(session, options, { asking });
  const connect = mcp.connect.bind(mcp);
  // The server's own `onclose` is for whoever made it.
  mcp.connect = (transport) => {
    const { onclose } = transport;
    transport.onclose = () => {
      onclose?.();
      asking.close();
    };
    return connect(transport);
  };
  return mcp;
}

/** What was made of a catalog for clients, to be used again. */
export interface Listings {
  /** The names of all that a model or a person may call. */
  names?: string;
  /** By how much room a client has, and how much of it other texts take. */
  served: Map<string, ServedListing>;
}

export interface OpenServer {
  mcp: McpServer;
  /** Looks again at what there is, and tells the client what changed. */
  refresh(): Promise<void>;
  /** Resolves when no call is under way, nor waits for a word. */
  settled(): Promise<void>;
}

export function openServer(session: Session, options: McpOptions, shared: Shared = {}): OpenServer {
  const { asking = openAsking(), listings = () => new WeakMap(), note = () => undefined } = shared;
  const leftOut = () => {
    const client = clientOf(clientName);
    return (client && shared.listedByClient?.(client)) ?? new Set<string>();
  };
  const hasPrompts = options.prompts !== false;
  const mcp = new McpServer(
    { title: "Skills", ...infoOf(options) },
    {
      capabilities: {
        resources: { listChanged: true },
        ...(hasPrompts ? { prompts: { listChanged: true }, completions: {} } : {}),
      },
      // Loading a skill with ten tools is one change.
      debouncedNotificationMethods: LISTS.map((what) => `notifications/${what}/list_changed`),
    },
  );
  sayInvalidParams(mcp, (tool) => session.revocationOf(tool));
  let clientName: string | undefined;
  /** The description of load_skill that the client has. */
  let listed: string | undefined;
  const listing = () =>
    servedListing(session, roomFor(clientName), listings(), {
      before: options.instructions,
      after: note(),
      loadDescription: loadDescription(session),
      leftOut: leftOut(),
    });
  followClient(mcp, {
    onClient(name) {
      clientName = name;
    },
    onList() {
      const load = registered.get(LOAD);
      listed = listing().loadDescription;
      if (load) load.description = listed;
    },
    instructions: () => listing().instructions,
  });
  hideHookTools(
    mcp,
    () => clientName,
    (tool) => Object.hasOwn(ROWS, String(tool)) && ROWS[String(tool)]?.isForHooks === true,
  );
  waitForTools(mcp, (tool) => (tool === undefined || !registered.has(tool) ? session.arriving : undefined));
  const clients = clientTools(session, {
    ...options,
    clientName: () => clientName,
    list() {
      const names = leftOut();
      const room = roomFor(clientName).toolResult - AROUND_LIST - (note() ?? "").length;
      return session.list({ room, isLeftOut: ({ name }) => names.has(name), note: leftOutNote(session, names) });
    },
  });
  const listening = new Set<() => void>();
  const execute = async (name: string, input: unknown, callOptions: SessionCallOptions): Promise<Envelope> => {
    const own = clients.find((tool) => tool.name === name && !session.isDisabled(name));
    const row = Object.hasOwn(ROWS, name) ? ROWS[name] : undefined;
    const given = row ? byOwnName(input, session) : input;
    const result = await (own
      ? own.execute(given, callOptions)
      : session.call(name, name === "load_skill" ? { ...Object(given), again: true } : given, callOptions));
    // Clients fetch the list anew when they hear of a change, and give their model what they have when the answer comes.
    const isHeard = sync() && mcp.isConnected() && !options.isStateless && canRefresh(roomFor(clientName));
    if (isHeard) await heard(listening, callOptions.signal);
    const { output } = row ?? {};
    if (output)
      return envelope(output.ifEmpty === undefined ? result : noted(result, output.ifEmpty, note()), output.of);
    const room = { ...roomFor(clientName), ...(options.isStateless ? { offersNewTools: false } : {}) };
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
  const { onNotice } = options;
  const registered = new Map<string, RegisteredTool>();
  let isOpen = false;
  let awaited: Promise<void> | undefined;
  const mounting = openMounting(mcp, { own: registered, call, ...defined({ onNotice }) });
  const onListed = () => {
    for (const done of listening) done();
  };
  /** Registers the tools that are available now, and removes all others. Contract: as that of `Mounting`. */
  const sync = () => {
    const offered = session.tools;
    const tools = ownTools(session, [...offered, ...clients], options);
    for (const [name, tool] of registered) {
      if (tools.some((there) => there.name === name)) continue;
      tool.remove();
      registered.delete(name);
    }
    for (const tool of tools.filter(({ name }) => !registered.has(name))) {
      const run = (input: unknown, context: ServerContext) => call(tool.name, input, context);
      try {
        registered.set(tool.name, registerOwn(mcp, tool, run, onListed));
      } catch (error) {
        if (!isOpen) throw error;
        // Enabled again, but the embedding program has registered a tool of this name meanwhile.
      }
    }
    const { arriving } = session;
    if (arriving && arriving !== awaited) {
      awaited = arriving;
      void arriving.then(() => mcp.isConnected() && sync());
    }
    // One change of the list for each skill: what else it brings is listed with the tools of its toolsets.
    const loading = session.loadingTools;
    return mounting.sync(offered.filter(({ owner }) => owner === undefined || !loading.includes(owner.name)));
  };
  sync();
  // Where all are disabled now, some may be enabled later: the capability cannot be added then.
  if (registered.size === 0) register(mcp, "none", listedTool(NO_TOOL), async () => envelope(NO_RESULT)).remove();
  isOpen = true;
  new SkillsExtension({
    source: skillSource(session, defined({ onNotice })),
    onWarning: ({ path, message }) => onNotice?.(`${path}: ${message}`),
  }).attach(mcp);
  if (hasPrompts) servePrompts(mcp, session, () => void sync());
  // What the client was told of, not what the session has: a call may have looked again before.
  const known = () => ({ catalog: session.catalog, names: servedNames(session, listings()) });
  let told = known();
  return {
    mcp,
    async settled() {
      await Promise.allSettled(underWay);
    },
    async refresh() {
      await session.reload();
      await session.ready();
      sync();
      const now = known();
      if ((now.catalog === told.catalog && now.names === told.names) || !mcp.isConnected()) return;
      told = now;
      if (listed !== undefined && listed !== listing().loadDescription) mcp.sendToolListChanged();
      mcp.sendResourceListChanged();
      if (hasPrompts) mcp.sendPromptListChanged();
    },
  };
}

const NO_RESULT = { content: "", isError: false };
const NO_TOOL: Tool = {
  name: "none",
  description: "",
  category: "skills",
  inputSchema: {},
  execute: async () => NO_RESULT,
};

/** How many characters a result has around the list: its key in the structured form, and the key of a further note. */
const AROUND_LIST = 40;

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

const LISTS = ["tools", "prompts", "resources"];

/** The session's tools and those that only a client needs, in the order of the table. */
function ownTools(session: Session, there: readonly Tool[], { authoring = false }: McpOptions): Tool[] {
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

function infoOf({ name, version }: McpOptions): { name: string; version: string } {
  return { name: name ?? "skillet", version: version ?? (name === undefined ? packageVersion() : "0.0.0") };
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

const LOAD = "load_skill";

/** The description of `load_skill`, without a list. */
export function loadDescription({ tools }: Session): string {
  return tools.find(({ name }) => name === LOAD)?.description ?? "";
}

function servedListing(
  session: Session,
  room: McpRoom,
  known: WeakMap<Catalog, Listings>,
  options: ServedListingOptions,
): ServedListing {
  const { served } = listingsOf(session, known);
  const { before = "", after = "", loadDescription } = options;
  const names = [...(options.leftOut ?? [])].join(" ");
  const key = [room.instructions, room.toolDescription, before, after, loadDescription, names].join("\n");
  const made = served.get(key) ?? listForMcp(session, room, options);
  served.set(key, made);
  return made;
}

function servedNames(session: Session, known: WeakMap<Catalog, Listings>): string {
  const listings = listingsOf(session, known);
  listings.names ??= [...session.visible().filter((skill) => isInReach(skill)), ...session.visible("user")]
    .map(({ name }) => name)
    .join("\n");
  return listings.names;
}

function listingsOf({ catalog }: Session, known: WeakMap<Catalog, Listings>): Listings {
  const listings = known.get(catalog) ?? { served: new Map() };
  known.set(catalog, listings);
  return listings;
}
