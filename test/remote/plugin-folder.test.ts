import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findPluginFolders } from "../../src/remote/plugin-folders.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const SKILL = { "skills/greet/SKILL.md": skillText("greet") };
const schema = (version: string) => `https://agent-plugins.org/schemas/${version}/plugin.schema.json`;
const json = (value: unknown) => JSON.stringify(value);

describe("a plugin's folder", () => {
  it("[S-33] is known by its manifest, and its skills are in skills/", () => {
    const manifests = {
      "plugin.json": json({ $schema: schema("1.0.0"), name: "p" }),
      ".plugin/plugin.json": json({ name: "p" }),
      ".claude-plugin/plugin.json": json({ name: "p" }),
    };
    for (const [path, text] of Object.entries(manifests)) {
      const folder = temporaryFolder({ ...SKILL, [path]: text });
      expect(findPluginFolders(folder)).toEqual({ folders: [join(folder, "skills")], notes: [] });
    }
  });

  it("is not one without a manifest, or with a plugin.json of another kind", () => {
    expect(findPluginFolders(temporaryFolder(SKILL))).toBeUndefined();
    for (const text of [
      json({ id: "grafana-panel" }),
      "{",
      "[]",
      json({ $schema: "https://example.com/plugin.json" }),
    ]) {
      expect(findPluginFolders(temporaryFolder({ ...SKILL, "plugin.json": text }))).toBeUndefined();
    }
  });

  it("has the additional folders in its manifest, as long as they are inside it", () => {
    const outside = temporaryFolder(SKILL);
    const folder = temporaryFolder({
      ...SKILL,
      "more/wave/SKILL.md": skillText("wave"),
      ".claude-plugin/plugin.json": json({
        name: "p",
        skills: ["./more", "./skills/greet", "../", "./none", "./link", "/etc", 5, "a\0b"],
      }),
    });
    symlinkSync(outside, join(folder, "link"));
    const found = findPluginFolders(folder);
    expect(found?.folders).toEqual([join(folder, "skills"), join(folder, "more")]);
    expect(found?.notes.map((note) => /"(.*?)"/.exec(note)?.[1])).toEqual([
      "../",
      "./none",
      "./link",
      "/etc",
      "a\\u{0}b",
    ]);
  });

  it("takes no folders from an Agent Plugin's manifest, which cannot define them", () => {
    const folder = temporaryFolder({
      ...SKILL,
      "more/wave/SKILL.md": skillText("wave"),
      "plugin.json": json({ $schema: schema("1.0.0"), name: "p", skills: "./more", hooks: {} }),
    });
    expect(findPluginFolders(folder)).toEqual({ folders: [join(folder, "skills")], notes: [] });
  });

  it("is not read when its version is unknown", () => {
    const folder = temporaryFolder({ ...SKILL, "plugin.json": json({ $schema: schema("2.0.0"), name: "p" }) });
    const found = findPluginFolders(folder);
    expect(found?.folders).toEqual([]);
    expect(found?.notes).toEqual([
      expect.stringMatching(/2\.0\.0.*only Agent Plugins 1\.0\.0 and 1\.1\.0 are supported/),
    ]);
  });

  it("has all other parts reported, since none is added", () => {
    const folder = temporaryFolder({
      ...SKILL,
      "hooks/hooks.json": "{}",
      "commands/x.md": "",
      ".claude-plugin/plugin.json": json({ name: "p\u202e", mcpServers: {}, agents: "./a" }),
    });
    mkdirSync(join(folder, "com.example.client"));
    expect(findPluginFolders(folder)?.notes).toEqual([
      'The plugin "p\\u{202e}" has more than skills (agents, commands, hooks, MCP servers): only its skills are added',
    ]);
  });
});
