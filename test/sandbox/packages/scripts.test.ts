import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { LayerLock } from "../../../src/sandbox/packages/apt.ts";
import { type BaseSystem, installDebs } from "../../../src/sandbox/packages/apt-layer.ts";
import { withBuilderLock } from "../../../src/sandbox/packages/apt-packages.ts";
import { resolveIdRange } from "../../../src/sandbox/packages/id-range.ts";
import type { PackageFolders } from "../../../src/sandbox/sandbox-folders.ts";
import { temporaryFolder, writeFiles } from "../../support/folder.ts";
import { moduleOf } from "../../support/program.ts";
import { cached, cachedBase, canBuild, isRoot, lackedPackages, places } from "./place.ts";

/** A package with only a script. */
function debWith(postinst: string): string {
  const folder = temporaryFolder({
    "probe/DEBIAN/control":
      "Package: skillet-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: a probe\n",
    "probe/DEBIAN/postinst": `#!/bin/bash\nmkdir -p /probe\n${postinst}\n`,
  });
  chmodSync(folder, 0o755);
  chmodSync(join(folder, "probe/DEBIAN/postinst"), 0o755);
  const deb = join(folder, "probe.deb");
  execFileSync("dpkg-deb", ["--root-owner-group", "--build", join(folder, "probe"), deb], { stdio: "ignore" });
  return deb;
}

async function install(deb: string, { own }: PackageFolders, base: BaseSystem): Promise<string> {
  const finished = join(own, "layers", "probe");
  const lock: LayerLock = { kind: "layer", suite: "x", arch: "x", base: base.id, names: [], packages: [] };
  await withBuilderLock(own, { range: resolveIdRange }, () =>
    installDebs(finished, [deb], { packageFolder: own, range: resolveIdRange(), base, lock }),
  );
  return join(finished, "root");
}

function listening(server: Server): Promise<number> {
  onTestFinished(() => void server.close());
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}

describe.skipIf(!canBuild)("the scripts of a package", { timeout: 90_000 }, () => {
  let base: BaseSystem;
  beforeAll(async () => {
    base = await cachedBase();
  }, 180_000);

  it("[Q-18] reach no network: neither the host's own nor any other", async () => {
    let connections = 0;
    const port = await listening(createServer(() => connections++));
    const reached = (address: string) =>
      `(exec 3<>/dev/tcp/${address}) 2>/dev/null && echo ${address} >> /probe/reached`;
    const targets = [`127.0.0.1/${port}`, "deb.debian.org/80", "169.254.169.254/80", "1.1.1.1/53"];
    const deb = debWith(`: > /probe/reached\n${targets.map(reached).join("\n")}\ncat /proc/net/dev > /probe/devices`);
    const root = await install(deb, places(), base);
    expect(readFileSync(join(root, "probe/reached"), "utf8")).toBe("");
    const devices = readFileSync(join(root, "probe/devices"), "utf8").match(/^ *[a-z0-9]+:/gm);
    expect(devices?.map((name) => name.trim())).toEqual(["lo:"]);
    expect(connections).toBe(0);
  });

  it("[Q-18] are root only in their own root, and see nothing of the host", async () => {
    const where = places();
    const secret = join(where.own, "../secret");
    writeFiles(join(where.own, ".."), { secret: "hidden" });
    const deb = debWith(`id -u > /probe/uid
cat /proc/self/uid_map > /probe/map
env > /probe/env
perl -MSocket -e 'socket(my $s, 40, SOCK_STREAM, 0) and print "open"' > /probe/vsock
ls -d /proc/[0-9]* | wc -l > /probe/processes
ls -d ${secret} ${process.cwd()} /var/lib/skillet > /probe/host 2>/dev/null
mknod /probe/memory c 1 1 2>/dev/null; mount -t tmpfs none /mnt 2>/dev/null && echo mounted > /probe/mounted
hostname skillet-was-here 2>/dev/null
echo 1 > /proc/sys/kernel/sysrq 2>/dev/null && echo sysctl > /probe/sysctl
true`);
    const root = await install(deb, where, base);
    const read = (name: string) => readFileSync(join(root, "probe", name), "utf8").trim();
    expect(read("uid")).toBe("0");
    const map = read("map")
      .split("\n")
      .map((line) => line.trim().split(/\s+/).map(Number));
    expect(
      map.every(([, outside]) => outside !== 0),
      "no user in there is the host's root",
    ).toBe(true);
    expect(map.reduce((sum, [, , count = 0]) => sum + count, 0)).toBe(65536);
    const variables = read("env").match(/^\w+(?==)/gm) ?? [];
    const known = /^(?:PATH|LC_ALL|HOME|PWD|OLDPWD|SHLVL|_|DEBIAN_FRONTEND|(?:DPKG|APT|DEBCONF|PERL)_?\w*)$/;
    expect(variables).toContain("PATH");
    expect(variables.filter((name) => !known.test(name))).toEqual([]);
    expect(Number(read("processes"))).toBeLessThan(30);
    expect(read("host")).toBe("");
    expect(read("vsock"), "sockets that a network namespace does not stop").toBe("");
    for (const name of ["memory", "mounted", "sysctl"]) expect(existsSync(join(root, "probe", name)), name).toBe(false);
    expect(execFileSync("hostname", { encoding: "utf8" })).not.toContain("skillet-was-here");
  });

  it("[Q-18] leave nothing with special permissions: no set-id bit, pipe or device, nothing others can write", async () => {
    const deb = debWith(`cp /bin/sh /probe/shell; chmod 6777 /probe/shell
mkfifo /probe/pipe; mkdir -m 2777 /probe/folder; mkdir -m 700 /probe/private; echo x > /probe/private/x
chown 1000:1000 /probe/folder; ln -s /etc/shadow /probe/link; install -m 600 /dev/null /probe/key`);
    const root = await install(deb, places(), base);
    const bits = (name: string) => (lstatSync(join(root, "probe", name)).mode & 0o7777).toString(8);
    expect(bits("shell")).toBe("755");
    expect(bits("folder")).toBe("755");
    expect(bits("private")).toBe("700");
    expect(bits("key")).toBe("600");
    expect(existsSync(join(root, "probe/pipe"))).toBe(false);
    const wrong = execFileSync(
      "find",
      [
        root,
        "(",
        "!",
        "-uid",
        String(process.getuid?.()),
        "-o",
        "-perm",
        "/6000",
        "-o",
        "!",
        "-type",
        "l",
        "-perm",
        "/022",
        ")",
      ],
      { encoding: "utf8" },
    );
    expect(wrong).toBe("");
  });

  it("[Q-18] that fail leave nothing, and the error quotes their output", async () => {
    const where = places();
    await expect(install(debWith("echo no such luck >&2; exit 7"), where, base)).rejects.toMatchObject({
      code: "package-install",
      message: expect.stringContaining("no such luck"),
    });
    for (const folder of ["layers", "staging"]) expect(readdirSync(join(where.own, folder))).toEqual([]);
  });
});

