import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mergeTrees, resolveMergeConflicts, toLockedFiles } from "../../src/remote/file-tree.ts";
import type { CopiedFile } from "../../src/skill/source/skill-copy.ts";

type Sketch = Record<string, string | Uint8Array | { run: string }>;

const tree = (files: Sketch): Map<string, CopiedFile> =>
  new Map(
    Object.entries(files).map(([path, content]) => {
      const executable = typeof content === "object" && "run" in content;
      return [path, { bytes: Buffer.from(executable ? content.run : content), executable }];
    }),
  );
const texts = (files: ReadonlyMap<string, CopiedFile>) =>
  Object.fromEntries(
    [...files].map(([path, { bytes, executable }]) => {
      const text = Buffer.from(bytes).toString("utf8");
      return [path, executable ? { run: text } : text];
    }),
  );
const merge = (base: Sketch | undefined, ours: Sketch, theirs: Sketch) =>
  mergeTrees({ base: base && tree(base), ours: tree(ours), theirs: tree(theirs) });
const whys = ({ conflicts }: ReturnType<typeof mergeTrees>) => conflicts.map(({ path, reason }) => [path, reason]);

const TEN = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

describe("mergeTrees", () => {
  it("keeps local changes, additions and removals, and takes the remote ones", () => {
    const base = { a: "a", b: "b", "gone-here": "x", "gone-there": "y", "gone-both": "z", same: "s" };
    const ours = { a: "mine", b: "b", "gone-there": "y", new: "mine", same: "s" };
    const theirs = { a: "a", b: "theirs", "gone-here": "x", newer: "theirs", same: "s" };
    const merged = merge(base, ours, theirs);
    expect(texts(merged.files)).toEqual({ a: "mine", b: "theirs", new: "mine", newer: "theirs", same: "s" });
    expect(merged).toMatchObject({
      kept: ["a", "gone-here", "new"],
      taken: ["b", "newer"],
      merged: [],
      removed: ["gone-there"],
      conflicts: [],
    });
  });

  it("merges a text that both sides changed", () => {
    const merged = merge({ f: TEN }, { f: TEN.replace("2", "two") }, { f: TEN.replace("9", "nine") });
    expect(texts(merged.files)).toEqual({ f: TEN.replace("2", "two").replace("9", "nine") });
    expect(merged).toMatchObject({ merged: ["f"], kept: [], taken: [], conflicts: [] });
  });

  it("lets one side make a file executable, and the other change it", () => {
    const merged = merge({ f: TEN }, { f: { run: TEN } }, { f: TEN.replace("9", "nine") });
    expect(texts(merged.files)).toEqual({ f: { run: TEN.replace("9", "nine") } });
    expect(merged.merged).toEqual(["f"]);
    expect(texts(merge({ f: { run: TEN } }, { f: TEN }, { f: { run: `${TEN}11\n` } }).files)).toEqual({
      f: `${TEN}11\n`,
    });
  });

  it("lets sides edit adjacent keys of the frontmatter, and only those", () => {
    const skill = (description: string, version: string, body = "Do it.\nThen stop.") =>
      `---\nname: deploy\ndescription: ${description}\nversion: ${version}\n---\n\n${body}\n`;
    const base = { "SKILL.md": skill("Deploys.", "1.0.0") };
    const merged = merge(base, { "SKILL.md": skill("Ships.", "1.0.0") }, { "SKILL.md": skill("Deploys.", "1.1.0") });
    expect(texts(merged.files)).toEqual({ "SKILL.md": skill("Ships.", "1.1.0") });
    const added = skill("Deploys.", "1.0.0").replace("version", "license: MIT\nversion");
    expect(texts(merge(base, { "SKILL.md": skill("Ships.", "1.0.0") }, { "SKILL.md": added }).files)).toEqual({
      "SKILL.md": skill("Ships.", "1.0.0").replace("version", "license: MIT\nversion"),
    });
    const [first, second] = [
      skill("Deploys.", "1.0.0", "Do this.\nThen stop."),
      skill("Deploys.", "1.0.0", "Do it.\nStop."),
    ];
    expect(whys(merge(base, { "SKILL.md": first }, { "SKILL.md": second }))).toEqual([["SKILL.md", "both-changed"]]);
  });

  it("moves no list item to another key, and treats adjacent edits in one value as a conflict", () => {
    const skill = (keys: string) => ({ "SKILL.md": `---\nname: x\ndescription: Does x.\n${keys}---\n\nDo it.\n` });
    const [packages, asks] = ["packages:\n  - curl\n", "capabilities:\n  - mail.send\n"];
    const base = skill(packages + asks);
    const cut = merge(base, skill(packages), skill(`${packages}${asks}  - evil\n`));
    expect(whys(cut)).toEqual([["SKILL.md", "both-changed"]]);
    const renamed = merge(base, skill(`${packages}tools:\n  - mail.send\n`), skill(`${packages}${asks}  - evil\n`));
    expect(whys(renamed)).toEqual([["SKILL.md", "both-changed"]]);
    const both = merge(base, skill(`packages:\n  - curl\n  - jq\n${asks}`), skill(`${packages}version: 2\n${asks}`));
    expect(whys(both), "the order of the sides is unknown").toEqual([["SKILL.md", "both-changed"]]);
    const apart = merge(base, skill(`packages:\n  - curl\n  - jq\n${asks}`), skill(`${packages}capabilities: []\n`));
    expect(texts(apart.files)).toEqual(skill("packages:\n  - curl\n  - jq\ncapabilities: []\n"));
    const folded = (first: string, second: string) => skill(`long: >\n  ${first}\n  ${second}\n`);
    const lines = merge(folded("one", "two"), folded("ONE", "two"), folded("one", "TWO"));
    expect(whys(lines)).toEqual([["SKILL.md", "both-changed"]]);
  });

  it("describes each conflict, shows it, and keeps the local version", () => {
    const base = { both: TEN, here: "1\n", there: "1\n", binary: Buffer.from([0, 1]) };
    const ours = { both: TEN.replace("5", "mine"), there: "mine\n", binary: Buffer.from([0, 2]), added: "mine\n" };
    const theirs = { both: TEN.replace("5", "theirs"), here: "2\n", binary: Buffer.from([0, 3, 3]), added: "theirs\n" };
    const merged = merge(base, ours, theirs);
    expect(merged.conflicts).toEqual([
      { path: "added", reason: "both-added", lines: ["@@ -1,1 +1,1 @@", "-mine", "+theirs"] },
      { path: "binary", reason: "binary", lines: ["-2 bytes", "+3 bytes"] },
      { path: "both", reason: "both-changed", lines: ["@@ line 5 @@", "-mine", "+theirs"] },
      { path: "here", reason: "removed-here", lines: ["@@ -1,1 +1,1 @@", "-1", "+2"] },
      { path: "there", reason: "removed-there", lines: ["@@ -1,1 +1,1 @@", "-1", "+mine"] },
    ]);
    expect(merged.files).toEqual(tree(ours));
  });

  it("never merges binary files: zero bytes, or bytes that are not UTF-8", () => {
    for (const odd of ["\0", Buffer.from([0xff])]) {
      const of = (text: string) => Buffer.concat([Buffer.from(odd), Buffer.from(text)]);
      const merged = merge({ f: of(TEN) }, { f: of(`0${TEN}`) }, { f: of(`${TEN}11\n`) });
      expect(whys(merged)).toEqual([["f", "binary"]]);
      expect(merge({ f: of(TEN) }, { f: of(TEN) }, { f: of("x") }).taken).toEqual(["f"]);
    }
  });

  it("treats every difference as a conflict without a known base", () => {
    const merged = merge(
      undefined,
      { same: "s", a: "mine", "only-here": "x" },
      { same: "s", a: "theirs", "only-there": "y" },
    );
    expect(whys(merged)).toEqual([
      ["a", "no-base"],
      ["only-here", "no-base"],
      ["only-there", "no-base"],
    ]);
    expect(texts(merged.files)).toEqual({ same: "s", a: "mine", "only-here": "x" });
  });

  it("knows from the lock which side changed a file whose bytes are lost", () => {
    const base = { here: "1", there: "1", both: "1", "gone-here": "1", "gone-there": "1", run: "1" };
    const ours = { here: "mine", there: "1", both: "mine", "gone-there": "1", added: "mine", run: { run: "1" } };
    const theirs = { here: "1", there: "theirs", both: "theirs", "gone-here": "1", newer: "theirs", run: "2" };
    const known = toLockedFiles(tree(base));
    const merged = mergeTrees({ base: undefined, known, ours: tree(ours), theirs: tree(theirs) });
    expect(whys(merged)).toEqual([
      ["both", "no-base"],
      ["run", "no-base"],
    ]);
    expect(texts(merged.files)).toEqual({
      ...{ here: "mine", there: "theirs", both: "mine", added: "mine", newer: "theirs", run: { run: "1" } },
    });
    expect(merged).toMatchObject({ kept: ["added", "gone-here", "here"], removed: ["gone-there"] });
  });

  it("replaces no local file by a remote one: a folder of its name, or another case of it", () => {
    const ours = { "Notes.md": "mine", lib: "mine", "data/x": "mine" };
    const theirs = { "notes.md": "theirs", "lib/index.ts": "theirs", data: "theirs", fine: "theirs" };
    const merged = merge({}, ours, theirs);
    expect(whys(merged)).toEqual([
      ["data", "both-added"],
      ["lib/index.ts", "both-added"],
      ["notes.md", "both-added"],
    ]);
    expect(merged.conflicts[2]?.lines).toEqual(["conflicts with Notes.md"]);
    expect(texts(merged.files)).toEqual({ ...ours, fine: "theirs" });
    expect(texts(resolveMergeConflicts(merged, { ours: tree(ours), theirs: tree(theirs) }, "mine"))).toEqual({
      ...ours,
      fine: "theirs",
    });
    expect(texts(resolveMergeConflicts(merged, { ours: tree(ours), theirs: tree(theirs) }, "theirs"))).toEqual(theirs);
  });

  it("takes the remote signature: it is created again, never edited", () => {
    const merged = merge({ "SKILL.sig": "1", f: "a" }, { "SKILL.sig": "2", f: "mine" }, { "SKILL.sig": "3", f: "a" });
    expect(texts(merged.files)).toEqual({ "SKILL.sig": "3", f: "mine" });
    expect(merged.conflicts).toEqual([]);
  });

  it("shows a limited part of a conflict", () => {
    const long = (word: string) => `${word.repeat(1000)}\n`.repeat(500);
    for (const base of [{}, { f: "b\n" }]) {
      const [conflict] = merge(base, { f: long("m") }, { f: long("t") }).conflicts;
      expect(conflict?.lines.length).toBeLessThan(70);
      expect(Math.max(...(conflict?.lines ?? []).map((line) => line.length))).toBeLessThan(300);
    }
  });

  it("merges trees of many files quickly", () => {
    const many = (word: string, count = 20_000) =>
      tree(Object.fromEntries(Array.from({ length: count }, (_, index) => [`d${index % 100}/${word}${index}`, word])));
    const merged = mergeTrees({ base: new Map(), ours: many("mine"), theirs: many("theirs") });
    expect(merged.files.size).toBe(40_000);
  });
});

