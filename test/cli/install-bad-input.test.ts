import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ordinaryFolder } from "../remote/clients/scene.ts";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { HAS_ORDINARY_USER } from "../support/ordinary-user.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

function scene(files: Record<string, string> = {}) {
  const root = temporaryFolder({
    "home/.skillet/skills/deploy/SKILL.md": skillText("deploy"),
    "home/.skillet/skills/deploy/notes.md": "First.\n",
    "project/readme": "",
    "no-skills/readme": "",
    ...files,
  });
  const [home, cwd] = [join(root, "home"), join(root, "project")];
  const env = { HOME: home, SKILLS_DIR: join(root, "no-skills") };
  const run = (args: string[], options: RunOptions = {}) =>
    skillet(args, { cwd, ...options, env: { ...env, ...options.env } });
  const own = join(home, ".skillet/skills");
  return {
    root,
    home,
    cwd,
    env,
    run,
    own,
    skills: join(home, ".claude/skills"),
    record: join(home, ".skillet/installs.json"),
  };
}

const INSTALL = ["export", "--to", "claude"];

describe("an unusual target folder", () => {
  it.skipIf(!HAS_ORDINARY_USER)(
    "[Q-12] is left unchanged when it cannot be written to, and nothing is recorded",
    async () => {
      const { root, skills, cwd, env, record } = scene({ "home/.claude/skills/readme": "" });
      ordinaryFolder(root);
      chmodSync(skills, 0o555);
      const ran = await runSkilletProcess(INSTALL, { cwd, env, isOrdinary: true });
      chmodSync(skills, 0o755);
      expect(ran.code).toBe(1);
      expect(ran.stderr).toContain('✗ Skill "deploy" cannot be installed into');
      expect(ran.stderr).toContain("permission denied");
      expect(readdirSync(skills)).toEqual(["readme"]);
      expect(JSON.parse(readFileSync(record, "utf8")).skills).toEqual({});
    },
  );

  it.skipIf(!HAS_ORDINARY_USER)(
    "[Q-12] keeps a copy that cannot be removed from it, and the record of it",
    async () => {
      const { run, root, skills, cwd, env, record } = scene();
      await run(INSTALL);
      ordinaryFolder(root);
      chmodSync(skills, 0o555);
      const ran = await runSkilletProcess(["export", "--remove", "deploy"], { cwd, env, isOrdinary: true });
      chmodSync(skills, 0o755);
      expect(ran.code).toBe(1);
      expect(ran.stderr).toContain(`✗ Skill "deploy" cannot be removed from ${skills}: permission denied`);
      expect(readdirSync(skills)).toEqual(["deploy"]);
      expect(Object.keys(JSON.parse(readFileSync(record, "utf8")).skills)).toEqual([join(skills, "deploy")]);
    },
  );

  it("is followed when it is a link of the user", async () => {
    const { run, root, home, record } = scene({ "dotfiles/skills/readme": "" });
    symlinkSync(join(root, "dotfiles"), join(home, ".claude"));
    expect((await run(INSTALL)).code).toBe(0);
    expect(readdirSync(join(root, "dotfiles/skills/deploy")).sort()).toEqual(["SKILL.md", "notes.md"]);
    expect(Object.keys(JSON.parse(readFileSync(record, "utf8")).skills)).toEqual([
      join(root, "dotfiles/skills/deploy"),
    ]);
    expect(JSON.parse((await run(["list", "--json"])).stdout).skills).toHaveLength(1);
    expect((await run(["export", "--remove", "deploy"])).code).toBe(0);
    expect(readdirSync(join(root, "dotfiles/skills"))).toEqual(["readme"]);
  });

  it("[Q-12] is not written to when a link in a workspace leads out of it", async () => {
    const { run, root, home } = scene({ "project/.claude/readme": "" });
    symlinkSync(home, join(root, "project/.claude/skills"));
    const { code, stderr } = await run([...INSTALL, "--project"]);
    expect(code).toBe(1);
    expect(stderr).toContain("leads out of the workspace");
    expect(existsSync(join(home, "deploy"))).toBe(false);
  });

  it.each([
    ["a file", (place: string) => writeFileSync(place, ""), "is not a folder"],
    ["a link to nothing", (place: string) => symlinkSync("/not/there", place), "is a broken link"],
    ["a link to itself", (place: string) => symlinkSync(place, place), "cannot be reached"],
  ])("is named when it is %s", async (_, make, says) => {
    const { run, home, skills, record } = scene({ "home/.claude/readme": "" });
    make(skills);
    const { code, stderr } = await run(INSTALL);
    expect(code).toBe(1);
    expect(stderr).toContain(join(home, ".claude/skills"));
    expect(stderr).toContain(says);
    expect(existsSync(record)).toBe(false);
    expect((await run(["export", "--remove", "--all"])).code, "the other clients have theirs").toBe(0);
  });

  it("is not created without a home folder", async () => {
    const { run, root } = scene();
    const { code, stderr } = await run(INSTALL, {
      env: { HOME: join(root, "gone"), SKILLET_HOME: join(root, "home/.skillet") },
    });
    expect(code).toBe(1);
    expect(stderr).toContain(`The home folder ${join(root, "gone")} does not exist`);
    expect(existsSync(join(root, "gone"))).toBe(false);
  });
});

