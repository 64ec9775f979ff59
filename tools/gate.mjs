// The gate: `npm test` runs all of its tiers, `npm run test:fast`, `test:process` and `test:system` one of them, and `npm run test:long` the
// tests that take too long for it. The last line is the count.
import "./pinned-node.mjs";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { setUp } from "./set-up.mjs";
import { installTestPackages } from "./test-packages.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const isRoot = process.platform === "linux" && process.getuid() === 0;
const scratch = mkdtempSync(join(tmpdir(), "skillet-gate-"));

/** The tiers of the gate (test/support/tiers.ts), in the order in which they run. */
const GATE = ["fast", "process", "system"];
const TIERS = [...GATE, "long"];

/** THE steps of the gate. A step runs if one of its tiers does; `tests` names the tier whose tests it runs. */
const STEPS = [
  { name: "format and lint", tiers: ["fast"], command: ["biome", "check", "--error-on-warnings", "."] },
  { name: "build", tiers: ["process", "system", "long"], command: ["node", "tools/build.mjs"] },
  { name: "types", tiers: ["fast"], command: ["tsc", "-p", "tsconfig.json"] },
  { name: "types of studio", tiers: ["fast"], command: ["tsc", "-p", "studio"] },
  { name: "fast tests", tiers: ["fast"], tests: "fast" },
  { name: "process tests", tiers: ["process"], tests: "process" },
  // They need packages that `npm ci` does not install.
  { name: "types of test/mcp-clients", tiers: ["system"], command: ["tsc", "-p", "test/mcp-clients"] },
  { name: "system tests", tiers: ["system"], tests: "system" },
  { name: "types of test/mcp-clients/suites", tiers: ["long"], command: ["tsc", "-p", "test/mcp-clients/suites"] },
  { name: "long tests", tiers: ["long"], tests: "long" },
  { name: "real clients", tiers: ["long"], command: ["node", "tools/clients/run.mjs"] },
];

/** More failed files than this are not due to the load of the machine: they are not run again. */
const MAX_RERUN_FILES = 5;

/**
 * Returns the command to run the tests. As root on Linux they run in their own mount namespace, which ends with them:
 * - Temporary files are in a tmpfs: on a disk they take a third of the time of the tests.
 * - A project below a folder that other users cannot enter, as root's home is, is bound to a path that they can: some tests run the
 *   program as an ordinary user.
 */
function findTestCommand(command, args) {
  const folder = join(tmpdir(), "t");
  const mount = 'mkdir -p "$0" && mount -t tmpfs -o mode=1777 skillet "$0"';
  const bind =
    'mkdir "$0/skillet" && mount --rbind . "$0/skillet" && cd "$0/skillet" && PATH="$PWD/node_modules/.bin:$PATH"';
  const script = isOpenToAll(root) ? mount : `${mount} && ${bind}`;
  const inside = (rest, more) => ["--mount", "sh", "-c", `${script} && ${rest}`, folder, ...more];
  const options = { cwd: root, stdio: "ignore" };
  if (!isRoot || spawnSync("unshare", inside("true", []), options).status !== 0) return [command, ...args];
  return ["unshare", ...inside('TMPDIR=$0 exec "$@"', [command, ...args])];
}

/** True when every user may enter the folder and all folders above it. */
function isOpenToAll(folder) {
  return (statSync(folder).mode & 0o005) === 0o005 && (dirname(folder) === folder || isOpenToAll(dirname(folder)));
}

