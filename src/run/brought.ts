import type { Notice } from "../host/sandbox.ts";
import type { Tool } from "../skill/tool.ts";
import type { Chain } from "./chain.ts";
import { hostTool } from "./host-tool.ts";
import { neededServers } from "./mcp/needed.ts";
import type { Prepared } from "./sub-agent.ts";
import type { Begun } from "./use.ts";

/** Tools from elsewhere: those of the skill's own toolsets, and of servers that the user configured. */
export interface Brought {
  tools: readonly Tool[];
  /** Which of them the skill brings itself. */
  own: readonly string[];
  /** What could not be had. The run goes on without. */
  problems: readonly Notice[];
  close(): void;
}

/** Only who needs any of it loads and starts it. */
export async function openBrought(use: Begun, prepared: Prepared): Promise<Brought> {
  const [toolsets, servers] = await Promise.all([ownTools(use, prepared), serverTools(use, prepared)]);
  const given = (use.host.tools ?? []).map(({ name }) => name);
  const own = toolsets.tools.filter(({ name }) => !given.includes(name));
  const names = [...given, ...own.map(({ name }) => name)];
  const lost = [
    ...toolsets.tools.filter((tool) => !own.includes(tool)),
    ...servers.tools.filter(({ name }) => names.includes(name)),
  ];
  return {
    tools: [...own, ...servers.tools].filter((tool) => !lost.includes(tool)),
    own: own.map(({ name }) => name),
    problems: [...toolsets.problems, ...servers.problems, ...lost.map(taken)],
    close: toolsets.close,
  };
}

/** A server may have the name of a skill, and a program a tool of any name. */
function taken({ name, owner }: Tool): Notice {
  return {
    code: "tool-collision",
    message: `Tool '${name}' is not there: another one has this name`,
    fix: owner
      ? "the program around it has a tool of this name: call one of them otherwise"
      : "give the server another name under [tools.mcp] in config.toml",
  };
}

async function ownTools({ host }: Begun, { skill, copy, hiding }: Prepared): Promise<Omit<Brought, "own">> {
  if (skill.manifest.toolsets.length === 0) return { tools: [], problems: [], close: () => {} };
  const { openToolsets } = await import("./toolset/open.ts");
  return openToolsets(host, { skill, copy, hiding });
}

async function serverTools(
  { host, chain, signal }: Begun,
  { skill, hiding }: Prepared,
): Promise<Pick<Brought, "tools" | "problems">> {
  const { settings } = host;
  const needed = neededServers(settings, [...allowedBy(chain), skill.manifest.tools.allowed]);
  if (needed.size === 0) return { tools: [], problems: [] };
  const { mcpTools } = await import("./mcp/servers.ts");
  const { tools, problems } = await mcpTools(host, (name) => needed.has(name), { signal });
  return { tools: tools.map((tool) => hostTool(tool, settings.limits.toolOutput, hiding)), problems };
}

function allowedBy({ gates }: Chain): readonly (readonly string[])[] {
  return gates.map(({ allowed }) => allowed);
}
