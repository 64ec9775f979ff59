import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_SANDBOX_SETTINGS } from "../../src/config/limits.ts";
import { type BubblewrapOptions, createBubblewrapSandbox } from "../../src/sandbox/bubblewrap.ts";
import { createBaseMounts, createSandbox } from "../../src/sandbox/create-sandbox.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { allocateRunUser, getSandboxFolder, isRoot } from "../../src/sandbox/sandbox-folders.ts";
import { isInside } from "../../src/util/safe-path.ts";
import { findSystemProgram } from "../../src/util/system.ts";
import { runAsUser, type Tried } from "../support/as-user.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { BOMBS } from "./bomb-checks.ts";
import { checksFor } from "./checks.ts";
import { describeSandbox, describeWithBubblewrap } from "./contract.ts";
import { sceneFor } from "./scene.ts";

const whoever = process.getuid?.() === 0 ? "root" : "who runs the tests";

describeWithBubblewrap("bubblewrap", () => {
  const home = mkdtempSync(join(tmpdir(), "skillet-test-"));
  afterAll(() => rmSync(home, { recursive: true, force: true }));
  // In another process, with the same checks, while the first ones run here.
  let apart: Promise<Tried>;
  beforeAll(() => {
    apart = runAsUser();
    apart.catch(() => {}); // Its result is awaited there.
  });

  describeSandbox(`as ${whoever}`, "strong", () => createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home }));

  const made = (options: Partial<BubblewrapOptions>) =>
    createBubblewrapSandbox({
      program: findSystemProgram("bwrap") ?? "",
      mounts: createBaseMounts(getSandboxFolder(home), home),
      ...(isRoot() ? { user: allocateRunUser } : {}),
      ...options,
    });

  describe("bubblewrap without a cgroup", () => {
    for (const { title, check } of BOMBS) {
      it(`${title}, without a cgroup`, async () => {
        const scene = sceneFor(made({ cgroups: false }));
        expect((await scene.shell("true")).isolation.bounds).toBe("process");
        await check(scene);
        scene.end();
      });
    }
  });

  it("[Q-02] refuses inotify when nothing limits a user's number of instances", async () => {
    // Namespaces can be created by bubblewrap alone: separate accounting fails before it starts anything.
    const { run } = sceneFor(made({ count: () => ["/bin/sh", "-c", "echo not permitted >&2; exit 1"] }));
    const watch = 'require("node:fs").watch("/tmp", () => {}); console.log("watched")';
    const ran = await run(["/opt/skillet/bin/node", "-e", watch], isRoot() ? { user: ORDINARY_USER } : {});
    expect(ran).toMatchObject({ stdout: "", isolation: { resources: { inotify: "refused" } } });
    expect(ran.stderr).toContain("EMFILE");
    expect(ran.stderr).not.toContain("not permitted");
  });

  it.runIf(process.getuid?.() === 0)(
    "[Q-02] runs each command of root as a separate user without an account",
    async () => {
      const sandbox = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });
      const users = new Set<number>();
      const look = async (token: string) => {
        const stop = new AbortController();
        await sceneFor(sandbox).shell('echo ready; sleep 30; : "$1"', {
          args: [token],
          signal: stop.signal,
          onOutput() {
            for (const { users: own } of findHostProcesses(token) ?? []) for (const user of own) users.add(user);
            stop.abort();
            return true;
          },
        });
      };
      await Promise.all([look(`user-${randomUUID()}`), look(`user-${randomUUID()}`)]);
      const accounts = readFileSync("/etc/passwd", "utf8");
      const found = [...users].filter((user) => user !== 0); // Those of the shell that enters the cgroup.
      expect(found.length).toBeGreaterThanOrEqual(2);
      for (const user of found) expect(accounts).not.toContain(`:${user}:`);
    },
  );

  it.runIf(process.getuid?.() === 0)(
    "[Q-13] shows root's code no path of a home folder in its list of mounts",
    async () => {
      const { run } = sceneFor(await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home }));
      const { stdout } = await run(["/bin/cat", "/proc/self/mountinfo"]);
      const roots = stdout
        .trim()
        .split("\n")
        .map((line) => line.split(" ")[3] ?? "");
      expect(roots.some((path) => path.startsWith("/var/lib/skillet/"))).toBe(true);
      const isSystem = (path: string) =>
        /^\/(?:$|null$|(?:usr|etc|opt|var\/lib\/skillet|bin|sbin|lib\w*)(?:\/|$))/.test(path);
      const unknown = roots.filter((path) => !isSystem(path));
      expect(
        unknown.filter((path) =>
          [homedir(), dirname(process.execPath), "/home", tmpdir()].some((at) => isInside(at, path)),
        ),
      ).toEqual([]);
    },
  );

  it("[Q-13] refuses a NUL in a path or a value, which would start an option of bubblewrap", async () => {
    const sandbox = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });
    const { run, folder, end } = sceneFor(sandbox);
    const bad = "/tmp\0--ro-bind\0/\0/tmp/host";
    const mount = { from: folder(), to: bad, access: "read" as const };
    for (const options of [{ folder: bad }, { mounts: [mount] }, { env: { A: `x${bad}` } }]) {
      await expect(run(["/bin/true"], options)).rejects.toThrow();
    }
    end();
  });

  it("[Q-14] reports hosts that code requested without permission to the operator", async () => {
    const { run } = sceneFor(await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home }));
    const ask = ["/usr/bin/curl", "-s", "http://other.example/", "http://other.example/"] as const;
    const ran = await run(ask, { network: [{ host: "127.0.0.1", port: 1 }] });
    expect(ran.notices).toEqual([
      {
        code: "network-not-allowed",
        message: "it tried to reach other.example:80, which is not allowed",
        fix: 'to allow it, add "other.example:80" to network under [skills.<name>] in config.toml',
      },
    ]);
    expect(await run(["/bin/true"])).not.toHaveProperty("notices");
  });

  it("[Q-01] lets no variable of the code affect bubblewrap, which is outside", async () => {
    const sandbox = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });
    const ran = await sceneFor(sandbox).run(["/bin/true"], { env: { LD_DEBUG: "files" } });
    expect(ran.stderr).toContain("/bin/true");
    expect(ran.stderr).not.toContain("bwrap");
  });

  describe("bubblewrap as an ordinary user", () => {
    let tried: Tried;
    beforeAll(async () => {
      tried = await apart;
    });

    it("runs as one", () => {
      expect(tried.user).not.toBe(0);
    });

    for (const { title } of checksFor("strong")) {
      it(`${title}, as an ordinary user`, () => {
        expect(tried.checks).toHaveProperty([title], null);
      });
    }

    for (const id of ["Q-01", "Q-02", "Q-13", "Q-14", "Q-15", "Q-17"]) {
      it(`resists every attempt, as an ordinary user`, () => {
        const probes = tried.probes.filter((probe) => probe.id === id);
        expect(probes.length).toBeGreaterThan(0);
        expect(probes.filter(({ holds }) => holds === false)).toEqual([]);
      });
    }
  });
});
