import type { McpServer } from "@modelcontextprotocol/server";
import { createTextTrust } from "../../agent/policy/trusted-text.ts";
import { createAdviceMemory } from "../../agent/session/advise.ts";
import { openSession, type SessionOptions } from "../../agent/session/session.ts";
import { createSharedCatalog } from "../../agent/session/shared-catalog.ts";
import { type Catalog, createSkillNotFoundError, filterCatalog } from "../../catalog/catalog.ts";
import { CLIENT_LISTINGS, type ListingClient } from "../../catalog/client-listings.ts";
import type { Host } from "../../config/host.ts";
import { getSettingsRevision, type Settings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { formatCount } from "../../util/text.ts";
import { createElicitations } from "./elicitation.ts";
import {
  type CachedListings,
  createMcpServerHandle,
  formatLoadDescription,
  type McpServerHandle,
  type McpServerOptions,
} from "./mcp-server.ts";
import { formatServedListing, type ServedListing } from "./server-listing.ts";

export interface SkillServerOptions extends Omit<McpServerOptions, "isStateless"> {
  /** These skills and no others. */
  only?: readonly string[];
  /** What is loaded from the start. */
  load?: readonly string[];
  /** False: no task is handed to a sub-agent. */
  uses?: boolean;
  /** Nothing of a skill is run. */
  isReadOnly?: boolean;
  /**
   * Returns the names of the skills that a client reads from its own folders: they are left out of the lists that it gets, and can be
   * loaded all the same. For clients on this machine, in this workspace. Defaults to none.
   */
  listedByClient?(client: ListingClient, catalog: Catalog): ReadonlySet<string>;
}

/** Skills for any number of clients, each with a session of its own. */
export interface SkillServer {
  /** A server with a session of its own. `isStateless`: for one request. */
  open(options?: { isStateless?: boolean }): Promise<McpServer>;
  /** What is served, as of now. */
  readonly catalog: Catalog;
  /** Reads the sources again, and tells the clients what changed. */
  refresh(): Promise<void>;
  /** What of it a client's model or user is told of. */
  visible(): readonly Skill[];
  /** Returns the texts that list the skills for a client, and the names that they leave out since the client lists them itself. */
  listing(client: ListingClient): ServedListing & { leftOut: readonly string[] };
  /** What is found and not served, since nobody has trusted it, or not as it is now. */
  readonly untrusted: readonly Skill[];
}

/** Opens what is served. Throws a SkillError when it names a skill that is not there. */
export function createSkillServer(found: Catalog, host: Host, options: SkillServerOptions = {}): SkillServer {
  const { only, load = [], uses, isReadOnly, listedByClient = () => new Set<string>(), ...rest } = options;
  const all = new Set(only);
  const isWanted = ({ name }: Skill) => only === undefined || all.has(name);
  const standing = createTextTrust(host);
  const isServed = (skill: Skill) => isWanted(skill) && standing(skill) === undefined;
  const { catalog: shared, renew } = createSharedCatalog(found);
  // One object for all sessions as long as it holds the same: what is made from a catalog, its index for one, is made once.
  let last: { of: Catalog; names: string; catalog: Catalog; untrusted: readonly Skill[] } | undefined;
  /** As of now: a session keeps a catalog as long as what is in it says the same. */
  const leftOut = (name: string) => {
    const skill = last?.of.find(name);
    return skill && isWanted(skill) ? standing(skill) : undefined;
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
        catalog: { ...narrowed, leftOut, reload: async () => narrow(await shared.reload()) },
      };
    }
    return last.catalog;
  };
  let catalog = narrow(shared);
  const canUse = uses !== false && isReadOnly !== true;
  const choices: SessionOptions = {
    brings: "all",
    forks: "tell",
    toolsetLoading: "background",
    uses: uses !== false,
    isReadOnly: isReadOnly === true,
  };
  const problems = [
    ...(only ?? []).filter((name) => !found.has(name)).map((name) => createSkillNotFoundError(name, found.names())),
    ...load.flatMap((name) => findLoadProblem(name, { found, catalog, canUse }) ?? []),
  ];
  // One entry of a client serves many folders, and not all have all skills. But nothing at all is not what was meant.
  if (problems[0] && only?.every((name) => !found.has(name))) throw problems[0];
  for (const { message, fix = "" } of problems) rest.onNotice?.(fix === "" ? message : `${message}: ${fix}`);
  const note = () => {
    const { length = 0 } = last?.untrusted ?? [];
    return length === 0 ? undefined : formatWaitingNote(length);
  };
  const lists = new WeakMap<Catalog, Map<ListingClient, ReadonlySet<string>>>();
  /** Once a catalog: it reads the folders' contents. */
  const leftOutFor = (client: ListingClient) => {
    const of = last?.of ?? found;
    const known = lists.get(of) ?? new Map<ListingClient, ReadonlySet<string>>();
    const names = known.get(client) ?? listedByClient(client, of);
    lists.set(of, known.set(client, names));
    return names;
  };
  const live = new Set<McpServerHandle>();
  const refused = new Set<string>();
  const stateless = createElicitations();
  const advised = createAdviceMemory();
  /** By revision of the settings, which decide what is visible. */
  const known = new WeakMap<Settings, WeakMap<Catalog, CachedListings>>();
  const listings = () => {
    const revision = getSettingsRevision(host.settings);
    const now = known.get(revision) ?? new WeakMap<Catalog, CachedListings>();
    known.set(revision, now);
    return now;
  };
  return {
    get catalog() {
      return catalog;
    },
    get untrusted() {
      return last?.untrusted ?? [];
    },
    visible() {
      const session = openSession(catalog, host);
      return [...new Set([...session.visible(), ...session.visible("user")])];
    },
    listing(client) {
      const session = openSession(catalog, host, choices);
      const leftOut = leftOutFor(client);
      const texts = {
        before: rest.instructions,
        after: note(),
        loadDescription: formatLoadDescription(session),
        leftOut,
      };
      const names = session.visible().map(({ name }) => name);
      const { mcp } = CLIENT_LISTINGS[client];
      return { ...formatServedListing(session, mcp, texts), leftOut: names.filter((name) => leftOut.has(name)) };
    },
    async open({ isStateless = false } = {}) {
      const session = openSession(catalog, host, { ...choices, ...(isStateless ? { advised } : {}) });
      for (const name of load) {
        const skill = catalog.find(name);
        if (!skill || (skill.manifest.context === "fork" && canUse)) continue; // It was said.
        const by = isInvocableBy("user", skill) ? "user" : "model"; // Whoever serves it asks for it, and is neither.
        const { isError, content } = await session.load(name, { by });
        if (isError && !refused.has(name)) rest.onNotice?.(`${name} is not loaded: ${content}`);
        if (isError) refused.add(name);
      }
      if (load.length > 0) await session.ready(); // Some clients never look at the list again.
      const asking = isStateless ? stateless : createElicitations();
      // A conversation lists by what was used most when it began; one that ends with a request has no beginning of its own.
      const shared = isStateless ? { listings } : {};
      const server = createMcpServerHandle(
        session,
        { ...rest, isStateless },
        { asking, note, listedByClient: leftOutFor, ...shared },
      );
      live.add(server);
      const release = () => {
        live.delete(server);
        // What waits for a word there is gone on with by another request, in this session.
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

/** One that was never connected is closed too, and then nobody else is told. Contract: once. */
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

/** Names and texts of skills that are not approved stay hidden: only their number is given. */
function formatWaitingNote(number: number): string {
  return `${formatCount(number, "skill")} of this workspace ${number === 1 ? "is" : "are"} not served until the user approves the workspace's text: skillet trust --text .`;
}

/** Why a skill cannot be loaded from the start. */
function findLoadProblem(
  name: string,
  { found, catalog, canUse }: { found: Catalog; catalog: Catalog; canUse: boolean },
): SkillError | undefined {
  const skill = catalog.find(name);
  if (skill) return skill.manifest.context === "fork" && canUse ? createAutoRunError(name) : undefined;
  if (!found.has(name)) return createSkillNotFoundError(name, found.names());
  const why = catalog.leftOut?.(name);
  if (why) return new SkillError(why.code, why);
  return new SkillError("not-found", { message: `Skill '${name}' is not among those of --only`, fix: "add it there" });
}

/** Loading it would set it to work, for each client that connects. */
function createAutoRunError(name: string): SkillError {
  return new SkillError("not-loadable", {
    message: `Skill '${name}' works on its own (context: fork): it cannot be loaded from the start`,
    fix: "leave it out: clients call it with use_skill",
  });
}
