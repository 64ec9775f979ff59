import type { McpServer } from "@modelcontextprotocol/server";
import { createTextTrust } from "../../agent/policy/trust-policy.ts";
import { type AdviceMemory, createAdviceMemory } from "../../agent/session/advise.ts";
import { openSession, type SessionOptions } from "../../agent/session/session.ts";
import { createSharedCatalog } from "../../agent/session/session-disclosure.ts";
import { type Catalog, createSkillNotFoundError, filterCatalog } from "../../catalog/catalog.ts";
import { CLIENT_LISTINGS, type ListingClient } from "../../catalog/client-listings.ts";
import type { Host } from "../../config/host.ts";
import { getSettingsRevision, type Settings } from "../../config/settings.ts";
import { formatProblem, SkillError } from "../../errors/problem.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import type { Mailbox } from "../../store/mailbox.ts";
import type { ServerScope } from "../../store/server-tokens.ts";
import { formatCount } from "../../util/text.ts";
import { createElicitations, type Elicitations } from "./elicitation.ts";
import {
  type CachedListings,
  createMcpServerHandle,
  formatLoadDescription,
  type McpServerHandle,
  type McpServerOptions,
} from "./mcp-server.ts";
import type { AdmitCall } from "./server-tools.ts";
import { formatServedListing, type ServedListing } from "./skill-prompts.ts";

export interface SkillServerOptions extends Omit<McpServerOptions, "isStateless"> {
  /** Serves only these skills. */
  only?: readonly string[];
  /** Skills to load from the start. */
  load?: readonly string[];
  /** False disables sub-agents. */
  allowsSubAgents?: boolean;
  /** Runs no code of a skill. */
  isReadOnly?: boolean;
  /**
   * Returns the names of the skills that a client reads from its own folders: they are omitted from its lists, and can still be loaded. For
   * clients on this machine, in this workspace. Defaults to none.
   */
  listedByClient?(client: ListingClient, catalog: Catalog): ReadonlySet<string> | Promise<ReadonlySet<string>>;
  /** Shared by several servers: an answer that reaches one of them continues the call that waits at another. Defaults to none. */
  mailbox?: Mailbox;
}

/** Skills for any number of clients, each with its own session. */
export interface SkillServer {
  /** Opens a server with its own session. `isStateless`: for one request. */
  open(options?: { isStateless?: boolean; caller?: ServedCaller | undefined }): Promise<McpServer>;
  /** The currently served skills. */
  readonly catalog: Catalog;
  /** Reads the sources again, and notifies the clients of changes. */
  refresh(): Promise<void>;
  /** Returns the skills that a client's model or user may see. */
  listVisible(): readonly Skill[];
  /** Returns the texts that list the skills for a client, and the omitted names that the client lists itself. */
  createListing(client: ListingClient): Promise<ServedListing & { omitted: readonly string[] }>;
  /** The skills that are not served because they are not trusted, or not in their current version. */
  readonly untrusted: readonly Skill[];
}

/** A caller with its own permissions. What waits for one caller is never continued by another. */
export interface ServedCaller {
  key: string;
  scopes: ReadonlySet<ServerScope>;
  /** Waits until the caller may run code or a sub-agent. */
  admit?: AdmitCall;
  /** The parts of the host that differ for the caller. */
  host: Partial<Host>;
}

