// Installs test dependencies that `npm ci` does not install: `npm test` does it for its tiers, `node tools/test-packages.mjs TIER …` alone.
import { spawn } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const isX64 = process.arch === "x64";
const hasApt = process.platform === "linux" && existsSync("/usr/bin/apt-get");

/**
 * THE table of packages that only tests need, by the tiers that install them. Each is printed before it is installed.
 * - `debian` is a package of Debian. `file` is there when it is installed; tests skip themselves without it.
 * - `npm` is a folder of `test/` with its own package-lock.json.
 */
const PACKAGES = [
  {
    debian: "linux-libc-dev",
    tiers: ["system"],
    file: isX64 ? "/usr/include/x86_64-linux-gnu/asm/unistd_64.h" : "/usr/include/asm-generic/unistd.h",
    purpose: "has the numbers of system calls that the filter is compared with",
  },
  {
    debian: "linux-libc-dev-arm64-cross",
    tiers: ["system"],
    file: "/usr/aarch64-linux-gnu/include/asm-generic/unistd.h",
    purpose: "has the numbers of system calls of arm64",
  },
  {
    debian: "user-mode-linux",
    tiers: isX64 ? ["system"] : [],
    file: "/usr/bin/linux.uml",
    purpose: "is the kernel for the tests of delegated cgroups",
  },
  {
    debian: "chromium",
    tiers: ["system"],
    file: "/usr/bin/chromium",
    purpose: "is the browser for the tests of the page of `skillet studio`",
  },
  {
    debian: "postgresql",
    tiers: ["system"],
    file: "/usr/lib/postgresql",
    purpose: "is the server for the tests of runs in Postgres",
  },
  {
    debian: "socat",
    tiers: ["long"],
    file: "/usr/bin/socat",
    purpose: "is part of Claude Code's sandbox",
  },
  {
    debian: "mmdebstrap",
    tiers: ["long"],
    file: "/usr/bin/mmdebstrap",
    purpose: "makes the clean Debian system that the README is followed on",
  },
  {
    debian: "buildah",
    tiers: ["long"],
    file: "/usr/bin/buildah",
    purpose: "builds the image of the Containerfile",
  },
  {
    npm: "mcp-clients",
    tiers: ["system", "long"],
    args: ["--omit=optional"],
    purpose: "has an MCP client (30 MB)",
  },
  {
    npm: "mcp-clients/suites",
    tiers: ["long"],
    // Only the Inspector's web page and key ring need the optional packages.
    args: ["--omit=optional"],
    purpose: "has large MCP clients (140 MB)",
  },
  {
    npm: "claude",
    tiers: ["long"],
    // Only types need its peers.
    args: ["--legacy-peer-deps"],
    // An optional package for each system, which npm leaves out silently.
    program: /^node_modules\/@anthropic-ai\/claude-agent-sdk-/,
    purpose: "has the Claude Agent SDK (380 MB)",
  },
];

const tests = join(dirname(fileURLToPath(import.meta.url)), "..", "test");

// No install scripts run. Without a network, npm fails immediately, not after a minute.
const NPM = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
const NPM_OUTPUT = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"];
const APT = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300"];

/** How many lines of a command that failed are printed: the last ones have the reason. */
const LAST_LINES = 6;

/** Prints and installs the dependencies of these tiers. Prints the rows that could not be installed, and resolves to them. */
export async function installTestPackages(tiers) {
  const rows = PACKAGES.filter((row) => row.tiers.some((tier) => tiers.includes(tier)));
  const missing = rows.filter((row) => (row.debian === undefined || hasApt) && !isInstalled(row));
  for (const { npm, debian, purpose } of missing) print(`! ${debian ?? `test/${npm}`} is missing: it ${purpose}`);
  const npm = missing.filter((row) => row.npm !== undefined);
  await Promise.all([installDebianPackages(missing.filter((row) => row.debian)), ...npm.map(installNpmFolder)]);
  return missing.filter((row) => !isInstalled(row));
}

function isInstalled({ file, npm }) {
  return npm === undefined ? existsSync(file) : isSame(...lockFilesOf(npm));
}

/** Installs all of them with one command. */
async function installDebianPackages(rows) {
  if (rows.length === 0) return;
  const sudo = process.getuid() === 0 ? [] : ["sudo", "-n"];
  const install = [...sudo, ...APT, "install", "--no-install-recommends", ...rows.map((row) => row.debian)];
  const update = [...sudo, ...APT, "update"];
  let result;
  for (const command of [install, update, install]) {
    print(`  installing: ${command.join(" ")}`);
    result = await runCommand(command, { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } });
    if (command === install && result.status === 0) return print("✓ installed");
  }
  printFailure(install, result);
}

async function installNpmFolder(row) {
  const cwd = join(tests, row.npm);
  const [installed, lock] = lockFilesOf(row.npm);
  const command = ["npm", ...NPM, ...row.args, ...NPM_OUTPUT];
  print(`  installing: npm ci in test/${row.npm}`);
  const result = await runCommand(command, { cwd, shell: process.platform === "win32" });
  const hasProgram = () => readdirSync(cwd, { recursive: true }).some((path) => row.program?.test(path) ?? true);
  if (result.status === 0 && hasProgram()) return copyFileSync(lock, installed);
  rmSync(installed, { force: true });
  if (result.status === 0) result.stderr = `there is no program for ${process.platform} on ${process.arch}`;
  printFailure(["npm", "ci", `in test/${row.npm}`], result);
  print("  If the registry cannot be reached, set npm's registry (npm config set registry …) or HTTPS_PROXY.");
}

/** Returns the copy of the lock file that was installed, and the lock file: times of files say nothing after a checkout. */
function lockFilesOf(folder) {
  return [join(tests, folder, "node_modules/.installed-lock.json"), join(tests, folder, "package-lock.json")];
}

async function runCommand([file, ...args], options) {
  const child = spawn(file, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.on("close", resolve).on("error", resolve));
  const [stderr, status] = await Promise.all([text(child.stderr), ended]);
  return status instanceof Error ? { stderr: status.message } : { status, stderr };
}

function printFailure(command, { stderr }) {
  print(`✗ this failed, so its tests cannot run: ${command.join(" ")}`);
  for (const line of stderr.trim().split("\n").slice(-LAST_LINES)) print(`  │ ${line}`);
}

function print(line) {
  process.stderr.write(`${line}\n`);
}

function isSame(one, other) {
  try {
    return readFileSync(one, "utf8") === readFileSync(other, "utf8");
  } catch {
    return false;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tiers = process.argv.slice(2);
  process.exitCode = (await installTestPackages(tiers.length > 0 ? tiers : ["system"])).length === 0 ? 0 : 1;
}
