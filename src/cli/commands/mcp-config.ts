import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Option } from "commander";
import { pickProblem, SkillError } from "../../errors/problem.ts";
import { type ConnectionRecord, createConnectionStore } from "../../remote/clients/apply-connection.ts";
import {
  type ConfigScope,
  describeEntry,
  getServerTokenPath,
  isLocalUrl,
  MCP_CLIENTS,
  MCP_URL_PATH,
  type McpClient,
  type McpClientEnvironment,
  type McpServerTarget,
  SERVER_TOKEN_VARIABLE,
} from "../../remote/clients/mcp-clients.ts";
import {
  createSnippetObject,
  formatSnippet,
  type McpSnippet,
  type MergedConfig,
  readClientDocument,
  writeMcpSnippet,
} from "../../remote/clients/mcp-config.ts";
import { type ConnectionState, findServerName, readConnection } from "../../remote/clients/plan-connection.ts";
import { MCP_CLIENT_NAMES } from "../../skill/clients.ts";
import { type Environment, formatDisplayPath, formatHomePath } from "../../skill/source/locations.ts";
import { packageRoot } from "../../util/system.ts";
import { quoteIfNeeded } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, printJson, printProblem } from "../output.ts";
import { buildProgram } from "../program.ts";

/** `skillet mcp-config`: prints or writes the server's entry without the hook. `connect` does more. */
export const mcpConfigCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Print or write the client configuration that starts `skillet serve`")
      .addOption(new Option("--for <client>", "Configure this client").choices(MCP_CLIENT_NAMES).makeOptionMandatory())
      .option("--write", "Add the entry to the client's configuration file")
      .option("--project", "Use the client's configuration file of this workspace")
      .option("--name <name>", "Set the server's name in the client", "skillet")
      .option("--url <address>", "Connect to a running server: http://127.0.0.1:7400/mcp")
      .argument("[option...]", "Options for `skillet serve`, after --")
      .addHelpText("after", "\n`skillet connect` also writes the prompt hook, and can remove both.")
      .addHelpText(
        "after",
        formatExamples(
          "skillet mcp-config --for claude",
          "skillet mcp-config --for codex --write",
          "skillet mcp-config --for vscode --project --write -- --only code-review",
        ),
      ),
  run: printMcpConfig,
  afterError: "options for the server go after --; ",
};

interface McpConfigOptions {
  for: string;
  write?: boolean;
  project?: boolean;
  name?: string;
  url?: string;
}

/** Prints the configuration that makes a client start `skillet serve`, or writes it into the client's file. */
async function printMcpConfig({ io, options, args }: CommandContext<McpConfigOptions>): Promise<number> {
  const name = checkServerName(options);
  const client = findMcpClient(options.for);
  const scope: ConfigScope = options.project ? "project" : "user";
  const environment = resolveCommandEnvironment(io, options);
  const server = await resolveServer(io, { ...options, args, client, environment });
  const file = client[scope]({ ...environment, env: io.env, platform: process.platform });
  const path = [...client.servers(await readClientDocument(file, client.format)), name];
  const snippet: McpSnippet = { format: client.format, path, entry: client.entry(server) };
  // The client's own command writes project files in its working directory.
  const command = scope === "user" || environment.workspace === io.cwd ? client.add?.(name, server, scope) : undefined;
  const outcome = options.write ? await writeServerEntry(file, snippet, { client, scope }) : "not asked";
  const written = typeof outcome === "object" && "after" in outcome;
  const replaced = written ? compareEntries(outcome) : undefined;
  if (options.json) {
    const shown = {
      client: options.for,
      file,
      format: client.format,
      snippet: createSnippetObject(snippet),
      isWritten: written,
    };
    const error = outcome instanceof SkillError ? { error: outcome.problem } : {};
    printJson(io.stdout, { ...shown, replaced: replaced ?? null, command: command ?? null, ...error });
  }
  if (outcome instanceof SkillError) return printUnwritten(io, options.json ? undefined : snippet, outcome);
  if (options.json) return EXIT.fine;
  const shown = scope === "user" ? formatHomePath(file, environment.home) : formatDisplayPath(file, environment);
  if (options.write) {
    const out = createPrinter(io.stdout, io.env);
    const done = replaced ? "changed in" : written ? "added to" : "was already in";
    out.line`${out.green("✓")} ${name} ${done} ${shown}`;
    if (replaced) printReplaced(io, replaced);
  } else {
    printSnippet(io, snippet);
    const out = createPrinter(io.stderr, io.env);
    out.line`${out.dim("·")} it belongs in ${shown}: ${out.cyan("--write")} adds it there`;
    if (command) out.line`  or let ${client.title} do it: ${out.cyan(command.map(quoteIfNeeded).join(" "))}`;
  }
  if (outcome !== "same")
    printClientNextSteps(io, { client, scope, server, tokenFile: getServerTokenPath(environment.skilletHome) });
  if ("url" in server) printChangedAddress(io, options.url ?? "", server);
  return EXIT.fine;
}

