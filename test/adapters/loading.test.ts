import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { connectTo, ERAS, servingOf } from "../support/mcp-client.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { toolsetOf } from "../support/toolset.ts";
import { waitFor } from "../support/wait-for.ts";

const MAIL = "home/.skillet/skills/mail";

/** A skill whose toolset waits in its import until the file `release` is in the workspace. */
async function blockedMail(more = ""): Promise<{ scene: Scene; release(): void; isBlocked(): boolean }> {
  const scene = await discoverIn({ "x.txt": "" });
  const [begun, released] = [join(scene.root, "begun"), join(scene.root, "release")];
  const wait = `
import { existsSync, writeFileSync } from "node:fs";
writeFileSync(${JSON.stringify(begun)}, "");
while (!existsSync(${JSON.stringify(released)})) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
${more}`;
  writeFiles(scene.root, {
    [`${MAIL}/SKILL.md`]: SKILL,
    [`${MAIL}/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }, wait),
  });
  return {
    scene: await scene.again(),
    release: () => writeFileSync(released, ""),
    isBlocked: () => existsSync(begun) && !existsSync(released),
  };
}

const SKILL = skillText("mail", {
  more: 'toolsets:\n  - "toolsets/index:Tools"\n',
  body: "Send it with send.",
});
const PLAIN = {
  [`${MAIL}/SKILL.md`]: SKILL,
  [`${MAIL}/toolsets/index.ts`]: toolsetOf({ send: 'return "mail of " + args.input;' }),
};

describe.each(sampleRows(ERAS, 1))("loading a skill with a toolset, for a client of %s", (era) => {
  it("returns the instructions during the import of the toolset, then lists its tools", async () => {
    const { scene, release, isBlocked } = await blockedMail();
    const { call, tools, changes } = await connectTo(servingOf(scene), { era, name: "claude-code" });
    const { text } = await call("load_skill", { skill: "mail" });
    expect(text).toContain("Send it with send.");
    expect(text).toContain("[The tools of its toolsets are still loading]");
    expect(text).toContain("call_skill_tool");
    await waitFor(isBlocked); // It has started, and no request has waited for it.
    expect((await call("list_skills")).text).toContain("mail");
    expect(isBlocked()).toBe(true);
    expect(changes()).toBe(0);
    const called = call("call_skill_tool", { skill: "mail", tool: "send", input: { input: "x" } });
    const direct = call("mail__send", { input: "y" });
    release();
    await waitFor(() => expect(changes()).toBe(1));
    expect(await tools()).toEqual(expect.arrayContaining(["mail__send", "mail__run"]));
    expect((await called).text).toContain("mail of x");
    expect((await direct).text).toContain("mail of y");
  });

  it("lists the tools at once when the same files were imported before", async () => {
    const scene = await discoverIn(PLAIN);
    const first = await connectTo(servingOf(scene), { era, name: "copilot-cli" });
    await first.call("load_skill", { skill: "mail" });
    await waitFor(async () => expect(await first.tools()).toContain("mail__send"));
    const { call, tools, changes } = await connectTo(servingOf(await scene.again()), { era, name: "copilot-cli" });
    const before = await tools();
    const { text } = await call("load_skill", { skill: "mail" });
    expect(text).toContain("[It provides these tools: mail__send, mail__run]");
    expect(text).not.toContain("loading");
    expect(text).not.toContain("call_skill_tool"); // Its own list has them.
    await waitFor(() => expect(changes()).toBe(1));
    expect(await tools()).toEqual([...before, "mail__send", "mail__run"]);
    expect((await call("mail__send", { input: "x" })).text).toContain("mail of x");
    expect(changes()).toBe(1);
  });

  it("names call_skill_tool for a client that keeps its first list of tools", async () => {
    const scene = await discoverIn(PLAIN);
    const { call } = await connectTo(servingOf(scene), { era, name: "codex-mcp-client" });
    await call("load_skill", { skill: "mail" });
    await waitFor(async () => expect((await call("load_skill", { skill: "mail" })).text).toContain("mail__send"));
    const { text } = await call("load_skill", { skill: "mail" });
    expect(text).toMatch(/\[It provides these tools: mail__send, mail__run\]\n\[Call a tool .* with call_skill_tool/);
    const called = await call("call_skill_tool", { tool: "mail__send", input: { input: "x" } });
    expect(called.text).toContain("mail of x");
  });

  it("lists the tools once in the next answer", async () => {
    const { scene, release } = await blockedMail();
    const { call, changes } = await connectTo(servingOf(scene), { era, name: "codex-mcp-client" });
    await call("load_skill", { skill: "mail" });
    release();
    await waitFor(() => expect(changes()).toBe(1));
    const next = async () => (await call("load_skill", { skill: "summarize" })).text;
    expect(await next()).toContain("Skill 'mail': [It provides these tools: mail__send]");
    expect(await next()).not.toContain("Skill 'mail'");
  });

  it("explains a failed import to the caller of a tool, and in the next answer", async () => {
    const { scene, release } = await blockedMail('throw new Error("no such mailbox");');
    const { call } = await connectTo(servingOf(scene), { era, name: "codex-mcp-client" });
    expect((await call("load_skill", { skill: "mail" })).isError).toBe(false);
    release();
    const called = await call("call_skill_tool", { skill: "mail", tool: "send", input: {} });
    expect(called).toMatchObject({ isError: true, meta: { "skillet/code": "toolset-broken" } });
    expect(called.text).toContain("no such mailbox");
    const again = await connectTo(servingOf(scene), { era, name: "codex-mcp-client" });
    await again.call("load_skill", { skill: "mail" });
    await waitFor(async () =>
      expect((await again.call("load_skill", { skill: "summarize" })).text).toMatch(
        /Skill 'mail': \[Its tools are not available: .*no such mailbox/,
      ),
    );
  });

  it("explains why a tool that was known before cannot be called now", async () => {
    const scene = await discoverIn(PLAIN);
    const first = await connectTo(servingOf(scene), { era, name: "claude-code" });
    await first.call("load_skill", { skill: "mail" });
    await waitFor(async () => expect(await first.tools()).toContain("mail__send"));
    const cache = join(scene.root, "home/.skillet/cache/toolsets");
    const [known = ""] = readdirSync(cache);
    // As if the same files had had another tool.
    const other = [{ name: "drop", description: "Drops it", inputSchema: { type: "object" }, hasEffect: false }];
    writeFileSync(join(cache, known), JSON.stringify(other));
    const { call, changes } = await connectTo(servingOf(await scene.again()), { era, name: "claude-code" });
    expect((await call("load_skill", { skill: "mail" })).text).toContain("mail__drop");
    const dropped = await call("call_skill_tool", { tool: "mail__drop", input: {} });
    expect(dropped).toMatchObject({ isError: true, meta: { "skillet/code": "tool-unknown" } });
    await waitFor(() => expect(changes()).toBeGreaterThanOrEqual(1));
    expect((await call("mail__send", { input: "x" })).text).toContain("mail of x");
  });
});

it("takes no tools from an invalid cache file", async () => {
  const scene = await discoverIn(PLAIN);
  const first = await connectTo(servingOf(scene));
  await first.call("load_skill", { skill: "mail" });
  await waitFor(async () => expect(await first.tools()).toContain("mail__send"));
  const cache = join(scene.root, "home/.skillet/cache/toolsets");
  const [known = ""] = readdirSync(cache);
  for (const text of [
    "",
    "[]",
    '[{"name":"a.b"}]',
    '{"name":1}',
    '[{"name":"x","description":"\\u202e","inputSchema":{"type":"object"}}]',
  ]) {
    writeFileSync(join(cache, known), text);
    const { call } = await connectTo(servingOf(await scene.again()));
    expect((await call("load_skill", { skill: "mail" })).text, text).toContain("still loading");
    await waitFor(async () => expect((await call("load_skill", { skill: "mail" })).text).toContain("mail__send"));
  }
});
