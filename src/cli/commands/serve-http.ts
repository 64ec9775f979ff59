import { createWriteStream } from "node:fs";
import { isIPv4 } from "node:net";
import {
  createIdentifier,
  createLoginThrottle,
  getServerIdentity,
  type ServerIdentity,
} from "../../adapters/mcp-server/http-identity.ts";
import { type AccessEntry, createServerMetrics } from "../../adapters/mcp-server/http-operations.ts";
import { type HttpMcpServer, serveHttp } from "../../adapters/mcp-server/http-server.ts";
import {
  createServedCaller,
  createTenantGate,
  findPersonSettings,
  getPersonFolder,
} from "../../adapters/mcp-server/served-person.ts";
import { SERVER_TOOLS } from "../../adapters/mcp-server/server-tools.ts";
import { createAuditLog } from "../../capabilities/audit-log.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { isValueReference } from "../../config/key-types.ts";
import { resolveReference } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Caller } from "../../host/approval.ts";
import type { Audit, AuditEntry } from "../../host/capability-contract.ts";
import type { SkillEvent } from "../../host/events.ts";
import { readOrCreateServerToken } from "../../remote/clients/mcp-clients.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import type { Watcher } from "../../skill/source/watch-folders.ts";
import { createApprovalStore } from "../../store/approvals.ts";
import { createServerTokenStore, joinTokenStores } from "../../store/server-tokens.ts";
import { isLoopbackHost } from "../../util/http.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { type CommandHost, discoverForRun, EXIT } from "../command-context.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printJsonLine, printProblem } from "../output.ts";
import { preapproveWorkspaceChanges } from "../run-output.ts";
import {
  createRefresher,
  createServing,
  NO_RUN,
  printHiddenSkills,
  printServerLine,
  type ServeCommandOptions,
  type ServeContext,
  type Serving,
  watchForChanges,
} from "../serving.ts";

/** A revocation on another machine counts within 2 seconds. */
const TOKEN_POLL_MS = 1000;

