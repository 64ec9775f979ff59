import { lstatSync, mkdtempSync, readdirSync, realpathSync, rmdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix, win32 } from "node:path";
import type { Prompt } from "../../agent/prompts/prompt-template.ts";
import type { SkillSection, SkillSource, SkillsSection } from "../../agent/prompts/skill-sections.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import { applyFolderChange, type FolderItem } from "../../store/atomic-folder.ts";
import { formatProcessOwner, readLiveOwner } from "../../store/locked-file.ts";
import { createFolder, isOwnedByUser, removeFolderTree } from "../../util/file-access.ts";
import { isInside, readFileInside } from "../../util/safe-path.ts";
import { getUserHome } from "../../util/system.ts";

export interface HermeticHomeOptions extends HomeSettingsOptions {
  /** Files of the user's home to copy, by their path in it: `.claude/.credentials.json`. No other files are copied. */
  authFiles?: readonly (string | AuthFile)[];
  /** The home to copy them from. Defaults to the user's. */
  from?: string;
  /** The folder in which homes are created. Defaults to the system's folder for temporary files. */
  parent?: string;
}

export interface AuthFile {
  path: string;
  /** True if the file may be missing. */
  isOptional?: boolean;
}

/** A home for one agent, without any files of the user except the named ones. */
export interface HermeticHome {
  readonly path: string;
  readonly skillsDir: string;
  /** The environment variables that lead programs to it. HOME is enough; the others override the user's environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Does nothing if the home is gone. */
  remove(): void;
  [Symbol.dispose](): void;
}

const MAX_AUTH_FILE_BYTES = 1024 * 1024;

/**
 * Creates a home, private to the user: `.claude/settings.json`, `.claude/skills/`, and the named files. It is removed
 * by `remove`, when the process ends, or, if that was killed, by the next process that creates a home in the same
 * folder. Throws a SkillError.
 */
export function createHermeticHome(options: HermeticHomeOptions = {}): HermeticHome {
  const folder = makeHomeFolder(options.parent ?? tmpdir());
  const remove = () => {
    removeHome(folder);
  };
  openHomes.add(folder);
  try {
    writeFileSync(join(folder, HOME_OWNER), formatProcessOwner(), { flag: "wx", mode: 0o600 });
    const path = join(folder, "home");
    const skillsDir = join(path, ".claude", "skills");
    createFolder(skillsDir, 0o700);
    const settings = JSON.stringify(createHomeSettings(options, skillsDir), null, 2);
    writeFileSync(join(path, ".claude", "settings.json"), `${settings}\n`, { flag: "wx", mode: 0o600 });
    copyAuthFiles(options, path);
    return { path, skillsDir, env: createHomeEnv(path), remove, [Symbol.dispose]: remove };
  } catch (error) {
    remove();
    throw error instanceof SkillError ? error : createHomeError(folder, error);
  }
}

/** Existing homes of this process. */
const openHomes = new Set<string>();

function makeHomeFolder(parent: string): string {
  try {
    const real = realpathSync(parent);
    removeStaleHomes(real);
    const folder = mkdtempSync(join(real, HOME_PREFIX));
    if (!process.listeners("exit").includes(removeAllHomes)) process.on("exit", removeAllHomes);
    return folder;
  } catch (error) {
    throw createHomeError(parent, error);
  }
}

function removeAllHomes(): void {
  for (const folder of openHomes) {
    try {
      removeHome(folder);
    } catch {} // The next sweep tries again.
  }
}

function removeHome(folder: string): void {
  if (!openHomes.has(folder)) return;
  try {
    removeFolderTree(folder);
  } catch (error) {
    throw new SkillError("home-not-removed", {
      message: `${folder} cannot be removed: ${getErrorMessage(error)}`,
      fix: "end the programs that still write there; skillet tries again when this process ends, and before it creates the next home",
      cause: error,
    });
  }
  openHomes.delete(folder);
}

