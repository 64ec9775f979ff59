import { lstatSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { CLIENT_KEYS } from "../skill/client-keys.ts";
import {
  CLIENT_IDS,
  type ClientEnvironment,
  type ClientId,
  getSkillClient,
  resolveUserFolder,
  type SkillClient,
} from "../skill/source/client-folders.ts";
import { type Environment, formatHomePath } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../store/copy-records.ts";
import { hashFolder } from "../store/folder-copy.ts";
import { isInside, resolveRealPath } from "../util/safe-path.ts";
import { findNearest } from "../util/text.ts";
import type { CopyStatus } from "./skill-copies.ts";

/** A client that finds skills in folders of its own. */
export interface NativeClient {
  title: string;
  /** Its folder of skills for all projects, and for one. */
  user(place: ClientEnvironment): string;
  project(place: ClientEnvironment): string;
  /** Keys of the frontmatter that it knows beside those of the standard; all others go under `metadata`. */
  keys: readonly string[];
  /** Names that it has for something else. */
  reserved: readonly string[];
  /** Skills and commands that it comes with: one of the same name takes their place. */
  comesWith?: readonly string[];
  /** All folders at this level in which it finds skills: its own, and those of other clients. */
  reads(level: "user" | "project", place: ClientEnvironment): string[];
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
    ...createFolderLookup("claude"),
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
    ...createFolderLookup("codex"),
    description: { longest: 1024, beyond: "cut" },
    policyFile: "agents/openai.yaml",
    keys: CLIENT_KEYS.codex.skill,
    // Skills that it comes with. It lists both of a name, and nobody could tell them apart.
    reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
    next: "start Codex again; /skills lists them, and $NAME calls one",
  },
  gemini: {
    title: "Gemini CLI",
    ...createFolderLookup("gemini"),
    keys: CLIENT_KEYS.gemini.skill,
    reserved: [],
    comesWith: ["antigravity-support", "skill-creator"],
    next: "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
  },
  opencode: {
    title: "OpenCode",
    ...createFolderLookup("opencode"),
    keys: CLIENT_KEYS.opencode.skill,
    reserved: [],
    comesWith: ["customize-opencode"],
    next: "start OpenCode again; `opencode debug skill` shows them",
  },
  copilot: {
    title: "GitHub Copilot CLI",
    ...createFolderLookup("copilot"),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.copilot.skill,
    reserved: [],
    next: "start Copilot CLI again; /skills lists them",
  },
  vscode: {
    title: "VS Code",
    // The folders are those of Copilot CLI; by its documentation VS Code reads the user's Claude folder too.
    ...createFolderLookup("copilot", { user: ["agents", "claude"], project: ["agents", "claude"] }),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.vscode.skill,
    reserved: [],
    next: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
  },
  cursor: {
    title: "Cursor",
    ...createFolderLookup("cursor"),
    keys: CLIENT_KEYS.cursor.skill,
    reserved: [],
    next: "start Cursor again; they are in its settings, under Rules, and after / in the chat",
  },
  agents: {
    title: "whatever reads .agents/skills",
    ...createFolderLookup("agents"),
    // One of its readers is Copilot CLI.
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.agents.skill,
    reserved: [],
    next: "start the client again: Codex, Gemini CLI, OpenCode, Copilot CLI, VS Code and Cursor look there",
  },
};