/** Checks the server's name in the client. */
export function checkServerName({ name = "skillet" }: Pick<McpConfigOptions, "name">): string {
  if (/^[A-Za-z0-9][\w-]{0,63}$/.test(name)) return name;
  throw new SkillError("usage", {
    message: `"${name}" is not a valid server name`,
    fix: 'use up to 64 letters, digits, "_" and "-", a letter or digit first',
  });
}

function findMcpClient(name: string): McpClient {
  const client = Object.hasOwn(MCP_CLIENTS, name) ? MCP_CLIENTS[name] : undefined;
  if (client) return client;
  throw new SkillError("usage", {
    message: `Unknown client "${name}"`,
    fix: `supported clients: ${Object.keys(MCP_CLIENTS).join(", ")}`,
  });
}

interface ServerRequest extends Pick<McpConfigOptions, "url" | "project">, CommonOptions {
  args: readonly string[];
  client: McpClient;
  environment: Environment;
}

/** Returns the client's entry for the server that the options describe. */
export async function resolveServer(
  io: CommandIo,
  { url, args, workspace, project, client, environment }: ServerRequest,
): Promise<McpServerTarget> {
  if (url !== undefined) return parseServerUrl(io, url, args, getTokenFile(client, environment));
  await checkServeOptions(io, args);
  const value = workspace !== undefined ? environment.workspace : project ? client.workspace : undefined;
  const where = value === undefined ? [] : ["--workspace", value];
  // By absolute paths, because the package is not published, and a client started from a desktop does not find the `node` of a version
  // manager. An older Node works too: the program restarts itself with its own Node if that is next to it.
  const { command, args: program } = getOwnProgram();
  return { command, args: [...program, "serve", ...where, ...args] };
}

/** Returns the command that starts this program: Node and its path. */
export function getOwnProgram(): { command: string; args: string[] } {
  return { command: process.execPath, args: [join(packageRoot() ?? "", "bin", "skillet.cjs")] };
}

/** Returns the token file of this user's own server, for a client that can refer to it. */
function getTokenFile({ readsTokenFile }: McpClient, { skilletHome }: Environment): string | undefined {
  return readsTokenFile ? getServerTokenPath(skilletHome) : undefined;
}

function parseServerUrl(
  io: CommandIo,
  address: string,
  args: readonly string[],
  tokenFile: string | undefined,
): McpServerTarget {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") {
    throw new SkillError("usage", {
      message: "--url needs an address with http:// or https:// and without a password",
      fix: `for example http://127.0.0.1:7400/mcp; the client reads the token from ${SERVER_TOKEN_VARIABLE}`,
    });
  }
  if (args.length > 0) {
    throw new SkillError("usage", {
      message: "--url connects to a running server, which takes no options",
      fix: "set them where it is started",
      commands: ["skillet serve --http …"],
    });
  }
  if (url.pathname === "/") url.pathname = MCP_URL_PATH;
  const isOwn = isLocalUrl(url) && !io.env[SERVER_TOKEN_VARIABLE];
  return { url: url.href, hasToken: true, ...(isOwn && tokenFile !== undefined ? { tokenFile } : {}) };
}