function createHomeEnv(path: string): Record<string, string> {
  return {
    HOME: path,
    USERPROFILE: path,
    CLAUDE_CONFIG_DIR: join(path, ".claude"),
    XDG_CONFIG_HOME: join(path, ".config"),
    XDG_DATA_HOME: join(path, ".local", "share"),
    XDG_STATE_HOME: join(path, ".local", "state"),
    XDG_CACHE_HOME: join(path, ".cache"),
  };
}

function copyAuthFiles({ authFiles = [], from = getUserHome(process.env) }: HermeticHomeOptions, home: string): void {
  if (authFiles.length === 0) return;
  const root = realpathSync(from);
  for (const entry of authFiles) {
    const { path, isOptional = false } = typeof entry === "string" ? { path: entry } : entry;
    const to = join(home, path);
    if (!isInside(home, to) || isReservedPath(to, home))
      throw createAuthFileError(path, root, "cannot be copied into the home");
    const read = readFileInside(root, path, MAX_AUTH_FILE_BYTES);
    if ("bytes" in read) {
      createFolder(dirname(to), 0o700);
      writeFileSync(to, read.bytes, { flag: "wx", mode: 0o600 });
    } else if (!(isOptional && read.code === "not-found")) {
      throw createAuthFileError(path, root, read.why ?? read.message);
    }
  }
}

/** Returns true for settings and skills, in any spelling: the home has its own. */
function isReservedPath(to: string, home: string): boolean {
  const own = ["skills", "settings.json", "settings.local.json"].map((name) => join(home, ".claude", name));
  return to === home || own.some((path) => isInside(path.toLowerCase(), to.toLowerCase()));
}

function createAuthFileError(path: string, from: string, why: string): SkillError {
  return new SkillError("auth-file", {
    message: `"${path}" of ${from} ${why}`,
    fix: "use the path of a regular file, relative to that home; set isOptional if it may be missing",
  });
}

function createHomeError(folder: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `A home for the agent cannot be created in ${folder}: ${getErrorMessage(cause)}`,
    fix: "check that the folder is writable and the disk has free space",
    cause,
  });
}

/** Network access of programs that the agent starts, as in Claude Code's settings. */
export interface HomeNetwork {
  /** Allowed hosts, also `*.example.com`. Defaults to none. */
  allowedDomains?: readonly string[];
  deniedDomains?: readonly string[];
  allowLocalBinding?: boolean;
  allowUnixSockets?: readonly string[];
}

export interface HomeSettingsOptions {
  /** More keys of its .claude/settings.json. */
  settings?: Readonly<Record<string, unknown>>;
  /** Keys of its `sandbox`: `{ enabled: false }`, `{ excludedCommands: […] }`. */
  sandbox?: Readonly<Record<string, unknown>>;
  network?: HomeNetwork;
}

/**
 * Creates .claude/settings.json: programs run in Claude Code's sandbox and reach only named hosts, and neither they nor
 * Claude Code's tools can change the skills or these settings. Settings of the caller take precedence, but cannot lift
 * this protection.
 */
export function createHomeSettings(options: HomeSettingsOptions, skillsDir: string): Record<string, unknown> {
  const { settings = {}, network = {} } = options;
  const sandbox = { ...toObject(settings["sandbox"]), ...options.sandbox };
  const filesystem = toObject(sandbox["filesystem"]);
  const permissions = toObject(settings["permissions"]);
  const kept = listProtectedPaths(skillsDir);
  return {
    ...settings,
    sandbox: {
      enabled: true,
      failIfUnavailable: true,
      allowUnsandboxedCommands: false,
      ...sandbox,
      network: { allowedDomains: [], strictAllowlist: true, ...toObject(sandbox["network"]), ...network },
      filesystem: { ...filesystem, denyWrite: [...toList(filesystem["denyWrite"]), ...kept] },
    },
    // `Edit` covers every tool that changes files; a `Write` rule with a path has no effect.
    permissions: { ...permissions, deny: [...toList(permissions["deny"]), ...HOME_RULES, ...kept.map(formatEditRule)] },
  };
}

