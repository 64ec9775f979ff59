import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SkillServer } from "../../src/adapters/mcp-server/skill-server.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { connectTo, ERAS, type Era, type McpClient, servingOf } from "../support/mcp-client.ts";
import { createCatalogOf, defineTestSkill } from "../support/skills.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const HOME = "home/.skillet/skills";
const INVALID = -32602;

/** Creates skills from the rest of their frontmatter and their instructions. */
function files(skills: Record<string, { more?: string; body?: string; description?: string }>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(skills).map(([name, parts]) => [`${HOME}/${name}/SKILL.md`, skillText(name, parts)]),
  );
}

async function connected(skills: Parameters<typeof files>[0], era: Era, more: Record<string, string> = {}) {
  const scene = await discoverIn({ ...files(skills), ...more });
  return connectTo(servingOf(scene), { era });
}

async function textOf({ client }: McpClient, name: string, given?: Record<string, string>): Promise<string> {
  const { messages } = await client.getPrompt({ name, ...(given ? { arguments: given } : {}) });
  expect(messages.map(({ role, content }) => `${role} ${content.type}`)).toEqual(["user text"]);
  const content = messages[0]?.content;
  return content?.type === "text" ? content.text : "";
}

async function prompts({ client }: McpClient): Promise<Map<string, object>> {
  const listed = (await client.listPrompts()).prompts;
  return new Map(listed.map((prompt) => [prompt.name, prompt]));
}

