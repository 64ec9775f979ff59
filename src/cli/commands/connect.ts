import { LISTING_CLIENTS } from "../../catalog/client-listings.ts";
import { namesListedByClient } from "../../host/client-views.ts";
import { editConfig } from "../../host/config-edit.ts";
import type { Discovered } from "../../host/discover.ts";
import { serverTokenFile } from "../../host/server-token.ts";
import { CLIENTS, type Client, type Entry, type Scope, type Server } from "../../mcp/config/clients.ts";
import { applyChanges, removeFolders } from "../../mcp/config/connection-apply.ts";
import { type ConnectionPlace, type FileChange, planConnection } from "../../mcp/config/connection-plan.ts";
import { openConnections } from "../../mcp/config/connection-record.ts";
import { planRemoval } from "../../mcp/config/connection-removal.ts";
import { readConnection } from "../../mcp/config/connection-state.ts";
import { isHere } from "../../mcp/config/entry.ts";
import { type HookKind, PROMPT_HOOKS } from "../../mcp/config/hook-config.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { isTextOnly } from "../../skill/text-only.ts";
import { displayPath, type Surroundings, shortPath } from "../../source/locations.ts";
import { codeWaiting } from "../code-waiting.ts";
import { EXIT } from "../exit.ts";
import { forTerminal } from "../fold.ts";
import { discoverFor, surroundingsFor, warnOfConfiguration } from "../found.ts";
import { type Io, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { sayNotice } from "../say.ts";
import { nameOf, ownProgram, printNext, serverOf } from "./mcp-config.ts";

export interface ConnectOptions {
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
export async function connect({ io, options, args }: Context<ConnectOptions>): Promise<number> {
  const [client, ...serveOptions] = args;
  if (client === undefined) {
    const { listConnections } = await import("./connect-list.ts");
    return listConnections(io, options);
  }
  const around = surroundingsFor(io, options);
  const scope: Scope = options.project ? "project" : "user";
  const place = { ...around, env: io.env, platform: process.platform };
  const at: ConnectionPlace = { client, scope, place, name: nameOf(options) };
  const records = openConnections(around.skilletHome);
  const problem = records.problem();
  if (problem !== undefined) {
    throw new SkillError("connections-unreadable", {
      message: `${records.file} cannot be read: ${problem}`,
      fix: "delete it: `connect --remove` then still removes its entries, but may format a file differently",
    });
  }
  const work = { io, options, around, at, records };
  return options.remove ? disconnect(work) : connectClient(work, serveOptions);
}

interface Work {
  io: Io;
  options: ConnectOptions & CommonOptions;
  around: Surroundings;
  at: ConnectionPlace;
  records: ReturnType<typeof openConnections>;
}

async function connectClient(work: Work, serveOptions: readonly string[]): Promise<number> {
  const { io, options, around, at, records } = work;
  const row = rowOf(at.client);
  checkOptions(at.client, row, options);
  const server = serverOf(io, { ...options, args: serveOptions, client: row, around });
  const hook = hookFor(at.client, server, options);
  const more = await approvalMode(work);
  const changes = await planConnection(
    { ...at, server, hook, program: ownProgram(), ...(more ? { more } : {}) },
    records.entries(),
  );
  const isWritten = await writeChanges(work, changes, "Write these changes?");
  const found = await discoverFor(io, options);
  const consent = isWritten || changes.length === 0 ? await askConsent(work, row, found) : undefined;
  if (options.json) {
    printJson(io.stdout, { ...factsOf(work, changes, isWritten), hook: hook ?? null });
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  if (isWritten)
    out.line`${out.green("✓")} ${row.title} is connected: ${hook === undefined ? "server" : "server and prompt hook"}`;
  else if (!changes.some(isChange)) out.line`${out.green("✓")} ${row.title} was connected already: nothing to change`;
  if (options.dryRun) return EXIT.fine;
  if (isWritten)
    printNext(io, { client: row, scope: at.scope, server, tokenFile: serverTokenFile(around.skilletHome) });
  await printAdvice(work, { row, hook, server, serveOptions, found, consent });
  return EXIT.fine;
}

async function disconnect(work: Work): Promise<number> {
  const { io, options, at, records } = work;
  const row = rowOf(at.client);
  const known = records.entries();
  const changes = await planRemoval(at, known);
  const before = changes.map(({ file }) => known[file]);
  const isWritten = await writeChanges(work, changes, "Remove these entries?");
  if (isWritten) removeFolders(before);
  if (options.json) {
    printJson(io.stdout, { ...factsOf(work, changes, isWritten), hook: null });
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  if (isWritten) out.line`${out.green("✓")} ${row.title} is disconnected`;
  else if (!changes.some(isChange)) out.line`${out.green("✓")} ${row.title} is not connected: nothing to remove`;
  const shared = changes.filter((change) => !isChange(change) && change.record !== undefined);
  for (const { file, record } of shared)
    out.line`  ${shortPath(file, work.around.home)} stays as it is: ${record?.clients.join(", ") ?? ""} uses it too`;
  return EXIT.fine;
}

/** Shows the changes, asks, and writes them. Returns false when nothing was to be written, or `--dry-run` was given. */
async function writeChanges(work: Work, changes: readonly FileChange[], question: string): Promise<boolean> {
  const { io, options, records } = work;
  const visible = changes.filter(isChange);
  if (!options.json) printChanges(printer(io.stdout, io.env), visible, work.around);
  if (options.dryRun) return false;
  if (visible.length > 0 && !options.yes && !(await isAgreed(io, question))) {
    const fix = io.ask ? "run it again when you want to" : "run it at a terminal, or add --yes";
    throw new SkillError("not-agreed", { message: "Nothing was written", fix });
  }
  if (changes.length > 0) applyChanges(changes, records);
  return visible.length > 0;
}

function isChange({ before, after }: FileChange): boolean {
  return before !== after;
}

/** Prints the inserted and removed lines, and nothing around them: the lines next to them may hold secrets of other servers. */
function printChanges(out: Printer, changes: readonly FileChange[], around: Surroundings): void {
  for (const { file, before, after, spans, hidden } of changes) {
    const kind = after === undefined ? " (deleted)" : before === undefined ? " (new file)" : "";
    out.line`${out.bold(shown(file, around))}${kind}`;
    let line = 0;
    const shownSpans = before === undefined ? [{ at: 0, removed: "", inserted: after ?? "" }] : spans;
    for (const { at, removed, inserted } of shownSpans) {
      const start = (before ?? "").slice(0, at).split("\n").length + (/^\r?\n/.test(removed || inserted) ? 1 : 0);
      if (kind === "" && start !== line) out.line`  ${out.dim(`line ${start}`)}`;
      line = start;
      for (const text of linesOf(removed, hidden)) out.line`  ${out.red(`- ${text}`)}`;
      for (const text of linesOf(inserted, hidden)) out.line`  ${out.green(`+ ${text}`)}`;
    }
  }
}

function linesOf(text: string, hidden: readonly string[]): string[] {
  const safe = hidden
    .filter((value) => value.length > 0)
    .reduce((written, value) => written.replaceAll(value, "…"), text);
  const lines = forTerminal(safe.replaceAll("\r\n", "\n")).split("\n");
  return lines.filter((line, at) => line.trim() !== "" || (at > 0 && at < lines.length - 1));
}

function shown(file: string, around: Surroundings): string {
  const short = shortPath(file, around.home);
  return short === file ? displayPath(file, around) : short;
}

function factsOf({ at, options }: Work, changes: readonly FileChange[], isWritten: boolean) {
  return {
    client: at.client,
    scope: at.scope,
    isWritten,
    isDryRun: options.dryRun === true,
    files: changes.filter(isChange).map(({ file, before, after, spans, hidden }) => ({
      file,
      change: before === undefined ? "create" : after === undefined ? "delete" : "change",
      edits: spans.map(({ removed, inserted }) => ({
        removed: linesOf(removed, hidden).join("\n"),
        inserted: linesOf(inserted, hidden).join("\n"),
      })),
    })),
  };
}

function rowOf(client: string): Client {
  const row = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined;
  if (row) return row;
  throw new SkillError("usage", {
    message: `Unknown client "${client}"`,
    fix: `Supported clients: ${Object.keys(CLIENTS).join(", ")}`,
  });
}

/** An option for one client is a mistake with another. */
function checkOptions(client: string, { title, passesKey }: Client, options: ConnectOptions): void {
  const wrong = options.approveTools && client !== "codex" ? "--approve-tools" : undefined;
  const option = wrong ?? (options.useClientKey && passesKey === undefined ? "--use-client-key" : undefined);
  if (option === undefined) return;
  throw new SkillError("usage", { message: `${option} has no effect on ${title}`, fix: `Leave out ${option}` });
}

/** A server elsewhere serves other skills than a command on this machine would advise on. */
function hookFor(
  client: string,
  server: Server,
  { hook: isWanted, hookCommand }: ConnectOptions,
): HookKind | undefined {
  const hook = PROMPT_HOOKS[client];
  if (!hook || isWanted === false) return undefined;
  if (!("plugin" in hook) && hook.callsTools && !hookCommand) return "mcp_tool";
  return "url" in server && !isHere(new URL(server.url)) ? undefined : "command";
}

/** Codex refuses a tool that may change something where it cannot ask, as in `codex exec`. */
const APPROVAL: Entry = { default_tools_approval_mode: "approve" };

async function approvalMode({ io, options, at, records }: Work): Promise<Entry | undefined> {
  if (at.client !== "codex" || options.approveTools === false) return undefined;
  if (options.approveTools) return APPROVAL;
  const { server } = await readConnection(at, records.entries());
  if (server.entry && Object.hasOwn(server.entry, "default_tools_approval_mode")) return undefined;
  if (options.yes || options.dryRun || options.json || !io.ask) return undefined;
  const out = printer(io.stdout, io.env);
  out.line`In \`codex exec\`, Codex refuses call_skill_tool and use_skill: it cannot ask there.`;
  out.line`With the approval mode "approve" it calls skillet's tools without asking. skillet still asks before it changes something.`;
  return (await isAgreed(io, "Let Codex call skillet's tools without asking?")) ? APPROVAL : undefined;
}

/**
 * Asks once whether `use_skill` may spend the key that the client passes to the server, and records the answer. Returns undefined when nothing
 * is to be said: the client passes no key, or a model is configured.
 */
async function askConsent({ io, options, around }: Work, row: Client, found: Discovered): Promise<boolean | undefined> {
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
  const out = printer(io.stdout, io.env);
  out.line`${row.title} passes ${row.passesKey} to skillet's server, if it is set. \`use_skill\` calls its own model.`;
  if (!warnOfConfiguration(io, found)) return false;
  return record(
    await isAgreed(io, `May use_skill spend that key? (recorded in ${shortPath(file ?? "", around.home)})`),
  );
}

interface Advice {
  row: Client;
  hook: HookKind | undefined;
  server: Server;
  serveOptions: readonly string[];
  found: Discovered;
  consent: boolean | undefined;
}

/** Prints what a user of this client has to know. */
async function printAdvice(
  { io, options, at, records }: Work,
  { row, hook, server, serveOptions, found, consent }: Advice,
): Promise<void> {
  const out = printer(io.stderr, io.env);
  const say = (message: string, fix: string) => sayNotice(out, out.yellow("!"), message, fix);
  if (at.client === "codex") {
    if (hook !== undefined)
      say(
        "Codex skips the hook until you trust it, without a message in `codex exec`",
        "Start Codex, run /hooks and trust the hook of skillet. In CI: codex exec --dangerously-bypass-hook-trust",
      );
    const { server: written } = await readConnection(at, records.entries());
    if (written.entry && !Object.hasOwn(written.entry, "default_tools_approval_mode"))
      say(
        "`codex exec` refuses call_skill_tool, because it cannot ask there",
        "Run: skillet connect codex --approve-tools",
      );
  }
  if (PROMPT_HOOKS[at.client] === undefined)
    say(`${row.title} has no prompt hook: its model sees the list of skills, and calls search_skills`, "");
  else if (hook === undefined && options.hook !== false)
    say(
      "The hook was left out: the server is on another machine, and a command here advises on the skills of this one",
      "",
    );
  if (consent === false && !("url" in server))
    say(
      `\`use_skill\` does not spend the ${row.passesKey} of ${row.title}`,
      "To allow it: skillet config set mcp.use_client_key true",
    );
  const own = LISTING_CLIENTS.find((id) => id === at.client);
  const listed = own && !("url" in server) ? namesListedByClient(found, own) : new Set<string>();
  if (listed.size > 0 && !serveOptions.includes("--all"))
    say(
      `${row.title} reads ${count(listed.size, "text-only skill")} from its own folders: the server does not list ${listed.size === 1 ? "it" : "them"} again`,
      `To list ${listed.size === 1 ? "it" : "them"} twice: skillet connect ${at.client} -- --all`,
    );
  const waiting = "url" in server ? undefined : codeWaiting(found);
  if (waiting)
    say(
      `The code of ${count(waiting.skills, "skill")} waits for your trust: ${row.title} gets the instructions, and cannot run scripts or tools`,
      `Look at it: ${waiting.command}`,
    );
  const plain =
    row.copiesWorkBetter === undefined
      ? []
      : found.catalog.skills.filter((skill) => isTextOnly(skill) && !listed.has(skill.name));
  const [first] = plain;
  if (first)
    say(
      `${count(plain.length, "skill")} ${plain.length === 1 ? "is" : "are"} text only, and better as a copy: ${row.copiesWorkBetter}`,
      `Run: ${COPY_COMMAND(plain.length === 1 ? first.name : "NAME", at.client)}`,
    );
}

/** The command that puts a copy into a client's own folder. */
const COPY_COMMAND = (name: string, client: string) => `skillet export ${name} --to ${client}`;
