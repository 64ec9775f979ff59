import { join } from "node:path";
import { CLIENT_KEYS } from "../skill/client-keys.ts";
import { type ClientId, type ClientPlace, clientRow, userFolder } from "../source/client-folders.ts";

/** A client that finds skills in folders of its own. */
export interface NativeClient {
  title: string;
  /** Its folder of skills for all projects, and for one. */
  user(place: ClientPlace): string;
  project(place: ClientPlace): string;
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
    ...foldersOf("claude"),
    keys: CLIENT_KEYS.claude.skill,
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
    ...foldersOf("codex"),
    keys: CLIENT_KEYS.codex.skill,
    // Skills that it comes with. It lists both of a name, and nobody could tell them apart.
    reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
    alsoReads: ["agents"],
    next: "start Codex again; /skills lists them, and $NAME calls one",
  },
  gemini: {
    title: "Gemini CLI",
    ...foldersOf("gemini"),
    keys: CLIENT_KEYS.gemini.skill,
    reserved: [],
    comesWith: ["antigravity-support", "skill-creator"],
    alsoReads: ["agents"],
    next: "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
  },
  opencode: {
    title: "OpenCode",
    ...foldersOf("opencode"),
    keys: CLIENT_KEYS.opencode.skill,
    reserved: [],
    comesWith: ["customize-opencode"],
    alsoReads: ["agents", "claude"],
    next: "start OpenCode again; `opencode debug skill` shows them",
  },
  vscode: {
    title: "VS Code",
    ...foldersOf("copilot"),
    keys: CLIENT_KEYS.vscode.skill,
    reserved: [],
    alsoReads: ["agents", "claude"],
    next: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
  },
  cursor: {
    title: "Cursor",
    ...foldersOf("cursor"),
    keys: CLIENT_KEYS.cursor.skill,
    reserved: [],
    alsoReads: ["agents", "claude", "codex"],
    next: "start Cursor again; they are in its settings, under Rules, and after / in the chat",
  },
  agents: {
    title: "whatever reads .agents/skills",
    ...foldersOf("agents"),
    keys: CLIENT_KEYS.agents.skill,
    reserved: [],
    next: "start the client again: Codex, Gemini CLI, OpenCode, VS Code and Cursor look there",
  },
};

/** Returns where copies for a client go, by the table of its folders. */
function foldersOf(id: ClientId): Pick<NativeClient, "user" | "project"> {
  const { user, project } = clientRow(id);
  const [[own], [path = ""]] = [user, project];
  if (!own) throw new Error(`${id} has no folder of its own`);
  return { user: (place) => userFolder(own, place), project: ({ workspace }) => join(workspace, path) };
}
