import { tmpdir } from "node:os";
import { SkillError } from "../errors/problem.ts";
import { FIXED_VARIABLES, mapSandboxPath, type Sandbox, type SandboxCommand } from "../host/sandbox-contract.ts";
import { makeReadableProgram } from "./base-mounts.ts";
import { runProcess } from "./process.ts";
import { allocateRunUser, isRoot, SYSTEM_SANDBOX_FOLDER } from "./sandbox-folders.ts";
import { withSandboxSockets } from "./sandbox-socket.ts";

/**
 * Creates the sandbox for `level = "none"`: no isolation except a clean environment, the timeout and the output limit.
 * Only used if the operator sets it. If the caller is root, code runs as the user that the command names, or as one
 * without an account, never as root.
 */
export function createNoSandbox(): Sandbox {
  const sandbox: Sandbox = {
    level: "none",
    by: "none",
    mapsPaths: false,
    system: "host",
    async run(command, options) {
      if (command.root !== undefined) throw createPackagesError();
      const user = isRoot() ? command.user || allocateRunUser() : undefined;
      const owner = user === undefined ? {} : { owner: { uid: user, gid: user } };
      return withSandboxSockets(command, { folder: tmpdir(), ...owner, mapsPaths: false }, async (prepared) => {
        const outcome = await runProcess(
          createUnsandboxedProgram(prepared, sandbox, user),
          command.limits.seconds,
          options,
        );
        return { ...outcome, isolation: { level: "none", by: "none", bounds: "none" } };
      });
    },
  };
  return sandbox;
}

function createUnsandboxedProgram(command: SandboxCommand, sandbox: Sandbox, user: number | undefined) {
  const { env, folder, mounts, stdin } = command;
  const [file, ...args] = command.argv;
  return {
    file: file === process.execPath ? makeReadableProgram(file, SYSTEM_SANDBOX_FOLDER) : file,
    args,
    env: { ...FIXED_VARIABLES, HOME: "/tmp", ...env },
    folder: mapSandboxPath(sandbox, mounts, folder),
    ...(user === undefined ? {} : { user }), // Without root's groups: Node drops them when it changes the user.
    ...(stdin === undefined ? {} : { stdin }),
  };
}

function createPackagesError(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added without a sandbox",
    fix: 'install them on this machine, or remove [sandbox] level = "none" from config.toml',
  });
}
