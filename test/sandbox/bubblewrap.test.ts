import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SANDBOX_DEFAULTS } from "../../src/host/sandbox-settings.ts";
import { openSandbox } from "../../src/sandbox/open.ts";
import { asUser, type Tried } from "../support/as-user.ts";
import { checksFor } from "./checks.ts";
import { describeSandbox, describeWithBubblewrap } from "./contract.ts";
import { sceneFor } from "./scene.ts";

const whoever = process.getuid?.() === 0 ? "root" : "who runs the tests";

describeWithBubblewrap("bubblewrap", () => {
  const home = mkdtempSync(join(tmpdir(), "skillet-test-"));
  afterAll(() => rmSync(home, { recursive: true, force: true }));
  // In a process of its own, with the same checks, while the first ones run here.
  let apart: Promise<Tried>;
  beforeAll(() => {
    apart = asUser();
    apart.catch(() => {}); // It is told where it is waited for.
  });

  describeSandbox(`as ${whoever}`, "strong", () => openSandbox({ settings: SANDBOX_DEFAULTS, home }));

  it("[Q-13] refuses a NUL in a path or a value, which would begin an option of bubblewrap's", async () => {
    const sandbox = await openSandbox({ settings: SANDBOX_DEFAULTS, home });
    const { run, folder, end } = sceneFor(sandbox);
    const bad = "/tmp\0--ro-bind\0/\0/tmp/host";
    const mount = { from: folder(), to: bad, access: "read" as const };
    for (const options of [{ folder: bad }, { mounts: [mount] }, { env: { A: `x${bad}` } }]) {
      await expect(run(["/bin/true"], options)).rejects.toThrow();
    }
    end();
  });

  it("[Q-14] tells the operator what code asked for that is not open", async () => {
    const { run } = sceneFor(await openSandbox({ settings: SANDBOX_DEFAULTS, home }));
    const ask = ["/usr/bin/curl", "-s", "http://other.example/", "http://other.example/"] as const;
    const ran = await run(ask, { network: [{ host: "127.0.0.1", port: 1 }] });
    expect(ran.notices).toEqual([
      {
        code: "network-closed",
        message: "it asked for other.example:80, which is not open",
        fix: 'add "other.example:80" to network under [skills.<name>] in config.toml, if it may',
      },
    ]);
    expect(await run(["/bin/true"])).not.toHaveProperty("notices");
  });

  it("[Q-01] lets no variable of the code's act on bubblewrap, which is outside", async () => {
    const sandbox = await openSandbox({ settings: SANDBOX_DEFAULTS, home });
    const ran = await sceneFor(sandbox).run(["/bin/true"], { env: { LD_DEBUG: "files" } });
    expect(ran.stderr).toContain("/bin/true");
    expect(ran.stderr).not.toContain("bwrap");
  });

  describe("as an ordinary user", () => {
    let tried: Tried;
    beforeAll(async () => {
      tried = await apart;
    });

    it("is one", () => {
      expect(tried.user).not.toBe(0);
    });

    for (const { title } of checksFor("strong")) {
      it(`${title}, as an ordinary user`, () => {
        expect(tried.checks).toHaveProperty([title], null);
      });
    }

    for (const id of ["Q-01", "Q-02", "Q-13", "Q-14", "Q-15", "Q-17"]) {
      it(`[${id}] holds against everything that is tried, as an ordinary user`, () => {
        const probes = tried.probes.filter((probe) => probe.id === id);
        expect(probes.length).toBeGreaterThan(0);
        expect(probes.filter(({ holds }) => holds === false)).toEqual([]);
      });
    }
  });
});
