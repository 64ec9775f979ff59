// Installs the packages that only tests need, in their own folders, so that the project's installation stays small.
import { spawn } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const tests = join(dirname(fileURLToPath(import.meta.url)), "..", "test");

// Nothing of the packages is run while they are installed.
const INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
// Without a network, it fails at once and not after a minute.
const PRINTED = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"];

/** THE table of packages that only tests need. `tier` is the only one that installs them. */
const PACKAGES = [
  { tier: "system", folder: "mcp-clients", title: "a client of MCP", size: "30 MB", args: ["--omit=optional"] },
  // What only the Inspector's web page and key ring need is left out.
  {
    tier: "long",
    folder: "mcp-clients/suites",
    title: "large clients of MCP",
    size: "140 MB",
    args: ["--omit=optional"],
  },
  // Types alone need its peers. Its program is an optional package for each system, which npm leaves out silently.
  {
    tier: "long",
    folder: "claude",
    title: "the Claude Agent SDK",
    size: "380 MB",
    args: ["--legacy-peer-deps"],
    program: /^node_modules\/@anthropic-ai\/claude-agent-sdk-/,
  },
];

/** Installs the packages of these tiers, and prints each before. Resolves to false if one could not be installed, which is printed. */
export async function installPackages(tiers) {
  const wanted = PACKAGES.filter(({ tier }) => tiers.includes(tier));
  return (await Promise.all(wanted.map(installPackage))).every(Boolean);
}

async function installPackage({ folder, title, size, args, program }) {
  const cwd = join(tests, folder);
  const lock = join(cwd, "package-lock.json");
  // A copy of the lock that was installed: times of files say nothing after a checkout.
  const installed = join(cwd, "node_modules", ".installed-lock.json");
  if (isSame(installed, lock)) return true;
  console.log(`installing ${title} for the tests (once, about ${size}) …`);
  const { status, why } = await npm(cwd, [...INSTALL, ...args, ...PRINTED]);
  const hasProgram = () => readdirSync(cwd, { recursive: true }).some((path) => program?.test(path) ?? true);
  if (status === 0 && hasProgram()) {
    copyFileSync(lock, installed);
    return true;
  }
  rmSync(installed, { force: true });
  process.stderr.write(
    `${status === 0 ? `There is no program for ${process.platform} on ${process.arch}` : why}\n` +
      `✗ test/${folder}: npm could not install ${title}, so these tests cannot run (see above).\n` +
      "  If the registry cannot be reached: give npm a way to it (npm config set registry …, or HTTPS_PROXY).\n",
  );
  return false;
}

async function npm(cwd, args) {
  const child = spawn("npm", args, {
    cwd,
    stdio: ["ignore", "ignore", "pipe"],
    shell: process.platform === "win32",
  });
  const ended = new Promise((resolve) => child.on("close", resolve).on("error", resolve));
  const [why, status] = await Promise.all([text(child.stderr), ended]);
  return { status, why: status instanceof Error ? status : why };
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
  process.exitCode = (await installPackages(tiers.length > 0 ? tiers : ["system"])) ? 0 : 1;
}
