import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  createHermeticHome,
  createHomeSettings,
  type HermeticHome,
  type HermeticHomeOptions,
} from "../../../src/remote/clients/hermetic-home.ts";
import { applyFolderChange } from "../../../src/store/atomic-folder.ts";
import { skillText, temporaryFolder } from "../../support/folder.ts";
import { ORDINARY_USER } from "../../support/ordinary-user.ts";
import { moduleOf } from "../../support/program.ts";
import { catchThrown, ordinaryFolder, readTreeFiles } from "./scene.ts";

function homeIn(parent: string, options: HermeticHomeOptions = {}): HermeticHome {
  const home = createHermeticHome({ parent, ...options });
  onTestFinished(() => home.remove());
  return home;
}

const modeOf = (path: string): number => statSync(path).mode & 0o777;

describe("a hermetic home", () => {
  it("[N-20] is private and contains only settings and a folder of skills", () => {
    const parent = temporaryFolder();
    const { path, skillsDir } = homeIn(parent);
    expect(readdirSync(path, { recursive: true }).sort()).toEqual([
      ".claude",
      ".claude/settings.json",
      ".claude/skills",
    ]);
    expect(skillsDir).toBe(join(path, ".claude", "skills"));
    const [folder = ""] = readdirSync(parent);
    expect([join(parent, folder), path, join(path, ".claude"), skillsDir].map(modeOf)).toEqual([
      0o700, 0o700, 0o700, 0o700,
    ]);
    expect(modeOf(join(path, ".claude/settings.json"))).toBe(0o600);
  });

  it("[N-20] is used by programs, whatever the user's environment contains", () => {
    const { path, env } = homeIn(temporaryFolder());
    expect(env["HOME"]).toBe(path);
    expect(Object.values(env).every((value) => value === path || value.startsWith(`${path}/`))).toBe(true);
    expect(Object.keys(env)).toEqual(expect.arrayContaining(["USERPROFILE", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"]));
  });

  it("[N-20] has a sandbox, no network except the listed hosts, and read-only skills", () => {
    const { path, skillsDir } = homeIn(temporaryFolder(), { network: { allowedDomains: ["api.example.com"] } });
    const settings = JSON.parse(readFileSync(join(path, ".claude/settings.json"), "utf8"));
    expect(settings).toEqual({
      sandbox: {
        enabled: true,
        failIfUnavailable: true,
        allowUnsandboxedCommands: false,
        network: { allowedDomains: ["api.example.com"], strictAllowlist: true },
        filesystem: { denyWrite: [skillsDir, join(path, ".claude/settings.json")] },
      },
      permissions: {
        deny: [
          "Edit(~/.claude/skills/**)",
          "Edit(~/.claude/settings*.json)",
          `Edit(/${skillsDir}/**)`,
          `Edit(/${path}/.claude/settings.json)`,
        ],
      },
    });
  });

  it("[N-20] includes only the listed files", () => {
    const from = temporaryFolder({
      ".claude/.credentials.json": "secret",
      ".claude/settings.json": "theirs",
      ".netrc": "no",
    });
    const authFiles = [".claude/.credentials.json", { path: ".missing", isOptional: true }];
    const { path } = homeIn(temporaryFolder(), { from, authFiles });
    expect(Object.keys(readTreeFiles(path)).sort()).toEqual([".claude/.credentials.json", ".claude/settings.json"]);
    expect(readFileSync(join(path, ".claude/.credentials.json"), "utf8")).toBe("secret");
    expect(modeOf(join(path, ".claude/.credentials.json"))).toBe(0o600);
  });

  it("[N-20] takes no file of the current folder for one of the user when HOME is relative", () => {
    vi.stubEnv("HOME", ".");
    const { path } = homeIn(temporaryFolder(), { authFiles: [{ path: "vitest.config.ts", isOptional: true }] });
    vi.unstubAllEnvs();
    expect(Object.keys(readTreeFiles(path))).toEqual([".claude/settings.json"]);
  });

  it.for([
    [".missing", "does not exist"],
    ["../outside", "cannot be copied into the home"],
    ["/etc/passwd", "is not relative to the folder"],
    ["linked", "is a symlink that leaves the folder"],
    ["folder", "is a folder"],
    ["", "cannot be copied into the home"],
    [".claude/settings.json", "cannot be copied into the home"],
    [".Claude/Skills/a/SKILL.md", "cannot be copied into the home"],
  ])("[N-20] is not created when %j is to be included", ([path = "", why = ""]) => {
    const from = temporaryFolder({
      "folder/a": "a",
      ".claude/settings.json": "theirs",
      ".Claude/Skills/a/SKILL.md": "theirs",
    });
    symlinkSync(join(temporaryFolder({ secret: "secret" }), "secret"), join(from, "linked"));
    const parent = temporaryFolder();
    const error = catchThrown(() => createHermeticHome({ parent, from, authFiles: [path] }));
    expect(error).toMatchObject({ code: "auth-file", message: expect.stringContaining(why) });
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-20] is gone after one or two removals, even with read-only skills in it", () => {
    const parent = temporaryFolder();
    const home = createHermeticHome({ parent });
    const put = [{ name: "a", source: "inline", skillMd: skillText("a") }] as const;
    applyFolderChange({ skillsDir: home.skillsDir, items: put, isDurable: false, isReadOnly: true });
    home.remove();
    home.remove();
    {
      using second = createHermeticHome({ parent });
      expect(existsSync(second.path)).toBe(true);
    }
    expect(readdirSync(parent)).toEqual([]);
  });

  it("reports that it cannot be created", () => {
    const error = catchThrown(() => createHermeticHome({ parent: join(temporaryFolder(), "nowhere") }));
    expect(error).toMatchObject({
      code: "unwritable",
      fix: "check that the folder is writable and the disk has free space",
    });
  });
});

describe("the settings of a home", () => {
  const skillsDir = "/h/.claude/skills";

  it("accept the caller's settings, and keep those that protect the skills", () => {
    const settings = {
      model: "x",
      permissions: { allow: ["Read"], deny: ["WebFetch"] },
      sandbox: { filesystem: { denyWrite: ["/a"] } },
    };
    const sandbox = { enabled: false, excludedCommands: ["git"] };
    expect(createHomeSettings({ settings, sandbox, network: { allowLocalBinding: true } }, skillsDir)).toMatchObject({
      model: "x",
      permissions: { allow: ["Read"], deny: expect.arrayContaining(["WebFetch", "Edit(//h/.claude/skills/**)"]) },
      sandbox: {
        enabled: false,
        excludedCommands: ["git"],
        network: { allowedDomains: [], allowLocalBinding: true },
        filesystem: { denyWrite: ["/a", skillsDir, "/h/.claude/settings.json"] },
      },
    });
  });

  it("write Windows folders in the syntax of rules", () => {
    const { permissions } = createHomeSettings({}, "C:\\h\\.claude\\skills");
    expect(permissions).toMatchObject({
      deny: expect.arrayContaining(["Edit(//c/h/.claude/skills/**)", "Edit(//c/h/.claude/settings.json)"]),
    });
  });
});

describe("homes of processes that ended", () => {
  it("[N-20] are removed when they end normally, also by an error", async () => {
    for (const ending of ["", "process.exitCode = 3", "throw new Error('x')", "process.exit(1)"]) {
      const parent = temporaryFolder();
      const child = start(parent, `console.log("made"); ${ending}`);
      await once(child, "close");
      expect(readdirSync(parent)).toEqual([]);
    }
  });

  it.runIf(process.platform === "linux")("[N-20] are removed whatever an agent left in them", async () => {
    const parent = ordinaryFolder();
    const child = start(
      parent,
      `const { chmodSync, mkdirSync, writeFileSync } = await import("node:fs");
      process.chdir(home.path);
      for (let depth = 0; depth < 50; depth++) {
        mkdirSync("d".repeat(200));
        process.chdir("d".repeat(200));
      }
      writeFileSync("file", "too deep for any path");
      process.chdir(home.path);
      mkdirSync("closed/below", { recursive: true });
      chmodSync("closed", 0);
      console.log("made");`,
      ORDINARY_USER,
    );
    await once(child, "close");
    expect(child.exitCode).toBe(0);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-20] are removed after a kill by the next process that creates a home there", async () => {
    const parent = temporaryFolder();
    const [killed, living] = [start(parent, WAITING), start(parent, WAITING)];
    await Promise.all([once(killed.stdout, "data"), once(living.stdout, "data")]);
    expect(readdirSync(parent)).toHaveLength(2);
    killed.kill("SIGKILL");
    await once(killed, "close");
    expect(readdirSync(parent)).toHaveLength(2);
    homeIn(parent).remove();
    const left = readdirSync(parent);
    expect(left).toHaveLength(1);
    expect(readFileSync(join(parent, left[0] ?? "", "owner"), "utf8")).toContain(`"pid":${living.pid},`);
    living.kill("SIGKILL");
    await once(living, "close");
    homeIn(parent).remove();
    expect(readdirSync(parent)).toEqual([]);
  });

  it("are not searched behind links, in folders of others, or by other names", () => {
    const parent = temporaryFolder({ "skillet-home-notes/x": "theirs", "skillet-home-abcde1": "a file" });
    const elsewhere = temporaryFolder({ x: "theirs" });
    chmodSync(elsewhere, 0o700);
    symlinkSync(elsewhere, join(parent, "skillet-home-abcde2"));
    for (const name of ["skillet-home-abcde3", "skillet-home-abcde4"]) {
      mkdirSync(join(parent, name), { mode: 0o700 });
      writeFileSync(join(parent, name, "owner"), "nobody");
    }
    chmodSync(join(parent, "skillet-home-abcde3"), 0o777);
    if (process.getuid?.() === 0) ordinaryFolder(join(parent, "skillet-home-abcde4"));
    else chmodSync(join(parent, "skillet-home-abcde4"), 0o755);
    const before = readdirSync(parent);
    homeIn(parent).remove();
    expect(readdirSync(parent)).toEqual(before);
    expect(readTreeFiles(elsewhere)).toEqual({ x: "theirs" });
    expect(statSync(join(parent, "skillet-home-abcde4")).uid).toBe(
      process.getuid?.() === 0 ? ORDINARY_USER : process.getuid?.(),
    );
  });

  it("without an owner file count as abandoned only after a while, and when they are empty", () => {
    const parent = temporaryFolder();
    const before = new Date(Date.now() - 3_600_000);
    for (const name of ["skillet-home-young1", "skillet-home-olderX", "skillet-home-backup"]) {
      mkdirSync(join(parent, name), { mode: 0o700 });
      if (name === "skillet-home-backup") writeFileSync(join(parent, name, "x"), "theirs");
      if (name !== "skillet-home-young1") utimesSync(join(parent, name), before, before);
    }
    homeIn(parent).remove();
    expect(readdirSync(parent).sort()).toEqual(["skillet-home-backup", "skillet-home-young1"]);
  });

  it("are left to a process that is about to write its owner file", () => {
    const parent = temporaryFolder();
    mkdirSync(join(parent, "skillet-home-young1"), { mode: 0o700 });
    writeFileSync(join(parent, "skillet-home-young1/owner"), "");
    homeIn(parent).remove();
    expect(readdirSync(parent)).toEqual(["skillet-home-young1"]);
  });

  const WAITING = 'setInterval(() => {}, 1000); console.log("made")';

  function start(parent: string, then: string, uid?: number) {
    const module = moduleOf("remote/clients/hermetic-home");
    const script = `const { createHermeticHome } = await import(${JSON.stringify(module)});
      const home = createHermeticHome({ parent: ${JSON.stringify(parent)} }); ${then}`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "ignore"],
      ...(uid === undefined || process.getuid?.() !== 0 ? {} : { uid, gid: uid, cwd: "/" }),
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return child;
  }
});
