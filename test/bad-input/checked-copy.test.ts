import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  listPublishedFiles,
  publishManifest,
  readPublishedFile,
} from "../../src/adapters/mcp-server/published-skill.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { exportSkill } from "../../src/remote/clients/export-skill.ts";
import type { Skill } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { copySkill, withCurrentFiles } from "../../src/skill/source/skill-copy.ts";
import { getExpectedFolder, listSkillFiles, readSkillFile } from "../../src/skill/source/skill-files.ts";
import { copyFolderTree, hashSkillCopy } from "../../src/store/folder-copy.ts";
import { statFolderId } from "../../src/util/safe-path.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { startModelServer } from "../support/model-server.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";
import { modelConfig } from "../support/use.ts";
import { SECRET } from "./scene.ts";
import { startSwapping } from "./swap.ts";

/** A skill three folders deep, and folders with a secret where a link in place of one of them would find it. */
async function scene() {
  const root = realpathSync(
    temporaryFolder({
      "a/b/skills/odd/SKILL.md": skillText("odd"),
      "a/b/skills/odd/key": "harmless",
      "a/b/skills/odd/deep/key": "harmless",
      "private/SKILL.md": skillText("odd", { body: SECRET }),
      "private/key": SECRET,
      "private/deep/key": SECRET,
      "private/name-of-secret": SECRET,
    }),
  );
  for (const place of ["odd", "skills/odd", "b/skills/odd"]) {
    mkdirSync(join(root, "elsewhere", dirname(place)), { recursive: true });
    cpSync(join(root, "private"), join(root, "elsewhere", place), { recursive: true });
  }
  const source = createDirectorySource({ path: `${root}/a`, recursive: true });
  const catalog = await loadCatalog([source]);
  return { root, catalog, skill: catalog.get("odd"), folder: join(root, "a/b/skills/odd") };
}

/** The folder that is swapped for a link, and the link's target. */
const SWAPS: readonly (readonly [what: string, place: string, target: string])[] = [
  ["its folder", "a/b/skills/odd", "elsewhere/odd"],
  ["its folder, for one without a skill", "a/b/skills/odd", "private/deep"],
  ["the folder of skills", "a/b/skills", "elsewhere"],
  ["a parent folder of that", "a/b", "elsewhere"],
];

function swap(root: string, place: string, target: string): void {
  renameSync(join(root, place), join(root, "away"));
  symlinkSync(join(root, target), join(root, place));
}

/** Every function that reads a skill's files from disk, as text. */
const READERS: Readonly<Record<string, (skill: Skill, root: string) => unknown>> = {
  "a file": async (skill) => Buffer.from(await skill.read("key")).toString(),
  "a file below": async (skill) => Buffer.from(await skill.read("deep/key")).toString(),
  "its instructions": async (skill) => await skill.body(),
  "the list of its files": async (skill) => JSON.stringify(await (await withCurrentFiles(skill)).files()),
  "a copy": async (skill) =>
    [...(await copySkill(skill)).files.values()].map(({ bytes }) => Buffer.from(bytes).toString()).join(),
  "a copy of the current files": async (skill) =>
    [...(await copySkill(await withCurrentFiles(skill))).files.values()]
      .map(({ bytes }) => Buffer.from(bytes).toString())
      .join(),
  "its examples": (skill) => skill.examples().join(),
  "a published file": (skill) => String(readPublishedFile(skill, "key")),
  "the published files": (skill) => JSON.stringify(listPublishedFiles(skill)),
  "the published SKILL.md": async (skill) => String((await publishManifest(skill, "odd"))?.bytes),
  "an export": async (skill, root) => {
    const path = join(root, "out");
    await exportSkill({ skill, format: "agent-plugin", path });
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
      .join();
  },
  "a client's copy": async (skill, root) => {
    await hashSkillCopy(skill, "");
    const written = copyFolderTree({
      ...{ folder: skill.origin.folder ?? "", expected: getExpectedFolder(skill.origin), links: "inside" },
      ...{ to: join(root, "to"), target: join(root, "to"), isReadOnly: false },
    });
    return written.filter((path) => /key$/.test(path)).map((path) => readFileSync(path, "utf8"));
  },
};

async function attempt(read: () => unknown): Promise<string> {
  try {
    return String(await read());
  } catch (error) {
    return String(error);
  }
}

