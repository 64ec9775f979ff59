import { readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type AnySchema } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { getSkillLocation } from "../../src/store/trust.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { connectTo, ERAS, servingOf } from "../support/mcp-client.ts";
import { toolsetOf } from "../support/toolset.ts";
import { waitFor } from "../support/wait-for.ts";

const HOME = "home/.skillet/skills";
const TOOLSET = 'toolsets:\n  - "toolsets/index:Tools"\n';

/** Two skills with a tool of the same name; one has a script too. */
const TWO = {
  [`${HOME}/mail/SKILL.md`]: skillText("mail", {
    more: `${TOOLSET}triggers:\n  keywords: ["inbox"]\n`,
    body: "Send it with send.",
  }),
  [`${HOME}/mail/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }),
  [`${HOME}/mail/scripts/count.sh`]: '#!/bin/sh\necho "counted $1"\n',
  [`${HOME}/chat/SKILL.md`]: skillText("chat", { more: TOOLSET }),
  [`${HOME}/chat/toolsets/index.ts`]: toolsetOf({ send: 'return "chat of " + args.input;' }),
};

const OWN = [
  "list_skills",
  "search_skills",
  "load_skill",
  "activate_skills_for",
  "unload_skill",
  "read_skill_resource",
  "run_skill_script",
  "use_skill",
  "call_skill_tool",
];

async function told(changes: () => number, number: number): Promise<void> {
  await waitFor(() => expect(changes()).toBeGreaterThanOrEqual(number));
}

describe.each(ERAS)("a server for a client of %s", (era) => {
  it("[P-14] lists its tools in one order, each with a title, hints and the category skills", async () => {
    const { client } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(OWN);
    for (const tool of tools) {
      expect(tool.title).toMatch(/^[A-Z]/);
      expect(tool.inputSchema.type).toBe("object");
      expect(tool._meta).toMatchObject({ "skillet/category": "skills" });
      expect(Object.keys(tool.annotations ?? {}).sort()).toEqual([
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
        "readOnlyHint",
      ]);
    }
    const hints = (name: string) => tools.find((tool) => tool.name === name)?.annotations;
    expect(hints("load_skill")).toMatchObject({ readOnlyHint: true, destructiveHint: false });
    expect(hints("run_skill_script")).toMatchObject({ readOnlyHint: false, destructiveHint: false });
    expect(hints("use_skill")).toMatchObject({ readOnlyHint: false, destructiveHint: true, openWorldHint: true });
    await client.callTool({ name: "load_skill", arguments: { skill: "mail" } });
    const mounted = (await client.listTools()).tools.filter(({ name }) => name.startsWith("mail__"));
    expect(mounted.map(({ _meta }) => _meta)).toEqual(
      mounted.map(() => ({ "skillet/category": "skills", "skillet/skill": "mail" })),
    );
    expect(mounted.length).toBe(3);
  });

  it("[P-18] lists a skill's tools while it is loaded, and notifies the client each time", async () => {
    const { call, tools, changes } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    expect(await tools()).toEqual(OWN);
    const loaded = await call("load_skill", { skill: "mail" });
    expect(loaded.text).toContain("Send it with send.");
    expect(loaded.text).toContain("[It provides these tools: mail__count, mail__run]");
    expect(loaded.text).toContain("[The tools of its toolsets are still loading]");
    await told(changes, 1);
    expect(await tools()).toEqual([...OWN, "mail__send", "mail__count", "mail__run"]);
    expect((await call("mail__send", { input: "x" })).text).toContain("mail of x");
    expect((await call("unload_skill", { skill: "mail" })).text).toBe("Skill 'mail' is unloaded.");
    await told(changes, 2);
    expect(await tools()).toEqual(OWN);
    await expect(call("mail__send", { input: "x" })).rejects.toMatchObject({ code: -32602 });
    expect((await call("call_skill_tool", { tool: "mail__send", input: {} })).meta).toMatchObject({
      "skillet/code": "tool-unknown",
    });
  });

  it("[P-19] keeps tools with the same name of two skills apart", async () => {
    const { call, tools } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    await call("load_skill", { skill: "mail" });
    await call("load_skill", { skill: "chat" });
    expect((await tools()).filter((name) => name.endsWith("__send"))).toEqual(["mail__send", "chat__send"]);
    expect((await call("mail__send", { input: "x" })).text).toContain("mail of x");
    expect((await call("chat__send", { input: "x" })).text).toContain("chat of x");
    await call("unload_skill", { skill: "mail" });
    expect((await tools()).filter((name) => name.includes("__"))).toEqual(["chat__send", "chat__run"]);
  });

  it("[P-25] provides a loaded skill's scripts, and the skill itself, as tools", async () => {
    const { call } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    await call("load_skill", { skill: "mail" });
    const { text, isError } = await call("mail__count", { args: ["seven"] });
    expect(text).toContain("counted seven");
    expect(isError).toBe(false);
  });

  it("returns the instructions at every load, and announces no unchanged list", async () => {
    const { call, tools, changes } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    await call("load_skill", { skill: "mail" });
    await told(changes, 1);
    const first = await call("load_skill", { skill: "mail" });
    expect(first.text).toContain("[It provides these tools: mail__send, mail__count, mail__run]");
    for (let times = 0; times < 3; times++) expect(await call("load_skill", { skill: "mail" })).toEqual(first);
    await call("unload_skill", { skill: "chat" });
    expect(new Set(await tools()).size).toBe((await tools()).length);
    // A notice comes before the next change, and before the answer to a later request.
    await call("load_skill", { skill: "chat" });
    await told(changes, 2);
    await tools();
    expect(changes()).toBe(2);
  });

  it("lets a client that keeps its first list call a skill's tools", async () => {
    const { call } = await connectTo(servingOf(await discoverIn(TWO)), { era, listChanged: {} });
    await call("load_skill", { skill: "mail" });
    for (const tool of ["mail__send", "mail.send"])
      expect((await call("call_skill_tool", { tool, input: { input: "y" } })).text).toContain("mail of y");
  });

  it("[P-21] loads the skills that match a topic", async () => {
    const { call, tools } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    const { text, isError } = await call("activate_skills_for", { topic: "look into my inbox" });
    expect({ isError, has: text.includes("Send it with send.") }).toEqual({ isError: false, has: true });
    expect(await tools()).toContain("mail__send");
    expect(await tools()).not.toContain("chat__send");
    const nothing = await call("activate_skills_for", { topic: "zzz qqq" });
    expect(nothing).toMatchObject({ isError: false, meta: { "skillet/code": "no-match" } });
  });

  it("returns its lists as structured content too, as its schema states", async () => {
    const { client, call } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    const schemas = new Map((await client.listTools()).tools.map(({ name, outputSchema }) => [name, outputSchema]));
    const isValid = (name: string, data: unknown) =>
      new Ajv2020().validate((schemas.get(name) ?? false) as AnySchema, data);
    const listed = await call("list_skills");
    expect(isValid("list_skills", listed.structured)).toBe(true);
    expect(listed.structured?.["skills"]).toEqual(JSON.parse(listed.text));
    const found = await call("search_skills", { query: "mail" });
    expect(isValid("search_skills", found.structured)).toBe(true);
    expect(found.structured).toMatchObject({ skills: [{ name: "mail", reason: "words: mail" }, {}] });
  });

  it("follows edits of a toolset: the next list and the next call include them", async () => {
    const scene = await discoverIn(TWO);
    const serving = servingOf(scene);
    const { client, call, changes } = await connectTo(serving, { era });
    await call("load_skill", { skill: "mail" });
    await told(changes, 1);
    const file = join(scene.root, HOME, "mail/toolsets/index.ts");
    writeFileSync(file, toolsetOf({ send: 'return "new mail of " + args.input;', drop: 'return "dropped";' }));
    expect((await call("mail__send", { input: "x" })).text).toContain("new mail of x");
    await serving.refresh();
    await told(changes, 2);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toContain("mail__drop");
    expect((await call("mail__drop")).text).toContain("dropped");
  });

  it("has files that were added to a skill after a refresh", async () => {
    const scene = await discoverIn(TWO);
    const serving = servingOf(scene);
    const { call, tools } = await connectTo(serving, { era });
    await call("load_skill", { skill: "mail" });
    writeFiles(scene.root, {
      [`${HOME}/mail/notes.md`]: "Be brief.",
      [`${HOME}/mail/scripts/sort.sh`]: "#!/bin/sh\necho sorted\n",
    });
    await serving.refresh();
    expect((await call("read_skill_resource", { skill: "mail", resource: "notes.md" })).text).toContain("Be brief.");
    expect(await tools()).toContain("mail__sort");
    expect((await call("mail__sort")).text).toContain("sorted");
  });

  it("announces a skill that is followed individually only when it is loaded", async () => {
    const scene = await discoverIn({
      [`${HOME}/alone/SKILL.md`]: skillText("alone", { more: "context: fork\ntriggers:\n  keywords: [solo]\n" }),
    });
    const { call } = await connectTo(servingOf(scene), { era });
    const told = "Skill 'alone' runs in a sub-agent: hand the task over with use_skill";
    expect((await call("load_skill", { skill: "alone" })).text).toBe(told);
    expect((await call("activate_skills_for", { topic: "solo" })).text).toBe(told);
    expect(await scene.runs.list()).toEqual([]);
    const { call: unable } = await connectTo(servingOf(scene, { allowsSubAgents: false }), { era });
    expect((await unable("load_skill", { skill: "alone" })).text).toContain("# alone");
  });

  it("answers an unknown tool with -32602, and invalid input so that a model can correct it", async () => {
    const { call } = await connectTo(servingOf(await discoverIn(TWO)), { era });
    await expect(call("no_such_tool")).rejects.toMatchObject({ code: -32602 });
    for (const name of ["__proto__", "constructor", "load_skill ", "LOAD_SKILL"])
      await expect(call(name)).rejects.toMatchObject({ code: -32602 });
    const { text, isError, meta } = await call("load_skill", { skill: 7 });
    expect({ isError, code: meta["skillet/code"] }).toEqual({ isError: true, code: "input-invalid" });
    expect(text).toContain('"skill" must be a string');
    expect((await call("load_skill", { skill_name: "mail" })).isError).toBe(false);
  });
});

describe("served skills", () => {
  const names = async (scene: Scene, options = {}, host = {}) => {
    const { call, client } = await connectTo(servingOf(scene, options, host));
    const listed = (await call("list_skills")).structured?.["skills"] as { name: string }[];
    const { resources } = await client.listResources();
    const { prompts } = await client.listPrompts();
    return {
      tools: listed.map(({ name }) => name).filter((name) => !BUNDLED.includes(name)),
      resources: resources.map(({ name }) => name).filter((name) => !BUNDLED.includes(name)),
      prompts: prompts.map(({ name }) => name).filter((name) => !BUNDLED.includes(name) && name !== "skill"),
    };
  };
  const BUNDLED = readdirSync(join(import.meta.dirname, "../../skills"));

  it("[X-01] are hidden from a model if they are for users, and from users if they are for models", async () => {
    const scene = await discoverIn({
      [`${HOME}/both/SKILL.md`]: skillText("both"),
      [`${HOME}/person/SKILL.md`]: skillText("person", { more: "disable-model-invocation: true\n" }),
      [`${HOME}/machine/SKILL.md`]: skillText("machine", { more: "user-invocable: false\n" }),
    });
    expect(await names(scene)).toEqual({
      tools: ["both", "machine"],
      resources: ["both", "machine"],
      prompts: ["both", "person"],
    });
    const { call, client } = await connectTo(servingOf(scene));
    expect(await call("load_skill", { skill: "person" })).toMatchObject({
      isError: true,
      meta: { "skillet/code": "not-for-models" },
    });
    await expect(client.readResource({ uri: "skill://person/SKILL.md" })).rejects.toMatchObject({ code: -32602 });
    await expect(client.getPrompt({ name: "machine" })).rejects.toMatchObject({ code: -32602 });
    const { messages } = await client.getPrompt({ name: "person" });
    expect(JSON.stringify(messages)).toContain("# person\\n\\nDo it.");
  });

  it("[S-36] exclude those that need a private chat, unless the chat is known to be one", async () => {
    const scene = await discoverIn({
      [`${HOME}/open/SKILL.md`]: skillText("open"),
      [`${HOME}/diary/SKILL.md`]: skillText("diary", { more: "sensitive: true\n" }),
    });
    expect((await names(scene)).tools).toEqual(["diary", "open"]);
    const { caller: _, ...nobody } = scene;
    const { call, client } = await connectTo(servingOf(nobody as Scene, {}, { caller: {} }));
    expect(JSON.stringify(await call("list_skills"))).not.toContain("diary");
    expect((await call("load_skill", { skill: "diary" })).isError).toBe(true);
    await expect(client.readResource({ uri: "skill://diary/SKILL.md" })).rejects.toMatchObject({ code: -32602 });
  });

  it("exclude disabled and untrusted ones, until they are trusted", async () => {
    const scene = await discoverIn({
      "skills/found/SKILL.md": skillText("found"),
      [`${HOME}/off/SKILL.md`]: skillText("off"),
      [`${HOME}/on/SKILL.md`]: skillText("on"),
      "home/.skillet/config.toml": "[skills.off]\nenabled = false\n",
    });
    expect(await names(scene)).toEqual({ tools: ["on"], resources: ["on"], prompts: ["on"] });
    const serving = servingOf(scene);
    expect(serving.untrusted.map(({ name }) => name)).toEqual(["found"]);
    const { call, client } = await connectTo(serving);
    const refused = await call("load_skill", { skill: "found" });
    expect(refused).toMatchObject({ isError: true, meta: { "skillet/code": "untrusted" } });
    expect(refused.text).toContain("skillet trust");
    const note =
      "1 skill of this workspace is not served until the user approves the workspace's text: skillet trust --text .";
    expect((await call("list_skills")).structured).toMatchObject({ note });
    expect(client.getInstructions()).toContain(note);
    const skill = scene.skill("found");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    expect((await call("list_skills")).text).toContain('"found"');
    expect((await call("list_skills")).structured).not.toHaveProperty("note");
    expect((await call("load_skill", { skill: "found" })).isError).toBe(false);
    writeFiles(scene.root, { "project/skills/found/SKILL.md": skillText("found", { body: "Something else." }) });
    const changed = await call("load_skill", { skill: "found" });
    expect(changed).toMatchObject({ isError: true, meta: { "skillet/code": "changed" } });
    await expect(client.readResource({ uri: "skill://found/SKILL.md" })).rejects.toMatchObject({ code: -32602 });
    await expect(client.getPrompt({ name: "found" })).rejects.toMatchObject({ code: -32602 });
  });

  it("[Q-04] include the text of the user's own folders, whose code still waits for trust", async () => {
    const scene = await discoverIn({
      "home/.claude/skills/prose/SKILL.md": skillText("prose"),
      "home/.codex/skills/coded/SKILL.md": skillText("coded"),
      "home/.codex/skills/coded/scripts/go.sh": "#!/bin/sh\necho ran\n",
    });
    const { call } = await connectTo(servingOf(scene));
    expect((await names(scene)).tools).toEqual(["coded", "prose"]);
    expect(await call("load_skill", { skill: "prose" })).toMatchObject({ isError: false });
    expect(await call("load_skill", { skill: "coded" })).toMatchObject({ isError: false });
    const ran = await call("run_skill_script", { skill: "coded", script: "scripts/go.sh" });
    expect(ran).toMatchObject({ isError: true, meta: { "skillet/code": "untrusted" } });
    expect(ran.text).not.toContain("ran\n");
  });

  it("[Q-04] include the text of a workspace once that is approved, and never its code, however it arrives", async () => {
    const scene = await discoverIn({
      "skills/found/SKILL.md": skillText("found"),
      "skills/found/scripts/go.sh": "#!/bin/sh\necho ran\n",
      "elsewhere/SKILL.md": skillText("linked"),
    });
    const { call, client } = await connectTo(servingOf(scene));
    expect((await call("load_skill", { skill: "found" })).isError).toBe(true);
    scene.trust.text.approve(scene.workspace);
    expect((await call("list_skills")).text).toContain('"found"');
    expect(await call("load_skill", { skill: "found" })).toMatchObject({ isError: false });
    const script = { skill: "found", script: "scripts/go.sh" };
    expect(await call("run_skill_script", script)).toMatchObject({ isError: true });
    writeFiles(scene.workspace, {
      "skills/found/SKILL.md": skillText("found", { more: 'toolsets: ["index:Evil"]\nhooks: {}\n' }),
      "skills/found/toolsets/index.mjs": "throw new Error('it ran');\n",
      "skills/found/scripts/late.sh": "#!/bin/sh\necho ran\n",
    });
    const again = await call("load_skill", { skill: "found" });
    expect(JSON.stringify(await client.listTools())).not.toContain("found__");
    expect(again.text).not.toContain("it ran");
    for (const name of ["scripts/go.sh", "scripts/late.sh"])
      expect(await call("run_skill_script", { ...script, script: name })).toMatchObject({ isError: true });
    expect(scene.trust.text.revoke(scene.workspace)).toEqual([scene.workspace]);
    expect((await call("load_skill", { skill: "found" })).isError).toBe(true);
  });

  it("[Q-04] exclude text outside that a link in an approved workspace leads to", async () => {
    const outside = temporaryFolder({ "linked/SKILL.md": skillText("linked") });
    const scene = await discoverIn({ "skills/found/SKILL.md": skillText("found") });
    symlinkSync(join(outside, "linked"), join(scene.workspace, "skills/linked"));
    scene.trust.text.approve(scene.workspace);
    const now = await scene.again();
    expect(now.catalog.has("linked")).toBe(true);
    expect((await names(now)).tools).toEqual(["found"]);
  });

  it("[Q-04] exclude a file outside that is a skill's own by a link, even if the link has changed since", async () => {
    const outside = temporaryFolder({ "private.md": skillText("linked") });
    const scene = await discoverIn({
      "skills/found/SKILL.md": skillText("found"),
      "docs/inner.md": skillText("inner"),
      "skills/inner/notes.md": "",
      "skills/linked/notes.md": "",
    });
    symlinkSync("../../docs/inner.md", join(scene.workspace, "skills/inner/SKILL.md"));
    const own = join(scene.workspace, "skills/linked/SKILL.md");
    symlinkSync(join(outside, "private.md"), own);
    scene.trust.text.approve(scene.workspace);
    const now = await scene.again();
    const linked = now.skill("linked");
    expect((await names(now)).tools).toEqual(["found", "inner"]);
    rmSync(own);
    writeFileSync(own, skillText("linked"));
    expect(now.trust.text.covers(linked)).toBe(false); // Discovery followed the link, which can be there again when it is read.
    expect(now.trust.text.covers((await scene.again()).skill("linked"))).toBe(true);
  });

  it("exclude revoked ones, by name or by URI, at once", async () => {
    const scene = await discoverIn({ "skills/found/SKILL.md": skillText("found") });
    const skill = scene.skill("found");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    const { client } = await connectTo(servingOf(scene));
    const uri = "skill://found/SKILL.md";
    expect((await client.readResource({ uri })).contents).toHaveLength(1);
    scene.trust.revoke([getSkillLocation(skill)]);
    await expect(client.readResource({ uri })).rejects.toThrow("not found");
    expect(JSON.stringify(await client.listResources())).not.toContain(uri);
    await expect(client.getPrompt({ name: "found" })).rejects.toThrow("found");
  });

  it("exclude those with files added after the trust decision, at once, and no file name is revealed", async () => {
    const scene = await discoverIn({ "skills/found/SKILL.md": skillText("found"), "skills/found/data/a.txt": "a" });
    const skill = scene.skill("found");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    const { call, client } = await connectTo(servingOf(scene));
    expect((await client.readResource({ uri: "skill://found/data/a.txt" })).contents).toHaveLength(1);
    writeFiles(scene.root, { "project/skills/found/data/more/obey.txt": "b" });
    await expect(client.readResource({ uri: "skill://found/data/more/obey.txt" })).rejects.toThrow("not found");
    const refused = await call("load_skill", { skill: "found" });
    expect(refused).toMatchObject({ isError: true, meta: { "skillet/code": "changed" } });
    expect(refused.text).not.toContain("obey");
  });

  it("exclude those that were changed with an unchanged modification time", async () => {
    const scene = await discoverIn({ "skills/found/SKILL.md": skillText("found"), "skills/found/a.txt": "a" });
    const skill = scene.skill("found");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    const { call } = await connectTo(servingOf(scene));
    const file = join(scene.root, "project/skills/found/a.txt");
    utimesSync(file, 1, 1);
    expect((await call("load_skill", { skill: "found" })).isError).toBe(false);
    writeFileSync(file, "b");
    utimesSync(file, 1, 1);
    expect((await call("load_skill", { skill: "found" })).isError).toBe(true);
  });

  it("have a hint if the list is empty: it does not suggest listing again", async () => {
    const { call } = await connectTo(servingOf(await discoverIn(TWO), { only: [] }));
    expect((await call("list_skills")).structured).toEqual({ skills: [], note: "no skills found" });
    const note = "no skill matches; call list_skills to see all skills";
    expect((await call("search_skills", { query: "mail" })).structured).toEqual({ skills: [], note });
  });

  it("are only those in --only, for uses too", async () => {
    const scene = await discoverIn(TWO);
    expect(await names(scene, { only: ["chat"] })).toEqual({ tools: ["chat"], resources: ["chat"], prompts: ["chat"] });
    const { call } = await connectTo(servingOf(scene, { only: ["chat"] }));
    for (const tool of ["load_skill", "use_skill"])
      expect((await call(tool, { skill: "mail" })).meta).toMatchObject({ "skillet/code": "not-found" });
    expect(() => servingOf(scene, { only: ["chatt"] })).toThrow(
      expect.objectContaining({ fix: 'did you mean "chat"?' }),
    );
  });

  it("run nothing in read-only mode: no tools, no scripts, no uses, no commands in instructions", async () => {
    const scene = await discoverIn({
      ...TWO,
      [`${HOME}/dated/SKILL.md`]: skillText("dated", { body: "It is !`echo RAN`." }),
      "home/.skillet/config.toml": "[tools]\ndynamic_commands = true\n",
    });
    const { call, tools, client } = await connectTo(servingOf(scene, { isReadOnly: true }));
    const own = OWN.filter((name) => !["run_skill_script", "use_skill", "call_skill_tool"].includes(name));
    expect(await tools()).toEqual(own);
    expect(client.getInstructions()).not.toContain("call_skill_tool");
    const { text } = await call("load_skill", { skill: "mail" });
    expect(text).toContain("scripts/count.sh");
    for (const said of ["It brought", "run_skill_script"]) expect(text).not.toContain(said);
    expect(await tools()).toEqual(own);
    expect((await call("load_skill", { skill: "dated" })).text).not.toContain("It is RAN");
    const open = await connectTo(servingOf(scene));
    expect((await open.call("load_skill", { skill: "dated" })).text).toContain("It is RAN");
  });

  it("include the reason for a missing skill: its file is broken", async () => {
    const scene = await discoverIn(TWO);
    const { call } = await connectTo(servingOf(scene));
    writeFiles(scene.root, { [`${HOME}/mail/SKILL.md`]: "---\nname: mail\n---\n\nNo description.\n" });
    await call("list_skills");
    const { text, isError } = await call("load_skill", { skill: "mail" });
    expect({ isError, text }).toEqual({
      isError: true,
      text: expect.stringContaining("Skill 'mail' exists but cannot be loaded: its file has no description"),
    });
  });

  it("are found by their published names", async () => {
    const scene = await discoverIn({ [`${HOME}/Odd_Name/SKILL.md`]: skillText("Odd_Name") });
    const { call, client } = await connectTo(servingOf(scene));
    expect((await client.readResource({ uri: "skill://odd-name/SKILL.md" })).contents).toHaveLength(1);
    expect((await call("load_skill", { skill: "odd-name" })).text).toContain("# Odd_Name");
  });

  it("are refused with the reason if they are untrusted, in every request and also when they came later", async () => {
    const scene = await discoverIn({ [`${HOME}/mine/SKILL.md`]: skillText("mine") });
    const serving = servingOf(scene, { authoring: true });
    const { call, client } = await connectTo(serving);
    await call("list_skills");
    writeFiles(scene.root, { "project/skills/later/SKILL.md": skillText("later") });
    await serving.refresh();
    expect(serving.untrusted.map(({ name }) => name)).toEqual(["later"]);
    for (const [tool, input] of [
      ["load_skill", { skill: "later" }],
      ["validate_skill", { skill: "later" }],
      ["call_skill_tool", { tool: "later__run" }],
    ] as const)
      expect((await call(tool, input)).text, tool).toContain("which the user has not approved");
    for (const params of [{ name: "later" }, { name: "skill", arguments: { name: "later" } }])
      await expect(client.getPrompt(params)).rejects.toThrow("which the user has not approved");
  });

  it("have a hint for an unknown tool", async () => {
    const { call } = await connectTo(servingOf(await discoverIn(TWO)));
    const called = async (tool: string) => (await call("call_skill_tool", { tool, input: {} })).text;
    expect(await called("mail__send")).toContain("call load_skill with mail first");
    expect(await called("nobody__send")).toContain("no loaded skill provides tools");
    await call("load_skill", { skill: "mail" });
    expect(await called("mail__sned")).toContain("did you mean mail__send?");
    const short = await call("call_skill_tool", { skill: "mail", tool: "send", input: { input: "x" } });
    expect(short.text).toContain("mail of x");
    expect(await called("validate_skill")).toContain("call it directly");
  });

  it("are not delegated to sub-agents with --no-use", async () => {
    const { call, tools } = await connectTo(servingOf(await discoverIn(TWO), { allowsSubAgents: false }));
    await call("load_skill", { skill: "mail" });
    expect(await tools()).toEqual([...OWN.filter((name) => name !== "use_skill"), "mail__send", "mail__count"]);
  });

  it("come without the server's own tools that the configuration disables", async () => {
    const config = '[tools]\ndisabled = ["call_skill_tool", "list_skills", "use_skill"]\n';
    const { tools } = await connectTo(servingOf(await discoverIn({ ...TWO, "home/.skillet/config.toml": config })));
    expect(await tools()).toEqual(OWN.filter((name) => !config.includes(name)));
  });

  it("come with tools that check skills with --authoring", async () => {
    const { call, tools } = await connectTo(servingOf(await discoverIn(TWO), { authoring: true }));
    expect(await tools()).toEqual([...OWN, "validate_skill", "lint_skill"]);
    const judged = await call("validate_skill", { content: "---\nname: A B\n---\n" });
    expect(judged.structured).toEqual(JSON.parse(judged.text));
    expect(judged.structured).toMatchObject({ isValid: false, findings: expect.arrayContaining([expect.anything()]) });
    expect((await call("lint_skill", { skill: "mail" })).structured).toMatchObject({ skill: "mail", findings: [] });
  });

  it.each(ERAS)(
    "[Q-24] are unaffected by names that every object inherits, which are unknown names (%s)",
    async (era) => {
      const { client } = await connectTo(servingOf(await discoverIn(TWO)), { era });
      const answers = async (ask: (name: string) => Promise<unknown>) => {
        const names = ["unknown", "constructor", "__proto__", "toString", "hasOwnProperty"];
        const all = names.map((name) =>
          ask(name).catch(({ code, message }) => `${code} ${message}`.replace(name, "X")),
        );
        return new Set(await Promise.all(all));
      };
      expect([...(await answers((name) => client.callTool({ name })))]).toEqual([
        expect.stringContaining("Tool X not found"),
      ]);
      expect([...(await answers((name) => client.getPrompt({ name })))]).toEqual(['-32602 Unknown prompt "X"']);
    },
  );

  it("are loaded from the start with --load", async () => {
    const scene = await discoverIn(TWO);
    const { tools, call } = await connectTo(servingOf(scene, { load: ["mail"] }));
    expect(await tools()).toContain("mail__send");
    expect((await call("mail__send", { input: "x" })).text).toContain("mail of x");
    const notices: string[] = [];
    const some = servingOf(scene, {
      only: ["mail", "absent"],
      load: ["nobody", "chat", "mail"],
      onNotice: (text) => void notices.push(text),
    });
    expect(await (await connectTo(some)).tools()).toContain("mail__send");
    expect(notices).toEqual([
      expect.stringContaining("Skill 'absent' not found"),
      expect.stringContaining("Skill 'nobody' not found"),
      expect.stringContaining("Skill 'chat' is not in --only"),
    ]);
  });

  it("are loaded separately for each of two clients", async () => {
    const serving = servingOf(await discoverIn(TWO));
    const [one, two] = [await connectTo(serving), await connectTo(serving, { era: "2026-07-28" })];
    await one.call("load_skill", { skill: "mail" });
    await two.call("load_skill", { skill: "chat" });
    expect((await one.tools()).filter((name) => name.includes("__send"))).toEqual(["mail__send"]);
    expect((await two.tools()).filter((name) => name.includes("__send"))).toEqual(["chat__send"]);
    expect(two.changes()).toBeLessThanOrEqual(1);
    await one.close();
    expect((await two.call("chat__send", { input: "z" })).text).toContain("chat of z");
  });

  it("[Q-08] have no unescaped hidden character anywhere", async () => {
    const hidden = "\u{e0041}\u202e";
    const scene = await discoverIn({
      [`${HOME}/sly/SKILL.md`]: skillText("sly", { body: `Do${hidden} it.` }),
      [`${HOME}/sly/notes.md`]: `Read${hidden} this.`,
    });
    const { call, client } = await connectTo(servingOf(scene));
    const answers = [
      await call("list_skills"),
      await call("load_skill", { skill: "sly" }),
      await call("read_skill_resource", { skill: "sly", resource: "notes.md" }),
      await client.getPrompt({ name: "sly" }),
      await client.readResource({ uri: "skill://sly/SKILL.md" }),
      await client.readResource({ uri: "skill://sly/notes.md" }),
      await client.listResources(),
    ];
    for (const answer of answers) expect(JSON.stringify(answer)).not.toMatch(/[\u{e0000}-\u{e007f}\u202e]/u);
    expect(JSON.stringify(answers[1])).toContain("hidden character");
  });
});
