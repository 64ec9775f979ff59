import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "./attempt.mjs";
import { CLIENTS } from "./clients.mjs";
import { table } from "./seen.mjs";

const names = CLIENTS.map(({ name }) => name);
const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !names.includes(name));
if (unknown !== undefined) {
  console.error(`there is no client "${unknown}": ${names.join(", ")}`);
  process.exitCode = 2;
} else if (build() && install())
  process.exitCode = await run(CLIENTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name)));
else process.exitCode = 1;

async function run(clients) {
  const columns = [];
  for (const client of clients) {
    const head = `${client.name} ${installed(client)}`;
    console.error(`${head} …`);
    const seen = await attempt(client);
    tell(seen);
    columns.push({ head, seen });
  }
  const failed = columns.filter(({ seen }) => seen.problems.length > 0).length;
  console.log(`${table(columns)}\n${columns.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

/** The server is the one of this tree. Contract: false when there is none, which has been said. */
function build() {
  const { status } = spawnSync(process.execPath, [join(import.meta.dirname, "..", "build.mjs")], { stdio: "inherit" });
  return status === 0;
}

/** Contract: false when the clients could not be had, which npm has said. */
function install() {
  const { dependencies } = read("package.json");
  if (CLIENTS.every((client) => installed(client) === dependencies[client.package])) return true;
  console.error("installing the clients, about 1.2 GB …");
  const { status } = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: import.meta.dirname,
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
  });
  return status === 0;
}

function installed(client) {
  const path = join("node_modules", client.package, "package.json");
  return existsSync(join(import.meta.dirname, path)) ? read(path).version : undefined;
}

function read(path) {
  return JSON.parse(readFileSync(join(import.meta.dirname, path), "utf8"));
}

function tell({ problems, printed = "", folder }) {
  for (const problem of problems) console.error(`  ✗ ${problem}`);
  if (problems.length === 0) return;
  const lines = printed.trimEnd().split("\n").slice(-20);
  for (const line of lines) console.error(`    ${line.slice(0, 400)}`);
  console.error(`  its folder is left for you to look at: ${folder}`);
}
