import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listHostTools } from "../../../src/sandbox/host-tools.ts";
import { findSystemProgram } from "../../../src/util/system.ts";
import { skillet } from "../../support/command.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { ORDINARY_USER } from "../../support/ordinary-user.ts";
import { PROGRAM, RUN } from "../../support/program.ts";
import { debian, isRoot } from "./place.ts";

const id = String(ORDINARY_USER);
const drop = ["setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"];
const canDrop = isRoot && spawnSync(drop[0] ?? "", [...drop.slice(1), "test", "-r", PROGRAM]).status === 0;
const hasTools = debian && listHostTools({ isRoot: false, manager: "apt-get" }).every(({ path }) => path !== undefined);

/** Calls it as a user without a range of ids, on a machine with a sudo that only exits with this code. */
function fixAsUser(name: string | undefined, sudoEndsWith: number) {
  const account = name === undefined ? "" : `${name}:x:${id}:${id}::/:/bin/sh\n`;
  const folder = temporaryFolder({
    passwd: `${readFileSync("/etc/passwd", "utf8")}${account}`,
    subuid: "",
    "bin/sudo": `#!/bin/sh\nexit ${sudoEndsWith}\n`,
    // The user and the sudo exist for this process alone.
    "as-user.sh": `set -e; cd "$1"; shift
mount --bind passwd /etc/passwd; mount --bind subuid /etc/subuid; mount --bind subuid /etc/subgid; mount --bind bin /usr/local/bin
exec "$@"\n`,
  });
  for (const path of ["", "bin", "bin/sudo"]) chmodSync(join(folder, path), 0o755);
  const command = [
    process.execPath,
    "--no-warnings",
    "-e",
    `import(${JSON.stringify(PROGRAM)}).then(({ run }) => { ${RUN} })`,
  ];
  const args = [
    "-m",
    "sh",
    join(folder, "as-user.sh"),
    folder,
    ...drop,
    ...command,
    "skillet",
    "doctor",
    "--fix",
    "-y",
  ];
  const env = { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", HOME: folder };
  const { status, stderr } = spawnSync("unshare", args, { env, encoding: "utf8", timeout: 45_000 });
  return { status, stderr };
}

describe("skillet doctor --fix", () => {
  it.skipIf(!isRoot || !hasTools)("reports that everything is installed, and that uv is missing", async () => {
    const bare = await skillet(["doctor", "--fix"]);
    expect([bare.code, bare.stderr]).toEqual([0, expect.stringContaining("✓ everything needed")]);
    const hint = "uv is not installed: uv run and uvx need it";
    expect(bare.stderr.includes(hint)).toBe(findSystemProgram("uv") === undefined);
    const home = temporaryFolder({ ".local/bin/uv": "" });
    expect((await skillet(["doctor", "--fix"], { env: { HOME: home } })).stderr).not.toContain("uv is not installed");
  });

  it.skipIf(!canDrop || !hasTools)("does not report success when a command failed", () => {
    const { status, stderr } = fixAsUser("ann", 1);
    expect(stderr).toMatch(/✗ this command failed: sudo usermod .* ann {2}\[install-failed\]\n/);
    expect([status, stderr]).toEqual([1, expect.not.stringContaining("everything needed")]);
  });

  it.skipIf(!canDrop || !hasTools)("does not report success either when the user still has no range of ids", () => {
    const { status, stderr } = fixAsUser("ann", 0);
    expect(stderr).toContain("✗ user ann has no range of ids in /etc/subuid and /etc/subgid");
    expect([status, stderr]).toEqual([1, expect.not.stringContaining("everything needed")]);
  });

  it.skipIf(!canDrop || !hasTools)("reports that a user without a name cannot get one", () => {
    const { status, stderr } = fixAsUser(undefined, 0);
    expect(stderr).toContain(`user ${id} has no name, so it cannot have a range of ids: build packages as root`);
    expect([status, stderr]).toEqual([1, expect.not.stringMatching(/everything needed|usermod/)]);
  });
});