/** Creates a server for many clients. Throws a SkillError for an unknown skill name. */
export function createSkillServer(found: Catalog, host: Host, options: SkillServerOptions = {}): SkillServer {
  const {
    only,
    load = [],
    allowsSubAgents: uses,
    isReadOnly,
    listedByClient = () => new Set<string>(),
    mailbox,
    ...rest
  } = options;
  const all = new Set(only);
  const isWanted = ({ name }: Skill) => only === undefined || all.has(name);
  const textTrust = createTextTrust(host);
  const isServed = (skill: Skill) => isWanted(skill) && textTrust(skill) === undefined;
  const { catalog: shared, reloadNow: renew } = createSharedCatalog(found);
  // One object for all sessions while it is unchanged: data derived from a catalog, such as its index, is computed once.
  let last: { of: Catalog; names: string; catalog: Catalog; untrusted: readonly Skill[] } | undefined;
  /** Evaluated on each call: a session keeps an unchanged catalog. */
  const explainExclusion = (name: string) => {
    const skill = last?.of.find(name);
    return skill && isWanted(skill) ? textTrust(skill) : undefined;
  };
  const narrow = (of: Catalog): Catalog => {
    const narrowed = filterCatalog(of, isServed);
    const names = narrowed.names().join("\n");
    if (last?.of !== of || last.names !== names) {
      const served = new Set(narrowed.skills);
      const untrusted = of.skills.filter((skill) => isWanted(skill) && !served.has(skill));
      last = {
        of,
        names,
        untrusted,
        catalog: { ...narrowed, explainExclusion, reload: async () => narrow(await shared.reload()) },
      };
    }
    return last.catalog;
  };
  let catalog = narrow(shared);
  const canUse = uses !== false && isReadOnly !== true;
  const choices: SessionOptions = {
    provides: "all",
    forkMode: "suggest",
    toolsetLoading: "background",
    recordsScripts: true,
    allowsSubAgents: uses !== false,
    isReadOnly: isReadOnly === true,
  };
  const problems = [
    ...(only ?? []).filter((name) => !found.has(name)).map((name) => createSkillNotFoundError(name, found.names())),
    ...load.flatMap((name) => findLoadProblem(name, { found, catalog, canUse }) ?? []),
  ];
  // One entry of a client serves many folders, and not all have all skills. But if all are missing, it is a mistake.
  if (problems[0] && only?.every((name) => !found.has(name))) throw problems[0];
  for (const problem of problems) rest.onNotice?.(formatProblem(problem));
  const note = () => {
    const { length = 0 } = last?.untrusted ?? [];
    return length === 0 ? undefined : formatWaitingNote(length);
  };
  const lists = new WeakMap<Catalog, Map<ListingClient, Promise<ReadonlySet<string>>>>();
  /** Computed once for each catalog: it reads the folders' contents. */
  const findOmitted = (client: ListingClient) => {
    const of = last?.of ?? found;
    const known = lists.get(of) ?? new Map<ListingClient, Promise<ReadonlySet<string>>>();
    const names = known.get(client) ?? Promise.resolve(listedByClient(client, of));
    lists.set(of, known.set(client, names));
    return names;
  };
  const live = new Set<McpServerHandle>();
  const refused = new Set<string>();
  const createCallerState = ({ key = "", scopes, host: own }: Partial<ServedCaller> = {}): CallerState => {
    const canAnswer = scopes?.has("approve") !== false;
    const served = own ? { ...host, ...own } : host;
    /** By settings object: settings decide what is visible. */
    const known = new WeakMap<Settings, WeakMap<Catalog, CachedListings>>();
    return {
      host: served,
      choices: {
        ...choices,
        allowsSubAgents: uses !== false && scopes?.has("use") !== false,
        isReadOnly: isReadOnly === true || scopes?.has("run") === false,
      },
      canAnswer,
      stateless: createElicitations({ canAnswer, relay: mailbox && { mailbox, caller: key } }),
      advised: createAdviceMemory(),
      listings() {
        const revision = getSettingsRevision(served.settings);
        const now = known.get(revision) ?? new WeakMap<Catalog, CachedListings>();
        known.set(revision, now);
        return now;
      },
    };
  };
  const everyone = createCallerState();
  const callers = new Map<string, CallerState>();
  const findCallerState = (caller: ServedCaller | undefined): CallerState => {
    if (!caller) return everyone;
    const key = [caller.key, ...caller.scopes].join("\n");
    const state = callers.get(key) ?? createCallerState(caller);
    callers.delete(key); // The callers that were active last are at the end.
    callers.set(key, state);
    const [oldest] = callers;
    if (oldest && callers.size > MAX_CALLERS) {
      oldest[1].stateless.close();
      callers.delete(oldest[0]);
    }
    return state;
  };
  return {
    get catalog() {
      return catalog;
    },
    get untrusted() {
      return last?.untrusted ?? [];
    },
    listVisible() {
      const session = openSession(catalog, host);
      return [...new Set([...session.listVisible(), ...session.listVisible("user")])];
    },
    async createListing(client) {
      const session = openSession(catalog, host, choices);
      const omitted = await findOmitted(client);
      const texts = {
        before: rest.instructions,
        after: note(),
        loadDescription: formatLoadDescription(session),
        omitted,
      };
      const names = session.listVisible().map(({ name }) => name);
      const { mcp } = CLIENT_LISTINGS[client];
      return {
        ...(await formatServedListing(session, mcp, texts)),
        omitted: names.filter((name) => omitted.has(name)),
      };
    },
    async open({ isStateless = false, caller } = {}) {
      const state = findCallerState(caller);
      const session = openSession(catalog, state.host, {
        ...state.choices,
        ...(isStateless ? { adviceMemory: state.advised } : {}),
      });
      for (const name of load) {
        const skill = catalog.find(name);
        if (!skill || (skill.manifest.context === "fork" && canUse)) continue; // Already reported.
        const by = isInvocableBy("user", skill) ? "user" : "model"; // The operator asks for it, who is neither.
        const { isError, text } = await session.load(name, { by });
        if (isError && !refused.has(name)) rest.onNotice?.(`${name} is not loaded: ${text}`);
        if (isError) refused.add(name);
      }
      if (load.length > 0) await session.ready(); // Some clients never fetch the list again.
      const { canAnswer, listings, stateless } = state;
      const asking = isStateless ? stateless : createElicitations({ canAnswer });
      // A conversation's list is ordered by usage when it started. A session for one request has no such start.
      const shared = isStateless ? { listings } : {};
      const server = createMcpServerHandle(
        session,
        { ...rest, isStateless },
        {
          elicitations: asking,
          note,
          listedByClient: findOmitted,
          scopes: caller?.scopes,
          admit: caller?.admit,
          ...shared,
        },
      );
      live.add(server);
      const release = () => {
        live.delete(server);
        // A call that waits for approval continues with another request, in this session.
        if (isStateless) return void server.settled().then(() => session.close());
        asking.close();
        session.close();
      };
      onServerClosed(server.mcp, release);
      return server.mcp;
    },
    async refresh() {
      catalog = narrow(await renew());
      await Promise.all([...live].map((server) => server.refresh()));
    },
  };
}