/** Serves the skills over HTTP until the command is interrupted. */
export async function serveOverHttp({ io, options, found: everywhere, traces }: ServeContext): Promise<number> {
  const { host, port } = parseListenAddress(options.http ?? "");
  const token = loadServerToken(options, io, everywhere.home);
  const own = createServerTokenStore(everywhere.home);
  // Tokens from before the database, or of this machine only, stay valid here.
  const tokens = everywhere.tokens ? joinTokenStores(everywhere.tokens, own) : own;
  const signal = createInterruptSignal(io);
  const metrics = createServerMetrics(new Set(Object.keys(SERVER_TOOLS)));
  const throttle = createLoginThrottle();
  const gate = createTenantGate();
  const access = openAccessLog(options.accessLog, io);
  let http: HttpMcpServer | undefined;
  const audit = createAuditLog(everywhere.home);
  const dropRevoked = () => {
    void own.refresh();
    for (const { credential, userId: user, tenant } of http?.dropRevoked() ?? []) {
      printServerLine(io, `ended the sessions and calls of ${user ?? "a client"}: its ${credential} no longer counts`);
      const entry = { ...NO_RUN, method: "server.drop", account: credential, outcome: "ok" };
      audit.add({ ...entry, ...omitUndefined({ user, tenant }) }).catch((error) => printServerLine(io, String(error)));
    }
  };
  const record = createEventRecorder(everywhere.audit ?? audit, (error) => printServerLine(io, String(error)));
  const observe = (event: SkillEvent) => {
    metrics.record(event);
    record(event);
  };
  /** Opens the skills of one workspace. */
  const openWorkspace = async (discovered: CommandHost): Promise<ServedWorkspace> => {
    // Callers over HTTP are unknown to the terminal: the options and the configuration must state the chat.
    const { caller: _, ...rest } = discovered;
    const { chatType, chatId } = options;
    const found: CommandHost = { ...rest, caller: omitUndefined({ chatType, chatId }) };
    const { serving, host: served } = createServing({ io, options, found, traces }, observe);
    const refresh = createRefresher(io, serving, found);
    const notify = async () => {
      await refresh();
      http?.notify.resourcesChanged();
      http?.notify.promptsChanged();
      http?.notify.toolsChanged();
    };
    const watching = watchForChanges(io, found, notify, { onTokens: dropRevoked });
    return { serving, host: served, found, watching };
  };
  const main = await openWorkspace(everywhere);
  const workspaces = new Map([[everywhere.workspace, Promise.resolve(main)]]);
  const findWorkspace = (identity: ServerIdentity | undefined): Promise<ServedWorkspace> => {
    const folder = findPersonSettings(everywhere.settings, identity ?? {})?.workspace ?? everywhere.workspace;
    const known = workspaces.get(folder);
    if (known) return known;
    const opening = discoverForRun(io, { ...options, workspace: folder }).then(openWorkspace);
    workspaces.set(folder, opening);
    opening.catch(() => workspaces.delete(folder));
    return opening;
  };
  const peopleOf = () => everywhere.settings.serving.people;
  const isEnabled = (person: string) => peopleOf()?.get(person)?.enabled !== false;
  const getTenant = (person: string) => peopleOf()?.get(person)?.tenant;
  const { oauth: settings, publicUrl } = everywhere.settings.serving;
  if (settings && publicUrl === undefined)
    throw new SkillError("usage", {
      message: "[server.oauth] needs the address by which clients reach this server",
      fix: "set it",
      commands: ["skillet config set server.public_url https://skills.example.com/mcp"],
    });
  const oauth =
    settings && publicUrl !== undefined
      ? (await import("../../adapters/mcp-server/oauth.ts")).createOauthResource({
          settings,
          resource: publicUrl,
          isEnabled,
          getTenant,
        })
      : undefined;
  const openApprovals = (person: string, tenant?: string) => {
    const own =
      everywhere.openApprovals?.({ person, tenant }) ??
      createApprovalStore(getPersonFolder(everywhere.home, person, tenant));
    return options.yes ? preapproveWorkspaceChanges(own) : own;
  };
  const isDatabaseReady = cacheAnswer(async () => everywhere.database?.ping());
  await tokens.refresh();
  // While the database is away, the tokens that were read count.
  const poll = () => void everywhere.tokens?.refresh().then(dropRevoked, () => {});
  const polling = setInterval(poll, TOKEN_POLL_MS).unref();
  http = await serveHttp(
    async (context) => {
      const identity = getServerIdentity(context);
      const { serving, host: served } = await findWorkspace(identity);
      const caller = identity && createServedCaller(served, identity, { openApprovals, gate });
      return serving.open({ isStateless: context.era === "modern", caller });
    },
    {
      host,
      port,
      token: token.token,
      createIdentify: (guard) =>
        createIdentifier(
          {
            token: token.token,
            tokens,
            throttle,
            getTenant,
            isEnabled,
            verifyAccessToken: oauth?.verify,
            createChallenge: oauth?.createChallenge,
          },
          guard,
        ),
      getResourceMetadata: () => oauth?.metadata,
      trustedProxies: () => everywhere.settings.serving.trustedProxies ?? [],
      allowedHosts: options.allowHost ?? [],
      allowedOrigins: options.allowOrigin ?? [],
      onNotice: (text) => printServerLine(io, text),
      onAccess(entry) {
        metrics.observeRequest(entry);
        access.write(entry);
      },
      async findUnreadiness() {
        if (tokens.problem() !== undefined) return "tokens";
        if (everywhere.currentConfiguration().isBroken) return "configuration";
        return (await isDatabaseReady()) ? undefined : "database";
      },
      formatMetrics: () =>
        metrics.format({
          sessions: http?.sessions ?? 0,
          requests_in_progress: http?.requestsInProgress ?? 0,
          failed_logins: throttle.failures,
          skills: main.serving.catalog.skills.length,
          resident_memory_bytes: process.memoryUsage.rss(),
        }),
    },
  );
  printStart(io, { options, http, main, token, listensOn: host, problem: tokens.problem() });
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  clearInterval(polling);
  await http.close();
  for (const workspace of workspaces.values()) await (await workspace.catch(() => undefined))?.watching.close();
  await access.close();
  return EXIT.fine;
}

const CACHE_MS = 1000;

/** Returns whether a check succeeds. Load balancers ask often: one check at a time, and its answer counts for a second. */
function cacheAnswer(check: () => Promise<void>): () => Promise<boolean> {
  let answer: Promise<boolean> | undefined;
  return () => {
    answer ??= check()
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        setTimeout(() => {
          answer = undefined;
        }, CACHE_MS).unref();
      });
    return answer;
  };
}

/** Returns a listener that writes each load and each end of a run or script to the audit log, with the caller. */
function createEventRecorder(audit: Audit, onError: (error: unknown) => void): (event: SkillEvent) => void {
  const sources = new Map<string, string>();
  const add = (entry: Pick<AuditEntry, "method" | "skill" | "outcome"> & Partial<AuditEntry>, caller: Caller = {}) => {
    const who = omitUndefined({ user: caller.userId, tenant: caller.tenant, chat: caller.chatId });
    audit.add({ ...NO_RUN, ...entry, ...who }).catch(onError);
  };
  return (event) => {
    if (event.type === "skill-loaded") {
      const { skill, source, caller } = event;
      add({ method: "skill.load", skill, source, outcome: "ok" }, caller);
    }
    if (event.type === "run-started") sources.set(event.run, event.source ?? "");
    if (event.type !== "run-ended" && event.type !== "run-refused") return;
    const { run, skill, caller } = event;
    const source = sources.get(run) ?? "";
    sources.delete(run);
    const outcome = event.type === "run-ended" ? event.stop : (event.refusals[0]?.code ?? "refused");
    add({ method: "skill.run", run, skill, source, outcome, ...("ms" in event ? { ms: event.ms } : {}) }, caller);
  };
}

