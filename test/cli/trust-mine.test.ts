import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { HAS_ORDINARY_USER, ORDINARY_USER } from "../support/ordinary-user.ts";
import { makeRepository } from "../support/repositories.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

const SCRIPT = "#!/bin/sh\necho one\n";
const isRoot = process.getuid?.() === 0;

/** An author's workspace with two skills. */
function scene(files: Record<string, string> = {}) {
  const root = temporaryFolder({
    "work/skills/x/SKILL.md": skillText("x"),
    "work/skills/x/scripts/go.sh": SCRIPT,
    "work/skills/y/SKILL.md": skillText("y"),
    "work/skills/y/scripts/go.sh": SCRIPT,
    "home/readme": "",
    ...files,
  });
  const [home, cwd] = [join(root, "home"), join(root, "work")];
  const run = (args: string[], options: RunOptions = {}) =>
    skillet(args, { cwd, ...options, env: { HOME: home, ...options.env } });
  return { root, home, cwd, run, script: join(cwd, "skills/x/scripts/go.sh"), skill: join(cwd, "skills/x") };
}

async function ownScene(files: Record<string, string> = {}) {
  const one = scene(files);
  expect(await one.run(["trust", "--mine", ".", "--yes"])).toMatchObject({ code: 0 });
  return one;
}

const RAN = { code: 0, stdout: expect.stringContaining("one\n") };

describe("a folder with the user's own skills", () => {
  it("leave no skill behind where the trust in it cannot be stored, so that the next try succeeds", async () => {
    const [cwd, home] = [temporaryFolder(), temporaryFolder({ ".skillet": "a file" })];
    expect(await skillet(["new", "notes"], { cwd, env: { HOME: home } })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("unwritable"),
    });
    expect(readdirSync(join(cwd, "skills"))).toEqual([]);
    rmSync(join(home, ".skillet"));
    expect(await skillet(["new", "notes"], { cwd, env: { HOME: home } })).toMatchObject({ code: 0 });
  });

  it("[Q-04] is trusted by the user alone, with the limits of that protection", async () => {
    const { run, home } = scene();
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3 });
    expect(await run(["trust", "--mine", "."])).toMatchObject({ code: 3 });
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "y";
    };
    const { code, stdout } = await run(["trust", "--mine", "."], { ask });
    expect(code).toBe(0);
    expect(stdout).toContain("2 skills: x, y");
    expect(stdout).toContain("does not protect against other programs that run as you");
    expect(asked).toEqual(["Trust the skills in . and their code as your own work? [y/N] "]);
    expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
    expect((await run(["trust", "--list"])).stdout).toMatch(/^✓ \. {2}your own since \d{4}/m);
    expect(JSON.parse((await run(["trust", "--list", "--json"])).stdout).mine).toHaveLength(1);
    expect((await run(["doctor"])).stdout).toContain("1 folder trusted as your own");
    expect(existsSync(join(home, ".skillet/own-folders.json"))).toBe(true);
  });

  it("[Q-04] keeps the trust when the author edits, adds a script, a toolset or a whole skill", async () => {
    const { run, cwd, script } = await ownScene();
    appendFileSync(script, "echo two\n");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0, stdout: expect.stringContaining("two") });
    writeFiles(cwd, {
      "skills/x/scripts/more.sh": "#!/bin/sh\necho more\n",
      "skills/z/SKILL.md": skillText("z"),
      "skills/z/scripts/go.sh": SCRIPT,
    });
    expect(await run(["script", "x", "more.sh"])).toMatchObject({ code: 0 });
    expect(await run(["script", "z", "go.sh"])).toMatchObject(RAN);
  });

  it("[Q-04] is untrusted again with --revoke, with all its skills", async () => {
    const { run, cwd } = await ownScene();
    expect(await run(["trust", "--mine", "--revoke", cwd])).toMatchObject({ code: 0 });
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3 });
    expect(await run(["trust", "--mine", "--revoke", cwd])).toMatchObject({ code: 1 });
  });

  it("[Q-04] cannot be / or the home folder, or one that others own or can write to", async () => {
    const { run, home, cwd, root } = scene();
    for (const folder of ["/", home, root, join(home, "..")])
      expect((await run(["trust", "--mine", folder, "--yes"])).stderr, folder).toContain("contains your home folder");
    expect((await run(["trust", "--mine", "nowhere", "--yes"])).stderr).toContain("No such folder");
    chmodSync(cwd, 0o775);
    expect((await run(["trust", "--mine", cwd, "--yes"])).stderr).toContain("is writable by other users");
    expect(existsSync(join(home, ".skillet/own-folders.json"))).toBe(false);
  });

  it("[Q-04] does not cover a skill with a file or folder that others can write to", async () => {
    const { run, script, skill } = await ownScene();
    chmodSync(script, 0o775);
    const refused = await run(["script", "x", "go.sh"]);
    expect(refused).toMatchObject({ code: 3 });
    expect(refused.stderr).toContain("scripts/go.sh is writable by other users");
    expect(await run(["script", "y", "go.sh"]), "another skill").toMatchObject(RAN);
    chmodSync(script, 0o755);
    chmodSync(join(skill, ".."), 0o777);
    expect(await run(["script", "x", "go.sh"]), "the parent folder").toMatchObject({ code: 3 });
    chmodSync(join(skill, ".."), 0o755);
    expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
  });

  it.runIf(isRoot)("[Q-04] does not cover a skill with a file of another user", async () => {
    const { run, script } = await ownScene();
    chownSync(script, ORDINARY_USER, ORDINARY_USER);
    const { code, stderr } = await run(["script", "x", "go.sh"]);
    expect(code).toBe(3);
    expect(stderr).toContain("scripts/go.sh belongs to another user");
  });

  it("[Q-04] does not cover the target of a symlink, in a skill or in its place", async () => {
    const { run, root, script, skill } = await ownScene();
    writeFiles(root, { "elsewhere/go.sh": "#!/bin/sh\necho evil\n" });
    rmSync(script);
    symlinkSync(join(root, "elsewhere/go.sh"), script);
    expect((await run(["script", "x", "go.sh"])).stdout).not.toContain("evil");
    expect((await run(["show", "x"])).stdout).toContain("scripts/go.sh is a symlink");
    renameSync(skill, join(root, "elsewhere/x"));
    rmSync(join(root, "elsewhere/x/scripts/go.sh"));
    renameSync(join(root, "elsewhere/go.sh"), join(root, "elsewhere/x/scripts/go.sh"));
    symlinkSync(join(root, "elsewhere/x"), skill);
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
  });
});