describe("a skill folder that another folder replaces", () => {
  it.each(
    SWAPS.flatMap(([what, place, target]) =>
      Object.keys(READERS).map((reader) => [what, reader, place, target] as const),
    ),
  )("[Q-09] [Q-31] %s is swapped: %s never returns the other folder's content", async (_, reader, place, target) => {
    const { root, skill } = await scene();
    await skill.files();
    swap(root, place, target);
    const given = await attempt(() => READERS[reader]?.(skill, root));
    expect(given).not.toContain(SECRET);
    expect(given).not.toContain("name-of-secret");
  });

  it("[Q-09] is not read by its path when a link above it already led to another folder at discovery", async () => {
    const { root, skill, folder } = await scene();
    swap(root, "a/b/skills", "elsewhere");
    const origin = { ...skill.origin, folderId: statFolderId(folder) ?? "" };
    expect(origin.folderId).not.toBe(skill.origin.folderId);
    expect(readSkillFile(origin, "key")).toMatchObject({ code: "changed" });
    expect(listSkillFiles(origin).files).toEqual([]);
  });

  it.each(SWAPS)("[Q-09] %s is swapped before anything was read", async (_, place, target) => {
    const { root, skill } = await scene();
    swap(root, place, target);
    for (const read of Object.values(READERS)) expect(await attempt(() => read(skill, root))).not.toContain(SECRET);
  });

  it.each(SWAPS)(
    "[Q-09] [Q-31] %s is swapped: no tool of a session quotes the other folder",
    async (_, place, target) => {
      const { root, catalog } = await scene();
      const session = openSession(catalog, { workspace: root });
      expect((await session.call("read_skill_resource", { skill: "odd", resource: "key" })).text).toContain("harmless");
      swap(root, place, target);
      const read = await session.call("read_skill_resource", { skill: "odd", resource: "key" });
      // A link to a whole skill is found and read as that skill: it is another one.
      if (!target.startsWith("elsewhere")) expect(read).toMatchObject({ isError: true });
      if (!target.startsWith("elsewhere")) expect(read.text).not.toContain(SECRET);
    },
  );

  it.each(SWAPS.slice(0, 3))(
    "[Q-09] %s is swapped all the time: every read returns its own bytes or none",
    async (_, place) => {
      const { root, skill } = await scene();
      await skill.files();
      renameSync(join(root, place), join(root, "away"));
      symlinkSync(join(root, "away"), join(root, place));
      const below = place === "a/b/skills/odd" ? "private" : "elsewhere";
      const swapped = await startSwapping(join(root, place), join(root, "away"), join(root, below));
      let looks = 0;
      while (swapped.goesOn(true)) {
        looks++;
        for (const path of ["key", "deep/key"])
          expect(await attempt(async () => Buffer.from(await skill.read(path)).toString())).not.toContain(SECRET);
        expect(await attempt(async () => JSON.stringify((await await withCurrentFiles(skill)).files()))).not.toContain(
          "name-of-secret",
        );
      }
      expect(looks).toBeGreaterThan(0);
    },
  );

  it("[Q-09] a recreated folder is read after the next discovery, and by a session at once", async () => {
    const { catalog, skill, folder, root } = await scene();
    const session = openSession(catalog, { workspace: root });
    rmSync(folder, { recursive: true });
    mkdirSync(join(root, "held")); // This keeps its inode from being reused for the next folder.
    writeFiles(folder, { "SKILL.md": skillText("odd"), key: "created again" });
    if (skill.origin.folderId !== (await catalog.reload()).get("odd").origin.folderId)
      await expect(async () => await skill.read("key")).rejects.toThrow(
        expect.objectContaining({ code: "resource-changed" }),
      );
    expect(Buffer.from(await (await catalog.reload()).get("odd").read("key")).toString()).toBe("created again");
    expect((await session.call("read_skill_resource", { skill: "odd", resource: "key" })).text).toContain(
      "created again",
    );
  });

  it("[Q-09] files that an editor replaces are read in their present state, and a skill that is a link stays one", async () => {
    const { root, skill, folder } = await scene();
    writeFileSync(`${folder}/key.new`, "edited");
    renameSync(`${folder}/key.new`, `${folder}/key`);
    expect(Buffer.from(await skill.read("key")).toString()).toBe("edited");
    mkdirSync(`${root}/linked`);
    symlinkSync(folder, `${root}/linked/odd`);
    const linked = (await loadCatalog([createDirectorySource({ path: `${root}/linked` })])).get("odd");
    expect(Buffer.from(await linked.read("key")).toString()).toBe("edited");
    expect((await copySkill(linked)).files.size).toBe(3);
  });
});

