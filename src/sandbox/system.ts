import { spawn, spawnSync } from "node:child_process";
import { systemProgram } from "../host/programs.ts";
import { userWithoutRange } from "./packages/range.ts";
import { eachLine, PLAIN } from "./packages/run.ts";
import { isRoot } from "./places.ts";

const MANAGERS = ["apt-get", "dnf", "pacman", "apk"] as const;
export type Manager = (typeof MANAGERS)[number];

/** A program of the system that skillet needs for something. */
export interface Tool {
  program: string;
  /** What cannot be done without it. */
  purpose: string;
  /** The package it is in. A system whose manager has none has no use for it. */
  packages: Partial<Record<Manager, string>>;
}

export const TOOLS: readonly Tool[] = [
  {
    program: "bwrap",
    purpose: "runs the code of skills in a sandbox",
    packages: { "apt-get": "bubblewrap", dnf: "bubblewrap", pacman: "bubblewrap", apk: "bubblewrap" },
  },
  {
    program: "prlimit",
    purpose: "bounds memory and processes where no cgroup can be had",
    packages: { "apt-get": "util-linux", dnf: "util-linux", pacman: "util-linux", apk: "util-linux-misc" },
  },
  {
    program: "newuidmap",
    purpose: "lets an ordinary user build the system packages of skills",
    packages: { "apt-get": "uidmap", dnf: "shadow-utils", pacman: "shadow", apk: "shadow-subids" },
  },
  {
    program: "apt-get",
    purpose: "finds and fetches the system packages of skills (Debian, Ubuntu)",
    packages: { "apt-get": "apt" },
  },
];

export interface ToolState {
  tool: Tool;
  path: string | undefined;
}

/** Every tool that this user needs on this Linux, and where it is. */
export function toolStates(machine: Pick<Machine, "isRoot" | "manager"> = thisMachine()): ToolState[] {
  return TOOLS.filter((tool) => isOfUse(tool, machine.manager)).map((tool) => ({
    tool,
    path: systemProgram(tool.program),
  }));
}

/** Where the manager is not known, a tool that all of them have. */
function isOfUse({ packages }: Tool, manager: Manager | undefined): boolean {
  return (manager === undefined ? MANAGERS : [manager]).every((name) => packages[name] !== undefined);
}

/** What `planFix` needs to know of the machine. */
export interface Machine {
  manager: Manager | undefined;
  isRoot: boolean;
  hasSudo: boolean;
  /** The user to give a range of ids to, by its number if it has no name; none when there is one, or when it is root. */
  userWithoutRange?: string | number | undefined;
}

export function thisMachine(): Machine {
  return {
    manager: MANAGERS.find((name) => systemProgram(name)),
    isRoot: isRoot(),
    hasSudo: systemProgram("sudo") !== undefined,
    userWithoutRange: userWithoutRange(),
  };
}

export interface Fix {
  commands: string[][];
  /** Programs that no command here brings. */
  left: string[];
}

/** The commands that bring what is missing, in order. Changes nothing. */
export function planFix(states: readonly ToolState[], machine: Machine): Fix {
  const { manager, userWithoutRange: user } = machine;
  const missing = states.flatMap(({ tool, path }) => (path === undefined && isOfUse(tool, manager) ? [tool] : []));
  const packageOf = ({ packages }: Tool) => (manager === undefined ? undefined : packages[manager]);
  const wanted = [...new Set(missing.map(packageOf).filter((name) => name !== undefined))];
  const commands = manager === undefined || wanted.length === 0 ? [] : INSTALL[manager](wanted);
  if (typeof user === "string") commands.push(["usermod", "--add-subuids", RANGE, "--add-subgids", RANGE, "--", user]);
  const isAble = machine.isRoot || machine.hasSudo;
  return {
    commands: isAble ? commands.map((command) => (machine.isRoot ? command : ["sudo", ...command])) : [],
    left: missing.filter((tool) => !isAble || packageOf(tool) === undefined).map(({ program }) => program),
  };
}

// Past what `useradd` gives to the first users of a machine.
const RANGE = "524288-589823";

const INSTALL: Record<Manager, (packages: readonly string[]) => string[][]> = {
  "apt-get": (packages) => [
    ["apt-get", "update"],
    ["apt-get", "install", "-y", "--no-install-recommends", "--", ...packages],
  ],
  dnf: (packages) => [["dnf", "install", "-y", ...packages]],
  pacman: (packages) => [["pacman", "-S", "--needed", "--noconfirm", ...packages]],
  apk: (packages) => [["apk", "add", ...packages]],
};

/** What a program of the system says that its version is. */
export function versionOf(program: string | undefined): string | undefined {
  if (program === undefined) return undefined; // It is macOS's own.
  const { stdout } = spawnSync(program, ["--version"], { encoding: "utf8", env: {} });
  return /\d+(?:\.\d+)+/.exec(stdout ?? "")?.[0];
}

/** Runs the commands one after the other. Contract: the first that failed, or nothing when all went well. */
export async function applyFix(
  commands: readonly (readonly string[])[],
  onLine: (line: string) => void,
): Promise<readonly string[] | undefined> {
  for (const command of commands) {
    const [program = "", ...args] = command;
    const path = systemProgram(program);
    if (path === undefined || (await follow(path, args, onLine)) !== 0) return command;
  }
  return undefined;
}

function follow(path: string, args: readonly string[], onLine: (line: string) => void): Promise<number | null> {
  return new Promise((resolve) => {
    // sudo asks for the password on the terminal itself.
    const child = spawn(path, args, { env: PLAIN, stdio: ["inherit", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) eachLine(stream, onLine);
    child.on("error", () => resolve(null));
    child.on("close", resolve);
  });
}