describe("changes by git in the user's folder", () => {
  async function gitScene() {
    const one = scene();
    const repository = makeRepository({}, one.cwd);
    repository.commit({}, "first");
    expect(await one.run(["trust", "--mine", ".", "--yes"])).toMatchObject({ code: 0 });
    return { ...one, ...repository };
  }
  const EVIL = { "skills/x/scripts/go.sh": "#!/bin/sh\necho evil\n" };

  it("[Q-04] end the trust in the skill that a pull changed, which needs approval with the diff", async () => {
    const { run, git, root, cwd } = await gitScene();
    git("clone", "--quiet", cwd, join(root, "other"));
    makeRepository({}, join(root, "other")).commit(EVIL);
    git("pull", "--quiet", join(root, "other"));
    const refused = await run(["script", "x", "go.sh"]);
    expect(refused).toMatchObject({ code: 3, stdout: "" });
    expect(refused.stderr).toContain("it changed with a later git checkout");
    expect(await run(["script", "y", "go.sh"]), "another skill").toMatchObject(RAN);
    const shown = await run(["trust", "x"]);
    expect(shown).toMatchObject({ code: 3 });
    expect(shown.stdout).toContain("-echo one\n    +echo evil");
    expect(await run(["trust", "x", "--yes"])).toMatchObject({ code: 0 });
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0, stdout: "evil\n" });
  });

  it("[Q-04] end the trust for an unfinished merge too", async () => {
    const { run, git, root, cwd, commit } = await gitScene();
    git("clone", "--quiet", cwd, join(root, "other"));
    makeRepository({}, join(root, "other")).commit({ ...EVIL, "notes.md": "theirs\n" });
    commit({ "notes.md": "mine\n" });
    git("fetch", "--quiet", join(root, "other"));
    expect(() => git("merge", "FETCH_HEAD")).toThrow();
    expect(readFileSync(join(cwd, "skills/x/scripts/go.sh"), "utf8")).toContain("evil");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
  });

  it("[Q-04] do not extend the trust to a skill that a pull added, or a repository that was cloned into it", async () => {
    const { run, git, root, cwd } = await gitScene();
    git("clone", "--quiet", cwd, join(root, "other"));
    const added = { "skills/z/SKILL.md": skillText("z"), "skills/z/scripts/go.sh": SCRIPT };
    makeRepository({}, join(root, "other")).commit(added);
    git("pull", "--quiet", join(root, "other"));
    expect(await run(["script", "z", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
    makeRepository({ "SKILL.md": skillText("w"), "scripts/go.sh": SCRIPT }, join(cwd, "skills/w"));
    const { code, stderr } = await run(["script", "w", "go.sh"]);
    expect(code).toBe(3);
    expect(stderr).toContain("in a repository that was added later");
  });

  it("[Q-04] end the trust for a squashed pull, before and after it is committed", async () => {
    const { run, git, root, cwd } = await gitScene();
    git("clone", "--quiet", cwd, join(root, "other"));
    makeRepository({}, join(root, "other")).commit(EVIL);
    git("pull", "--quiet", "--squash", join(root, "other"));
    expect(readFileSync(join(cwd, "skills/x/scripts/go.sh"), "utf8")).toContain("evil");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
    git("commit", "--quiet", "--message", "squashed");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
  });

  it("[Q-04] end the trust in a skill that a new repository replaced, in its place or around it", async () => {
    for (const at of ["skills/x", "."]) {
      const { run, cwd } = scene();
      expect(await run(["trust", "--mine", ".", "--yes"])).toMatchObject({ code: 0 });
      expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
      makeRepository({}, join(cwd, at)); // Its first commit leaves the skill unchanged.
      expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
      rmSync(join(cwd, at, ".git"), { recursive: true });
      expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
      writeFileSync(join(cwd, "skills/x/scripts/go.sh"), EVIL["skills/x/scripts/go.sh"]);
      makeRepository({}, join(cwd, at)).commit({}, "theirs");
      const { code, stderr } = await run(["script", "x", "go.sh"]);
      expect(code, at).toBe(3);
      expect(stderr).toContain("in a repository that was added later");
    }
  });

  it("[Q-04] do not extend the trust to a skill with a nested repository, whose HEAD moves independently", async () => {
    const { run, cwd } = await gitScene();
    makeRepository({ "lib.sh": "echo lib\n" }, join(cwd, "skills/x/lib"));
    const { code, stderr } = await run(["script", "x", "go.sh"]);
    expect(code).toBe(3);
    expect(stderr).toContain("lib is its own git repository");
    expect(await run(["script", "y", "go.sh"]), "another skill").toMatchObject(RAN);
  });

  it("keep the trust when the author commits the files, and over commits that do not touch the skill", async () => {
    const { run, script, commit } = await gitScene();
    appendFileSync(script, "echo two\n");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0 });
    commit();
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0 });
    commit({ "other.txt": "other\n" });
    appendFileSync(script, "echo three\n");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0, stdout: expect.stringContaining("three") });
  });
});

