import { homedir } from "node:os";
import { join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

/** The user's home folder. A user that the system does not know has none, and no folder of that name is anybody's. */
export function userHome(env: Env): string {
  if (env["HOME"]) return env["HOME"];
  try {
    return homedir();
  } catch {
    return "/nonexistent";
  }
}

/** skillet's own folder. */
export function skilletHome(env: Env, home = userHome(env)): string {
  return env["SKILLET_HOME"] || join(home, ".skillet");
}
