import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** Package managers, by the lock file that each leaves in a project. */
const MANAGERS = [
  { lock: "pnpm-lock.yaml", command: ["pnpm", "add"] },
  { lock: "yarn.lock", command: ["yarn", "add"] },
  { lock: "bun.lock", command: ["bun", "add"] },
  { lock: "package-lock.json", command: ["npm", "install"] },
] as const;

export interface InstallPlan {
  /** The folder of the project's package.json. */
  project: string;
  command: readonly string[];
}

/** Plans how packages are installed in the project that a folder is in; undefined where it is in none. */
export function planInstall(folder: string, packages: readonly string[]): InstallPlan | undefined {
  const project = foldersAbove(folder).find((path) => existsSync(join(path, "package.json")));
  if (project === undefined) return undefined;
  // A workspace of a monorepo has its lock file at the top.
  const locked = foldersAbove(project).flatMap((path) => MANAGERS.filter(({ lock }) => existsSync(join(path, lock))));
  const [{ command } = MANAGERS[3]] = locked;
  return { project, command: [...command, ...packages] };
}

/**
 * Runs the plan with the user's own package manager, at the user's terminal: it is found in PATH, and has the user's environment. Resolves
 * with its exit code, undefined where it could not be started.
 */
export function applyInstall({ project, command: [program = "", ...args] }: InstallPlan, env: NodeJS.ProcessEnv) {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const shell = process.platform === "win32"; // There they are scripts.
  spawn(program, args, { cwd: project, env, stdio: ["ignore", "ignore", "inherit"], shell })
    .once("error", () => resolve(undefined))
    .once("close", (code) => resolve(code ?? 1));
  return promise;
}

function foldersAbove(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...foldersAbove(parent)];
}
