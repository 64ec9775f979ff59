// Puts what the tests need of others in place: packages of their own, so that the project's installation stays small.
import { spawn } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const tests = join(dirname(fileURLToPath(import.meta.url)), "..", "test");

// Nothing of theirs is run while they are installed.
const INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
// Who is offline need not wait for a minute to hear of it.
const SAYING = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"];

const PACKAGES = {
  // What only the Inspector's web page and key ring need is left out.
  "mcp-clients": { what: "the MCP clients", size: "140 MB", args: ["--omit=optional"], isWhole: () => true },
  // Types alone need its peers. Its program is an optional package, one a system, which npm leaves out without a word.
  claude: {
    what: "the Claude Agent SDK",
    size: "380 MB",
    args: ["--legacy-peer-deps"],
    isWhole: (folder) =>
      readdirSync(join(folder, "node_modules", "@anthropic-ai")).some((name) => name.startsWith("claude-agent-sdk-")),
  },
};

/** Contract: gives false when they could not be installed, which has been said. */
export function installClients() {
  return install("mcp-clients");
}

/** Contract: gives false when it could not be installed, which has been said: its tests are skipped. */
export function installClaude() {
  return install("claude");
}

async function install(name) {
  const { what, size, args, isWhole } = PACKAGES[name];
  const folder = join(tests, name);
  const lock = join(folder, "package-lock.json");
  // A copy of what was installed: times of files say nothing after a checkout.
  const installed = join(folder, "node_modules", ".installed-lock.json");
  if (isSame(installed, lock)) return true;
  console.log(`installing ${what} for the tests (once, about ${size}) …`);
  const { status, why: said } = await npm(folder, [...INSTALL, ...args, ...SAYING]);
  if (status === 0 && isWhole(folder)) {
    copyFileSync(lock, installed);
    return true;
  }
  rmSync(installed, { force: true });
  const why = status === 0 ? `there is none for ${process.platform} on ${process.arch}` : said;
  process.stderr.write(
    `${why}\n✗ test/${name}: \`npm ci\` could not install ${what}, so their tests cannot run (see above).\n` +
      "  When the registry cannot be reached: give npm a way to it (npm config set registry …, or HTTPS_PROXY), and run `node tools/install-clients.mjs`.\n",
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
  process.exitCode = (await Promise.all([installClients(), installClaude()])).every(Boolean) ? 0 : 1;
}
