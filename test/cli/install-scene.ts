import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

/** A user with one skill, and nothing else to export: the skills of the package are in another folder. */
export function scene(files: Record<string, string> = {}) {
  const root = temporaryFolder({
    "home/.skillet/skills/deploy/SKILL.md": skillText("deploy", { more: "env: [TOKEN]\n" }),
    "home/.skillet/skills/deploy/scripts/go.sh": "#!/bin/sh\necho gone\n",
    "home/.skillet/skills/deploy/.env": "TOKEN=secret\n",
    "home/.skillet/skills/deploy/.git/config": "",
    "project/readme": "",
    "no-skills/readme": "",
    ...files,
  });
  const [home, cwd] = [join(root, "home"), join(root, "project")];
  chmodSync(join(home, ".skillet/skills/deploy/scripts/go.sh"), 0o4755);
  const env = { HOME: home, SKILLS_DIR: join(root, "no-skills") };
  const run = (args: string[], options: RunOptions = {}) =>
    skillet(args, { cwd, ...options, env: { ...env, ...options.env } });
  const json = async (args: string[]) => JSON.parse((await run([...args, "--json"])).stdout);
  const record = join(home, ".skillet/installs.json");
  return {
    root,
    home,
    cwd,
    run,
    json,
    record,
    skills: join(home, ".claude/skills"),
    own: join(home, ".skillet/skills"),
  };
}

export const recorded = (record: string) => Object.keys(JSON.parse(readFileSync(record, "utf8")).skills);