/** The skills of one workspace, for the people who work there. */
interface ServedWorkspace extends Serving {
  found: DiscoverResult;
  watching: Watcher;
}

interface StartNotice {
  options: ServeContext["options"];
  http: HttpMcpServer;
  main: ServedWorkspace;
  token: ServerToken;
  listensOn: string;
  problem: string | undefined;
}

function printStart(io: CommandIo, { options, http, main, token, listensOn, problem }: StartNotice): void {
  const { serving, found } = main;
  const { length } = serving.listVisible();
  if (options.json) {
    printJsonLine(io.stdout, { type: "serving", url: http.url, skills: length, tokenFile: token.file ?? null });
    return;
  }
  const out = createPrinter(io.stdout, io.env);
  out.line`${http.url}`;
  printServerLine(io, `${formatCount(length, "skill")} served over MCP; press Ctrl-C to stop`);
  printServerToken(io, { ...token, url: http.url, home: found.around.home });
  if (problem !== undefined) printServerLine(io, `no token of a person counts: ${problem}`);
  if (!isLoopbackHost(listensOn))
    printServerLine(io, "other machines can connect with the token; put TLS in front of it");
  printHiddenSkills(io, serving, found);
}

interface AccessLog {
  write(entry: AccessEntry): void;
  close(): Promise<void>;
}

/** Opens the access log. Lines are dropped while the disk does not accept them: a slow disk must not fill the memory. */
function openAccessLog(path: string | undefined, io: CommandIo): AccessLog {
  if (path === undefined) return { write() {}, async close() {} };
  if (path === "-") return { write: (entry) => printJsonLine(io.stderr, entry), async close() {} };
  const stream = createWriteStream(path, { flags: "a", mode: 0o600 });
  let isBroken = false;
  stream.on("error", (error) => {
    if (!isBroken) printServerLine(io, `the access log cannot be written: ${error.message}`);
    isBroken = true;
  });
  return {
    write(entry) {
      if (!isBroken && stream.writableLength < MAX_PENDING_LOG_BYTES) stream.write(`${JSON.stringify(entry)}\n`);
    },
    close: () => new Promise((resolve) => (isBroken ? resolve() : stream.end(() => resolve()))),
  };
}

const MAX_PENDING_LOG_BYTES = 16 * 1024 * 1024;

/** `7400`, `localhost`, `127.0.0.1:7400`, `[::1]:7400`. */
function parseListenAddress(text: string): { host: string; port: number } {
  const [whole, host = "127.0.0.1", port = "7400"] = ADDRESS_PATTERN.exec(text) ?? [];
  const isNoIp = /^[\d.]+$/.test(host) && !isIPv4(host);
  if (!whole || isNoIp || Number(port) > 65_535) {
    const message = `"${truncateLine(text, 100)}" is not an address`;
    throw new SkillError("usage", { message, fix: "use a host and a port: --http 127.0.0.1:7400" });
  }
  return { host, port: Number(port) };
}

const ADDRESS_PATTERN = /^(\[[\da-f:.]+\]|(?=[^:]*[a-z.])[a-z\d][a-z\d.-]*)?:?(\d{1,5})?$/i;

interface ServerToken {
  token: string | false;
  /** The token file, if skillet created it. */
  file?: string;
  isNew?: boolean;
}

function loadServerToken({ token: value }: ServeCommandOptions, io: CommandIo, skilletHome: string): ServerToken {
  if (value === false) return { token: false };
  return typeof value === "string" ? { token: readTokenReference(value, io) } : readOrCreateServerToken(skilletHome);
}

function printServerToken(
  io: CommandIo,
  { token, file, isNew, url, home }: ServerToken & { url: string; home: string },
): void {
  const out = createPrinter(io.stderr, io.env);
  if (token === false) {
    const message = "No token is required: every user and program on this machine can run these skills as you";
    printProblem(out, out.yellow("!"), { message, fix: "omit --no-token" });
  }
  if (token === false || file === undefined) return;
  if (isNew) out.line`${out.dim("·")} the token, shown only once: ${token}`;
  printServerLine(
    io,
    `the token is in ${formatHomePath(file, home)}; for a client: skillet connect CLIENT --url ${url}`,
  );
}

/** Reads the token from a reference: a command line is visible to every user of the machine. */
function readTokenReference(reference: string, io: CommandIo): string {
  const refuse = (why: string): never => {
    const fix =
      "store at least 16 random characters (openssl rand -hex 32) in an environment variable or a file: --token env:SKILLET_TOKEN";
    throw new SkillError("usage", { message: `--token cannot be used: ${why}`, fix });
  };
  if (!isValueReference(reference))
    return refuse("it must name an environment variable or a file, not be the token itself");
  const token = resolveReference(reference, { env: io.env }, refuse).trim();
  return token.length < MIN_TOKEN_LENGTH ? refuse("it is too short") : token;
}

const MIN_TOKEN_LENGTH = 16;
