import { lstatSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import { getProgramTitle } from "../../skill/clients.ts";
import { CLIENT_KEYS } from "../../skill/manifest-fields.ts";
import {
  CLIENT_IDS,
  type ClientEnvironment,
  type ClientId,
  type Environment,
  formatHomePath,
  getSkillClient,
  resolveUserFolder,
  type SkillClient,
} from "../../skill/source/locations.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../../store/copy-records.ts";
import { hashFolder } from "../../store/folder-copy.ts";
import { statIfExists } from "../../util/file-access.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { findNearest } from "../../util/text.ts";
import type { CopyStatus } from "./skill-copies.ts";

/** A client that finds skills in its own folders. */
export interface NativeClient {
  title: string;
  /** Its folder of skills for all projects, and for one. */
  user(environment: ClientEnvironment): string;
  project(environment: ClientEnvironment): string;
  /** Frontmatter keys that it reads in addition to the standard; all others go under `metadata`. */
  keys: readonly string[];
  /** Names that it reserves. */
  reserved: readonly string[];
  /** Its built-in skills and commands: a skill of the same name replaces them. */
  builtInNames?: readonly string[];
  /** All folders at this level in which it finds skills: its own, and those of other clients. */
  reads(level: "user" | "project", environment: ClientEnvironment): string[];
  /** The longest description it accepts, and its handling of a longer one. Defaults to any length. */
  description?: { longest: number; beyond: "cut" | "dropped" };
  /** The names that it lists. Defaults to all names. */
  listsName?: RegExp;
  /** Its placeholder for the skill's folder, in the instructions. */
  skillDir?: string;
  /**
   * The file of a skill in which it reads whether a model may choose the skill, instead of `disable-model-invocation`.
   */
  policyFile?: string;
  /** True if a description must not have angle brackets. */
  refusesAngleBrackets?: boolean;
  /** The next step for the user. */
  nextStep: string;
}

/** Copilot CLI omits a skill with a longer description or another name, and reads the folders of three rows. */
const COPILOT_LIMITS = {
  description: { longest: 1024, beyond: "dropped" },
  listsName: /^[ -~]+$/,
} as const;

/**
 * Every client, one row each. Limits, keys and folders were tested with the clients themselves, except those of VS Code
 * and Cursor.
 */
export const NATIVE_CLIENTS: Readonly<Record<string, NativeClient>> = {
  claude: {
    title: getProgramTitle("claude"),
    ...createFolderLookup("claude"),
    // The limit of description and when_to_use together.
    description: { longest: 1536, beyond: "cut" },
    keys: CLIENT_KEYS.claude.skill,
    // Its own commands. A skill of the same name is called instead: users would trust a skill called /login.
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
    builtInNames: [
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
    refusesAngleBrackets: true,
    nextStep: "a running Claude Code sees them after /reload-skills, a new one at once; /skills lists them",
  },
  codex: {
    title: getProgramTitle("codex"),
    ...createFolderLookup("codex"),
    description: { longest: 1024, beyond: "cut" },
    policyFile: "agents/openai.yaml",
    keys: CLIENT_KEYS.codex.skill,
    // Its built-in skills. It lists both skills of one name, and users could not tell them apart.
    reserved: ["imagegen", "openai-docs", "skill-creator", "skill-installer"],
    nextStep: "start Codex again; /skills lists them, and $NAME calls one",
  },
  gemini: {
    title: getProgramTitle("gemini"),
    ...createFolderLookup("gemini"),
    keys: CLIENT_KEYS.gemini.skill,
    reserved: [],
    builtInNames: ["antigravity-support", "skill-creator"],
    nextStep:
      "start Gemini CLI again, for skills of a project in a folder that it trusts; `gemini skills list` shows them",
  },
  opencode: {
    title: getProgramTitle("opencode"),
    ...createFolderLookup("opencode"),
    keys: CLIENT_KEYS.opencode.skill,
    reserved: [],
    builtInNames: ["customize-opencode"],
    nextStep: "start OpenCode again; `opencode debug skill` shows them",
  },
  copilot: {
    title: getProgramTitle("copilot"),
    ...createFolderLookup("copilot"),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.copilot.skill,
    reserved: [],
    nextStep: "start Copilot CLI again; /skills lists them",
  },
  vscode: {
    title: getProgramTitle("vscode"),
    // The folders are those of Copilot CLI; by its documentation VS Code reads the user's Claude folder too.
    ...createFolderLookup("copilot", { user: ["agents", "claude"], project: ["agents", "claude"] }),
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.vscode.skill,
    reserved: [],
    nextStep: "run `Chat: Open Customizations` in its command palette, or type / in the chat: they are listed there",
  },
  cursor: {
    title: getProgramTitle("cursor"),
    ...createFolderLookup("cursor"),
    keys: CLIENT_KEYS.cursor.skill,
    reserved: [],
    nextStep: "start Cursor again; they are in its settings, under Rules, and after / in the chat",
  },
  agents: {
    title: "any client that reads .agents/skills",
    ...createFolderLookup("agents"),
    // One of the readers is Copilot CLI.
    ...COPILOT_LIMITS,
    keys: CLIENT_KEYS.agents.skill,
    reserved: [],
    nextStep: "start the client again: Codex, Gemini CLI, OpenCode, Copilot CLI, VS Code and Cursor read this folder",
  },
};

/** Returns the folder for copies of a client, and the folders it reads, from the table of folders. */
function createFolderLookup(
  id: ClientId,
  alsoReads: SkillClient["alsoReads"] = getSkillClient(id).alsoReads,
): Pick<NativeClient, "user" | "project" | "reads"> {
  const all = {
    user: (client: ClientId, environment: ClientEnvironment) =>
      getSkillClient(client).user.map((folder) => resolveUserFolder(folder, environment)),
    project: (client: ClientId, { workspace }: ClientEnvironment) =>
      getSkillClient(client).project.map((path) => join(workspace, path)),
  };
  const own = (level: "user" | "project", environment: ClientEnvironment): string => {
    const [folder] = all[level](id, environment);
    if (folder === undefined) throw new Error(`${id} has no own folder`);
    return folder;
  };
  return {
    user: (environment) => own("user", environment),
    project: (environment) => own("project", environment),
    reads: (level, environment) =>
      [id, ...CLIENT_IDS.filter((other) => alsoReads?.[level].includes(other))].flatMap((client) =>
        all[level](client, environment),
      ),
  };
}

/** A client's folder of skills. */
export interface ClientTarget {
  /** The name in the table of clients. */
  id: string;
  client: NativeClient;
  /** The real path, whether it exists or not. */
  folder: string;
  /** The path for messages. */
  displayPath: string;
}

export interface ClientTargetOptions {
  around: Environment;
  /** True for the folder of the workspace, instead of the user's. */
  isProject: boolean;
}

/** Returns the folder of a client. Throws a SkillError when it cannot exist. */
export function resolveClientTarget(id: string, { around, isProject }: ClientTargetOptions): ClientTarget {
  const client = getNativeClient(id);
  const path = resolve(client[isProject ? "project" : "user"](around));
  const base = isProject ? around.workspace : around.home;
  if (isInside(base, path) && !statIfExists(base)?.isDirectory()) {
    throw new SkillError("no-home", {
      message: `The ${isProject ? "workspace" : "home folder"} ${base} does not exist`,
      fix: isProject ? "check --workspace" : "set HOME to your home folder, or use --project",
    });
  }
  const folder = resolveTargetPath(path);
  // A workspace may be another author's work: a link in it must not redirect writes to the user's other files.
  if (isProject && !isInside(resolveTargetPath(base), folder)) {
    throw new SkillError("target-outside", {
      message: `${path} leads out of the workspace, to ${folder}; nothing was written`,
      fix: "replace the link with a folder",
    });
  }
  const stats = statIfExists(folder);
  if (stats && !stats.isDirectory()) {
    throw new SkillError("not-a-folder", {
      message: `${path} is not a folder, so skills cannot be copied there`,
      fix: "move it away",
    });
  }
  return { id, client, folder, displayPath: isProject ? path : formatHomePath(path, around.home) };
}

/** Returns the client. Throws a SkillError that lists the known ones. */
export function getNativeClient(id: string): NativeClient {
  const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
  if (client) return client;
  const known = Object.keys(NATIVE_CLIENTS);
  const meant = findNearest(id, known);
  throw new SkillError("usage", {
    message: `Unknown client "${id}"`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}Supported clients: ${known.join(", ")}`,
  });
}

/** Reads the status of a skill's path in a folder of skills. */
export function readCopyStatus(
  { folder }: Pick<ClientTarget, "folder">,
  name: string,
  installs: ClientCopyStore,
): CopyStatus {
  const environment = join(folder, name);
  const entry = installs.entries()[environment];
  const stats = lstatOrNone(environment);
  if (!stats) return { is: "nothing" };
  if (stats.isSymbolicLink()) return { is: "foreign", what: "link" };
  if (!stats.isDirectory()) return { is: "foreign", what: "file" };
  const digest = digestFolder(environment);
  if (!entry) return { is: "foreign", what: "folder", digest };
  return { is: "ours", digest, isEdited: isEditedCopy(entry, digest), isLast: !hasOriginal(entry) };
}

export function isEditedCopy({ copy, before }: ClientCopy, digest: string): boolean {
  return digest !== copy && digest !== before;
}

/** Lists the names of skillet's copies in a folder of skills, whether they exist or not. */
export function listCopyNames({ folder }: Pick<ClientTarget, "folder">, installs: ClientCopyStore): string[] {
  return Object.entries(installs.entries()).flatMap(([environment, { skill }]) =>
    // A record with any other path was not written by skillet.
    dirname(environment) === folder && basename(environment) === skill ? [skill] : [],
  );
}

/** Digests a folder. An unreadable one gets a digest that matches nothing, so that it counts as edited. */
export function digestFolder(folder: string): string {
  try {
    return hashFolder(folder).digest;
  } catch (error) {
    return `unreadable: ${getErrorMessage(error)}`;
  }
}

/** Resolves the real path of a file or folder that may not exist yet. */
function resolveTargetPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const code = getErrnoCode(error);
    if (code !== "ENOENT" && code !== "ENOTDIR") throw createUnreachableError(path, getErrorMessage(error));
    if (lstatOrNone(path)?.isSymbolicLink()) throw createUnreachableError(path, "it is a broken link");
  }
  return dirname(path) === path ? path : join(resolveTargetPath(dirname(path)), basename(path));
}

function createUnreachableError(path: string, why: string): SkillError {
  return new SkillError("target-unreachable", {
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
  /** Folders of skills that will exist, in addition to the existing ones. */
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
    // A client that is not used here has neither its own folder nor a copy in it.
    const own = client[level](around);
    if (![target.folder, other].includes(resolveRealPath(own)) && !statIfExists(dirname(client.user(around))))
      return [];
    const shown = isProject ? other : formatHomePath(other, around.home);
    return target.id === id
      ? `${client.title} reads ${shown} too, which already has this skill: it will list it twice`
      : `${client.title} reads this folder too, and already has this skill in ${shown}: it will list it twice`;
  });
}
