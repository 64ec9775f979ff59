import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript, type ScriptResult } from "../../src/agent/run/run-script.ts";
import { withBody } from "../../src/skill/skill.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { type Ran, skillet } from "../support/command.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { waitFor } from "../support/wait-for.ts";

const GOOD = "#!/bin/sh\necho good\n";
const EVIL = "#!/bin/sh\necho EVIL\n";

/** A workspace's skill, trusted in its present state. */
async function trusted(files: Record<string, string>, more = "", extra: Record<string, string> = {}): Promise<Scene> {
  const own = Object.fromEntries(Object.entries(files).map(([path, text]) => [`skills/x/${path}`, text]));
  const found = await discoverIn({
    "skills/x/SKILL.md": skillText("x", { more }),
    "home/readme": "",
    ...own,
    ...extra,
  });
  const skill = found.skill("x");
  found.trust.grant([{ skill, copy: await copySkill(skill) }]);
  return found;
}

const run = async (found: Scene, script = "go"): Promise<ScriptResult> =>
  runScript(found, { skill: found.skill("x"), script });
const folderOf = (found: Scene) => join(found.workspace, "skills/x");

describe("trusted code", () => {
  it.each([
    ["a page that is declared as a script", "notes.md", "scripts: [notes.md]\n"],
    ["a page in the scripts folder", "scripts/notes.markdown", 'scripts: ["scripts/notes.markdown"]\n'],
    ["a file named like an object's prototype", "__proto__", "scripts: [__proto__]\n"],
    ["a file named like an object's property", "constructor", "scripts: [constructor]\n"],
    ["an ordinary script", "scripts/go.sh", ""],
    ["a script with a newline in its name", "scripts/a\nb.sh", ""],
  ])("[Q-04] does not run once it is changed: %s", async (_, path, more) => {
    const found = await trusted({ [path]: GOOD }, more);
    expect((await run(found, path)).stdout).toBe("good\n");
    writeFileSync(join(folderOf(found), path), EVIL);
    const again = await found.again();
    expect(await run(again, path)).toMatchObject({ stdout: "", refusals: [{ code: "changed" }] });
    // Nor when the host continues with its earlier discovery.
    expect(await run(found, path)).toMatchObject({ stdout: "", refusals: [{ code: "changed" }] });
  });

  it.each([
    ["variables", "env: [API_KEY]\n"],
    ["packages", "packages: [jq]\n"],
    ["other scripts", "scripts: [lib/other.sh]\n"],
  ])("[Q-04] does not run once its manifest asks for %s", async (_, more) => {
    const config = { "home/.skillet/config.toml": '[skills.x]\nAPI_KEY = "hunter2-hunter2"\n' };
    const found = await trusted({ "scripts/go.sh": "env\n", "lib/other.sh": GOOD }, "", config);
    writeFileSync(join(folderOf(found), "SKILL.md"), skillText("x", { more }));
    const { stdout, refusals } = await run(await found.again());
    expect([stdout, refusals.map(({ code }) => code)]).toEqual(["", ["changed"]]);
  });

  it("[Q-04] does not run with a file added, removed, made executable or added by a link", async () => {
    const changes: Record<string, (folder: string) => void> = {
      "lib.sh added": (folder) => writeFileSync(join(folder, "lib.sh"), EVIL),
      "data.txt removed": (folder) => rmSync(join(folder, "data.txt")),
      "data.txt changed": (folder) => chmodSync(join(folder, "data.txt"), 0o755),
      "more.txt added": (folder) => symlinkSync("data.txt", join(folder, "more.txt")),
      "hard.txt added": (folder) => linkSync(join(folder, "data.txt"), join(folder, "hard.txt")),
    };
    for (const [said, change] of Object.entries(changes)) {
      const found = await trusted({ "scripts/go.sh": GOOD, "data.txt": "" });
      change(folderOf(found));
      const { refusals } = await run(await found.again());
      expect(refusals).toMatchObject([{ code: "changed", message: expect.stringContaining(said) }]);
    }
  });

  it("[Q-09] is not a way to a file outside, by a link in its folder, of its folder, or of its SKILL.md", async () => {
    const outside = temporaryFolder({ secret: "TOP SECRET", "folder/secret": "TOP SECRET" });
    const script = "cat SKILL.md link/secret link out/secret 2>/dev/null; echo; ls\n";
    const linked = await trusted({ "scripts/go.sh": script });
    symlinkSync(join(outside, "secret"), join(folderOf(linked), "link"));
    symlinkSync(join(outside, "folder"), join(folderOf(linked), "out"));
    const result = await run(await linked.again());
    expect(result.stdout).not.toContain("TOP SECRET");
    expect(result.exitCode).toBe(0);

    // Swapped after discovery, before it is run: a host keeps what it discovered for long.
    for (const target of [join(outside, "secret"), "/dev/zero", join(outside, "nothing")]) {
      const found = await trusted({ "scripts/go.sh": script });
      rmSync(join(folderOf(found), "SKILL.md"));
      symlinkSync(target, join(folderOf(found), "SKILL.md"));
      const { stdout, ending, refusals } = await run(found);
      expect([stdout, ending, refusals.length]).toEqual(["", "refused", 1]);
    }
    const piped = await trusted({ "scripts/go.sh": script });
    rmSync(join(folderOf(piped), "SKILL.md"));
    expect(spawnSync("/usr/bin/mkfifo", [join(folderOf(piped), "SKILL.md")]).status).toBe(0);
    // In another process: the test is whether it waits forever.
    const waits = `import { discover } from ${JSON.stringify(moduleOf("config/discover"))};
import { copySkill } from ${JSON.stringify(moduleOf("skill/source/skill-copy"))};
import { defineSkill } from ${JSON.stringify(moduleOf("skill/define-skill"))};
const skill = defineSkill({ name: "x", description: "x", instructions: "x" });
try { await copySkill({ ...skill, body: async () => "x", files: async () => ({ files: [], findings: [] }), origin: { ...skill.origin, form: "folder", file: process.argv[1] } }); } catch (error) { console.log(error.code); }`;
    const { stdout, signal } = spawnSync(
      process.execPath,
      ["--no-warnings", "--input-type=module", "-e", waits, join(folderOf(piped), "SKILL.md")],
      { encoding: "utf8", timeout: 45_000 },
    );
    expect([signal, stdout]).toEqual([null, "resource-changed\n"]);
  });

  it("[Q-04] does not run once another process revoked the trust", async () => {
    const found = await trusted({ "scripts/go.sh": GOOD });
    expect((await run(found)).stdout).toBe("good\n");
    const other = await found.again();
    other.trust.revoke(other.trust.list().map(([place]) => place));
    // The record is read again after some milliseconds.
    await waitFor(() => found.trust.getStatus(found.skill("x")) === "untrusted");
    expect(await run(found)).toMatchObject({ stdout: "", refusals: [{ code: "untrusted" }] });
  });

  it("[Q-04] is what runs, and never a replacement", async () => {
    const found = await trusted({ "scripts/go.sh": GOOD, "scripts/go.sh.evil": EVIL });
    const script = join(folderOf(found), "scripts/go.sh");
    // A process that swaps the two, in every way there is, as fast as it can.
    const swap = `
const fs = require("node:fs");
const [script, good, evil] = process.argv.slice(1);
for (let turn = 0; ; turn++) {
  try {
    if (turn % 3 === 0) { fs.writeFileSync(script, evil); fs.writeFileSync(script, good); }
    if (turn % 3 === 1) { fs.rmSync(script); fs.symlinkSync("go.sh.evil", script); fs.rmSync(script); fs.writeFileSync(script, good); }
    if (turn % 3 === 2) { fs.writeFileSync(script + ".x", evil); fs.renameSync(script + ".x", script); fs.writeFileSync(script + ".x", good); fs.renameSync(script + ".x", script); }
  } catch {}
}`;
    const child = spawn(process.execPath, ["-e", swap, script, GOOD, EVIL], { stdio: "ignore" });
    onTestFinished(() => void child.kill("SIGKILL"));
    // The steps before a run starts, checked, then stored. Then some of them for real.
    let passed = 0;
    for (let turn = 0; turn < (IS_LONG ? 2000 : 500); turn++) {
      try {
        const copy = await copySkill(found.skill("x"));
        if (found.trust.findChanges(found.skill("x"), copy).length > 0) continue;
        passed++;
        expect(Buffer.from(copy.files.get("scripts/go.sh")?.bytes ?? []).toString()).toBe(GOOD);
      } catch (error) {
        expect(error).toHaveProperty("code", expect.stringMatching(/^resource-/));
      }
    }
    expect(passed).toBeGreaterThan(0);
    const said = new Set<string>();
    for (let turn = 0; turn < (IS_LONG ? 100 : 25); turn++) {
      said.add((await run(await found.again())).stdout);
    }
    expect([...said].filter((text) => text !== "" && text !== "good\n")).toEqual([]);
  });
});

