import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createNoSkillsError } from "../../src/remote/add.ts";
import { findCandidate, type PreparedCandidate, prepareCandidate, selectDistinct } from "../../src/remote/candidate.ts";
import { type FetchedListing, fetchListing } from "../../src/remote/fetch-source.ts";
import { digestTree, readFileTree } from "../../src/store/lock-file.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { readTreeFiles } from "./clients/scene.ts";

/** Fetches a source with these files and links. */
async function offered(
  files: Record<string, string>,
  links: Record<string, string> = {},
): Promise<FetchedListing & { work: string }> {
  const folder = temporaryFolder(files);
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    symlinkSync(target, join(folder, path));
  }
  const work = temporaryFolder();
  return { ...(await fetchListing({ kind: "folder", path: folder }, work, { env: {} })), work };
}

async function prepared(
  { listing: offer, fetched, work }: FetchedListing & { work: string },
  name = "x",
): Promise<PreparedCandidate> {
  return await prepareCandidate(findCandidate(name, offer), fetched, join(work, "skills", name));
}

/** The listed files are those in its folder, and the lock's digest covers them. */
function expectWhole({ folder, files, digest, tree }: PreparedCandidate): Record<string, string> {
  expect(readFileTree(folder)).toEqual(files);
  expect(digestTree(readFileTree(folder))).toBe(digest);
  expect([...tree.keys()].sort()).toEqual(Object.keys(files).sort());
  return readTreeFiles(folder);
}