/** The state that the servers of one caller share, in all their requests. */
interface CallerState {
  host: Host;
  choices: SessionOptions;
  /** True if the caller may answer requests for approval. */
  canAnswer: boolean;
  stateless: Elicitations;
  advised: AdviceMemory;
  /** The listings of catalogs for the current settings. */
  listings(): WeakMap<Catalog, CachedListings>;
}

const MAX_CALLERS = 10_000;

/** Calls `release` once when a server is closed, also one that was never connected. */
function onServerClosed(mcp: McpServer, release: () => void): void {
  const close = mcp.close.bind(mcp);
  let isClosed = false;
  const closed = () => {
    if (!isClosed) release();
    isClosed = true;
  };
  mcp.server.onclose = closed;
  mcp.close = async () => {
    await close();
    closed();
  };
}

/** Reports only the number of skills that are not approved: their names and texts stay hidden. */
function formatWaitingNote(number: number): string {
  return `${formatCount(number, "skill")} of this workspace ${number === 1 ? "is" : "are"} not served until the user approves the workspace's text: skillet trust --text .`;
}

/** Returns the reason why a skill cannot be loaded from the start. */
function findLoadProblem(
  name: string,
  { found, catalog, canUse }: { found: Catalog; catalog: Catalog; canUse: boolean },
): SkillError | undefined {
  const skill = catalog.find(name);
  if (skill) return skill.manifest.context === "fork" && canUse ? createAutoRunError(name) : undefined;
  if (!found.has(name)) return createSkillNotFoundError(name, found.names());
  const why = catalog.explainExclusion?.(name);
  if (why) return new SkillError(why.code, why);
  return new SkillError("not-found", { message: `Skill '${name}' is not in --only`, fix: "add it to --only" });
}

/** Loading it would run it for each client that connects. */
function createAutoRunError(name: string): SkillError {
  return new SkillError("not-loadable", {
    message: `Skill '${name}' runs in a sub-agent (context: fork): it cannot be loaded from the start`,
    fix: "remove it from --load: clients call it with use_skill",
  });
}