/** Rejects options that `skillet serve` would reject: a client would only report that the server did not start. */
async function checkServeOptions(io: CommandIo, args: readonly string[]): Promise<void> {
  const serve = (await buildProgram(io, ["serve"], () => {})).commands.find((command) => command.name() === "serve");
  if (!serve) return;
  const { operands, unknown } = serve.parseOptions([...args]);
  const [wrong] = [...operands, ...unknown];
  if (wrong !== undefined) {
    throw new SkillError("usage", {
      message: `"${wrong}" is not an option of \`skillet serve\``,
      fix: "see its options",
      commands: ["skillet serve --help"],
    });
  }
  if (serve.opts()["http"] !== undefined) {
    throw new SkillError("usage", {
      message: "A server started by a client uses stdin and stdout, so --http has no effect",
      fix: "start it yourself, and pass its address with --url",
      commands: ["skillet serve --http"],
    });
  }
}

async function writeServerEntry(
  file: string,
  snippet: McpSnippet,
  { client, scope }: { client: McpClient; scope: ConfigScope },
): Promise<MergedConfig | "same" | SkillError> {
  try {
    const mode = scope === "user" ? 0o600 : 0o644;
    return (await writeMcpSnippet(file, snippet, { client, mode })) ?? "same";
  } catch (error) {
    if (error instanceof SkillError) return error;
    throw error;
  }
}

/** Prints the error, and the snippet to stdout, so that it can be added by hand. */
function printUnwritten(io: CommandIo, snippet: McpSnippet | undefined, error: SkillError): number {
  if (snippet) printSnippet(io, snippet);
  const out = createPrinter(io.stderr, io.env);
  printProblem(out, out.red("✗"), error);
  return REFUSAL_CODES.has(error.code) ? EXIT.refused : EXIT.findings;
}

const REFUSAL_CODES = new Set(["server-name-taken", "unmanaged-keys"]);

/** An entry of skillet that was replaced. */
interface ReplacedEntry {
  was: string;
  is: string;
  /** The changed keys, without values: these may be secrets. */
  keys: string[];
}

function compareEntries({ before, after }: MergedConfig): ReplacedEntry | undefined {
  if (Object.keys(before).length === 0) return undefined;
  const all = new Set([...Object.keys(before), ...Object.keys(after)]);
  const keys = [...all].filter((key) => !isDeepStrictEqual(before[key], after[key]));
  return { was: describeEntry(before), is: describeEntry(after), keys };
}

function printReplaced(io: CommandIo, { was, is, keys }: ReplacedEntry): void {
  const out = createPrinter(io.stderr, io.env);
  if (was === is) {
    out.line`  changed keys: ${keys.join(", ")}`;
    return;
  }
  out.line`  before:  ${was}`;
  out.line`  now:     ${is}`;
  const words = is.split(" ");
  if (words[0] === "serve" && was.startsWith("serve") && was.split(" ").some((word) => !words.includes(word))) {
    out.line`  options for the server are not kept: repeat them after --`;
  }
}

function printSnippet(io: CommandIo, snippet: McpSnippet): void {
  if (snippet.format !== "toml") printJson(io.stdout, createSnippetObject(snippet));
  else if (io.stdout.isTTY) {
    const out = createPrinter(io.stdout, io.env);
    for (const line of formatSnippet(snippet).trimEnd().split("\n")) out.line`${line}`;
  } else io.stdout.write(formatSnippet(snippet));
}

interface NextStepsContext {
  client: McpClient;
  scope: ConfigScope;
  server: McpServerTarget;
  tokenFile: string;
}

/** Prints the steps that make the client use the server. */
export function printClientNextSteps(io: CommandIo, { client, scope, server, tokenFile }: NextStepsContext): void {
  const out = createPrinter(io.stderr, io.env);
  out.line`  then ${client.next}`;
  if (scope === "project") out.line`  it may first ask whether you trust the project`;
  if ("url" in server && server.tokenFile === undefined)
    out.line`  start ${client.title} with ${SERVER_TOKEN_VARIABLE} set to the token`;
  if ("url" in server && server.tokenFile === undefined && isLocalUrl(new URL(server.url)))
    out.line`  of your own server: export ${SERVER_TOKEN_VARIABLE}="$(cat ${quoteIfNeeded(tokenFile)})"`;
  if (!("url" in server) && scope === "project")
    out.line`  it contains paths of this machine: other users of the file need their own`;
}