const repository = join(import.meta.dirname, "../../..");
const isReadable =
  isRoot &&
  spawnSync("setpriv", [
    "--reuid",
    "54321",
    "--clear-groups",
    "--regid",
    "54321",
    "test",
    "-r",
    `${repository}/src/index.ts`,
  ]).status === 0;

describe.skipIf(!canBuild || !isReadable)("an ordinary user", { timeout: 90_000 }, () => {
  it("[S-26] builds with the ids of /etc/subuid on the base that root built, and removes leftovers of a killed build", async () => {
    await cachedBase();
    const [name = ""] = lackedPackages(1);
    const { own } = places();
    const folder = join(own, "..");
    const packages = moduleOf("sandbox/packages/apt-packages");
    writeFiles(folder, {
      passwd: `${readFileSync("/etc/passwd", "utf8")}tester:x:54321:54321::${folder}:/bin/sh\n`,
      subuid: "tester:700000:65536\n",
      // The user and its ids exist for this process alone: the host's files do not change.
      "as-user.sh": `set -e
mount --bind "$1/passwd" /etc/passwd; mount --bind "$1/subuid" /etc/subuid; mount --bind "$1/subuid" /etc/subgid
exec setpriv --reuid 54321 --regid 54321 --clear-groups "$2" --disable-warning=ExperimentalWarning "$1/build.mts"\n`,
      "build.mts": `import { buildPackages, findPackageRoot, pruneAptLayers } from ${JSON.stringify(packages)};
const places = ${JSON.stringify({ own, shared: cached.own })};
const built = await buildPackages([${JSON.stringify(name)}], places);
const found = findPackageRoot([${JSON.stringify(name)}], places);
console.log(JSON.stringify({ built, found, uid: process.getuid() }));
`,
    });
    mkdirSync(join(own, "staging/layer-1/root/deep"), { recursive: true });
    execFileSync("chown", ["-R", "54321:54321", own]);
    chownSync(join(own, "staging/layer-1/root/deep"), 700_007, 700_007);
    chmodSync(join(own, "staging/layer-1/root/deep"), 0o700);
    writeFileSync(join(own, "staging/layer-1/root/deep/x"), "");
    const output = execFileSync("unshare", ["-m", "sh", join(folder, "as-user.sh"), folder, process.execPath], {
      encoding: "utf8",
    });
    const { built, found, uid } = JSON.parse(output);
    expect(uid).toBe(54321);
    expect(built).toMatchObject({ kind: "layer", lock: { names: [name] } });
    expect(found).toEqual(built);
    expect(readdirSync(join(own, "staging"))).toEqual([]);
    expect(execFileSync("find", [built.root, "!", "-uid", "54321"], { encoding: "utf8" })).toBe("");
    expect(readFileSync("/etc/passwd", "utf8")).not.toContain("54321");
  });
});
