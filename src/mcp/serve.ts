import type { McpRequestContext, McpServer } from "@modelcontextprotocol/server";
import type { Catalog } from "../catalog/catalog.ts";
import { narrowCatalog } from "../catalog/narrow.ts";
import type { Host } from "../host/host.ts";
import { openSession } from "../session/session.ts";
import { openSharedCatalog } from "../session/shared-catalog.ts";
import { SkillError } from "../shared/error.ts";
import { count } from "../shared/text.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { openAsking } from "./asking.ts";
import { type McpOptions, type OpenServer, openServer } from "./server.ts";
import { openStanding } from "./standing.ts";

export interface ServeOptions extends Omit<McpOptions, "isStateless"> {
  /** These skills and no others. */
  only?: readonly string[];
  /** What is loaded from the start. */
  load?: readonly string[];
  /** False: no task is handed to a sub-agent. */
  uses?: boolean;
  /** Nothing of a skill is run. */
  isReadOnly?: boolean;
}

/** Skills for any number of clients, each with a session of its own. */
export interface Serving {
  /** For `serveStdio` and `serveHttp`. `isStateless`: there is a server a request. */
  open(context: Pick<McpRequestContext, "era">, options?: { isStateless?: boolean }): Promise<McpServer>;
  /** What is served, as of now. */
  readonly catalog: Catalog;
  /** Reads the sources again, and tells the clients what changed. */
  refresh(): Promise<void>;
  /** What of it a client's model or user is told of. */
  visible(): readonly Skill[];
  /** What is found and not served, since nobody has trusted it, or not as it is now. */
  readonly untrusted: readonly Skill[];
}

/** Opens what is served. Throws a SkillError when it names a skill that is not there. */
export function openServing(found: Catalog, host: Host, options: ServeOptions = {}): Serving {
  const { only, load = [], uses, isReadOnly, ...rest } = options;
  const all = new Set(only);
  const isWanted = ({ name }: Skill) => only === undefined || all.has(name);
  const standing = openStanding(host);
  const isServed = (skill: Skill) => isWanted(skill) && standing(skill) === undefined;
  const why = (skill: Skill) => (isWanted(skill) ? standing(skill) : undefined);
  const { catalog: shared, renew } = openSharedCatalog(found);
  // One object for all sessions as long as it holds the same: what is made from a catalog, its index for one, is made once.
  let last = { of: shared, names: "", catalog: shared };
  const narrow = (of: Catalog): Catalog => {
    const narrowed = narrowCatalog(of, isServed, why);
    const names = narrowed.names().join("\n");
    if (last.of !== of || last.names !== names || last.catalog === shared) {
      last = { of, names, catalog: { ...narrowed, reload: async () => narrow(await shared.reload()) } };
    }
    return last.catalog;
  };
  let catalog = narrow(shared);
  const untrusted = () => last.of.skills.filter((skill) => isWanted(skill) && standing(skill) !== undefined);
  for (const name of only ?? []) found.get(name);
  const canUse = uses !== false && isReadOnly !== true;
  for (const name of load) {
    if (!catalog.has(name)) throw notServed(found.get(name).name, catalog);
    if (catalog.get(name).manifest.context === "fork" && canUse) throw onItsOwn(name);
  }
  const note = () => {
    const { length } = untrusted();
    return length === 0 ? undefined : waiting(length);
  };
  const live = new Set<OpenServer>();
  const refused = new Set<string>();
  const stateless = openAsking();
  const instructions = new WeakMap<Catalog, string>();
  return {
    get catalog() {
      return catalog;
    },
    get untrusted() {
      return untrusted();
    },
    visible() {
      const session = openSession(catalog, host);
      return [...new Set([...session.visible(), ...session.visible("user")])];
    },
    async open(_context, { isStateless = false } = {}) {
      const choices = { uses: uses !== false, isReadOnly: isReadOnly === true };
      const session = openSession(catalog, host, { brings: "all", forks: "tell", ...choices });
      for (const name of load) {
        const skill = catalog.find(name);
        // Whoever serves it asks for it, and is neither.
        const by = skill && !isFor("user", skill) ? "model" : "user";
        const { isError, content } = await session.load(name, { by });
        if (isError && !refused.has(name)) rest.onNotice?.(`${name} is not loaded: ${content}`);
        if (isError) refused.add(name);
      }
      const asking = isStateless ? stateless : openAsking();
      const server = openServer(session, { ...rest, isStateless }, { asking, instructions, note });
      live.add(server);
      const release = () => {
        live.delete(server);
        // What waits for a word there is gone on with by another request, in this session.
        if (isStateless) return void server.settled().then(() => session.close());
        asking.close();
        session.close();
      };
      whenClosed(server.mcp, release);
      return server.mcp;
    },
    async refresh() {
      catalog = narrow(await renew());
      await Promise.all([...live].map((server) => server.refresh()));
    },
  };
}

/** One that was never connected is closed too, and then nobody else is told. Contract: once. */
function whenClosed(mcp: McpServer, release: () => void): void {
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

/** Of strangers nothing is said but how many they are. */
function waiting(number: number): string {
  return `${count(number, "skill")} of this workspace ${number === 1 ? "is" : "are"} not served until the user has looked at ${number === 1 ? "it" : "them"}: skillet trust`;
}

function notServed(name: string, { leftOut }: Catalog): SkillError {
  const why = leftOut?.(name);
  if (why) return new SkillError(why.code, why);
  return new SkillError("not-found", { message: `Skill '${name}' is not among those of --only`, fix: "add it there" });
}

/** Loading it would set it to work, for each client that connects. */
function onItsOwn(name: string): SkillError {
  return new SkillError("not-loadable", {
    message: `Skill '${name}' works on its own (context: fork): it cannot be loaded from the start`,
    fix: "leave it out: clients call it with use_skill",
  });
}
