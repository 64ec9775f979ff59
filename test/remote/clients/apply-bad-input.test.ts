import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  applyFolderChange,
  type FolderChange,
  type FolderItem,
  SkillInstallationError,
} from "../../../src/store/atomic-folder.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { runApply } from "./applying.ts";
import { makePipe } from "./pipe.ts";
import { catchThrown, ordinaryFolder, readTreeFiles } from "./scene.ts";

const FILES = { "SKILL.md": skillText("bad") };

/** The skill `first` can be written, and `bad` cannot; nothing may remain of either. */
function failing(folder: string, skillsDir = join(temporaryFolder(), "skills")): SkillInstallationError {
  const before = existsSync(skillsDir) && readdirSync(skillsDir);
  const error = catchThrown(() => applyFolderChange({ ...both(skillsDir, { folder }), isDurable: false }));
  expect(existsSync(skillsDir) && readdirSync(skillsDir)).toEqual(before);
  expect(error).toBeInstanceOf(SkillInstallationError);
  expect(error).toMatchObject({ skillName: "bad", source: "ref", skillsDir });
  expect(error.cause).toBeInstanceOf(Error);
  return error;
}

function both(skillsDir: string, bad: Partial<FolderItem>): FolderChange {
  const put: FolderItem[] = [
    { name: "first", source: "inline", skillMd: skillText("first") },
    { name: "bad", source: "ref", ...bad },
  ];
  return { skillsDir, items: put, isDurable: true };
}

/** A full disk: a small one of that process if possible, otherwise a limit on the size of files. */
const FULL = smallDisk();

function smallDisk(): { title: string; why: string; wrap(place: string): string[] } {
  const unshare = ["/usr/bin/unshare", process.getuid?.() === 0 ? "-m" : "-Urm", "sh", "-c"];
  const mount = 'mount -t tmpfs -o size=256k tmpfs "$1" && shift && exec "$@"';
  const [program = "", ...args] = [...unshare, mount, "sh", tmpdir(), "true"];
  if (spawnSync(program, args).status === 0) {
    return { title: "a small one", why: "no space left", wrap: (place) => [...unshare, mount, "sh", place] };
  }
  const limit = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
  return { title: "a limit on the size of files", why: "file too large", wrap: () => ["sh", "-c", limit, "sh"] };
}

describe("[N-19] an apply that cannot copy a folder leaves nothing", () => {
  it("[Q-12] is written to no other folder that a link above leads to meanwhile", async () => {
    const root = temporaryFolder({ "w/.claude/skills/own.txt": "", "outside/skills/other.txt": "" });
    const skillsDir = join(root, "w/.claude/skills");
    const { error } = await runApply({
      application: {
        skillsDir,
        items: [{ name: "first", source: "inline", skillMd: skillText("first") }],
        isDurable: false,
      },
      swapAfterPath: { place: join(root, "w/.claude"), target: join(root, "outside") },
    });
    expect(error?.cause).toContain("the folder was replaced by a link to");
    expect(readdirSync(join(root, "outside/skills"))).toEqual(["other.txt"]);
    expect(readdirSync(join(root, "w/.claude.away/skills"))).toEqual(["own.txt"]);
  });

  it("for a missing folder", () => {
    expect(failing("/nowhere/at/all").message).toContain("its folder cannot be read: it does not exist");
  });

  it("for a folder that is deleted during the copy", () => {
    const folder = temporaryFolder({ ...FILES, "a.txt": "a", "docs/b.txt": "b" });
    const skillsDir = temporaryFolder();
    const omit = (): boolean => {
      rmSync(folder, { recursive: true, force: true });
      return false;
    };
    const error = catchThrown(() => applyFolderChange({ ...both(skillsDir, { folder, omit }), isDurable: false }));
    expect(error.message).toMatch(/cannot be read/);
    expect(readdirSync(skillsDir)).toEqual([]);
  });

  it("for a file in place of a folder", () => {
    expect(failing(join(temporaryFolder(FILES), "SKILL.md")).message).toContain("not a directory");
  });

  it("for a folder without a SKILL.md", () => {
    expect(failing(temporaryFolder({ "a.txt": "a" })).message).toContain("its folder holds no SKILL.md");
  });

  it("for endless links", () => {
    const folder = temporaryFolder(FILES);
    symlinkSync("b", join(folder, "a"));
    symlinkSync("a", join(folder, "b"));
    expect(failing(folder).message).toMatch(/"[ab]" cannot be read: it is an endless chain of links/);
  });

  it("for a link to a parent folder", () => {
    const folder = temporaryFolder({ ...FILES, "docs/a.txt": "a" });
    symlinkSync("..", join(folder, "docs", "up"));
    expect(failing(folder).message).toContain(
      '"docs/up" is a link to a folder that contains it, so the tree has no end',
    );
  });

  it("for links that make many paths from few folders", () => {
    const folder = temporaryFolder(FILES);
    for (let level = 0; level < 12; level++) {
      mkdirSync(join(folder, `level${level}`));
      for (const name of ["x", "y"]) symlinkSync(`../level${level + 1}`, join(folder, `level${level}`, name));
    }
    mkdirSync(join(folder, "level12"));
    expect(failing(folder).message).toContain("holds more than 2000 folders");
  });

  it("for a dangling link", () => {
    const folder = temporaryFolder(FILES);
    symlinkSync("nowhere", join(folder, "a"));
    expect(failing(folder).message).toContain('"a" cannot be read: it does not exist, or is a broken link');
  });

  it.runIf(process.platform !== "win32")("for a pipe, a socket or a device", async () => {
    const withPipe = temporaryFolder(FILES);
    makePipe(join(withPipe, "pipe"));
    expect(failing(withPipe).message).toContain('"pipe" is a pipe, a socket or a device, not a file');
    const withSocket = temporaryFolder(FILES);
    const server = createServer().listen(join(withSocket, "socket"));
    await new Promise((resolve) => server.on("listening", resolve));
    expect(failing(withSocket).message).toContain('"socket" is a pipe');
    server.close();
    const withDevice = temporaryFolder(FILES);
    symlinkSync("/dev/zero", join(withDevice, "zero"));
    expect(failing(withDevice).message).toContain('"zero" is a pipe');
  });

  it("for an unreadable file or folder", async () => {
    for (const secret of ["secret.txt", "docs"]) {
      const place = temporaryFolder();
      chmodSync(place, 0o755);
      writeFiles(place, {
        "from/SKILL.md": skillText("bad"),
        "from/secret.txt": "x",
        "from/docs/a.txt": "a",
        "to/.keep": "",
      });
      ordinaryFolder(join(place, "to"));
      chmodSync(join(place, "from", secret), 0o000);
      const application = both(join(place, "to"), { folder: join(place, "from") });
      const { error } = await runApply({ application }, { isOrdinary: true });
      chmodSync(join(place, "from", secret), 0o700);
      expect(error?.message).toContain(`"${secret}" cannot be read: permission denied`);
      expect(readdirSync(join(place, "to"))).toEqual([".keep"]);
    }
  });

  it("for more than 10,000 files, and writes 10,000", () => {
    const files = Object.fromEntries(Array.from({ length: 9999 }, (_, number) => [`d${number % 50}/f${number}`, ""]));
    const folder = temporaryFolder({ ...FILES, ...files });
    const skillsDir = temporaryFolder();
    applyFolderChange({ ...both(skillsDir, { folder }), isDurable: false });
    expect(
      readdirSync(skillsDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()),
    ).toHaveLength(10_001);
    writeFileSync(join(folder, "one-more"), "");
    expect(failing(folder).message).toContain("its folder holds more than 10000 files");
  });

  it("for more than 512 MiB", () => {
    const folder = temporaryFolder({ ...FILES, large: "" });
    truncateSync(join(folder, "large"), 512 * 1024 * 1024);
    expect(failing(folder).message).toContain("its folder holds more than 512 MiB");
  });

  it("for folders more than 32 levels deep, and writes 32 levels", () => {
    const deep = (count: number) => temporaryFolder({ ...FILES, [`${"d/".repeat(count)}a.txt`]: "a" });
    const skillsDir = temporaryFolder();
    applyFolderChange({ ...both(skillsDir, { folder: deep(32) }), isDurable: false });
    expect(Object.keys(readTreeFiles(skillsDir))).toHaveLength(3);
    expect(failing(deep(33)).message).toContain("is more than 32 folders deep");
  });

  it("for a folder that contains the skills folder", () => {
    const folder = temporaryFolder({ ...FILES, "x/skills/.keep": "" });
    expect(failing(folder, join(folder, "x/skills")).message).toContain(
      "its folder contains the folder that it would be copied into",
    );
    const other = temporaryFolder(FILES);
    symlinkSync(folder, join(other, "link"));
    expect(failing(other, join(folder, "x/skills")).message).toContain('"link" contains the folder');
    expect(readTreeFiles(folder)).toEqual({ ...FILES, "x/skills/.keep": "" });
  });
});

