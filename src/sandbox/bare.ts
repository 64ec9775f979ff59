import { tmpdir } from "node:os";
import { type Command, FIXED_VARIABLES, type Sandbox, seenPath } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { withDoors } from "./doors.ts";
import { readableProgram } from "./furniture.ts";
import { isRoot, ownUser, SYSTEM_FOLDER } from "./places.ts";
import { runProcess } from "./process.ts";

/**
 * No isolation but for the variables, the time and the output. Only ever where the operator says `level = "none"`. Code of a skill does
 * not run as root here either: where the caller is root, it runs as the user that the command names, or as one that no account has.
 */
export function bareSandbox(): Sandbox {
  const sandbox: Sandbox = {
    level: "none",
    by: "none",
    mapsPaths: false,
    system: "host",
    async run(command, options) {
      if (command.root !== undefined) throw noPackages();
      const user = isRoot() ? command.user || ownUser() : undefined;
      const owner = user === undefined ? {} : { owner: { uid: user, gid: user } };
      return withDoors(command, { folder: tmpdir(), ...owner, mapsPaths: false }, async (given) => {
        const outcome = await runProcess(programFor(given, sandbox, user), command.limits.seconds, options);
        return { ...outcome, isolation: { level: "none", by: "none", bounds: "none" } };
      });
    },
  };
  return sandbox;
}

function programFor(command: Command, sandbox: Sandbox, user: number | undefined) {
  const { env, folder, mounts, stdin } = command;
  const [file, ...args] = command.argv;
  return {
    file: file === process.execPath ? readableProgram(file, SYSTEM_FOLDER) : file,
    args,
    env: { ...FIXED_VARIABLES, HOME: "/tmp", ...env },
    folder: seenPath(sandbox, mounts, folder),
    ...(user === undefined ? {} : { user }), // Without the groups of root: Node leaves them when it changes the user.
    ...(stdin === undefined ? {} : { stdin }),
  };
}

function noPackages(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added where nothing is kept apart",
    fix: 'install them on this machine, or remove [sandbox] level = "none" from config.toml',
  });
}