describe("a skill of a source", () => {
  it("is copied entirely, including dot files, node_modules and execute bits", async () => {
    const folder = temporaryFolder({
      "skills/x/SKILL.md": skillText("x"),
      "skills/x/.dot": "dot",
      "skills/x/scripts/go.sh": "echo",
      "skills/x/node_modules/a/index.js": "0",
      "readme.md": "not part of it",
    });
    chmodSync(join(folder, "skills/x/scripts/go.sh"), 0o775);
    const work = temporaryFolder();
    const supply = await fetchListing({ kind: "folder", path: folder }, work, { env: {} });
    const one = await prepared({ ...supply, work });
    expect(one.path).toBe("skills/x");
    expect(Object.keys(expectWhole(one)).sort()).toEqual([
      ".dot",
      "SKILL.md",
      "node_modules/a/index.js",
      "scripts/go.sh",
    ]);
    expect(one.files["scripts/go.sh"]?.mode).toBe("755");
  });

  it("is the source itself if it has a SKILL.md", async () => {
    const supply = await offered({ "SKILL.md": skillText("x"), "a.md": "a", "skills/y/SKILL.md": skillText("y") });
    const one = await prepared(supply);
    expect(one.path).toBe("");
    expect(Object.keys(expectWhole(one)).sort()).toEqual(["SKILL.md", "a.md", "skills/y/SKILL.md"]);
  });

  it.each([
    ["skills/x.md", skillText("x")],
    ["skills/x.yaml", "name: x\ndescription: Does x.\ninstructions: Do it.\n"],
  ])("that is one file, %s, becomes a folder", async (path, text) => {
    const one = await prepared(await offered({ [path]: text, "other.txt": "" }));
    expect(one.path).toBe(path);
    const files = expectWhole(one);
    expect(Object.keys(files)).toEqual(["SKILL.md"]);
    expect(files["SKILL.md"]).toContain("name: x");
    expect(files["SKILL.md"]).toContain("Do it.");
  });

  it("with a file called skill.md has it as SKILL.md", async () => {
    const one = await prepared(await offered({ "x/skill.md": skillText("x"), "x/a.md": "a" }));
    expect(Object.keys(expectWhole(one)).sort()).toEqual(["SKILL.md", "a.md"]);
  });

  it("that is the source itself, or a folder that a plugin names, keeps its files with a skill.md too", async () => {
    const whole = await prepared(await offered({ "skill.md": skillText("x"), "scripts/go.sh": "echo" }));
    expect([whole.path, Object.keys(expectWhole(whole)).sort()]).toEqual(["", ["SKILL.md", "scripts/go.sh"]]);
    for (const file of ["SKILL.md", "skill.md"]) {
      const plugin = await prepared(
        await offered({
          ".claude-plugin/plugin.json": JSON.stringify({ name: "p", skills: ["./my/x"] }),
          [`my/x/${file}`]: skillText("x"),
          "my/x/scripts/go.sh": "echo",
          "skills/y/SKILL.md": skillText("y"),
        }),
      );
      expect([plugin.path, Object.keys(expectWhole(plugin)).sort()]).toEqual(["my/x", ["SKILL.md", "scripts/go.sh"]]);
    }
  });

  it("whose SKILL.md is a link to one of its own files is copied entirely, with a copy of the file", async () => {
    const files = { "s/AGENTS.md": skillText("x"), "s/scripts/go.sh": "echo" };
    const one = await prepared(await offered(files, { "s/SKILL.md": "l.md", "s/l.md": "./AGENTS.md" }));
    expect(one.path).toBe("s");
    expect(Object.keys(expectWhole(one)).sort()).toEqual(["AGENTS.md", "SKILL.md", "l.md", "scripts/go.sh"]);
    const root = await prepared(
      await offered({ "AGENTS.md": skillText("x"), "go.sh": "" }, { "SKILL.md": "AGENTS.md" }),
    );
    expect([root.path, Object.keys(expectWhole(root)).sort()]).toEqual(["", ["AGENTS.md", "SKILL.md", "go.sh"]]);
  });

  it.each(["../o/x.md", "/etc/passwd", "none.md", "SKILL.md", "../../x.md"])(
    "is not one with a SKILL.md that is a link to %s, and neither is another file in its folder",
    async (target) => {
      const files = { "s/AGENTS.md": skillText("x"), "s/in/SKILL.md": skillText("in"), "o/x.md": skillText("o") };
      const { listing: offer } = await offered(files, { "s/SKILL.md": target });
      expect(offer.candidates.map(({ path }) => path)).toEqual(["s/in"]);
      expect(offer.notes).toEqual([
        '"s/SKILL.md" is a symlink that points outside its folder, so the folder is not a skill',
      ]);
    },
  );

  it("has copies of its own files in place of direct and indirect links to them", async () => {
    const links = {
      "x/a.md": "docs/real.md",
      "x/docs/up.md": "../top.md",
      "x/chain.md": "z-last.md",
      "x/z-last.md": "./docs/../docs/real.md",
    };
    const one = await prepared(
      await offered({ "x/SKILL.md": skillText("x"), "x/docs/real.md": "real", "x/top.md": "top" }, links),
    );
    expect(expectWhole(one)).toMatchObject({
      "a.md": "real",
      "docs/up.md": "top",
      "chain.md": "real",
      "z-last.md": "real",
    });
    for (const path of ["a.md", "docs/up.md", "chain.md"])
      expect(lstatSync(join(one.folder, path)).isFile()).toBe(true);
  });

  it.each([
    ["out of it", "../secret.md"],
    ["out of the source", "../../../../etc/passwd"],
    ["from the root", "/etc/passwd"],
    ["to the same file by another path", "../x/../secret.md"],
    ["to nothing", "nowhere.md"],
    ["to a folder", "docs"],
    ["to itself", "a.md"],
    ["to another that leads to it", "b.md"],
  ])("is refused with a link that leads %s", async (_, target) => {
    const links = { "x/a.md": target, ...(target === "b.md" ? { "x/b.md": "a.md" } : {}) };
    const supply = await offered({ "x/SKILL.md": skillText("x"), "x/docs/d.md": "", "secret.md": "secret" }, links);
    await expect(async () => await prepared(supply)).rejects.toThrow(
      expect.objectContaining({ code: "symlink-outside", message: expect.stringContaining('x" contains a symlink, ') }),
    );
    expect(existsSync(join(supply.work, "skills"))).toBe(false);
  });

  it("is not refused for links of another one, also of one with its name as a prefix", async () => {
    const supply = await offered(
      { "x/SKILL.md": skillText("x"), "xy/SKILL.md": skillText("xy") },
      { "xy/a.md": "/etc/passwd", "..x.md": "/etc" },
    );
    expect(Object.keys(expectWhole(await prepared(supply)))).toEqual(["SKILL.md"]);
    await expect(async () => await prepared(supply, "xy")).rejects.toThrow(
      expect.objectContaining({ code: "symlink-outside" }),
    );
  });

  it("is refused with too many files to check", async () => {
    const many = Object.fromEntries(Array.from({ length: 2001 }, (_, number) => [`x/f${number}`, ""]));
    const supply = await offered({ "x/SKILL.md": skillText("x"), ...many });
    await expect(async () => await prepared(supply)).rejects.toThrow(
      expect.objectContaining({ code: "too-many-files" }),
    );
    const { "x/f0": _, ...fewer } = many;
    expect((await prepared(await offered({ "x/SKILL.md": skillText("x"), ...fewer }))).tree.size).toBe(2001);
  });

  it.each([
    ["", "x"],
    ["---\nname: ../../..\ndescription: Evil.\n---\nDo it.\n", "x"],
    ["---\nname: x\n---\nDo it.\n", "x"],
    ["---\nname: __proto__\ndescription: Evil.\n---\nDo it.\n", "x"],
  ])("is not offered when its file is %j, and requesting it explains why", async (text, name) => {
    const { listing: offer, work } = await offered({ "x/SKILL.md": text, "good/SKILL.md": skillText("good") });
    expect(offer.candidates.map(({ skill }) => skill.name)).toEqual(["good"]);
    expect(offer.diagnostics.filter(({ severity }) => severity === "error")).toHaveLength(1);
    expect(() => findCandidate(name, offer)).toThrow(
      expect.objectContaining({
        code: "not-found",
        message: expect.stringContaining('"x" exists, but did not load: '),
      }),
    );
    expect(readdirSync(join(work, ".."))).not.toContain("SKILL.md");
  });

  it("that is the source itself is not offered either when its name leads outside", async () => {
    const { listing: offer } = await offered({ "SKILL.md": "---\nname: ../../..\ndescription: Evil.\n---\nDo it.\n" });
    expect(offer.candidates).toEqual([]);
    expect(offer.diagnostics).toEqual([expect.objectContaining({ severity: "error", code: "name-invalid" })]);
  });

  it("that is the source itself has its problems reported once", async () => {
    const { listing: offer } = await offered({
      "SKILL.md": "---\nname: x\n---\nDo it.\n",
      "y/SKILL.md": skillText("y"),
    });
    expect(offer.candidates.map(({ skill }) => skill.name)).toEqual(["y"]);
    const errors = offer.diagnostics.filter(({ severity }) => severity === "error");
    expect(errors.map(({ code }) => code)).toEqual(["description-missing"]);
  });

  it("is found by its name, and by its folder only if no skill has that name", async () => {
    const { listing: offer } = await offered({ "foo/SKILL.md": skillText("bar"), "bar/SKILL.md": skillText("foo") });
    expect(findCandidate("foo", offer).path).toBe("bar");
    const other = await offered({ "foo/SKILL.md": skillText("bar") });
    expect(findCandidate("foo", other.listing).skill.name).toBe("bar");
  });

  it.each([
    ["deploy.", "entry-trailing-dot"],
    ["con", "entry-device"],
  ])("is refused when its name is not a portable folder name: %s", async (name, code) => {
    const supply = await offered({ "x/SKILL.md": skillText(name) });
    await expect(async () => await prepared(supply, name)).rejects.toThrow(expect.objectContaining({ code }));
  });

  it("is not offered by the name of the lock file", async () => {
    const { listing: offer } = await offered({ "x/SKILL.md": skillText("skills.lock") });
    expect(offer.candidates).toEqual([]);
    expect(offer.diagnostics).toMatchObject([{ severity: "error", code: "name-reserved" }]);
  });

  it("that is missing is reported with the files that were omitted from the source", async () => {
    const plugin = { $schema: "https://agent-plugins.org/schemas/2.0.0/plugin.schema.json" };
    const { listing: offer, fetched } = await offered({
      "plugin.json": JSON.stringify(plugin),
      "skills/x/SKILL.md": skillText("x"),
    });
    const why = /^The source has no skill(?: "x")?\. The plugin was skipped: its plugin\.json follows .*2\.0\.0/;
    expect(() => findCandidate("x", offer)).toThrow(expect.objectContaining({ message: expect.stringMatching(why) }));
    expect(createNoSkillsError({ listing: offer, fetched }).message).toMatch(why);
    const notes = Array.from({ length: 7 }, (_, number) => `Note ${number}`);
    expect(createNoSkillsError({ listing: { ...offer, notes }, fetched }).message).toMatch(
      /Note 4\. 2 more notes are not shown$/,
    );
  });

  it("that is missing is reported with the nearest name", async () => {
    const { listing: offer } = await offered({ "sorter/SKILL.md": skillText("sorter") });
    expect(() => findCandidate("sortre", offer)).toThrow(expect.objectContaining({ fix: "did you mean sorter?" }));
  });
});