describe.each([
  ["root", false],
  ["an ordinary user", true],
] as const)("a run of %s", (_, isOrdinary) => {
  it("[Q-09] [Q-31] reads its skill's files as they were checked, wherever its folder leads now", async () => {
    let project = "";
    const server = await startModelServer("openai", [
      () => {
        // As another program in the workspace does: changes by the run itself to a skill's folder are held.
        renameSync(join(project, "skills/r"), join(project, "skills/old"));
        symlinkSync("../secrets", join(project, "skills/r"));
        return [{ tool: "bash", input: { command: "ls /workspace/skills/r/" } }];
      },
      () => [{ tool: "read_skill_resource", input: { resource: "id_ed25519" } }],
      () => [{ tool: "complete", input: { result: "done" } }],
    ]);
    const root = realpathSync(
      temporaryFolder({
        "home/.skillet/config.toml": modelConfig("openai", server),
        "project/skills/r/SKILL.md": skillText("r", { more: "allowed-tools: Bash\n" }),
        "project/skills/r/id_ed25519": "harmless",
        "project/secrets/id_ed25519": SECRET,
      }),
    );
    project = join(root, "project");
    handOver(root, isOrdinary);
    const starting = { cwd: project, env: { HOME: join(root, "home") }, isOrdinary };
    expect(await runSkilletProcess(["trust", "r", "--yes"], starting)).toMatchObject({ code: 0 });
    const ran = await runSkilletProcess(["run", "r", "go", "--json"], starting);
    expect(ran).toMatchObject({ code: 0 });
    const [, moved, read] = server.requests.map(({ results }) => results.at(-1)?.content ?? "");
    expect(existsSync(join(root, "project/skills/old"))).toBe(true);
    expect(moved).toContain("id_ed25519");
    expect(read).toContain("harmless");
    expect(JSON.stringify([server.requests, ran])).not.toContain(SECRET);
  });
});

/** Changes the owner of everything in it. */
function handOver(root: string, isOrdinary: boolean): void {
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).map((path) => join(root, path));
  for (const path of [root, ...files]) {
    if (isOrdinary && process.getuid?.() === 0) chownSync(path, ORDINARY_USER, ORDINARY_USER);
    else if (path.includes("/project")) chmodSync(path, 0o777);
  }
  chmodSync(root, 0o755);
  chmodSync(join(root, "home/.skillet/config.toml"), 0o600);
}

