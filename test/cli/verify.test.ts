import { appendFileSync, chmodSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, writeFiles } from "../support/folder.ts";
import { makeRepository } from "../support/repositories.ts";
import { createAddScene, repositoryOf } from "./add-scene.ts";

async function added() {
  const scene = createAddScene();
  const source = makeRepository({
    "x/SKILL.md": skillText("x"),
    "x/scripts/go.sh": "#!/bin/sh\necho one\n",
    "x/.hidden": "dot\n",
  });
  await scene.run(["add", source.url, "--yes"]);
  return { ...scene, source, at: (path: string) => join(scene.installed, "x", path) };
}

type Added = Awaited<ReturnType<typeof added>>;

describe("skillet verify", () => {
  it("reports that nothing changed, also with every byte read", async () => {
    const { run, json, installed } = await added();
    for (const args of [["verify"], ["verify"], ["verify", "--full"], ["verify", "x"]])
      expect(await run(args)).toMatchObject({ code: 0, stdout: "✓ 1 skill matches the lock file\n", stderr: "" });
    expect(await json(["verify"])).toEqual({
      skills: [{ name: "x", state: "unchanged", isEdited: false, folder: installed, isProject: false }],
      wrong: 0,
    });
  });

  it.each<[string, (scene: Added) => void, string]>([
    ["an added file", ({ at }) => writeFileSync(at("more.md"), "more\n"), "more.md was added"],
    ["an added dot file", ({ at }) => writeFileSync(at(".more"), ""), ".more was added"],
    ["a removed file", ({ at }) => rmSync(at("scripts/go.sh")), "scripts/go.sh was removed"],
    ["a removed dot file", ({ at }) => rmSync(at(".hidden")), ".hidden was removed"],
    ["a changed file", ({ at }) => appendFileSync(at("SKILL.md"), "\n"), "SKILL.md was changed"],
    [
      "a changed file of the same size",
      ({ at }) => writeFileSync(at("scripts/go.sh"), "#!/bin/sh\necho two\n"),
      "scripts/go.sh was changed",
    ],
    [
      "a file that can be run now",
      ({ at }) => chmodSync(at("scripts/go.sh"), 0o755),
      "scripts/go.sh has a different mode",
    ],
    [
      "a link in a file's place",
      ({ at }) => {
        rmSync(at("scripts/go.sh"));
        symlinkSync("../SKILL.md", at("scripts/go.sh"));
      },
      "scripts/go.sh was changed",
    ],
  ])("[Q-04] finds %s: exit 1, with the list", async (_, change, says) => {
    const scene = await added();
    await scene.run(["verify"]); // Unchanged fingerprints are not read again, but this one changed.
    change(scene);
    for (const args of [["verify"], ["verify", "--full"]]) {
      const { code, stdout } = await scene.run(args);
      expect(code).toBe(1);
      expect(stdout).toBe(
        `✗ x does not match its lock file (~/.skillet/installed)\n    ${says}\n\n1 of 1 skill differs\n` +
          "  to review the difference: skillet trust x\n" +
          "  to restore the approved version, remove its folder, then run: skillet add --frozen x\n",
      );
    }
    expect((await scene.run(["run", "x"])).code).toBe(3);
  });

  it("finds a missing and an unlisted skill, and its suggestion works", async () => {
    const { run, json, installed } = await added();
    rmSync(join(installed, "x"), { recursive: true });
    writeFiles(installed, { "y/SKILL.md": skillText("y") });
    const { code, stdout } = await run(["verify"]);
    expect(code).toBe(1);
    expect(stdout).toBe(
      "✗ x is in the lock file, but missing (~/.skillet/installed)\n" +
        "✗ y is not in skills.lock (~/.skillet/installed)\n" +
        "\n2 of 2 skills differ\n" +
        "  to restore the locked version: skillet add --frozen x\n" +
        "  skills that are not in the lock file need your approval: skillet trust NAME\n",
    );
    expect(await json(["verify"])).toMatchObject({ skills: [{ state: "missing" }, { state: "unlocked" }], wrong: 2 });
    expect((await run(["run", "y"])).code).toBe(3);
    expect((await run(["add", "--frozen", "x"])).code).toBe(0);
    expect((await run(["verify", "x"])).code).toBe(0);
  });

  it("restores the approved version, as it suggests", async () => {
    const { run, at, installed } = await added();
    writeFileSync(at("more.md"), "more\n");
    rmSync(join(installed, "x"), { recursive: true });
    expect((await run(["add", "--frozen", "x"])).code).toBe(0);
    expect(await run(["verify"])).toMatchObject({ code: 0 });
  });

  it.each<[string, (text: string) => string, RegExp]>([
    ["edited", (text) => text.replace('"mode": "644"', '"mode": "755"'), /the lock was edited/],
    ["of an unknown version", (text) => text.replace('"version": 1', '"version": 9'), /it has version 9/],
    ["no JSON", () => "{", /it is not JSON/],
  ])("[Q-04] accepts no lock that is %s, and reports it once", async (_, change, says) => {
    const { run, lock } = await added();
    writeFileSync(lock, change(readFileSync(lock, "utf8")));
    for (const args of [
      ["verify"],
      ["list", "--installed"],
      ["update"],
      ["remove", "x"],
      ["outdated"],
      ["add", "--frozen"],
    ]) {
      const { code, stdout, stderr } = await run(args);
      expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
      expect(stderr).toMatch(says);
      expect(stderr.match(/skills\.lock/g)).toHaveLength(1);
    }
    expect((await run(["run", "x"])).code).toBe(3);
  });

  it("checks the workspace too, and names --project if it is needed", async () => {
    const { run, cwd } = await added();
    await run(["add", repositoryOf("z").url, "--project", "--yes"]);
    expect((await run(["verify"])).stdout).toBe("✓ 2 skills match the lock file\n");
    rmSync(join(cwd, ".agents/skills/z"), { recursive: true });
    const { stdout } = await run(["verify"]);
    expect(stdout).toContain("✗ z is in the lock file, but missing (.agents/skills)\n");
    expect(stdout).toContain("skillet add --frozen --project z\n");
    expect((await run(["verify", "x"])).code).toBe(0);
    expect((await run(["verify", "--project"])).code).toBe(1);
    expect((await run(["verify", "nope"])).code).toBe(1);
  });

  it("explains what to do without added skills", async () => {
    const { run, json } = createAddScene();
    expect(await run(["verify"])).toMatchObject({
      code: 0,
      stderr: "no skills were added yet; add some with `skillet add SOURCE`\n",
    });
    expect(await json(["verify"])).toEqual({ skills: [], wrong: 0 });
    expect(await json(["list", "--installed"])).toEqual({ skills: [] });
  });
});
