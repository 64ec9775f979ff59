import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { run } from "./measure.mjs";

const node = process.execPath;
const skillet = join(import.meta.dirname, "..", "bin", "skillet.cjs");
// Skillet reads files again that were younger than two seconds when it wrote its index.
export const CLOCK_TICK = 2100;

/**
 * The environment of every contender, built from scratch. Variables of this shell must not affect the measurement (certificates
 * for Node cost each start 40 ms). Temporary files and the home folder are in the benchmark's folder.
 */
export function environment(place) {
  const home = join(place, "home");
  mkdirSync(home, { recursive: true });
  const quiet = { DISABLE_TELEMETRY: "1", DO_NOT_TRACK: "1", MASTRA_TELEMETRY_DISABLED: "1", NO_COLOR: "1" };
  return { PATH: process.env.PATH, HOME: home, TMPDIR: home, LANG: "C.UTF-8", ...quiet };
}

/** Compiles the floor. Without a compiler, a Node program that does the same replaces it. */
export function makeFloor(place) {
  const program = join(place, "floor");
  const compiled = spawnSync("cc", ["-O2", "-o", program, join(import.meta.dirname, "floor.c")], { stdio: "ignore" });
  return compiled.status === 0
    ? { kind: "C", file: program, args: [] }
    : { kind: "Node", file: node, args: [join(import.meta.dirname, "scan.mjs")] };
}

/** The contenders other than the peers. `skills` is the folder with categories. */
export async function ownContenders({ place, skills, floor, size }) {
  const env = environment(place);
  const cwd = join(place, "work");
  mkdirSync(cwd, { recursive: true });
  const plain = (name, file, args, count) => ({ name, command: { file, args, cwd, env }, count });
  const scan = join(import.meta.dirname, "scan.mjs");
  return [
    { ...plain("floor", floor.file, [...floor.args, skills], Number.parseInt), label: `floor (${floor.kind})` },
    plain("node -e 0", node, ["-e", "0"]),
    plain("node scan", node, [scan, skills, "yaml"], Number.parseInt),
    plain("skillet --version", node, [skillet, "--version"]),
    ...(await skilletLists({ place, skills, cwd, env, size })),
  ];
}

async function skilletLists({ place, skills, cwd, env, size }) {
  if (!existsSync(join(import.meta.dirname, "..", "dist", "cli", "bin.cjs"))) {
    throw new Error("skillet is not built\n  run: npm run build");
  }
  const none = join(place, "none");
  mkdirSync(none, { recursive: true });
  const [cold, indexed] = ["cold", "index"].map((name) => {
    const home = join(place, `skillet-${name}-${size}`);
    const own = { ...env, SKILLET_HOME: home, CUSTOM_SKILLS_DIR: skills, SKILLS_DIR: none };
    const command = { file: node, args: [skillet, "list"], cwd, env: own };
    return { name: `skillet list, ${name}`, command, count: lines, mustFind: size, measuresMemory: true, home };
  });
  await run(indexed.command);
  await setTimeout(CLOCK_TICK);
  await run(indexed.command);
  // Only the index is removed. V8's compiled code stays, as on a machine with new skills and a used skillet.
  const prepare = () => rmSync(join(cold.home, "cache", "scan"), { recursive: true, force: true });
  return [{ ...cold, prepare }, indexed];
}

function lines(text) {
  return text.split("\n").length - 1;
}
