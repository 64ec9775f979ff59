// The whole gate: what `npm test` runs, here and in CI. Its last line is the count.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { installClaude, installClients } from "./install-clients.mjs";
import { setUp, setUpTests } from "./set-up.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const scratch = mkdtempSync(join(tmpdir(), "skillet-gate-"));
const report = join(scratch, "report.json");
const secondReport = join(scratch, "second-report.json");

/** Format and lint, the build that examples and the package test use, types, then every test. */
const STEPS = [
  ["format and lint", "biome", ["check", "--error-on-warnings", "."]],
  ["build", "node", ["tools/build.mjs"]],
  ["types", "tsc", ["-p", "tsconfig.json"]],
  // They need packages of their own, which `npm ci` does not install.
  ["types of test/mcp-clients", "tsc", ["-p", "test/mcp-clients"]],
  [
    "tests",
    "vitest",
    ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...process.argv.slice(2)],
  ],
];

/** More failed files than this are not the machine's fault: they are not run again. */
const MOST_FILES_AGAIN = 5;

/**
 * Returns the command to run the tests. As root on Linux they run in their own mount namespace, which ends with them:
 * - Temporary files are in a tmpfs: on a disk they take a third of the time of the tests.
 * - A project below a folder that other users cannot enter, as root's home is, is bound to a path that they can: some tests run the
 *   program as an ordinary user.
 */
function testCommand(command, args) {
  const folder = join(tmpdir(), "t");
  const isRoot = process.platform === "linux" && process.getuid() === 0;
  const mount = 'mkdir -p "$0" && mount -t tmpfs -o mode=1777 skillet "$0"';
  const bind =
    'mkdir "$0/skillet" && mount --rbind . "$0/skillet" && cd "$0/skillet" && PATH="$PWD/node_modules/.bin:$PATH"';
  const script = isOpenToAll(root) ? mount : `${mount} && ${bind}`;
  const inside = (rest, more) => ["unshare", ["--mount", "sh", "-c", `${script} && ${rest}`, folder, ...more]];
  const options = { cwd: root, stdio: "ignore" };
  if (!isRoot || spawnSync(...inside("true", []), options).status !== 0) return [command, args];
  return inside('TMPDIR=$0 exec "$@"', [command, ...args]);
}

/** True when every user may enter the folder and all folders above it. */
function isOpenToAll(folder) {
  return (statSync(folder).mode & 0o005) === 0o005 && (dirname(folder) === folder || isOpenToAll(dirname(folder)));
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
  const built = Math.min(timeOf("dist/cli/bin.cjs"), timeOf("build/index.js"));
  return [...sources, ...others].every((path) => timeOf(path) < built);
}

/** What the tests need of the machine. What is built says what that is. */
async function prepare() {
  const isComplete = await setUp();
  setUpTests([
    "linux-libc-dev",
    "linux-libc-dev-arm64-cross",
    ...(process.arch === "x64" ? ["user-mode-linux"] : []),
    ...((await installing.claude) ? ["socat"] : []),
  ]);
  return isComplete;
}

/** Runs one step, prints how it ended and how long it took, and returns its exit status. */
function runStep(name, [command, args], env) {
  const start = performance.now();
  const options = { cwd: root, env, stdio: "inherit", shell: process.platform === "win32" };
  const { status } = spawnSync(command, args, options);
  console.log(`${status === 0 ? "✓" : "✗"} ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  return status;
}

/** Returns a report of the tests, or undefined where they ended without one. */
function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Runs files with failed tests a second time, with nothing next to them. A test that fails in one of both runs failed because of other
 * work on the machine, or by chance: its name is printed, since it is a defect all the same. Returns how many tests failed in both, or
 * undefined where a second run cannot tell.
 */
function countFailedTwice(env) {
  const failedFiles = (readReport(report)?.testResults ?? []).filter(({ status }) => status === "failed");
  if (failedFiles.length === 0 || failedFiles.length > MOST_FILES_AGAIN) return undefined;
  const bound = join(tmpdir(), "t", "skillet");
  const paths = failedFiles.map(({ name }) => relative(name.startsWith(`${root}/`) ? root : bound, name));
  const args = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${secondReport}`, "--maxWorkers=1"];
  runStep("failed files again, alone", testCommand("vitest", [...args, ...paths]), env);
  const second = readReport(secondReport)?.testResults;
  const failedOnce = failedTests(failedFiles);
  // A file that failed without a failed test could not be loaded, or its hooks failed.
  const isTold = second && [failedFiles, second].every((results) => results.every(hasFailedTest));
  if (!isTold) return undefined;
  const failedAgain = failedTests(second);
  const both = failedOnce.filter((name) => failedAgain.includes(name));
  for (const name of new Set([...failedOnce, ...failedAgain]))
    console.log(`${both.includes(name) ? "✗ failed twice" : "! flaky"}: ${name}`);
  return both.length;
}

function failedTests(results) {
  return results.flatMap(({ assertionResults }) =>
    assertionResults.flatMap(({ status, fullName }) => (status === "failed" ? fullName : [])),
  );
}

function hasFailedTest({ status, assertionResults }) {
  return status !== "failed" || assertionResults.some((test) => test.status === "failed");
}

let passed = 0;
let failed = 0;
let skipped = 0;
let isBuilt = false;
// All of this waits for others.
const installing = { clients: installClients(), claude: installClaude() };
let preparing = isFresh() ? prepare() : undefined;
for (const [name, command, args] of STEPS) {
  if (name === "types of test/mcp-clients" && !(await installing.clients)) failed++;
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
  const env = isBuilt ? { ...process.env, SKILLET_TEST_BUILT: "1" } : process.env;
  const isTests = name === "tests";
  let status = runStep(name, isTests ? testCommand(command, args) : [command, args], env);
  if (isTests) {
    const first = readReport(report);
    passed += first?.numPassedTests ?? 0;
    skipped += first?.numPendingTests ?? 0;
    const failedFirst = first?.numFailedTests ?? 0;
    const failedTwice = status === 0 ? 0 : (countFailedTwice(env) ?? failedFirst);
    if (status !== 0 && failedFirst > 0 && failedTwice === 0) status = 0;
    failed += failedTwice;
    passed += failedFirst - failedTwice;
  }
  if (name === "build") isBuilt = status === 0;
  if (status === 0) passed++;
  else failed++;
}
rmSync(scratch, { recursive: true, force: true });
process.exitCode = failed === 0 ? 0 : 1;
if (!(await preparing))
  console.log("✗✗✗ the machine lacks what sandboxes need (see above): their tests were skipped ✗✗✗");
if (!(await installing.claude))
  console.log("✗✗✗ the Claude Agent SDK could not be installed (see above): its tests were skipped ✗✗✗");
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
