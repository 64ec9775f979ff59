import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { serverTokenFile } from "../../host/server-token.ts";
import { CLIENTS, type Client, type Scope, type Server, TOKEN } from "../../mcp/config/clients.ts";
import { describeEntry, isHere, PATH } from "../../mcp/config/entry.ts";
import type { Merged } from "../../mcp/config/merge.ts";
import { type Snippet, snippetObject, snippetText } from "../../mcp/config/snippet.ts";
import { readDocument, writeSnippet } from "../../mcp/config/write.ts";
import { packageRoot } from "../../package.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { displayPath, type Surroundings, shortPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { buildProgram, type CommonOptions, type Context } from "../program.ts";
import { sayNotice } from "../say.ts";

interface ConfigOptions {
  for: string;
  write?: boolean;
  project?: boolean;
  name?: string;
  url?: string;
}

/** Prints what makes a client start `skillet serve`, or puts it into the client's file. */
export async function mcpConfig({ io, options, args }: Context<ConfigOptions>): Promise<number> {
  const name = nameOf(options);
  const client = clientOf(options.for);
  const scope: Scope = options.project ? "project" : "user";
  const around = surroundingsFor(io, options);
  const server = serverOf(io, { ...options, args, client, around });
  const file = client[scope]({ ...around, env: io.env, platform: process.platform });
  const path = [...client.servers(await readDocument(file, client.format)), name];
  const snippet: Snippet = { format: client.format, path, entry: client.entry(server) };
  // What it would write into the project it writes where it is started.
  const command = scope === "user" || around.workspace === io.cwd ? client.add?.(name, server, scope) : undefined;
  const outcome = options.write ? await write(file, snippet, { client, scope }) : "not asked";
  const written = typeof outcome === "object" && "after" in outcome;
  const replaced = written ? replacedBy(outcome) : undefined;
  if (options.json) {
    const shown = {
      client: options.for,
      file,
      format: client.format,
      snippet: snippetObject(snippet),
      isWritten: written,
    };
    const { code, message, fix } = outcome instanceof SkillError ? outcome : {};
    const error = outcome instanceof SkillError ? { error: { code, message, fix } } : {};
    printJson(io.stdout, { ...shown, replaced: replaced ?? null, command: command ?? null, ...error });
  }
  if (outcome instanceof SkillError) return sayUnwritten(io, options.json ? undefined : snippet, outcome);
  if (options.json) return EXIT.fine;
  const shown = scope === "user" ? shortPath(file, around.home) : displayPath(file, around);
  if (options.write) {
    const out = printer(io.stdout, io.env);
    const done = replaced ? "changed in" : written ? "put into" : "was there already, the same, in";
    out.line`${out.green("✓")} ${name} ${done} ${shown}`;
    if (replaced) sayReplaced(io, replaced);
  } else {
    printSnippet(io, snippet);
    const out = printer(io.stderr, io.env);
    out.line`${out.dim("·")} it belongs into ${shown}: the same with ${out.cyan("--write")} puts it there`;
    if (command) out.line`  or let ${client.title} do it: ${out.cyan(command.map(quoted).join(" "))}`;
  }
  if (outcome !== "same") printNext(io, { client, scope, server, tokenFile: serverTokenFile(around.skilletHome) });
  if ("url" in server) sayAddress(io, options.url ?? "", server);
  return EXIT.fine;
}

/** Checks the name that a client is to know the server by. */
export function nameOf({ name = "skillet" }: Pick<ConfigOptions, "name">): string {
  if (/^[A-Za-z0-9][\w-]{0,63}$/.test(name)) return name;
  throw new SkillError("usage", {
    message: `"${name}" cannot be a server's name`,
    fix: 'use up to 64 letters, digits, "_" and "-", a letter or digit first',
  });
}

function clientOf(name: string): Client {
  const client = Object.hasOwn(CLIENTS, name) ? CLIENTS[name] : undefined;
  if (client) return client;
  throw new SkillError("usage", {
    message: `"${name}" is no client that is known`,
    fix: `known are: ${Object.keys(CLIENTS).join(", ")}`,
  });
}

interface Asked extends Pick<ConfigOptions, "url" | "project">, CommonOptions {
  args: readonly string[];
  client: Client;
  around: Surroundings;
}

/** Returns how the client gets to the server that the options ask for. */
export function serverOf(io: Io, { url, args, workspace, project, client, around }: Asked): Server {
  if (url !== undefined) return serverAt(io, url, args, tokenFileFor(client, around));
  checkServe(io, args);
  const given = workspace !== undefined ? around.workspace : project ? client.workspace : undefined;
  const where = given === undefined ? [] : ["--workspace", given];
  // By their paths, since the package is not published, and a client that was started from a desktop finds no `node` of a version
  // manager. An older one would do too: the program starts itself again with its own, if that is beside it.
  const { command, args: program } = ownProgram();
  return { command, args: [...program, "serve", ...where, ...args] };
}

/** Returns the command that starts this program: Node and its path. */
export function ownProgram(): { command: string; args: string[] } {
  return { command: process.execPath, args: [join(packageRoot() ?? "", "bin", "skillet.cjs")] };
}

/** The file with the token of this user's own server, for a client that can refer to it. */
function tokenFileFor({ readsTokenFile }: Client, { skilletHome }: Surroundings): string | undefined {
  return readsTokenFile ? serverTokenFile(skilletHome) : undefined;
}

