import { shortHash } from "../util/text.ts";

/** The names of skillet's tools in other clients, one row per tool. */
const TOOL_SPELLINGS: Record<string, readonly string[]> = {
  bash: ["Bash", "shell", "run_shell_command", "run_in_terminal", "PowerShell", "execute"],
  read_file: ["Read", "read", "View", "NotebookRead", "read_many_files"],
  write_file: ["Write", "write", "create_file"],
  edit_file: ["Edit", "MultiEdit", "NotebookEdit", "edit", "replace", "apply_patch", "str_replace"],
  list_files: ["LS", "Glob", "glob", "list_directory", "file_search"],
  grep: ["Grep", "search_files", "search_file_content", "grep_search", "search"],
  web_search: ["WebSearch", "google_web_search"],
  web_fetch: ["WebFetch", "fetch"],
  use_skill: ["Skill", "activate_skill"],
};

/** Tools of clients without a counterpart in skillet. They are not misspellings. */
const OTHER_CLIENT_TOOLS = [
  // These manage commands that already run: permission for them does not include permission to run commands.
  "BashOutput",
  "KillShell",
  "Task",
  "Agent",
  "TodoWrite",
  "TodoRead",
  "AskUserQuestion",
  "ExitPlanMode",
  "EnterPlanMode",
  "SlashCommand",
  "ToolSearch",
  "LSP",
  "ListMcpResources",
  "ReadMcpResource",
  "Artifact",
  "TaskCreate",
  "TaskUpdate",
  "TaskList",
  "TaskGet",
  "TaskOutput",
  "TaskStop",
  "agent",
  "vscode",
  "web",
  "todo",
];

const BUILT_IN_BY_NAME = new Map(
  Object.entries(TOOL_SPELLINGS).flatMap(([ours, theirs]) => [ours, ...theirs].map((name) => [name, ours] as const)),
);

export const TOOL_NAMES: readonly string[] = [...BUILT_IN_BY_NAME.keys(), ...OTHER_CLIENT_TOOLS];

const BUILT_IN_BY_LOWERCASE = new Map([...BUILT_IN_BY_NAME].map(([name, ours]) => [name.toLowerCase(), ours]));

/** Returns skillet's name of a client's tool: `Read` → `read_file`. An unknown name is returned unchanged. */
export function resolveToolName(name: string): string {
  return BUILT_IN_BY_NAME.get(name) ?? BUILT_IN_BY_LOWERCASE.get(name.toLowerCase()) ?? name;
}

/** Returns skillet's name of the tool in an entry: `Bash(git:*)` → `bash`. */
export function resolveEntryTool(entry: string): string {
  return resolveToolName(parseEntryTool(entry));
}