describe("a skill that cannot be exported", () => {
  it("is refused alone: the others are exported", async () => {
    const { run, own, skills, root } = scene({ "secret.txt": "Not for anybody.\n" });
    writeFiles(own, {
      "login/SKILL.md": skillText("login"),
      "linked/SKILL.md": skillText("linked"),
      "piped/SKILL.md": skillText("piped"),
      "looping/SKILL.md": skillText("looping"),
      "fine/SKILL.md": skillText("fine"),
      "fine/docs/a.md": "A\n",
    });
    symlinkSync(join(root, "secret.txt"), join(own, "linked/secret.txt"));
    symlinkSync("..", join(own, "looping/above"));
    symlinkSync(".", join(own, "piped/here"));
    symlinkSync("docs", join(own, "fine/more"));
    const { code, stderr, stdout } = await run(INSTALL);
    expect(code).toBe(3);
    expect(readdirSync(skills).sort()).toEqual(["deploy", "fine"]);
    expect(readFileSync(join(skills, "fine/more/a.md"), "utf8"), "a link inside becomes its target's content").toBe(
      "A\n",
    );
    expect(stdout).toContain("+ fine    exported, 3 files");
    expect(stderr).toContain("linked/secret.txt is a symlink that leaves the skill's folder");
    expect(stderr).toContain("piped/here is a link to a folder above it");
    expect(stderr).toMatch(/"?login"?/);
    expect((await run(INSTALL)).stderr).toContain("2 unchanged");
  });

  it("[Q-12] is refused when it contains more than was checked at the trust decision", async () => {
    const files = Object.fromEntries([...Array(2001).keys()].map((n) => [`project/skills/many/f${n}.sh`, ""]));
    const { run, cwd, skills } = scene({ "project/skills/many/SKILL.md": skillText("many"), ...files });
    await run(["trust", join(cwd, "skills/many"), "--yes"]);
    const { code, stderr } = await run(INSTALL);
    expect(code).toBe(3);
    expect(stderr).toContain("✗ Skill 'many' contains more than 2000 files");
    expect(readdirSync(skills)).toEqual(["deploy"]);
  });

  it("is refused alone when it cannot be compared with the trusted state", async () => {
    const { run, cwd, skills } = scene({ "project/skills/big/SKILL.md": skillText("big") });
    await run(["trust", join(cwd, "skills/big"), "--yes"]);
    writeFileSync(join(cwd, "skills/big/blob"), "");
    truncateSync(join(cwd, "skills/big/blob"), 65 * 1024 * 1024);
    const { code, stderr } = await run(INSTALL);
    expect(code).toBe(3);
    expect(stderr).toContain('✗ The files of skill "big" are');
    expect(readdirSync(skills)).toEqual(["deploy"]);
  });

  it.runIf(process.platform === "linux")("is reported with the unreadable file and the reason", async () => {
    const { run, own } = scene();
    writeFileSync(Buffer.concat([Buffer.from(join(own, "deploy/caf")), Buffer.of(0xe9)]), "");
    const { code, stderr } = await run(INSTALL);
    expect(code).toBe(3);
    expect(stderr).toContain("deploy/caf\ufffd cannot be read: no such file or directory");
    expect(stderr).toContain("rename it: its name is not valid UTF-8");
  });
});

