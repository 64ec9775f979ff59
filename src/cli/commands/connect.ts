import { Argument } from "commander";
import { LISTING_CLIENTS } from "../../catalog/client-listings.ts";
import { editConfig } from "../../config/config-edit.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import {
  applyConnectionChanges,
  createConnectionStore,
  removeCreatedFolders,
} from "../../remote/clients/apply-connection.ts";
import {
  type ClientConfigEntry,
  type ConfigScope,
  getServerTokenPath,
  isLocalUrl,
  MCP_CLIENTS,
  type McpClient,
  type McpServerTarget,
} from "../../remote/clients/mcp-clients.ts";
import { findNamesListedByClient } from "../../remote/clients/native-clients.ts";
import {
  type ConfigFileChange,
  type ConnectionTarget,
  planConnection,
  readConnection,
} from "../../remote/clients/plan-connection.ts";
import { planDisconnection } from "../../remote/clients/plan-disconnection.ts";
import { type HookKind, PROMPT_HOOKS } from "../../remote/clients/prompt-hook-config.ts";
import { MCP_CLIENT_NAMES } from "../../skill/clients.ts";
import { isTextOnly } from "../../skill/skill-code.ts";
import { type Environment, formatDisplayPath, formatHomePath } from "../../skill/source/locations.ts";
import { filterAsync } from "../../util/async.ts";
import { formatCount } from "../../util/text.ts";
import { escapeForTerminal } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  printConfigurationWarnings,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printJson, printProblem } from "../output.ts";
import { checkServerName, getOwnProgram, printClientNextSteps, resolveServer } from "./mcp-config.ts";
import { findUntrustedCode } from "./trust-review.ts";

/** `skillet connect`. */
export const connectCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Add the server and the prompt hook to a client's configuration, or list the clients")
      .addArgument(new Argument("[client]", "The client").choices(MCP_CLIENT_NAMES))
      .argument("[option...]", "Options for `skillet serve`, after --")
      .option("--project", "Connect in this workspace only")
      .option("--remove", "Remove the server and the hook")
      .option("--no-hook", "Write the server only")
      .option("--hook-command", "Start a process per prompt instead of calling the running server")
      .option("--approve-tools", "Let Codex call skillet's tools without asking, as `codex exec` requires")
      .option("--use-client-key", "Let `use_skill` spend the API key that Claude Code passes to the server")
      .option("--name <name>", "Set the server's name in the client", "skillet")
      .option("--url <address>", "Connect to a running server: http://127.0.0.1:7400/mcp")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("-y, --yes", "Write without asking")
      .addHelpText("after", "\nWithout a client: lists the clients on this machine and their connections.")
      .addHelpText(
        "after",
        formatExamples(
          "skillet connect",
          "skillet connect claude",
          "skillet connect codex --approve-tools --yes",
          "skillet connect cursor --project --dry-run",
          "skillet connect gemini --remove",
          "skillet connect vscode --project -- --only code-review",
        ),
      ),
  run: connectOrList,
  afterError: "options for the server go after --; ",
};

interface ConnectCommandOptions {
  project?: boolean;
  remove?: boolean;
  /** `false`: `--no-hook`. */
  hook?: boolean;
  hookCommand?: boolean;
  approveTools?: boolean;
  useClientKey?: boolean;
  name?: string;
  url?: string;
  dryRun?: boolean;
  yes?: boolean;
}

/** Connects a client: writes the server and the prompt hook into its files, after showing the change; or removes both. */
async function connectOrList({ io, options, args }: CommandContext<ConnectCommandOptions>): Promise<number> {
  const [client, ...serveOptions] = args;
  if (client === undefined) {
    const { listConnections } = await import("./mcp-config.ts");
    return listConnections(io, options);
  }
  const commandEnvironment = resolveCommandEnvironment(io, options);
  const scope: ConfigScope = options.project ? "project" : "user";
  const environment = { ...commandEnvironment, env: io.env, platform: process.platform };
  const at: ConnectionTarget = { client, scope, environment, name: checkServerName(options) };
  const records = createConnectionStore(commandEnvironment.skilletHome);
  const problem = records.problem();
  if (problem !== undefined) {
    throw new SkillError("connections-unreadable", {
      message: `${records.file} cannot be read: ${problem}`,
      fix: "delete it: `connect --remove` then still removes its entries, but may format a file differently",
    });
  }
  const work = { io, options, environment: commandEnvironment, at, records };
  return options.remove ? disconnectClient(work) : connectClient(work, serveOptions);
}