// Each step is a separate process.
describe.runIf(HAS_ORDINARY_USER)("changes by a run in the user's folder", { timeout: 240_000 }, () => {
  /** As an ordinary user: code of root runs as another user, who can write to nothing here. */
  async function runScene(files: Record<string, string> = {}) {
    const one = scene({
      ...files,
      "home/.skillet/config.toml": '[sandbox]\nworkspace = "read-write"\n',
      "home/.skillet/skills/writer/SKILL.md": skillText("writer"),
      "home/.skillet/skills/writer/scripts/w.sh": '#!/bin/sh\ncd /workspace && eval "$1"\n',
    });
    if (isRoot) giveAway(one.root);
    const run = (args: string[]) =>
      runSkilletProcess(args, { cwd: one.cwd, env: { HOME: one.home }, isOrdinary: true });
    expect(await run(["trust", "--mine", ".", "--yes"])).toMatchObject({ code: 0 });
    const write = (command: string) => run(["script", "writer", "w.sh", command]);
    return { ...one, run, write };
  }

  /** What a run does to each skill in its own folder. */
  const ATTACKS: Record<string, string> = {
    changed: "echo 'echo evil' >> scripts/go.sh",
    added: "printf '#!/bin/sh\\necho evil\\n' > scripts/more.sh",
    linked: "printf 'echo evil\\n' > ../evil.sh; rm scripts/go.sh; ln -s ../../evil.sh scripts/go.sh",
    "same-times": "touch -r scripts/go.sh ../t; echo 'echo evil' >> scripts/go.sh; touch -r ../t scripts/go.sh",
    replaced: "cd ..; cp -r replaced new; echo 'echo evil' >> new/scripts/go.sh; mv replaced old; mv new replaced",
    "with-tools": `mkdir toolsets; echo 'export const Evil = {};' > toolsets/index.ts; sed -i 's/^name:/toolsets: ["index:Evil"]\\nname:/' SKILL.md`,
    "with-hook": "sed -i 's/^name:/hooks: {Stop: [{command: evil}]}\\nname:/' SKILL.md",
  };

  it("[Q-04] end the trust: a script changed or added, a symlink swapped in, a toolset or a hook added", async () => {
    const names = Object.keys(ATTACKS);
    const skills = names.flatMap((name) => [
      [`work/skills/${name}/SKILL.md`, skillText(name)],
      [`work/skills/${name}/scripts/go.sh`, SCRIPT],
    ]);
    const { run, write, home, skill } = await runScene(Object.fromEntries(skills));
    const standing = async () => {
      const all: { name: string; trust: string }[] = JSON.parse((await run(["list", "--all", "--json"])).stdout).skills;
      return Object.fromEntries([...names, "x"].map((name) => [name, all.find((one) => one.name === name)?.trust]));
    };
    expect(new Set(Object.values(await standing()))).toEqual(new Set(["trusted"]));
    const made = `mkdir skills/made; cp -r skills/y/scripts skills/made/; sed 's/^name: y/name: made/' skills/y/SKILL.md > skills/made/SKILL.md`;
    await write([...names.map((name) => `(cd skills/${name}; ${ATTACKS[name]})`), made].join("; "));
    // Files that other programs obey are held first. Approving them approves the change, but not the code.
    const held = readdirSync(join(home, ".skillet/held")).find((name) => name.startsWith("held-")) ?? "";
    expect(await run(["approve", held, "--yes"])).toMatchObject({ code: 0 });
    expect(readFileSync(join(skill, "../with-tools/SKILL.md"), "utf8")).toContain("toolsets:");
    expect(readFileSync(join(skill, "../with-hook/SKILL.md"), "utf8")).toContain("hooks:");
    expect(await standing()).toEqual({ ...Object.fromEntries(names.map((name) => [name, "untrusted"])), x: "trusted" });
    for (const [name, script] of [
      ["changed", "go.sh"],
      ["added", "more.sh"],
      ["made", "go.sh"],
    ] as const)
      expect(await run(["script", name, script]), name).toMatchObject({ code: 3, stdout: "" });
    expect(await run(["script", "x", "go.sh"]), "another skill").toMatchObject(RAN);
  });

  it("[Q-04] are noticed after the watching process was killed", async () => {
    const { run, home, script, cwd } = await runScene();
    const watches = join(home, ".skillet/own-watches");
    // As a process leaves it that is killed while a command runs.
    const { createOwnFolderWatches } = await import("../../src/store/own-folders.ts");
    createOwnFolderWatches(join(home, ".skillet")).begin([cwd]);
    for (const name of readdirSync(watches)) {
      if (name.endsWith(".owner")) writeFileSync(join(watches, name), '{"pid":999999999,"host":"","start":""}');
    }
    if (isRoot) giveAway(home);
    const owner = readdirSync(watches).find((name) => name.endsWith(".owner")) ?? "";
    rmSync(join(watches, owner));
    appendFileSync(script, "echo evil\n");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
    expect(readdirSync(watches)).toEqual([]);
    expect(await run(["script", "y", "go.sh"])).toMatchObject(RAN);
  });

  it("need approval with the diff, which keeps the trust over later edits", async () => {
    const { run, write, script } = await runScene();
    expect(await run(["script", "x", "go.sh"])).toMatchObject(RAN);
    await write("echo 'echo two' >> skills/x/scripts/go.sh");
    expect((await run(["trust", "x"])).stdout).toContain("     echo one\n    +echo two");
    expect(await run(["trust", "x", "--yes"])).toMatchObject({ code: 0 });
    appendFileSync(script, "echo three\n");
    expect(await run(["script", "x", "go.sh"])).toMatchObject({ code: 0, stdout: expect.stringContaining("three") });
  });

  function giveAway(folder: string): void {
    for (const path of ["", ...readdirSync(folder, { recursive: true, encoding: "utf8" })])
      chownSync(join(folder, path), ORDINARY_USER, ORDINARY_USER);
    chmodSync(folder, 0o755);
  }
});

