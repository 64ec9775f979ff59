import { tmpdir } from "node:os";
import { SkillError } from "../errors/problem.ts";
import { FIXED_VARIABLES, mapSandboxPath, type Sandbox, type SandboxCommand } from "../host/sandbox-contract.ts";
import { makeReadableProgram } from "./base-mounts.ts";
import { runProcess } from "./process.ts";
import { allocateRunUser, isRoot, SYSTEM_SANDBOX_FOLDER } from "./sandbox-folders.ts";
import { withSandboxSockets } from "./sandbox-socket.ts";

/**
 * No isolation but for the variables, the time and the output. Only ever where the operator says `level = "none"`. Code of a skill does
 * not run as root here either: where the caller is root, it runs as the user that the command names, or as one that no account has.
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
      return withSandboxSockets(command, { folder: tmpdir(), ...owner, mapsPaths: false }, async (given) => {
        const outcome = await runProcess(
          createUnsandboxedProgram(given, sandbox, user),
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
    ...(user === undefined ? {} : { user }), // Without the groups of root: Node leaves them when it changes the user.
    ...(stdin === undefined ? {} : { stdin }),
  };
}

function createPackagesError(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added where nothing is kept apart",
    fix: 'install them on this machine, or remove [sandbox] level = "none" from config.toml',
  });
}
