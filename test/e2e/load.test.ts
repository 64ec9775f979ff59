import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../support/folder.ts";
import { API_KEY, MODEL, modelServer } from "../support/model-server.ts";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** The command as it is built, in a home of its own. */
function open() {
  const home = temporaryFolder();
  const { PATH } = process.env;
  const folder = join(home, "own", "cache", "compiled");
  const runWith = (env: NodeJS.ProcessEnv, ...args: string[]) =>
    spawnSync(process.execPath, [program, ...args], {
      cwd: home,
      encoding: "utf8",
      env: { PATH, HOME: home, SKILLET_HOME: join(home, "own"), ...env },
      timeout: 10_000,
    });
  const run = (...args: string[]) => runWith({}, ...args);
  const kept = (below = folder): string[] =>
    readdirSync(below, { recursive: true, encoding: "utf8" })
      .filter((path) => path.includes("-start-"))
      .map((path) => join(below, path));
  return { home, folder, run, runWith, kept };
}

describe("what V8 compiled", () => {
  it("is kept for a command that succeeded, and for no other", () => {
    const { run, kept } = open();
    expect(run("list")).toMatchObject({ status: 0, stderr: "" });
    expect(run("nonsense").status).toBe(2);
    expect(run("show", "nonsense").status).not.toBe(0);
    expect(kept()).toEqual([expect.stringMatching(/-start-list$/)]);
  });

  it("is used as it is, and not written again", () => {
    const { run, kept } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    const before = readFileSync(path);
    expect(run("list")).toMatchObject({ status: 0, stdout });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("is made anew for a Node with other options of V8", () => {
    const { runWith, kept } = open();
    const { stdout } = runWith({}, "list");
    const [path = ""] = kept();
    const before = readFileSync(path);
    expect(runWith({ NODE_OPTIONS: "--stack-trace-limit=50" }, "list")).toMatchObject({
      status: 0,
      stdout,
      stderr: "",
    });
    expect(readFileSync(path).equals(before)).toBe(false);
    expect(runWith({}, "list")).toMatchObject({ status: 0, stdout, stderr: "" });
  });

  it("is not believed when a byte of it is wrong or some are missing, and is made anew", () => {
    const { run, kept } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    const length = readFileSync(path).length;
    const damages = [
      () => {
        const bytes = readFileSync(path);
        bytes.fill(0x55, length / 4, length / 4 + 64);
        writeFileSync(path, bytes);
      },
      () => truncateSync(path, length - 100),
      () => truncateSync(path, 0),
    ];
    for (const damage of damages) {
      damage();
      expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
      const bytes = readFileSync(path);
      expect(bytes.subarray(0, bytes.length / 2).equals(bytes.subarray(bytes.length / 2))).toBe(true);
      expect(bytes.length).toBeGreaterThan(length / 2);
    }
  });

  it("is for its user alone, whatever the mask", () => {
    const mask = process.umask(0);
    onTestFinished(() => void process.umask(mask));
    const { run, kept, folder } = open();
    expect(run("list").status).toBe(0);
    const [path = ""] = kept();
    expect(dirname(dirname(path))).toBe(folder);
    expect(basename(dirname(path))).toContain(process.version);
    const modes = [folder, dirname(path), path].map((each) => (statSync(each).mode & 0o777).toString(8));
    expect(modes).toEqual(["700", "700", "600"]);
  });

  it("is not believed where others can write, and is made anew", () => {
    const { run, kept, folder } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    for (const [which, loose] of [
      [path, 0o620],
      [folder, 0o770],
    ] as const) {
      chmodSync(which, loose);
      const { birthtimeNs } = statSync(path, { bigint: true }); // The number of a file may be used again.
      expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
      expect(statSync(path, { bigint: true }).birthtimeNs).not.toBe(birthtimeNs);
      expect(statSync(which).mode & 0o022).toBe(0);
    }
    const { ino } = statSync(path);
    chmodSync(dirname(path), 0o770);
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(statSync(path).ino).toBe(ino);
    expect(kept()).toEqual([path]);
  });

  it("is neither waited for nor followed when it is no file", () => {
    const { home, run, kept, folder } = open();
    const { stdout } = run("list");
    const [path = ""] = kept();
    const elsewhere = join(home, "elsewhere");
    renameSync(path, elsewhere);
    for (const put of [() => execFileSync("mkfifo", [path]), () => symlinkSync(elsewhere, path)]) {
      put();
      expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
      expect(lstatSync(path).isFile()).toBe(true);
      rmSync(path);
    }
    rmSync(folder, { recursive: true });
    symlinkSync(home, folder);
    expect(run("list")).toMatchObject({ status: 0, stdout, stderr: "" });
    expect(kept()).toEqual([]);
  });

  it("is not kept where Node was told to keep what it compiles", () => {
    const { home, runWith, kept } = open();
    const theirs = join(home, "theirs");
    expect(runWith({ NODE_COMPILE_CACHE: theirs }, "list")).toMatchObject({ status: 0, stderr: "" });
    expect([kept(theirs).length, kept().length]).toEqual([0, 1]);
  });

  it("is removed when another build keeps its own, and nothing else is", () => {
    const { run, kept } = open();
    expect(run("list").status).toBe(0);
    const [path = ""] = kept();
    const beside = (name: string) => join(dirname(path), name);
    const outdated = ["0123456789ab-start-list", "0123456789ab-shared-3TRBOBQY-any", "0123456789ab-yaml-any.77"];
    const others = ["0123456789ab", "0123456789ab-notes.txt", "notes-start-list", `${basename(path)}.77`];
    for (const name of [...outdated, ...others]) writeFileSync(beside(name), "");
    rmSync(path);
    expect(run("list").status).toBe(0);
    expect(outdated.filter((name) => existsSync(beside(name)))).toEqual([]);
    expect(others.filter((name) => existsSync(beside(name)))).toEqual(others);
    expect(existsSync(path)).toBe(true);
  });

  it("is not needed: a start without a home, or with one that is a file, is a start", () => {
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

describe("the packages that the command is built with", () => {
  it.each([
    ["anthropic", "anthropic"],
    ["openai", "responses"],
    ["openai-compatible", "openai"],
  ] as const)("reach a model of %s, with what was compiled before too", async (provider, protocol) => {
    const turns = [() => [{ tool: "list_skills", input: {} }], () => "hello there"];
    const { url } = await modelServer(protocol, [...turns, ...turns]);
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

describe("the files of the command", () => {
  it("hold nothing but ASCII, so that what is written in another script reads as it was written", () => {
    const { run } = open();
    const dist = join(dirname(dirname(program)), "dist");
    const files = readdirSync(dist).filter((name) => name.endsWith(".cjs"));
    expect(files.length).toBeGreaterThan(5);
    for (const name of files)
      expect(
        readFileSync(join(dist, name)).every((byte) => byte < 0x80),
        name,
      ).toBe(true);
    expect(run().stdout).toContain('skillet chat "…"');
  });
});
