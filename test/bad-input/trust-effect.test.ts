import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runScript } from "../../src/agent/run/run-script.ts";
import { getSkillStoreFolder, storeVerifiedCopy } from "../../src/sandbox/sandbox-folders.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";
import { openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";

/** The text of a page that is JavaScript too, and reports where it ran. */
const evilAt = (mark: string) =>
  `require("node:fs").writeFileSync(${JSON.stringify(mark)}, "ran"); exports.word = "EVIL";\n`;

const CASES: readonly (readonly [way: string, page: string, file: string, text: (page: string) => string])[] = [
  [
    "require",
    "notes.md",
    "tools.cjs",
    (page) => `const { word } = require("./${page}");
exports.Tools = [{ name: "go", description: "Goes", inputSchema: { type: "object" }, execute: async () => ({ text: String(word), isError: false }) }];
`,
  ],
  [
    "createRequire",
    "guide.markdown",
    "tools.mjs",
    (page) => `import { createRequire } from "node:module";
const { word } = createRequire(import.meta.url)("./${page}");
export const Tools = [{ name: "go", description: "Goes", inputSchema: { type: "object" }, execute: async () => ({ text: String(word), isError: false }) }];
`,
  ],
];

describe.each([
  ["root", false],
  ["an ordinary user", true],
] as const)("for %s", (_, isOrdinary) => {
  // In the gate one way for root and the other for a user: how a page is imported does not depend on the user.
  it.each(IS_LONG ? CASES : [CASES[Number(isOrdinary)] as (typeof CASES)[number]])(
    "[Q-04] a page that %s loads does not run once it is changed",
    async (_way, page, file, text) => {
      const root = realpathSync(temporaryFolder());
      const mark = join(root, "project/ran");
      writeFiles(root, {
        "home/readme": "",
        "project/skills/t/SKILL.md": skillText("t", { more: `toolsets: ["${file}:Tools"]\n` }),
        [`project/skills/t/${file}`]: text(page),
        [`project/skills/t/${page}`]: "// notes\n",
      });
      chmodSync(root, 0o755);
      if (isOrdinary && process.getuid?.() === 0) execFileSync("chown", ["-R", String(ORDINARY_USER), root]);
      const starting = { cwd: join(root, "project"), env: { HOME: join(root, "home") }, isOrdinary };
      expect(await runSkilletProcess(["trust", "t", "--yes"], starting)).toMatchObject({ code: 0 });
      const { stderr } = await runSkilletProcess(["call", "t.go"], starting);
      expect(stderr).toContain(`${page} is imported, but its extension is not that of a module`);
      writeFileSync(join(root, "project/skills/t", page), evilAt(mark));
      const called = await runSkilletProcess(["call", "t.go"], starting);
      expect(called.stderr).toContain(`differs from the trusted version: ${page} changed`);
      expect([called.stdout.includes("EVIL"), existsSync(mark)]).toEqual([false, false]);
    },
  );
});

/** A workspace's skill `x`, trusted in its present state. */
async function trusted(files: Record<string, string>, more = ""): Promise<Scene> {
  const own = Object.fromEntries(Object.entries(files).map(([path, text]) => [`skills/x/${path}`, text]));
  const found = await discoverIn({ "skills/x/SKILL.md": skillText("x", { more }), "home/readme": "", ...own });
  found.trust.grant([{ skill: found.skill("x"), copy: await copySkill(found.skill("x")) }]);
  return found;
}

const changesOf = async (found: Scene) => found.trust.findChanges(found.skill("x"), await copySkill(found.skill("x")));

async function edited(found: Scene, path: string): Promise<Scene> {
  writeFileSync(join(found.root, "project/skills/x", path), "Do something else.\n");
  return found.again();
}

describe("the scope of trust", () => {
  it.each([
    ["a script in its folder", { "scripts/go.sh": "cat ../notes.md\n" }, ""],
    ["a declared script", { "lib/go.sh": "cat ../notes.md\n" }, "scripts: [lib/go.sh]\n"],
    ["a file with a shebang", { go: "#!/bin/sh\ncat notes.md\n" }, ""],
    ["toolsets", { "index.ts": "export const Tools = [];\n" }, 'toolsets: ["index:Tools"]\n'],
  ])("[Q-04] includes every file if there is %s", async (_, files, more) => {
    const found = await trusted({ ...files, "notes.md": "Notes.\n", "deep/guide.markdown": "Guide.\n" }, more);
    expect(await changesOf(found)).toEqual([]);
    const again = await edited(found, "notes.md");
    expect(await changesOf(again)).toEqual([{ path: "notes.md", what: "changed" }]);
    expect(await changesOf(await edited(again, "new.md"))).toContainEqual({ path: "new.md", what: "added" });
  });

  it.each([
    ["its description", "description: Does x. Use when asked for x.", "description: Does y."],
    ["a comment in its frontmatter", "name: x\n", "name: x # rm -rf\n"],
  ])("[Q-04] includes all of SKILL.md if code can read it: %s", async (_, before, after) => {
    for (const [files, changes] of [
      [{ "scripts/go.sh": "sh SKILL.md\n" }, [{ path: "SKILL.md", what: "changed" }]],
      [{ "notes.md": "Notes.\n" }, []],
    ] as const) {
      const found = await trusted(files);
      const file = join(found.root, "project/skills/x/SKILL.md");
      const text = readFileSync(file, "utf8");
      expect(text).toContain(before);
      writeFileSync(file, text.replace(before, after));
      expect(await changesOf(await found.again())).toEqual(changes);
    }
  });

  it("[Q-04] excludes pages of a skill without code", async () => {
    const found = await trusted({ "notes.md": "Notes.\n", "data.json": "{}\n" });
    expect(await changesOf(await edited(found, "notes.md"))).toEqual([]);
  });

  it("[Q-04] a script does not run with a page that was changed", async () => {
    const found = await trusted({ "scripts/go.sh": "echo went\n", "notes.md": "Notes.\n" });
    const again = await edited(found, "notes.md");
    const { stdout, refusals } = await runScript(again, { skill: again.skill("x"), script: "go" });
    expect([stdout, refusals]).toMatchObject([
      "",
      [{ code: "changed", commands: [expect.stringContaining("skillet trust")] }],
    ]);
  });

  it("[Q-04] a record from before pages counted holds while everything is unchanged, and for no changed page", async () => {
    const found = await trusted({ "scripts/go.sh": "echo went\n", "notes.md": "Notes.\n" });
    const file = join(found.root, "home/.skillet/trust.json");
    const record = JSON.parse(readFileSync(file, "utf8"));
    for (const entry of Object.values<{ files: Record<string, string> }>(record.skills)) delete entry.files["notes.md"];
    writeFileSync(file, JSON.stringify(record));
    const older = await found.again();
    expect(await changesOf(older)).toEqual([]);
    const again = await edited(older, "notes.md");
    expect(await changesOf(again)).toEqual([{ path: "notes.md", what: "added" }]);
    again.trust.grant([{ skill: again.skill("x"), copy: await copySkill(again.skill("x")) }]);
    expect(await changesOf(await again.again())).toEqual([]);
  });
});

const LOADS = `
  const { require: wanted, from, import: address } = JSON.parse(args.input);
  const loaded = address ? await import(address) : createRequire(from ?? import.meta.url)(wanted);
  return String(loaded.word ?? loaded.default?.word);`;

/** A workspace's skill whose tool `load` loads the named file, trusted with these files. */
async function loading(files: Record<string, string>) {
  const index = toolsetOf({ load: LOADS }, 'import { createRequire } from "node:module";');
  const own = ownSkill({ "toolsets/index.ts": index, ...files });
  const found = await discoverIn({
    "home/readme": "",
    ...Object.fromEntries(Object.entries(own).map(([path, text]) => [path.replace("home/.agent/", ""), text])),
  });
  found.trust.grant([{ skill: found.skill("x"), copy: await copySkill(found.skill("x")) }]);
  const opened = await openToolsetIn(found);
  return { found, load: (what: object) => opened.call("load", { input: JSON.stringify(what) }) };
}

const WORD = 'exports.word = "harmless";\n';

describe("a trusted toolset", () => {
  it.each<[string, (root: string) => object]>([
    ["a file next to its original", (root) => ({ from: `${root}/project/skills/x/a.js`, require: "./evil.cjs" })],
    ["its original itself", (root) => ({ from: `${root}/project/skills/x/a.js`, require: "./own.cjs" })],
    ["a file of the workspace", (root) => ({ from: `${root}/project/a.js`, require: "./evil.cjs" })],
    ["a file of the workspace by its path", (root) => ({ require: `${root}/project/evil.cjs` })],
    ["a file of the workspace by its address", (root) => ({ import: `file://${root}/project/evil.cjs` })],
    ["one of its own pages", () => ({ require: "../notes.md" })],
    ["one of its own pages as a module", () => ({ import: "../notes.md" })],
    ["one of its own files without an extension", () => ({ require: "../plain" })],
    ["a text as a module", () => ({ import: "data:text/javascript,export const word = 'EVIL'" })],
    ["a file of its copy that is not part of the skill", () => ({ require: "../../added.cjs" })],
  ])("[Q-04] cannot load %s", async (_, what) => {
    const mark = join(temporaryFolder(), "ran");
    const { found, load } = await loading({ "own.cjs": WORD, "notes.md": evilAt(mark), plain: evilAt(mark) });
    const root = realpathSync(found.root);
    writeFiles(root, { "project/evil.cjs": evilAt(mark), "project/skills/x/evil.cjs": evilAt(mark) });
    writeFiles(root, { "project/skills/x/own.cjs": evilAt(mark) });
    const { text, isError } = await load(what(root));
    expect([isError, text]).toEqual([true, expect.stringMatching(/ imports | is imported, /)]);
    expect(existsSync(mark)).toBe(false);
  });

  it("[Q-04] loads its own modules and data, and their imports", async () => {
    const { load } = await loading({
      "own.cjs": 'exports.word = require("./deep/other.cjs").word + require("./data.json").word;\n',
      "deep/other.cjs": WORD,
      "data.json": '{ "word": " data" }',
      "zod.cjs": 'exports.word = typeof require("zod").z.string;\n',
      "late.mjs": 'export { word } from "./later.ts";\n',
      "later.ts": 'export const word: string = "later";\n',
    });
    const words = [{ require: "../own.cjs" }, { import: "../own.cjs" }, { require: "../data.json" }];
    for (const [what, word] of [
      ...words.map((one) => [one, one.require === "../data.json" ? "data" : "harmless data"] as const),
      [{ require: "../zod.cjs" }, "function"] as const,
      [{ import: "../late.mjs" }, "later"] as const,
    ]) {
      expect(await load(what)).toMatchObject({ isError: false, text: expect.stringContaining(word) });
    }
  });

  it.each([["require"], ["import"]])(
    "[Q-04] [Q-31] cannot %s a file of its copy whose bytes have changed",
    async (how) => {
      const mark = join(temporaryFolder(), "ran");
      const { found, load } = await loading({ "own.cjs": WORD, "data.json": "{}" });
      const copy = storeVerifiedCopy(await copySkill(found.skill("x")), getSkillStoreFolder(found.home));
      writeFileSync(join(copy, "own.cjs"), evilAt(mark));
      expect(await load({ [how]: "../own.cjs" })).toMatchObject({
        isError: true,
        text: expect.stringContaining("own.cjs has changed since the skill was checked"),
      });
      writeFiles(copy, { "added.cjs": evilAt(mark) });
      expect(await load({ [how]: "../added.cjs" })).toMatchObject({ isError: true });
      expect(existsSync(mark)).toBe(false);
    },
  );
});