describe("two skills with the same name in a source", () => {
  it("are one when every byte is the same, and an error otherwise", async () => {
    const files = { "a/x/SKILL.md": skillText("x"), "a/x/f": "1", "b/x/SKILL.md": skillText("x"), "b/x/f": "1" };
    const same = await offered(files);
    expect(selectDistinct(same.listing.candidates).map(({ path }) => path)).toEqual(["a/x"]);
    const other = await offered({ ...files, "b/x/f": "2" });
    expect(() => selectDistinct(other.listing.candidates)).toThrow(
      expect.objectContaining({ code: "duplicate-name", message: expect.stringMatching(/a\/x and b\/x/) }),
    );
    const hidden = await offered({ ...files, "b/x/.f": "" });
    expect(() => selectDistinct(hidden.listing.candidates)).toThrow(
      expect.objectContaining({ code: "duplicate-name" }),
    );
    expect(findCandidate("b/x", other.listing).path).toBe("b/x");
    expect(() => findCandidate("x", other.listing)).toThrow(expect.objectContaining({ code: "duplicate-name" }));
  });

  it("or with folders that are the same on some disks are not added together", async () => {
    const { listing: offer } = await offered({ "a/SKILL.md": skillText("deploy"), "b/SKILL.md": skillText("DEPLOY") });
    expect(() => selectDistinct(offer.candidates)).toThrow(
      expect.objectContaining({ code: "duplicate-name", message: expect.stringContaining('"DEPLOY" and "deploy"') }),
    );
    expect(selectDistinct([findCandidate("deploy", offer)])).toHaveLength(1);
  });

  it("with different names are both taken, in order", async () => {
    const { listing: offer } = await offered({ "b/SKILL.md": skillText("b"), "a/SKILL.md": skillText("a") });
    expect(selectDistinct(offer.candidates).map(({ skill }) => skill.name)).toEqual(["a", "b"]);
  });
});

describe("the content of a source", () => {
  it("has the same digest each time, whatever the file permissions", async () => {
    const files = { "x/SKILL.md": skillText("x"), "x/a/b.md": "b" };
    const first = await prepared(await offered(files));
    const folder = temporaryFolder();
    writeFiles(folder, files);
    chmodSync(join(folder, "x/SKILL.md"), 0o600);
    const work = temporaryFolder();
    const second = await prepared({
      ...(await fetchListing({ kind: "folder", path: folder }, work, { env: {} })),
      work,
    });
    expect(second.digest).toBe(first.digest);
  });
});
