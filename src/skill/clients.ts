/** A folder below the user's home. If the variable is set, the folder is `path` below its value. */
export interface UserFolder {
  path: string;
  movedBy?: { env: string; path: string };
}

/** Frontmatter keys of a client in addition to those of the open standard. A key here is never reported as a misspelling. */
export interface ClientKeys {
  /** Keys that it reads in a skill. */
  skill: readonly string[];
  /** Keys of its agents, commands, prompts and rules: common in skills too, because files are copied between kinds. */
  other?: readonly string[];
}

/** The rules for copies of skills in a client's folders. */
export interface CopyRules {
  /** Its title as a target of copies, if it differs. */
  title?: string;
  /** The client whose folders it shares. */
  sharesFoldersOf?: "copilot";
  /** Names that it reserves. */
  reserved?: readonly string[];
  /** Its built-in skills and commands: a skill of the same name replaces them. */
  builtInNames?: readonly string[];
  /** The longest description it accepts, and its handling of a longer one. Defaults to any length. */
  description?: { longest: number; beyond: "cut" | "dropped" };
  /** The names that it lists. Defaults to all names. */
  listsName?: RegExp;
  /** Its placeholder for the skill's folder, in the instructions. */
  skillDir?: string;
  /** The file in which it reads whether a model may choose the skill, instead of `disable-model-invocation`. */
  policyFile?: string;
  /** True if a description must not have angle brackets. */
  refusesAngleBrackets?: boolean;
  /** The next step for the user. */
  nextStep: string;
}

/** The limits of an MCP server's texts in a client, in characters. */
export interface McpTextLimits {
  /** 0 if the client drops the server's instructions. */
  instructions: number;
  /** Of one tool's description. */
  toolDescription: number;
  /** For one tool's result: a longer one is truncated, or written to a file of which the model sees the beginning. */
  toolResult: number;
  /** True if the client fetches the list of tools again when the server announces a change. */
  refreshesTools: boolean;
  /** True if its model was observed to have a new tool in the very next request. */
  offersNewTools: boolean;
}

/** The rules of a client's own list of skills, derived from requests of the real program. */
export interface ListingRules {
  /** The version whose requests these rules were compared with. */
  version: string;
  /** Its `clientInfo.name` over MCP. */
  announces: RegExp;
  mcp: McpTextLimits;
  /** True if its list has `when_to_use`. */
  readsWhenToUse: boolean;
  /** True if it hides skills that only users can invoke. */
  heedsInvocation: boolean;
  /** Longer descriptions are truncated to this many characters. Defaults to any length. */
  longest?: number;
  /** The end of a truncated description. */
  cutMark?: string;
  /** A skill with a longer description is not listed. */
  dropsOver?: number;
  /**
   * The way descriptions are fitted. `each`: each in turn that fits, in columns. `evenly`: all cut to one length, in tokens.
   * `first`: whole entries until one does not fit, in characters. Defaults to no limit.
   */
  fit?: { by: "each" | "evenly" | "first"; room: number };
  /** True if the list goes from z to a. */
  isDescending?: true;
}

/** The prompt hook of a client: its configuration file, its input and its answer. */
export interface HookRules {
  /** The client's event. */
  event: string;
  /** The file with the hook, below the client's folder. */
  file: readonly string[];
  /** Keys of the input; the first with a text counts. A list counts with its first entry. */
  input: { prompt: readonly string[]; conversation: readonly string[]; cwd: readonly string[] };
  /** The unit in which the client measures the answer. Defaults to characters. */
  counts?: "characters" | "bytes";
  /** The text that a model follows from there. Defaults to instructions. */
  gives?: "instructions" | "shortlist";
  /** Values of the key `hook_event_name` for the events that summarize a conversation; the first is the one to register. */
  summaries?: readonly string[];
  /** True if the client may put quotation marks around the prompt. */
  quotesPrompt?: true;
  /** Values of the key `source` for prompts that no user wrote, such as a background task's: their text selects no skill. */
  nonUserSources?: readonly string[];
  /** The keys of every answer. An answer that adds nothing has only these. */
  neutral?: Readonly<Record<string, unknown>>;
  /** The key of the text in an answer. Without it, the text is `additionalContext` in `hookSpecificOutput`. */
  answerKey?: string;
  /** True if the client escapes `<` and `&` itself, so that a model would read them escaped twice. */
  escapesAnswer?: true;
}

