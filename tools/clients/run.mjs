import "../pinned-node.mjs";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// They import sources, which an older Node cannot.
const { measureAgent, measureTranscripts } = await import("./agents.mjs");
const { attempt } = await import("./attempt.mjs");
const { CLIENTS } = await import("./clients.mjs");
const { measureExports, SPECIAL } = await import("./exports.mjs");
const { measureFolders, UNTRIED } = await import("./folders.mjs");
const { writeFile } = await import("./home.mjs");
const { measureCopies, measureHook, problemsIn } = await import("./measure.mjs");
const { table } = await import("./seen.mjs");

/** Each part creates its own home folder, and ends every process that it starts. */
const PARTS = {
  seen: attempt,
  folders: async (client) => withDifferences(await measureFolders(client)),
  exports: measureExports,
  copies: measureCopies,
  hook: async (client) => {
    const measured = await measureHook(client);
    return { ...measured, problems: [...measured.problems, ...problemsIn(measured)] };
  },
  agent: measureAgent,
  transcripts: measureTranscripts,
};

const names = CLIENTS.map(({ name }) => name);
const isQuick = process.argv.includes("--quick");
const isRecorded = process.argv.includes("--record");
const wanted = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const unknown = wanted.find((name) => !names.includes(name));
if (unknown !== undefined) {
  console.error(`unknown client "${unknown}"; clients: ${names.join(", ")}`);
  process.exitCode = 2;
} else if (build() && install())
  process.exitCode = await run(CLIENTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name)));
else process.exitCode = 1;

async function run(clients) {
  const columns = [];
  for (const client of clients) {
    const head = `${client.name} ${installed(client)}`;
    const column = { head };
    for (const [part, work] of Object.entries(isQuick ? { seen: attempt } : PARTS)) {
      console.error(`${head}: ${part} …`);
      column[part] = await work(client).catch((error) => ({ problems: [error.message] }));
      tell(column[part]);
    }
    columns.push(column);
    if (isRecorded) record(client, column);
  }
  const failed = columns.filter((column) =>
    Object.keys(PARTS).some((part) => column[part]?.problems.length > 0),
  ).length;
  console.log(table(columns));
  if (!isQuick) for (const [what, why] of Object.entries(UNTRIED)) console.log(`not tested: ${what}: ${why}`);
  console.log(`${columns.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

/** Records the relevant parts of the captured requests for the tests of the gate. */
function record(client, { folders, exports, hook, transcripts }) {
  const { prompt, name, raw } = hook.byHook[0] ?? {};
  const value = {
    client: client.name,
    version: installed(client),
    folders: Object.fromEntries(folders.rows.map(({ id, isRead }) => [id, isRead])),
    exported: SPECIAL,
    listing: exports.lines,
    hook: { prompt, skill: name, part: raw },
  };
  const folder = join(import.meta.dirname, "..", "..", "test", "fixtures", "clients");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${client.name}.json`), `${JSON.stringify(value, null, 2)}\n`);
  for (const [at, text] of (transcripts.files ?? []).entries())
    writeFile(join(folder, "transcripts", `${client.name}-${at + 1}.jsonl`), text);
}

function withDifferences({ rows, problems }) {
  const wrong = rows.filter(({ isRead, isExpected }) => isRead !== isExpected);
  return {
    rows,
    problems: [...problems, ...wrong.map(({ folder, isRead }) => `it ${isRead ? "reads" : "does not read"} ${folder}`)],
  };
}

/** Builds the server of this tree. Contract: returns false if that fails, after the build printed the error. */
function build() {
  const { status } = spawnSync(process.execPath, [join(import.meta.dirname, "..", "build.mjs")], { stdio: "inherit" });
  return status === 0;
}

/** Installs the clients. Contract: returns false if that fails, after npm printed the error. */
function install() {
  const { dependencies } = read("package.json");
  if (CLIENTS.every((client) => installed(client) === dependencies[client.package])) return true;
  console.error("installing the clients, about 1.5 GB …");
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
  for (const line of lines.filter(Boolean)) console.error(`    ${line.slice(0, 400)}`);
  if (folder !== undefined) console.error(`  its folder is left for you to look at: ${folder}`);
}
