import { createHash } from "node:crypto";
import { mkdirSync, realpathSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skillEntry } from "@modelcontextprotocol/server/ext/skills";
import fc from "fast-check";
import { CORE_SCHEMA, load, YAML11_SCHEMA } from "js-yaml";
import { describe, expect, it } from "vitest";
import {
  formatSkillFileUri,
  listPublishedNames,
  parseSkillUri,
  publishManifest,
  readPublishedFile,
  toStandardName,
} from "../../src/adapters/mcp-server/published-skill.ts";
import { listServedFiles, PUBLISH_LIMITS, publishSkill } from "../../src/adapters/mcp-server/skill-resources.ts";
import { type Catalog, loadCatalog } from "../../src/catalog/catalog.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createInlineSource, type Skill } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { createCatalogOf } from "../support/skills.ts";
import { countSteps } from "../support/steps.ts";
import { waitUntilUnchanged } from "../support/unchanged.ts";

async function catalogIn(files: Record<string, string | Uint8Array>) {
  const root = realpathSync(temporaryFolder(files));
  return { root, catalog: await loadCatalog([createDirectorySource({ path: root, name: "here" })]) };
}

const only = (catalog: Catalog): [name: string, skill: Skill] => {
  const [first, ...more] = listPublishedNames(catalog);
  expect(more).toEqual([]);
  if (!first) throw new Error(`no skill: ${JSON.stringify(catalog.diagnostics)}`);
  return first;
};

/** The served files of the only skill, as a client sees them. */
async function served(files: Record<string, string | Uint8Array>) {
  const { root, catalog } = await catalogIn(files);
  return { root, catalog, ...(await servedOf(catalog)) };
}

async function servedOf(catalog: Catalog) {
  const [name, skill] = only(catalog);
  const manifest = await publishManifest(skill, name);
  if (!manifest) throw new Error("it is not served");
  const text = Buffer.from(manifest.bytes).toString("utf8");
  await expectReadAlike(name, text, manifest.frontmatter);
  return { name, skill, text, frontmatter: manifest.frontmatter as Record<string, unknown> };
}

/** Every parser returns the same: that of YAML 1.2, that of 1.1, and the one of clients, which also validates. */
async function expectReadAlike(name: string, text: string, frontmatter: object) {
  const source = /^---\n([\s\S]*?)^---\n/m.exec(text.replaceAll("\r\n", "\n"))?.[1] ?? "";
  expect(load(source, { schema: CORE_SCHEMA })).toEqual(frontmatter);
  expect(load(source, { schema: YAML11_SCHEMA })).toEqual(frontmatter);
  expect((await skillEntry(name, { "SKILL.md": text })).frontmatter).toEqual(frontmatter);
}

const standard = (more: string, body = "Do it.") => skillText("x", { more, body });

describe("a standard skill", () => {
  it.each([
    ["plain", standard("")],
    ["with all standard fields", standard('license: MIT\ncompatibility: Needs git\nmetadata:\n  version: "1.0"\n')],
    ["with unknown keys", standard("triggers:\n  keywords: [a, b]\nmodel: fast\nuser-invocable: false\n")],
    ["with a comment and a quoted date", standard('# a note\nsince: "2026-01-02"\n')],
    ["with a folded description", "---\nname: x\ndescription: >-\n  Does x.\n  Use it.\n---\n\nDo it.\n"],
    ["with Windows line ends", standard("license: MIT\n").replaceAll("\n", "\r\n")],
    ["with a body that ends in blank lines", `${standard("")}\n\n\n`],
    ["with letters of other scripts", skillText("x", { description: "Größe, 日本語, שלום 👩‍👩‍👧" })],
  ])("is published byte for byte: %s", async (_, text) => {
    expect((await served({ "x/SKILL.md": text })).text).toBe(text);
  });

  it("is published byte for byte also when it is a flat file", async () => {
    const text = standard("license: MIT\n");
    const { name, text: published } = await served({ "x.md": text });
    expect({ name, published }).toEqual({ name: "x", published: text });
  });
});

