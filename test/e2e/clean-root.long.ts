import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDebianRoot, type DebianRoot, MMDEBSTRAP } from "../support/debian-root.ts";
import { findMissingLine, followGuide } from "../support/guide.ts";
import { createSceneFor } from "../support/guide-scenes.ts";

const canCreate = process.getuid?.() === 0 && existsSync(MMDEBSTRAP);
const PAGES = ["README.md", "docs/getting-started.md"];

describe.skipIf(!canCreate)("a new Debian machine", () => {
  let root: DebianRoot;
  beforeAll(() => {
    root = createDebianRoot();
  });
  afterAll(() => root.remove());

  /** Follows a page in the new system, and returns what differs. */
  async function follow(page: string, uid: number): Promise<string[]> {
    const steps = await followGuide(page, root.enter(await createSceneFor(page), uid));
    expect(steps.length).toBeGreaterThan(3);
    return steps.flatMap((step) => {
      const missing = findMissingLine(step);
      if (step.exit === step.expectedExit && missing === undefined) return [];
      return [`${page}:${step.line} ${step.command}: exit ${step.exit}, not shown: ${missing}\n${step.output}`];
    });
  }

  describe("as root", () => {
    it("installs everything with the first line of the README, the sandbox too, and uses a skill", () => {
      const { exit, output } = root.run("npm ci && npm start", { uid: 0, cwd: "/root/skillet" });
      expect({ exit, output }).toMatchObject({ exit: 0, output: expect.stringContaining("! bwrap is missing") });
      expect(output).toContain("apt-get install -y --no-install-recommends -- bubblewrap");
      expect(output).toMatch(/✓ done \(2 iterations, .*strong isolation\)/);
    });

    it("provides the command with the second line", () => {
      expect(root.run("npm install --global .", { uid: 0, cwd: "/root/skillet" }).exit).toBe(0);
      const { exit, output } = root.run("skillet --version", { uid: 0, cwd: "/tmp" });
      expect({ exit, output }).toEqual({ exit: 0, output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    });

    it.each(PAGES)("runs %s as it is printed", async (page) => {
      expect(await follow(page, 0)).toEqual([]);
    });
  });

  describe("as a user", () => {
    it("uses a skill with the first line of the README, and reports what root has to install", () => {
      const bwrap = join(root.folder, "usr/bin/bwrap");
      const isInstalled = existsSync(bwrap);
      if (isInstalled) root.run("apt-get remove -y bubblewrap", { uid: 0, cwd: "/" });
      rmSync(bwrap, { force: true });
      const first = root.run("npm ci && npm start", { uid: 1000, cwd: "/home/ada/skillet" });
      expect(first).toMatchObject({ exit: 0, output: expect.stringContaining("sandbox-unavailable") });
      const [command = ""] = /apt-get install .*bubblewrap/.exec(first.output) ?? [];
      expect(root.run(`apt-get update && ${command}`, { uid: 0, cwd: "/" }).exit).toBe(0);
      const second = root.run("npm start", { uid: 1000, cwd: "/home/ada/skillet" });
      expect(second).toMatchObject({ exit: 0, output: expect.stringContaining("strong isolation") });
    });

    it.each(PAGES)("runs %s as it is printed", async (page) => {
      expect(await follow(page, 1000)).toEqual([]);
    });
  });
});
