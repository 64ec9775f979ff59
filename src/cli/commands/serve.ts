import { statSync } from "node:fs";
import { isIPv4 } from "node:net";
import { join } from "node:path";
import { Option } from "commander";
import { createSkillServer, type SkillServer } from "../../adapters/mcp-server/skill-server.ts";
import { findFirstDenial } from "../../agent/policy/skill-policies.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import { findNamesListedByClient } from "../../clients/client-views.ts";
import { readOrCreateServerToken } from "../../clients/mcp-clients.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { isValueReference, resolveReference } from "../../config/key-types.ts";
import { announceProcess } from "../../config/live-settings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import type { Watcher } from "../../skill/source/watch-folders.ts";
import { omitUndefined } from "../../util/objects.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { createApprovingHost } from "../approval-prompt.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import {
  type CallerOptions,
  createConfigurationWarner,
  discoverForRun,
  requireConfiguration,
} from "../command-host.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printJsonLine, printProblem } from "../output.ts";
import { runTraced, type TraceSink } from "../progress.ts";

/** `skillet serve`. */
export const serveCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Serve skills to agents over MCP")
      .addOption(
        new Option("--http [host:port]", "Serve over Streamable HTTP on this address instead of stdio").preset(
          "127.0.0.1:7400",
        ),
      )
      .option(
        "--token <reference>",
        "With --http: require the token from env:NAME or file:PATH. Defaults to your token file.",
      )
      .option("--no-token", "With --http on a local address: let every local user and program connect")
      .option("--allow-host <name...>", "With --http: accept these additional host names")
      .option("--allow-origin <name...>", "With --http: accept web pages of these hosts")
      .option("--only <skill...>", "Serve only these skills")
      .option("--all", "Also list the text-only skills that the client reads from its own folders")
      .option("--load <skill...>", "Load these skills at startup, for clients that never refresh their list of tools")
      .option("--authoring", "Add tools that check skills for authors")
      .option("--read-only", "Do not run any tools, scripts or sub-agents")
      .option("--no-use", "Do not run sub-agents")
      .option("-y, --yes", "Approve changes inside the workspace in advance")
      .option(
        "--chat-type <type>",
        "Serve on behalf of this type of chat. Defaults to private on stdio, none over HTTP.",
      )
      .option("--chat-id <id>", "Serve on behalf of the chat with this id")
      .addHelpText("after", "\nClients start the server themselves: `skillet connect claude` configures that.")
      .addHelpText(
        "after",
        formatExamples(
          "skillet serve",
          "skillet serve --only code-review release-notes --no-use",
          "skillet serve --http",
          "skillet serve --http 0.0.0.0:7400 --token env:SKILLET_TOKEN",
        ),
      ),
  run: serveSkills,
};

interface ServeCommandOptions extends CallerOptions {
  http?: string;
  /** `false`: `--no-token`. */
  token?: string | boolean;
  allowHost?: string[];
  allowOrigin?: string[];
  only?: string[];
  all?: boolean;
  load?: string[];
  authoring?: boolean;
  readOnly?: boolean;
  /** `--no-use`. */
  use?: boolean;
  yes?: boolean;
}

/** Serves the skills found here until the client disconnects or the command is interrupted. */
async function serveSkills({ io, options }: CommandContext<ServeCommandOptions>): Promise<number> {
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  for (const [option, value] of Object.entries(listHttpOptions(options))) {
    if (options.http === undefined && value !== undefined) {
      throw new SkillError("usage", { message: `${option} needs --http`, fix: `add --http, or omit ${option}` });
    }
  }
  return runTraced(io, (traces) =>
    (options.http === undefined ? serveOverStdio : serveOverHttp)({ io, options, found, traces }),
  );
}

function listHttpOptions({ token, allowHost, allowOrigin }: ServeCommandOptions): Record<string, unknown> {
  return { "--token": token === true ? undefined : token, "--allow-host": allowHost, "--allow-origin": allowOrigin };
}

interface ServeContext extends Omit<CommandContext<ServeCommandOptions>, "args"> {
  found: DiscoverResult;
  traces: TraceSink | undefined;
}