/** True when the build is newer than all sources, and than their folders, which a removed file changes. */
function isFresh() {
  const timeOf = (path) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = ["src", "studio"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((path) => join(folder, path)),
  );
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

/** Installs what these tiers need of the machine, and prints it first. Resolves to false if something is still missing. */
async function prepare(tiers) {
  if (tiers.every((tier) => tier === "fast")) return true;
  if (!isRoot) console.log("! not root: tests that need root are skipped, and listed after their tier");
  await installing;
  return setUp();
}

/** Runs one step, prints how it ended and how long it took, and resolves to its exit status. */
async function runStep(name, [command, ...args], env) {
  const start = performance.now();
  const options = { cwd: root, env, stdio: "inherit", shell: process.platform === "win32" };
  // Not spawnSync, which would stop what is installed meanwhile.
  const status = await new Promise((resolve) =>
    spawn(command, args, options).on("close", resolve).on("error", resolve),
  );
  console.log(`${status === 0 ? "✓" : "✗"} ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  return status;
}

/** Runs tests, and returns the exit status with the results of the files, or without if the tests ended before they wrote a report. */
async function runTests(name, args, env) {
  const report = join(scratch, "report.json");
  rmSync(report, { force: true });
  const options = ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...args];
  const status = await runStep(name, findTestCommand("vitest", options), env);
  try {
    return { status, results: JSON.parse(readFileSync(report, "utf8")).testResults };
  } catch {
    return { status, results: undefined };
  }
}

/** Most tests of processes wait for them: with three workers for each processor, none is idle. */
const WORKERS = availableParallelism() * 3;

function projectOf(tier, workers = WORKERS) {
  if (tier === "long") return ["--config", "vitest.long.config.ts"];
  return ["--project", tier, ...(tier === "fast" ? [] : [`--maxWorkers=${workers}`])];
}

/** Runs the tests of a tier, and adds them to the count. Returns the exit status. */
async function runTier(name, tier, env) {
  const more = filters.length > 0 ? ["--passWithNoTests", ...filters] : [];
  const { status, results = [] } = await runTests(name, [...projectOf(tier), ...more], env);
  const skipped = listTests(results, ["pending", "skipped"]);
  // These are security tests: CI has all that they need.
  const mustRun = tier === "system" && isRoot && process.env.CI !== undefined && filters.length === 0;
  for (const { fullName } of skipped) console.log(`${mustRun ? "✗ skipped in CI" : "- skipped"}: ${fullName}`);
  const failed = listTests(results, ["failed"]).length;
  const failedTwice = status === 0 ? 0 : ((await countFailedTwice(tier, results, env)) ?? failed);
  count.passed += listTests(results, ["passed"]).length + failed - failedTwice;
  count.failed += failedTwice + (mustRun ? skipped.length : 0);
  count.skipped += mustRun ? 0 : skipped.length;
  return failed > 0 && failedTwice === 0 ? 0 : status;
}

/**
 * Runs files with failed tests a second time, with nothing next to them. A test that fails in one of both runs failed because of other
 * work on the machine, or by chance: its name is printed, since it is a defect all the same. Returns how many tests failed in both, or
 * undefined where a second run cannot tell.
 */
async function countFailedTwice(tier, results, env) {
  const failedFiles = results.filter(({ status }) => status === "failed");
  if (failedFiles.length === 0 || failedFiles.length > MAX_RERUN_FILES) return undefined;
  const bound = join(tmpdir(), "t", "skillet");
  const paths = failedFiles.map(({ name }) => relative(name.startsWith(`${root}/`) ? root : bound, name));
  const { results: second } = await runTests("failed files again, alone", [...projectOf(tier, 1), ...paths], env);
  // A file that failed without a failed test could not be loaded, or its hooks failed.
  const isKnown = second && [...failedFiles, ...second].every(hasFailedTest);
  if (!isKnown) return undefined;
  const [once, again] = [failedFiles, second].map((files) => listTests(files, ["failed"]).map((test) => test.fullName));
  const both = once.filter((name) => again.includes(name));
  for (const name of new Set([...once, ...again])) {
    if (!both.includes(name)) flaky.push(name);
    console.log(`${both.includes(name) ? "✗ failed twice" : "! flaky"}: ${name}`);
  }
  return both.length;
}

function listTests(results, states) {
  return results.flatMap(({ assertionResults }) => assertionResults.filter(({ status }) => states.includes(status)));
}

function hasFailedTest({ status, assertionResults }) {
  return status !== "failed" || assertionResults.some((test) => test.status === "failed");
}

const isTier = (word) => TIERS.includes(word);
const tiers = process.argv.slice(2).some(isTier) ? process.argv.slice(2).filter(isTier) : GATE;
const filters = process.argv.slice(2).filter((word) => !isTier(word));
const count = { passed: 0, failed: 0, skipped: 0 };
const flaky = [];
let isBuilt = false;
// Downloads wait for the network: they begin while the first tiers run.
const installing = installTestPackages(tiers);
let preparing = isFresh() ? prepare(tiers) : undefined;
// Filters choose tests: of the other steps, only the build is needed for them.
const isWanted = ({ name, tests }) => filters.length === 0 || tests !== undefined || name === "build";
const steps = STEPS.filter((step) => step.tiers.some((tier) => tiers.includes(tier)) && isWanted(step));
for (const { name, command, tests } of steps) {
  if (name.startsWith("types of") && (await installing).some(({ npm }) => npm !== undefined)) count.failed++;
  // It needs the build.
  if (tests !== undefined && tests !== "fast") {
    preparing ??= prepare(tiers);
    await preparing;
  }
  const env = isBuilt ? { ...process.env, SKILLET_TEST_BUILT: "1" } : process.env;
  let status = 0;
  if (name === "build" && isFresh()) console.log("✓ build (it is newer than its sources)");
  else status = await (tests === undefined ? runStep(name, command, env) : runTier(name, tests, env));
  if (name === "build") isBuilt = status === 0;
  if (status === 0) count.passed++;
  else count.failed++;
}
rmSync(scratch, { recursive: true, force: true });
process.exitCode = count.failed === 0 ? 0 : 1;
if (!(await (preparing ?? true)))
  console.log("✗✗✗ the machine lacks what sandboxes need (see above): their tests were skipped ✗✗✗");
for (const name of flaky) console.log(`! flaky: ${name}`);
console.log(`${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ""}`);