it("[Q-04] an update of skillet ends the trust in the skill that it wrote", async () => {
  const { run, home, cwd } = scene();
  const repository = makeRepository({ "x/SKILL.md": skillText("x"), "x/scripts/go.sh": SCRIPT });
  expect(await run(["add", repository.url, "x", "--project", "--yes"])).toMatchObject({ code: 0 });
  const agents = join(cwd, ".agents/skills");
  mkdirSync(agents, { recursive: true });
  expect(await run(["trust", "--mine", agents, "--yes"])).toMatchObject({ code: 0 });
  const record = join(home, ".skillet/trust.json");
  rmSync(record); // It is trusted as the user's own work alone.
  expect(await run(["script", "x@.agents/skills", "go.sh"])).toMatchObject(RAN);
  repository.commit({ "x/scripts/go.sh": "#!/bin/sh\necho newer\n" });
  expect(await run(["update", "x", "--project", "--yes"])).toMatchObject({ code: 0 });
  const { skills } = JSON.parse(readFileSync(join(home, ".skillet/own-changes.json"), "utf8"));
  expect(skills[join(agents, "x")]).toMatchObject({ why: "update" });
  expect(await run(["script", "x@.agents/skills", "go.sh"])).toMatchObject({ code: 3, stdout: "" });
  expect((await run(["trust", "x@.agents/skills"])).stdout).toContain("-echo one\n    +echo newer");
});
