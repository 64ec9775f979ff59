import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SANDBOX_DEFAULTS } from "../../src/host/sandbox-settings.ts";
import { openSandbox } from "../../src/sandbox/open.ts";
import { asUser, type Tried } from "../support/as-user.ts";
import { checksFor } from "./checks.ts";
import { describeSandbox, describeWithBubblewrap } from "./contract.ts";

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