// Also relative to the home: a path may have characters with a special meaning in a rule.
const HOME_RULES = ["Edit(~/.claude/skills/**)", "Edit(~/.claude/settings*.json)"];

function listProtectedPaths(skillsDir: string): string[] {
  const { dirname, join } = skillsDir.includes("\\") ? win32 : posix;
  return [skillsDir, join(dirname(skillsDir), "settings.json")];
}

/** Formats a rule: two slashes are the root of the file system, one is the folder of the settings; `C:\x` is `/c/x`. */
function formatEditRule(path: string): string {
  const slashed = path.replace(/^([A-Za-z]):/, (_, drive) => `/${drive.toLowerCase()}`).replaceAll("\\", "/");
  return `Edit(/${slashed}${slashed.endsWith(".json") ? "" : "/**"})`;
}

function toObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function toList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The prefix of the homes' folders; six letters or digits follow. */
const HOME_PREFIX = "skillet-home-";
/** The file next to the home that names its owner. Not inside, where an agent could change it. */
const HOME_OWNER = "owner";

const HOME_NAME = new RegExp(`^${HOME_PREFIX}[A-Za-z0-9]{6}$`);
// More time than passes between creating a folder and writing its owner.
const UNOWNED_MS = 60_000;

/**
 * Removes homes of dead processes. Ignores folders of other users, links, and homes of processes that are alive or ran
 * on other machines.
 */
function removeStaleHomes(parent: string): void {
  for (const name of readdirSync(parent).filter((name) => HOME_NAME.test(name))) {
    try {
      removeStaleHome(join(parent, name));
    } catch {} // Another process is at work, or it cannot be removed now: the next sweep tries again.
  }
}

function removeStaleHome(path: string): void {
  const stats = lstatSync(path);
  // Homes are private from the start.
  if (!stats.isDirectory() || !isOwnedByUser(stats) || (stats.mode & 0o077) !== 0) return;
  const owner = join(path, HOME_OWNER);
  // An empty file exists before anything else: its process is about to write its owner.
  if (!lstatSync(owner, { throwIfNoEntry: false })?.size) {
    // Its process was killed before it wrote the owner; a folder with any content is not a home.
    if (Date.now() - stats.mtimeMs > UNOWNED_MS) rmdirSync(path);
  } else if (readLiveOwner(owner) === undefined) {
    removeFolderTree(path);
  }
}

export interface InstallPromptSkillsOptions<P = never> {
  /** The folder of skills. Created if it does not exist. */
  skillsDir: string;
  /** The parameters of the skills. A prompt already has its own. */
  params?: P;
  /** True if the installed files are read-only. */
  isReadOnly?: boolean;
}

/**
 * Installs the enabled skills into a folder: skills in code without tools as a SKILL.md, referenced skills as a whole,
 * with links followed. Returns their folders, in order. Throws a SkillInstallationError, and then none is installed; a
 * SkillRefError or PromptValidationError if a reference is no longer valid, or a parameter is missing.
 */
export function installPromptSkills<P>(
  of: SkillsSection<P> | Pick<Prompt, "skills" | "params">,
  { skillsDir, params, isReadOnly = false }: InstallPromptSkillsOptions<P>,
): string[] {
  const [sources, values] =
    "kind" in of ? [of.active((params ?? {}) as P), params ?? {}] : [of.skills(), { ...of.params, ...params }];
  const put = sources.filter(isInstallableSource).map((source) => createPromptItem(source, values));
  return applyFolderChange({ skillsDir, items: put, isDurable: false, isReadOnly });
}

/** Returns true if an agent can find the skill as files: tools in code could not be called from there. */
export function isInstallableSource(source: SkillSource): boolean {
  return source.kind === "ref" || !source.hasTools;
}

function createPromptItem(source: SkillSource, params: object): FolderItem {
  if (source.kind === "skill") {
    const skillMd = (source as SkillSection<object>).toSkillMd(params);
    return { name: source.name, source: "inline", skillMd };
  }
  source.validate(); // It may have changed since the prompt was written.
  return { name: source.name, source: "ref", folder: source.resolvedPath, links: "follow" };
}