interface ConnectContext {
  io: CommandIo;
  options: ConnectCommandOptions & CommonOptions;
  environment: Environment;
  at: ConnectionTarget;
  records: ReturnType<typeof createConnectionStore>;
}

async function connectClient(work: ConnectContext, serveOptions: readonly string[]): Promise<number> {
  const { io, options, environment, at, records } = work;
  const row = findClient(at.client);
  checkOptions(at.client, row, options);
  const server = await resolveServer(io, { ...options, args: serveOptions, client: row, environment });
  const hook = resolveHook(at.client, server, options);
  const more = await askApprovalMode(work);
  const changes = await planConnection(
    { ...at, server, hook, program: getOwnProgram(), ...(more ? { more } : {}) },
    records.entries(),
  );
  const isWritten = await confirmAndWrite(work, changes, "Write these changes?");
  const found = await discoverForCommand(io, options);
  const consent = isWritten || changes.length === 0 ? await askKeyConsent(work, row, found) : undefined;
  if (options.json) {
    printJson(io.stdout, { ...toConnectJson(work, changes, isWritten), hook: hook ?? null });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  if (isWritten)
    out.line`${out.green("✓")} ${row.title} is connected: ${hook === undefined ? "server" : "server and prompt hook"}`;
  else if (!changes.some(isChange)) out.line`${out.green("✓")} ${row.title} is already connected: nothing to change`;
  if (options.dryRun) return EXIT.fine;
  if (isWritten)
    printClientNextSteps(io, {
      client: row,
      scope: at.scope,
      server,
      tokenFile: getServerTokenPath(environment.skilletHome),
    });
  await printConnectAdvice(work, { row, hook, server, serveOptions, found, consent });
  return EXIT.fine;
}

async function disconnectClient(work: ConnectContext): Promise<number> {
  const { io, options, at, records } = work;
  const row = findClient(at.client);
  const known = records.entries();
  const changes = await planDisconnection(at, known);
  const before = changes.map(({ file }) => known[file]);
  const isWritten = await confirmAndWrite(work, changes, "Remove these entries?");
  if (isWritten) removeCreatedFolders(before);
  if (options.json) {
    printJson(io.stdout, { ...toConnectJson(work, changes, isWritten), hook: null });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  if (isWritten) out.line`${out.green("✓")} ${row.title} is disconnected`;
  else if (!changes.some(isChange)) out.line`${out.green("✓")} ${row.title} is not connected: nothing to remove`;
  const shared = changes.filter((change) => !isChange(change) && change.record !== undefined);
  for (const { file, record } of shared)
    out.line`  ${formatHomePath(file, work.environment.home)} was not changed: ${record?.clients.join(", ") ?? ""} uses it too`;
  return EXIT.fine;
}

/** Shows the changes, asks, and writes them. Returns false if there is nothing to write, or with `--dry-run`. */
async function confirmAndWrite(
  work: ConnectContext,
  changes: readonly ConfigFileChange[],
  question: string,
): Promise<boolean> {
  const { io, options, records } = work;
  const visible = changes.filter(isChange);
  if (!options.json) printChanges(createPrinter(io.stdout, io.env), visible, work.environment);
  if (options.dryRun) return false;
  if (visible.length > 0 && !options.yes && !(await isConfirmed(io, question))) {
    const fix = io.ask ? "run the command again to retry" : "run it at a terminal, or add --yes";
    throw new SkillError("not-confirmed", { message: "Nothing was written", fix });
  }
  if (changes.length > 0) applyConnectionChanges(changes, records);
  return visible.length > 0;
}

function isChange({ before, after }: ConfigFileChange): boolean {
  return before !== after;
}

/** Prints the inserted and removed lines without context: adjacent lines may contain secrets of other servers. */
function printChanges(out: Printer, changes: readonly ConfigFileChange[], environment: Environment): void {
  for (const { file, before, after, spans, hidden } of changes) {
    const kind = after === undefined ? " (deleted)" : before === undefined ? " (new file)" : "";
    out.line`${out.bold(formatConfigPath(file, environment))}${kind}`;
    let line = 0;
    const shownSpans = before === undefined ? [{ at: 0, removed: "", inserted: after ?? "" }] : spans;
    for (const { at, removed, inserted } of shownSpans) {
      const start = (before ?? "").slice(0, at).split("\n").length + (/^\r?\n/.test(removed || inserted) ? 1 : 0);
      if (kind === "" && start !== line) out.line`  ${out.dim(`line ${start}`)}`;
      line = start;
      for (const text of splitRedacted(removed, hidden)) out.line`  ${out.red(`- ${text}`)}`;
      for (const text of splitRedacted(inserted, hidden)) out.line`  ${out.green(`+ ${text}`)}`;
    }
  }
}

function splitRedacted(text: string, hidden: readonly string[]): string[] {
  const safe = hidden
    .filter((value) => value.length > 0)
    .reduce((redacted, value) => redacted.replaceAll(value, "…"), text);
  const lines = escapeForTerminal(safe.replaceAll("\r\n", "\n")).split("\n");
  return lines.filter((line, at) => line.trim() !== "" || (at > 0 && at < lines.length - 1));
}

function formatConfigPath(file: string, environment: Environment): string {
  const short = formatHomePath(file, environment.home);
  return short === file ? formatDisplayPath(file, environment) : short;
}

function toConnectJson({ at, options }: ConnectContext, changes: readonly ConfigFileChange[], isWritten: boolean) {
  return {
    client: at.client,
    scope: at.scope,
    isWritten,
    isDryRun: options.dryRun === true,
    files: changes.filter(isChange).map(({ file, before, after, spans, hidden }) => ({
      file,
      change: before === undefined ? "create" : after === undefined ? "delete" : "change",
      edits: spans.map(({ removed, inserted }) => ({
        removed: splitRedacted(removed, hidden).join("\n"),
        inserted: splitRedacted(inserted, hidden).join("\n"),
      })),
    })),
  };
}

function findClient(client: string): McpClient {
  const row = Object.hasOwn(MCP_CLIENTS, client) ? MCP_CLIENTS[client] : undefined;
  if (row) return row;
  throw new SkillError("usage", {
    message: `Unknown client "${client}"`,
    fix: `Supported clients: ${Object.keys(MCP_CLIENTS).join(", ")}`,
  });
}

/** Throws for an option that does not apply to the client. */
function checkOptions(client: string, { title, passesKey }: McpClient, options: ConnectCommandOptions): void {
  const wrong = options.approveTools && client !== "codex" ? "--approve-tools" : undefined;
  const option = wrong ?? (options.useClientKey && passesKey === undefined ? "--use-client-key" : undefined);
  if (option === undefined) return;
  throw new SkillError("usage", { message: `${option} has no effect on ${title}`, fix: `Omit ${option}` });
}

/** Returns the kind of hook. A remote server has other skills than a hook command on this machine would suggest. */
function resolveHook(
  client: string,
  server: McpServerTarget,
  { hook: isWanted, hookCommand }: ConnectCommandOptions,
): HookKind | undefined {
  const hook = PROMPT_HOOKS[client];
  if (!hook || isWanted === false) return undefined;
  if (!("plugin" in hook) && hook.callsTools && !hookCommand) return "mcp_tool";
  return "url" in server && !isLocalUrl(new URL(server.url)) ? undefined : "command";
}

/** Codex refuses tools with side effects where it cannot ask, as in `codex exec`. */
const CODEX_APPROVAL: ClientConfigEntry = { default_tools_approval_mode: "approve" };

async function askApprovalMode({ io, options, at, records }: ConnectContext): Promise<ClientConfigEntry | undefined> {
  if (at.client !== "codex" || options.approveTools === false) return undefined;
  if (options.approveTools) return CODEX_APPROVAL;
  const { server } = await readConnection(at, records.entries());
  if (server.entry && Object.hasOwn(server.entry, "default_tools_approval_mode")) return undefined;
  if (options.yes || options.dryRun || options.json || !io.ask) return undefined;
  const out = createPrinter(io.stdout, io.env);
  out.line`In \`codex exec\`, Codex refuses call_skill_tool and use_skill: it cannot ask there.`;
  out.line`With the approval mode "approve" it calls skillet's tools without asking. skillet still asks before it changes something.`;
  return (await isConfirmed(io, "Let Codex call skillet's tools without asking?")) ? CODEX_APPROVAL : undefined;
}

/**
 * Asks once whether `use_skill` may spend the key that the client passes to the server, and records the answer. Returns undefined if the client
 * passes no key, or a model is configured.
 */
async function askKeyConsent(
  { io, options, environment }: ConnectContext,
  row: McpClient,
  found: DiscoverResult,
): Promise<boolean | undefined> {
  if (row.passesKey === undefined || options.dryRun) return undefined;
  const file = found.configuration.files[0]?.path;
  const isKnown = found.settings.serving.useClientKey !== undefined || found.settings.models.size > 0;
  const record = async (value: boolean) => {
    if (file !== undefined) await editConfig(file, { parts: ["mcp", "use_client_key"], value });
    return value;
  };
  if (options.useClientKey !== undefined) return record(options.useClientKey);
  if (isKnown) return undefined;
  if (options.yes || options.json || !io.ask) return false;
  const out = createPrinter(io.stdout, io.env);
  out.line`${row.title} passes ${row.passesKey} to skillet's server, if it is set. \`use_skill\` calls its own model.`;
  if (!printConfigurationWarnings(io, found)) return false;
  return record(
    await isConfirmed(
      io,
      `May use_skill spend that key? (recorded in ${formatHomePath(file ?? "", environment.home)})`,
    ),
  );
}

interface AdviceContext {
  row: McpClient;
  hook: HookKind | undefined;
  server: McpServerTarget;
  serveOptions: readonly string[];
  found: DiscoverResult;
  consent: boolean | undefined;
}

/** Prints advice for users of this client. */
async function printConnectAdvice(
  { io, options, at, records }: ConnectContext,
  { row, hook, server, serveOptions, found, consent }: AdviceContext,
): Promise<void> {
  const out = createPrinter(io.stderr, io.env);
  const advise = (message: string, fix = "", ...commands: string[]) =>
    printProblem(out, out.yellow("!"), { message, fix, commands });
  if (at.client === "codex") {
    if (hook !== undefined)
      advise(
        "Codex skips the hook until you trust it, without a message in `codex exec`",
        "Start Codex, run /hooks and trust the hook of skillet. In CI",
        "codex exec --dangerously-bypass-hook-trust",
      );
    const { server: written } = await readConnection(at, records.entries());
    if (written.entry && !Object.hasOwn(written.entry, "default_tools_approval_mode"))
      advise(
        "`codex exec` refuses call_skill_tool, because it cannot ask there",
        "Run",
        "skillet connect codex --approve-tools",
      );
  }
  if (PROMPT_HOOKS[at.client] === undefined)
    advise(`${row.title} has no prompt hook: its model sees the list of skills, and calls search_skills`);
  else if (hook === undefined && options.hook !== false)
    advise(
      "The hook was omitted: the server is on another machine, and a local hook would suggest the skills of this one",
    );
  if (consent === false && !("url" in server))
    advise(
      `\`use_skill\` does not spend the ${row.passesKey} of ${row.title}`,
      "To allow it",
      "skillet config set mcp.use_client_key true",
    );
  const own = LISTING_CLIENTS.find((id) => id === at.client);
  const listed = own && !("url" in server) ? await findNamesListedByClient(found, own) : new Set<string>();
  if (listed.size > 0 && !serveOptions.includes("--all"))
    advise(
      `${row.title} reads ${formatCount(listed.size, "text-only skill")} from its own folders: the server does not list ${listed.size === 1 ? "it" : "them"} again`,
      `To list ${listed.size === 1 ? "it" : "them"} twice`,
      `skillet connect ${at.client} -- --all`,
    );
  const waiting = "url" in server ? undefined : await findUntrustedCode(found);
  if (waiting)
    advise(
      `The code of ${formatCount(waiting.skills, "skill")} is not trusted yet: ${row.title} gets the instructions, but cannot run scripts or tools`,
      "Review it",
      waiting.command,
    );
  const plain =
    row.copiesWorkBetter === undefined
      ? []
      : await filterAsync(
          found.catalog.skills.filter(({ name }) => !listed.has(name)),
          isTextOnly,
        );
  const [first] = plain;
  if (first)
    advise(
      `${formatCount(plain.length, "skill")} ${plain.length === 1 ? "is" : "are"} text only and work better as a copy: ${row.copiesWorkBetter}`,
      `Run: ${formatCopyCommand(plain.length === 1 ? first.name : "NAME", at.client)}`,
    );
}

/** Returns the command that writes a copy into a client's own folder. */
const formatCopyCommand = (name: string, client: string) => `skillet export ${name} --to ${client}`;
