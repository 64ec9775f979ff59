import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { replaceFile, withFileLock } from "../../src/store/locked-file.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { waitFor } from "../support/wait-for.ts";

const module = JSON.stringify(moduleOf("store/locked-file"));
const uuid = "00000000-0000-4000-8000-000000000000";
const host = encodeURIComponent(hostname());

/** Another process that takes the lock, then does this with `file`. */
function other(file: string, work: string): ChildProcess {
  const program = `
const fs = await import("node:fs");
const { withFileLock } = await import(${module});
const file = process.argv[1];
const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
withFileLock(file, () => { ${work} });`;
  const args = ["--no-warnings", "--input-type=module", "-e", program, file];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** A clock by which each pause between two checks of a lock takes 10 ms, and the number of pauses. */
function countedPauses() {
  let pauses = 0;
  return { now: () => pauses * 10, pause: () => void pauses++, count: () => pauses };
}

describe("a file lock", () => {
  it("is not taken from a live process, whatever the clock of its folder says", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "x.json");
    const until = "while (!fs.existsSync(file + '.waited')) sleep(5)";
    const child = other(file, `fs.writeFileSync(file + ".here", ""); ${until}; fs.writeFileSync(file, "child");`);
    await waitFor(() => existsSync(`${file}.here`));
    const hourAgo = new Date(Date.now() - 3_600_000);
    utimesSync(`${file}.lock`, hourAgo, hourAgo);
    // It waits longer than for any stale lock; the rest is the child's time.
    const { now, pause, count } = countedPauses();
    const waiting = {
      now: () => Math.min(now(), 5000),
      pause() {
        pause();
        if (count() === 500) writeFileSync(`${file}.waited`, "");
        if (count() > 500) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
      },
    };
    expect(withFileLock(file, () => readFileSync(file, "utf8"), waiting)).toBe("child");
    await (child.exitCode === null ? once(child, "exit") : undefined);
    expect(readdirSync(folder).sort()).toEqual(["x.json", "x.json.here", "x.json.waited"]);
  });

  it("is taken from a killed process, soon and not at once", async () => {
    const file = join(temporaryFolder(), "x.json");
    const child = other(file, `fs.writeFileSync(file + ".here", ""); sleep(60000);`);
    await waitFor(() => existsSync(`${file}.here`));
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(readdirSync(`${file}.lock`)).toEqual([expect.stringMatching(new RegExp(`^${child.pid}\\.`))]);
    const pauses = countedPauses();
    withFileLock(file, () => {}, pauses);
    expect(pauses.count(), "a quarter of a second").toBe(27);
    expect(existsSync(`${file}.lock`)).toBe(false);
  });

  it.each([
    ["an empty one", []],
    ["one of another machine", [`1.${uuid}@elsewhere`]],
  ])("is taken after a while without a known owner: %s", (_, names) => {
    const file = join(temporaryFolder(), "x.json");
    mkdirSync(`${file}.lock`);
    for (const name of names) writeFileSync(join(`${file}.lock`, name), "");
    const future = new Date(Date.now() + 3_600_000);
    utimesSync(`${file}.lock`, future, future);
    const pauses = countedPauses();
    withFileLock(file, () => {}, pauses);
    expect(pauses.count(), "two seconds").toBe(202);
  });

  it("is awaited no longer than ten seconds, and the error names it and its owner", () => {
    const file = join(temporaryFolder(), "x.json");
    mkdirSync(`${file}.lock`);
    writeFileSync(join(`${file}.lock`, `${process.pid}.${uuid}@${host}`), "");
    const pauses = countedPauses();
    expect(() => withFileLock(file, () => expect.unreachable(), pauses)).toThrow(
      expect.objectContaining({
        code: "locked",
        message: `${file}.lock has been held by process ${process.pid} for 10 seconds, so nothing was written`,
        fix: expect.stringContaining("remove the lock"),
      }),
    );
    expect(pauses.count()).toBe(1001);
    expect(readdirSync(`${file}.lock`), "it belongs to another process").toHaveLength(1);
  });

  it("is released only by its owner", () => {
    const file = join(temporaryFolder(), "x.json");
    const another = `1.${uuid}@elsewhere`;
    withFileLock(file, () => writeFileSync(join(`${file}.lock`, another), ""));
    expect(readdirSync(`${file}.lock`)).toEqual([another]);
  });

  it("is released when the work fails", () => {
    const file = join(temporaryFolder(), "x.json");
    const fail = () => {
      throw new Error("no");
    };
    expect(() => withFileLock(file, fail)).toThrow("no");
    expect(existsSync(`${file}.lock`)).toBe(false);
  });

  it("is never held by two processes, also when many find a stale one", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "count");
    writeFileSync(file, "0");
    mkdirSync(`${file}.lock`);
    const add = "fs.writeFileSync(file, String(Number(fs.readFileSync(file, 'utf8')) + 1));";
    const all = Array.from({ length: 10 }, () => once(other(file, `sleep(1); ${add}`), "exit"));
    expect((await Promise.all(all)).map(([code]) => code)).toEqual(Array(10).fill(0));
    expect(readFileSync(file, "utf8")).toBe("10");
    expect(readdirSync(folder)).toEqual(["count"]);
  });

  it.each(["home", "home/deeper"])("cannot exist with a file in place of a parent folder: %s", (path) => {
    const folder = join(temporaryFolder({ home: "" }), path);
    const work = () => withFileLock(join(folder, "x.json"), () => expect.unreachable());
    expect(work).toThrow(
      expect.objectContaining({
        code: "unwritable",
        message: expect.stringContaining(`The folder ${folder} cannot be created`),
      }),
    );
  });
});

describe("a file that is replaced", () => {
  it("[Q-22] has the requested mode, whatever leftovers are next to it", () => {
    const folder = temporaryFolder();
    const file = join(folder, "config.toml");
    writeFileSync(`${file}.${process.pid}`, "half", { mode: 0o644 });
    for (const mode of [0o600, 0o644, 0o666]) {
      replaceFile(file, "secret", mode);
      expect(statSync(file).mode & 0o777).toBe(mode);
    }
    expect(readFileSync(`${file}.${process.pid}`, "utf8")).toBe("half");
  });

  it.skipIf(process.getuid?.() !== 0)("keeps its owner when root replaces it", () => {
    const file = join(temporaryFolder({ "config.json": "{}" }), "config.json");
    chownSync(file, 12345, 12346);
    replaceFile(file, "{ }", 0o600);
    expect(statSync(file)).toMatchObject({ uid: 12345, gid: 12346, mode: 0o100600 });
  });

  it("leaves no temporary file when it cannot be put in place", () => {
    const folder = temporaryFolder({ "config.toml/x": "" });
    expect(() => replaceFile(join(folder, "config.toml"), "secret")).toThrow(
      expect.objectContaining({ code: "unwritable" }),
    );
    expect(readdirSync(folder)).toEqual(["config.toml"]);
  });

  it("is at the target of its links, also if it does not exist yet; a loop has no target", () => {
    const folder = temporaryFolder({ "dots/readme": "" });
    const file = join(folder, "config.toml");
    symlinkSync("dots/first", file);
    symlinkSync("../real/second", join(folder, "dots/first"));
    replaceFile(file, "text");
    expect(readFileSync(join(folder, "real/second"), "utf8")).toBe("text");
    expect(statSync(file).ino).toBe(statSync(join(folder, "real/second")).ino);
    symlinkSync("loop", join(folder, "loop"));
    expect(() => replaceFile(join(folder, "loop"), "text")).toThrow(expect.objectContaining({ code: "unwritable" }));
  });
});
