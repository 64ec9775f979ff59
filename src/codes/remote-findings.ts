import type { FindingRow } from "./findings.ts";

/** Findings about the skills of MCP servers. */
export const REMOTE_FINDINGS = {
  "remote-unavailable": {
    weigh: "wwwww",
    means: "The skills of an MCP server could not be listed. Those of its last listing are used, if there is one.",
    fix: "start the server, or correct [tools.mcp.NAME]; then run `skillet list --refresh`",
  },
  "remote-entry": {
    weigh: "wwwww",
    means: "An MCP server lists a skill that cannot be used: it is not valid, cannot be verified, or is too large.",
    fix: "report it to the maintainer of the server",
  },
  "remote-limit": {
    weigh: "wwwww",
    means: "An MCP server lists more skills than are read.",
    fix: "report it to the maintainer of the server",
  },
  "remote-name-taken": {
    weigh: "iiiii",
    means: "A skill of an MCP server has the name of another skill. The other one keeps the name.",
    fix: "use `name@mcp:SERVER` to name this one",
  },
} as const satisfies Record<string, FindingRow>;
