import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials } from "../../src/agent/policy/skill-policies.ts";
import { requireSecretOwner } from "../../src/agent/policy/trust-policy.ts";
import { discover } from "../../src/config/discover.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { createSecretGrants } from "../../src/store/trust.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { defineTestSkill } from "../support/skills.ts";

const config = { "home/.skillet/config.toml": '[skills.research]\nKEY = "sesame"\n' };
const research = skillText("research", { more: "env: [KEY]\n" });
const places = { "home/.skillet/skills/research/SKILL.md": research };
const codes = (...args: Parameters<typeof findDenials>) => findDenials(...args).map(({ code }) => code);

describe("values of a skill", () => {
  it("[Q-03] stay with the copy that they were granted to, and never go to another skill with its name", async () => {
    const scene = await discoverIn({ ...config, ...places });
    const { root } = scene;
    expect(codes(scene.skill("research"), scene, "use")).toEqual([]);
    requireSecretOwner(scene.skill("research"), scene);
    const file = join(root, "home/.skillet/grants.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, "utf8")).not.toContain("sesame");

    writeFiles(root, { "home/.agent/skills/nearer/SKILL.md": "", "project/skills/research/SKILL.md": research });
    const later = await scene.again();
    const copy = later.skill("research");
    expect(copy.origin.scope).toBe("workspace");
    later.trust.grant([{ skill: copy, copy: { digest: "sha256:x", files: new Map(), instructions: "" } }]);
    for (const purpose of ["run", "use"] as const) {
      const [denial, ...more] = findDenials(copy, later, purpose);
      expect(more).toEqual([]);
      expect(denial).toMatchObject({
        code: "secret-other-source",
        kind: "setup",
        fix: "review it, then run",
        commands: ["skillet trust --secrets research"],
      });
      expect(denial?.message).toContain("(~/.skillet/skills/research)");
      expect(denial?.message).toContain(join(root, "project/skills/research"));
      expect(denial?.message).not.toContain("sesame");
    }
    expect(codes(copy, later, "load"), "its text can be read").toEqual([]);
    expect(() => requireSecretOwner(copy, later)).toThrow(expect.objectContaining({ code: "secret-other-source" }));
    later.grants.grant(copy);
    expect(codes(copy, later, "use")).toEqual([]);
    expect(() => requireSecretOwner(copy, later)).not.toThrow();
    const first = later.skill("research@~/.skillet/skills");
    expect(codes(first, later, "use"), "it has them no longer").toEqual(["secret-other-source"]);
  });

  it("[Q-03] do not restrict skills that declare none, or that have none set", async () => {
    const scene = await discoverIn({ ...places, "home/.skillet/skills/plain/SKILL.md": skillText("plain") });
    scene.grants.grant(defineTestSkill("plain"));
    scene.grants.grant(defineTestSkill("research"));
    expect(codes(scene.skill("plain"), scene, "use")).toEqual([]);
    expect(codes(scene.skill("research"), scene, "use")).toEqual(["missing-variable"]);
    requireSecretOwner(scene.skill("research"), scene);
    expect(scene.grants.getOwner("research"), "nothing was claimed").toMatchObject({ location: "" });
  });

  it.each(["read", "read-write"])("[Q-03] include the workspace of a name: %s", async (access) => {
    const plain = skillText("plain");
    const scene = await discoverIn({
      "home/.skillet/config.toml": `[skills.plain]\nworkspace = "${access}"\n`,
      "home/.skillet/skills/plain/SKILL.md": plain,
    });
    requireSecretOwner(scene.skill("plain"), scene);
    writeFiles(scene.root, { "project/skills/plain/SKILL.md": plain });
    const later = await scene.again();
    const copy = later.skill("plain");
    expect(copy.origin.scope).toBe("workspace");
    later.trust.grant([{ skill: copy, copy: { digest: "sha256:x", files: new Map(), instructions: "" } }]);
    expect(codes(copy, later, "use")).toEqual(["secret-other-source"]);
    expect(() => requireSecretOwner(copy, later)).toThrow(expect.objectContaining({ code: "secret-other-source" }));
  });

  it("[Q-03] do not include the setting that hides the workspace from a name", async () => {
    const scene = await discoverIn(
      {
        "home/.skillet/config.toml": '[skills.plain]\nworkspace = "none"\n',
        "home/.skillet/skills/plain/SKILL.md": skillText("plain"),
      },
      {},
      { areGiven: false },
    );
    requireSecretOwner(scene.skill("plain"), scene);
    expect(scene.grants.getOwner("plain")).toBeUndefined();
  });

  it.each([
    ["a value", 'KEY = "sesame"', "KEY"],
    ["a network", 'network = ["127.0.0.1:9"]', "the settings in [skills.x]"],
    ["a workspace", 'workspace = "read"', "the settings in [skills.x]"],
    ["commands", "dynamic_commands = true", "the settings in [skills.x]"],
  ])("[Q-03] that were written by hand are not granted to a copy by its use: %s", async (_, line, said) => {
    const scene = await discoverIn(
      {
        "home/.skillet/config.toml": `[skills.x]\n${line}\n`,
        "home/.skillet/skills/x/SKILL.md": skillText("x", { more: "env: [KEY]\ncapabilities: [notes.read]\n" }),
      },
      {},
      { areGiven: false },
    );
    const skill = scene.skill("x");
    const denial = findDenials(skill, scene, "use").find(({ code }) => code === "secret-not-approved");
    expect(denial).toMatchObject({
      kind: "setup",
      fix: "review it, then run",
      commands: ["skillet trust --secrets x"],
    });
    expect(denial?.message).toContain(`(${said}) are not granted to any copy yet`);
    expect(denial?.message).toContain("~/.skillet/skills/x");
    expect(codes(skill, scene, "load"), "its text can be read").toEqual([]);
    expect(() => requireSecretOwner(skill, scene)).toThrow(expect.objectContaining({ code: "secret-not-approved" }));
    expect(scene.grants.getOwner("x")).toBeUndefined();
    scene.grants.grant(skill);
    expect(codes(skill, scene, "use")).not.toContain("secret-not-approved");
  });

  it("[Q-03] need no record when a program passes them, or provides the skill", async () => {
    const files = {
      "home/.skillet/config.toml": '[skills.x]\nKEY = "sesame"\n',
      "home/.skillet/skills/x/SKILL.md": skillText("x", { more: "env: [KEY]\n" }),
    };
    const { grants: _grants, ...scene } = await discoverIn(files, {}, { areGiven: false });
    expect(codes(scene.skill("x"), scene, "use"), "without `grants` the program decides").toEqual([]);
    const own = temporaryFolder({ "x/SKILL.md": files["home/.skillet/skills/x/SKILL.md"] });
    const found = await discover({
      workspace: scene.workspace,
      env: scene.env,
      sources: [createDirectorySource({ path: own, name: "program", scope: "inline" })],
      index: false,
    });
    expect(found.catalog.get("x").origin.scope).toBe("inline");
    expect(codes(found.catalog.get("x"), found, "use")).toEqual([]);
    expect(codes(found.catalog.get("x@user"), found, "use")).toEqual(["secret-not-approved"]);
  });

  it("[Q-03] are not granted while the record cannot be read", async () => {
    for (const broken of ["{", '{"version":2}', '{"version":1,"skills":{"research":{"source":1}}}', "[]"]) {
      const scene = await discoverIn({ ...config, ...places, "home/.skillet/grants.json": broken });
      expect(findDenials(scene.skill("research"), scene, "use")).toMatchObject([
        { code: "grants-unreadable", kind: "setup", message: expect.stringContaining("grants.json cannot be read") },
      ]);
      expect(() => requireSecretOwner(scene.skill("research"), scene)).toThrow(
        expect.objectContaining({ code: "grants-unreadable" }),
      );
      expect(readFileSync(join(scene.root, "home/.skillet/grants.json"), "utf8"), "it does not change").toBe(broken);
    }
  });

  it("[Q-03] are claimed once, however often they are requested", () => {
    const home = temporaryFolder();
    const [one, other] = [defineTestSkill("valueof"), defineTestSkill("tostring")];
    const grants = createSecretGrants(home);
    expect(grants.getOwner("tostring")).toBeUndefined();
    expect(grants.claim(one)).toMatchObject({ location: "" });
    expect(grants.claim(other)).toMatchObject({ location: "" });
    const written = readFileSync(join(home, "grants.json"), "utf8");
    grants.claim(one);
    expect(readFileSync(join(home, "grants.json"), "utf8"), "nothing new to write").toBe(written);
    expect(createSecretGrants(home).getOwner("tostring")).toMatchObject({ source: other.origin.source });
    expect(existsSync(join(home, "grants.json.lock"))).toBe(false);
  });

  it("[Q-03] of a bundled skill stay its own wherever the package is installed", async () => {
    const keys = '[skills.research]\nPERPLEXITY_API_KEY = "sesame"\n';
    const scene = await discoverIn({ "home/.skillet/config.toml": keys });
    const shipped = scene.skill("research");
    expect(shipped.origin.source).toBe("bundled");
    scene.grants.grant(shipped);
    expect(scene.grants.getOwner("research")).toMatchObject({ source: "bundled", location: "" });
    const root = temporaryFolder({
      "research/SKILL.md": skillText("research", { more: "env: [PERPLEXITY_API_KEY]\n" }),
    });
    const env = { HOME: join(scene.root, "home"), SKILLS_DIR: root };
    const other = await discover({ workspace: join(scene.root, "project"), env, index: false });
    expect(other.catalog.get("research").origin).toMatchObject({ source: "bundled", scope: "bundled" });
    expect(codes(other.catalog.get("research"), other, "use")).toContain("secret-other-source");
  });

  it("[Q-03] of a link are those of the folder that it leads to, whatever the source is called", async () => {
    const scene = await discoverIn({ ...config, ...places });
    requireSecretOwner(scene.skill("research"), scene);
    writeFileSync(
      join(scene.root, "home/.skillet/config.toml"),
      '[skills.research]\nKEY = "sesame"\n[sources.own]\npath = "skills"\n',
      { mode: 0o600 },
    );
    const again = await scene.again();
    expect(codes(again.skill("research@own"), again, "use")).toEqual([]);
  });
});