describe("a skill that deviates from the standard", () => {
  it.each([
    ["My_Skill", "my-skill"],
    ["Two Words", "two-words"],
    ["a--b", "a-b"],
    ["v1.2", "v1-2"],
    ["Größe", "grosse".replace("ss", "-")],
  ])("has the name %s normalized, and keeps its own in the metadata", async (written, expected) => {
    const { name, frontmatter, text } = await served({ "f/SKILL.md": skillText(written, { body: "Do it so." }) });
    expect(name).toBe(expected);
    expect(frontmatter).toEqual({
      name: expected,
      description: `Does ${written}. Use when asked for ${written}.`,
      metadata: { "original-name": written },
    });
    expect(text).toMatch(/---\n\nDo it so\.\n$/);
  });

  it("has the name of its folder when its own is invalid, and keeps that", async () => {
    const { name, frontmatter } = await served({ "folder/SKILL.md": skillText("n".repeat(70)) });
    expect(name).toBe("folder");
    expect(frontmatter).toMatchObject({ name: "folder", metadata: { "original-name": "n".repeat(70) } });
  });

  it("has a unique name, whatever the names of the others", async () => {
    const { catalog } = await catalogIn({
      "a/SKILL.md": skillText("my-skill"),
      "b/SKILL.md": skillText("My_Skill"),
      "c/SKILL.md": skillText("My Skill"),
      "d/SKILL.md": skillText("日本語"),
      "e/SKILL.md": skillText("中文"),
      "f/SKILL.md": skillText(`${"N".repeat(62)}_b`),
      "g/SKILL.md": skillText(`${"N".repeat(62)}.b`),
    });
    const names = listPublishedNames(catalog);
    expect(names.size).toBe(7);
    expect(names.get("my-skill")?.name).toBe("my-skill");
    expect([names.get("my-skill-2")?.name, names.get("my-skill-3")?.name].sort()).toEqual(["My Skill", "My_Skill"]);
    for (const name of names.keys()) expect(name).toMatch(/^(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*$/);
    expect(new Set(names.values()).size).toBe(7);
  });

  it("has a standard name, whatever its own is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 90 }), (name) => {
        expect(toStandardName(name)).toMatch(/^(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*$/);
      }),
    );
  });

  it("has its description cut after a word", async () => {
    const { frontmatter } = await served({ "x/SKILL.md": skillText("x", { description: "word 日本 ".repeat(200) }) });
    const description = String(frontmatter["description"]);
    expect([...description].length).toBeLessThanOrEqual(1024);
    expect([...description].length).toBeGreaterThan(1000);
    expect(description).toMatch(/(?:word|日本)…$/);
  });

  it("has metadata of strings", async () => {
    const more = `metadata:
  version: 1.5
  tags: [a, b]
  deep:
    er: {most: yes}
  empty:
  list: [{a: 1}]
  when: 2026-01-02
`;
    const { frontmatter } = await served({ "x/SKILL.md": standard(more) });
    expect(frontmatter["metadata"]).toEqual({
      version: "1.5",
      tags: "a, b",
      "deep.er.most": "yes",
      empty: "",
      list: '[{"a":1}]',
      when: "2026-01-02",
    });
  });

  it.each([
    ["compatibility: [linux, git]\n", { compatibility: "linux, git" }],
    ["compatibility: 22\n", { compatibility: "22" }],
    ["compatibility: {node: 22}\n", { compatibility: '{"node":22}' }],
    [`compatibility: ${"c".repeat(600)}\n`, { compatibility: `${"c".repeat(499)}…` }],
    ["compatibility:\n", {}],
    ["metadata: none\n", { metadata: { metadata: "none" } }],
    ["metadata:\n", {}],
  ])("has %j in the standard's form", async (more, expected) => {
    const { frontmatter } = await served({ "x/SKILL.md": standard(more) });
    const { name: _, description: __, ...rest } = frontmatter;
    expect(rest).toEqual(expected);
  });

  it.each([
    ["a value that needs quotes", "hint: use it: now\n", { hint: "use it: now" }],
    ["a key twice", "model: a\nmodel: b\n", { model: "b" }],
    ["a date", "since: 2026-01-02\n", { since: "2026-01-02" }],
    ["a value that some parsers read as true", "user-invocable: yes\n", { "user-invocable": "yes" }],
    ["one in a list", "tags: [on, b]\n", { tags: ["on", "b"] }],
    ["a number that some parsers read as octal", "mode: 010\n", { mode: 10 }],
    ["a time", "at: 12:30\n", { at: "12:30" }],
    ["a number that some parsers read as sexagesimal", "id: 0x1_F\n", { id: "0x1_F" }],
    ["a number too long", "id: 12345678901234567890\n", { id: 12345678901234567000 }],
    ["a number as a key", "1: x\n", { "1": "x" }],
    ["a list over several lines", "tags: [a,\n  b]\n", { tags: ["a", "b"] }],
    ["a text that begins with blanks", "text: |2\n    a\n   b\n", { text: "a\n b\n" }],
    ["a key of prototypes", 'x: {"__proto__": {a: 1}, b: 2}\n', { x: { b: 2 } }],
  ])("is parsed alike by all parsers: %s", async (_, more, expected) => {
    const { frontmatter, text } = await served({ "x/SKILL.md": standard(more) });
    expect(frontmatter).toMatchObject(expected);
    expect(text).toMatch(/\n---\n\nDo it\.\n$/);
  });

  it.each([
    ["a tab before a value", "model:\ta\n"],
    ["a tab after a value", "model: a\t\n"],
    ["a tab before a comment", "model: a\t# b\n"],
    ["a very long key", `${"k".repeat(1100)}: a\n`],
  ])("is rewritten when some parsers refuse it: %s", async (_, more) => {
    const { text } = await served({ "x/SKILL.md": standard(more) });
    expect(text).not.toContain("\t");
    expect(text).not.toMatch(/^[^:]{1024}/m);
  });

  it.each([
    ["a byte order mark", `\ufeff${standard("")}`],
    ["blank lines before it", `\n\n${standard("")}`],
    ["blanks after the dashes", standard("").replace("---\n", "--- \n")],
    ["no name", "---\ndescription: Does x.\n---\n\nDo it.\n"],
  ])("is a standard skill nevertheless: %s", async (_, text) => {
    expect((await served({ "x/SKILL.md": text })).frontmatter["name"]).toBe("x");
  });

  it("is published when its body is not UTF-8", async () => {
    const bytes = Buffer.concat([Buffer.from(standard("")), Buffer.from([0xff, 0xfe, 0x0a])]);
    expect((await served({ "x/SKILL.md": bytes })).text).toContain("Do it.\n\ufffd");
  });

  it("is published when it is written in YAML", async () => {
    const text = "name: x\ndescription: Does x.\nmodel: fast\ninstructions: |\n  # X\n\n  Do it.\n";
    const { text: published } = await served({ "x.yaml": text });
    expect(published).toBe("---\nname: x\ndescription: Does x.\nmodel: fast\n---\n\n# X\n\nDo it.\n");
  });

  it("is published when it is defined in code", async () => {
    const skill = defineSkill({
      name: "x-",
      description: "Does x.",
      instructions: "Do it.",
      frontmatter: { since: new Date(0), metadata: { a: { b: 1 } }, gone: undefined },
    });
    const { name, frontmatter } = await servedOf(await loadCatalog([createInlineSource([skill])]));
    expect(name).toBe("x");
    expect(frontmatter).toEqual({
      name: "x",
      description: "Does x.",
      since: "1970-01-01T00:00:00.000Z",
      metadata: { "a.b": "1", "original-name": "x-" },
    });
  });

  it("is parsed alike by all parsers, whatever its keys and values are", async () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 12 }),
      fc.constantFrom("no", "1e3", "~", "- a", "|", "#"),
    );
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(text, tie("value"), { maxKeys: 3 }),
      ),
    })).value;
    const [skill] = (await createCatalogOf({ x: {} })).skills;
    if (!skill) throw new Error("no skill");
    await fc.assert(
      fc.asyncProperty(fc.dictionary(text, value, { maxKeys: 4 }), text, async (data, body) => {
        const odd: Skill = { ...skill, manifest: { ...skill.manifest, data }, body: async () => body };
        const manifest = await publishManifest(odd, "x");
        if (!manifest) throw new Error("it is not served");
        await expectReadAlike("x", Buffer.from(manifest.bytes).toString("utf8"), manifest.frontmatter);
      }),
      { numRuns: 300 },
    );
  });
});

