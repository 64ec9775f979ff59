import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifySkill } from "../../../src/remote/skills-dir.ts";
import {
  createFingerprintCache,
  diffLockedFolder,
  type LockDifference,
  readFolderLockState,
} from "../../../src/store/lock-diff.ts";
import { readFileTree } from "../../../src/store/lock-file.ts";
import { makePipe } from "../../bad-input/pipe.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { entryFor, waitForClockTick } from "./scene.ts";

const FILES = {
  "SKILL.md": skillText("x"),
  ".env": "A=1",
  "docs/a.md": "first",
  "scripts/go.sh": "echo go",
  "node_modules/left/index.js": "0",
};

type Change = (folder: string) => void;
const KINDS: readonly [title: string, change: Change, changes: LockDifference[]][] = [
  ["an added file", (at) => writeFileSync(join(at, "b.md"), ""), [{ path: "b.md", what: "added" }]],
  ["an added dot file", (at) => writeFileSync(join(at, ".x"), ""), [{ path: ".x", what: "added" }]],
  ["an added folder", (at) => writeFiles(at, { "new/deep/c.txt": "" }), [{ path: "new/deep/c.txt", what: "added" }]],
  [
    "a file added to node_modules",
    (at) => writeFileSync(join(at, "node_modules/left/evil.js"), ""),
    [{ path: "node_modules/left/evil.js", what: "added" }],
  ],
  [
    "a new repository in it",
    (at) => writeFiles(at, { ".git/hooks/post-checkout": "" }),
    [{ path: ".git/hooks/post-checkout", what: "added" }],
  ],
  ["a removed file", (at) => unlinkSync(join(at, "docs/a.md")), [{ path: "docs/a.md", what: "removed" }]],
  ["a removed dot file", (at) => unlinkSync(join(at, ".env")), [{ path: ".env", what: "removed" }]],
  ["a removed folder", (at) => rmSync(join(at, "docs"), { recursive: true }), [{ path: "docs/a.md", what: "removed" }]],
  [
    "a changed file",
    (at) => writeFileSync(join(at, "docs/a.md"), "other text"),
    [{ path: "docs/a.md", what: "changed" }],
  ],
  [
    "a file with as many bytes and the same time as before",
    (at) => {
      const file = join(at, "docs/a.md");
      writeFileSync(file, "FIRST");
      utimesSync(file, 1000, 1000);
    },
    [{ path: "docs/a.md", what: "changed" }],
  ],
  [
    "a file that was written through another name",
    (at) => {
      const other = join(at, "..", "other");
      linkSync(join(at, "docs/a.md"), other);
      writeFileSync(other, "FIRST");
      unlinkSync(other);
    },
    [{ path: "docs/a.md", what: "changed" }],
  ],
  [
    "a file that became executable",
    (at) => chmodSync(join(at, "scripts/go.sh"), 0o755),
    [{ path: "scripts/go.sh", what: "mode" }],
  ],
  [
    "a file that became set-user-ID",
    (at) => chmodSync(join(at, "scripts/go.sh"), 0o4644),
    [{ path: "scripts/go.sh", what: "mode" }],
  ],
  [
    "a file that every user can write",
    (at) => chmodSync(join(at, "scripts/go.sh"), 0o646),
    [{ path: "scripts/go.sh", what: "mode" }],
  ],
  [
    "a link in place of a file, to the same text",
    (at) => {
      renameSync(join(at, "docs/a.md"), join(at, "../a.md"));
      symlinkSync(join(at, "../a.md"), join(at, "docs/a.md"));
    },
    [{ path: "docs/a.md", what: "changed" }],
  ],
  [
    "a link in place of a folder, to the same files",
    (at) => {
      renameSync(join(at, "docs"), join(at, "../docs"));
      symlinkSync(join(at, "../docs"), join(at, "docs"));
    },
    [
      { path: "docs", what: "added" },
      { path: "docs/a.md", what: "removed" },
    ],
  ],
  [
    "a folder in place of a file",
    (at) => {
      unlinkSync(join(at, ".env"));
      mkdirSync(join(at, ".env"));
    },
    [{ path: ".env", what: "removed" }],
  ],
  [
    "a pipe in place of a file",
    (at) => {
      unlinkSync(join(at, ".env"));
      makePipe(join(at, ".env"));
    },
    [{ path: ".env", what: "changed" }],
  ],
  [
    "two swapped files",
    (at) => {
      renameSync(join(at, "docs/a.md"), join(at, "t"));
      renameSync(join(at, ".env"), join(at, "docs/a.md"));
      renameSync(join(at, "t"), join(at, ".env"));
    },
    [
      { path: ".env", what: "changed" },
      { path: "docs/a.md", what: "changed" },
    ],
  ],
  [
    "a link in place of the whole skill, to the same files",
    (at) => {
      renameSync(at, `${at}-moved`);
      symlinkSync(`${at}-moved`, at);
    },
    [{ path: ".", what: "changed" }],
  ],
  [
    "a file larger than any source may contain",
    (at) => truncateSync(join(at, "docs/a.md"), 65 * 1024 * 1024),
    [{ path: "docs/a.md", what: "changed" }],
  ],
];