describe("resolveConflicts", () => {
  it("replaces all conflicts by one side, and nothing else", () => {
    const base = { both: TEN, here: "1\n", there: "1\n", fine: TEN };
    const ours = tree({ both: "mine\n", there: "mine\n", fine: `0\n${TEN}` });
    const theirs = tree({ both: "theirs\n", here: "2\n", fine: `${TEN}11\n` });
    const merged = mergeTrees({ base: tree(base), ours, theirs });
    const fine = `0\n${TEN}11\n`;
    expect(texts(resolveMergeConflicts(merged, { ours, theirs }, "mine"))).toEqual({
      both: "mine\n",
      there: "mine\n",
      fine,
    });
    expect(texts(resolveMergeConflicts(merged, { ours, theirs }, "theirs"))).toEqual({
      both: "theirs\n",
      here: "2\n",
      fine,
    });
  });
});

describe("any edit", () => {
  const paths = ["SKILL.md", "a.md", "b/c.sh"];
  const line = fc.nat({ max: 30 }).map((number) => `line ${number}`);
  const text = fc.array(line, { minLength: 1, maxLength: 12 });
  const edit = fc.record({
    path: fc.constantFrom(...paths, "new.md"),
    at: fc.nat({ max: 12 }),
    what: fc.constantFrom("add", "add", "change", "remove", "drop", "run"),
  });
  const edits = fc.array(edit, { maxLength: 6 });

  it("is kept: every line that was added locally is in the result, or its file is in conflict", () => {
    let merges = 0;
    fc.assert(
      fc.property(fc.tuple(text, text, text), edits, edits, (bases, mine, others) => {
        const base = new Map(paths.map((path, index) => [path, { lines: bases[index] ?? [], run: false }]));
        const [ours, theirs] = [edited(base, mine, "mine"), edited(base, others, "theirs")];
        const merged = mergeTrees({ base: made(base), ours: made(ours), theirs: made(theirs) });
        const conflicts = new Set(merged.conflicts.map(({ path }) => path));
        merges += merged.merged.length;
        for (const [path, { lines, run }] of ours) {
          if (conflicts.has(path)) {
            expect(merged.files.get(path)).toEqual(made(ours).get(path));
            continue;
          }
          const got = merged.files.get(path);
          const there = new Set(
            Buffer.from(got?.bytes ?? [])
              .toString("utf8")
              .split("\n"),
          );
          for (const one of lines) if (one.startsWith("mine")) expect(there).toContain(one);
          if (run) expect(got?.executable).toBe(true);
        }
        // Lines that were removed locally return only as a conflict.
        for (const path of base.keys()) if (!ours.has(path)) expect(merged.files.has(path)).toBe(false);
        const listed = [...merged.kept, ...merged.taken, ...merged.merged, ...merged.removed, ...conflicts];
        expect(new Set(listed).size).toBe(listed.length);
        expect(resolveMergeConflicts(merged, { ours: made(ours), theirs: made(theirs) }, "mine")).toEqual(merged.files);
      }),
      { numRuns: 1500 },
    );
    expect(merges, "texts were merged at all").toBeGreaterThan(100);
  });

  interface Sketched {
    lines: string[];
    run: boolean;
  }

  function made(files: ReadonlyMap<string, Sketched>): Map<string, CopiedFile> {
    return new Map(
      [...files].map(([path, { lines, run }]) => [
        path,
        { bytes: Buffer.from(`${lines.join("\n")}\n`), executable: run },
      ]),
    );
  }

  function edited(
    base: ReadonlyMap<string, Sketched>,
    edits: readonly { path: string; at: number; what: string }[],
    who: string,
  ): Map<string, Sketched> {
    const files = new Map([...base].map(([path, { lines, run }]) => [path, { lines: [...lines], run }]));
    for (const [index, { path, at, what }] of edits.entries()) {
      const file = files.get(path) ?? { lines: [], run: false };
      if (what === "drop") files.delete(path);
      else {
        files.set(path, file);
        if (what === "run") file.run = true;
        else file.lines.splice(at, what === "add" ? 0 : 1, ...(what === "remove" ? [] : [`${who} ${index}`]));
      }
    }
    return files;
  }
});