it("is parsed alike by all parsers, however its frontmatter is written", async () => {
  const scalar = fc.oneof(
    fc.constantFrom(
      ..."no On y ~ null true 0x1F 0o17 017 1_000 1e3 1.5e+3 .5 5. 0b11 12:30 2026-01-02 = << .inf -0 +1 1.0".split(
        " ",
      ),
    ),
    fc.constantFrom(
      '"a\\tb"',
      "'it''s'",
      "a: b",
      "a #b",
      "[a, no]",
      "{a: yes}",
      "[a, {b: 1}]",
      "|",
      "|-\n    a\n     b",
      ">\n    a\n\n    b",
    ),
    fc.constantFrom(
      "*a",
      "&a b",
      "!x y",
      "@a",
      "`a`",
      "%a",
      "-",
      "- a",
      "? a",
      "a,b",
      "{a}",
      "[",
      '"a',
      "é",
      "a\n    b",
      "a\\",
      "''",
      "",
    ),
    fc.string({ unit: fc.constantFrom("a", " ", ":", "#", "-", ",", "'", '"', "1", "."), maxLength: 8 }),
  );
  const line = fc
    .tuple(fc.constantFrom("license", "model", "k", "1", '"q"', "no", "on"), scalar)
    .map(([key, value]) => `${key}: ${value}`);
  const block = fc
    .array(scalar, { minLength: 1, maxLength: 3 })
    .map((items) => `tags:\n${items.map((item) => `  - ${item}`).join("\n")}`);
  const metadata = scalar.map((value) => `metadata:\n  a: ${value}`);
  const { root } = await catalogIn({ "x/SKILL.md": standard("") });
  const seen = { asWritten: 0, rendered: 0 };
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.oneof(line, block, metadata), { maxLength: 3 }), async (lines) => {
      const written = standard(lines.map((text) => `${text}\n`).join(""));
      writeFiles(root, { "x/SKILL.md": written });
      const catalog = await loadCatalog([createDirectorySource({ path: root, name: "here" })]);
      if (catalog.skills.length === 0) return; // It is not a skill here either.
      const { text } = await servedOf(catalog);
      seen[text === written ? "asWritten" : "rendered"]++;
    }),
    { numRuns: 300 },
  );
  expect(seen.asWritten).toBeGreaterThan(10);
  expect(seen.rendered).toBeGreaterThan(10);
});

