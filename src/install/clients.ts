import { join, resolve } from "node:path";

/** Where a client looks for its files. */
export interface Place {
  home: string;
  workspace: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A client that finds skills in folders of its own. */
export interface NativeClient {
  title: string;
  /** Its folder of skills for all projects, and for one. */
  user(place: Place): string;
  project(place: Place): string;
  /** Keys of the frontmatter that it knows beside those of the standard; all others go under `metadata`. */
  keys: readonly string[];
  /** Names that it has for something else. */
  reserved: readonly string[];
  /** Skills and commands that it comes with: one of the same name takes their place. */
  comesWith?: readonly string[];
  /** Clients of this table whose folders it reads beside its own. */
  alsoReads?: readonly string[];
  /** What it puts the skill's folder in for, in the instructions. */
  skillDir?: string;
  /** Whether a description must be without angle brackets. */
  isPlain?: boolean;
  /** What is to be done for them to be seen. */
  next: string;
}

/** Every client, one row each. */
export const NATIVE_CLIENTS: Readonly<Record<string, NativeClient>> = {
  claude: {
    title: "Claude Code",
    user: (place) => join(folderOf(place, "CLAUDE_CONFIG_DIR") ?? join(place.home, ".claude"), "skills"),
    project: ({ workspace }) => join(workspace, ".claude", "skills"),
    // Not `model`: a skill that is loaded does not change the model of the conversation.
    keys: [
      "when_to_use",
      "argument-hint",
      "arguments",
      "disable-model-invocation",
      "user-invocable",
      "disallowed-tools",
      "effort",
      "context",
      "agent",
      "background",
      "hooks",
      "paths",
      "shell",
    ],
    // Its commands for itself. A skill of the same name is called in their place: one that says it is /login would be believed.
    reserved: [
      ...[
        "add-dir",
        "agents",
        "clear",
        "compact",
        "config",
        "context",
        "exit",
        "feedback",
        "help",
        "hooks",
        "ide",
        "init",
      ],
      ...[
        "install-github-app",
        "install-slack-app",
        "login",
        "logout",
        "mcp",
        "memory",
        "model",
        "permissions",
        "plugin",
      ],
      ...["privacy-settings", "quit", "reload-plugins", "reload-skills", "remote-control", "remote-env", "resume"],
      ...["rewind", "skills", "status", "teleport", "terminal-setup", "upgrade", "usage"],
    ],
    comesWith: [
      ...["batch", "branch", "bug", "claude-api", "code-review", "copy", "dataviz", "debug", "deep-research", "diff"],
      ...[
        "doctor",
        "export",
        "fewer-permission-prompts",
        "goal",
        "import",
        "install",
        "loop",
        "plan",
        "plugin-authoring",
      ],
      ...[
        "recap",
        "release-notes",
        "run",
        "run-skill-generator",
        "security-review",
        "session",
        "simplify",
        "statusline",
      ],
      ...["tasks", "theme", "update-config", "verify", "voice", "workflow-authoring", "workflows"],
    ],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the client that fills it in
    skillDir: "${CLAUDE_SKILL_DIR}",
    isPlain: true,
    next: "a running Claude Code sees them after /reload-skills, a new one at once; /skills lists them",
  },
  codex: {
    title: "Codex",
    user: (place) => join(folderOf(place, "CODEX_HOME") ?? join(place.home, ".codex"), "skills"),
    project: ({ workspace }) => join(workspace, ".codex", "skills"),
    keys: [],
    // Skills that it comes with. It lists both of a name, and nobody could tell them apart.
    reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
    alsoReads: ["agents"],
    next: "start Codex again; /skills lists them, and $NAME calls one",
  },
  gemini: {
    title: "Gemini CLI",
    user: (place) => join(folderOf(place, "GEMINI_CLI_HOME") ?? place.home, ".gemini", "skills"),
    project: ({ workspace }) => join(workspace, ".gemini", "skills"),
    keys: [],
    reserved: [],
    comesWith: ["antigravity-support", "skill-creator"],
    alsoReads: ["agents"],
    next: "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
  },
  opencode: {
    title: "OpenCode",
    user: (place) => join(folderOf(place, "XDG_CONFIG_HOME") ?? join(place.home, ".config"), "opencode", "skills"),
    project: ({ workspace }) => join(workspace, ".opencode", "skills"),
    keys: [],
    reserved: [],
    comesWith: ["customize-opencode"],
    alsoReads: ["agents", "claude"],
    next: "start OpenCode again; `opencode debug skill` shows them",
  },
  vscode: {
    title: "VS Code",
    user: ({ home }) => join(home, ".copilot", "skills"),
    project: ({ workspace }) => join(workspace, ".github", "skills"),
    keys: ["argument-hint", "user-invocable", "disable-model-invocation"],
    reserved: [],
    alsoReads: ["agents", "claude"],
    next: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
  },
  cursor: {
    title: "Cursor",
    user: ({ home }) => join(home, ".cursor", "skills"),
    project: ({ workspace }) => join(workspace, ".cursor", "skills"),
    keys: ["disable-model-invocation", "paths"],
    reserved: [],
    alsoReads: ["agents", "claude"],
    next: "start Cursor again; they are in its settings, under Rules, and after / in the chat",
  },
  agents: {
    title: "whatever reads .agents/skills",
    user: ({ home }) => join(home, ".agents", "skills"),
    project: ({ workspace }) => join(workspace, ".agents", "skills"),
    keys: [],
    reserved: [],
    next: "start the client again: Codex, Gemini CLI, OpenCode, VS Code and Cursor look there",
  },
};

/** The folder that a variable names. */
function folderOf({ env, workspace }: Place, variable: string): string | undefined {
  const named = env[variable];
  return named ? resolve(workspace, named) : undefined;
}
