import { ourTool, ourToolName, toolNameOf } from "./tool-names.ts";

/**
 * Entries of a list of tools, as tools are called that there are: `web_search` becomes `brave.web_search` where no tool and no other
 * server has it, `brave.*` all that `brave` has, and `mcp__brave__search` is what other clients call `brave.search`. What stands in
 * parentheses stays. An entry that means none of them stays too, and one that could mean several, unless all of these are wanted.
 */
export function expandToolNames(
  entries: readonly string[],
  names: readonly string[],
  several: "none" | "all" = "none",
): string[] {
  return [...new Set(entries.flatMap((entry) => expanded(entry, names, several)))];
}

/** `mcp__server__tool` → `server.tool`, `mcp__server` → `server.*`. */
export function dottedToolName(entry: string): string {
  const name = toolNameOf(entry).trim();
  const [, server, tool] = /^mcp__([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__(.+))?$/.exec(name) ?? [];
  return server === undefined ? name : `${server}.${tool ?? "*"}`;
}

function expanded(entry: string, names: readonly string[], several: "none" | "all"): readonly string[] {
  const isThere = names.includes(ourToolName(entry));
  if (isThere && several === "none") return [entry];
  const name = dottedToolName(entry);
  const pattern = entry.slice(toolNameOf(entry).length);
  const meant = candidates(name, names);
  if (isThere) return [entry, ...meant.map((one) => one + pattern)];
  const isAll = name.endsWith(".*") || several === "all";
  return meant.length === 1 || (isAll && meant.length > 1) ? meant.map((one) => one + pattern) : [entry];
}

function candidates(name: string, names: readonly string[]): readonly string[] {
  if (name.endsWith(".*")) return names.filter((one) => one.startsWith(name.slice(0, -1)));
  if (name.includes(".")) return names.filter((one) => one === name);
  const ours = ourTool(name);
  return names.filter((one) => {
    const bare = one.slice(one.lastIndexOf(".") + 1);
    return one.includes(".") && (bare === name || bare === ours);
  });
}
