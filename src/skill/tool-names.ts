/** How other clients call the tools that exist here: one row a tool of ours. */
const SPELLINGS: Record<string, readonly string[]> = {
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

/** Tools of clients that have no counterpart here but are nobody's misspelling. */
const FOREIGN = [
  // They look after commands that run already: whoever may use them may not run any command for that.
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

const OURS = new Map(
  Object.entries(SPELLINGS).flatMap(([ours, theirs]) => [ours, ...theirs].map((name) => [name, ours] as const)),
);

export const TOOL_NAMES: readonly string[] = [...OURS.keys(), ...FOREIGN];

const FOLDED = new Map([...OURS].map(([name, ours]) => [name.toLowerCase(), ours]));

/** What a tool is called here, however a client spells it: `Read` → `read_file`. A name that is nobody's stays as it is. */
export function ourTool(name: string): string {
  return OURS.get(name) ?? FOLDED.get(name.toLowerCase()) ?? name;
}

/** Our name for the tool of an entry: `Bash(git:*)` → `bash`. */
export function ourToolName(entry: string): string {
  return ourTool(toolNameOf(entry));
}

/** `Bash(git:*)` → `Bash`. */
export function toolNameOf(entry: string): string {
  return entry.replace(/\(.*$/s, "");
}

/** Whether it is a tool of some client that has no counterpart here. */
export function isForeignTool(entry: string): boolean {
  return FOREIGN.includes(toolNameOf(entry));
}

/** Whether some client has a tool of this name. Names with a namespace (`mcp__x__y`, `server.tool`) are always somebody's. */
export function isKnownTool(entry: string): boolean {
  const name = toolNameOf(entry);
  return name === "*" || /__|[./:]/.test(name) || OURS.has(name) || FOREIGN.includes(name) || SKILL_TOOL.test(name);
}

const SKILL_TOOL =
  /^(?:list_skills|search_skills|load_skill|unload_skill|use_skill|read_skill_resource|run_skill_script|validate_skill|lint_skill)$/;
