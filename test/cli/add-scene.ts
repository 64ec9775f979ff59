import { chmodSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { makeRepository } from "../support/repositories.ts";

/** A user, a project, and nothing else to find: the skills of the package are in another folder. */
export function createAddScene(files: Record<string, string> = {}) {
  const root = temporaryFolder({ "home/readme": "", "project/readme": "", "no-skills/readme": "", ...files });
  const [home, cwd] = [join(root, "home"), join(root, "project")];
  chmodSync(root, 0o755); // Code never runs as root: if the tests do, other users need access.
  const run = (args: string[], options: RunOptions = {}) =>
    skillet(args, { cwd, ...options, env: { HOME: home, SKILLS_DIR: join(root, "no-skills"), ...options.env } });
  const installed = join(home, ".skillet/installed");
  return {
    root,
    home,
    cwd,
    installed,
    lock: join(installed, "skills.lock"),
    run,
    json: async (args: string[], options: RunOptions = {}) =>
      JSON.parse((await run([...args, "--json"], options)).stdout),
    /** Another user of the same files. */
    teammate() {
      const other = join(root, "teammate");
      mkdirSync(other, { recursive: true });
      return (args: string[], options: RunOptions = {}) => run(args, { ...options, env: { HOME: other } });
    },
  };
}

/** A repository with these skills, each with its own file. */
export function repositoryOf(...names: string[]) {
  return makeRepository(Object.fromEntries(names.map((name) => [`skills/${name}/SKILL.md`, skillText(name)])));
}

/** A skill with every possible request. */
export const ASKING = {
  "deploy/SKILL.md": skillText("deploy", {
    more: 'env: [TOKEN]\ncapabilities: [gog.email]\npackages: [jq]\nallowed_tools: [bash]\ntoolsets: ["index:Deploy"]\n',
  }),
  "deploy/scripts/go.sh": "#!/bin/sh\necho gone\n",
  "deploy/toolsets/index.ts": "export const Deploy = {};\n",
};

/** Reads every file below a folder, with its bytes. */
export function filesBelow(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    entries
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
      .map((file) => [file.slice(folder.length + 1), readFileSync(file, "latin1")]),
  );
}

/** Answers questions one after the other. */
export function createAnswers(...answers: string[]) {
  const asked: string[] = [];
  return {
    asked,
    ask: async (question: string) => {
      asked.push(question);
      return answers[asked.length - 1] ?? "";
    },
  };
}
