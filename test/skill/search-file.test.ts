import { fork } from "node:child_process";
import { chmodSync, existsSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { createSearchFileStore } from "../../src/store/json-store.ts";
import { temporaryFolder } from "../support/folder.ts";
import { WITH_BUILT } from "../support/program.ts";

const root = join(import.meta.dirname, "../..");

describe("the file of a search index", () => {
  it("[A-09] is readable by its user alone, as its folder is", () => {
    const folder = join(temporaryFolder(), "cache", "search");
    createSearchFileStore(folder, "a").save(Uint8Array.of(1, 2, 3));
    const [name = ""] = readdirSync(folder);
    expect([statSync(folder).mode & 0o777, statSync(join(folder, name)).mode & 0o777]).toEqual([0o700, 0o600]);
    expect(createSearchFileStore(folder, "a").load()).toEqual(Buffer.of(1, 2, 3));
    expect(createSearchFileStore(folder, "b").load()).toBeUndefined();
  });

  it("[A-09] can be unwritable, which is not an error", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "file"), "");
    const store = createSearchFileStore(join(folder, "file", "search"), "a");
    store.save(Uint8Array.of(1));
    expect(store.load()).toBeUndefined();
  });

  it("[A-09] is one of sixteen at most, and abandoned temporary files are deleted", () => {
    const folder = temporaryFolder();
    const old = new Date(Date.now() - 2 * 60 * 60 * 1000);
    for (let at = 0; at < 20; at++) {
      createSearchFileStore(folder, `key ${at}`).save(Uint8Array.of(at));
      for (const name of readdirSync(folder)) if (at < 10) utimesSync(join(folder, name), old, old);
    }
    const draft = join(folder, "x.search.123");
    writeFileSync(draft, "");
    utimesSync(draft, old, old);
    createSearchFileStore(folder, "last").save(Uint8Array.of(1));
    expect(existsSync(draft)).toBe(false);
    expect(readdirSync(folder)).toHaveLength(16);
    for (const key of ["last", "key 19", "key 10"]) expect(createSearchFileStore(folder, key).load()).toBeDefined();
  });

  it("[A-09] is complete at any time with several concurrent writers", async () => {
    const folder = temporaryFolder();
    const program = join(temporaryFolder(), "write.mjs");
    writeFileSync(
      program,
      `import { createSearchFileStore } from ${JSON.stringify(pathToFileURL(join(root, "src/store/json-store.ts")).href)};
      const store = createSearchFileStore(process.argv[2], "key");
      for (let time = 0; time < 40; time++) store.save(new Uint8Array(200_000).fill(Number(process.argv[3])));`,
    );
    const children = [1, 2, 3, 4].map((number) =>
      fork(program, [folder, String(number)], {
        execArgv: ["--no-warnings", ...WITH_BUILT],
        stdio: ["ignore", "ignore", "inherit", "ipc"],
      }),
    );
    let running = children.length;
    const codes = Promise.all(
      children.map(
        (child) =>
          new Promise((resolve) => {
            child.once("exit", (code) => {
              running--;
              resolve(code);
            });
          }),
      ),
    );
    const store = createSearchFileStore(folder, "key");
    let loads = 0;
    while (running > 0) {
      const bytes = store.load();
      if (bytes) {
        loads++;
        expect(bytes.length).toBe(200_000);
        expect(new Set(bytes).size).toBe(1);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await codes).toEqual([0, 0, 0, 0]);
    expect(loads).toBeGreaterThan(0);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it("[A-09] is not read when other users can write it", () => {
    const folder = temporaryFolder();
    const store = createSearchFileStore(folder, "a");
    store.save(Uint8Array.of(1));
    const file = join(folder, readdirSync(folder)[0] ?? "");
    chmodSync(file, 0o622);
    expect(store.load()).toBeUndefined();
  });
});
