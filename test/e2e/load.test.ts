import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../support/folder.ts";
import { API_KEY, MODEL, startModelServer } from "../support/model-server.ts";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** The built command, with its own home. */
function open() {
  const home = temporaryFolder();
  const { PATH } = process.env;
  const folder = join(home, "own", "cache", "compiled");
  const runWith = (env: NodeJS.ProcessEnv, ...args: string[]) =>
    spawnSync(process.execPath, [program, ...args], {
      cwd: home,
      encoding: "utf8",
      env: { PATH, HOME: home, SKILLET_HOME: join(home, "own"), ...env },
      timeout: 45_000,
    });
  const run = (...args: string[]) => runWith({}, ...args);
  const kept = (below = folder): string[] =>
    readdirSync(below, { recursive: true, withFileTypes: true, encoding: "utf8" })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  return { home, folder, run, runWith, kept };
}

describe("the compile cache", () => {
  it("is stored in the cache folder, used unchanged, and not written again", () => {
    const { run, kept } = open();
    const { stdout } = run("list");
    const before = kept().map((path) => [path, readFileSync(path)] as const);
    expect(before.length).toBeGreaterThan(2);
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(kept()).toEqual(before.map(([path]) => path));
    for (const [path, bytes] of before) expect(readFileSync(path).equals(bytes), path).toBe(true);
  });

  it("is not used when a byte of it is wrong or some are missing, and is replaced", () => {
    const { run, kept, folder } = open();
    const { stdout } = run("list");
    rmSync(folder, { recursive: true });
    run("list"); // The first start loads more, to build the index.
    const whole = kept().map((path) => [path, readFileSync(path)] as const);
    const damages = [
      (path: string, bytes: Buffer) => writeFileSync(path, Buffer.from(bytes).fill(0x55, bytes.length / 2)),
      (path: string, bytes: Buffer) => truncateSync(path, bytes.length - 100),
      (path: string) => truncateSync(path, 0),
    ];
    for (const damage of damages) {
      for (const [path, bytes] of whole) damage(path, bytes);
      expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
      for (const [path, bytes] of whole) {
        const found = readFileSync(path);
        expect(Math.abs(found.length - bytes.length), path).toBeLessThan(bytes.length / 100 + 64);
        expect(found.subarray(-64).equals(Buffer.alloc(64, 0x55)), path).toBe(false);
      }
    }
  });

  it("is in a folder that only its user can enter, whatever the umask", () => {
    const mask = process.umask(0);
    onTestFinished(() => void process.umask(mask));
    const { run, kept, folder } = open();
    expect(run("list").status).toBe(0);
    expect(kept().length).toBeGreaterThan(2);
    expect((statSync(folder).mode & 0o777).toString(8)).toBe("700");
  });

  it("is removed from a folder where others could write, and that folder is made private", () => {
    const { run, kept, folder } = open();
    const { stdout } = run("list");
    const planted = join(folder, "planted");
    writeFileSync(planted, "x");
    chmodSync(folder, 0o770);
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(existsSync(planted)).toBe(false);
    expect(statSync(folder).mode & 0o077).toBe(0);
    expect(kept().length).toBeGreaterThan(2);
  });

  it("is not stored behind a symlink or in place of a file", () => {
    const { home, run, folder } = open();
    const { stdout } = run("list");
    const elsewhere = join(home, "elsewhere");
    mkdirSync(elsewhere);
    rmSync(folder, { recursive: true });
    symlinkSync(elsewhere, folder);
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(readdirSync(elsewhere)).toEqual([]);
    rmSync(folder);
    writeFileSync(folder, "");
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(lstatSync(folder).isFile()).toBe(true);
  });

  it.runIf(process.getuid?.() === 0)("of another user is neither used nor written", () => {
    const { home, run, kept, folder } = open();
    const { stdout } = run("list");
    const files = kept();
    chmodSync(home, 0o755);
    const asOther = (env: NodeJS.ProcessEnv) =>
      spawnSync(process.execPath, [program, "list"], {
        cwd: "/",
        encoding: "utf8",
        env: { PATH: process.env["PATH"], ...env },
        ...{ uid: 54321, gid: 54321 },
      });
    expect(asOther({ HOME: home, SKILLET_HOME: join(home, "own") }).stderr).not.toMatch(/compiled|skillet\.cjs/);
    expect(kept()).toEqual(files);
    expect(statSync(folder).uid).toBe(0);
    expect(stdout).not.toBe("");
  });

  it("is stored in NODE_COMPILE_CACHE, and nowhere when Node disables it", () => {
    const { home, runWith, kept, folder } = open();
    const theirs = join(home, "theirs");
    expect(runWith({ NODE_COMPILE_CACHE: theirs }, "list")).toMatchObject({ status: 0, stderr: "" });
    expect([kept(theirs).length > 2, kept().length]).toEqual([true, 0]);
    expect(runWith({ NODE_DISABLE_COMPILE_CACHE: "1" }, "list")).toMatchObject({ status: 0, stderr: "" });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("is optional: a start works without a home, or with one that is a file", () => {
    const { home, run, runWith } = open();
    const { stdout } = run("list");
    writeFileSync(join(home, "file"), "");
    expect(runWith({ SKILLET_HOME: join(home, "file") }, "list").stderr).not.toMatch(/cache|at .*skillet\.cjs/);
    const asNobody = process.getuid?.() === 0 ? { uid: 54321, gid: 54321 } : {};
    const { PATH } = process.env;
    const options = { cwd: "/", encoding: "utf8", env: { PATH }, ...asNobody } as const;
    expect(spawnSync(process.execPath, [program, "list"], options)).toMatchObject({ status: 0, stderr: "" });
    expect(stdout).not.toBe("");
  });
});

describe("the bundled packages of the command", () => {
  it.each([
    ["anthropic", "anthropic"],
    ["openai", "responses"],
    ["openai-compatible", "openai"],
  ] as const)("reach a model of %s, also with the compile cache", async (provider, protocol) => {
    const turns = [() => [{ tool: "list_skills", input: {} }], () => "hello there"];
    const { url } = await startModelServer(protocol, [...turns, ...turns]);
    const home = temporaryFolder();
    const model = { provider, model: MODEL, api_key: API_KEY, base_url: url };
    const lines = Object.entries(model).map(([key, value]) => `${key} = "${value}"\n`);
    writeFileSync(join(home, "config.toml"), `[models.default]\n${lines.join("")}`, { mode: 0o600 });
    const { PATH } = process.env;
    for (const _ of ["compiled now", "compiled before"]) {
      const child = spawn(process.execPath, [program, "run", "--quiet", "code-review", "look"], {
        cwd: home,
        env: { PATH, HOME: home, SKILLET_HOME: home },
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
      expect({ stdout, stderr }).toEqual({ stdout: "hello there\n", stderr: "" });
    }
  });
});

describe("the loaded files of the command", () => {
  it("are few for `skillet list`: the entry, the modules of a start and the command", () => {
    const { run, runWith } = open();
    expect(run("list").status).toBe(0); // Builds the index.
    const trace = join(temporaryFolder(), "trace.cjs");
    writeFileSync(
      trace,
      `process.on("exit", () => console.error(Object.keys(require.cache).filter((file) => file.includes("/dist/cli/")).length));`,
    );
    expect(Number(runWith({ NODE_OPTIONS: `--require ${trace}` }, "list").stderr)).toBeLessThanOrEqual(5);
  });
});
