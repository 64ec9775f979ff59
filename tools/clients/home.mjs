import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { corpusFiles } from "./corpus/skills.mjs";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** Creates a home folder with only these files, and a working folder. */
export function openHome(name, files = {}) {
  const path = realpathSync(mkdtempSync(join(tmpdir(), `skillet-${name}-`)));
  for (const [file, text] of Object.entries(files)) writeFile(join(path, file), text);
  const workspace = join(path, "work");
  mkdirSync(workspace, { recursive: true });
  const empty = join(path, "no-skills");
  mkdirSync(empty);
  const env = {
    ...{ PATH: process.env.PATH, HOME: path, LANG: "C.UTF-8", TERM: "dumb", NO_COLOR: "1" },
    // The skills of the package are not part of the corpus.
    SKILLS_DIR: empty,
  };
  return { path, workspace, env };
}

/** Creates a home folder with the corpus as the user's skills. */
export function openCorpusHome(name) {
  const files = Object.entries(corpusFiles()).map(([path, text]) => [`.skillet/skills/${path}`, text]);
  return openHome(name, Object.fromEntries(files));
}

/** Returns a command of this tree. */
export function skilletCommand(...args) {
  return [process.execPath, program, ...args];
}

/** Runs a command of this tree in a home. Throws if it fails. */
export function skillet({ workspace, env }, ...args) {
  const [file, ...rest] = skilletCommand(...args);
  const ran = spawnSync(file, rest, { cwd: workspace, env, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`skillet ${args.join(" ")} ended with ${ran.status}: ${ran.stderr}`);
  return ran.stdout;
}

/** Connects a client as its users do: `skillet connect` writes the server and the prompt hook. */
export function connect(home, { name, connectOptions = [] }) {
  skillet(home, "connect", name, "--yes", ...connectOptions);
}

/** Puts a program between the client and the server that records all messages. */
export function listen({ path }, { name, config }) {
  const file = join(path, config);
  const text = readFileSync(file, "utf8");
  const between = text.replace(program, join(import.meta.dirname, "wire.mjs"));
  if (between === text) throw new Error(`skillet connect ${name} did not put ${program} into ${file}`);
  writeFileSync(file, between);
}

export function writeFile(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