describe("a skill that does not match its lock", () => {
  it.each(KINDS)("is detected by %s, at a first check and after one that found nothing", async (_, change, changes) => {
    const root = temporaryFolder();
    const folder = join(root, "skills/x");
    writeFiles(folder, FILES);
    for (const path of Object.keys(FILES)) {
      chmodSync(join(folder, path), 0o644);
      utimesSync(join(folder, path), 1000, 1000); // Whole seconds, which can be restored.
    }
    const entry = entryFor(folder);
    await waitForClockTick(folder, entry);
    const stamps = createFingerprintCache(root);
    expect(readFolderLockState(folder, entry, stamps)).toEqual({ is: "unchanged", entry });
    change(folder);
    const skillsDir = { folder: join(root, "skills"), isProject: false, shown: "" };
    for (const known of [stamps, createFingerprintCache(root), createFingerprintCache(temporaryFolder())]) {
      expect(readFolderLockState(folder, entry, known)).toMatchObject({ is: "changed", changes });
      expect(verifySkill(skillsDir, "x", entry, known)).toEqual({ name: "x", is: "changed", changes });
    }
    expect(verifySkill(skillsDir, "x", entry), "without earlier fingerprints").toEqual({
      name: "x",
      is: "changed",
      changes,
    });
  });

  it("is not detected by read permissions, or by empty folders", () => {
    const folder = temporaryFolder(FILES);
    chmodSync(join(folder, "scripts/go.sh"), 0o755);
    const agreed = readFileTree(folder);
    expect(agreed["scripts/go.sh"]?.mode).toBe("755");
    chmodSync(join(folder, "SKILL.md"), 0o600);
    chmodSync(join(folder, "docs/a.md"), 0o664);
    chmodSync(join(folder, "scripts/go.sh"), 0o700);
    chmodSync(join(folder, "docs"), 0o700);
    mkdirSync(join(folder, "empty"));
    utimesSync(join(folder, "SKILL.md"), 0, 0);
    expect(diffLockedFolder(folder, agreed).differences).toEqual([]);
  });

  it("is detected by a file in a folder that was empty at the check", async () => {
    const root = temporaryFolder();
    const folder = join(root, "x");
    writeFiles(folder, FILES);
    mkdirSync(join(folder, "empty"));
    const entry = entryFor(folder);
    await waitForClockTick(folder, entry);
    const stamps = createFingerprintCache(root);
    expect(readFolderLockState(folder, entry, stamps).is).toBe("unchanged");
    writeFileSync(join(folder, "empty/evil.sh"), "");
    expect(readFolderLockState(folder, entry, stamps)).toMatchObject({
      changes: [{ path: "empty/evil.sh", what: "added" }],
    });
  });

  it("cannot be detected if a folder is unreadable, and is not used then", () => {
    const folder = temporaryFolder(FILES);
    const entry = entryFor(folder);
    // Deeper than any path: not even root can list it.
    execFileSync("sh", [
      "-c",
      `cd "$0" && i=0; while [ $i -lt 30 ]; do d=$(printf '%0200d' 0); mkdir "$d" && cd -P "$d"; i=$((i+1)); done`,
      folder,
    ]);
    const state = readFolderLockState(folder, entry, createFingerprintCache(temporaryFolder()));
    expect(state).toMatchObject({ is: "unknown", problem: { code: "lock-unreadable" } });
    execFileSync("rm", ["-rf", folder]);
  });

  it("that is deleted is reported as missing", () => {
    const folder = temporaryFolder(FILES);
    const entry = entryFor(folder);
    const skillsDir = { folder: temporaryFolder(), isProject: false, shown: "" };
    expect(verifySkill(skillsDir, "x", entry)).toEqual({ name: "x", is: "missing" });
    expect(verifySkill(skillsDir, "x", entry, createFingerprintCache(temporaryFolder()))).toEqual({
      name: "x",
      is: "missing",
    });
  });
});
