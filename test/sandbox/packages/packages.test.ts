import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApt, formatPackageLock, requireDebian } from "../../../src/sandbox/packages/apt.ts";
import {
  type AptLayer,
  type BaseSystem,
  buildAptLayer,
  removeBuildTree,
  resolveLayerLock,
} from "../../../src/sandbox/packages/apt-layer.ts";
import {
  buildPackages,
  findPackageRoot,
  findUnusedLayers,
  listAptLayers,
  planPackages,
  pruneAptLayers,
  withBuilderLock,
} from "../../../src/sandbox/packages/apt-packages.ts";
import { resolveIdRange } from "../../../src/sandbox/packages/id-range.ts";
import type { PackageFolders } from "../../../src/sandbox/sandbox-folders.ts";
import { countSteps } from "../../support/steps.ts";
import { cachedBase, canBuild, debian, isRoot, lackedPackages, places } from "./place.ts";

const [first = "", second = ""] = lackedPackages(2);
const none = { own: "/nowhere", shared: undefined };

/** Runs a program of a layer as the sandbox does: as an unprivileged user, with the layer as a read-only root. */
function runIn(root: string, argv: readonly string[], mounts: readonly string[] = []): string {
  const drop = isRoot ? ["/usr/bin/setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"] : [];
  const sandbox = ["/usr/bin/bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000", "--ro-bind", root, "/"];
  const [program = "", ...args] = [...drop, ...sandbox, "--proc", "/proc", "--dev", "/dev", ...mounts, "--", ...argv];
  return execFileSync(program, args, { encoding: "utf8", env: { PATH: "/usr/games:/usr/bin:/bin" } });
}

const contentOf = (folder: string) => readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();

/** The host's state of apt and dpkg. */
function hostState(): string {
  const hash = createHash("sha256");
  for (const folder of ["/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg/info", "/var/log/apt"])
    hash.update(JSON.stringify(contentOf(folder).map((name) => [name, lstatSync(join(folder, name)).mtimeMs])));
  return hash.update(readFileSync("/var/lib/dpkg/status")).digest("hex");
}

describe("finding the root for a skill's packages", () => {
  it("[S-26] needs none without packages", () => {
    expect(findPackageRoot([], none)).toEqual({ kind: "none" });
  });

  it.skipIf(!debian)("[S-26] is the host's own when it has them all, with their versions as the lock", () => {
    const version = execFileSync("dpkg-query", ["-W", "-f", "${Version}", "tar"], { encoding: "utf8" });
    expect(findPackageRoot(["tar", "dpkg", "tar"], none)).toMatchObject({
      kind: "host",
      lock: { packages: [{ name: "dpkg" }, { name: "tar", version }] },
    });
  });

  it.skipIf(!debian)("[S-26] explains how to build a missing one", () => {
    expect(findPackageRoot(["tar", first], none)).toEqual({
      kind: "missing",
      fix: "build them once",
      commands: ["skillet packages build"],
    });
  });
});