describe("a manipulated record of copies", () => {
  const entry = (skill: string) => ({ skill, client: "claude", source: "x", copy: "sha256:0", at: "2026" });

  it("[Q-12] leads to nothing outside the clients' folders", async () => {
    const { run, root, cwd, record, own } = scene({ "precious/a.txt": "Mine." });
    const places = [
      join(root, "precious"),
      own,
      "/",
      cwd,
      join(root, "home/.claude/skills/../../../precious"),
      "precious",
    ];
    const skills = Object.fromEntries(places.map((place) => [place, entry("precious")]));
    writeFileSync(record, JSON.stringify({ version: 1, skills }));
    expect(await run(["export", "--remove", "--all", "--force"])).toMatchObject({ code: 0, stdout: "" });
    expect((await run(["export", "--remove", "precious", "--force"])).code).toBe(1);
    expect(existsSync(join(root, "precious/a.txt"))).toBe(true);
    expect((await run(["export", "--list"])).code).toBe(0);
  });

  it("[Q-12] does not justify removing other files in a client's folder", async () => {
    const { run, skills, record } = scene({ "home/.claude/skills/mine/SKILL.md": skillText("mine") });
    writeFileSync(record, JSON.stringify({ version: 1, skills: { [join(skills, "mine")]: entry("mine") } }));
    expect((await run(["export", "--remove", "--all"])).code).toBe(3);
    expect(existsSync(join(skills, "mine/SKILL.md"))).toBe(true);
  });

  it("[Q-12] leads to nothing above a client's folder, and its content reaches no terminal unescaped", async () => {
    const { run, home, skills, record } = scene();
    await run(INSTALL);
    const odd = { ...entry("odd\x1b[2J"), client: "x\x1b]0;t\x07", source: "\x9b2J" };
    const forged = {
      [`${skills}/..`]: entry(".."),
      [join(home, ".claude")]: entry(".."),
      [join(skills, odd.skill)]: odd,
    };
    writeFileSync(record, JSON.stringify({ version: 1, skills: forged }));
    for (const args of [
      ["export", "--list"],
      ["export", "--remove", "--all", "--force"],
      ["export", "--remove", "..", "--force"],
    ]) {
      const { stdout, stderr } = await run(args);
      expect(stdout + stderr, args.join(" ")).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    }
    expect(readdirSync(join(home, ".claude"))).toEqual(["skills"]);
    expect(readdirSync(skills)).toEqual(["deploy"]);
  });

  it("stops an export when it is invalid, with the fix", async () => {
    const { run, skills, record } = scene();
    await run(INSTALL);
    writeFileSync(record, "{");
    const removals = [
      ["export", "--remove", "deploy"],
      ["export", "--remove", "nothing"],
      ["export", "--remove", "--all"],
    ];
    for (const args of [INSTALL, [...INSTALL, "--dry-run"], ["export", "--list"], ...removals]) {
      const { code, stdout, stderr } = await run(args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr.match(/fix the file, or remove it/g), "once").toHaveLength(1);
    }
    rmSync(record);
    expect((await run(INSTALL)).stdout).toContain("= deploy  unchanged");
    expect(
      JSON.parse(readFileSync(record, "utf8")).skills,
      "its content matches, so it is adopted again",
    ).toHaveProperty([join(skills, "deploy")]);
  });
});

describe("removing a copy", () => {
  it.each([
    ["is longer than any path", { "home/.claude/skills/readme": "" }, "a".repeat(300)],
    ["is looked up where a file is", { "home/.claude": "Mine." }, "other"],
  ])("reports a skill without a copy, also when its name %s", async (_, files, name) => {
    const { run } = scene(files);
    expect(await run(["export", "--remove", name])).toMatchObject({
      code: 1,
      stderr: `✗ No copy of '${name}' found  [not-exported]\n  list all copies: skillet export --list\n`,
    });
  });
});

