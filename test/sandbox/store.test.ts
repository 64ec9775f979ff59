import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { storeSkillCopy } from "../../src/sandbox/sandbox-folders.ts";
import type { SkillCopy } from "../../src/skill/source/skill-copy.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

function copyOf(files: Record<string, { text: string; executable?: boolean }>): SkillCopy {
  const digest = createHash("sha256").update(JSON.stringify(files)).digest("hex");
  return {
    digest: `sha256:${digest}`,
    files: new Map(
      Object.entries(files).map(([path, { text, executable = false }]) => [
        path,
        { bytes: Buffer.from(text), executable },
      ]),
    ),
    instructions: "",
  };
}

const copy = copyOf({
  "SKILL.md": { text: "---\n" },
  "scripts/deep/run.sh": { text: "#!/bin/sh\n", executable: true },
});
const modeOf = (path: string) => statSync(path).mode & 0o7777;

/** Puts a copy into a store in another process, with its own umask. */
async function storedElsewhere(store: string, umask: string): Promise<string> {
  const script = `const { storeSkillCopy } = await import(${JSON.stringify(moduleOf("sandbox/sandbox-folders"))});
    process.umask(0o${umask});
    const files = new Map(${JSON.stringify([...copy.files].map(([path, { executable }]) => [path, { bytes: [120], executable }]))});
    for (const file of files.values()) file.bytes = Uint8Array.from(file.bytes);
    process.stdout.write(storeSkillCopy({ digest: ${JSON.stringify(copy.digest)}, files }, ${JSON.stringify(store)}));`;
  return (await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script])).stdout;
}

describe("the store of skills", () => {
  it("[Q-02] contains the very bytes, under the name of their digest", () => {
    const store = join(temporaryFolder(), "a", "store");
    const folder = storeSkillCopy(copy, store);
    expect(folder).toBe(join(store, copy.digest.slice("sha256:".length)));
    expect(readFileSync(join(folder, "scripts/deep/run.sh"), "utf8")).toBe("#!/bin/sh\n");
    expect(readdirSync(store)).toEqual([copy.digest.slice("sha256:".length)]);
  });

  it("[Q-02] lets everyone read and no other user write, and has no set-id bit anywhere", () => {
    const folder = storeSkillCopy(copy, join(temporaryFolder(), "store"));
    const modes = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => [
      path,
      modeOf(join(folder, path)),
    ]);
    expect(Object.fromEntries(modes)).toEqual({
      "SKILL.md": 0o644,
      scripts: 0o755,
      "scripts/deep": 0o755,
      "scripts/deep/run.sh": 0o755,
    });
    expect(modeOf(folder)).toBe(0o755);
  });

  it("[Q-02] is readable by others with any umask", async () => {
    for (const umask of ["077", "777", "000"]) {
      const folder = await storedElsewhere(join(temporaryFolder(), "new", "store"), umask);
      expect([umask, modeOf(folder)]).toEqual([umask, 0o755]);
      // The store itself can be entered, when code runs as another user, and never listed.
      expect(modeOf(join(folder, ".."))).toBe(process.getuid?.() === 0 ? 0o711 : 0o700);
      expect(modeOf(join(folder, "scripts/deep"))).toBe(0o755);
      expect(modeOf(join(folder, "scripts/deep/run.sh"))).toBe(0o755);
      expect(modeOf(join(folder, "SKILL.md"))).toBe(0o644);
    }
  });

  it("[Q-02] returns the same folder for the same digest, and does not change existing files", () => {
    const store = join(temporaryFolder(), "store");
    const folder = storeSkillCopy(copy, store);
    const { ino } = statSync(join(folder, "SKILL.md"));
    expect(storeSkillCopy(copy, store)).toBe(folder);
    expect(statSync(join(folder, "SKILL.md")).ino).toBe(ino);
    expect(storeSkillCopy(copyOf({ "SKILL.md": { text: "other" } }), store)).not.toBe(folder);
  });

  it("[Q-02] supports many concurrent writers of the same skill", async () => {
    const store = join(temporaryFolder(), "store");
    const folders = await Promise.all(Array.from({ length: 6 }, () => storedElsewhere(store, "022")));
    expect(new Set(folders).size).toBe(1);
    expect(readdirSync(store)).toHaveLength(1);
    expect(readdirSync(folders[0] ?? "").sort()).toEqual(["SKILL.md", "scripts"]);
  });

  it("[Q-02] deletes leftovers of a killed run and copies without a use for a month, and keeps the rest", () => {
    const store = join(temporaryFolder(), "store");
    const old = storeSkillCopy(copy, store);
    const draft = join(store, ".left-behind");
    const fresh = join(store, ".just-now");
    for (const path of [draft, fresh]) mkdirSync(path);
    utimesSync(old, 0, 0);
    utimesSync(draft, 0, 0);
    const other = storeSkillCopy(copyOf({ "SKILL.md": { text: "other" } }), store);
    expect([old, draft, fresh, other].map((path) => existsSync(path))).toEqual([false, false, true, true]);
  });

  it("[Q-02] keeps copies that are used repeatedly", () => {
    const store = join(temporaryFolder(), "store");
    const folder = storeSkillCopy(copy, store);
    utimesSync(folder, 0, 0);
    storeSkillCopy(copy, store);
    storeSkillCopy(copyOf({ "SKILL.md": { text: "other" } }), store);
    expect(existsSync(folder)).toBe(true);
  });

  it("[Q-02] names a folder that cannot be written to, and the fix", () => {
    const store = join(temporaryFolder({ store: "a file" }), "store");
    chmodSync(store, 0o600);
    expect(() => storeSkillCopy(copy, store)).toThrowError(
      expect.objectContaining({ code: "unwritable", fix: expect.stringContaining("is writable") }),
    );
  });

  it("[Q-09] does not write outside its folder, whatever a path in the copy says", () => {
    const folder = temporaryFolder();
    const store = join(folder, "a/b/store");
    writeFileSync(join(folder, "outside.txt"), "as it was");
    for (const path of [
      "../../outside.txt",
      "../../../outside.txt",
      "../../../../outside.txt",
      "/../../../../outside.txt",
    ]) {
      expect(() => storeSkillCopy(copyOf({ [path]: { text: "changed" } }), store)).toThrow();
    }
    expect(readdirSync(folder, { recursive: true }).filter((path) => String(path).endsWith("outside.txt"))).toEqual([
      "outside.txt",
    ]);
    expect(readFileSync(join(folder, "outside.txt"), "utf8")).toBe("as it was");
  });
});
