// The whole gate: what `npm test` runs, here and in CI. Its last line is the count.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { installClaude, installClients } from "./install-clients.mjs";
import { setUp, setUpClaude } from "./set-up.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const scratch = mkdtempSync(join(tmpdir(), "skillet-gate-"));
const report = join(scratch, "report.json");
// What V8 makes of the program, for all tests that start it.
const compiled = join(scratch, "compiled");
mkdirSync(compiled, { mode: 0o700 });

/** Format and lint, the build that examples and the package test use, types, then every test. */
const STEPS = [
  ["format and lint", "biome", ["check", "--error-on-warnings", "."]],
  ["build", "node", ["tools/build.mjs"]],
  ["types", "tsc", ["-p", "tsconfig.json"]],
  [
    "tests",
    "vitest",
    ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...process.argv.slice(2)],
  ],
];

/**
 * Whatever tests write, and remove, is no disk's where root can have that: it takes a third of their time. The folder is this one's alone,
 * and is gone with it.
 */
function inMemory(command, args) {
  const folder = join(tmpdir(), "t");
  const script = 'mkdir -p "$0" && mount -t tmpfs -o mode=1777 skillet "$0"';
  const inside = (rest, more) => ["unshare", ["--mount", "sh", "-c", `${script} && ${rest}`, folder, ...more]];
  const isRoot = process.platform === "linux" && process.getuid() === 0;
  if (!isRoot || spawnSync(...inside("true", []), { stdio: "ignore" }).status !== 0) return [command, args];
  return inside('TMPDIR=$0 exec "$@"', [command, ...args]);
}

/** Whether what was built is younger than all that it is made of: also than the folders, which a removed file changes. */
function isFresh() {
  const timeOf = (path) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = readdirSync(join(root, "src"), { recursive: true }).map((path) => join("src", path));
  const others = [
    "src",
    "tools/build.mjs",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "tsconfig.build.json",
  ];
  const built = timeOf("dist/cli.cjs");
  return [...sources, ...others].every((path) => timeOf(path) < built);
}

/** What the tests need of the machine. What is built says what that is. */
async function prepare() {
  const isComplete = await setUp();
  if (await installing.claude) setUpClaude();
  return isComplete;
}

let passed = 0;
let failed = 0;
let skipped = 0;
let isBuilt = false;
// All of this waits for others. The types of the tests and the tests themselves need the clients.
const installing = { clients: installClients(), claude: installClaude() };
let preparing = isFresh() ? prepare() : undefined;
for (const [name, command, args] of STEPS) {
  if (name === "types" && !(await installing.clients)) failed++;
  if (name === "types") await installing.claude;
  if (name === "tests") {
    preparing ??= prepare();
    await preparing;
  }
  if (name === "build" && isFresh()) {
    // `npm ci` has just built it.
    console.log("✓ build (it is newer than its sources)");
    isBuilt = true;
    passed++;
    continue;
  }
  const start = performance.now();
  const env = isBuilt ? { ...process.env, SKILLET_TEST_BUILT: compiled } : process.env;
  const { status } = spawnSync(...(name === "tests" ? inMemory(command, args) : [command, args]), {
    cwd: root,
    env,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (name === "build") isBuilt = status === 0;
  console.log(`${status === 0 ? "✓" : "✗"} ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  if (status === 0) passed++;
  else failed++;
}
try {
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(report, "utf8"));
  passed += numPassedTests;
  failed += numFailedTests;
  skipped += numPendingTests;
} catch {
  // The step that should have written it has already been counted as failed.
}
rmSync(scratch, { recursive: true, force: true });
process.exitCode = failed === 0 ? 0 : 1;
if (!(await preparing))
  console.log("✗✗✗ the machine lacks what sandboxes need (see above): their tests were skipped ✗✗✗");
if (!(await installing.claude))
  console.log("✗✗✗ the Claude Agent SDK could not be installed (see above): its tests were skipped ✗✗✗");
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