/** Prints the address if it was completed. */
function printChangedAddress(io: CommandIo, value: string, { url }: Extract<McpServerTarget, { url: string }>): void {
  const out = createPrinter(io.stderr, io.env);
  if (new URL(value).href !== url) out.line`  ${MCP_URL_PATH} was added to the address: ${url}`;
}

/** A client, and the state of its connection in one scope. */
export interface ConnectionFacts {
  client: string;
  title: string;
  scope: ConfigScope;
  /** True if its program or its folder is on this machine. */
  isFound: boolean;
  state: ConnectionState;
}

/** Reads the connections of all clients in the user scope, and those that are connected in the project. */
export async function readConnections(
  environment: McpClientEnvironment,
  records: Readonly<Record<string, ConnectionRecord>>,
): Promise<ConnectionFacts[]> {
  const facts: ConnectionFacts[] = [];
  for (const [client, row] of Object.entries(MCP_CLIENTS)) {
    const isFound = existsSync(row.folder(environment)) || isInPath(row.program, environment);
    for (const scope of ["user", "project"] as const) {
      const name = (await findServerName({ client, scope, environment })) ?? "skillet";
      const state = await readConnection({ client, scope, environment, name }, records);
      const isSame = scope === "project" && row.user(environment) === row.project(environment);
      if (scope === "user" || (!isSame && isConnected(state)))
        facts.push({ client, title: row.title, scope, isFound, state });
    }
  }
  return facts;
}

export function isConnected({ server, hook }: ConnectionState): boolean {
  return server.entry !== undefined || hook?.handler !== undefined;
}

/** Lists the clients on this machine with their connections. */
export async function listConnections(io: CommandIo, options: CommonOptions): Promise<number> {
  const commandEnvironment = resolveCommandEnvironment(io, options);
  const environment = { ...commandEnvironment, env: io.env, platform: process.platform };
  const all = await readConnections(environment, createConnectionStore(commandEnvironment.skilletHome).entries());
  const facts = all.filter(({ isFound, scope, state }) => isFound || scope === "project" || isConnected(state));
  if (options.json) {
    printJson(io.stdout, { clients: all.map(toConnectionJson) });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  if (facts.length === 0)
    out.line`No supported client was found on this machine. Supported clients: ${Object.keys(MCP_CLIENTS).join(", ")}`;
  const widest = Math.max(0, ...facts.map(({ title }) => title.length));
  for (const { client, title, scope, state } of facts) {
    const problem = state.server.problem ?? state.hook?.problem;
    const { mark, text } = problem
      ? { mark: out.red("✗"), text: problem.message }
      : isConnected(state)
        ? { mark: out.green("✓"), text: formatConnectedParts(state) }
        : { mark: out.dim("·"), text: `not connected: skillet connect ${client}` };
    out.line`${mark} ${title.padEnd(widest)}  ${scope === "project" ? "this project: " : ""}${text}`;
  }
  const missing = all.filter(({ isFound, scope, state }) => !isFound && scope === "user" && !isConnected(state));
  if (missing.length > 0)
    out.line`${out.dim(`Not found on this machine: ${missing.map(({ title }) => title).join(", ")}`)}`;
  return EXIT.fine;
}

function formatConnectedParts({ server, hook }: ConnectionState): string {
  const parts = [server.entry && "server", hook?.handler && "prompt hook"].filter((part) => part !== undefined);
  return parts.join(" and ");
}

function toConnectionJson({ client, title, scope, isFound, state: { server, hook } }: ConnectionFacts) {
  const problem = server.problem ?? hook?.problem;
  return {
    client,
    title,
    scope,
    isFound,
    server: { file: server.file, isConnected: server.entry !== undefined },
    hook: hook ? { file: hook.file, isConnected: hook.handler !== undefined } : null,
    problem: problem ? pickProblem(problem) : null,
  };
}

function isInPath(program: string, { env, platform }: McpClientEnvironment): boolean {
  const names = platform === "win32" ? [`${program}.exe`, `${program}.cmd`] : [program];
  return (env["PATH"] ?? "").split(delimiter).some((folder) =>
    names.some((name) => {
      try {
        if (folder === "") return false;
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    }),
  );
}
