import { Option } from "commander";
import { SkillError } from "../../errors/problem.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForRun,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
import { createInterruptSignal } from "../output.ts";
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
    const fix = "let a client start it (run `skillet connect claude`), or serve over HTTP with --http";
    throw new SkillError("usage", {
      message: "A client communicates over stdin and stdout, but this is a terminal",
      fix,
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