/** The facts of a program that reads skills. Behavior is in the tables that are derived from this one. */
export interface ClientFacts {
  title: string;
  /** The name of its program for the terminal, if it differs. */
  programTitle?: string;
  /** The command that starts it. */
  program?: string;
  /** Folders of skills for all projects. Copies for the client go into the first. */
  user: readonly UserFolder[];
  /** Folders of skills of a project, relative to it. Copies for the client go into the first. */
  project: readonly string[];
  /** Other clients of this table whose user folders and project folders it also reads; a list applies to both. */
  alsoReads?: { user: readonly string[]; project: readonly string[] };
  /** A folder that an administrator manages for all users. */
  managed?: string;
  /** The folder inside the first user folder that contains the client's built-in skills. */
  builtIn?: string;
  /** The configuration of its MCP servers: the format, and the file of a project, relative to it. */
  mcp?: { format: "json" | "jsonc" | "toml"; project: string };
  /**
   * The names of its files and folders in a project, which control an agent: code may not change the first, and changes of
   * the others are held until they are approved.
   */
  protects: { closed: readonly string[]; held: readonly string[] };
  keys: ClientKeys;
  copies: CopyRules;
  /** Absent for a client whose list is not known. */
  listing?: ListingRules;
  /** Absent for a client without a prompt hook. */
  hook?: HookRules;
}

/** Copilot CLI omits a skill with a longer description or another name. The clients that share its folders do too. */
const COPILOT_LIMITS = { description: { longest: 1024, beyond: "dropped" }, listsName: /^[ -~]+$/ } as const;
/** Copilot CLI and VS Code read the same keys. */
const COPILOT_KEYS = ["argument-hint", "user-invocable", "disable-model-invocation"] as const;
const CLAUDE_HOOK_INPUT = { prompt: ["prompt"], conversation: ["session_id"], cwd: ["cwd"] } as const;
const WIDE_MCP = { instructions: 40_000, toolDescription: 40_000, toolResult: 40_000, offersNewTools: false } as const;

/**
 * THE table of clients, in order of precedence. Discovery, copies, keys, MCP configuration, lists, hooks and protected paths are derived
 * from it; a new client is a row here, and code for what only it does. The data was verified with the clients, except those of Cursor, which are from its source, and of VS Code.
 */
