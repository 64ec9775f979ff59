import { McpServer } from "@modelcontextprotocol/server";
import { SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import type { Catalog } from "../catalog/catalog.ts";
import type { ListingClient, McpRoom } from "../catalog/client-listings.ts";
import { isInReach } from "../catalog/reach.ts";
import { packageVersion } from "../package.ts";
import type { Session } from "../session/session.ts";
import { defined } from "../shared/defined.ts";
import type { Tool } from "../skill/tool.ts";
import { hideHookTools } from "./advise-tool.ts";
import { type Asking, openAsking } from "./asking.ts";
import { followClient } from "./client-info.ts";
import {
  clientOf,
  leftOutNote,
  listForMcp,
  roomFor,
  type ServedListing,
  type ServedListingOptions,
} from "./listing.ts";
import { mountTools, onConnectionClosed } from "./mount-skills.ts";
import { register } from "./mounting.ts";
import { sayInvalidParams } from "./params.ts";
import { servePrompts } from "./prompts.ts";
import { skillSource } from "./skills.ts";
import { ROWS } from "./tools.ts";
import { envelope, listedTool } from "./transform.ts";
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
  onConnectionClosed(mcp, () => asking.close());
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
  const tools = mountTools(mcp, session, {
    ...options,
    asking,
    note,
    clientName: () => clientName,
    list() {
      const names = leftOut();
      const room = roomFor(clientName).toolResult - AROUND_LIST - (note() ?? "").length;
      return session.list({ room, isLeftOut: ({ name }) => names.has(name), note: leftOutNote(session, names) });
    },
  });
  const { registered, sync } = tools;
  const { onNotice } = options;
  // Where all are disabled now, some may be enabled later: the capability cannot be added then.
  if (registered.size === 0) register(mcp, "none", listedTool(NO_TOOL), async () => envelope(NO_RESULT)).remove();
  new SkillsExtension({
    source: skillSource(session, defined({ onNotice })),
    onWarning: ({ path, message }) => onNotice?.(`${path}: ${message}`),
  }).attach(mcp);
  if (hasPrompts) servePrompts(mcp, session, sync);
  // What the client was told of, not what the session has: a call may have looked again before.
  const known = () => ({ catalog: session.catalog, names: servedNames(session, listings()) });
  let told = known();
  return {
    mcp,
    settled: tools.settled,
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

const LISTS = ["tools", "prompts", "resources"];

function infoOf({ name, version }: McpOptions): { name: string; version: string } {
  return { name: name ?? "skillet", version: version ?? (name === undefined ? packageVersion() : "0.0.0") };
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