it("is not published, and breaks nothing, when a source has skills that throw", async () => {
  const [skill] = (await createCatalogOf({ x: {} })).skills;
  if (!skill) throw new Error("no skill");
  const fail = () => {
    throw new Error("no");
  };
  expect(await publishSkill({ ...skill, body: fail }, "x")).toBeUndefined();
  const published = await publishSkill({ ...skill, files: fail, read: fail }, "x");
  expect(published?.entry.resources.map(({ uri }) => uri)).toEqual(["skill://x/SKILL.md"]);
});

describe("hidden characters", () => {
  it("[Q-08] are escaped in the instructions, with a notice", async () => {
    const { text } = await served({ "x/SKILL.md": standard("", "Do\u200b it\u202e.\u{e0041}") });
    expect(text).toMatch(
      /\n---\n\n\[3 hidden characters in this text, written out as \\u\{…\}\]\nDo\\u\{200b\} it\\u\{202e\}\.\\u\{e0041\}\n$/,
    );
  });

  it("[Q-08] are escaped in text files, with a notice if another line does no harm", async () => {
    const binary = Buffer.from([0xff, 0xe2, 0x80, 0x8b]);
    const { skill } = await served({
      "x/SKILL.md": standard(""),
      "x/a.md": "A\u200b",
      "x/a.txt": "A\u{202e}B",
      "x/a.py": "print('\u200b')\n",
      "x/b.bin": binary,
      "x/zero.bin": "\0\u200b",
      "x/good.md": "👩‍👩‍👧 שלום\u200f!",
    });
    const read = async (path: string) => Buffer.from((await readPublishedFile(skill, path)) ?? []).toString("utf8");
    const note = "[1 hidden character in this text, written out as \\u{…}]\n";
    expect(await read("a.md")).toBe(`${note}A\\u{200b}`);
    expect(await read("a.txt")).toBe(`${note}A\\u{202e}B`);
    expect(await read("a.py")).toBe("print('\\u{200b}')\n");
    expect(await read("good.md")).toBe("👩‍👩‍👧 שלום\u200f!");
    expect(await readPublishedFile(skill, "b.bin")).toEqual(binary);
    expect(await read("zero.bin")).toBe("\0\u200b");
  });
});

