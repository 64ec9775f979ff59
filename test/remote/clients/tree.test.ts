import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { applyFolderChange, type FolderItem } from "../../../src/store/atomic-folder.ts";
import { removeFolderTree } from "../../../src/util/file-access.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { makePipe } from "./pipe.ts";
import { catchThrown, readTreeFiles } from "./scene.ts";

/** Copies a folder as the skill `a`, and returns its path. */
function copied(folder: string, more: Partial<FolderItem> = {}, isReadOnly = false): string {
  const [path = ""] = applyFolderChange({
    skillsDir: join(temporaryFolder(), "skills"),
    items: [{ name: "a", source: "ref", folder, ...more }],
    isDurable: false,
    isReadOnly,
  });
  return path;
}

function skill(files: Record<string, string> = {}): string {
  return temporaryFolder({ "SKILL.md": skillText("a"), ...files });
}

const modeOf = (path: string): number => statSync(path).mode & 0o7777;

describe("a copy of a skill's folder", () => {
  it("[N-10] keeps permissions, but never set-id bits", () => {
    const folder = skill({
      "run.sh": "",
      "open.txt": "",
      "private.txt": "",
      "setid.sh": "",
      "given.txt": "",
      "docs/x": "",
    });
    const modes = {
      "run.sh": 0o755,
      "open.txt": 0o644,
      "private.txt": 0o600,
      "setid.sh": 0o6755,
      "given.txt": 0o440,
      docs: 0o1750,
    };
    for (const [path, mode] of Object.entries(modes)) chmodSync(join(folder, path), mode);
    const own = statSync(folder).mode & 0o777;
    const to = copied(folder);
    const seen = Object.keys(modes).map((path) => [path, modeOf(join(to, path)).toString(8)]);
    expect(Object.fromEntries(seen)).toEqual({
      "run.sh": "755",
      "open.txt": "644",
      "private.txt": "600",
      "setid.sh": "755",
      "given.txt": "640",
      docs: "750",
    });
    expect(modeOf(to)).toBe(own);
  });

  it("loses all write permissions in the read-only mode, and no others", () => {
    const folder = skill({ "run.sh": "", "docs/private.txt": "" });
    chmodSync(join(folder, "run.sh"), 0o755);
    chmodSync(join(folder, "docs/private.txt"), 0o600);
    const to = copied(folder, {}, true);
    const seen = ["SKILL.md", "run.sh", "docs", "docs/private.txt", "."].map((path) =>
      modeOf(join(to, path)).toString(8),
    );
    expect(seen).toEqual(["444", "555", "555", "400", "500"]);
    removeFolderTree(to);
    expect(readdirSync(dirname(to))).toEqual([]);
  });

  it("[N-10] contains link targets as its own files and folders", () => {
    const elsewhere = temporaryFolder({ "shared.txt": "shared", "folder/x.txt": "x" });
    const folder = skill({ "docs/a.txt": "a" });
    symlinkSync(join(elsewhere, "shared.txt"), join(folder, "shared.txt"));
    symlinkSync(join(elsewhere, "folder"), join(folder, "folder"));
    symlinkSync("docs", join(folder, "again"));
    expect(readTreeFiles(copied(folder))).toEqual({
      "SKILL.md": skillText("a"),
      "again/a.txt": "a",
      "docs/a.txt": "a",
      "folder/x.txt": "x",
      "shared.txt": "shared",
    });
  });

  it("[Q-12] contains nothing from outside when links must stay inside", () => {
    const folder = skill({ "docs/a.txt": "a" });
    symlinkSync("docs/a.txt", join(folder, "b.txt"));
    expect(readFileSync(join(copied(folder, { links: "inside" }), "b.txt"), "utf8")).toBe("a");
    for (const path of ["/etc/passwd", temporaryFolder()]) {
      symlinkSync(path, join(folder, "out"));
      const error = catchThrown(() => copied(folder, { links: "inside" }));
      expect(error.message).toContain('"out" is a symlink that leaves the skill\'s folder');
      rmSync(join(folder, "out"));
    }
  });

  it("[Q-12] contains nothing from outside when a link replaces a file meanwhile", () => {
    const secret = join(temporaryFolder({ "secret.txt": "secret" }), "secret.txt");
    for (const links of ["inside", "follow"] as const) {
      const folder = skill({ "a.txt": "a" });
      const omit = swapping(join(folder, "a.txt"), (path) => symlinkSync(secret, path));
      expect(catchThrown(() => copied(folder, { links, omit })).message).toMatch(
        /"a.txt" (?:is a symlink that leaves|cannot be read)/,
      );
    }
  });

  it("[Q-12] contains nothing from outside when a link replaces a folder meanwhile", () => {
    const elsewhere = temporaryFolder({ "a.txt": "secret" });
    const folder = skill({ "docs/a.txt": "a" });
    const omit = (path: string): boolean => {
      if (path === "docs/a.txt") {
        rmSync(join(folder, "docs"), { recursive: true });
        symlinkSync(elsewhere, join(folder, "docs"));
      }
      return false;
    };
    const error = catchThrown(() => copied(folder, { links: "inside", omit }));
    expect(error.message).toContain('"docs/a.txt" is a symlink that leaves the folder');
  });

  it.runIf(process.platform !== "win32")("does not wait for a pipe that replaces a file meanwhile", () => {
    for (const links of ["inside", "follow"] as const) {
      const folder = skill({ "a.txt": "a" });
      const omit = swapping(join(folder, "a.txt"), makePipe);
      expect(catchThrown(() => copied(folder, { links, omit })).message).toMatch(
        /"a.txt" (?:is not a regular file|.*not a file anymore)/,
      );
    }
  });

  it("is not a hard link: changes of one do not show in the other", () => {
    const folder = skill({ "a.txt": "before" });
    const to = copied(folder);
    expect(statSync(join(to, "a.txt")).nlink).toBe(1);
    writeFileSync(join(to, "a.txt"), "after");
    expect(readFileSync(join(folder, "a.txt"), "utf8")).toBe("before");
  });

  it("contains the whole tree, hidden files and packages too, except version control", () => {
    const files = {
      ".hidden": "h",
      "node_modules/x/index.js": "x",
      "deep/.git/config": "no",
      ".svn/a": "no",
      ".hg/a": "no",
    };
    const folder = skill({ ...files, ".git/config": "no", ".gitignore": "x" });
    expect(Object.keys(readTreeFiles(copied(folder))).sort()).toEqual([
      ".gitignore",
      ".hidden",
      "SKILL.md",
      "node_modules/x/index.js",
    ]);
  });

  it("omits the excluded files", () => {
    const folder = skill({ "docs/a.txt": "a", "docs/b.txt": "b" });
    const to = copied(folder, { omit: (path) => path === "docs/b.txt" });
    expect(Object.keys(readTreeFiles(to)).sort()).toEqual(["SKILL.md", "docs/a.txt"]);
  });

  it("keeps empty files and folders, and names of all kinds", () => {
    const folder = skill({ "ä b.txt": "", "-rf": "x", "new\nline": "y" });
    mkdirSync(join(folder, "empty"));
    const to = copied(folder);
    expect(statSync(join(to, "empty")).isDirectory()).toBe(true);
    expect(readTreeFiles(to)).toMatchObject({ "ä b.txt": "", "-rf": "x", "new\nline": "y" });
  });

  it("can replace its own original", () => {
    const skillsDir = temporaryFolder();
    writeFiles(skillsDir, { "a/SKILL.md": "old", "a/x.txt": "x" });
    const item: FolderItem = { name: "a", source: "ref", folder: join(skillsDir, "a"), skillMd: "new" };
    applyFolderChange({ skillsDir, items: [item], replaceable: ["a"], isDurable: false });
    expect(readTreeFiles(skillsDir)).toEqual({ "a/SKILL.md": "new", "a/x.txt": "x" });
  });
});

/** Called for a file after it was listed, and before it is opened. */
function swapping(file: string, put: (path: string) => void): (path: string) => boolean {
  return (path) => {
    if (file.endsWith(path) && path !== "SKILL.md") {
      rmSync(file);
      put(file);
    }
    return false;
  };
}
