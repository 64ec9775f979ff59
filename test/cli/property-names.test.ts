import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createHome } from "../support/home.ts";
import { createHomeWith, startMcpProcess } from "../support/mcp-process.ts";
import { startModelServer } from "../support/model-server.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";
import { modelConfig } from "../support/use.ts";
import { createAddScene } from "./add-scene.ts";

/** Names that every JavaScript object has, as the standard allows them for a skill. */
const NAMES = ["prototype", "constructor", "tostring", "valueof", "hasownproperty"];
const SCRIPT = '#!/bin/sh\necho "token of $1: $TOKEN"\n';
const skill = (name: string) => skillText(name, { more: "env: [TOKEN]\n" });
const files = (root: string) =>
  Object.fromEntries(
    NAMES.flatMap((name) => [
      [`${root}/${name}/SKILL.md`, skill(name)],
      [`${root}/${name}/scripts/go.sh`, SCRIPT],
    ]),
  );

describe("a skill named like a property of JavaScript objects", () => {
  it("[Q-08] is found, and only by its own name", async () => {
    const catalog = await loadCatalog([
      createDirectorySource({ path: join(temporaryFolder(files("skills")), "skills") }),
    ]);
    expect(catalog.names()).toEqual([...NAMES].sort());
    expect(catalog.diagnostics).toEqual([]);
    for (const name of ["toString", "valueOf", "hasOwnProperty", "__proto__"]) expect(catalog.has(name)).toBe(false);
  });

  it("[Q-08] cannot have the name __proto__: the folder's name replaces it", async () => {
    const path = temporaryFolder({ "odd/SKILL.md": skillText("__proto__") });
    const { skills, diagnostics } = await createDirectorySource({ path }).load();
    expect(skills.map(({ name }) => name)).toEqual(["odd"]);
    expect(diagnostics.map(({ code }) => code)).toEqual(["name-invalid"]);
  });

  it.each(NAMES)("[Q-08] %s is listed, trusted, configured, run and counted", async (name) => {
    const server = await startModelServer("openai", [() => "The answer."]);
    const { run, home, project } = createHome(files("project/skills"), modelConfig("openai", server));
    const listed = await runSkilletProcess(["list", "--json"], { cwd: project, env: { HOME: home } });
    expect(JSON.parse(listed.stdout).skills).toContainEqual(expect.objectContaining({ name, trust: "untrusted" }));
    expect((await run(["trust", join(project, "skills", name), "--yes"])).code).toBe(0);
    expect((await run(["config", "set", `skills.${name}.TOKEN`], { stdin: "abc-123-xyz" })).code).toBe(0);
    expect((await run(["config", "get", `skills.${name}.TOKEN`, "--show-secrets"])).stdout).toBe("abc-123-xyz\n");
    const shown = JSON.parse((await run(["show", name, "--json"])).stdout);
    expect(shown).toMatchObject({ name, trust: "trusted", denials: [] });
    for (const other of NAMES.filter((one) => one !== name)) {
      expect(JSON.parse((await run(["show", other, "--json"])).stdout)).toMatchObject({ trust: "untrusted" });
      expect((await run(["config", "get", `skills.${other}.TOKEN`])).code).not.toBe(0);
    }
    const used = await run(["run", name, "Do", "it"]);
    expect([used.code, used.stdout]).toEqual([0, "The answer.\n"]);
    expect((await run(["script", name, "go.sh", name])).stdout).toBe(`token of ${name}: [TOKEN]\n`);
    const { skills } = JSON.parse((await run(["stats", "--json"])).stdout);
    expect(skills).toContainEqual(expect.objectContaining({ name, runs: 1 }));
    expect((await run(["disable", name])).code).toBe(0);
    expect((await run(["list"])).stdout).not.toMatch(new RegExp(`^${name} `, "m"));
    expect((await run(["enable", name])).code).toBe(0);
    expect((await run(["list"])).stdout).toMatch(new RegExp(`^${name} `, "m"));
  });

  it("[Q-08] is added with a lock, verified, copied to a client, and removed", async () => {
    const { run, home } = createAddScene();
    const source = temporaryFolder(files("skills"));
    chmodSync(source, 0o755);
    const added = await run(["add", join(source, "skills"), "--all", "--yes", "--json"]);
    expect(added.code, added.stderr).toBe(0);
    const verified = JSON.parse((await run(["verify", "--json"])).stdout);
    expect(JSON.stringify(verified)).toContain('"prototype"');
    expect((await run(["verify"])).code).toBe(0);
    for (const name of NAMES) {
      expect(JSON.parse((await run(["show", name, "--json"])).stdout)).toMatchObject({
        trust: "trusted",
        added: { state: "unchanged" },
      });
    }
    expect((await run(["export", "--to", "claude", ...NAMES])).code).toBe(0);
    expect((await run(["export", "--list"])).stdout).toContain("hasownproperty");
    expect((await run(["remove", "constructor"])).code).toBe(0);
    const left = JSON.parse((await run(["list", "--json"])).stdout).skills as { name: string; file: string }[];
    const names = left.filter(({ file }) => file.startsWith(join(home, ".skillet"))).map(({ name }) => name);
    expect(names).toEqual(NAMES.filter((name) => name !== "constructor").sort());
  });

  it("[Q-08] is served: its instructions, its prompt and its tools", async () => {
    const config = NAMES.map((name) => `[skills.${name}]\nTOKEN = "abc-123-xyz"\n`).join("\n");
    const server = startMcpProcess(
      createHomeWith({ ...files("home/.skillet/skills"), "home/.skillet/config.toml": config }),
    );
    await server.initialize();
    const { result: listed } = await server.call("list_skills");
    const names = listed.structuredContent.skills.map((one: { name: string }) => one.name);
    expect(names).toEqual(expect.arrayContaining(NAMES));
    for (const name of NAMES) {
      const { result } = await server.call("load_skill", { skill: name });
      expect(result.content[0].text).toContain(`# ${name}`);
      const prompt = await server.request("prompts/get", { name });
      expect(prompt.result.messages[0].content.text).toContain(`# ${name}`);
    }
    const { result } = await server.request("tools/list");
    const tools = result.tools.map((one: { name: string }) => one.name);
    expect(tools).toEqual(expect.arrayContaining(NAMES.map((name) => `${name}__go`)));
  });
});
