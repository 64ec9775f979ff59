import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { formatPackageLock, formatSetKey } from "../../src/sandbox/packages/apt.ts";
import { MOUNT_POINTS } from "../../src/sandbox/packages/apt-layer.ts";
import { buildPackages, findPackageRoot } from "../../src/sandbox/packages/apt-packages.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { cachedBase, canBuild, debian, isRoot, lackedPackages, places } from "../sandbox/packages/place.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { PROGRAM, RUN } from "../support/program.ts";

const COMMAND = ["--no-warnings", "-e", `import(${JSON.stringify(PROGRAM)}).then(({ run }) => { ${RUN} })`, "skillet"];
const [lacked = "", another = ""] = lackedPackages(2);

/** A home with a skill that asks for these packages, and its own build folder. */
function scene(packages: readonly string[], scope = "home/.skillet/skills") {
  const root = temporaryFolder({
    [`${scope}/x/SKILL.md`]: skillText("x", { more: `packages: ${JSON.stringify(packages)}\n` }),
    [`${scope}/x/scripts/go.sh`]: "echo ran\n",
    "home/readme": "",
    "project/readme": "",
  });
  chmodSync(root, 0o755);
  const place = join(root, "packages");
  const env = { HOME: join(root, "home"), SKILLET_PACKAGES: place };
  const call = (...args: string[]) => skillet(args, { cwd: join(root, "project"), env });
  return { root, place, env, call };
}

describe("package names", () => {
  it.each([
    ...["apt-", "libssl.*", "jq=1.6", "./x.deb", "/tmp/x.deb", "-oX", "-oAPT::Update::Pre-Invoke::=id", "--", "jq/sid"],
    ...["^jq$", "?true", "~njq", "jq jq", "jq\njq", "jq;id", "$(id)", "`id`", "JQ", "jq:amd64", "j", ""],
    ...["a".repeat(65), "ｊｑ", "task-desktop^", "jq,tree", "*", "../../etc/passwd", "g++-"],
  ])("[Q-18] are exact: %j is refused wherever it occurs", async (name) => {
    const { call, place } = scene([name]);
    for (const args of [
      ["packages", "build"],
      ["packages", "build", "x"],
      ["packages", "build", "--dry-run"],
    ]) {
      const { code, stdout, stderr } = await call(...args);
      expect([stdout, stderr.includes("this is a bug")]).toEqual(["", false]);
      // What a skill file cannot contain is not requested at all.
      if (code !== 0) expect([code, stderr]).toEqual([1, expect.stringContaining("package-name")]);
      else expect(stderr).toContain("system packages");
    }
    const ran = await call("script", "x", "go");
    if (ran.code !== 0) expect(ran).toMatchObject({ code: 3, stdout: "" });
    expect(existsSync(place)).toBe(false);
  });

  it.skipIf(!debian)("[Q-18] can contain a plus, a dot and a digit, and number at most 32", async () => {
    const good = scene(["tar"]);
    expect((await good.call("packages", "build")).code).toBe(0);
    const many = Array.from({ length: 33 }, (_, index) => `package-${index}`);
    const { call, place } = scene(many);
    expect(await call("packages", "build")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("package-limit"),
    });
    expect(await call("script", "x", "go")).toMatchObject({ code: 3, stdout: "", stderr: expect.stringMatching(/33/) });
    expect(existsSync(place)).toBe(false);
  });

  it("[Q-04] are not checked, fetched or built for a script of an untrusted workspace", async () => {
    const { call, place } = scene(["cowsay", "figlet"], "project/skills");
    expect(await call("script", "x", "go")).toMatchObject({ code: 3, stdout: "" });
    expect(existsSync(place)).toBe(false);
  });
});