async function serveOverStdio({ io, options, found, traces }: ServeContext): Promise<number> {
  if (!io.protocol) {
    const fix = "let a client start it (run `skillet connect claude`), or serve over HTTP with --http";
    throw new SkillError("usage", {
      message: "A client communicates over stdin and stdout, but this is a terminal",
      fix,
    });
  }
  const streams = io.protocol();
  const serving = createServing({ io, options, found, traces });
  const { serveStreams } = await import("../../adapters/mcp-server/stdio-transport.ts");
  const signal = createInterruptSignal(io);
  const watching = watchForChanges(io, found, createRefresher(io, serving, found));
  await serveStreams(serving, streams, { signal, onNotice: (text) => printServerLine(io, text) });
  await watching.close();
  return EXIT.fine;
}

async function serveOverHttp({ io, options, found: everywhere, traces }: ServeContext): Promise<number> {
  const { host, port } = parseListenAddress(options.http ?? "");
  // Callers over HTTP are unknown: the options must state the chat.
  const { caller: _, ...rest } = everywhere;
  const { chatType, chatId } = options;
  const found: DiscoverResult = { ...rest, caller: omitUndefined({ chatType, chatId }) };
  const serving = createServing({ io, options, found, traces });
  const [{ serveHttp }, { isLoopbackHost }] = await Promise.all([
    import("../../adapters/mcp-server/http-server.ts"),
    import("../../adapters/mcp-server/http-guard.ts"),
  ]);
  const token = loadServerToken(options, io, everywhere.home);
  const signal = createInterruptSignal(io);
  const http = await serveHttp((context) => serving.open({ isStateless: context.era === "modern" }), {
    host,
    port,
    token: token.token,
    allowedHosts: options.allowHost ?? [],
    allowedOrigins: options.allowOrigin ?? [],
    onNotice: (text) => printServerLine(io, text),
  });
  const refresh = createRefresher(io, serving, found);
  const watching = watchForChanges(io, found, async () => {
    await refresh();
    http.notify.resourcesChanged();
    http.notify.promptsChanged();
    http.notify.toolsChanged();
  });
  const { length } = serving.listVisible();
  if (options.json)
    printJsonLine(io.stdout, { type: "serving", url: http.url, skills: length, tokenFile: token.file ?? null });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${http.url}`;
    printServerLine(io, `${formatCount(length, "skill")} served over MCP; press Ctrl-C to stop`);
    printServerToken(io, { ...token, url: http.url, home: everywhere.around.home });
    if (!isLoopbackHost(host)) printServerLine(io, "other machines can connect with the token; put TLS in front of it");
    printHiddenSkills(io, serving, found);
  }
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  await http.close();
  await watching.close();
  return EXIT.fine;
}

function createServing({ io, options, found, traces }: ServeContext): SkillServer {
  // There is no terminal: approvals are requested from the client's user, or wait.
  const { ask: _, ...nonInteractive } = io;
  const { host: approving } = createApprovingHost(nonInteractive, found, { yes: options.yes === true });
  // Over HTTP, the user starts the server; otherwise a client does.
  const host = { ...approving, isClientEnv: options.http === undefined };
  const serving = explainUsageError(() =>
    createSkillServer(found.catalog, traces ? { ...host, onEvent: (event) => traces.record(event) } : host, {
      ...(options.only ? { only: options.only } : {}),
      ...(options.load ? { load: options.load } : {}),
      authoring: options.authoring === true,
      isReadOnly: options.readOnly === true,
      allowsSubAgents: options.use !== false,
      // Over HTTP, the client may run on another machine or in another folder.
      ...(options.all || options.http !== undefined
        ? {}
        : { listedByClient: (client, catalog) => findNamesListedByClient({ ...found, catalog }, client) }),
      onNotice: (text) => printServerLine(io, text),
    }),
  );
  printUntrustedWorkspace(io, serving, found);
  return serving;
}

/** Turns errors about the requested skills into usage errors. */
function explainUsageError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    throw new SkillError("usage", error.problem);
  }
}

/** Returns a function that notifies clients of changes, and prints skills that became untrusted. */
function createRefresher(io: CommandIo, serving: SkillServer, found: DiscoverResult): () => Promise<void> {
  const namesOf = () => serving.untrusted.map(({ name }) => name).join();
  let said = namesOf();
  return async () => {
    await serving.refresh();
    if (namesOf() !== said) printUntrustedWorkspace(io, serving, found);
    said = namesOf();
  };
}

function printUntrustedWorkspace(io: CommandIo, { untrusted }: SkillServer, { workspace }: DiscoverResult): void {
  const [first, another] = untrusted;
  if (!first) return;
  const out = createPrinter(io.stderr, io.env);
  const names = truncateLine(untrusted.map(({ name }) => name).join(", "), 200);
  const isHere = untrusted.every(({ origin }) => origin.scope === "workspace");
  const command = isHere ? `--text ${quoteIfNeeded(workspace)}` : another ? "NAME" : quoteIfNeeded(first.name);
  const message = `${formatCount(untrusted.length, "skill")} not served until ${isHere ? "approved" : "trusted"}: ${names}`;
  const fix = `review ${another ? "them" : "it"}, then run`;
  printProblem(out, out.yellow("!"), { message, fix, commands: [`skillet trust ${command}`] });
}

/** Prints the skills that are hidden because no chat was stated. */
function printHiddenSkills(io: CommandIo, serving: SkillServer, found: DiscoverResult): void {
  const isOfChat = (skill: Skill) => /^chat-/.test(findFirstDenial(skill, found)?.code ?? "");
  const hidden = serving.catalog.skills.filter(isOfChat).map(({ name }) => name);
  if (hidden.length === 0) return;
  printServerLine(
    io,
    `${formatCount(hidden.length, "skill")} not for this chat: ${hidden.join(", ")} (set --chat-type and --chat-id)`,
  );
}

/** Watches the folders, the trust and the configuration. Starts half a second later, after the client's first answer. */
function watchForChanges(io: CommandIo, found: DiscoverResult, onChange: () => Promise<void>): Watcher {
  const over = new AbortController();
  const onError = (error: unknown) => printServerLine(io, String(error));
  const changed = () => void onChange().catch(onError);
  const warn = createConfigurationWarner(io, found);
  const announcement = announceProcess(found, "server");
  let folders: Promise<Watcher | undefined> = Promise.resolve(undefined);
  const watchFolders = async (before: Promise<Watcher | undefined>, catalog: Promise<Catalog>) => {
    await (await before)?.close();
    const { watchCatalog } = await import("../../config/live-settings.ts");
    return over.signal.aborted ? undefined : watchCatalog(await catalog, changed, { onError });
  };
  const follow = (catalog: Promise<Catalog>) => {
    folders = watchFolders(folders, catalog).catch((error) => void onError(error));
  };
  let known = fingerprintTrust(found);
  const look = () => {
    const now = fingerprintTrust(found);
    announcement.update();
    if (now.configuration !== known.configuration) warn();
    if (now.sources !== known.sources) {
      follow(found.catalog.reload());
      void folders.then(changed); // Picks up changes made before the new folders were watched.
    }
    if (now.configuration !== known.configuration || now.trust !== known.trust) changed();
    known = now;
  };
  const timers = [
    setTimeout(() => follow(Promise.resolve(found.catalog)), SERVE_POLL_MS).unref(),
    setInterval(look, SERVE_POLL_MS).unref(),
  ];
  return {
    async close() {
      over.abort();
      announcement.close();
      for (const timer of timers) clearTimeout(timer);
      await (await folders)?.close();
    },
  };
}

const SERVE_POLL_MS = 500;

/** Returns the trust and configuration that decide which skills are served. */
function fingerprintTrust({ home, settings, currentConfiguration }: DiscoverResult) {
  const fingerprint = (name: string) => {
    const stats = statSync(join(home, name), { throwIfNoEntry: false });
    return `${stats?.mtimeMs}:${stats?.size}:${stats?.ino}`;
  };
  return {
    configuration: currentConfiguration(),
    sources: settings.sources,
    trust: ["trust.json", "text-approvals.json"].map(fingerprint).join(),
  };
}

function printServerLine(io: CommandIo, text: string): void {
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.dim("·")} ${truncateLine(text, 300)}`;
}

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

function loadServerToken({ token: given }: ServeCommandOptions, io: CommandIo, skilletHome: string): ServerToken {
  if (given === false) return { token: false };
  return typeof given === "string" ? { token: readTokenReference(given, io) } : readOrCreateServerToken(skilletHome);
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
