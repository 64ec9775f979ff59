import { chmodSync } from "node:fs";
import { join } from "node:path";
import { type RunOptions, skillet } from "./command.ts";
import { temporaryFolder } from "./folder.ts";
import { grantValuesIn } from "./grant-values.ts";

export interface Place {
  home: string;
  project: string;
  /** The user's configuration file. */
  config: string;
  run(args: readonly string[], options?: RunOptions): ReturnType<typeof skillet>;
}

/**
 * Creates a home with a configuration, and a project that others may change; `files` are below `home/` and `project/`. Configured values are
 * bound to the copy of their skill if there is one, as `skillet config set` does.
 */
export function createHome(files: Record<string, string>, config = ""): Place {
  const root = temporaryFolder({ "home/.skillet/config.toml": config, "project/README.md": "A project.\n", ...files });
  const [home, project] = [join(root, "home"), join(root, "project")];
  const file = join(home, ".skillet/config.toml");
  chmodSync(root, 0o755);
  chmodSync(file, 0o600);
  chmodSync(project, 0o777);
  grantValuesIn(home, project);
  return {
    home,
    project,
    config: file,
    run: (args, options = {}) => skillet(args, { cwd: project, ...options, env: { HOME: home, ...options.env } }),
  };
}
