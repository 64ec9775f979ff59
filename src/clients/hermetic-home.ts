import { lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmdirSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join, posix, win32 } from "node:path";
import type { Prompt } from "../agent/prompts/prompt-template.ts";
import type { SkillSection, SkillSource, SkillsSection } from "../agent/prompts/skill-sections.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { applyFolderChange, type FolderItem } from "../store/atomic-folder.ts";
import { formatProcessOwner, readLiveOwner } from "../store/locked-file.ts";
import { isOwnedByUser, removeFolderTree } from "../util/folder-handle.ts";
import { isInside, readFileInside } from "../util/safe-path.ts";

export interface HermeticHomeOptions extends HomeSettingsOptions {
  /** Files of the user's home to bring in, by their path in it: `.claude/.credentials.json`. No other comes with them. */
  authFiles?: readonly (string | AuthFile)[];
  /** The home to take them from; the user's when left out. */
  from?: string;
  /** The folder that homes are made in; the system's for temporary files when left out. */
  parent?: string;
}

export interface AuthFile {
  path: string;
  /** Whether it is no error when there is none. */
  isOptional?: boolean;
}

/** A home for one agent, with nothing of the user's in it but what was named. */
export interface HermeticHome {
  readonly path: string;
  readonly skillsDir: string;
  /** What leads programs to it. HOME does; the others are for when the user's environment leads elsewhere. */
  readonly env: Readonly<Record<string, string>>;
  /** Does nothing when it is gone. */
  remove(): void;
  [Symbol.dispose](): void;
}

const MAX_AUTH_FILE_BYTES = 1024 * 1024;

/**
 * Makes a home, private to the user: `.claude/settings.json`, `.claude/skills/`, and the files that were named. It is removed by `remove`,
 * when the process ends, or, when that was killed, by the next one that makes a home in the same folder. Throws a SkillError.
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
    mkdirSync(skillsDir, { recursive: true, mode: 0o700 });
    const settings = JSON.stringify(createHomeSettings(options, skillsDir), null, 2);
    writeFileSync(join(path, ".claude", "settings.json"), `${settings}\n`, { flag: "wx", mode: 0o600 });
    copyAuthFiles(options, path);
    return { path, skillsDir, env: createHomeEnv(path), remove, [Symbol.dispose]: remove };
  } catch (error) {
    remove();
    throw error instanceof SkillError ? error : createHomeError(folder, error);
  }
}

/** Homes of this process that are there. */
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
    throw new SkillError("home-left", {
      message: `${folder} cannot be removed: ${getErrorMessage(error)}`,
      fix: "end what still writes there; it is tried again when this process ends, and before the next home is made",
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

function copyAuthFiles({ authFiles = [], from = homedir() }: HermeticHomeOptions, home: string): void {
  if (authFiles.length === 0) return;
  const root = realpathSync(from);
  for (const entry of authFiles) {
    const { path, isOptional = false } = typeof entry === "string" ? { path: entry } : entry;
    const to = join(home, path);
    if (!isInside(home, to) || isReservedPath(to, home))
      throw createAuthFileError(path, root, "is none that can be brought in");
    const read = readFileInside(root, path, MAX_AUTH_FILE_BYTES);
    if ("bytes" in read) {
      mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
      writeFileSync(to, read.bytes, { flag: "wx", mode: 0o600 });
    } else if (!(isOptional && read.code === "not-found")) {
      throw createAuthFileError(path, root, read.message.slice(read.message.lastIndexOf('" ') + 2));
    }
  }
}

/** Settings and skills are what the home is made for: none are brought in from elsewhere, in any spelling. */
function isReservedPath(to: string, home: string): boolean {
  const own = ["skills", "settings.json", "settings.local.json"].map((name) => join(home, ".claude", name));
  return to === home || own.some((path) => isInside(path.toLowerCase(), to.toLowerCase()));
}

function createAuthFileError(path: string, from: string, why: string): SkillError {
  return new SkillError("auth-file", {
    message: `"${path}" of ${from} ${why}`,
    fix: "name a regular file in that home, by its path in it; call it optional when it may be missing",
  });
}

function createHomeError(folder: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `A home for the agent cannot be made in ${folder}: ${getErrorMessage(cause)}`,
    fix: "check that the folder can be written to, and that there is room",
    cause,
  });
}

/** What programs that the agent starts may reach, as Claude Code's settings have it. */
export interface HomeNetwork {
  /** Hosts, also `*.example.com`. None when left out. */
  allowedDomains?: readonly string[];
  deniedDomains?: readonly string[];
  allowLocalBinding?: boolean;
  allowUnixSockets?: readonly string[];
}

