import { execFileSync, spawn } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDebianRoot, MMDEBSTRAP } from "./support/debian-root.ts";
import { createMachine, detach, formatLedger, openScene } from "./support/engine-scene.ts";
import { ROOT } from "./support/markdown-code.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "./support/postgres.ts";

const BUILDAH = "/usr/bin/buildah";
const MISSING = [
  process.getuid?.() === 0 ? [] : ["root"],
  ...[BUILDAH, MMDEBSTRAP].map((file) => (existsSync(file) ? [] : [file])),
  HAS_POSTGRES ? [] : ["postgresql"],
].flat();
if (MISSING.length > 0)
  process.stderr.write(`! The image of the Containerfile is not built: ${MISSING.join(", ")} missing\n`);

/** An own store, so that no image of this machine is used or changed. It needs no mount of an overlay. */
function openEngine(folder: string) {
  const common = ["--root", join(folder, "root"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const call = (...args: string[]) =>
    execFileSync(BUILDAH, [...common, ...args], {
      encoding: "utf8",
      maxBuffer: 2 ** 26,
      stdio: ["ignore", "pipe", "inherit"],
    }).trim();
  return { common, call };
}

/** Imports a new Debian system with Node and npm as an image: no image registry is needed. */
function importBase({ call }: ReturnType<typeof openEngine>, place: string): string {
  const root = createDebianRoot();
  for (const folder of ["root/skillet", "home/ada"]) rmSync(join(root.folder, folder), { recursive: true });
  copyFileSync(process.execPath, join(root.folder, "usr/local/bin/node"));
  const archive = join(place, "base.tar");
  execFileSync("tar", ["-C", root.folder, "-cf", archive, "."]);
  root.remove();
  const container = call("from", "scratch");
  call("add", container, archive, "/");
  rmSync(archive);
  call("config", "--env", `NODE_EXTRA_CA_CERTS=${process.env["NODE_EXTRA_CA_CERTS"] ?? ""}`, container);
  call("commit", "--rm", container, "localhost/base");
  return "localhost/base";
}

describe.skipIf(MISSING.length > 0)("the image of the Containerfile", () => {
  const place = mkdtempSync(join(tmpdir(), "skillet-image-"));
  let server: PostgresServer;
  let engine: ReturnType<typeof openEngine>;
  let container: string;
  beforeAll(async () => {
    server = await startPostgres();
    engine = openEngine(place);
    const context = join(place, "image");
    mkdirSync(context);
    execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", context], { cwd: ROOT });
    const file = join(context, "Containerfile");
    copyFileSync(join(ROOT, "Containerfile"), file);
    const base = `BASE=${importBase(engine, place)}`;
    engine.call(
      ...["bud", "--isolation", "chroot", "--pull-never", "--build-arg", base, "--tag", "skillet", "--file", file],
      context,
    );
    container = engine.call("from", "--pull-never", "localhost/skillet");
  });
  afterAll(async () => {
    engine.call("rm", "--all");
    rmSync(place, { recursive: true, force: true });
    await server.remove();
  });
  const run = (...command: string[]) => engine.call("run", "--isolation", "chroot", container, "--", ...command);

  it("has the program of this version, for a user that is not root and owns its home", () => {
    expect(run("skillet", "--version")).toBe(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version);
    expect(run("sh", "-c", "id -u; stat -c '%u %a' $HOME/.skillet; pwd").split("\n")).toEqual([
      "10001",
      "10001 700",
      "/srv/skillet",
    ]);
    expect(run("skillet", "list")).toContain("host-report");
  });

  it("[E-32] has a worker that executes a queued run of another machine, and drains on SIGTERM", async () => {
    const { url, world, engine: view } = await openScene(server);
    const machine = createMachine({ url, world });
    chmodSync(server.folder, 0o755); // The socket is for every user of this machine.
    execFileSync("chown", ["-R", "10001:10001", join(machine.home, ".skillet")]);
    const volumes = [
      `${join(machine.home, ".skillet")}:/var/lib/skillet/.skillet`,
      `${server.folder}:${server.folder}`,
    ].flatMap((volume) => ["--volume", volume]);
    const child = spawn(
      BUILDAH,
      [
        ...[...engine.common, "run", "--isolation", "chroot", ...volumes, "--env", `ENGINE_URL=${url}`, container],
        ...["--", "skillet", "worker", "--json"],
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    let stdout = "";
    child.stdout.on("data", (bytes) => {
      stdout += bytes;
    });
    const ended = new Promise((resolve) => child.on("close", resolve));
    const id = await detach(machine, "payer", "pay a 2");
    await view.waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a 0", "a 1"]);
    const [worker] = await view.database.query("select pid from skillet.workers");
    process.kill(Number(worker?.["pid"]), "SIGTERM");
    expect(await ended).toBe(0);
    expect(stdout).toContain('"type":"worker-stopped"');
  });
});