describe("trust", () => {
  /** A workspace with one skill of another author, and the command in it. */
  function scene(files: Record<string, string> = {}, env: Record<string, string> = {}, project = "project") {
    const root = temporaryFolder({
      [`${project}/skills/x/SKILL.md`]: skillText("x"),
      [`${project}/skills/x/scripts/go.sh`]: EVIL,
      "home/readme": "",
      ...files,
    });
    const [home, cwd] = [join(root, "home"), join(root, project)];
    const call = (...args: string[]): Promise<Ran> => skillet(args, { cwd, env: { HOME: home, ...env } });
    return { root, home, cwd, call };
  }

  it.each([
    ["SKILLS_DIR, as in many profiles", { SKILLS_DIR: "skills" }],
    ["SKILLS_DIR with dots", { SKILLS_DIR: "./x/../skills/" }],
    ["CUSTOM_SKILLS_DIR", { CUSTOM_SKILLS_DIR: "skills" }],
    ["AGENT_WORKSPACE_ROOT", { AGENT_WORKSPACE_ROOT: "." }],
  ])("[Q-04] is not given to content of a workspace by %s", async (_, env) => {
    const { call } = scene({}, env);
    const { code, stdout, stderr } = await call("script", "x", "go");
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toContain("has not been trusted");
  });

  it("[Q-04] is not given by a workspace's own configuration, record or links", async () => {
    const { call, cwd, home } = scene({
      "project/.skillet/config.toml":
        '[sources.mine]\npath = "skills"\n[sandbox]\nlevel = "none"\nworkspace = "read-write"\nnetwork = ["evil.example:443"]\n[skills.x]\nnetwork = ["evil.example:443"]\nKEY = "x"\n',
    });
    const place = join(cwd, "skills/x");
    const record = { version: 1, skills: { [place]: { name: "x", digest: "sha256:", files: {}, at: "2026" } } };
    writeFiles(cwd, { ".skillet/trust.json": JSON.stringify(record), "trust.json": JSON.stringify(record) });
    mkdirSync(join(home, ".skillet/skills"), { recursive: true });
    symlinkSync(join(home, ".skillet/skills"), join(cwd, ".claude"));
    const { code, stdout } = await call("script", "x", "go");
    expect([code, stdout]).toEqual([3, ""]);
  });

  it.each(["home", "home/work", "home/.skillet/work", "home/.skillet/installed/work"])(
    "[Q-04] is not given to a workspace because it is %s",
    async (project) => {
      const { call } = scene({}, {}, project);
      const { code, stdout } = await call("script", "x", "go");
      expect([code, stdout]).toEqual([3, ""]);
    },
  );

  it("[Q-04] is by copy: a shadowed one is trusted by its own path, and no other with it", async () => {
    const { call, cwd } = scene({
      "project/.claude/skills/x/SKILL.md": skillText("x"),
      "project/.claude/skills/x/scripts/go.sh": "echo far\n",
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.sh": "echo own\n",
    });
    expect((await call("script", "x@user", "go")).stdout).toBe("own\n");
    expect((await call("script", "x@.claude/skills", "go")).code).toBe(3);
    expect((await call("trust", "--yes", "x@.claude/skills")).code).toBe(0);
    expect((await call("script", "x@.claude/skills", "go")).stdout).toBe("far\n");
    expect((await call("script", "x", "go")).code).toBe(3);
    expect((await call("trust", "--revoke", join(cwd, ".claude"))).code).toBe(0);
    expect((await call("script", "x@.claude/skills", "go")).code).toBe(3);
  });

  it("[Q-04] is by path: a folder that is a link is trusted at its real path, and its replacement is not", async () => {
    const { call, cwd, root } = scene();
    renameSync(join(cwd, "skills/x"), join(root, "real"));
    symlinkSync(join(root, "real"), join(cwd, "skills/x"));
    expect((await call("trust", "--yes", "x")).code).toBe(0);
    expect((await call("script", "x", "go")).stdout).toBe("EVIL\n");
    writeFiles(root, { "other/SKILL.md": skillText("x"), "other/scripts/go.sh": EVIL });
    rmSync(join(cwd, "skills/x"));
    symlinkSync(join(root, "other"), join(cwd, "skills/x"));
    expect((await call("script", "x", "go")).code).toBe(3);
  });

  it.each(["../../../outside.sh", "/OUT/outside.sh", "link.sh", "scripts/../../../../outside.sh", "~/outside.sh"])(
    "[Q-09] does not make %s a script of a skill",
    async (path) => {
      const root = temporaryFolder({ "outside.sh": EVIL, "home/outside.sh": EVIL });
      const declared = path.replace("/OUT", root);
      writeFiles(root, {
        "home/.skillet/skills/x/SKILL.md": skillText("x", { more: `scripts: ["${declared}"]\n` }),
      });
      symlinkSync(join(root, "outside.sh"), join(root, "home/.skillet/skills/x/link.sh"));
      const env = { HOME: join(root, "home") };
      for (const name of [declared, "outside", "outside.sh", "link"]) {
        const { code, stdout } = await skillet(["script", "x", name], { cwd: root, env });
        expect([code, stdout]).toEqual([3, ""]);
      }
    },
  );

  it("[Q-04] does not apply to a flat file, which has no code, whatever it declares", async () => {
    const { call, cwd } = scene({
      "project/skills/flat.md": skillText("flat", { more: 'scripts: ["flat.md", "x/scripts/go.sh"]\n' }),
    });
    expect((await call("trust", "--yes", join(cwd, "skills/flat.md"))).code).toBe(0);
    for (const name of ["flat.md", "flat", "x/scripts/go.sh", "go"]) {
      expect(await call("script", "flat", name)).toMatchObject({ code: 3, stdout: "" });
    }
  });

  it("[Q-23] shows no name that looks like another line or contains control sequences", async () => {
    const name = "a\n✓ trusted: nothing\x1b[2K\x1b]0;x\x07\u202e.sh";
    const { call, cwd } = scene({ [`project/skills/x/scripts/${name}`]: EVIL });
    renameSync(join(cwd, "skills/x"), join(cwd, "skills/x\nok"));
    const outputs = [await call("trust", "--yes", "x"), await call("trust", "--list")];
    writeFileSync(join(cwd, "skills/x\nok/scripts", name), GOOD);
    outputs.push(
      await call("script", "x", "go"),
      await call("trust", "--yes", "x"),
      await call("trust", "--revoke", "x"),
    );
    for (const { stdout, stderr } of outputs) {
      expect(`${stdout}${stderr}`).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
      expect(`${stdout}${stderr}`).not.toMatch(/^✓ trusted: nothing/m);
    }
  });

  it.each([
    '{"version":1,"skills":{"PLACE":{}}}',
    '{"version":1,"skills":{"PLACE":null}}',
    '{"version":1,"skills":{"PLACE":true}}',
    '{"version":1,"skills":{"PLACE":{"name":"x","digest":"sha256:x","files":null,"at":"2026"}}}',
    '{"version":1,"skills":{"PLACE":{"name":"x","digest":5,"files":{},"at":7}}}',
    '{"version":1,"skills":["PLACE"]}',
    '{"version":1,"skills":{"__proto__":{"PLACE":{"name":"x","digest":"sha256:x","files":{},"at":"2026"}}}}',
    '{"version":1,"__proto__":{"skills":{"PLACE":{"files":{}}}}}',
    '{"version":2,"skills":{"PLACE":{"name":"x","digest":"sha256:x","files":{},"at":"2026"}}}',
    "",
    "null",
    "[]",
  ])("[Q-04] is not given by an invalid record: %s", async (record) => {
    const { call, cwd, home } = scene();
    writeFiles(home, { ".skillet/trust.json": record.replaceAll("PLACE", join(cwd, "skills/x")) });
    for (const args of [
      ["script", "x", "go"],
      ["trust", "--list"],
      ["trust", "x"],
      ["trust", "--revoke", "x"],
    ]) {
      const { stdout, stderr } = await call(...args);
      expect(stderr).not.toContain("this is a bug");
      // `trust` shows the code; nothing runs it.
      expect(stdout).not.toMatch(/^EVIL/m);
    }
    expect(JSON.stringify(Object.getOwnPropertyNames(Object.prototype))).not.toContain("PLACE");
  });

  it("[Q-04] is recorded for a thousand skills and long names", async () => {
    const found = await trusted({ "scripts/go.sh": GOOD });
    const skill = found.skill("x");
    const copy = await copySkill(skill);
    const { origin } = skill;
    const many = Array.from({ length: 1000 }, (_, index) => ({
      skill: { ...withBody(skill, copy.instructions), origin: { ...origin, folder: `/${"d".repeat(200)}/${index}` } },
      copy,
    }));
    found.trust.grant(many);
    expect((await found.again()).trust.list()).toHaveLength(1001);
    expect((await run(await found.again())).stdout).toBe("good\n");
  });

  it("[Q-04] is neither lost nor restored after a revocation by concurrent writers", async () => {
    const folder = temporaryFolder({ "home/readme": "" });
    const count = IS_LONG ? 8 : 4;
    const work = `
const { createTrustStore } = await import(${JSON.stringify(moduleOf("store/trust"))});
const [home, number] = process.argv.slice(1);
const trust = createTrustStore(home, []);
const skill = (turn) => ({ name: "x", origin: { folder: "/" + number + "/" + turn }, manifest: { env: [], toolsets: [], scripts: [], metadata: {}, data: {} }, body: () => "" });
for (let turn = 0; turn < 25; turn++) {
  trust.grant([{ skill: skill(turn), copy: { digest: "sha256:x", files: new Map() } }]);
  if (turn > 0) trust.revoke(["/" + number + "/" + (turn - 1)]);
}`;
    const home = join(folder, "home/.skillet");
    const all = Array.from({ length: count }, (_, number) => {
      const args = ["--no-warnings", "--input-type=module", "-e", work, home, String(number)];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
      return new Promise<number | null>((resolve) => child.on("exit", resolve));
    });
    expect(await Promise.all(all)).toEqual(Array(count).fill(0));
    const { skills } = JSON.parse(readFileSync(join(home, "trust.json"), "utf8"));
    expect(Object.keys(skills).sort()).toEqual(Array.from({ length: count }, (_, number) => `/${number}/24`));
    expect(readdirSync(home)).toEqual(["trust.json"]);
  });
});

