import { Argument, Option } from "commander";
import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet serve`. */
export const SERVE: Entry = {
  define: (command) =>
    command
      .description("serve the skills to agents over MCP: on stdin and stdout, or over HTTP")
      .addOption(
        new Option("--http [host:port]", "over Streamable HTTP, on this address of this machine").preset(
          "127.0.0.1:7400",
        ),
      )
      .option(
        "--token <reference>",
        "over HTTP: where the token is that clients have to send: env:NAME or file:PATH (default: a file of yours)",
      )
      .option("--no-token", "over HTTP, on this machine alone: let every user and program of it call")
      .option("--allow-host <name...>", "over HTTP: further names that clients may call this machine by")
      .option("--allow-origin <name...>", "over HTTP: web pages of these hosts may call too")
      .option("--only <skill...>", "serve these skills and no others")
      .option("--all", "list also the text-only skills that the client reads from its own folders")
      .option(
        "--load <skill...>",
        "skills that are loaded from the start, for clients that keep their first list of tools",
      )
      .option("--authoring", "also the tools that check skills while they are written")
      .option("--read-only", "run nothing of theirs: no tools, no scripts, no uses")
      .option("--no-use", "hand no task to a sub-agent")
      .option("-y, --yes", "agree to changes in the workspace beforehand; to nothing outside of it")
      .option("--chat-type <type>", "on behalf of a chat of this type; private on stdin and stdout, none over HTTP")
      .option("--chat-id <id>", "and of this id")
      .addHelpText("after", "\nA client starts it by itself: `skillet connect claude` configures that.")
      .addHelpText(
        "after",
        examples(
          "skillet serve",
          "skillet serve --only code-review release-notes --no-use",
          "skillet serve --http",
          "skillet serve --http 0.0.0.0:7400 --token env:SKILLET_TOKEN",
        ),
      ),
  load: async () => (await import("../commands/serve.ts")).serve,
};

/** The clients whose configuration is known: spelled out here too, since every command reads this file. */
export const CLIENT_NAMES = ["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor"];

/** The clients with a prompt hook, spelled out here too. */
export const HOOK_CLIENTS = ["claude", "codex", "gemini", "opencode", "copilot", "cursor"];

/** `skillet hook`. */
export const HOOK: Entry = {
  define: (command) =>
    command
      .description("Answer a client's prompt hook: read its JSON on stdin, print what to add to the prompt")
      .argument("[client]", `One of ${HOOK_CLIENTS.join(", ")}`)
      .option("--debug", "Print the decision and its reasons to stderr")
      .addHelpText(
        "after",
        "\nIt always exits with 0. With a problem, which is printed to stderr, the answer\nadds nothing.",
      )
      .addHelpText("after", examples(`echo '{"prompt":"review my changes"}' | skillet hook claude --debug`)),
  load: async () => (await import("../commands/hook.ts")).hook,
  neverFails: true,
};

/** `skillet connect`. */
export const CONNECT: Entry = {
  define: (command) =>
    command
      .description(
        "connect a client: write the server and the prompt hook into its configuration, or list the clients here",
      )
      .addArgument(new Argument("[client]", "the client").choices(CLIENT_NAMES))
      .argument("[option...]", "options for `skillet serve`, after --")
      .option("--project", "for this workspace only")
      .option("--remove", "remove both again, and restore a file that nothing else changed to the byte")
      .option("--no-hook", "write the server only")
      .option("--hook-command", "start a process per prompt, for clients that would call the running server")
      .option("--approve-tools", "Codex: let it call skillet's tools without asking, which `codex exec` needs")
      .option("--use-client-key", "Claude Code: let `use_skill` spend the API key that it passes to the server")
      .option("--name <name>", "what the client calls the server", "skillet")
      .option("--url <address>", "connect to a server that runs already: http://127.0.0.1:7400/mcp")
      .option("-n, --dry-run", "show the changes, and write nothing")
      .option("-y, --yes", "do not ask before writing")
      .addHelpText("after", "\nWithout a client: which clients are on this machine, and which are connected.")
      .addHelpText(
        "after",
        examples(
          "skillet connect",
          "skillet connect claude",
          "skillet connect codex --approve-tools --yes",
          "skillet connect cursor --project --dry-run",
          "skillet connect gemini --remove",
          "skillet connect vscode --project -- --only code-review",
        ),
      ),
  load: async () => (await import("../commands/connect.ts")).connect,
  afterError: "options for `skillet serve` go after --; ",
};

/** `skillet mcp-config`: prints the server's entry, or writes it without the hook. `connect` does more. */
export const MCP_CONFIG: Entry = {
  define: (command) =>
    command
      .description("print what makes a client start `skillet serve`, or write it into the client's configuration")
      .addOption(new Option("--for <client>", "the client").choices(CLIENT_NAMES).makeOptionMandatory())
      .option("--write", "put it into the client's configuration file, and keep all else that is there")
      .option("--project", "for this workspace alone, where the client has such a file")
      .option("--name <name>", "what the client calls the server", "skillet")
      .option("--url <address>", "connect to a server that runs already: http://127.0.0.1:7400/mcp")
      .argument("[option...]", "options for `skillet serve`, after --")
      .addHelpText("after", "\n`skillet connect` writes the prompt hook too, and can remove both again.")
      .addHelpText(
        "after",
        examples(
          "skillet mcp-config --for claude",
          "skillet mcp-config --for codex --write",
          "skillet mcp-config --for vscode --project --write -- --only code-review",
        ),
      ),
  load: async () => (await import("../commands/mcp-config.ts")).mcpConfig,
  afterError: "options for `skillet serve` go after --; ",
};
