// Prints which source files a command executes, from the sources and by V8's coverage:
//   node tools/executed-files.mjs [--list] run host-report --model runbook
// A file counts as executed if one of its functions ran, apart from the code that its import runs. The command has its own home and
// workspace. Also prints the functions between the use of a skill and the first process that one of its tools starts.
import "./pinned-node.mjs";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const sources = pathToFileURL(join(root, "src/")).href;
const isListed = process.argv[2] === "--list";
const args = process.argv.slice(isListed ? 3 : 2);

/**
 * Collects the coverage, and the stack at the start of a process: callers above an `await` are part of it. NODE_V8_COVERAGE does not serve,
 * since Node adds it to the environment of every child process, which the self-test of the sandbox refuses.
 */
const TRACE = `
import child from "node:child_process";
import { writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { syncBuiltinESMExports } from "node:module";
const session = new Session();
session.connect();
session.post("Profiler.enable");
session.post("Profiler.startPreciseCoverage", { callCount: true });
process.on("exit", () =>
  session.post("Profiler.takePreciseCoverage", (_error, coverage) =>
    writeFileSync(process.env.SKILLET_COVERAGE, JSON.stringify(coverage)),
  ),
);
Error.stackTraceLimit = 200;
const real = child.spawn;
child.spawn = (...args) => {
  const { stack } = new Error("spawn");
  if (stack.includes("callTool")) try { writeFileSync(process.env.SKILLET_STACK, stack, { flag: "wx" }); } catch {}
  return real(...args);
};
syncBuiltinESMExports();
`;

const scratch = mkdtempSync(join(tmpdir(), "skillet-executed-"));
const pathOf = (name) => join(scratch, name);
const [coverage, home, work, stack] = ["coverage.json", "home", "work", "stack"].map(pathOf);
const [program, trace] = ["program.mjs", "trace.mjs"].map(pathOf);
for (const folder of [home, work]) mkdirSync(folder);
writeFileSync(program, `import { run } from ${JSON.stringify(`${sources}cli/bin.ts`)};\nrun();\n`);
writeFileSync(trace, TRACE);
try {
  const env = { PATH: process.env.PATH, HOME: home, SKILLET_COVERAGE: coverage, SKILLET_STACK: stack };
  const node = ["--import", pathToFileURL(trace).href, program, ...args];
  const { status, stderr } = spawnSync(process.execPath, node, { cwd: work, env, encoding: "utf8" });
  if (status !== 0) process.stderr.write(stderr);
  report(status);
} finally {
  rmSync(scratch, { recursive: true });
}

function report(status) {
  const files = readCoverage();
  const executed = [...files].filter(([, functions]) => functions.size > 0);
  if (isListed) for (const [file, functions] of executed.sort()) console.log(`${file}  ${[...functions].join(" ")}`);
  console.log(`exit code ${status}`);
  console.log(`${files.size} files loaded, ${executed.length} executed`);
  const layers = readLayers();
  if (layers)
    console.log(
      `${layers.length} functions from the use of the skill to the start of a process: ${layers.join(" > ")}`,
    );
}

/** Returns the names of the functions that ran, by source file. */
function readCoverage() {
  const files = new Map();
  for (const { url, functions } of JSON.parse(readFileSync(coverage, "utf8")).result) {
    if (!url.startsWith(sources)) continue;
    // The first function is the module itself.
    const ran = functions.slice(1).filter(({ ranges }) => ranges[0].count > 0);
    files.set(url.slice(sources.length), new Set(ran.map(({ functionName }) => functionName || "(anonymous)")));
  }
  return files;
}

/** Returns the functions from the use of the skill to the one that starts the process, or undefined if no tool started one. */
function readLayers() {
  let text;
  try {
    text = readFileSync(stack, "utf8");
  } catch {
    return undefined;
  }
  const frames = text.split("\n").filter((line) => line.includes(sources));
  const names = frames.map((line) => / at (?:async )?(?:new )?([\w.#<>$]+) \(/.exec(line)?.[1] ?? "(anonymous)");
  return names.reverse();
}
