import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ownerText } from "../host/run-owner.ts";
import { SkillError } from "../shared/error.ts";
import { isInside, readInside, reason } from "../shared/inside.ts";
import { type HomeSettingsOptions, homeSettings } from "./home-settings.ts";
import { HOME_OWNER, HOME_PREFIX, sweepHomes } from "./home-sweep.ts";
import { removeTree } from "./remove-tree.ts";

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

const LARGEST_AUTH_FILE = 1024 * 1024;

/**
 * Makes a home, private to the user: `.claude/settings.json`, `.claude/skills/`, and the files that were named. It is removed by `remove`,
 * when the process ends, or, when that was killed, by the next one that makes a home in the same folder. Throws a SkillError.
 */
export function createHermeticHome(options: HermeticHomeOptions = {}): HermeticHome {
  const folder = makeFolder(options.parent ?? tmpdir());
  const remove = () => {
    removeHome(folder);
  };
  left.add(folder);
  try {
    writeFileSync(join(folder, HOME_OWNER), ownerText(), { flag: "wx", mode: 0o600 });
    const path = join(folder, "home");
    const skillsDir = join(path, ".claude", "skills");
    mkdirSync(skillsDir, { recursive: true, mode: 0o700 });
    const settings = JSON.stringify(homeSettings(options, skillsDir), null, 2);
    writeFileSync(join(path, ".claude", "settings.json"), `${settings}\n`, { flag: "wx", mode: 0o600 });
    bringIn(options, path);
    return { path, skillsDir, env: envOf(path), remove, [Symbol.dispose]: remove };
  } catch (error) {
    remove();
    throw error instanceof SkillError ? error : unmade(folder, error);
  }
}

/** Homes of this process that are there. */
const left = new Set<string>();

function makeFolder(parent: string): string {
  try {
    const real = realpathSync(parent);
    sweepHomes(real);
    const folder = mkdtempSync(join(real, HOME_PREFIX));
    if (!process.listeners("exit").includes(removeAll)) process.on("exit", removeAll);
    return folder;
  } catch (error) {
    throw unmade(parent, error);
  }
}

function removeAll(): void {
  for (const folder of left) {
    try {
      removeHome(folder);
    } catch {} // The next sweep tries again.
  }
}

function removeHome(folder: string): void {
  if (!left.has(folder)) return;
  try {
    removeTree(folder);
  } catch (error) {
    throw new SkillError("home-left", {
      message: `${folder} cannot be removed: ${reason(error)}`,
      fix: "end what still writes there; it is tried again when this process ends, and before the next home is made",
      cause: error,
    });
  }
  left.delete(folder);
}

function envOf(path: string): Record<string, string> {
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

function bringIn({ authFiles = [], from = homedir() }: HermeticHomeOptions, home: string): void {
  if (authFiles.length === 0) return;
  const root = realpathSync(from);
  for (const entry of authFiles) {
    const { path, isOptional = false } = typeof entry === "string" ? { path: entry } : entry;
    const to = join(home, path);
    if (!isInside(home, to) || isTaken(to, home)) throw notBrought(path, root, "is none that can be brought in");
    const read = readInside(root, path, LARGEST_AUTH_FILE);
    if ("bytes" in read) {
      mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
      writeFileSync(to, read.bytes, { flag: "wx", mode: 0o600 });
    } else if (!(isOptional && read.code === "not-found")) {
      throw notBrought(path, root, read.message.slice(read.message.lastIndexOf('" ') + 2));
    }
  }
}

/** Settings and skills are what the home is made for: none are brought in from elsewhere, in any spelling. */
function isTaken(to: string, home: string): boolean {
  const own = ["skills", "settings.json", "settings.local.json"].map((name) => join(home, ".claude", name));
  return to === home || own.some((path) => isInside(path.toLowerCase(), to.toLowerCase()));
}

function notBrought(path: string, from: string, why: string): SkillError {
  return new SkillError("auth-file", {
    message: `"${path}" of ${from} ${why}`,
    fix: "name a regular file in that home, by its path in it; call it optional when it may be missing",
  });
}

function unmade(folder: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `A home for the agent cannot be made in ${folder}: ${reason(cause)}`,
    fix: "check that the folder can be written to, and that there is room",
    cause,
  });
}
