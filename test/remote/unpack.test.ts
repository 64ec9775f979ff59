import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { extractEntries } from "../../src/remote/extract.ts";
import type { SourceEntry } from "../../src/remote/remote-source.ts";
import { temporaryFolder } from "../support/folder.ts";
import { filesBelow, type Passed, unpackThroughGate } from "../support/gate.ts";

function file(path: string, text = "x", more: Partial<SourceEntry> = {}): SourceEntry {
  const bytes = Buffer.from(text);
  return { path, kind: "file", mode: 0o644, size: bytes.length, read: () => bytes, ...more };
}

function folder(path: string): SourceEntry {
  return { path, kind: "folder", mode: 0o755, size: 0, read: () => new Uint8Array() };
}

function link(path: string, target: string): SourceEntry {
  return { path, kind: "link", mode: 0o777, size: 0, target, read: () => new Uint8Array() };
}

async function passed(...entries: SourceEntry[]): Promise<Passed> {
  const outcome = await unpackThroughGate(() => entries);
  if (outcome instanceof Error) throw outcome;
  return outcome;
}

describe("written content", () => {
  it("[Q-12] is files and folders, with the execute bit and no other mode", async () => {
    const { to, notes, files, bytes } = await passed(
      folder("./"),
      folder("./a/"),
      file("./a/SKILL.md", "hello", { mode: 0o600 }),
      file("a/scripts/run.sh", "#!/bin/sh\n", { mode: 0o700 }),
      file("a/open", "", { mode: 0o666 }),
      file("a/other", "", { mode: 0o001 }),
      folder("b"),
    );
    expect(filesBelow(to)).toEqual({
      "a/": "",
      "a/SKILL.md": "644 hello",
      "a/scripts/": "",
      "a/scripts/run.sh": "755 #!/bin/sh\n",
      "a/open": "644 ",
      "a/other": "755 ",
      "b/": "",
    });
    expect({ notes, files, bytes }).toEqual({ notes: [], files: 4, bytes: 15 });
  });

  it("[Q-12] has the same modes for any umask", async () => {
    const before = process.umask(0o177);
    try {
      const { to } = await passed(file("run", "x", { mode: 0o755 }), file("text"));
      expect(filesBelow(to)).toEqual({ run: "755 x", text: "644 x" });
    } finally {
      process.umask(before);
    }
  });

  it("[Q-12] never has set-user-ID bits, and that is reported", async () => {
    const paths = ["a", "b", "c", "d", "e", "f", "g\u00e4"];
    const { to, notes } = await passed(...paths.map((path) => file(path, "x", { mode: 0o6755 })), file("h"));
    expect(Object.values(filesBelow(to))).toEqual([...paths.map(() => "755 x"), "644 x"]);
    expect(notes).toEqual([
      '7 files had a setuid or setgid bit, which was removed: "a", "b", "c", "d", "e", and 2 more',
    ]);
  });

  it("[Q-12] excludes links, which are only reported", async () => {
    const { to, links } = await passed(file("a"), link("out", "/etc/passwd"), link("d/in", "../a"));
    expect(filesBelow(to)).toEqual({ a: "644 x", "d/": "" });
    expect([...links]).toEqual([
      ["out", "/etc/passwd"],
      ["d/in", "../a"],
    ]);
  });

  it("[Q-12] can have names in any language", async () => {
    const names = [
      "Übung.md",
      "読み.md",
      "👩‍🔬.md",
      "می‌خواهم",
      ".gitignore",
      ".github/x",
      "git.md",
      "a b",
      "con-text",
      "~",
      "-rf",
      "__proto__",
    ];
    const { to } = await passed(...names.map((name) => file(name)));
    expect(
      Object.keys(filesBelow(to))
        .filter((path) => !path.endsWith("/"))
        .sort(),
    ).toEqual(names.toSorted());
  });

  it("[Q-12] comes from any source of entries", async () => {
    async function* entries() {
      yield file("a");
      await new Promise(setImmediate);
      yield file("b");
    }
    const outcome = await unpackThroughGate(entries);
    expect(outcome).toMatchObject({ files: 2 });
  });
});

describe("a source that is not written", () => {
  it("[Q-12] has a file with more or fewer bytes than stated", async () => {
    for (const size of [0, 2]) {
      expect(await unpackThroughGate(() => [file("a", "x", { size })])).toMatchObject({ code: "entry-size" });
    }
  });

  it("[Q-12] has a path that no skill can contain, also if the file alone would be refused", async () => {
    const deep = "d/".repeat(40);
    const odd = [
      `x//${deep}f`,
      `x/../y/${deep}f`,
      `x/./${deep}f`,
      "x//a:b",
      "a:b/../x/f",
      "x/con/../f",
      `././/x/${deep}f`,
    ];
    for (const path of odd) {
      const unpacking = extractEntries([file("x/SKILL.md"), file(path)], { to: temporaryFolder(), skipRefused: true });
      await expect(unpacking, path).rejects.toMatchObject({
        code: expect.stringMatching(/^entry-(?:empty|traversal|absolute)$/),
      });
    }
    const { refused } = await extractEntries([file("x/SKILL.md"), file(`x/${deep}f`)], {
      to: temporaryFolder(),
      skipRefused: true,
    });
    expect([...refused.keys()]).toEqual([`x/${deep}f`]);
  });

  it("[Q-12] has a name with half a character", async () => {
    expect(await unpackThroughGate(() => [file("a\ud800")])).toMatchObject({ code: "entry-encoding" });
  });

  it("[Q-12] has a file that is too large, which is not even read", async () => {
    const read = () => {
      throw new Error("it was read");
    };
    expect(await unpackThroughGate(() => [file("a", "", { size: 2 ** 40, read })])).toMatchObject({
      code: "entry-too-large",
    });
  });

  it("[Q-12] would replace existing files, or write through a link", async () => {
    const elsewhere = temporaryFolder({ file: "as it was" });
    const to = temporaryFolder({ there: "as it was" });
    symlinkSync(elsewhere, `${to}/link`);
    symlinkSync(`${elsewhere}/file`, `${to}/file`);
    for (const path of ["there", "link/new", "file"]) {
      await expect(extractEntries([file(path)], { to })).rejects.toMatchObject({ code: "entry-unwritable" });
    }
    expect(filesBelow(elsewhere)).toEqual({ file: "644 as it was" });
    expect(filesBelow(to)).toMatchObject({ there: "644 as it was" });
  });

  it("[Q-12] meets a full disk, which is reported", async () => {
    const to = `${temporaryFolder()}/gone`;
    await expect(extractEntries([file("a")], { to })).rejects.toMatchObject({
      code: "entry-unwritable",
      message: '"a" cannot be written: no such file or directory',
    });
    mkdirSync(to);
    chmodSync(to, 0o700);
    await expect(extractEntries([file("a")], { to })).resolves.toMatchObject({ files: 1 });
  });

  it("[Q-12] was aborted", async () => {
    const stop = new AbortController();
    let given = 0;
    function* entries() {
      for (; given < 100_000; given++) yield folder("./");
    }
    setImmediate(() => stop.abort());
    await expect(extractEntries(entries(), { to: temporaryFolder(), signal: stop.signal })).rejects.toThrow("aborted");
    expect(given).toBeLessThan(2000);
  });
});