describe("[N-19] an apply without a usable target leaves nothing", () => {
  it("in a read-only folder", async () => {
    const place = temporaryFolder({ "skills/.keep": "" });
    const folders = [place, join(place, "skills")];
    for (const folder of folders) chmodSync(folder, 0o555);
    for (const skillsDir of [join(place, "skills"), join(place, "other")]) {
      const { error } = await runApply({ application: both(skillsDir, { skillMd: "x" }) }, { isOrdinary: true });
      const [name, source] = ["first", "inline"];
      expect(error).toMatchObject({ name: "SkillInstallationError", skillName: name, source, skillsDir });
      expect(error?.message).toBe(`Skill "first" cannot be installed into ${skillsDir}: permission denied`);
    }
    for (const folder of folders) chmodSync(folder, 0o755);
    expect(readTreeFiles(place)).toEqual({ "skills/.keep": "" });
    expect(readdirSync(place)).toEqual(["skills"]);
  });

  it.runIf(process.platform === "linux")(`on a full disk (${FULL.title})`, async () => {
    const place = temporaryFolder();
    const folder = temporaryFolder({ ...FILES, "large.bin": new Uint8Array(300_000).fill(1) });
    const application = both(join(place, "skills"), { folder });
    const { error, left } = await runApply({ application }, { wrap: FULL.wrap(place) });
    expect(error).toMatchObject({ skillName: "bad", source: "ref", cause: expect.stringContaining(FULL.why) });
    expect(left).toEqual([]);
  });

  it("in a path that is not a folder", () => {
    const folder = temporaryFolder({ file: "x" });
    for (const skillsDir of [join(folder, "file"), join(folder, "file/skills")]) {
      const put: FolderItem[] = [{ name: "a", source: "inline", skillMd: "x" }];
      expect(catchThrown(() => applyFolderChange({ skillsDir, items: put, isDurable: false }))).toBeInstanceOf(
        SkillInstallationError,
      );
    }
    symlinkSync("nowhere", join(folder, "link"));
    const put: FolderItem[] = [{ name: "a", source: "inline", skillMd: "x" }];
    expect(
      catchThrown(() => applyFolderChange({ skillsDir: join(folder, "link"), items: put, isDurable: false })),
    ).toBeInstanceOf(SkillInstallationError);
    expect(readTreeFiles(folder)).toEqual({ file: "x", link: "→ nowhere" });
  });
});