describe("the files of an entry", () => {
  const paths = async (catalog: Catalog) => {
    const [name, skill] = only(catalog);
    const published = await publishSkill(skill, name);
    return { ...published, name, skill, paths: published?.entry.resources.map(({ uri }) => parseSkillUri(uri)?.path) };
  };

  it("are all of them, with digest and size", async () => {
    const { catalog } = await catalogIn({
      "x/SKILL.md": standard(""),
      "x/b/c.txt": "see",
      "x/a.bin": Buffer.from([255]),
    });
    const { entry } = await paths(catalog);
    const of = (bytes: string | Uint8Array) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    expect(entry?.resources).toEqual([
      { uri: "skill://x/SKILL.md", digest: of(standard("")), size: standard("").length },
      { uri: "skill://x/a.bin", digest: of(Buffer.from([255])), size: 1 },
      { uri: "skill://x/b/c.txt", digest: of("see"), size: 3 },
    ]);
  });

  it("[Q-09] exclude the target of a link outside", async () => {
    const { root, catalog } = await catalogIn({ "x/SKILL.md": standard(""), "x/in.md": "in", "secret.txt": "secret" });
    symlinkSync(join(root, "secret.txt"), join(root, "x", "out.txt"));
    symlinkSync("in.md", join(root, "x", "link.md"));
    expect((await paths(catalog)).paths).toEqual(["SKILL.md", "in.md", "link.md"]);
  });

  it("[Q-22] exclude names that start with a dot, such as `.env`, also as folders", async () => {
    const { catalog } = await catalogIn({
      "x/SKILL.md": standard(""),
      "x/.env": "KEY=secret",
      "x/a/.npmrc": "//r/:_authToken=secret",
      "x/.cache/b.md": "b",
      "x/a/c.d.md": "c",
    });
    const { paths: published, notice, name, skill } = await paths(catalog);
    expect(published).toEqual(["SKILL.md", "a/c.d.md"]);
    expect(await listServedFiles(skill, name)).toEqual(["a/c.d.md"]);
    expect(notice).toBeUndefined();
  });

  it("are as many as fit, when there are more than 512", async () => {
    const many = Object.fromEntries(Array.from({ length: 600 }, (_, index) => [`x/f/${1000 + index}.txt`, `${index}`]));
    const { catalog } = await catalogIn({ "x/SKILL.md": standard(""), ...many });
    const { entry, notice, paths: listed, skill, name } = await paths(catalog);
    expect(entry?.resources.length).toBe(512);
    expect(listed?.[0]).toBe("SKILL.md");
    expect(listed?.at(-1)).toBe("f/1510.txt");
    expect(notice).toBe(
      "Skill 'x' is served over MCP without 89 files of 601, the first one \"f/1511.txt\": the limit is 512 files and 16 MiB; remove files that it does not need from its folder",
    );
    expect(["SKILL.md", ...(await listServedFiles(skill, name))]).toEqual(listed);
  });

  it("are as many as fit, when they are larger than 16 MiB", async () => {
    const mega = (size: number) => Buffer.alloc(size * 1024 * 1024, 0xff);
    const files = { "x/a": mega(8), "x/b": mega(7), "x/c": mega(2), "x/d": "small", "x/e": mega(9) };
    const { catalog } = await catalogIn({ "x/SKILL.md": standard(""), ...files });
    const { entry, notice, paths: listed, skill, name } = await paths(catalog);
    expect(listed).toEqual(["SKILL.md", "a", "b", "d"]);
    expect(entry?.resources.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(PUBLISH_LIMITS.bytes);
    expect(notice).toContain('without 2 files of 6, the first one "c": the limit is');
    expect(await listServedFiles(skill, name)).toEqual(["a", "b", "d"]);
  });

  it("are counted as they are served: escaped text is longer", async () => {
    const hidden = (mega: number) => "\u200b".repeat(80_000) + "a".repeat(mega * 1024 * 1024);
    const { catalog } = await catalogIn({
      "x/SKILL.md": standard(""),
      "x/a.md": hidden(7.7),
      "x/b.md": hidden(7.4),
      "x/c.md": "c",
    });
    const { paths: listed, skill, name } = await paths(catalog);
    expect(listed).toEqual(["SKILL.md", "a.md", "c.md"]);
    expect(await listServedFiles(skill, name)).toEqual(["a.md", "c.md"]);
  });

  it("omit unreadable files and those without a URI, with a notice", async () => {
    const { root, catalog } = await catalogIn({ "x/SKILL.md": standard(""), "x/a.txt": "a", "x/b\\c.txt": "b" });
    expect((await paths(catalog)).notice).toBe(
      "Skill 'x' is served over MCP without 1 file of 3 \"b\\c.txt\": its name cannot be part of a URI",
    );
    rmSync(join(root, "x", "b\\c.txt"));
    writeFileSync(join(root, "x", "large.bin"), Buffer.alloc(9 * 1024 * 1024));
    expect(await paths(catalog)).toMatchObject({
      paths: ["SKILL.md", "a.txt"],
      notice: expect.stringContaining('"large.bin": it cannot be read, is larger than 8 MiB'),
    });
  });

  it("[Q-08] omit files full of hidden characters, without reading all of them", async () => {
    const { catalog } = await catalogIn({ "x/SKILL.md": standard(""), "x/a.txt": Buffer.alloc(8 * 1024 * 1024, 1) });
    expect(await paths(catalog)).toMatchObject({ paths: ["SKILL.md"], notice: expect.stringContaining("hidden") });
    const [small = 0, large = 0] = await countSteps(
      ["src/adapters/mcp-server/published-skill.ts"],
      async (
        { readPublishedFile }: typeof import("../../src/adapters/mcp-server/published-skill.ts"),
        mebibytes: number,
      ) => {
        const bytes = new Uint8Array(mebibytes * 1024 * 1024).fill(1);
        await readPublishedFile({ origin: {}, read: () => bytes } as never, "a.txt");
      },
      [1, 8],
    );
    expect(small).toBeGreaterThan(100_000);
    expect(large).toBeLessThan(small * 1.1);
  });

  it("are the current ones, and are read again only when one changed", async () => {
    const { root, catalog } = await catalogIn({ "x/SKILL.md": standard(""), "x/a.txt": "a" });
    mkdirSync(join(root, "x", "empty"));
    await waitUntilUnchanged(40, root);
    const first = await paths(catalog);
    expect((await paths(catalog)).entry).toBe(first.entry);
    writeFiles(root, { "x/empty/b.txt": "b" });
    const second = await paths(catalog);
    expect(second.paths).toEqual(["SKILL.md", "a.txt", "empty/b.txt"]);
    writeFiles(root, { "x/a.txt": "c" });
    utimesSync(join(root, "x", "a.txt"), 1, 1);
    const third = await paths(catalog);
    expect(third.entry?.resources[1]).not.toEqual(second.entry?.resources[1]);
    rmSync(join(root, "x", "a.txt"));
    expect((await paths(catalog)).paths).toEqual(["SKILL.md", "empty/b.txt"]);
    writeFiles(root, { "x/SKILL.md": skillText("x", { description: "Other." }) });
    expect((await paths(catalog)).entry?.frontmatter.description).toBe("Other.");
    rmSync(join(root, "x"), { recursive: true });
    expect((await paths(catalog)).entry).toBeUndefined();
  });

  it("are distinguished however quickly they change", async () => {
    const { root, catalog } = await catalogIn({ "x/SKILL.md": standard(""), "x/a.txt": "0" });
    for (let round = 1; round < 30; round++) {
      writeFiles(root, { "x/a.txt": String(round % 10) });
      const digest = createHash("sha256")
        .update(String(round % 10))
        .digest("hex");
      expect((await paths(catalog)).entry?.resources[1]?.digest, `round ${round}`).toBe(`sha256:${digest}`);
    }
  });

  it("are shared by catalogs that were read again", async () => {
    const { root, catalog } = await catalogIn({ "x/SKILL.md": standard("") });
    await waitUntilUnchanged(40, root);
    expect((await paths(await catalog.reload())).entry).toBe((await paths(catalog)).entry);
  });
});

describe("a URI of a file", () => {
  const part = fc.string({ unit: "binary", minLength: 1, maxLength: 12 }).filter((text) => {
    return text.isWellFormed() && !/[/\\\0]/.test(text) && text !== "." && text !== "..";
  });

  it("is reversible for every path, also through a parser of URLs", () => {
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const path = parts.join("/");
        const uri = formatSkillFileUri("my-skill", path) ?? "";
        expect(new URL(uri).href).toBe(uri);
        expect(parseSkillUri(uri)).toEqual({ name: "my-skill", path });
        expect(parseSkillUri(new URL(uri).href)).toEqual({ name: "my-skill", path });
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    "a b.md",
    "a#b.md",
    "100%.md",
    "what?.md",
    "Q&A (1).md",
    "größe/日本.md",
    "%2e%2e",
    "a:b;c=d,e@f.md",
    "[x]|{y}^`z`.md",
  ])("is the same as for a link to %s from SKILL.md", (path) => {
    const base = new URL("skill://x/SKILL.md");
    base.pathname = `/${path.replaceAll("%", "%25").replaceAll("?", "%3F").replaceAll("#", "%23")}`;
    expect(parseSkillUri(base.href)).toEqual({ name: "x", path });
    expect(parseSkillUri(formatSkillFileUri("x", path) ?? "")).toEqual({ name: "x", path });
  });

  it.each([
    "skill://x/../y/SKILL.md",
    "skill://x/a/../SKILL.md",
    "skill://x/%2e%2e/SKILL.md",
    "skill://x/.%2E/SKILL.md",
    "skill://x/a/%2e/b",
    "skill://x//etc/passwd",
    "skill://x/%2fetc/passwd",
    "skill://x/a%2f..%2fb",
    "skill:///etc/passwd",
    "skill://x/a%00b",
    "skill://x/a\0b",
    "skill://x/a\\b",
    "skill://x/..%5c..%5cb",
    "skill://x/a%zz",
    "skill://x/a%ff",
    "skill://x/",
    "skill://x/a/",
    "skill://x/a?b",
    "skill://x/a#b",
    "skill://",
    "skill:x/SKILL.md",
    "file:///etc/passwd",
    "https://x/SKILL.md",
    "",
  ])("is not %j", (uri) => {
    expect(parseSkillUri(uri)).toBeUndefined();
  });
});
