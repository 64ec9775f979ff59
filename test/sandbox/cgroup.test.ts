import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { removeStaleCgroups } from "../../src/sandbox/cgroup.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

const GONE = 2 ** 30; // Larger than any pid.

describe.runIf(process.platform === "linux")("a cgroup, seen from another namespace than its processes'", () => {
  it("[Q-15] ends no process of the host, which a 0 would mean", () => {
    const folder = temporaryFolder({ "cgroup.procs": "0\n0\n" });
    const script = `const { killCgroup } = await import(${JSON.stringify(moduleOf("sandbox/cgroup"))});
      killCgroup(${JSON.stringify(folder)});
      console.log("alive");`;
    // A separate process group, in case it is killed.
    const node = [process.execPath, "--input-type=module", "-e", script];
    expect(spawnSync("setsid", ["--wait", ...node], { encoding: "utf8" }).stdout).toBe("alive\n");
  });

  it("[Q-15] belongs to its host, and one of a dead host is removed", () => {
    const own = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
    const names = [`skillet-1-${GONE}-1`, `skillet-${own}-${GONE}-1`, `skillet-${own}-${process.pid}-1`, "other"];
    const folder = temporaryFolder();
    for (const name of names) mkdirSync(join(folder, name));
    removeStaleCgroups(folder);
    expect(readdirSync(folder).sort()).toEqual([names[3], names[0], names[2]].sort());
  });
});