describe("a file with a second hard link", () => {
  const FINDING = { code: "hard-link-outside", message: expect.stringContaining('"key" is a hard link') };

  async function linked(own: string, more: Record<string, string> = {}) {
    const found = await discoverIn({ [`${own}/SKILL.md`]: skillText("x"), "home/private/key": SECRET, ...more });
    const base = own.startsWith("home/") ? found.root : join(found.root, "project");
    const folder = join(base, own);
    linkSync(join(found.root, "home/private/key"), join(folder, "key"));
    return { found: await found.again(), folder };
  }

  it("[Q-09] outside is not a file of a workspace's skill, and that is reported", async () => {
    const { found } = await linked("skills/x");
    const skill = found.skill("x");
    expect(await skill.files()).toEqual({ files: [], findings: [FINDING] });
    await expect(async () => await skill.read("key")).rejects.toThrow(
      expect.objectContaining({ code: "resource-unlisted" }),
    );
    expect([...(await copySkill(skill)).files.keys()]).toEqual(["SKILL.md"]);
    await expect(async () => await hashSkillCopy(skill, "")).rejects.toThrow(
      expect.objectContaining({ code: "not-copied" }),
    );
    const path = join(found.root, "x.zip");
    const { omitted } = await exportSkill({ skill, format: "skill-zip", path });
    expect(omitted).toEqual([expect.stringContaining("hard link")]);
    expect(readFileSync(path).includes(SECRET)).toBe(false);
  });

  it.each([
    ["root", false],
    ["an ordinary user", true],
  ])("[Q-09] outside is not shown to %s", async (_, isOrdinary) => {
    const { found } = await linked("skills/x", { "home/.skillet/config.toml": "" });
    handOver(found.root, isOrdinary);
    const starting = { cwd: join(found.root, "project"), env: { HOME: join(found.root, "home") }, isOrdinary };
    const shown = await runSkilletProcess(["show", "x"], starting);
    expect(shown.stdout).toContain("hard-link-outside");
    const file = await runSkilletProcess(["show", "x", "key"], starting);
    expect(file).toMatchObject({ code: 1, stderr: expect.stringContaining("has no file") });
    expect(file.stdout).not.toContain(SECRET);
  });

  it("[Q-09] outside is not read when it replaces a listed file either", async () => {
    const found = await discoverIn({
      "skills/x/SKILL.md": skillText("x"),
      "skills/x/key": "harmless",
      "home/key": SECRET,
    });
    const skill = found.skill("x");
    expect((await skill.files()).files).toHaveLength(1);
    const folder = join(found.root, "project/skills/x");
    rmSync(join(folder, "key"));
    linkSync(join(found.root, "home/key"), join(folder, "key"));
    await expect(async () => await skill.read("key")).rejects.toThrow(
      expect.objectContaining({ code: "resource-outside" }),
    );
    expect(String(readPublishedFile(skill, "key"))).not.toContain(SECRET);
    await expect(async () => await copySkill(skill)).rejects.toThrow(
      expect.objectContaining({ code: "resource-outside" }),
    );
  });

  it("[Q-09, Q-31] outside is not a skill of a workspace in any form, and that is reported", async () => {
    const NOTES = "---\nname: x\ndescription: Private notes. Use when asked.\n---\nsecret notes\n";
    const found = await discoverIn({
      "skills/y/SKILL.md": skillText("y"),
      "home/notes.md": NOTES,
      "home/.skillet/skills/z/readme.txt": "",
    });
    const at = (path: string) => join(found.root, path);
    mkdirSync(at("project/skills/x/deep"), { recursive: true });
    linkSync(at("home/notes.md"), at("project/skills/x/SKILL.md"));
    linkSync(at("home/notes.md"), at("project/skills/flat.md"));
    linkSync(at("home/notes.md"), at("home/.skillet/skills/z/SKILL.md"));
    // The first pass reads the file, the second one takes it from the index.
    for (const again of [await found.again(), await found.again()]) {
      expect(again.catalog.skills.map(({ name, origin }) => [name, origin.scope])).toEqual(
        expect.arrayContaining([
          ["x", "user"],
          ["y", "workspace"],
        ]),
      );
      const refused = again.catalog.diagnostics.filter(({ code }) => code === "skill-file-hard-link");
      expect(refused.map(({ file }) => file)).toEqual([at("project/skills/flat.md"), at("project/skills/x/SKILL.md")]);
      expect(JSON.stringify(refused)).not.toMatch(/Private|secret/);
    }
    // A file that was read by its only name, and has a second one now.
    linkSync(at("project/skills/y/SKILL.md"), at("project/other"));
    expect((await found.again()).catalog.find("y")).toBe(undefined);
    rmSync(at("project/other"));
    linkSync(at("project/skills/y/SKILL.md"), at("project/skills/y/again.md"));
    const skill = (await found.again()).skill("y");
    expect(await skill.files()).toMatchObject({ files: [{ path: "again.md" }], findings: [] });
  });

  it("[Q-09] in the same skill is one of its files, as is any in the user's own folders", async () => {
    const found = await discoverIn({ "skills/x/SKILL.md": skillText("x"), "skills/x/key": "harmless" });
    const folder = join(found.root, "project/skills/x");
    mkdirSync(join(folder, "deep"));
    linkSync(join(folder, "key"), join(folder, "deep/again"));
    const skill = (await found.again()).skill("x");
    expect((await skill.files()).files.map(({ path }) => path)).toEqual(["deep/again", "key"]);
    expect(Buffer.from(await skill.read("deep/again")).toString()).toBe("harmless");
    for (const own of ["home/.skillet/skills/x", "home/.skillet/installed/x", "home/.agent/skills/x"]) {
      const { found: other } = await linked(own);
      expect(await other.skill("x").files()).toMatchObject({ files: [{ path: "key" }], findings: [] });
    }
  });
});
