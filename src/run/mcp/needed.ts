import { BUILT_IN_TOOLS } from "../../host/built-in-tools.ts";
import type { McpSettings, Settings } from "../../host/settings.ts";
import { dottedToolName } from "../../skill/tool-alias.ts";
import { ourTool } from "../../skill/tool-names.ts";

/**
 * The servers that a run can have tools of, by what its skill and those that called it allow: each list must let it have one. An empty
 * list lets it have all.
 */
export function neededServers(
  { mcp, tools }: Pick<Settings, "mcp" | "tools">,
  allowed: readonly (readonly string[])[],
): ReadonlySet<string> {
  const hasSearch = tools.webSearch?.provider !== undefined;
  const builtIn = new Set(BUILT_IN_TOOLS.flatMap(({ name, needs }) => (needs !== "search" || hasSearch ? name : [])));
  const names = [...mcp].flatMap(([name, settings]) => {
    const isNeeded = allowed.every(
      (entries) => entries.length === 0 || entries.some((entry) => maySay(entry, name, settings, builtIn)),
    );
    return settings.enabled !== false && isNeeded ? [name] : [];
  });
  return new Set(names);
}

/** Whether an entry may mean a tool of this server. */
function maySay(entry: string, server: string, { tools }: McpSettings, builtIn: ReadonlySet<string>): boolean {
  const name = dottedToolName(entry);
  const star = name.indexOf("*");
  if (star !== -1) {
    const before = name.slice(0, star);
    return before.startsWith(`${server}.`) || `${server}.`.startsWith(before);
  }
  if (name.includes(".")) return name.startsWith(`${server}.`);
  const ours = ourTool(name);
  if (builtIn.has(ours)) return false;
  return tools?.some((tool) => tool === name || tool === ours) ?? true;
}
