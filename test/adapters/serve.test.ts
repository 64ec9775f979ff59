import { createHook } from "node:async_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import type { SkillServer } from "../../src/adapters/mcp-server/skill-server.ts";
import { getMatcher } from "../../src/catalog/search/matcher.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { cuedSkills } from "../catalog/cued-skills.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { connectTo, createClientOf, ERAS, type McpClient, servingOf } from "../support/mcp-client.ts";
import { createCatalogOf, defineTestSkill } from "../support/skills.ts";
import { toolsetOf } from "../support/toolset.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const HOME = "home/.skillet/skills";
const TOOLSET = 'toolsets:\n  - "toolsets/index:Tools"\n';
const MAIL = {
  [`${HOME}/mail/SKILL.md`]: skillText("mail", { more: TOOLSET }),
  [`${HOME}/mail/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }),
  [`${HOME}/mail/scripts/my count.sh`]: '#!/bin/sh\necho "counted $1"\n',
};

/** How long an answer waits for the client to list the new tools. */
const HEARD_MS = 80;

/** The times, in milliseconds, of all timers that are set during a call. */
async function timersIn(work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  const hook = createHook({
    init(_, type, __, resource) {
      if (type === "Timeout") times.push((resource as { _idleTimeout: number })._idleTimeout);
    },
  }).enable();
  await work().finally(() => hook.disable());
  return times;
}

/** A client of a server that exists for one request, as over HTTP without sessions. */
async function forOneRequest(serving: SkillServer) {
  return createClientOf(await serving.open({ isStateless: true }));
}

describe("a catalog for many clients", () => {
  it("announces changes to every connected client, of either revision", async () => {
    const scene = await discoverIn(MAIL);
    const serving = servingOf(scene);
    const told = new Map<number, number>();
    const clients = await Promise.all(
      [...ERAS, ...ERAS].map((era, index) => {
        const onChanged = () => void told.set(index, (told.get(index) ?? 0) + 1);
        const listChanged = { resources: { onChanged, autoRefresh: false, debounceMs: 0 } };
        return connectTo(serving, { era, listChanged });
      }),
    );
    await clients[3]?.close();
    writeFiles(scene.root, { [`${HOME}/post/SKILL.md`]: skillText("post") });
    await serving.refresh();
    await waitFor(() => expect([...told.keys()].sort()).toEqual([0, 1, 2]));
    for (const client of clients.slice(0, 3)) expect((await client.call("list_skills")).text).toContain("post");
    expect(serving.catalog.has("post")).toBe(true);
    expect([...told.values()]).toEqual([1, 1, 1]);
  });

  it("removes the tools of a deleted skill from clients that loaded it", async () => {
    const scene = await discoverIn(MAIL);
    const serving = servingOf(scene);
    const [one, two] = [await connectTo(serving), await connectTo(serving)];
    await one.call("load_skill", { skill: "mail" });
    await waitFor(() => expect(one.changes()).toBe(1));
    writeFiles(scene.root, { [`${HOME}/mail/SKILL.md`]: "no skill any more" });
    await serving.refresh();
    expect((await one.tools()).filter((name) => name === "mail__run")).toEqual([]);
    expect((await one.call("load_skill", { skill: "mail" })).meta).toMatchObject({ "skillet/code": "not-found" });
    expect(two.changes()).toBe(0);
  });

  it("is one object with one index for all, while it is unchanged", async () => {
    const scene = await discoverIn(MAIL);
    const serving = servingOf(scene);
    const [catalog, matcher] = [serving.catalog, getMatcher(serving.catalog)];
    for (const era of ERAS) {
      const { call } = await connectTo(serving, { era });
      await call("list_skills");
      await call("search_skills", { query: "mail" });
      await call("activate_skills_for", { topic: "mail" });
      await serving.refresh();
      expect(serving.catalog).toBe(catalog);
    }
    expect(await serving.catalog.reload()).toBe(catalog);
    expect(getMatcher(await serving.catalog.reload())).toBe(matcher);
    writeFiles(scene.root, { [`${HOME}/post/SKILL.md`]: skillText("post") });
    // A slow catalog is read only now and then.
    const both = await waitFor(async () => {
      const read = await Promise.all([catalog.reload(), serving.catalog.reload()]);
      expect(read[0]).not.toBe(catalog);
      return read;
    });
    expect(both[1]).toBe(both[0]);
    await serving.refresh();
    expect(serving.catalog).toBe(both[0]);
  });

  it("includes newly trusted skills, for all at once", async () => {
    const scene = await discoverIn({ "skills/found/SKILL.md": skillText("found") });
    const serving = servingOf(scene);
    expect(serving.catalog.has("found")).toBe(false);
    const before = serving.catalog;
    const skill = scene.skill("found");
    scene.trust.grant([{ skill, copy: await copySkill(skill) }]);
    await serving.refresh();
    expect(serving.catalog.has("found")).toBe(true);
    expect(serving.catalog).not.toBe(before);
  });

  it("forgets disconnected clients", async () => {
    const serving = servingOf(await discoverIn(MAIL));
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const servers: WeakRef<object>[] = [];
    const openAndClose = async (isStateless: boolean) => {
      const mcp = await serving.open({ isStateless });
      servers.push(new WeakRef(mcp));
      const [ours, theirs] = InMemoryTransport.createLinkedPair();
      await mcp.connect(theirs);
      await ours.close();
    };
    for (let number = 0; number < 200; number++) await openAndClose(number % 2 === 0);
    await waitFor(() => {
      collect();
      expect(servers.filter((server) => server.deref() !== undefined).length).toBeLessThan(5);
    });
    await serving.refresh();
  });

  it("is described in at most two thousand characters, with a way to find the rest", async () => {
    const scene = await discoverIn({});
    const many = Object.fromEntries(
      Array.from({ length: 1000 }, (_, index) => [`skill-number-${index}`, { description: "Long words. ".repeat(50) }]),
    );
    const serving = servingOf({ ...scene, catalog: await createCatalogOf(many) });
    for (const era of ERAS) {
      const { client } = await connectTo(serving, { era });
      const instructions = client.getInstructions() ?? "";
      expect(instructions.length).toBeLessThanOrEqual(2000);
      expect(instructions).toContain("[1000 skills available]");
      expect(instructions).toMatch(/and \d+ more: search_skills/);
    }
  });

  it("[A-02] includes the cue of each described skill, in the space of its instructions", async () => {
    for (const [number, described] of [
      [4, 4],
      [12, 12],
      [40, 3],
    ] as const) {
      const skills = cuedSkills(number);
      const catalog = await createCatalogOf(
        skills.map(({ name, description }) => defineTestSkill(name, { description })),
      );
      const { client } = await connectTo(servingOf({ ...(await discoverIn({})), catalog }), { era: ERAS[0] });
      const instructions = client.getInstructions() ?? "";
      expect(instructions.length).toBeLessThanOrEqual(2000);
      const lines = instructions.split("\n").filter((line) => /^- [\w-]+: /.test(line));
      expect(lines.length).toBeGreaterThanOrEqual(described);
      for (const line of lines) {
        const { marker, whenToUse } = skills.find(({ name }) => line.startsWith(`- ${name}: `)) ?? {};
        if (whenToUse === undefined) expect(line).toMatch(marker ?? /never/);
      }
      if (number > 4)
        expect(instructions).toMatch(
          /\(\d+ descriptions of \d+ shortened.* to fit; search_skills gives them whole\)$/m,
        );
    }
  });

  it("names each skill and its purpose if there is space, and none that a model may not use", async () => {
    const scene = await discoverIn({});
    const catalog = await createCatalogOf({
      mail: { description: "Sends mail." },
      person: { description: "For people.", more: { "disable-model-invocation": true } },
    });
    const { client } = await connectTo(servingOf({ ...scene, catalog }));
    expect(client.getInstructions()).toMatch(/call_skill_tool\.\n\n\[1 skills available\]\n- mail: Sends mail\.$/);
    const { client: alone } = await connectTo(servingOf({ ...scene, catalog: await createCatalogOf({}) }));
    expect(alone.getInstructions()).toMatch(/call_skill_tool\.$/);
  });
});

describe("call_skill_tool", () => {
  it("calls only tools of skills: unlisted tools are unavailable", async () => {
    const serving = servingOf(await discoverIn(MAIL));
    for (const { call } of [await connectTo(serving), await forOneRequest(serving)]) {
      await call("load_skill", { skill: "mail" });
      for (const tool of ["validate_skill", "lint_skill", "list_skills", "call_skill_tool"])
        for (const skill of [{}, { skill: "mail" }]) {
          const { isError, text } = await call("call_skill_tool", { ...skill, tool, input: { skill: "mail" } });
          expect({ tool, skill, isError }).toEqual({ tool, skill, isError: true });
          expect(text).not.toContain('"mail"');
        }
    }
  });
});

describe("skills that are loaded from the start", () => {
  it("exclude those that would run at every connection", async () => {
    const { found, server } = await useScene({
      skills: { alone: { more: "context: fork\n", body: "Work alone." } },
      turns: () => "It is done.",
    });
    const notices: string[] = [];
    await connectTo(servingOf(found, { load: ["alone"], onNotice: (text) => void notices.push(text) }));
    expect(notices).toEqual([expect.stringContaining("Skill 'alone' runs in a sub-agent")]);
    const { call } = await connectTo(servingOf(found, { load: ["alone"], allowsSubAgents: false }));
    expect((await call("load_skill", { skill: "alone" })).text).toContain("Work alone.");
    expect(server.requests).toHaveLength(0);
  });
});

describe("a skill in --load", () => {
  it("is loaded for any audience, with one report when it cannot be", async () => {
    const scene = await discoverIn({
      [`${HOME}/theirs/SKILL.md`]: skillText("theirs", { more: "user-invocable: false\n" }),
      [`${HOME}/theirs/scripts/count.sh`]: "#!/bin/sh\necho counted\n",
      [`${HOME}/diary/SKILL.md`]: skillText("diary", { more: "sensitive: true\n" }),
    });
    const notices: string[] = [];
    const onNotice = (text: string) => void notices.push(text);
    const serving = servingOf(scene, { load: ["theirs", "diary"], onNotice }, { caller: { chatType: "group" } });
    for (const _ of [1, 2]) expect(await (await connectTo(serving)).tools()).toContain("theirs__count");
    expect(notices).toEqual([expect.stringMatching(/^diary is not loaded: .*private chats only/)]);
  });
});

describe("a server for one request", () => {
  it("delays no answer: no client lists the tools of a session that ends with it", async () => {
    const serving = servingOf(await discoverIn({ ...MAIL, [`${HOME}/mail/SKILL.md`]: skillText("mail") }));
    const [lasting, single] = [await connectTo(serving), await forOneRequest(serving)];
    const load = ({ call }: Pick<McpClient, "call">) => timersIn(() => call("load_skill", { skill: "mail" }));
    expect(await load(lasting), "the answer waits for the list").toContain(HEARD_MS);
    expect(await load(single)).not.toContain(HEARD_MS);
  });

  it("has no unload_skill, and a call_skill_tool with the skill's name", async () => {
    const { client, tools } = await forOneRequest(servingOf(await discoverIn(MAIL)));
    expect(await tools()).not.toContain("unload_skill");
    const listed = (await client.listTools()).tools.find(({ name }) => name === "call_skill_tool");
    expect(listed?.inputSchema.properties).toHaveProperty("skill");
    expect(listed?.inputSchema.required).toEqual(["tool"]);
    await expect(client.callTool({ name: "unload_skill", arguments: { skill: "mail" } })).rejects.toMatchObject({
      code: -32602,
    });
  });

  it("loads the skill whose tool is called, by its name or the tool's name", async () => {
    const serving = servingOf(await discoverIn(MAIL));
    for (const called of [
      { skill: "mail", tool: "mail__send" },
      { skill: "mail", tool: "mail.send" },
      { skill: "mail", tool: "send" },
      { skill_name: "mail", tool: "send" },
      { tool: "mail__send" },
      { tool: "mail.send" },
    ]) {
      const { call, tools } = await forOneRequest(serving);
      const { text, isError } = await call("call_skill_tool", { ...called, input: { input: "x" } });
      expect({ called, isError, sent: text.includes("mail of x") }).toEqual({ called, isError: false, sent: true });
      expect(await tools()).toContain("mail__send");
    }
    const { tools } = await forOneRequest(serving);
    expect(await tools(), "nothing of it remains").not.toContain("mail__send");
  });

  it("calls a tool by the name from load_skill, even if it was normalized", async () => {
    const serving = servingOf(await discoverIn(MAIL));
    const { text } = await (await forOneRequest(serving)).call("load_skill", { skill: "mail" });
    const [, tool = ""] = /(mail_my_count_\w+)/.exec(text) ?? [];
    for (const name of [tool, "my count"]) {
      const { call } = await forOneRequest(serving);
      const counted = await call("call_skill_tool", { skill: "mail", tool: name, input: { args: ["2"] } });
      expect({ name, text: counted.text }).toEqual({ name, text: expect.stringContaining("counted 2") });
    }
  });

  it("finds the skill by the tool's name if the skill's own has a dot", async () => {
    const script = (word: string) => `#!/bin/sh\necho "of ${word}"\n`;
    const serving = servingOf(
      await discoverIn({
        [`${HOME}/a/SKILL.md`]: skillText("a"),
        [`${HOME}/a/scripts/c.sh`]: script("a"),
        [`${HOME}/a.b/SKILL.md`]: skillText("a.b"),
        [`${HOME}/a.b/scripts/c.sh`]: script("the second"),
      }),
    );
    for (const tool of ["a.b.c", "a__b__c"])
      expect((await (await forOneRequest(serving)).call("call_skill_tool", { tool })).text).toContain("of the second");
    expect((await (await forOneRequest(serving)).call("call_skill_tool", { tool: "a__c" })).text).toContain("of a");
  });

  it("refuses skills that are not for models, not for this caller, or unknown, and does nothing", async () => {
    const script = { "scripts/go.sh": "#!/bin/sh\necho RAN\n" };
    const skill = (name: string, more: string) => ({
      [`${HOME}/${name}/SKILL.md`]: skillText(name, { more }),
      [`${HOME}/${name}/scripts/go.sh`]: script["scripts/go.sh"],
    });
    const scene = await discoverIn({
      ...skill("person", "disable-model-invocation: true\n"),
      ...skill("secret", "sensitive: true\n"),
      ...skill("off", ""),
      "skills/found/SKILL.md": skillText("found"),
      "skills/found/scripts/go.sh": script["scripts/go.sh"],
      "home/.skillet/config.toml": "[skills.off]\nenabled = false\n",
    });
    const serving = servingOf(scene, {}, { caller: {} });
    for (const name of ["person", "secret", "off", "found", "nobody"]) {
      for (const called of [{ tool: `${name}__go` }, { skill: name, tool: "go" }]) {
        const { call } = await forOneRequest(serving);
        const { isError, text } = await call("call_skill_tool", { ...called, input: {} });
        expect({ called, isError, ran: text.includes("RAN") }).toEqual({ called, isError: true, ran: false });
      }
    }
  });

  it("answers a tool that the skill lacks with a list of the existing ones", async () => {
    const { call } = await forOneRequest(servingOf(await discoverIn(MAIL)));
    const { text, meta } = await call("call_skill_tool", { skill: "mail", tool: "sned", input: {} });
    expect(meta).toMatchObject({ "skillet/code": "tool-unknown" });
    expect(text).toContain("mail__send");
    expect((await call("call_skill_tool", { tool: "load_skill", input: { skill: "mail" } })).isError).toBe(true);
  });
});
