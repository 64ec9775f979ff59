import { tmpdir } from "node:os";
import { type Command, FIXED_VARIABLES, type Sandbox, seenPath } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { withDoors } from "./doors.ts";
import { runProcess } from "./process.ts";

/** No isolation but for the variables, the time and the output. Only ever where the operator says `level = "none"`. */
export function bareSandbox(): Sandbox {
  const sandbox: Sandbox = {
    level: "none",
    by: "none",
    mapsPaths: false,
    system: "host",
    async run(command, options) {
      if (command.root !== undefined) throw noPackages();
      return withDoors(command, { folder: tmpdir(), mapsPaths: false }, async (given) => {
        const outcome = await runProcess(programFor(given, sandbox), command.limits.seconds, options);
        return { ...outcome, isolation: { level: "none", by: "none", bounds: "none" } };
      });
    },
  };
  return sandbox;
}

function programFor({ argv: [file, ...args], env, folder, mounts, stdin }: Command, sandbox: Sandbox) {
  return {
    file,
    args,
    env: { ...FIXED_VARIABLES, HOME: "/tmp", ...env },
    folder: seenPath(sandbox, mounts, folder),
    ...(stdin === undefined ? {} : { stdin }),
  };
}

function noPackages(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added where nothing is kept apart",
    fix: 'install them on this machine, or remove [sandbox] level = "none" from config.toml',
  });
}
