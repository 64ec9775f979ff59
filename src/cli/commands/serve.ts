import { join } from "node:path";
import { Option } from "commander";
import { SkillError } from "../../errors/problem.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import {
  createServerTokenStore,
  DEFAULT_SERVER_SCOPES,
  joinTokenStores,
  type PersonToken,
  SERVER_SCOPES,
  SERVER_TOKENS_FILE,
  type ServerScope,
  type ServerTokenStore,
} from "../../store/server-tokens.ts";
import { findNearest, formatCount, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForRun,
  EXIT,
  formatExamples,
  openCommandStores,
  parseDuration,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { printConfigReach, recordChange, toConfigReachJson, waitUntilApplied } from "../config-output.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printHanging, printJson } from "../output.ts";
import { runTraced } from "../progress.ts";
import {
  createRefresher,
  createServing,
  printServerLine,
  type ServeCommandOptions,
  type ServeContext,
  watchForChanges,
} from "../serving.ts";

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
      .option("--access-log <file>", "With --http: append a line of JSON for each request; `-` is stderr")
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

/** Serves the skills found here until the client disconnects or the command is interrupted. */
async function serveSkills({ io, options }: CommandContext<ServeCommandOptions>): Promise<number> {
  const found = await discoverForRun(io, options);
  requireConfiguration(io, found);
  for (const [option, value] of Object.entries(listHttpOptions(options))) {
    if (options.http === undefined && value !== undefined) {
      throw new SkillError("usage", { message: `${option} needs --http`, fix: `add --http, or omit ${option}` });
    }
  }
  return runTraced(io, async (traces) => {
    if (options.http === undefined) return serveOverStdio({ io, options, found, traces });
    const { serveOverHttp } = await import("./serve-http.ts");
    return serveOverHttp({ io, options, found, traces });
  });
}

function listHttpOptions({ token, accessLog, allowHost, allowOrigin }: ServeCommandOptions): Record<string, unknown> {
  return {
    "--token": token === true ? undefined : token,
    "--access-log": accessLog,
    "--allow-host": allowHost,
    "--allow-origin": allowOrigin,
  };
}

async function serveOverStdio({ io, options, found, traces }: ServeContext): Promise<number> {
  if (!io.protocol) {
    const fix = "let a client start it, or serve over HTTP";
    throw new SkillError("usage", {
      message: "A client communicates over stdin and stdout, but this is a terminal",
      fix,
      commands: ["skillet connect claude", "skillet serve --http"],
    });
  }
  const streams = io.protocol();
  const { serving } = createServing({ io, options, found, traces });
  const { serveStreams } = await import("../../adapters/mcp-server/stdio-transport.ts");
  const signal = createInterruptSignal(io);
  const watching = watchForChanges(io, found, createRefresher(io, serving, found));
  await serveStreams(serving, streams, { signal, onNotice: (text) => printServerLine(io, text) });
  await watching.close();
  return EXIT.fine;
}

const DEFAULT_LIFETIME = "90d";

/** `skillet token` and its subcommands. */
export const tokenCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Manage the tokens of people who call `skillet serve --http`")
      .addHelpText(
        "after",
        formatExamples(
          "skillet token create ada",
          "skillet token create ci --scope load --expires 7d",
          "skillet token list",
          "skillet token revoke ada",
        ),
      ),
  run: listTokens,
  commands: {
    create: {
      define: (command) =>
        command
          .description("Create a token and print it, once")
          .argument("<person>", "The name of the person: ada, or ada@example.com")
          .option(
            "--scope <scopes>",
            `What the token allows: ${SERVER_SCOPES.join(", ")}. Each of the first four includes those before it. Defaults to all but metrics.`,
          )
          .option(
            "--expires <time>",
            `The lifetime, such as 12h or 30d, or \`never\`. Defaults to ${DEFAULT_LIFETIME}.`,
          )
          .addHelpText(
            "after",
            formatExamples(
              "skillet token create ada",
              "skillet token create prometheus --scope metrics --expires never",
            ),
          ),
      run: createToken,
    },
    list: {
      define: (command) =>
        command
          .description("List the tokens: their people, scopes and expiry")
          .addHelpText("after", formatExamples("skillet token list", "skillet token list --json")),
      run: listTokens,
    },
    revoke: {
      define: (command) =>
        command
          .description("Revoke a token, or all tokens of a person, also in running servers")
          .argument("<id>", "The id of a token, or the name of a person")
          .addHelpText("after", formatExamples("skillet token revoke 3f2a91c0b7de", "skillet token revoke ada")),
      run: revokeTokens,
    },
  },
};

interface CreateTokenOptions {
  scope?: string;
  expires?: string;
}