export const CLIENTS = {
  agents: {
    title: "the shared .agents folder",
    user: [{ path: ".agents/skills" }],
    project: [".agents/skills"],
    protects: { closed: [".agents"], held: ["AGENTS.md", "AGENTS.override.md", "AGENT.md"] },
    keys: { skill: [] },
    // One of the readers is Copilot CLI.
    copies: {
      title: "any client that reads .agents/skills",
      ...COPILOT_LIMITS,
      nextStep: "start the client again: Codex, Gemini CLI, OpenCode, Copilot CLI, VS Code and Cursor read this folder",
    },
  },
  claude: {
    title: "Claude Code",
    program: "claude",
    user: [{ path: ".claude/skills", movedBy: { env: "CLAUDE_CONFIG_DIR", path: "skills" } }],
    project: [".claude/skills"],
    managed: "/etc/claude-code/.claude/skills",
    mcp: { format: "json", project: ".mcp.json" },
    protects: {
      closed: [".claude", ".mcp.json"],
      held: ["CLAUDE.md", "CLAUDE.local.md", ".claude.json", ".claude-plugin"],
    },
    keys: {
      // Not `model`: loading a skill does not change the model of the conversation.
      skill: [
        ...["when_to_use", "argument-hint", "arguments", "disable-model-invocation", "user-invocable"],
        ...["disallowed-tools", "effort", "context", "agent", "background", "hooks", "paths", "shell"],
      ],
      other: [
        ...["tools", "disallowedTools", "permissionMode", "maxTurns", "skills", "mcpServers", "memory"],
        ...["isolation", "color", "initialPrompt", "model", "output-style", "keep-coding-instructions"],
        ...["hide-from-slash-command-tool"],
      ],
    },
    copies: {
      // The limit of description and when_to_use together.
      description: { longest: 1536, beyond: "cut" },
      // Its own commands. A skill of the same name is called instead: users would trust a skill called /login.
      reserved: [
        ...["add-dir", "agents", "clear", "compact", "config", "context", "exit", "feedback", "help"],
        ...["hooks", "ide", "init", "install-github-app", "install-slack-app", "login", "logout", "mcp"],
        ...["memory", "model", "permissions", "plugin", "privacy-settings", "quit", "reload-plugins"],
        ...["reload-skills", "remote-control", "remote-env", "resume", "rewind", "skills", "status"],
        ...["teleport", "terminal-setup", "upgrade", "usage"],
      ],
      builtInNames: [
        ...["batch", "branch", "bug", "claude-api", "code-review", "copy", "dataviz", "debug"],
        ...["deep-research", "diff", "doctor", "export", "fewer-permission-prompts", "goal", "import"],
        ...["install", "loop", "plan", "plugin-authoring", "recap", "release-notes", "run"],
        ...["run-skill-generator", "security-review", "session", "simplify", "statusline", "tasks"],
        ...["theme", "update-config", "verify", "voice", "workflow-authoring", "workflows"],
      ],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the client that fills it in
      skillDir: "${CLAUDE_SKILL_DIR}",
      refusesAngleBrackets: true,
      nextStep: "a running Claude Code sees them after /reload-skills, a new one at once; /skills lists them",
    },
    listing: {
      version: "2.1.325",
      announces: /^claude-code$/,
      mcp: {
        instructions: 4096,
        toolDescription: 4096,
        toolResult: 40_000,
        refreshesTools: true,
        offersNewTools: false,
      },
      readsWhenToUse: true,
      heedsInvocation: true,
      longest: 1536,
      cutMark: "…",
      // Its 11 bundled skills keep their descriptions, and two commands their names: 6,066 of 8,000 columns with line breaks.
      fit: { by: "each", room: 8000 - 6066 },
    },
    // Above 10,000 characters the model gets a preview.
    hook: {
      event: "UserPromptSubmit",
      file: ["settings.json"],
      input: CLAUDE_HOOK_INPUT,
      summaries: ["PreCompact", "PostCompact"],
      nonUserSources: ["system", "poll_event"],
    },
  },
  codex: {
    title: "Codex",
    program: "codex",
    user: [{ path: ".codex/skills", movedBy: { env: "CODEX_HOME", path: "skills" } }],
    project: [".codex/skills"],
    builtIn: ".system",
    alsoReads: { user: ["agents"], project: ["agents"] },
    mcp: { format: "toml", project: ".codex/config.toml" },
    protects: { closed: [".codex"], held: [".codex-plugin"] },
    keys: { skill: [], other: ["interface", "policy", "dependencies"] },
    copies: {
      description: { longest: 1024, beyond: "cut" },
      policyFile: "agents/openai.yaml",
      // Its built-in skills. It lists both skills of one name, and users could not tell them apart.
      reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
      nextStep: "start Codex again; /skills lists them, and $NAME calls one",
    },
    listing: {
      version: "0.166.0",
      announces: /^codex/,
      // It removes the middle of a result over 10,000 bytes.
      mcp: { ...WIDE_MCP, toolResult: 9500, refreshesTools: false },
      readsWhenToUse: false,
      heedsInvocation: false,
      longest: 1024,
      cutMark: "...",
      // 2 % of a window of 272,000 tokens, at four bytes each.
      fit: { by: "evenly", room: 5440 },
    },
    hook: {
      event: "UserPromptSubmit",
      file: ["hooks.json"],
      input: CLAUDE_HOOK_INPUT,
      counts: "bytes", // About 2,500 tokens, estimated from the bytes.
    },
  },
  gemini: {
    title: "Gemini CLI",
    program: "gemini",
    user: [{ path: ".gemini/skills", movedBy: { env: "GEMINI_CLI_HOME", path: ".gemini/skills" } }],
    project: [".gemini/skills"],
    alsoReads: { user: ["agents"], project: ["agents"] },
    mcp: { format: "jsonc", project: ".gemini/settings.json" },
    protects: { closed: [".gemini"], held: ["GEMINI.md"] },
    keys: { skill: [], other: ["kind", "tools", "model", "temperature", "max_turns", "timeout_mins", "prompt"] },
    copies: {
      builtInNames: ["antigravity-support", "skill-creator"],
      nextStep:
        "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
    },
    listing: {
      version: "0.61.0",
      announces: /^gemini-cli/,
      mcp: { ...WIDE_MCP, refreshesTools: true },
      readsWhenToUse: false,
      heedsInvocation: false,
      isDescending: true,
    },
    hook: {
      event: "BeforeAgent",
      file: ["settings.json"],
      input: CLAUDE_HOOK_INPUT,
      gives: "shortlist", // Its system prompt declares text from hooks to be data, not instructions.
      escapesAnswer: true,
      summaries: ["PreCompress"],
    },
  },
  opencode: {
    title: "OpenCode",
    program: "opencode",
    user: [
      { path: ".config/opencode/skills", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skills" } },
      { path: ".config/opencode/skill", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skill" } },
      { path: ".opencode/skills" },
    ],
    project: [".opencode/skills", ".opencode/skill"],
    alsoReads: { user: ["agents", "claude"], project: ["agents", "claude"] },
    mcp: { format: "jsonc", project: "opencode.json" },
    protects: { closed: [".opencode"], held: ["opencode.json", "opencode.jsonc"] },
    keys: {
      skill: [],
      other: [
        ...["mode", "model", "prompt", "tools", "permission", "temperature", "top_p", "steps", "maxSteps", "disable"],
        ...["hidden", "color", "agent", "subtask", "template"],
      ],
    },
    copies: {
      builtInNames: ["customize-opencode"],
      nextStep: "start OpenCode again; `opencode debug skill` shows them",
    },
    listing: {
      version: "1.18.33",
      announces: /^opencode$/,
      mcp: { ...WIDE_MCP, refreshesTools: true },
      readsWhenToUse: false,
      heedsInvocation: false,
    },
    hook: {
      event: "chat.message",
      file: ["plugins", "skillet.js"],
      input: { prompt: ["prompt"], conversation: ["sessionID"], cwd: ["cwd"] },
      quotesPrompt: true,
      answerKey: "additionalContext",
    },
  },
  copilot: {
    title: "GitHub Copilot",
    programTitle: "GitHub Copilot CLI",
    program: "copilot",
    user: [{ path: ".copilot/skills" }],
    project: [".github/skills"],
    alsoReads: { user: ["agents"], project: ["agents", "claude"] },
    // Claude Code reads the same file.
    mcp: { format: "jsonc", project: ".mcp.json" },
    protects: { closed: [], held: [".copilot"] },
    keys: { skill: COPILOT_KEYS },
    copies: { ...COPILOT_LIMITS, nextStep: "start Copilot CLI again; /skills lists them" },
    listing: {
      version: "1.0.102",
      announces: /^(?:github-)?copilot/,
      // Instructions arrive only with --allow-all-mcp-server-instructions.
      // A result of 23,000 characters went to a file, of which its model saw 500: the exact limit is unknown.
      mcp: { instructions: 0, toolDescription: 40_000, toolResult: 9500, refreshesTools: true, offersNewTools: true },
      readsWhenToUse: false,
      heedsInvocation: true,
      dropsOver: 1024,
      fit: { by: "first", room: 15_000 },
    },
    hook: {
      event: "userPromptSubmitted",
      file: ["hooks", "skillet.json"],
      input: { prompt: ["prompt"], conversation: ["sessionId"], cwd: ["cwd"] },
      answerKey: "additionalContext", // It drops the nested form.
    },
  },
  vscode: {
    title: "VS Code",
    program: "code",
    user: [],
    project: [],
    // By its documentation.
    alsoReads: { user: ["agents", "claude"], project: ["agents", "claude"] },
    mcp: { format: "jsonc", project: ".vscode/mcp.json" },
    protects: { closed: [], held: ["mcp.json"] },
    keys: {
      skill: COPILOT_KEYS,
      other: ["mode", "model", "tools", "agent", "agents", "handoffs", "target", "infer", "mcp-servers", "applyTo"],
    },
    copies: {
      ...COPILOT_LIMITS,
      sharesFoldersOf: "copilot",
      nextStep: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
    },
  },
  cursor: {
    title: "Cursor",
    program: "cursor",
    user: [{ path: ".cursor/skills" }, { path: ".grok/skills" }],
    project: [".cursor/skills"],
    alsoReads: { user: ["agents", "claude", "codex"], project: ["agents", "claude", "codex"] },
    mcp: { format: "jsonc", project: ".cursor/mcp.json" },
    protects: { closed: [".cursor"], held: [".cursorrules", ".cursorignore"] },
    keys: {
      skill: ["disable-model-invocation", "paths"],
      other: ["globs", "alwaysApply", "readonly", "is_background"],
    },
    copies: { nextStep: "start Cursor again; they are in its settings, under Rules, and after / in the chat" },
    // Above 10,000 characters nothing is added.
    hook: {
      event: "beforeSubmitPrompt",
      file: ["hooks.json"],
      input: { prompt: ["prompt"], conversation: ["conversation_id"], cwd: ["cwd", "workspace_roots"] },
      neutral: { continue: true },
      answerKey: "additional_context",
    },
  },
} as const satisfies Record<string, ClientFacts>;

export type ClientName = keyof typeof CLIENTS;

/** The clients with a part of their row. */
export type ClientWith<Part extends keyof ClientFacts> = {
  [Name in ClientName]: (typeof CLIENTS)[Name] extends Record<Part, unknown> ? Name : never;
}[ClientName];

/** Returns a part of each client's row that has it, in the order of the table. */
export function listClientFacts<Part extends "keys" | "copies" | "listing" | "hook">(
  part: Part,
): [name: ClientWith<Part>, facts: NonNullable<ClientFacts[Part]>][] {
  return (Object.keys(CLIENTS) as ClientName[]).flatMap((name) => {
    const facts = (CLIENTS[name] as ClientFacts)[part];
    return facts === undefined ? [] : [[name as ClientWith<Part>, facts]];
  });
}

const { agents, ...MCP_CLIENTS } = CLIENTS;
/** The clients with a configuration of MCP servers. */
export const MCP_CLIENT_NAMES = Object.keys(MCP_CLIENTS) as (keyof typeof MCP_CLIENTS)[];

/** The clients that copies of skills can be made for. */
export const NATIVE_CLIENT_NAMES: readonly ClientName[] = [...MCP_CLIENT_NAMES, "agents"];

/** Returns the title of a client's program for the terminal. */
export function getProgramTitle(name: ClientName): string {
  const { title, programTitle = title }: ClientFacts = CLIENTS[name];
  return programTitle;
}

/** Returns the command that starts a client, if there is one. */
export function getClientProgram(name: ClientName): string | undefined {
  return (CLIENTS[name] as ClientFacts).program;
}

/** Lists the names of files and folders that control the clients in a project. */
export function listProtectedNames(kind: keyof ClientFacts["protects"]): string[] {
  return Object.values<ClientFacts>(CLIENTS).flatMap(({ protects }) => protects[kind]);
}
