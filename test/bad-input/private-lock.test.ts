import { chmodSync, chownSync, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { digestTree, formatLock } from "../../src/store/lock-file.ts";
import { temporaryFolder } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { startSite } from "../support/skill-site.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

const FILES = { "SKILL.md": { mode: "644", size: 1, sha256: `sha256:${"0".repeat(64)}` } };
const COMMANDS = ["outdated", "update --yes", "add --frozen"] as const;
const SOURCES = ["/x.zip", "/repository.git", "/"] as const;

describe.each([
  ["root", false],
  ["an ordinary user", true],
] as const)("the lock of a project that %s cloned", (_, isOrdinary) => {
  it.each(COMMANDS)("[Q-29] that names addresses of this machine: %s requests none", async (written) => {
    const command = written.split(" ");
    const site = await startSite({});
    // One source for each command and user in the gate.
    for (const path of IS_LONG ? SOURCES : [SOURCES[(COMMANDS.indexOf(written) + Number(isOrdinary)) % 3]]) {
      const entry = { source: `${site.url}${path}`, digest: digestTree(FILES), files: FILES, grants: [] };
      const commit = path?.endsWith(".git") ? { commit: "0".repeat(40) } : {};
      const lock = formatLock({ x: { ...entry, ...commit } });
      const root = realpathSync(temporaryFolder({ "home/readme": "", "project/.agents/skills/skills.lock": lock }));
      const files = readdirSync(root, { recursive: true, encoding: "utf8" }).map((file) => join(root, file));
      chmodSync(root, 0o755);
      if (isOrdinary && process.getuid?.() === 0)
        for (const file of [root, ...files]) chownSync(file, ORDINARY_USER, ORDINARY_USER);
      const starting = { cwd: join(root, "project"), env: { HOME: join(root, "home") }, isOrdinary };
      const { stderr, stdout } = await runSkilletProcess([...command, "--project"], starting);
      expect(site.asked).toEqual([]);
      expect(stderr + stdout).toContain("--allow-private-addresses");
      await runSkilletProcess([...command, "--project", "--allow-private-addresses"], starting);
      expect(site.asked.splice(0).length).toBeGreaterThan(0);
    }
  });
});
