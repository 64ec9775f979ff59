import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";
import { temporaryFolder } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";

const root = join(import.meta.dirname, "..", "..");
const isRoot = process.getuid?.() === 0;

/** Keys of the user who runs the tests would enable a language model. */
const environment = (home: string) => ({ PATH: process.env["PATH"], HOME: home, OLLAMA_HOST: "127.0.0.1:1" });

function run(file: string, args: readonly string[], { cwd = root, home = temporaryFolder() } = {}) {
  const result = spawnSync(file, args, {
    cwd,
    env: environment(home),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  return { ...result, lines: `${result.stderr}${result.stdout}`.split("\n") };
}

const start = (...args: string[]) => run(process.execPath, [join(root, "tools/start.mjs"), ...args]);

/** The same on a machine with this replacement for bubblewrap, by an ordinary user. */
function startWith(instead: string) {
  const home = temporaryFolder();
  if (isRoot) chownSync(home, ORDINARY_USER, ORDINARY_USER);
  const hidden = ["/usr/bin/sudo"].filter(existsSync).flatMap((path) => ["--ro-bind", "/dev/null", path]);
  const around = ["--dev-bind", "/", "/", "--ro-bind", instead, findSystemProgram("bwrap") ?? "", ...hidden];
  const id = String(ORDINARY_USER);
  const drop = ["setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"];
  const as = isRoot ? ["--cap-add", "ALL", "--", ...drop] : ["--"];
  return run("bwrap", [...around, ...as, process.execPath, join(root, "tools/start.mjs")], { home });
}

/** The suggested next commands. */
const nextOf = (stdout: string) =>
  Array.from(stdout.matchAll(/^ {2}npx skillet (.+?) {2,}\S/gm), ([, line = ""]) => line);

const hasSandbox = findSystemProgram("bwrap") !== undefined || process.env["CI"] !== undefined;

describe.skipIf(!hasSandbox)("npm start", () => {
  it("shows the skills, uses one of them in the sandbox without a key, and names commands that work as typed", () => {
    const { status, stdout, stderr, lines } = run("npm", ["start"]);
    expect(status).toBe(0);
    expect(stdout).toContain("9 skills found");
    expect(stdout).toMatch(/^Memory {6}[\d.]+ of [\d.]+ GiB used/m);
    expect(stderr).toMatch(
      /^· host-report with runbook\n {2}host-report: bash sh .*\n✓ done \(.*, strong isolation\)\n$/,
    );
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const next = nextOf(stdout);
    expect(next).toEqual(expect.arrayContaining(['chat "is my disk full?"', "doctor"]));
    expect(next.length).toBeLessThanOrEqual(5);
    const place = { cwd: temporaryFolder(), home: temporaryFolder() };
    const program = `'${process.execPath}' '${join(root, "bin/skillet.cjs")}'`;
    expect(next.filter((line) => run("sh", ["-c", `${program} ${line}`], place).status !== 0)).toEqual([]);
  });

  it.each([
    ["is not installed and cannot be installed", "/dev/null", "✗ nothing was installed: "],
    ["does not work", "/bin/false", "✗ The sandbox failed its self-test"],
  ])("reports that bubblewrap %s, runs no code, and ends with what works", (_, instead, said) => {
    const { status, stdout, stderr } = startWith(instead);
    expect(status).toBe(0);
    expect(stderr).toContain(said);
    expect(stdout).toContain("9 skills found");
    expect(stdout).toContain("This machine has no sandbox for the code of skills, so no code was run.");
    expect(stdout).not.toContain("Memory ");
    expect(nextOf(stdout)).toEqual(expect.arrayContaining(["new my-skill", "doctor"]));
    expect(nextOf(stdout)).not.toContainEqual(expect.stringMatching(/^chat/));
  });
});

it.runIf(isRoot && hasSandbox)("uses a skill below a folder that only root can enter, such as root's home", () => {
  const cwd = join(temporaryFolder({ "skillet/README.md": "" }), "skillet");
  chmodSync(cwd, 0o755);
  const args = [join(root, "bin/skillet.cjs"), "run", "host-report", "--model", "runbook"];
  expect(run(process.execPath, args, { cwd })).toMatchObject({ status: 0, stdout: expect.stringContaining("Memory ") });
});

describe("npm start with arguments", () => {
  it("runs the program, with its output and exit code", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    expect(start("--version")).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: "" });
    expect(JSON.parse(start("list", "--json").stdout).skills).toHaveLength(9);
    expect(start("nonsense").status).toBe(2);
  });
});

it("npx does not build the project again before its first command", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const folder = temporaryFolder({
    "package.json": JSON.stringify({ name: "skillet", version: "0.0.0", bin: { skillet: "run.cjs" }, scripts }),
    "run.cjs": "#!/usr/bin/env node\nconsole.log('started');\n",
    "tools/build.mjs": readFileSync(join(root, "tools/build.mjs"), "utf8"),
    // It is imported, and not called when nothing is built.
    "node_modules/esbuild/package.json": '{ "name": "esbuild", "main": "index.js" }',
    "node_modules/esbuild/index.js": "exports.build = exports.transform = undefined;",
    "dist/cli/bin.cjs": "built",
  });
  expect(run("npx", ["skillet"], { cwd: folder })).toMatchObject({ status: 0, stdout: "started\n" });
  expect(readFileSync(join(folder, "dist/cli/bin.cjs"), "utf8")).toBe("built");
});
