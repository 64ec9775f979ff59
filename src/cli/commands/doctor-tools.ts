import type { Discovered } from "../../host/discover.ts";
import { closeMcpServers } from "../../host/mcp/end.ts";
import { type McpState, mcpStates } from "../../run/mcp/servers.ts";
import { count } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { type Io, printer, printJson, untilInterrupted } from "../io.ts";
import { waitingFor } from "../progress.ts";

/** Which servers of tools are configured, and how each is, tried now. */
export async function doctorTools(io: Io, { json }: { json?: boolean }, found: Discovered): Promise<number> {
  const servers = await waitingFor(io, "starting servers of tools", () => untilInterrupted(io, () => mcpStates(found)));
  await closeMcpServers();
  if (json) printJson(io.stdout, { servers });
  else printServers(io, servers);
  return servers.some(hasFailed) ? EXIT.findings : EXIT.fine;
}

function printServers(io: Io, servers: readonly McpState[]): void {
  const out = printer(io.stdout, io.env);
  out.line`${out.bold("Servers of tools")} ${out.dim("[tools.mcp.NAME] in config.toml")}`;
  if (servers.length === 0) out.line`  none is configured`;
  for (const server of servers) {
    const { name, where, isEnabled, tools, problems } = server;
    const mark = !isEnabled ? " " : hasFailed(server) ? out.red("✗") : out.green("✓");
    const state = isEnabled ? count(tools.length, "tool") : "switched off";
    out.line`  ${mark} ${name}  ${state}  ${out.dim(where)}`;
    if (tools.length > 0) out.line`    ${tools.join(", ")}`;
    for (const { message, fix } of problems) out.line`    ${message}\n      ${fix}`;
  }
}

function hasFailed({ isEnabled, tools, problems }: McpState): boolean {
  return isEnabled && tools.length === 0 && problems.length > 0;
}