/** Returns where copies for a client go, and where it finds skills, by the table of folders. */
function createFolderLookup(
  id: ClientId,
  alsoReads: SkillClient["alsoReads"] = getSkillClient(id).alsoReads,
): Pick<NativeClient, "user" | "project" | "reads"> {
  const all = {
    user: (client: ClientId, place: ClientEnvironment) =>
      getSkillClient(client).user.map((folder) => resolveUserFolder(folder, place)),
    project: (client: ClientId, { workspace }: ClientEnvironment) =>
      getSkillClient(client).project.map((path) => join(workspace, path)),
  };
  const own = (level: "user" | "project", place: ClientEnvironment): string => {
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

/** A client's folder of skills. */
export interface ClientTarget {
  /** As the table of clients calls it. */
  id: string;
  client: NativeClient;
  /** Its real path, be it there or not. */
  folder: string;
  /** The folder as people are told. */
  shown: string;
}

export interface ClientTargetOptions {
  around: Environment;
  /** That of the workspace alone, in place of the user's own. */
  isProject: boolean;
}

/** The folder of a client. Throws a SkillError when there can be none. */
export function resolveClientTarget(id: string, { around, isProject }: ClientTargetOptions): ClientTarget {
  const client = getNativeClient(id);
  const path = resolve(client[isProject ? "project" : "user"](around));
  const base = isProject ? around.workspace : around.home;
  if (isInside(base, path) && !statIfExists(base)?.isDirectory()) {
    throw new SkillError("no-home", {
      message: `The ${isProject ? "workspace" : "home folder"} ${base} is not there`,
      fix: isProject ? "check --workspace" : "set HOME to yours, or use --project",
    });
  }
  const folder = resolveTargetPath(path);
  // A workspace is somebody else's work: a link in it must not lead what is written to where the user keeps other things.
  if (isProject && !isInside(resolveTargetPath(base), folder)) {
    throw new SkillError("target-outside", {
      message: `${path} leads out of the workspace, to ${folder}; nothing was written`,
      fix: "put a folder in the place of the link",
    });
  }
  const stats = statIfExists(folder);
  if (stats && !stats.isDirectory()) {
    throw new SkillError("not-a-folder", {
      message: `${path} is no folder, so no skills can be put there`,
      fix: "move it away",
    });
  }
  return { id, client, folder, shown: isProject ? path : formatHomePath(path, around.home) };
}

/** Throws a SkillError that names those there are. */
export function getNativeClient(id: string): NativeClient {
  const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
  if (client) return client;
  const known = Object.keys(NATIVE_CLIENTS);
  const meant = findNearest(id, known);
  throw new SkillError("usage", {
    message: `"${id}" is no client that is known`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}known are: ${known.join(", ")}`,
  });
}

/** What stands in a skill's place in a folder of skills. */
export function readCopyStatus(
  { folder }: Pick<ClientTarget, "folder">,
  name: string,
  installs: ClientCopyStore,
): CopyStatus {
  const place = join(folder, name);
  const entry = installs.entries()[place];
  const stats = lstatOrNone(place);
  if (!stats) return { is: "nothing" };
  if (stats.isSymbolicLink()) return { is: "foreign", what: "link" };
  if (!stats.isDirectory()) return { is: "foreign", what: "file" };
  const digest = digestFolder(place);
  if (!entry) return { is: "foreign", what: "folder", digest };
  return { is: "ours", digest, isEdited: isEditedCopy(entry, digest), isLast: !hasOriginal(entry) };
}

export function isEditedCopy({ copy, before }: ClientCopy, digest: string): boolean {
  return digest !== copy && digest !== before;
}

/** The names of what skillet put into a folder of skills, there or not. */
export function listCopyNames({ folder }: Pick<ClientTarget, "folder">, installs: ClientCopyStore): string[] {
  return Object.entries(installs.entries()).flatMap(([place, { skill }]) =>
    // What is written down of any other place is not what skillet writes.
    dirname(place) === folder && basename(place) === skill ? [skill] : [],
  );
}

/** What cannot be read is told from all that can: it is somebody's own. */
export function digestFolder(folder: string): string {
  try {
    return hashFolder(folder).digest;
  } catch (error) {
    return `unreadable: ${getErrorMessage(error)}`;
  }
}

/** The real path that something has, or would have once it is made. */
function resolveTargetPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const code = getErrnoCode(error);
    if (code !== "ENOENT" && code !== "ENOTDIR") throw createUnreachableError(path, getErrorMessage(error));
    if (lstatOrNone(path)?.isSymbolicLink()) throw createUnreachableError(path, "it is a link to nothing");
  }
  return dirname(path) === path ? path : join(resolveTargetPath(dirname(path)), basename(path));
}

function createUnreachableError(path: string, why: string): SkillError {
  return new SkillError("unreachable", {
    message: `${path} cannot be reached: ${why}`,
    fix: "check the folder, and the links on the way to it",
  });
}

function lstatOrNone(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (getErrnoCode(error) === "ENOTDIR") return undefined;
    throw createUnreachableError(path, getErrorMessage(error));
  }
}

interface DuplicateListingOptions extends ClientTargetOptions {
  /** Folders of skills that are to be there, beside those that are. */
  planned?: ReadonlySet<string>;
}

/** Returns a sentence for each client that finds the skill twice, since it reads another folder that has it too. */
export function findDuplicateListings(name: string, target: ClientTarget, options: DuplicateListingOptions): string[] {
  const { around, isProject, planned } = options;
  const level = isProject ? "project" : "user";
  const has = (folder: string) =>
    planned?.has(join(folder, name)) || statIfExists(join(folder, name, "SKILL.md")) !== undefined;
  return Object.entries(NATIVE_CLIENTS).flatMap(([id, client]) => {
    const folders = [...new Set(client.reads(level, around).map(resolveRealPath))];
    const other = folders.find((folder) => folder !== target.folder && has(folder));
    if (other === undefined || !folders.includes(target.folder)) return [];
    // A client that is not used here has neither a folder of its own nor a copy in it.
    const own = client[level](around);
    if (![target.folder, other].includes(resolveRealPath(own)) && !statIfExists(dirname(client.user(around))))
      return [];
    const shown = isProject ? other : formatHomePath(other, around.home);
    return target.id === id
      ? `${client.title} reads ${shown} too, where this skill is already: it will see it twice`
      : `${client.title} reads this folder too, and has this skill in ${shown} already: it will see it twice`;
  });
}
