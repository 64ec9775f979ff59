import { statSync } from "node:fs";
import { isIPv4 } from "node:net";
import { join } from "node:path";
import type { Catalog } from "../../catalog/catalog.ts";
import { namesListedByClient } from "../../host/client-views.ts";
import type { Discovered } from "../../host/discover.ts";
import { announceProcess } from "../../host/live-processes.ts";
import { isReference, resolved } from "../../host/reference.ts";
import { openServerToken } from "../../host/server-token.ts";
import { openServing, type Serving } from "../../mcp/serve.ts";
import { firstDenial } from "../../policy/policy.ts";
import { quoted } from "../../policy/trust.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { shortPath } from "../../source/locations.ts";
import type { Watcher } from "../../source/watch.ts";
import { agreeing } from "../approval.ts";
import { EXIT } from "../exit.ts";
import { type CallerOptions, discoverToRun, openConfigurationWarnings, requireConfiguration } from "../found.ts";
import { type Io, interruption, printer, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { sayNotice } from "../say.ts";
import { type Tracing, traced } from "../traces.ts";

export interface ServeCommandOptions extends CallerOptions {
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

/** Serves the skills that are found here until the client has gone, or the command is interrupted. */
export async function serve({ io, options }: Context<ServeCommandOptions>): Promise<number> {
  const found = await discoverToRun(io, options);
  requireConfiguration(io, found);
  for (const [option, value] of Object.entries(onlyOverHttp(options))) {
    if (options.http === undefined && value !== undefined) {
      throw new SkillError("usage", { message: `${option} is for --http`, fix: "add --http, or leave it out" });
    }
  }
  return traced(io, (traces) => (options.http === undefined ? overStdio : overHttp)({ io, options, found, traces }));
}

function onlyOverHttp({ token, allowHost, allowOrigin }: ServeCommandOptions): Record<string, unknown> {
  return { "--token": token === true ? undefined : token, "--allow-host": allowHost, "--allow-origin": allowOrigin };
}

interface Work extends Omit<Context<ServeCommandOptions>, "args"> {
  found: Discovered;
  traces: Tracing | undefined;
}

async function overStdio({ io, options, found, traces }: Work): Promise<number> {
  if (!io.protocol) {
    const fix = "let a client start it (`skillet connect claude` makes it), or serve over HTTP with --http";
    throw new SkillError("usage", { message: "A client speaks on stdin and stdout, and here is a terminal", fix });
  }
  const streams = io.protocol();
  const serving = open({ io, options, found, traces });
  const { serveStreams } = await import("../../mcp/stdio.ts");
  const signal = interruption(io);
  const watching = watch(io, found, refreshing(io, serving, found));
  await serveStreams(serving, streams, { signal, onNotice: (text) => say(io, text) });
  await watching.close();
  return EXIT.fine;
}

async function overHttp({ io, options, found: everywhere, traces }: Work): Promise<number> {
  const { host, port } = addressOf(options.http ?? "");
  // Who calls over HTTP is not known: on whose behalf it is has to be said.
  const { caller: _, ...rest } = everywhere;
  const { chatType, chatId } = options;
  const found: Discovered = { ...rest, caller: defined({ chatType, chatId }) };
  const serving = open({ io, options, found, traces });
  const [{ serveHttp }, { isLoopback }] = await Promise.all([
    import("../../mcp/http.ts"),
    import("../../mcp/http-guard.ts"),
  ]);
  const token = tokenFor(options, io, everywhere.home);
  const signal = interruption(io);
  const http = await serveHttp((context) => serving.open({ isStateless: context.era === "modern" }), {
    host,
    port,
    token: token.token,
    allowedHosts: options.allowHost ?? [],
    allowedOrigins: options.allowOrigin ?? [],
    onNotice: (text) => say(io, text),
  });
  const refresh = refreshing(io, serving, found);
  const watching = watch(io, found, async () => {
    await refresh();
    http.notify.resourcesChanged();
    http.notify.promptsChanged();
    http.notify.toolsChanged();
  });
  const { length } = serving.visible();
  if (options.json)
    printJsonLine(io.stdout, { type: "serving", url: http.url, skills: length, tokenFile: token.file ?? null });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${http.url}`;
    say(io, `${count(length, "skill")} served over MCP; Ctrl-C ends it`);
    sayToken(io, { ...token, url: http.url, home: everywhere.around.home });
    if (!isLoopback(host)) say(io, "others reach it by this machine's name, with the token; put TLS in front of it");
    sayHidden(io, serving, found);
  }
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  await http.close();
  await watching.close();
  return EXIT.fine;
}

function open({ io, options, found, traces }: Work): Serving {
  // Nobody sits here: what has to be agreed to is asked of the client's user, or waits.
  const { ask: _, ...nobody } = io;
  const { host: agreed } = agreeing(nobody, found, { yes: options.yes === true });
  // Over HTTP, the user starts the server; otherwise a client does.
  const host = { ...agreed, isEnvOfClient: options.http === undefined };
  const serving = asked(() =>
    openServing(found.catalog, traces ? { ...host, onEvent: (event) => traces.take(event) } : host, {
      ...(options.only ? { only: options.only } : {}),
      ...(options.load ? { load: options.load } : {}),
      authoring: options.authoring === true,
      isReadOnly: options.readOnly === true,
      uses: options.use !== false,
      // Over HTTP, the client may run on another machine or in another folder.
      ...(options.all || options.http !== undefined
        ? {}
        : { listedByClient: (client, catalog) => namesListedByClient({ ...found, catalog }, client) }),
      onNotice: (text) => say(io, text),
    }),
  );
  sayUntrusted(io, serving, found);
  return serving;
}

/** What cannot be served so was asked for on the command line. */
function asked<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    throw new SkillError("usage", { message: error.message, fix: error.fix ?? "" });
  }
}

/** Tells the clients what changed, and whoever runs the server what is waiting for a word since. */
function refreshing(io: Io, serving: Serving, found: Discovered): () => Promise<void> {
  const namesOf = () => serving.untrusted.map(({ name }) => name).join();
  let said = namesOf();
  return async () => {
    await serving.refresh();
    if (namesOf() !== said) sayUntrusted(io, serving, found);
    said = namesOf();
  };
}

function sayUntrusted(io: Io, { untrusted }: Serving, { workspace }: Discovered): void {
  const [first, another] = untrusted;
  if (!first) return;
  const out = printer(io.stderr, io.env);
  const names = oneLine(untrusted.map(({ name }) => name).join(", "), 200);
  const isHere = untrusted.every(({ origin }) => origin.scope === "workspace");
  const command = isHere ? `--text ${quoted(workspace)}` : another ? "NAME" : quoted(first.name);
  const message = `${count(untrusted.length, "skill")} not served until ${isHere ? "approved" : "trusted"}: ${names}`;
  sayNotice(out, out.yellow("!"), message, `look at ${another ? "them" : "it"}, then run: skillet trust ${command}`);
}

/** What is found and told to nobody, since nobody said on whose behalf it would be. */
function sayHidden(io: Io, serving: Serving, found: Discovered): void {
  const isOfChat = (skill: Skill) => /^chat-/.test(firstDenial(skill, found)?.code ?? "");
  const hidden = serving.catalog.skills.filter(isOfChat).map(({ name }) => name);
  if (hidden.length === 0) return;
  say(
    io,
    `${count(hidden.length, "skill")} not for this chat: ${hidden.join(", ")} (--chat-type and --chat-id say what it is)`,
  );
}

/** Follows the folders, trust and the configuration. Starts half a second later, after the client's first answer. */
function watch(io: Io, found: Discovered, onChange: () => Promise<void>): Watcher {
  const over = new AbortController();
  const onError = (error: unknown) => say(io, String(error));
  const changed = () => void onChange().catch(onError);
  const warn = openConfigurationWarnings(io, found);
  const announcement = announceProcess(found, "server");
  let folders: Promise<Watcher | undefined> = Promise.resolve(undefined);
  const watchFolders = async (before: Promise<Watcher | undefined>, catalog: Promise<Catalog>) => {
    await (await before)?.close();
    const { watchCatalog } = await import("../../host/watch.ts");
    return over.signal.aborted ? undefined : watchCatalog(await catalog, changed, { onError });
  };
  const follow = (catalog: Promise<Catalog>) => {
    folders = watchFolders(folders, catalog).catch((error) => void onError(error));
  };
  let known = standingNow(found);
  const look = () => {
    const now = standingNow(found);
    announcement.update();
    if (now.configuration !== known.configuration) warn();
    if (now.sources !== known.sources) {
      follow(found.catalog.reload());
      void folders.then(changed); // What is written before the new folders are watched is read then.
    }
    if (now.configuration !== known.configuration || now.trust !== known.trust) changed();
    known = now;
  };
  const timers = [
    setTimeout(() => follow(Promise.resolve(found.catalog)), LOOK_MS).unref(),
    setInterval(look, LOOK_MS).unref(),
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

const LOOK_MS = 500;

/** Returns the trust and configuration that decide which skills are served. */
function standingNow({ home, settings, currentConfiguration }: Discovered) {
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

function say(io: Io, text: string): void {
  const out = printer(io.stderr, io.env);
  out.line`${out.dim("·")} ${oneLine(text, 300)}`;
}

/** `7400`, `localhost`, `127.0.0.1:7400`, `[::1]:7400`. */
function addressOf(written: string): { host: string; port: number } {
  const [whole, host = "127.0.0.1", port = "7400"] = ADDRESS.exec(written) ?? [];
  const isNoIp = /^[\d.]+$/.test(host) && !isIPv4(host);
  if (!whole || isNoIp || Number(port) > 65_535) {
    const message = `"${oneLine(written, 100)}" is no address`;
    throw new SkillError("usage", { message, fix: "give a host and a port: --http 127.0.0.1:7400" });
  }
  return { host, port: Number(port) };
}

const ADDRESS = /^(\[[\da-f:.]+\]|(?=[^:]*[a-z.])[a-z\d][a-z\d.-]*)?:?(\d{1,5})?$/i;

interface Token {
  token: string | false;
  /** Where it is kept, if skillet keeps it. */
  file?: string;
  isNew?: boolean;
}

function tokenFor({ token: given }: ServeCommandOptions, io: Io, skilletHome: string): Token {
  if (given === false) return { token: false };
  return typeof given === "string" ? { token: tokenOf(given, io) } : openServerToken(skilletHome);
}

function sayToken(io: Io, { token, file, isNew, url, home }: Token & { url: string; home: string }): void {
  const out = printer(io.stderr, io.env);
  if (token === false) {
    const message = "There is no token: every user and program of this machine can run these skills as you";
    sayNotice(out, out.yellow("!"), message, "leave out --no-token");
  }
  if (token === false || file === undefined) return;
  if (isNew) out.line`${out.dim("·")} the token, shown this once: ${token}`;
  say(io, `the token is in ${shortPath(file, home)}; for a client: skillet connect CLIENT --url ${url}`);
}

/** What stands on a command line is seen by everybody on the machine. */
function tokenOf(written: string, io: Io): string {
  const refuse = (why: string): never => {
    const fix =
      "keep at least 16 characters that nobody guesses (openssl rand -hex 32) in a variable or a file: --token env:SKILLET_TOKEN";
    throw new SkillError("usage", { message: `--token cannot be used: ${why}`, fix });
  };
  if (!isReference(written)) return refuse("it is to name a variable or a file, not to be the token itself");
  const token = resolved(written, { env: io.env }, refuse).trim();
  return token.length < SHORTEST ? refuse("it is too short") : token;
}

const SHORTEST = 16;
