import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { findSystemProgram } from "../util/system.ts";
import { findUserWithoutRange } from "./packages/id-range.ts";
import { forEachLine, SYSTEM_ENV } from "./process.ts";
import { isRoot } from "./sandbox-folders.ts";

const SYSTEM_PACKAGE_MANAGERS = ["apt-get", "dnf", "pacman", "apk"] as const;
type SystemPackageManager = (typeof SYSTEM_PACKAGE_MANAGERS)[number];

/** A system program that skillet needs. */
interface HostTool {
  program: string;
  /** The task that needs the program. */
  purpose: string;
  /**
   * The package that provides it, per package manager. A system whose manager has no entry does not need the program.
   */
  packages: Partial<Record<SystemPackageManager, string>>;
}

export const HOST_TOOLS: readonly HostTool[] = [
  {
    program: "bwrap",
    purpose: "runs the code of skills in a sandbox",
    packages: { "apt-get": "bubblewrap", dnf: "bubblewrap", pacman: "bubblewrap", apk: "bubblewrap" },
  },
  {
    program: "prlimit",
    purpose: "limits memory and processes where no cgroup is available",
    packages: { "apt-get": "util-linux", dnf: "util-linux", pacman: "util-linux", apk: "util-linux-misc" },
  },
  {
    program: "newuidmap",
    purpose: "lets a user without root build the system packages of skills",
    packages: { "apt-get": "uidmap", dnf: "shadow-utils", pacman: "shadow", apk: "shadow-subids" },
  },
  {
    program: "apt-get",
    purpose: "finds and fetches the system packages of skills (Debian, Ubuntu)",
    packages: { "apt-get": "apt" },
  },
];

export interface HostToolState {
  tool: HostTool;
  path: string | undefined;
}

/** Lists the tools that this user needs on this Linux system, with their paths. */
export function listHostTools(machine: Pick<HostMachine, "isRoot" | "manager"> = detectMachine()): HostToolState[] {
  return HOST_TOOLS.filter((tool) => isInstallable(tool, machine.manager)).map((tool) => ({
    tool,
    path: findSystemProgram(tool.program),
  }));
}

/** With an unknown manager, only tools that all of them provide count. */
function isInstallable({ packages }: HostTool, manager: SystemPackageManager | undefined): boolean {
  return (manager === undefined ? SYSTEM_PACKAGE_MANAGERS : [manager]).every((name) => packages[name] !== undefined);
}

/** Facts about the machine that `planHostToolFix` needs. */
interface HostMachine {
  manager: SystemPackageManager | undefined;
  isRoot: boolean;
  hasSudo: boolean;
  /**
   * The user who needs a range of subordinate IDs, by its number if it has no name. Undefined if it has one or is root.
   */
  userWithoutRange?: string | number | undefined;
}

export function detectMachine(): HostMachine {
  return {
    manager: SYSTEM_PACKAGE_MANAGERS.find((name) => findSystemProgram(name)),
    isRoot: isRoot(),
    hasSudo: findSystemProgram("sudo") !== undefined,
    userWithoutRange: findUserWithoutRange(),
  };
}

interface HostToolFix {
  commands: string[][];
  /** Programs that none of the commands installs. */
  left: string[];
}

/** Plans the commands that install missing tools, in order. Changes nothing. */
export function planHostToolFix(states: readonly HostToolState[], machine: HostMachine): HostToolFix {
  const { manager, userWithoutRange: user } = machine;
  const missing = states.flatMap(({ tool, path }) =>
    path === undefined && isInstallable(tool, manager) ? [tool] : [],
  );
  const packageOf = ({ packages }: HostTool) => (manager === undefined ? undefined : packages[manager]);
  const wanted = [...new Set(missing.map(packageOf).filter((name) => name !== undefined))];
  const commands = manager === undefined || wanted.length === 0 ? [] : INSTALL_COMMANDS[manager](wanted);
  if (typeof user === "string")
    commands.push(["usermod", "--add-subuids", SUBID_RANGE, "--add-subgids", SUBID_RANGE, "--", user]);
  const isAble = machine.isRoot || machine.hasSudo;
  return {
    commands: isAble ? commands.map((command) => (machine.isRoot ? command : ["sudo", ...command])) : [],
    left: missing.filter((tool) => !isAble || packageOf(tool) === undefined).map(({ program }) => program),
  };
}

