import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { readLayerLock } from "../../../src/sandbox/packages/apt.ts";
import { createHostProgramMounts } from "../../../src/sandbox/packages/apt-layer.ts";
import { createAptProgress, withBuilderLock } from "../../../src/sandbox/packages/apt-packages.ts";
import { resolveIdRange, runInRange } from "../../../src/sandbox/packages/id-range.ts";
import { findHostProcesses } from "../../../src/sandbox/probe-host.ts";
import { forEachLine, runProgram } from "../../../src/sandbox/process.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { moduleOf } from "../../support/program.ts";
import { canBuild } from "./place.ts";

const noneLeft = (mark: string) => expect.poll(() => findHostProcesses(mark)).toEqual([]);

describe.skipIf(!canBuild)("a program in a range of ids", () => {
  it("[Q-18] that cannot have its ids is an error at once, and no process of it survives", async () => {
    const mark = randomUUID();
    const range = { ...resolveIdRange(), uids: [[0, 0, 0]] as const };
    await expect(runInRange(createHostProgramMounts(), ["/bin/sleep", "60", mark], { range })).rejects.toMatchObject({
      code: "package-sandbox",
    });
    await noneLeft(mark);
  });

  it.each([0, 1, 2, 4, 8, 16, 32])("[Q-18] that is aborted after %s ms ends, with all its processes", async (ms) => {
    const mark = randomUUID();
    const signal = AbortSignal.timeout(ms);
    const argv = ["/bin/sh", "-c", "sleep 60", mark];
    await expect(
      runInRange(createHostProgramMounts(), argv, { range: resolveIdRange(), signal }),
    ).rejects.toMatchObject({
      code: "package-aborted",
    });
    await noneLeft(mark);
  });

  it("[Q-18] leaves no owner of the lock, whenever the waiting process is aborted", async () => {
    const place = join(temporaryFolder(), "packages");
    for (let ms = 0; ms < 12; ms++) {
      const signal = AbortSignal.timeout(ms);
      await withBuilderLock(place, { range: resolveIdRange, signal }, async () => {}).catch(() => {});
    }
    await noneLeft(place);
    expect(await withBuilderLock(place, { range: resolveIdRange }, async () => "built")).toBe("built");
  });
});

describe.skipIf(!canBuild)("a builder", () => {
  it("[Q-18] waits for a build of another process, also when that process is gone", async () => {
    const place = join(temporaryFolder(), "packages");
    const left = await withBuilderLock(place, { range: resolveIdRange }, async (turn) =>
      spawn("/bin/sleep", ["300"], { stdio: ["ignore", "ignore", "ignore", turn] }),
    );
    const events: string[] = [];
    left.on("exit", () => events.push("it ended"));
    const onWait = () => {
      events.push("waiting");
      left.kill();
    };
    await withBuilderLock(place, { range: resolveIdRange, onWait }, async () => {});
    await expect.poll(() => events).toEqual(["waiting", "it ended"]);
  });
});

describe("a system program", () => {
  it("ends when the process that started it ends, for any reason", async () => {
    const mark = randomUUID();
    const code = `import(${JSON.stringify(moduleOf("sandbox/process"))}).then(({ runProgram }) => runProgram("sh", ["-c", "echo up; sleep 60", ${JSON.stringify(mark)}], { onLine: console.log }))`;
    const host = spawn(process.execPath, ["--no-warnings", "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
    await once(host.stdout, "data");
    host.kill("SIGKILL");
    await noneLeft(mark);
  });

  it("ends with all its processes on abort", async () => {
    const mark = randomUUID();
    const controller = new AbortController();
    const running = runProgram("sh", ["-c", `sh -c 'echo up; sleep 60' ${mark} & wait`], {
      signal: controller.signal,
      onLine: () => controller.abort(),
    });
    await expect(running).rejects.toMatchObject({ code: "package-aborted" });
    await noneLeft(mark);
  });

  it("emits whole lines, however they arrive", async () => {
    const lines: string[] = [];
    const onLine = (line: string) => void lines.push(line);
    await runProgram("sh", ["-c", "printf 'Get:1 he'; sleep 0.1; printf 'llo\\n\\nlast'"], { onLine });
    expect(lines).toEqual(["Get:1 hello", "last"]);
    const stream = new PassThrough();
    forEachLine(stream, onLine);
    for (const piece of ["a\r", "\nb", "c\n"]) stream.write(piece);
    stream.end();
    await expect.poll(() => lines.slice(2)).toEqual(["a", "bc"]);
  });
});

describe("the progress of a build", () => {
  it.each([
    ["Get:1 http://deb.debian.org/debian bookworm/main amd64 hello amd64 2.10-3 [53.1 kB]", "fetching hello 2.10-3"],
    ["Get:12 http://a.example/ubuntu noble/universe amd64 cowsay all 3.03 [18 kB]", "fetching cowsay 3.03"],
    ["Get:1 file:/srv/debs ./ hello 2.10-3 [53.1 kB]", "fetching hello 2.10-3"],
    ["Get:1 https://flat.example/x  hello 2.10-3", "fetching hello 2.10-3"],
    ["Setting up libjq1:amd64 (1.6-2.1) ...", "setting up libjq1 1.6-2.1"],
  ])("names package and version of %j", (line, text) => {
    const said: string[] = [];
    createAptProgress((what) => said.push(what), "amd64")(line);
    expect(said).toEqual([text]);
  });

  it("ignores other lines", () => {
    const said: string[] = [];
    const read = createAptProgress((what) => said.push(what), "amd64");
    for (const line of ["Get:1 http://x", "Get:", "Reading package lists...", "Fetched 53.1 kB in 0s"]) read(line);
    expect(said).toEqual([]);
  });
});

describe("the lock file of a layer", () => {
  const lock = { kind: "layer", suite: "bookworm", arch: "amd64", base: "b", names: ["jq"], packages: [] };
  const folderOf = (value: unknown) => temporaryFolder({ "lock.json": JSON.stringify(value) });

  it("is parsed if it is valid, and otherwise undefined", () => {
    expect(readLayerLock(folderOf(lock))).toEqual(lock);
    const wrong = [{ names: "jq" }, { names: [1] }, { packages: [{ name: "jq" }] }, { packages: 1 }, { base: 1 }];
    for (const change of [...wrong, { kind: "host" }, { suite: undefined }])
      expect(readLayerLock(folderOf({ ...lock, ...change })), JSON.stringify(change)).toBeUndefined();
    for (const value of [null, 1, [], "x"]) expect(readLayerLock(folderOf(value))).toBeUndefined();
  });
});