describe.skipIf(!debian)("a folder for package builds", () => {
  /** A finished layer, in the form that findRoot recognizes. */
  function fakeLayer() {
    const own = join(temporaryFolder(), "packages");
    const names = ["no-such-package"];
    const host = debian ?? { suite: "", arch: "" };
    const set = { ...host, base: "base-1", names };
    writeFiles(own, {
      ...Object.fromEntries(MOUNT_POINTS.map((point) => [`bases/base-1/root${point}/x`, ""])),
      "layers/layer-1/root/x": "",
      "layers/layer-1/lock.json": formatPackageLock({ kind: "layer", ...set, packages: [] }),
      "sets/x": "",
    });
    symlinkSync("base-1", join(own, "bases", `${host.suite}-${host.arch}`));
    symlinkSync("layer-1", join(own, "sets", formatSetKey(set)));
    return { own, set, find: () => findPackageRoot(names, { own, shared: undefined }).kind };
  }

  const PARTS = ["", "sets", "layers", "layers/layer-1", "layers/layer-1/root", "bases", "bases/base-1"];

  it.each(PARTS)("[Q-18] is not used when others can write to %j of it, or it belongs to another user", (part) => {
    const { own, find } = fakeLayer();
    expect(find()).toBe("layer");
    for (const mode of [0o777, 0o775, 0o757]) {
      chmodSync(join(own, part), mode);
      expect(find()).toBe("missing");
    }
    chmodSync(join(own, part), 0o755);
    expect(find()).toBe("layer");
    if (!isRoot) return;
    chownSync(join(own, part), ORDINARY_USER, ORDINARY_USER);
    expect(find()).toBe("missing");
  });

  it.each(["layers/layer-1", "layers/layer-1/root", "layers", "sets"])(
    "[Q-18] is not used when %s is a link",
    (part) => {
      const { own, find } = fakeLayer();
      spawnSync("/bin/mv", [join(own, part), join(own, "elsewhere")]);
      symlinkSync(join(own, "elsewhere"), join(own, part));
      expect(find()).toBe("missing");
    },
  );

  it.each(["../../../etc", "/etc", "a/b", "..", "layer-1/../layer-1"])(
    "[Q-18] is not led to %s by a link of a set",
    (target) => {
      const { own, set, find } = fakeLayer();
      rmSync(join(own, "sets", formatSetKey(set)));
      symlinkSync(target, join(own, "sets", formatSetKey(set)));
      expect(find()).toBe("missing");
    },
  );

  it.skipIf(!canBuild)("[Q-18] is not built in when others could redirect the writes", async () => {
    const { call, place, root } = scene([lacked]);
    const victim = join(root, "victim");
    writeFileSync(victim, "mine");
    mkdirSync(join(place, "apt"), { recursive: true });
    symlinkSync(victim, join(place, "apt/apt.conf"));
    for (const path of [place, join(place, "apt")]) {
      chmodSync(path, 0o777);
      const { code, stdout, stderr } = await call("packages", "build");
      expect([code, stdout, stderr]).toEqual([1, "", expect.stringContaining("package-folder-permissions")]);
      chmodSync(path, 0o755);
      expect(readFileSync(victim, "utf8")).toBe("mine");
    }
  });
});

describe.skipIf(!canBuild)("a package build", () => {
  it("[Q-18] that was killed leaves no partial layer, no lock and no process", {
    timeout: 120_000,
  }, async () => {
    await cachedBase();
    const { own, shared } = places();
    const { root, env } = scene([another]);
    const child = spawn(process.execPath, [...COMMAND, "packages", "build"], {
      env: { ...env, PATH: "/usr/bin:/bin", SKILLET_PACKAGES: own },
      cwd: join(root, "project"),
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    await new Promise<void>((resolve) => {
      child.on("exit", () => resolve());
      child.stderr.on("data", (bytes) => {
        said += bytes;
        if (/installing|setting up/.test(said)) child.kill("SIGKILL");
      });
    });
    expect(child.signalCode).toBe("SIGKILL");
    expect(findPackageRoot([another], { own, shared }).kind).toBe("missing");
    await expect.poll(() => findHostProcesses(own)).toEqual([]);
    expect((await buildPackages([another], { own, shared })).kind).toBe("layer");
    expect(readdirSync(join(own, "staging"))).toEqual([]);
    expect(findPackageRoot([another], { own, shared }).kind).toBe("layer");
  });

  it.skipIf(!isRoot)("[Q-18] without disk space reports that, and leaves no partial layer", { timeout: 60_000 }, () => {
    const { root, env, place } = scene([lacked]);
    // A disk of 2 MB, which only this process and its children see.
    const script = `mkdir -p ${place} && mount -t tmpfs -o size=2m,mode=755 none ${place} && timeout 10 "$@"; echo "exit $?"; ls ${place}/layers ${place}/staging ${place}/sets`;
    const { stdout, stderr } = spawnSync(
      "/usr/bin/unshare",
      ["-m", "/bin/sh", "-c", script, "sh", process.execPath, ...COMMAND, "packages", "build"],
      { env: { ...env, PATH: "/usr/bin:/bin:/usr/sbin:/sbin" }, cwd: join(root, "project"), encoding: "utf8" },
    );
    expect(stdout).toMatch(/^exit 1\n/);
    expect(stderr).not.toContain("this is a bug");
    expect(stderr).toMatch(/✗ x: .* {2}\[package-disk-space\]/);
    expect(
      stdout
        .split("\n")
        .slice(1)
        .filter(Boolean)
        .every((line) => line.endsWith(":")),
    ).toBe(true);
  });
});
