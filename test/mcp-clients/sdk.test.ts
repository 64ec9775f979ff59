import { describe, expect, it } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { openFirst, openSecond, textOf } from "./support/open.ts";
import { home, skilletServe, skilletServeHttp } from "./support/served.ts";

const TRANSPORTS = {
  stdio: async (home: string) => skilletServe(home),
  http: (home: string) => skilletServeHttp(home),
};

const soon = (check: () => unknown) => waitFor(check);

describe.each(Object.keys(TRANSPORTS) as (keyof typeof TRANSPORTS)[])("the first SDK's client over %s", (name) => {
  const open = async () => openFirst(await TRANSPORTS[name](home()));

  it("[P-18, P-19] is notified when a loaded skill provides a tool, calls it, and is notified when it is gone", async () => {
    const { tools, call, changes } = await open();
    expect(await tools()).toEqual(expect.arrayContaining(["list_skills", "load_skill", "unload_skill"]));
    expect(await tools()).not.toContain("my-skill__my-tool");

    expect(await call("load_skill", { skill: "my-skill" })).toContain("Instructions for the LLM");
    await soon(() => expect(changes()).toBeGreaterThan(0));
    expect(await tools()).toContain("my-skill__my-tool");
    expect(await call("my-skill__my-tool", { input: "hello" })).toContain("Processed: hello");

    const before = changes();
    await call("unload_skill", { skill: "my-skill" });
    await soon(() => expect(changes()).toBeGreaterThan(before));
    expect(await tools()).not.toContain("my-skill__my-tool");
    await expect(call("my-skill__my-tool", { input: "hello" })).rejects.toThrow(/my-skill__my-tool/);
  });

  it("lists the files of skills as resources, and reads them", async () => {
    const { client } = await open();
    const { resources } = await client.listResources();
    const uris = resources.map(({ uri }) => uri);
    expect(uris).toContain("skill://notes/SKILL.md");
    const { contents } = await client.readResource({ uri: "skill://notes/references/style.md" });
    expect(contents).toEqual([expect.objectContaining({ text: "Short lines.\n" })]);
    await expect(client.readResource({ uri: "skill://notes/references/none.md" })).rejects.toMatchObject({
      code: -32602,
    });
  });

  it("lists skills as prompts, gets one with its arguments, and completes names", async () => {
    const { client } = await open();
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual(expect.arrayContaining(["my-skill", "notes", "other", "skill"]));
    const { messages } = await client.getPrompt({ name: "notes", arguments: { arguments: "tides" } });
    expect(messages).toMatchObject([{ role: "user", content: { type: "text" } }]);
    expect(JSON.stringify(messages)).toContain("Write about tides.");
    const { completion } = await client.complete({
      ref: { type: "ref/prompt", name: "skill" },
      argument: { name: "name", value: "no" },
    });
    expect(completion.values).toEqual(["notes"]);
  });
});

describe("two clients of one server", () => {
  it("[P-18] each see the tools of the skills that they loaded themselves, and no others", async () => {
    const url = await skilletServeHttp(home());
    const [first, second] = await Promise.all([openFirst(url), openSecond(url)]);
    const seen = async () => (await second.listTools()).tools.map(({ name }) => name);
    const isMounted = (name: string) => name.includes("__");

    await Promise.all([
      first.call("load_skill", { skill: "my-skill" }),
      second.callTool({ name: "load_skill", arguments: { skill: "other" } }),
    ]);
    expect((await first.tools()).filter(isMounted)).toContain("my-skill__my-tool");
    expect((await first.tools()).join()).not.toContain("other__");
    expect((await seen()).filter(isMounted)).toContain("other__echo");
    expect((await seen()).join()).not.toContain("my-skill__");

    expect(textOf(await second.callTool({ name: "other__echo", arguments: { input: "hello" } }))).toContain(
      "echo: hello",
    );
    const refused = await first.call("call_skill_tool", { tool: "other__echo", input: { input: "hello" } });
    expect(refused).not.toContain("echo: hello");
    await expect(first.call("other__echo", { input: "hello" })).rejects.toThrow(/other__echo/);
  });
});