async function createToken({ io, options, args: [person = ""] }: CommandContext<CreateTokenOptions>): Promise<number> {
  const scopes = options.scope?.split(",").map((scope) => scope.trim()) ?? DEFAULT_SERVER_SCOPES;
  const lifetime = options.expires ?? DEFAULT_LIFETIME;
  const expiresAt = lifetime === "never" ? undefined : new Date(Date.now() + parseDuration("--expires", lifetime));
  const store = await openTokens(io, options);
  const { token, text } = await store.create({
    person,
    scopes: scopes as ServerScope[],
    ...(expiresAt === undefined ? {} : { expiresAt }),
  });
  await recordChange(resolveCommandEnvironment(io, options), "token.create", {
    user: person,
    account: `token ${token.id}`,
  });
  if (options.json) {
    printJson(io.stdout, { ...token, token: text });
    return EXIT.fine;
  }
  createPrinter(io.stdout, io.env).line`${text}`;
  const error = createPrinter(io.stderr, io.env);
  const notes = [
    `token ${token.id} of ${token.person}: ${token.scopes.join(", ")}; ${formatExpiry(token)}`,
    "it is shown only once, and only a hash of it is stored; clients send it as Authorization: Bearer TOKEN",
  ];
  for (const note of notes) printHanging(error, error.text`${error.dim("·")} `, [note], { indent: 2 });
  return EXIT.fine;
}

async function listTokens({ io, options }: CommandContext<object>): Promise<number> {
  const store = await openTokens(io, options);
  const problem = store.problem();
  if (problem !== undefined) throw new SkillError("tokens-unreadable", { message: problem });
  const around = resolveCommandEnvironment(io, options);
  const tokens = [...(await store.list())].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  if (options.json) {
    printJson(io.stdout, { tokens });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  for (const token of tokens) {
    const expiry = token.isValid ? out.dim(formatExpiry(token)) : out.yellow(formatExpiry(token));
    out.line`${token.id}  ${out.bold(token.person)}  ${token.scopes.join(", ")}  ${expiry}`;
  }
  const error = createPrinter(io.stderr, io.env);
  for (const place of new Set(tokens.map(({ storedIn }) => storedIn))) {
    const count = tokens.filter(({ storedIn }) => storedIn === place).length;
    error.line`${error.dim(`· ${formatCount(count, "token")} in ${formatDisplayPath(place, around)}`)}`;
  }
  if (tokens.length === 0)
    createPrinter(io.stderr, io.env).line`no person has a token yet; create one with \`skillet token create NAME\``;
  return EXIT.fine;
}

async function revokeTokens({ io, options, args: [name = ""] }: CommandContext<object>): Promise<number> {
  const store = await openTokens(io, options);
  const before = await store.list();
  const revoked = await store.revoke(name);
  if (revoked.length === 0) {
    const meant = findNearest(
      name,
      before.flatMap(({ id, person }) => [id, person]),
    );
    throw new SkillError("not-found", {
      message: `"${truncateLine(name, 64)}" is not the id of a token, nor a person with one`,
      ...(meant ? { fix: `did you mean ${meant}?` } : { fix: "list the tokens", commands: ["skillet token list"] }),
    });
  }
  const environment = resolveCommandEnvironment(io, options);
  for (const { id, person } of revoked)
    await recordChange(environment, "token.revoke", { user: person, account: `token ${id}` });
  const file = join(environment.skilletHome, SERVER_TOKENS_FILE);
  const reached = await waitUntilApplied(file, environment);
  if (options.json) printJson(io.stdout, { revoked, ...toConfigReachJson(reached) });
  else {
    const out = createPrinter(io.stdout, io.env);
    const people = [...new Set(revoked.map(({ person }) => person))].join(", ");
    out.line`${out.green("✓")} revoked ${formatCount(revoked.length, "token")} of ${people}: ${revoked.map(({ id }) => id).join(", ")}`;
    printConfigReach(io, reached, { runs: "of a client with it is cancelled", isRevocation: true });
    const isShared = before.some(
      ({ id, storedIn }) => storedIn === store.place && revoked.some((one) => one.id === id),
    );
    if (isShared && store.place !== file)
      out.line`servers of ${store.place} on other machines end its sessions within 2 seconds`;
  }
  return EXIT.fine;
}

/** Opens the tokens of the database of the engine, if one is configured, and those of this machine. */
async function openTokens(io: CommandIo, options: CommonOptions): Promise<ServerTokenStore> {
  const own = createServerTokenStore(resolveCommandEnvironment(io, options).skilletHome);
  const { tokens } = await openCommandStores(io, options);
  return tokens ? joinTokenStores(tokens, own) : own;
}

function formatExpiry({ expiresAt }: PersonToken): string {
  if (expiresAt === undefined) return "does not expire";
  const isOver = Date.parse(expiresAt) <= Date.now();
  return `${isOver ? "expired" : "expires"} ${expiresAt.slice(0, 16).replace("T", " ")} UTC`;
}
