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
  "not-loadable": row(
    "The skill works on its own, so it cannot be loaded when the server starts.",
    "leave it out: clients call it with `use_skill`",
  ),
  "another-server": row(
    "The client's configuration has another server of this name.",
    "choose another with --name, or take it out first",
  ),
  "keys-at-stake": row(
    "The client's configuration has keys of yours at this name, which would be lost.",
    "take them out first, or choose another with --name",
  ),
} as const satisfies Record<string, CodeRow>;
