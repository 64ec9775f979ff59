import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { readSourceFolder } from "../../src/remote/fetch-source.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { ordinaryFolder } from "./clients/scene.ts";

describe("the entries of a folder", () => {
  it("are every file, folder and link in order, with its mode, size and bytes, to the last dot file", () => {
    const folder = temporaryFolder({ "b/run.sh": "#!/bin/sh\n", ".env": "A=1\n", "a.md": "" });
    mkdirSync(join(folder, "empty"));
    chmodSync(join(folder, "b/run.sh"), 0o4755);
    symlinkSync("../outside", join(folder, "b/link"));
    const seen = [...readSourceFolder(folder)].map(({ path, kind, mode, size, target, read }) => ({
      path,
      kind,
      size,
      ...(kind === "file" ? { mode: mode.toString(8), text: Buffer.from(read()).toString() } : { target }),
    }));
    expect(seen).toEqual([
      { path: ".env", kind: "file", size: 4, mode: "644", text: "A=1\n" },
      { path: "a.md", kind: "file", size: 0, mode: "644", text: "" },
      { path: "b", kind: "folder", size: 0, target: undefined },
      { path: "b/link", kind: "link", size: 0, target: "../outside" },
      { path: "b/run.sh", kind: "file", size: 10, mode: "4755", text: "#!/bin/sh\n" },
      { path: "empty", kind: "folder", size: 0, target: undefined },
    ]);
  });

  it("exclude version control at any depth, as a folder or a file", () => {
    const folder = temporaryFolder({
      ".git/config": "",
      "a/.hg/x": "",
      "b/.svn/x": "",
      "c/.git": "gitdir: /x",
      "d/x": "",
    });
    expect([...readSourceFolder(folder)].map(({ path }) => path)).toEqual(["a", "b", "c", "d", "d/x"]);
  });

  it("distinguish a socket from a file, and open none", async () => {
    const folder = temporaryFolder();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(folder, "socket"), resolve));
    onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
    expect([...readSourceFolder(folder)].map(({ path, kind }) => [path, kind])).toEqual([["socket", "other"]]);
  });

  it("contain no byte of a replacement of a file or folder", () => {
    const outside = temporaryFolder({ "a.txt": "secret", "x.txt": "secret" });
    const folder = temporaryFolder({ "a.txt": "public", "sub/x.txt": "public", "long.txt": "short" });
    const files = [...readSourceFolder(folder)].filter(({ kind }) => kind === "file");
    renameSync(join(folder, "a.txt"), join(folder, "was.txt"));
    symlinkSync(join(outside, "a.txt"), join(folder, "a.txt"));
    renameSync(join(folder, "sub"), join(folder, "was"));
    symlinkSync(outside, join(folder, "sub"));
    writeFileSync(join(folder, "long.txt"), "longer than it was");
    const [a, long, x] = files;
    expect(() => a?.read()).toThrow(expect.objectContaining({ code: "source-unreadable" }));
    expect(() => long?.read()).toThrow(expect.objectContaining({ code: "entry-size" }));
    expect(() => x?.read()).toThrow(expect.objectContaining({ code: "source-unreadable" }));
  });

  it("are an error with a whole sentence for an unreadable file", () => {
    const folder = ordinaryFolder();
    writeFiles(folder, { secret: "x" });
    chmodSync(join(folder, "secret"), 0);
    const [entry] = readSourceFolder(folder);
    // Root can read everything.
    process.seteuid?.(process.getuid?.() === 0 ? ORDINARY_USER : (process.getuid?.() ?? 0));
    onTestFinished(() => process.seteuid?.(process.getuid?.() ?? 0));
    expect(() => entry?.read()).toThrow(
      expect.objectContaining({ code: "source-unreadable", message: '"secret" cannot be read: permission denied' }),
    );
  });

  it("are an error with a code for a missing folder", () => {
    expect(() => [...readSourceFolder("/nowhere/at/all")]).toThrow(
      expect.objectContaining({ code: "source-unreadable" }),
    );
  });
});
