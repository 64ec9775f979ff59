import { describe, expect, it } from "vitest";
import { NO_SETTINGS } from "../../src/host/settings.ts";
import type { System } from "../../src/host/system.ts";
import { denials, unavailability } from "../../src/policy/policy.ts";
import { bareSandbox } from "../../src/sandbox/bare.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { sketch } from "../support/skills.ts";

const LINUX: System = {
  platform: "linux",
  programs: "host",
  hasProgram: () => true,
  missingEngine: () => undefined,
  hasPackages: () => true,
};
const on = (system: Partial<System>, more: Record<string, unknown>) => {
  const host = { settings: NO_SETTINGS, system: { ...LINUX, ...system } };
  const skill = sketch("x", { more });
  return { skill, host, denial: unavailability(skill, host) };
};

describe("what this machine cannot run", () => {
  it.each([
    ["no sandbox", "no-sandbox", { missingEngine: () => "bwrap" }, { scripts: ["a.sh"] }],
    ["no packages", "no-packages", { hasPackages: () => false }, { packages: ["jq"] }],
    ["no interpreter", "no-interpreter", { hasProgram: (name: string) => name !== "ruby" }, { scripts: ["a.rb"] }],
    ["another system", "other-system", {}, { metadata: { os: ["macos"] } }],
    ["another system, as another client says it", "other-system", {}, { metadata: { openclaw: { os: ["darwin"] } } }],
  ] as [string, string, Partial<System>, Record<string, unknown>][])(
    "[S-34] is left out for %s, with the reason and what to do",
    (_, code, system, more) => {
      const { denial, skill, host } = on(system, more);
      expect(denial).toMatchObject({
        code,
        kind: "system",
        message: expect.stringContaining("'x'"),
        fix: expect.any(String),
      });
      expect(denials(skill, host, "run").map((one) => one.code)).toEqual([code]);
      expect(denials(skill, host, "load"), "its text can still be read").toEqual([]);
    },
  );

  it.each([
    ["a skill of words", { missingEngine: () => "bwrap", hasPackages: () => false, hasProgram: () => false }, {}],
    ["a system that is named", {}, { metadata: { os: ["macos", "linux"] } }],
    ["an interpreter that a package brings", { hasProgram: () => false }, { scripts: ["a.rb"], packages: ["ruby"] }],
    [
      "what an image may have",
      { programs: "own" as const, hasPackages: () => false, hasProgram: () => false },
      { scripts: ["a.rb"], packages: ["jq"] },
    ],
    ["a stand-in", { hasProgram: (name: string) => name === "python3" }, { scripts: ["a.py"] }],
  ] as [string, Partial<System>, Record<string, unknown>][])("[S-34] is not left out for %s", (_, system, more) => {
    expect(on(system, more).denial).toBeUndefined();
  });

  it("[S-34] is for a host with a sandbox of its own to say", () => {
    const { skill, host } = on({ missingEngine: () => "bwrap" }, { scripts: ["a.sh"] });
    expect(unavailability(skill, { ...host, sandbox: bareSandbox() })).toBeUndefined();
  });

  it("[S-34][S-29] is named with its reason by `list --all`, and not by `list`", async () => {
    const HOME = temporaryFolder({
      ".skillet/skills/mac/SKILL.md": skillText("mac", { more: "metadata:\n  os: [plan9]\n" }),
      ".skillet/skills/fine/SKILL.md": skillText("fine"),
    });
    const { stdout } = await skillet(["list"], { env: { HOME } });
    expect(stdout).toContain("fine");
    expect(stdout).not.toContain("mac");
    const all = await skillet(["list", "--all"], { env: { HOME } });
    expect(all.stdout).toContain("Not available here\n  mac  Skill 'mac' is for plan9, not for linux; use it there");
  });
});
