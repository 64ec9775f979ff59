import { join } from "node:path";
import { CLIENT_KEYS } from "../skill/client-keys.ts";
import {
  CLIENT_IDS,
  type ClientId,
  type ClientPlace,
  clientRow,
  type SkillClient,
  userFolder,
} from "../source/client-folders.ts";

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
  /** All folders at this level in which it finds skills: its own, and those of other clients. */
  reads(level: "user" | "project", place: ClientPlace): string[];
  /** The longest description that it takes, and what it does with a longer one. Any length if left out. */
  description?: { longest: number; beyond: "cut" | "dropped" };
  /** The names that it lists. All names if left out. */
  listsName?: RegExp;
  /** What it puts the skill's folder in for, in the instructions. */
  skillDir?: string;
  /** The file of a skill in which it reads whether a model may choose the skill, in place of `disable-model-invocation`. */
  policyFile?: string;
  /** Whether a description must be without angle brackets. */
  isPlain?: boolean;
  /** What is to be done for them to be seen. */
  next: string;
}

/** Copilot CLI leaves out a skill with a longer description or another name, and reads the folders of three rows. */
const COPILOT_LIMITS = {
  description: { longest: 1024, beyond: "dropped" },
  listsName: /^[ -~]+$/,
} as const;

/** Every client, one row each. Limits, keys and folders were tried with the clients themselves, except those of VS Code and Cursor. */
export const NATIVE_CLIENTS: Readonly<Record<string, NativeClient>> = {
  claude: {
    title: "Claude Code",
    ...foldersOf("claude"),
    // Of description and when_to_use together.
    description: { longest: 1536, beyond: "cut" },
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
    description: { longest: 1024, beyond: "cut" },
    policyFile: "agents/openai.yaml",
    keys: CLIENT_KEYS.codex.skill,
    // Skills that it comes with. It lists both of a name, and nobody could tell them apart.
    reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
    next: "start Codex again; /skills lists them, and $NAME calls one",
  },
  gemini: {
    title: "Gemini CLI",
    ...foldersOf("gemini"),
    keys: CLIENT_KEYS.gemini.skill,
    reserved: [],
    comesWith: ["antigravity-support", "skill-creator"],
    next: "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
  },
  opencode: {
    title: "OpenCode",
    ...foldersOf("opencode"),
    keys: CLIENT_KEYS.opencode.skill,
    reserved: [],
    comesWith: ["customize-opencode"],
    next: "start OpenCode again; `opencode debug skill` shows them",
  },
  copilot: {
    title: "GitHub Copilot CLI",
    ...foldersOf("copilot"),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.copilot.skill,
    reserved: [],
    next: "start Copilot CLI again; /skills lists them",
  },
  vscode: {
    title: "VS Code",
    // The folders are those of Copilot CLI; by its documentation VS Code reads the user's Claude folder too.
    ...foldersOf("copilot", { user: ["agents", "claude"], project: ["agents", "claude"] }),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.vscode.skill,
    reserved: [],
    next: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
  },
  cursor: {
    title: "Cursor",
    ...foldersOf("cursor"),
    keys: CLIENT_KEYS.cursor.skill,
    reserved: [],
    next: "start Cursor again; they are in its settings, under Rules, and after / in the chat",
  },
  agents: {
    title: "whatever reads .agents/skills",
    ...foldersOf("agents"),
    // One of its readers is Copilot CLI.
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.agents.skill,
    reserved: [],
    next: "start the client again: Codex, Gemini CLI, OpenCode, Copilot CLI, VS Code and Cursor look there",
  },
};

/** Returns where copies for a client go, and where it finds skills, by the table of folders. */
function foldersOf(
  id: ClientId,
  alsoReads: SkillClient["alsoReads"] = clientRow(id).alsoReads,
): Pick<NativeClient, "user" | "project" | "reads"> {
  const all = {
    user: (client: ClientId, place: ClientPlace) => clientRow(client).user.map((folder) => userFolder(folder, place)),
    project: (client: ClientId, { workspace }: ClientPlace) =>
      clientRow(client).project.map((path) => join(workspace, path)),
  };
  const own = (level: "user" | "project", place: ClientPlace): string => {
    const [folder] = all[level](id, place);
    if (folder === undefined) throw new Error(`${id} has no folder of its own`);
    return folder;
  };
  return {
    user: (place) => own("user", place),
    project: (place) => own("project", place),
    reads: (level, place) =>
      [id, ...CLIENT_IDS.filter((other) => alsoReads?.[level].includes(other))].flatMap((client) =>
        all[level](client, place),
      ),
  };
}