function serverAt(io: Io, written: string, args: readonly string[], tokenFile: string | undefined): Server {
  const url = URL.canParse(written) ? new URL(written) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") {
    throw new SkillError("usage", {
      message: "--url takes an address that begins with http:// or https:// and holds no password",
      fix: `as in http://127.0.0.1:7400/mcp; a token is read from ${TOKEN} by the client`,
    });
  }
  if (args.length > 0) {
    throw new SkillError("usage", {
      message: "With --url the server runs already, so no options can be given to it",
      fix: "give them where it is started: skillet serve --http …",
    });
  }
  if (url.pathname === "/") url.pathname = PATH;
  const isOwn = isHere(url) && !io.env[TOKEN];
  return { url: url.href, hasToken: true, ...(isOwn && tokenFile !== undefined ? { tokenFile } : {}) };
}

/** Options that `skillet serve` would refuse are refused here: of a client, one learns only that the server did not start. */
function checkServe(io: Io, args: readonly string[]): void {
  const serve = buildProgram(io, ["serve"], () => {}).commands.find((command) => command.name() === "serve");
  if (!serve) return;
  const { operands, unknown } = serve.parseOptions([...args]);
  const [wrong] = [...operands, ...unknown];
  if (wrong !== undefined) {
    throw new SkillError("usage", {
      message: `"${wrong}" is no option of \`skillet serve\``,
      fix: "`skillet serve --help` shows them",
    });
  }
  if (serve.opts()["http"] !== undefined) {
    throw new SkillError("usage", {
      message: "A server that a client starts speaks over stdin and stdout, so --http makes no sense here",
      fix: "start `skillet serve --http` yourself, and give its address with --url",
    });
  }
}

async function write(
  file: string,
  snippet: Snippet,
  { client, scope }: { client: Client; scope: Scope },
): Promise<Merged | "same" | SkillError> {
  try {
    const mode = scope === "user" ? 0o600 : 0o644;
    return (await writeSnippet(file, snippet, { client, mode })) ?? "same";
  } catch (error) {
    if (error instanceof SkillError) return error;
    throw error;
  }
}

/** What can be put in by hand goes to stdout all the same. */
function sayUnwritten(io: Io, snippet: Snippet | undefined, error: SkillError): number {
  if (snippet) printSnippet(io, snippet);
  const out = printer(io.stderr, io.env);
  sayNotice(out, out.red("✗"), error.message, error.fix ?? "");
  return REFUSALS.has(error.code) ? EXIT.refused : EXIT.findings;
}

const REFUSALS = new Set(["another-server", "keys-at-stake"]);

/** An entry of skillet's that another took the place of. */
interface Replaced {
  was: string;
  is: string;
  /** The keys whose values are others now. Their values may be secrets. */
  keys: string[];
}

function replacedBy({ before, after }: Merged): Replaced | undefined {
  if (Object.keys(before).length === 0) return undefined;
  const all = new Set([...Object.keys(before), ...Object.keys(after)]);
  const keys = [...all].filter((key) => !isDeepStrictEqual(before[key], after[key]));
  return { was: describeEntry(before), is: describeEntry(after), keys };
}

function sayReplaced(io: Io, { was, is, keys }: Replaced): void {
  const out = printer(io.stderr, io.env);
  if (was === is) {
    out.line`  what is new in it: ${keys.join(", ")}`;
    return;
  }
  out.line`  it was:    ${was}`;
  out.line`  it is now: ${is}`;
  const words = is.split(" ");
  if (words[0] === "serve" && was.startsWith("serve") && was.split(" ").some((word) => !words.includes(word))) {
    out.line`  what it is to be started with is given each time, after --`;
  }
}

function printSnippet(io: Io, snippet: Snippet): void {
  if (snippet.format !== "toml") printJson(io.stdout, snippetObject(snippet));
  else if (io.stdout.isTTY) {
    const out = printer(io.stdout, io.env);
    for (const line of snippetText(snippet).trimEnd().split("\n")) out.line`${line}`;
  } else io.stdout.write(snippetText(snippet));
}

interface Next {
  client: Client;
  scope: Scope;
  server: Server;
  tokenFile: string;
}

/** Prints what is to be done for the client to see the server. */
export function printNext(io: Io, { client, scope, server, tokenFile }: Next): void {
  const out = printer(io.stderr, io.env);
  out.line`  then ${client.next}`;
  if (scope === "project") out.line`  it may ask first whether you trust the project`;
  if ("url" in server && server.tokenFile === undefined)
    out.line`  ${client.title} has to be started with ${TOKEN} set to the token`;
  if ("url" in server && server.tokenFile === undefined && isHere(new URL(server.url)))
    out.line`  of a server of yours: export ${TOKEN}="$(cat ${quoted(tokenFile)})"`;
  if (!("url" in server) && scope === "project")
    out.line`  it names folders of this machine: whoever shares the file needs their own`;
}

/** What was made of the address that was given. */
function sayAddress(io: Io, given: string, { url }: Extract<Server, { url: string }>): void {
  const out = printer(io.stderr, io.env);
  if (new URL(given).href !== url) out.line`  ${PATH} was added to the address: ${url}`;
}
