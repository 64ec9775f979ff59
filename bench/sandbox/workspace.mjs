import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "../contenders.mjs";
import { run } from "../measure.mjs";
import { inTurn } from "./rounds.mjs";

const node = process.execPath;
const own = join(import.meta.dirname, "..", "..");
const SKILL = "---\nname: writer\ndescription: Writes files. For measuring what a workspace costs.\n---\nRun go.sh.\n";
const WRITES = 'mkdir -p "$1/out" && cd "$1/out" && i=0; while [ $i -lt 1000 ]; do echo $i > f$i; i=$((i+1)); done\n';
const MOST_SAMPLES = 20;
const FOLDERS = 5000;

/**
 * Measures a script that writes 1,000 files to a workspace: alone, and with `skillet script`, in a small workspace and in one with many folders.
 * With `SKILLET_BASE`, the folder of another build of skillet, it measures both builds in turn.
 */
export async function workspace({ place, samples, say }) {
  const env = environment(place);
  const skill = join(env.HOME, ".skillet", "skills", "writer");
  mkdirSync(join(skill, "scripts"), { recursive: true });
  writeFileSync(join(skill, "SKILL.md"), SKILL);
  writeFileSync(join(skill, "scripts", "go.sh"), WRITES);
  writeFileSync(join(skill, "scripts", "nothing.sh"), "true\n");
  const config = join(env.HOME, ".skillet", "config.toml");
  writeFileSync(config, '[sandbox]\nworkspace = "read-write"\n', { mode: 0o600 });
  const builds = [["skillet", own], ...(process.env.SKILLET_BASE ? [["base", process.env.SKILLET_BASE]] : [])];
  const sizes = [
    ["small", 10],
    [`${FOLDERS} folders`, FOLDERS],
  ].map(([name, folders]) => [name, project(join(place, `workspace-${folders}`), folders)]);
  const subject = (name, file, args, cwd) => ({
    name,
    async sample() {
      rmSync(join(cwd, "out"), { recursive: true, force: true });
      const { ms, problem } = await run({ file, args, cwd, env });
      if (problem) throw new Error(`${name} ${problem}`);
      return ms;
    },
  });
  const rounds = Math.min(samples, MOST_SAMPLES);
  say(`1,000 files: ${rounds} rounds`);
  const subjects = sizes.flatMap(([size, cwd]) => [
    subject(`sh, 1,000 files, ${size}`, "/bin/sh", [join(skill, "scripts", "go.sh"), cwd], cwd),
    ...builds.flatMap(([name, folder]) => {
      const program = join(folder, "bin", "skillet.cjs");
      const script = (file, ...args) => [program, "script", "writer", file, ...args];
      return [
        subject(`${name}, 1,000 files, ${size}`, node, script("go.sh", "/workspace"), cwd),
        subject(`${name}, nothing, ${size}`, node, script("nothing.sh"), cwd),
      ];
    }),
  ]);
  const rows = await inTurn(subjects, rounds);
  rmSync(config);
  return { rows, rounds };
}

/** Creates a typical workspace: a repository, instructions for agents, a package, and its dependencies. */
function project(folder, folders) {
  const files = {
    "CLAUDE.md": "Use tabs.\n",
    "package.json": '{"scripts":{"test":"vitest"}}\n',
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n",
    ".git/objects/x": "",
    ".git/refs/x": "",
    ".github/workflows/ci.yml": "on: push\n",
  };
  for (let index = 0; index < folders; index++) {
    for (let file = 0; file < 5; file++) files[`node_modules/p${index % 500}/d${index}/f${file}.js`] = "";
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  if (process.getuid() === 0) execFileSync("/bin/chown", ["-R", "65534:65534", folder]);
  chmodSync(folder, 0o755);
  return folder;
}