describe.skipIf(!canBuild)("building system packages", { timeout: 90_000 }, () => {
  let base: BaseSystem;
  let folder: string;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let shelf: PackageFolders;
  let layer: AptLayer;
  let said: string[];
  let before: string;
  beforeAll(async () => {
    base = await cachedBase();
    folder = mkdtempSync(join(tmpdir(), "skillet-test-"));
    shelf = places(folder);
    before = hostState();
    said = [];
    const built = await buildPackages([first], shelf, { onProgress: (text) => said.push(text) });
    if (built.kind !== "layer") throw new Error(built.kind);
    layer = built;
  }, 180_000);

  it("[S-26] installs a package into a separate root, which any user can run", () => {
    const { version } = layer.lock.packages.find(({ name }) => name === first) ?? {};
    expect(runIn(layer.root, ["dpkg-query", "-W", "-f", "${Version}", first])).toBe(version);
    expect(runIn(layer.root, ["sh", "-c", "cat $(dpkg -L $0 | grep -m1 copyright)", first])).not.toBe("");
    expect(said.join("\n")).toContain(`setting up ${first}`);
    expect(findPackageRoot([first], shelf)).toMatchObject(layer);
    expect(readdirSync(join(shelf.own, "staging"))).toEqual([]);
  });

  it("[Q-18] changes nothing in the host's own packages", () => {
    expect(hostState()).toBe(before);
    expect(findPackageRoot([first], none).kind, "the host does not have it, as before").toBe("missing");
  });

  it("[Q-18] has a lock of names, versions and SHA-256, the same each time", async () => {
    const again = await buildPackages([first], places());
    const { lock } = layer;
    expect(lock).toMatchObject({ suite: debian?.suite, arch: debian?.arch, base: base.id, names: [first] });
    expect(lock.packages.length).toBeGreaterThan(0);
    for (const { sha256, version, size, path } of lock.packages) {
      expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      expect(version).not.toBe("");
      expect(size).toBeGreaterThan(0);
      expect(path, "without the name of a mirror").toMatch(/^pool\//);
    }
    if (again.kind !== "layer") throw new Error(again.kind);
    expect(again.root).not.toBe(layer.root);
    expect(formatPackageLock({ ...again.lock, packages: [...again.lock.packages].reverse() })).toBe(
      formatPackageLock(lock),
    );
    const { packages } = JSON.parse(readFileSync(join(base.root, "../lock.json"), "utf8"));
    expect(packages.find(({ name }: { name: string }) => name === "libc6").sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it("[Q-18] refuses a deb that does not match the lock, and leaves nothing", async () => {
    const { own, shared } = places();
    const host = requireDebian();
    await withBuilderLock(own, { range: resolveIdRange }, async (turn) => {
      const apt = createApt(own, host, turn);
      const options = { packageFolder: own, range: resolveIdRange(), apt };
      const lock = await resolveLayerLock({ ...host, base: base.id, names: [first] }, base, { apt });
      const forged = (change: object) => ({
        ...lock,
        packages: lock.packages.map((entry, index) => (index === 0 ? { ...entry, ...change } : entry)),
      });
      for (const change of [{ sha256: "0".repeat(64) }, { size: 17 }]) {
        await expect(buildAptLayer(forged(change), base, options)).rejects.toMatchObject({ code: "package-tampered" });
      }
    });
    expect(["layers", "sets", "staging"].flatMap((folder) => readdirSync(join(own, folder)))).toEqual([]);
    expect(contentOf(join(own, "apt")).filter((name) => name.endsWith(".deb"))).toEqual([]);
    expect(findPackageRoot([first], { own, shared }).kind).toBe("missing");
  });

  it("[Q-18] names all dependencies, also those that a killed build had fetched already", async () => {
    const { own } = places();
    const host = requireDebian();
    await withBuilderLock(own, { range: resolveIdRange }, async (turn) => {
      const apt = createApt(own, host, turn);
      const lock = await apt.resolve([first], base.root, {});
      expect(lock.length).toBeGreaterThan(0);
      await apt.fetch([first], base.root, { lock });
      expect(await apt.resolve([first], base.root, {})).toEqual(lock);
    });
  });

  it("[Q-18] names a package that does not exist, and does not accept a virtual one for it", async () => {
    const where = places();
    await expect(buildPackages(["no-such-package", first], where)).rejects.toMatchObject({
      code: "package-unresolved",
      message: expect.stringContaining("no-such-package"),
    });
    await expect(buildPackages(["awk"], where)).rejects.toMatchObject({ code: "package-unresolved" });
    expect(readdirSync(join(where.own, "layers"))).toEqual([]);
  });

  it("[S-26] plans without building: names, versions, sizes and their sum", async () => {
    const where = places();
    const plan = await planPackages([first], where);
    expect(plan).toMatchObject({ by: "build", base: [], names: [first] });
    expect(plan.packages.map(({ name }) => name)).toContain(first);
    expect(plan.download).toBe(plan.packages.reduce((sum, { size }) => sum + size, 0));
    expect(readdirSync(join(where.own, "layers"))).toEqual([]);
    const bare = await planPackages([first], { ...where, shared: undefined });
    expect(bare.base.map(({ name }) => name)).toEqual(expect.arrayContaining(["apt", "libc6", "perl-base"]));
    expect(bare.download).toBeGreaterThan(plan.download);
  });

  it("[S-26] builds once for two concurrent requests", async () => {
    const where = places();
    const told: string[] = [];
    const onProgress = (text: string) => told.push(text);
    const [one, other] = await Promise.all([
      buildPackages([first], where, { onProgress }),
      buildPackages([first, first], where, { onProgress }),
    ]);
    expect(one).toEqual(other);
    expect(told.filter((text) => text.startsWith("installing"))).toHaveLength(1);
  });

  it("[S-26] is found again in a few steps", async () => {
    const [count] = await countSteps(
      ["src/sandbox/packages/apt-packages.ts"],
      ({ findPackageRoot }: typeof import("../../../src/sandbox/packages/apt-packages.ts"), [first, shelf]) =>
        findPackageRoot([first], shelf),
      [[first, shelf] as const],
    );
    expect(count).toBeLessThan(10_000);
  });

  it("[Q-18] does not use a root that others can write to", () => {
    for (const path of [join(layer.root, ".."), layer.root, join(shelf.own, "sets"), shelf.own]) {
      chmodSync(path, 0o777);
      expect(findPackageRoot([first], shelf).kind, path).toBe("missing");
      chmodSync(path, 0o755);
      expect(findPackageRoot([first], shelf).kind).toBe("layer");
    }
  });

  it("[S-26] has a mount point for everything that the sandbox mounts", () => {
    const points = ["/skill", "/workspace", "/home/skill", "/opt/skillet", "/tmp", "/run", "/sys"];
    const mounts = points.flatMap((point) => ["--tmpfs", point]);
    const written = points.map((point) => `echo x > ${point}/x`).join(" && ");
    expect(runIn(layer.root, ["sh", "-c", `${written} && id -u`], mounts)).toBe("1000\n");
  });

  it("stops on abort, and removes leftovers of a killed build", async () => {
    const where = places();
    const controller = new AbortController();
    const onProgress = (text: string) => text.startsWith("installing") && controller.abort();
    await expect(buildPackages([first], where, { onProgress, signal: controller.signal })).rejects.toMatchObject({
      code: "package-aborted",
    });
    expect(readdirSync(join(where.own, "staging"))).toEqual([]);
    mkdirSync(join(where.own, "staging", "layer-1", "root"), { recursive: true });
    writeFileSync(join(where.own, "staging", "layer-1", "root", "x"), "");
    expect((await buildPackages([first], where)).kind).toBe("layer");
    expect(readdirSync(join(where.own, "staging"))).toEqual([]);
  });

  it("[S-26] lists the built layers, and prunes those without a skill", async () => {
    const where = places();
    await buildPackages([first], where);
    await buildPackages([second], where);
    const own = () => listAptLayers(where).filter(({ isOwn }) => isOwn);
    expect(own().map(({ names }) => names)).toEqual(expect.arrayContaining([[first], [second]]));
    expect(own().every(({ isCurrent, bytes, built }) => isCurrent && bytes > 0 && built !== "")).toBe(true);
    const unused = findUnusedLayers(where, [[second]]);
    expect(unused.layers.map(({ names }) => names)).toEqual([[first]]);
    expect(own(), "looking changes nothing").toHaveLength(2);
    expect(await pruneAptLayers(where, [[second]])).toEqual(unused);
    expect(own().map(({ names }) => names)).toEqual([[second]]);
    expect(readdirSync(join(where.own, "sets"))).toHaveLength(1);
    expect(findPackageRoot([first], { own: where.own, shared: undefined }).kind).toBe("missing");
    await pruneAptLayers(where, []);
    expect(own()).toEqual([]);
    expect((await cachedBase()).id, "the shared base stays").toBe(base.id);
    await removeBuildTree(where.own, resolveIdRange);
  });
});
