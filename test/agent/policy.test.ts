import { describe, expect, it } from "vitest";
import { findDenials, findUnavailability } from "../../src/agent/policy/skill-policies.ts";
import { discover } from "../../src/config/discover.ts";
import type { SystemInfo } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { createNoSandbox } from "../../src/sandbox/create-sandbox.ts";
import { createTrustStore } from "../../src/store/trust.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { defineTestSkill } from "../support/skills.ts";

const LINUX: SystemInfo = {
  platform: "linux",
  programs: "host",
  hasProgram: () => true,
  missingEngine: () => undefined,
  hasPackages: () => true,
};
const on = (system: Partial<SystemInfo>, more: Record<string, unknown>) => {
  const host = { settings: DEFAULT_SETTINGS, system: { ...LINUX, ...system } };
  const skill = defineTestSkill("x", { more });
  return { skill, host, denial: findUnavailability(skill, host) };
};

describe("a skill that this machine cannot run", () => {
  it.each([
    ["no sandbox", "sandbox-unavailable", { missingEngine: () => "bwrap" }, { scripts: ["a.sh"] }],
    ["no packages", "system-packages-missing", { hasPackages: () => false }, { packages: ["jq"] }],
    ["no interpreter", "script-interpreter", { hasProgram: (name: string) => name !== "ruby" }, { scripts: ["a.rb"] }],
    ["another system", "unsupported-os", {}, { metadata: { os: ["macos"] } }],
    ["another system, as another client says it", "unsupported-os", {}, { metadata: { openclaw: { os: ["darwin"] } } }],
  ] as [string, string, Partial<SystemInfo>, Record<string, unknown>][])(
    "[S-34] is omitted for %s, with the reason and the fix",
    (_, code, system, more) => {
      const { denial, skill, host } = on(system, more);
      expect(denial).toMatchObject({
        code,
        kind: "system",
        message: expect.stringContaining("'x'"),
        fix: expect.any(String),
      });
      expect(findDenials(skill, host, "run").map((one) => one.code)).toEqual([code]);
      expect(findDenials(skill, host, "load"), "its text can still be read").toEqual([]);
    },
  );

  it.each([
    ["a skill of words", { missingEngine: () => "bwrap", hasPackages: () => false, hasProgram: () => false }, {}],
    ["a system that is named", {}, { metadata: { os: ["macos", "linux"] } }],
    ["an interpreter that a package provides", { hasProgram: () => false }, { scripts: ["a.rb"], packages: ["ruby"] }],
    [
      "what an image may have",
      { programs: "own" as const, hasPackages: () => false, hasProgram: () => false },
      { scripts: ["a.rb"], packages: ["jq"] },
    ],
    ["a stand-in", { hasProgram: (name: string) => name === "python3" }, { scripts: ["a.py"] }],
  ] as [string, Partial<SystemInfo>, Record<string, unknown>][])("[S-34] is not omitted for %s", (_, system, more) => {
    expect(on(system, more).denial).toBeUndefined();
  });

  it("[S-34] is decided by a host with its own sandbox", () => {
    const { skill, host } = on({ missingEngine: () => "bwrap" }, { scripts: ["a.sh"] });
    expect(findUnavailability(skill, { ...host, sandbox: createNoSandbox() })).toBeUndefined();
  });

  it("[S-34][S-29] is listed with its reason by `list --all`, and not by `list`", async () => {
    const HOME = temporaryFolder({
      ".skillet/skills/mac/SKILL.md": skillText("mac", { more: "metadata:\n  os: [plan9]\n" }),
      ".skillet/skills/fine/SKILL.md": skillText("fine"),
    });
    const { stdout } = await skillet(["list"], { env: { HOME } });
    expect(stdout).toContain("fine");
    expect(stdout).not.toMatch(/^mac\b/m);
    const all = await skillet(["list", "--all"], { env: { HOME } });
    expect(all.stdout).toMatch(
      /Not available here\n(?: {2}.*\n)* {2}mac {2}Skill 'mac' is for plan9, not for linux; use it on one of those systems/,
    );
  });
});

describe("a disabled skill", () => {
  it("[S-10][S-32] is in no prompt or list and cannot be loaded, run or used, with the setting to change", async () => {
    const HOME = temporaryFolder({
      ".skillet/config.toml": "[skills.mine]\nenabled = false\n",
      ".skillet/skills/mine/SKILL.md": skillText("mine"),
    });
    for (const args of [["list"], ["list", "--prompt"], ["explain", "what skills are there", "--text"]])
      expect((await skillet(args, { env: { HOME } })).stdout, args.join(" ")).not.toMatch(/\bmine\b/);
    const found = await discover({ workspace: HOME, env: { HOME }, index: false });
    for (const purpose of ["load", "run", "use"] as const) {
      expect(findDenials(found.catalog.get("mine"), found, purpose)).toMatchObject([
        {
          code: "disabled",
          kind: "access",
          message: "Skill 'mine' is disabled in the configuration",
          fix: "enable it",
          commands: ["skillet enable mine"],
        },
      ]);
    }
  });

  it("[S-32] is reported with all other problems, each with its own code, message and fix", () => {
    const skill = defineTestSkill("x", {
      more: {
        sensitive: true,
        env: ["KEY"],
        required_tools: ["teleport"],
        capabilities: ["a.b"],
        metadata: { os: ["plan9"], requires: { bins: ["no-such"] } },
      },
    });
    const settings = {
      ...DEFAULT_SETTINGS,
      defaults: { allowChatIds: ["1"] },
      skills: new Map([["x", { enabled: false, variables: new Map() }]]),
    };
    const system = { ...LINUX, hasProgram: () => false };
    const trust = { ...createTrustStore(temporaryFolder(), []), getStatus: () => "untrusted" as const };
    const denied = findDenials(skill, { settings, system, trust }, "use");
    expect(denied.map(({ code }) => code)).toEqual([
      "disabled",
      "chat-type",
      "chat-id",
      "unsupported-os",
      "missing-tool",
      "missing-program",
      "untrusted",
      "missing-variable",
      "capability-unavailable",
    ]);
    expect(new Set(denied.map(({ message }) => message)).size).toBe(9);
    expect(new Set(denied.map(({ fix }) => fix)).size).toBe(9);
  });
});
