import { type CodeRow, row } from "./row.ts";

/** Servers whose tools runs have, and clients that are told of this one. */
export const MCP = {
  "mcp-failed": row(
    "The server could not be had, refused the call, or died.",
    "`skillet doctor --tools` says how it is",
  ),
  "mcp-timeout": row("The server did not answer in time.", "ask it for less, or raise its timeout_seconds"),
  "mcp-disabled": row("The server is switched off.", "set enabled = true under [tools.mcp.NAME]"),
  "mcp-many": row(
    "A warning: the server has more tools than are given to runs.",
    "name those that are needed under [tools.mcp.NAME]",
  ),
  "mcp-schema": row(
    "A warning: a tool is left out, since its schema is too large or hides something.",
    "ask whoever makes the server to mend it",
  ),
  "mcp-tool": row(
    "A warning: the server does not have a tool that the configuration names.",
    "correct [tools.mcp.NAME]",
  ),
  "remote-mismatch": row(
    "The server sent other content for a skill than it listed: another size, digest or frontmatter. It is not used.",
    "run `skillet list --refresh` to read its listing again",
  ),
  "remote-not-fetched": row(
    "A file of a remote skill was read before it was fetched.",
    "await skill.fetch() first; sessions and commands do so",
  ),
  "remote-export": row(
    "A skill of an MCP server is not copied into the folders of clients, where it would pass for one of yours.",
    "connect the client to the server",
  ),
  "not-loadable": row(
    "The skill works on its own, so it cannot be loaded when the server starts.",
    "leave it out: clients call it with `use_skill`",
  ),
  "server-connected": row(
    "Skills cannot be mounted on a server that is connected and declares no tools.",
    "call mountSkills before connect",
  ),
  "another-server": row(
    "The client's configuration has another server of this name.",
    "choose another with --name, or take it out first",
  ),
  "keys-at-stake": row(
    "The client's configuration has keys of yours at this name, which would be lost.",
    "take them out first, or choose another with --name",
  ),
  "another-hook": row(
    "A file in the place of skillet's hook was not written by skillet.",
    "rename it, or connect with --no-hook",
  ),
  "changed-meanwhile": row(
    "A client's file changed between the plan and the change; nothing was written.",
    "run the command again",
  ),
  "connections-unreadable": row(
    "The record of changed client files cannot be read, so nothing was written.",
    "delete it: `connect --remove` then still removes its entries",
  ),
  "client-key-consent": row(
    "A use would spend an API key that the client passed to the server, and the user has not allowed that.",
    "`skillet config set mcp.use_client_key true`, or configure a model",
  ),
  "connection-broken": row(
    "A client is connected, and its server or hook does not answer.",
    "`skillet connect claude` writes both again; likewise for other clients",
  ),
} as const satisfies Record<string, CodeRow>;