/** Returns the tool of an entry: `Bash(git:*)` → `Bash`. */
export function parseEntryTool(entry: string): string {
  return entry.replace(/\(.*$/s, "");
}

/** Returns true if it is a tool of some client without a counterpart in skillet. */
export function isOtherClientTool(entry: string): boolean {
  return OTHER_CLIENT_TOOLS.includes(parseEntryTool(entry));
}

/**
 * Returns true if some client has a tool of this name. Names with a namespace (`mcp__x__y`, `server.tool`) always count as known.
 */
export function isKnownTool(entry: string): boolean {
  const name = parseEntryTool(entry);
  return (
    name === "*" ||
    /__|[./:]/.test(name) ||
    BUILT_IN_BY_NAME.has(name) ||
    OTHER_CLIENT_TOOLS.includes(name) ||
    SKILL_TOOL.test(name)
  );
}

const SKILL_TOOL =
  /^(?:list_skills|search_skills|load_skill|unload_skill|use_skill|read_skill_resource|run_skill_script|validate_skill|lint_skill)$/;

/**
 * Resolves the entries of a tool list to existing tools. `web_search` becomes `brave.web_search` if no tool and no other server
 * has that name, `brave.*` becomes all tools of `brave`, and `mcp__brave__search` becomes `brave.search`. Text in parentheses is
 * kept. Unknown and ambiguous entries are kept too, unless all candidates are requested.
 */
export function expandToolNames(
  entries: readonly string[],
  names: readonly string[],
  several: "none" | "all" = "none",
): string[] {
  return [...new Set(entries.flatMap((entry) => expandEntry(entry, names, several)))];
}

/** Converts `mcp__server__tool` to `server.tool`, and `mcp__server` to `server.*`. */
export function toDottedToolName(entry: string): string {
  const name = parseEntryTool(entry).trim();
  const [, server, tool] = /^mcp__([A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__(.+))?$/.exec(name) ?? [];
  return server === undefined ? name : `${server}.${tool ?? "*"}`;
}

function expandEntry(entry: string, names: readonly string[], several: "none" | "all"): readonly string[] {
  const isThere = names.includes(resolveEntryTool(entry));
  if (isThere && several === "none") return [entry];
  const name = toDottedToolName(entry);
  const pattern = entry.slice(parseEntryTool(entry).length);
  const meant = findToolCandidates(name, names);
  if (isThere) return [entry, ...meant.map((one) => one + pattern)];
  const isAll = name.endsWith(".*") || several === "all";
  return meant.length === 1 || (isAll && meant.length > 1) ? meant.map((one) => one + pattern) : [entry];
}

function findToolCandidates(name: string, names: readonly string[]): readonly string[] {
  if (name.endsWith(".*")) return names.filter((one) => one.startsWith(name.slice(0, -1)));
  if (name.includes(".")) return names.filter((one) => one === name);
  const ours = resolveToolName(name);
  return names.filter((one) => {
    const bare = one.slice(one.lastIndexOf(".") + 1);
    return one.includes(".") && (bare === name || bare === ours);
  });
}

/** The names of the tools in a list, in the form that providers and clients accept. */
export interface WireNames {
  /** Returns the wire name of a tool. A tool outside of the list is converted on its own. */
  toWire(id: string): string;
  /** Returns undefined if no tool of the list has this name. */
  toId(wire: string): string | undefined;
}

const MAX_WIRE_NAME_LENGTH = 64;
const LEGAL_WIRE_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** Converts a tool's name to letters, digits, `_` and `-`: `web.search` → `web__search`. A valid name is unchanged. */
export function formatWireName(id: string): string {
  if (LEGAL_WIRE_NAME.test(id)) return id;
  const wire = id.replaceAll(".", "__");
  return LEGAL_WIRE_NAME.test(wire) && !AMBIGUOUS_WIRE_NAME.test(id) ? wire : hashWireName(id);
}

/** Creates unique wire names for a list. A name depends on the other tools only if their names would collide. */
export function createWireNames(ids: readonly string[]): WireNames {
  const toId = new Map<string, string>();
  const toWire = new Map<string, string>();
  const give = (id: string, wire: string) => {
    toId.set(wire, id);
    toWire.set(id, wire);
  };
  // Sorted, so that the order of the list does not matter.
  const unique = [...new Set(ids)].sort();
  for (const id of unique) if (LEGAL_WIRE_NAME.test(id)) give(id, id);
  for (const id of unique) {
    if (toWire.has(id)) continue;
    let wire = formatWireName(id);
    for (let again = 0; toId.has(wire); again++) wire = hashWireName(id, again);
    give(id, wire);
  }
  return { toWire: (id) => toWire.get(id) ?? formatWireName(id), toId: (wire) => toId.get(wire) };
}

/** Names with a dot whose wire name could collide: `a_.b` and `a._b`, `a__b.c` and `a.b.c`. */
const AMBIGUOUS_WIRE_NAME = /__|_\.|\._/;

function hashWireName(id: string, again = 0): string {
  const hash = shortHash(again === 0 ? id : `${id} ${again}`);
  return `${id.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, MAX_WIRE_NAME_LENGTH - 1 - hash.length)}_${hash}`;
}
