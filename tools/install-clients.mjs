// Puts the clients of MCP that the tests serve to in place: a package of its own, so that the project's installation stays small.
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..", "test", "clients");
const lock = join(folder, "package-lock.json");
// A copy of what was installed: times of files say nothing after a checkout.
const installed = join(folder, "node_modules", ".installed-lock.json");

// Nothing of theirs is run while they are installed, and what only the Inspector's web page and key ring need is left out.
const INSTALL = ["ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--prefer-offline"];
// Who is offline need not wait for a minute to hear of it.
const SAYING = ["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"];

/** Contract: false when they could not be installed, which has been said. */
export function installClients() {
  if (isInstalled()) return true;
  console.log("installing the MCP clients for the tests (once, about 140 MB) …");
  const { status, stderr, error } = spawnSync("npm", [...INSTALL, ...SAYING], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "ignore", "pipe"],
    shell: process.platform === "win32",
  });
  if (status === 0) {
    copyFileSync(lock, installed);
    return true;
  }
  rmSync(installed, { force: true });
  process.stderr.write(`${stderr ?? error}\n`);
  process.stderr.write(
    "✗ test/clients: `npm ci` could not install the MCP clients, so their tests cannot run (see above).\n" +
      "  When the registry cannot be reached: give npm a way to it (npm config set registry …, or HTTPS_PROXY), and run `node tools/install-clients.mjs`.\n",
  );
  return false;
}

function isInstalled() {
  try {
    return readFileSync(installed, "utf8") === readFileSync(lock, "utf8");
  } catch {
    return false;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = installClients() ? 0 : 1;
