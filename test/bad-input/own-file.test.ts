import { linkSync, mkdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { SECRET } from "./scene.ts";

/** Texts that start like a skill without being one. */
const MANIFESTS = `---\napiVersion: v1\nkind: Secret\n---\ndata: ${SECRET}\n`;

async function scene() {
  const root = realpathSync(
    temporaryFolder({
      "skills/folder/SKILL.md": skillText("folder"),
      "skills/folder/inner/SKILL.md": skillText("inner"),
      "skills/flat.md": skillText("flat"),
      "skills/settings.yaml": "name: settings\ndescription: Reads settings.\ninstructions: Read them.\n",
      "private/manifests": MANIFESTS,
      "private/flat.md": MANIFESTS,
      "private/instructions": `instructions: ${SECRET}\n`,
      "private/key": SECRET,
    }),
  );
  const source = createDirectorySource({ path: `${root}/skills`, scope: "workspace" });
  return { root, catalog: await loadCatalog([source]) };
}

const FILES: readonly (readonly [skill: string, file: string])[] = [
  ["folder", "folder/SKILL.md"],
  ["inner", "folder/inner/SKILL.md"],
  ["flat", "flat.md"],
  ["settings", "settings.yaml"],
];
const WAYS = { symlink: symlinkSync, "hard link": linkSync };
const CASES = FILES.flatMap(([skill, file]) =>
  Object.keys(WAYS).flatMap((way) =>
    ["manifests", "instructions", "key"].map((target) => [file, way, target, skill] as const),
  ),
);

async function attempt(read: () => unknown): Promise<string> {
  try {
    return String(await read());
  } catch (error) {
    return String(error);
  }
}

describe("a skill file that another file replaces", () => {
  it.each(CASES)(
    "[Q-09] [Q-31] %s becomes a %s to %s: the target is neither read nor copied",
    async (file, way, target, name) => {
      for (const isRead of [false, true]) {
        const { root, catalog } = await scene();
        const skill = catalog.get(name);
        if (isRead) await skill.body();
        rmSync(join(root, "skills", file));
        WAYS[way as keyof typeof WAYS](join(root, "private", target), join(root, "skills", file));
        expect(await attempt(async () => await skill.body())).toContain("is not the file that was discovered");
        expect(await attempt(async () => (await copySkill(skill)).files.get("SKILL.md")?.bytes)).toContain(
          "is not the file that was discovered",
        );
      }
    },
  );

  it("[Q-09] [Q-31] a flat file is not read from a folder that replaced its own", async () => {
    const { root, catalog } = await scene();
    renameSync(join(root, "skills"), join(root, "away"));
    symlinkSync(join(root, "private"), join(root, "skills"));
    expect(await attempt(async () => await catalog.get("flat").body())).toContain(
      "is not the file that was discovered",
    );
  });

  it("[Q-09] a file that an editor replaces, or a link to one in the folder, is read in its present state", async () => {
    const { root, catalog } = await scene();
    for (const [skill, file] of FILES.slice(0, 3)) {
      writeFileSync(join(root, "draft"), skillText(skill, { body: "Anew." }));
      renameSync(join(root, "draft"), join(root, "skills", file));
      expect(await catalog.get(skill).body()).toBe("Anew.");
    }
    const folder = join(root, "skills/folder");
    writeFileSync(join(folder, "text.md"), skillText("folder", { body: "By a link." }));
    rmSync(join(folder, "SKILL.md"));
    symlinkSync("text.md", join(folder, "SKILL.md"));
    expect(await catalog.get("folder").body()).toBe("By a link.");
  });

  it("[Q-09] a link to a skill's file in another folder stays one, and a session notices when that file changes", async () => {
    const { root } = await scene();
    const shared = join(root, "private/shared.md");
    writeFileSync(shared, skillText("linked", { body: "The first." }));
    mkdirSync(join(root, "skills/linked"));
    symlinkSync(shared, join(root, "skills/linked/SKILL.md"));
    const catalog = await loadCatalog([createDirectorySource({ path: `${root}/skills`, scope: "workspace" })]);
    expect(await catalog.get("linked").body()).toBe("The first.");
    const session = openSession(catalog, { workspace: root });
    writeFileSync(shared, skillText("linked", { body: "The second, and longer." }));
    expect(await attempt(async () => await catalog.get("linked").body())).toContain(
      "is not the file that was discovered",
    );
    expect(await (await catalog.reload()).get("linked").body()).toBe("The second, and longer.");
    const loaded = await session.tools
      .find(({ name }) => name === "load_skill")
      ?.execute({ skill: "linked" }, {} as never);
    expect(JSON.stringify(loaded)).not.toContain("The first.");
  });
});