export interface HomeSettingsOptions {
  /** What its .claude/settings.json says beside what it says of itself. */
  settings?: Readonly<Record<string, unknown>>;
  /** Keys of its `sandbox`: `{ enabled: false }`, `{ excludedCommands: […] }`. */
  sandbox?: Readonly<Record<string, unknown>>;
  network?: HomeNetwork;
}

/**
 * What .claude/settings.json says: programs run in Claude Code's sandbox and reach no host that is not named, and neither they nor its own
 * tools change the skills, nor these settings. What the caller says goes before, except that what is protected stays so.
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
    // `Edit` is about every tool that changes files; a `Write` rule with a path is never asked.
    permissions: { ...permissions, deny: [...toList(permissions["deny"]), ...HOME_RULES, ...kept.map(formatEditRule)] },
  };
}

// By the home too: a path may hold characters that mean something else in a rule.
const HOME_RULES = ["Edit(~/.claude/skills/**)", "Edit(~/.claude/settings*.json)"];

function listProtectedPaths(skillsDir: string): string[] {
  const { dirname, join } = skillsDir.includes("\\") ? win32 : posix;
  return [skillsDir, join(dirname(skillsDir), "settings.json")];
}

/** Two slashes are the root of the file system there, one is the folder of the settings; `C:\x` is `/c/x`. */
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

/** How folders of homes are called; six letters or digits follow. */
const HOME_PREFIX = "skillet-home-";
/** The file beside the home that says whose it is. Not in it, where an agent could change it. */
const HOME_OWNER = "owner";

const HOME_NAME = new RegExp(`^${HOME_PREFIX}[A-Za-z0-9]{6}$`);
// Between making a folder and writing down whose it is, less time passes.
const UNOWNED_MS = 60_000;

/**
 * Removes homes that processes left which are gone. What others planted under such a name is not touched, nor are links followed, nor
 * homes of processes that live, or that ran on other machines.
 */
function removeStaleHomes(parent: string): void {
  for (const name of readdirSync(parent).filter((name) => HOME_NAME.test(name))) {
    try {
      removeStaleHome(join(parent, name));
    } catch {} // Somebody else is at it, or it cannot go now: the next sweep tries again.
  }
}

function removeStaleHome(path: string): void {
  const stats = lstatSync(path);
  // Ours are private from the beginning.
  if (!stats.isDirectory() || !isOwnedByUser(stats) || (stats.mode & 0o077) !== 0) return;
  const owner = join(path, HOME_OWNER);
  // A file is there, and empty, before anything is in it: then its process is about to say whose it is.
  if (!lstatSync(owner, { throwIfNoEntry: false })?.size) {
    // Its process was killed before it could say whose it is; whatever has something in it is no home.
    if (Date.now() - stats.mtimeMs > UNOWNED_MS) rmdirSync(path);
  } else if (readLiveOwner(owner) === undefined) {
    removeFolderTree(path);
  }
}

export interface InstallPromptSkillsOptions<P = never> {
  /** The folder of skills. Made when it is not there. */
  skillsDir: string;
  /** What the skills take. A prompt has its own already. */
  params?: P;
  /** Whether what is put there is for reading alone. */
  isReadOnly?: boolean;
}

/**
 * Puts the skills that are on into a folder: those in code that have no tools as a SKILL.md, those that are referred to whole, with links
 * followed. Gives their folders, in order. Throws a SkillInstallationError, and then none of them is there; a SkillRefError or
 * PromptValidationError when one is no skill any more, or lacks a parameter.
 */
export function installPromptSkills<P>(
  of: SkillsSection<P> | Pick<Prompt, "skills" | "params">,
  { skillsDir, params, isReadOnly = false }: InstallPromptSkillsOptions<P>,
): string[] {
  const [sources, values] =
    "kind" in of ? [of.active((params ?? {}) as P), params ?? {}] : [of.skills(), { ...of.params, ...params }];
  const put = sources.filter(isInstallableSource).map((source) => createPromptItem(source, values));
  return applyFolderChange({ skillsDir, put, isDurable: false, isReadOnly });
}

/** Whether a skill can be where an agent finds it by itself: tools of code could not be called from there. */
export function isInstallableSource(source: SkillSource): boolean {
  return source.kind === "ref" || !source.hasTools;
}

function createPromptItem(source: SkillSource, params: object): FolderItem {
  if (source.kind === "skill") {
    const skillMd = (source as SkillSection<object>).toSkillMd(params);
    return { name: source.name, source: "inline", skillMd };
  }
  source.validate(); // It may be another than when the prompt was written.
  return { name: source.name, source: "ref", folder: source.resolvedPath, links: "follow" };
}