describe("concurrent processes", () => {
  it("[Q-12] that export at the same time both succeed", async () => {
    const { cwd, env, skills, own } = scene();
    writeFiles(own, Object.fromEntries([...Array(40).keys()].map((n) => [`s${n}/SKILL.md`, skillText(`s${n}`)])));
    const all = await Promise.all([1, 2, 3].map(() => runSkilletProcess(INSTALL, { cwd, env })));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(all.map(({ stderr }) => /Claude Code: (41 \w+)/.exec(stderr)?.[1]).sort()).toEqual([
      "41 exported",
      "41 unchanged",
      "41 unchanged",
    ]);
    expect(readdirSync(skills)).toHaveLength(41);
  });

  it("[Q-12] that are killed one after the other leave a copy that does not count as edited", async () => {
    const { run, skills, own, root } = scene();
    await run(INSTALL);
    cpSync(join(skills, "deploy"), join(root, "first"), { recursive: true });
    for (const text of ["Second.", "Third.", "Fourth."]) {
      writeFileSync(join(own, "deploy/notes.md"), text);
      expect((await run(INSTALL)).stdout, text).toContain("~ deploy  updated");
      // As a process leaves it that recorded the plan and moved nothing.
      rmSync(join(skills, "deploy"), { recursive: true });
      cpSync(join(root, "first"), join(skills, "deploy"), { recursive: true });
    }
  });

  it("[N-19] that are killed at any moment leave nothing that the next one cannot repair", async () => {
    const { run, cwd, env, skills, own, record } = scene();
    const states: string[] = [];
    for (let at = 1, isOver = false; !isOver; at++) {
      await run(["export", "--remove", "--all", "--force"]);
      rmSync(skills, { recursive: true, force: true });
      writeFileSync(join(own, "deploy/notes.md"), "First.\n");
      expect((await run(INSTALL)).code).toBe(0);
      writeFileSync(join(own, "deploy/notes.md"), "Second.\n");
      writeFiles(own, { "other/SKILL.md": skillText("other") });
      const { signal } = await runSkilletProcess(INSTALL, { cwd, env, killBeforeRename: at });
      isOver = signal === null;
      // Waiting for stale locks takes longer than everything else.
      for (const lock of [`${record}.lock`, record.replace(".json", ".lock"), join(skills, ".skillet.lock")])
        rmSync(lock, { recursive: true, force: true });
      const { names, shadowed } = await listed(run);
      expect({ names, shadowed }, `after rename ${at}`).toEqual({ names: ["deploy", "other"], shadowed: 0 });
      const again = await run(INSTALL);
      states.push(/✓.*/.exec(again.stderr)?.[0] ?? "");
      expect(again.code, `after rename ${at}: ${again.stderr}`).toBe(0);
      expect(readFileSync(join(skills, "deploy/notes.md"), "utf8")).toBe("Second.\n");
      expect(readdirSync(skills).sort()).toEqual(["deploy", "other"]);
      expect((await run(["export", "--list"])).stdout.match(/up to date/g)).toHaveLength(2);
      rmSync(join(own, "other"), { recursive: true });
    }
    expect(new Set(states), "it was killed before and after").toEqual(
      new Set(["✓ Claude Code: 1 updated, 1 exported", "✓ Claude Code: 2 unchanged"]),
    );
  });

  it("export very many skills, and find all of them again", async () => {
    const { run, own, skills } = scene();
    const count = IS_LONG ? 1000 : 200;
    const names = [...Array(count).keys()].map((n) => `skill-${n}`);
    writeFiles(own, Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])));
    const { code, stderr } = await run(INSTALL);
    expect(code).toBe(0);
    expect(stderr).toContain(`✓ Claude Code: ${count + 1} exported\n`);
    expect(readdirSync(skills)).toHaveLength(count + 1);
    const list = JSON.parse((await run(["list", "--json"])).stdout).skills;
    expect(list).toHaveLength(count + 1);
    expect(new Set(list.map(({ source }: { source: string }) => source))).toEqual(new Set(["~/.skillet/skills"]));
    expect((await run(INSTALL)).stderr).toContain(`✓ Claude Code: ${count + 1} unchanged\n`);
    expect((await run(["export", "--remove", "--all"])).code).toBe(0);
    expect(existsSync(skills)).toBe(false);
  });

  it("notice an original that is replaced, and keep the copies that they wrote", async () => {
    const { run, own, skills } = scene();
    await run(INSTALL);
    renameSync(join(own, "deploy"), join(own, "moved"));
    expect((await run(INSTALL)).stdout).toContain("= deploy  unchanged");
    appendFileSync(join(own, "moved/notes.md"), "And more.\n");
    expect((await run(INSTALL)).stdout).toContain("~ deploy  updated");
    expect(readFileSync(join(skills, "deploy/notes.md"), "utf8")).toContain("And more.");
    mkdirSync(join(own, "empty"));
    expect(JSON.parse((await run(["list", "--json"])).stdout).skills).toHaveLength(1);
  });
});

async function listed(run: (args: string[]) => Promise<{ stdout: string }>) {
  const { skills, shadowed } = JSON.parse((await run(["list", "--all", "--json"])).stdout);
  return { names: skills.map(({ name }: { name: string }) => name), shadowed: shadowed.length };
}