// Above the ranges that `useradd` gives to the first users of a machine.
const SUBID_RANGE = "524288-589823";

const INSTALL_COMMANDS: Record<SystemPackageManager, (packages: readonly string[]) => string[][]> = {
  "apt-get": (packages) => [
    ["apt-get", "update"],
    ["apt-get", "install", "-y", "--no-install-recommends", "--", ...packages],
  ],
  dnf: (packages) => [["dnf", "install", "-y", ...packages]],
  pacman: (packages) => [["pacman", "-S", "--needed", "--noconfirm", ...packages]],
  apk: (packages) => [["apk", "add", ...packages]],
};

/** Reads the version that a system program prints. */
export function readProgramVersion(program: string | undefined): string | undefined {
  if (program === undefined) return undefined; // It is part of macOS.
  const { stdout } = spawnSync(program, ["--version"], { encoding: "utf8", env: {} });
  return /\d+(?:\.\d+)+/.exec(stdout ?? "")?.[0];
}

/** Runs the commands in order. Contract: resolves with the first command that failed, or undefined if all succeeded. */
export async function applyHostToolFix(
  commands: readonly (readonly string[])[],
  onLine: (line: string) => void,
): Promise<readonly string[] | undefined> {
  for (const command of commands) {
    const [program = "", ...args] = command;
    const path = findSystemProgram(program);
    if (path === undefined || (await runWithLines(path, args, onLine)) !== 0) return command;
  }
  return undefined;
}

function runWithLines(path: string, args: readonly string[], onLine: (line: string) => void): Promise<number | null> {
  return new Promise((resolve) => {
    // sudo prompts for the password on the terminal itself.
    const child = spawn(path, args, { env: SYSTEM_ENV, stdio: ["inherit", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) forEachLine(stream, onLine);
    child.on("error", () => resolve(null));
    child.on("close", resolve);
  });
}

/** Package managers, by the lock file that each keeps in a project. */
const NODE_PACKAGE_MANAGERS = [
  { lock: "pnpm-lock.yaml", command: ["pnpm", "add"] },
  { lock: "yarn.lock", command: ["yarn", "add"] },
  { lock: "bun.lock", command: ["bun", "add"] },
  { lock: "package-lock.json", command: ["npm", "install"] },
] as const;

interface NodePackagePlan {
  /** The folder of the project's package.json. */
  project: string;
  command: readonly string[];
}

/** Plans the installation of packages in the project around a folder. Returns undefined if there is no project. */
export function planNodePackages(folder: string, packages: readonly string[]): NodePackagePlan | undefined {
  const project = listParentFolders(folder).find((path) => existsSync(join(path, "package.json")));
  if (project === undefined) return undefined;
  // A monorepo has its lock file at the root.
  const locked = listParentFolders(project).flatMap((path) =>
    NODE_PACKAGE_MANAGERS.filter(({ lock }) => existsSync(join(path, lock))),
  );
  const [{ command } = NODE_PACKAGE_MANAGERS[3]] = locked;
  return { project, command: [...command, ...packages] };
}

/**
 * Runs the plan with the user's package manager, found in PATH, in the user's environment. Resolves with its exit code,
 * or undefined if it could not be started.
 */
export function applyNodePackages(
  { project, command: [program = "", ...args] }: NodePackagePlan,
  env: NodeJS.ProcessEnv,
) {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const shell = process.platform === "win32"; // On Windows they are scripts.
  spawn(program, args, { cwd: project, env, stdio: ["ignore", "ignore", "inherit"], shell })
    .once("error", () => resolve(undefined))
    .once("close", (code) => resolve(code ?? 1));
  return promise;
}

function listParentFolders(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...listParentFolders(parent)];
}