const refused = (...parts: string[]) => ({
  code: INVALID,
  message: expect.stringMatching(new RegExp(parts.map((part) => part.replace(/[?()"]/g, "\\$&")).join(".*"))),
});

describe.each(ERAS)("the prompts of a client of %s", (era) => {
  it("are the skills, each with a title, a description and its arguments", async () => {
    const client = await connected(
      {
        plain: { description: "Does it. Use when asked." },
        hinted: { more: 'title: The hinted one\nargument-hint: "[file] [line]"\n' },
        named: { more: "arguments: [from, to]\nargument-hint: two\n" },
      },
      era,
    );
    const listed = await prompts(client);
    const meta = { "skillet/category": "skills" };
    const whole = (description: string) => [{ name: "arguments", description, required: false }];
    expect(listed.get("plain")).toEqual({
      name: "plain",
      title: "plain",
      description: expect.stringContaining("Does it."),
      arguments: whole("input for the skill"),
      _meta: meta,
    });
    expect(listed.get("hinted")).toMatchObject({ title: "The hinted one", arguments: whole("[file] [line]") });
    expect(listed.get("named")).toMatchObject({
      arguments: [
        { name: "from", required: false },
        { name: "to", required: false },
      ],
    });
    expect([...listed.keys()].at(-1), "the catch-all comes last").toBe("skill");
  });

  it("return the instructions, with the arguments filled in", async () => {
    const client = await connected(
      {
        named: { more: "arguments: [from, to, how]\n", body: "From <$from> to <$to> by <$how>." },
        free: { body: "Work on <$ARGUMENTS>." },
        unnamed: { body: "Just do it." },
      },
      era,
    );
    const named = (given: Record<string, string>) => textOf(client, "named", given);
    expect(await named({ to: "Rome", from: "Oslo", how: "train" })).toContain("From <Oslo> to <Rome> by <train>.");
    expect(await named({ from: "New  York", to: 'it\'s "here"', how: "\\ $to" })).toContain(
      'From <New  York> to <it\'s "here"> by <\\ $to>.',
    );
    expect(await named({ from: "Oslo", how: "train" }), "what is omitted in the middle").toContain(
      "From <Oslo> to <> by <train>.",
    );
    expect(await named({ from: "Oslo" }), "what is omitted at the end").toContain("From <Oslo> to <$to> by <$how>.");
    expect(await textOf(client, "free", { arguments: "the whole  text" })).toContain("Work on <the whole  text>.");
    expect(await textOf(client, "unnamed", { arguments: "this" })).toContain("Just do it.\n\nARGUMENTS: this");
    expect(await textOf(client, "unnamed")).not.toContain("ARGUMENTS");
    expect(await textOf(client, "unnamed", { arguments: "" })).not.toContain("ARGUMENTS");
  });

  it("accept only the named arguments, and describe them", async () => {
    const { client } = await connected({ named: { more: "arguments: [from, to]\n" }, plain: {} }, era);
    const get = (name: string, given: Record<string, string>) => client.getPrompt({ name, arguments: given });
    await expect(get("named", { form: "x" })).rejects.toMatchObject(
      refused('has no argument "form"', "Arguments: from, to"),
    );
    await expect(get("plain", { x: "x" })).rejects.toMatchObject(
      refused('has no argument "x"', "Arguments: arguments"),
    );
    const odd = get("plain", { "a\n<b>\u202e": "x" });
    await expect(odd).rejects.toMatchObject({ code: INVALID, message: expect.not.stringMatching(/[\n\u202e]|<b>/) });
  });

  it("list an argument called arguments once", async () => {
    const client = await connected({ x: { more: "arguments: [arguments]\n", body: "It is <$ARGUMENTS[1]>." } }, era);
    expect(await textOf(client, "x", { arguments: "one" })).toContain("It is <$ARGUMENTS[1]>.");
  });

  it("load their skill: its tools are available, and the client is notified", async () => {
    const client = await connected({ x: {} }, era, { [`${HOME}/x/scripts/count.sh`]: "#!/bin/sh\necho 1\n" });
    expect(await textOf(client, "x")).toContain("[It provides these tools: x__count, x__run]");
    await waitFor(() => expect(client.changes()).toBe(1));
    expect(await client.tools()).toEqual(expect.arrayContaining(["x__count", "x__run"]));
    expect(await textOf(client, "x"), "each time").toContain("Do it.");
  });

  it("delegate skills with a forked context to use_skill, and load them if it is unavailable", async () => {
    const { found, server } = await useScene({
      skills: {
        alone: { more: "context: fork\n", body: "Work alone." },
        person: { more: "context: fork\ndisable-model-invocation: true\n", body: "Work for a person." },
      },
      turns: [() => "It is done."],
    });
    const client = await connectTo(servingOf(found), { era });
    expect(await textOf(client, "alone", { arguments: "count\nthem" })).toBe(
      "Skill 'alone' runs in a sub-agent: hand the task over with use_skill, with this task:\n\ncount\nthem",
    );
    expect(await textOf(client, "alone")).toBe("Skill 'alone' runs in a sub-agent: hand the task over with use_skill");
    expect(server.requests).toHaveLength(0);
    expect(await textOf(client, "person"), "no model may use it, so the server follows it").toContain("It is done.");
    expect(server.requests).toHaveLength(1);
    const reading = await connectTo(servingOf(found, { allowsSubAgents: false }), { era });
    expect(await textOf(reading, "alone")).toContain("Work alone.");
  });

  it("[X-01] exclude skills that are not for users, and suggest a name for an unknown one", async () => {
    const client = await connected({ mailing: {}, machine: { more: "user-invocable: false\n" } }, era);
    expect((await prompts(client)).has("machine")).toBe(false);
    const get = (name: string, given = {}) => client.client.getPrompt({ name, arguments: given });
    await expect(get("machine")).rejects.toMatchObject({
      code: INVALID,
      message: expect.stringContaining('Unknown prompt "machine"'),
    });
    await expect(get("mailng")).rejects.toMatchObject(refused('Unknown prompt "mailng"', 'did you mean "mailing"?'));
    for (const name of ["", "__proto__", "constructor", "mailing ", "mailing/SKILL.md"])
      await expect(get(name)).rejects.toMatchObject({ code: INVALID });
    await expect(get("skill", { name: "machine" })).rejects.toMatchObject({ code: INVALID });
  });

  it("include one that takes a skill's name", async () => {
    const client = await connected(
      { mailing: { more: "arguments: [to]\n", body: "To <$to>." }, free: { body: "On <$ARGUMENTS>." } },
      era,
    );
    expect((await prompts(client)).get("skill")).toMatchObject({
      arguments: [
        { name: "name", required: true },
        { name: "arguments", description: "input for the skill" },
      ],
    });
    expect(await textOf(client, "skill", { name: "mailing", to: "Ada" })).toContain("To <Ada>.");
    expect(await textOf(client, "skill", { name: "free", arguments: "this" })).toContain("On <this>.");
    const get = (given: Record<string, string>) => client.client.getPrompt({ name: "skill", arguments: given });
    await expect(get({})).rejects.toMatchObject(refused('"name" is missing'));
    await expect(get({ name: "" })).rejects.toMatchObject(refused('"name" is missing'));
    await expect(get({ name: "mailng" })).rejects.toMatchObject(refused('did you mean "mailing"?'));
  });

  it("lose the one that takes a name when a skill has the same name", async () => {
    const client = await connected({ skill: { body: "I am the skill called skill." }, other: {} }, era);
    const listed = await client.client.listPrompts();
    expect(listed.prompts.filter(({ name }) => name === "skill")).toHaveLength(1);
    expect(await textOf(client, "skill")).toContain("I am the skill called skill.");
    await expect(client.client.getPrompt({ name: "skill", arguments: { name: "other" } })).rejects.toMatchObject(
      refused('has no argument "name"'),
    );
    const ref = { type: "ref/prompt", name: "skill" } as const;
    const { completion } = await client.client.complete({ ref, argument: { name: "name", value: "o" } });
    expect(completion.values).toEqual([]);
  });

  it("[Q-08] exclude skills with hidden characters in the frontmatter, or escape them for a source of the host", async () => {
    const hidden = "a\u202eb\u{e0041}";
    const scene = await discoverIn(files({ found: { more: 'title: "a\\u202eb"\n' } }));
    expect((await prompts(await connectTo(servingOf(scene), { era }))).has("found")).toBe(false);
    const skill = defineTestSkill("sly");
    const manifest = { ...skill.manifest, title: hidden, argumentHint: hidden, briefDescription: hidden };
    const catalog = await createCatalogOf([{ ...skill, manifest }]);
    const sly = (await prompts(await connectTo(servingOf({ ...scene, catalog }), { era }))).get("sly");
    const spelled = "a\\u{202e}b\\u{e0041}";
    expect(sly).toMatchObject({ title: spelled, description: spelled, arguments: [{ description: spelled }] });
    expect(JSON.stringify(sly)).not.toMatch(/[\u202e\u{e0041}]/u);
  });
});

describe.each(ERAS)("completion for a client of %s", (era) => {
  const prompt = { type: "ref/prompt", name: "skill" } as const;
  const template = { type: "ref/resource", uri: "skill://{+path}" } as const;

  async function completing(skills: Parameters<typeof files>[0], more: Record<string, string> = {}) {
    const { client } = await connected(skills, era, more);
    const complete = async (ref: typeof prompt | typeof template, value: string, name = "name") =>
      (await client.complete({ ref, argument: { name, value } })).completion;
    return { client, complete };
  }

  it("returns names with the prefix, or else names that contain the text, in any case", async () => {
    const { complete } = await completing({ "mail-send": {}, "mail-read": {}, email: {}, chat: {} });
    expect(await complete(prompt, "mail")).toEqual({ values: ["mail-read", "mail-send"], total: 2, hasMore: false });
    expect((await complete(prompt, "MAIL-S")).values).toEqual(["mail-send"]);
    expect((await complete(prompt, "ail")).values).toEqual(["email", "mail-read", "mail-send"]);
    expect((await complete(prompt, "zzz")).values).toEqual([]);
    expect((await complete(prompt, "")).values).toEqual(expect.arrayContaining(["chat", "email"]));
  });

  it("returns names of skills that a user may call, and no others", async () => {
    const { complete } = await completing({
      "q-person": { more: "disable-model-invocation: true\n" },
      "q-machine": { more: "user-invocable: false\n" },
    });
    expect((await complete(prompt, "q-")).values).toEqual(["q-person"]);
  });

  it("returns a hundred at most, and the total number", async () => {
    const many = Object.fromEntries(Array.from({ length: 120 }, (_, index) => [`many-${index}`, {}]));
    const { complete } = await completing(many);
    const { values, total, hasMore } = await complete(prompt, "many-");
    expect({ length: values.length, total, hasMore }).toEqual({ length: 100, total: 120, hasMore: true });
    expect(await complete(prompt, "many-11")).toMatchObject({ total: 11, hasMore: false });
  });

  it("returns nothing for free text", async () => {
    const { complete, client } = await completing({ x: { more: "arguments: [to]\n" } });
    expect((await complete(prompt, "x", "arguments")).values).toEqual([]);
    const ref = { type: "ref/prompt", name: "x" } as const;
    const { completion } = await client.complete({ ref, argument: { name: "to", value: "R" } });
    expect(completion).toEqual({ values: [], total: 0, hasMore: false });
  });

  it("returns the names of skills for their resources, then the files of the named one", async () => {
    const { complete } = await completing(
      { "doc-a": {}, "doc-b": {}, "doc-person": { more: "disable-model-invocation: true\n" } },
      { [`${HOME}/doc-a/notes.md`]: "x", [`${HOME}/doc-a/data/table.csv`]: "x" },
    );
    expect((await complete(template, "doc", "path")).values).toEqual(["doc-a/SKILL.md", "doc-b/SKILL.md"]);
    expect((await complete(template, "doc-a/", "path")).values.sort()).toEqual([
      "doc-a/SKILL.md",
      "doc-a/data/table.csv",
      "doc-a/notes.md",
    ]);
    expect((await complete(template, "doc-a/da", "path")).values).toEqual(["doc-a/data/table.csv"]);
    expect((await complete(template, "doc-person/", "path")).values).toEqual([]);
  });

  it("returns URIs that can be read, whatever the names of a skill and its files", async () => {
    const { client, complete } = await completing(
      {},
      {
        [`${HOME}/My_Notes.md`]: skillText("My_Notes"),
        [`${HOME}/doc/SKILL.md`]: skillText("doc"),
        [`${HOME}/doc/a \u{e0041}.md`]: "x",
      },
    );
    const paths = [
      ...(await complete(template, "My", "path")).values,
      ...(await complete(template, "doc/", "path")).values,
    ];
    expect(paths).toEqual(["my-notes/SKILL.md", "doc/SKILL.md", "doc/a%20%F3%A0%81%81.md"]);
    for (const path of paths) expect((await client.readResource({ uri: `skill://${path}` })).contents).toHaveLength(1);
  });

  it("refuses unknown references", async () => {
    const { client } = await completing({ mailing: {} });
    const argument = { name: "name", value: "" };
    const unknown = client.complete({ ref: { type: "ref/prompt", name: "mailng" }, argument });
    await expect(unknown).rejects.toMatchObject(refused('did you mean "mailing"?'));
    const other = client.complete({ ref: { type: "ref/resource", uri: "file:///{path}" }, argument });
    await expect(other).rejects.toMatchObject({ code: INVALID, message: expect.stringContaining("skill://{+path}") });
  });
});

describe.each(ERAS)("a list of prompts that changes, for a client of %s", (era) => {
  async function following() {
    const scene = await discoverIn(files({ first: {} }));
    const serving = servingOf(scene);
    let changes = 0;
    const onChanged = () => void changes++;
    const client = await connectTo(serving, {
      era,
      listChanged: { prompts: { onChanged, autoRefresh: false, debounceMs: 0 } },
    });
    const add = (name: string) => writeFiles(scene.root, files({ [name]: {} }));
    const remove = (name: string) => rmSync(join(scene.root, HOME, name), { recursive: true });
    const told = (number: number) => waitFor(() => expect(changes).toBe(number));
    return { serving, client, add, remove, told, changes: () => changes };
  }

  /** Reads the served skills again. A notice to the client comes before the answer to a later request. */
  async function settled(serving: SkillServer, client: Awaited<ReturnType<typeof following>>["client"]): Promise<void> {
    await serving.refresh();
    await prompts(client);
  }

  it("is announced when a skill was added or removed, and not without a change", async () => {
    const { serving, client, add, remove, told, changes } = await following();
    await settled(serving, client);
    expect(changes()).toBe(0);
    add("second");
    await serving.refresh();
    await told(1);
    expect((await prompts(client)).has("second")).toBe(true);
    await settled(serving, client);
    expect(changes()).toBe(1);
    remove("first");
    await serving.refresh();
    await told(2);
    expect((await prompts(client)).has("first")).toBe(false);
    await expect(client.client.getPrompt({ name: "first" })).rejects.toMatchObject({ code: INVALID });
  });

  it("is announced to a client whose call in between saw it first", async () => {
    const { serving, client, add, told } = await following();
    add("second");
    expect((await client.call("list_skills")).text).toContain("second");
    await serving.refresh();
    await told(1);
  });

  it("includes a skill that was just created, without a notice", async () => {
    const { client, add } = await following();
    // A slow catalog is read only now and then.
    const soon = (look: () => Promise<void>) => waitFor(look);
    add("second");
    await soon(async () => expect(await textOf(client, "second")).toContain("# second"));
    add("third");
    await soon(async () => expect(await textOf(client, "skill", { name: "third" })).toContain("# third"));
    add("fourth");
    await soon(async () => expect((await prompts(client)).has("fourth")).toBe(true));
  });
});