describe("a workspace that code may write to", () => {
  /** One of the user's own skills, in a workspace that it can write to. */
  async function ws(script: string, files: Record<string, string> = {}, prepare: (folder: string) => void = () => {}) {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.sh": `cd /workspace\n${script}\n`,
      "home/.skillet/config.toml": '[sandbox]\nworkspace = "read-write"\n',
      "notes.txt": "",
      ...files,
    });
    chmodSync(found.root, 0o755);
    prepare(found.workspace);
    spawnSync("/bin/chmod", ["-R", "a+rwX", found.workspace]);
    const result = await run(found);
    const text = (path: string) => {
      const file = join(found.workspace, path);
      return existsSync(file) && lstatSync(file).isFile() ? readFileSync(file, "utf8") : undefined;
    };
    return { found, result, text, git: gitIn(found.workspace) };
  }

  /** Programs that git would run here. */
  function gitIn(folder: string): string {
    const env = {
      PATH: "/usr/bin:/bin",
      HOME: folder,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CEILING_DIRECTORIES: join(folder, ".."),
    };
    const args = [
      "-c",
      `safe.directory=${folder}`,
      "-C",
      folder,
      "config",
      "--get-regexp",
      "core.fsmonitor|core.hookspath",
    ];
    return spawnSync("/usr/bin/git", args, { env, encoding: "utf8" }).stdout;
  }

  const CONFIG = "[core]\n\trepositoryformatversion = 0\n";
  const REPOSITORY = {
    ".git/config": CONFIG,
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/objects/x": "",
    ".git/refs/x": "",
  };
  const EVIL_CONFIG = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = evil\\n'";

  it.each([
    [
      "by renaming the parent folder",
      `mv .git .git2; mkdir -p .git/objects .git/refs; cp .git2/HEAD .git; ${EVIL_CONFIG} > .git/config`,
    ],
    ["by a folder in its place", `mkdir -p e/objects e/refs; ${EVIL_CONFIG} > e/config; echo ../e > .git/commondir`],
    [
      "in place",
      `${EVIL_CONFIG} > .git/config; echo evil > .git/hooks/pre-commit; ${EVIL_CONFIG} > .git/config.worktree`,
    ],
    [
      "by removing it",
      `rm -rf .git; mkdir -p .git/objects .git/refs; echo ref: refs/heads/main > .git/HEAD; ${EVIL_CONFIG} > .git/config`,
    ],
    [
      "by a link in its place",
      `mkdir -p e/objects e/refs; cp .git/HEAD e; ${EVIL_CONFIG} > e/config; mv .git old; ln -s e .git`,
    ],
  ])("[Q-04] cannot make git run a program: %s", async (_, script) => {
    const { git, text, found } = await ws(`${script}; true`, { ...REPOSITORY, ".git/hooks/pre-commit": "true" });
    expect([git, text(".git/config"), text(".git/hooks/pre-commit")]).toEqual(["", CONFIG, "true"]);
    expect(lstatSync(join(found.workspace, ".git")).isDirectory()).toBe(true);
  });

  it("[Q-04] cannot make git run a program without a repository, or with only a file that leads to one", async () => {
    const make = `mkdir -p e/objects e/refs; echo ref: refs/heads/main > e/HEAD; ${EVIL_CONFIG} > e/config`;
    expect((await ws(`${make}; mv e .git`)).git).toBe("");
    expect((await ws(`${make}; echo gitdir: e > .git`)).git).toBe("");
    const led = await ws(`${make}; echo gitdir: e > .git; rm -f .git; echo gitdir: e > .git`, {
      ".git": "gitdir: /nowhere\n",
    });
    expect([led.git, led.text(".git")]).toEqual(["", "gitdir: /nowhere\n"]);
  });

  it("[Q-04] cannot make git run a program in a repository below it, existing or new", async () => {
    const below = Object.fromEntries(Object.entries(REPOSITORY).map(([path, text]) => [`deep/sub/${path}`, text]));
    const script = `${EVIL_CONFIG} > deep/sub/.git/config; mkdir -p new/.git/objects new/.git/refs; cp deep/sub/.git/HEAD new/.git; ${EVIL_CONFIG} > new/.git/config`;
    const { found, result } = await ws(`${script}; true`, { ...REPOSITORY, ...below });
    expect([gitIn(join(found.workspace, "deep/sub")), gitIn(join(found.workspace, "new"))]).toEqual(["", ""]);
    expect(result.warnings).toMatchObject([{ code: "workspace-protected" }]);
  });

  it("[Q-04] cannot leave files that other programs obey under a new name, and reports them", async () => {
    const names = [
      ".claude",
      ".agents",
      ".skillet",
      ".vscode",
      ".cursor",
      ".husky",
      ".githooks",
      ".cargo",
      ".idea",
      ".devcontainer",
    ];
    const files = [".envrc", ".mcp.json", ".npmrc", ".pre-commit-config.yaml"];
    const { found, result } = await ws(
      `for n in ${names.join(" ")}; do mkdir $n; echo evil > $n/x; done; for n in ${files.join(" ")}; do echo evil > $n; done; ln -s /etc .gemini; mkfifo .codex; echo fine > fine`,
    );
    for (const name of [...names, ...files, ".gemini", ".codex"])
      expect(lstatSync(join(found.workspace, name), { throwIfNoEntry: false })).toBe(undefined);
    expect(existsSync(join(found.workspace, "fine"))).toBe(true);
    expect(result).toMatchObject({ isError: true, warnings: [{ code: "workspace-protected" }] });
  });

  it.each([
    ["a folder next to the workspace", "../tmp"],
    ["a folder of the system", "/etc"],
    ["a folder of the workspace", "sub"],
    ["nothing", "nowhere"],
  ])("[Q-09] is not a way out by a protected name that is a link to %s", async (_, target) => {
    const { result } = await ws("ls -a /tmp /workspace/.vscode; cat /tmp/secret", { "sub/x": "" }, (folder) => {
      writeFiles(join(folder, ".."), { "tmp/secret": "beside" });
      symlinkSync(target, join(folder, ".vscode"));
    });
    expect(result.stdout).not.toContain("beside");
    expect(result).toMatchObject({ ending: "refused", refusals: [{ code: "workspace-symlink" }] });
  });

  it("[Q-04] is masked in a folder whose code needs no trust, and such a folder in it is masked", async () => {
    const files = {
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.sh": "echo evil > /workspace/mine/y/scripts/go.sh; echo evil > /workspace/y\n",
      "home/.skillet/config.toml": '[sandbox]\nworkspace = "read-write"\n[sources.mine]\npath = "../../project/mine"\n',
      "mine/y/SKILL.md": skillText("y"),
      "mine/y/scripts/go.sh": GOOD,
    };
    const found = await discoverIn(files);
    spawnSync("/bin/chmod", ["-R", "a+rwX", found.root]);
    await run(found);
    expect(readFileSync(join(found.workspace, "mine/y/scripts/go.sh"), "utf8")).toBe(GOOD);
    expect(existsSync(join(found.workspace, "y"))).toBe(true);
    for (const workspace of [join(found.root, "home/.skillet/skills"), join(found.workspace, "mine")]) {
      const { refusals } = await runScript({ ...found, workspace }, { skill: found.skill("x"), script: "go" });
      expect(refusals).toMatchObject([{ code: "workspace-trusted-code" }]);
    }
  });

  it("[Q-09] contains no host file by a hard link, and passes none out", async () => {
    const { result, found } = await ws(
      'for f in /etc/passwd /usr/bin/env /skill/SKILL.md; do ln "$f" hard 2>/dev/null && echo "linked $f"; done; ln notes.txt /tmp/n 2>/dev/null && echo out; cp /bin/sh s; chmod 6755 s 2>/dev/null; mknod d b 8 0 2>/dev/null; true',
    );
    expect(result.stdout).toBe("");
    const modes = readdirSync(found.workspace).map((name) => lstatSync(join(found.workspace, name)).mode);
    expect(modes.every((mode) => (mode & 0o6000) === 0)).toBe(true);
    expect(existsSync(join(found.workspace, "d"))).toBe(false);
  });
});
