import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSession, type Session, type SessionOptions } from "../../src/agent/session/session.ts";
import type { Host } from "../../src/config/host.ts";
import type { Approval, ApprovalRequest } from "../../src/host/approval.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { createCatalogOf } from "../support/skills.ts";
import { MY_SKILL, ownSkill, toolsetOf } from "../support/toolset.ts";

const INDEX = "home/.agent/skills/x/toolsets/index.ts";

async function sessionIn(
  files: Record<string, string>,
  host: Partial<Host> = {},
  options: SessionOptions = {},
): Promise<{ session: Session; scene: Scene; edit(text: string, path?: string): void }> {
  const scene = await discoverIn(files);
  const session = openSession(scene.catalog, { ...scene, ...host }, options);
  onTestFinished(() => session.close());
  return { session, scene, edit: (text, path = INDEX) => writeFileSync(join(scene.root, path), text) };
}

const names = ({ tools }: Session) => tools.map(({ name }) => name);
const one = (word: string) => ({ "toolsets/index.ts": toolsetOf({ one: `return "${word}"` }) });

describe("a session with a skill that provides tools", () => {
  it("[T-11] mounts them when it is loaded, and removes them when it is unloaded", async () => {
    const { session } = await sessionIn(MY_SKILL);
    const before = names(session);
    expect((await session.call("my-skill.my-tool", {})).code).toBe("tool-unknown");
    const { text } = await session.load("my-skill");
    expect(text).toContain("Instructions for the LLM");
    expect(text).toContain("[It provides these tools: my-skill__my-tool]");
    expect(text).not.toContain("Not in force");
    expect(names(session)).toEqual([...before, "my-skill.my-tool"]);
    const expected = { isError: false, title: "Completed", text: expect.stringContaining("Processed: it") };
    expect(await session.call("my-skill.my-tool", { input: "it" })).toMatchObject(expected);
    expect(await session.call("my-skill__my-tool", { input: "it" }), "as a model writes it").toMatchObject(expected);
    await session.load("my-skill", { again: true });
    expect(names(session)).toEqual([...before, "my-skill.my-tool"]);
    expect(session.unload("my-skill")).toBe(true);
    expect(names(session)).toEqual(before);
    expect((await session.call("my-skill.my-tool", { input: "it" })).code).toBe("tool-unknown");
  });

  it("lists them in the order in which their skills were loaded", async () => {
    const { session } = await sessionIn({ ...MY_SKILL, ...ownSkill(one("1")) });
    await session.load("x");
    await session.load("my-skill");
    expect(names(session).slice(-2)).toEqual(["x.one", "my-skill.my-tool"]);
  });

  it("[T-13] loads the text without broken tools, and explains why they are missing", async () => {
    const { session } = await sessionIn(ownSkill({ "toolsets/index.ts": "throw new Error('boom')" }));
    const before = names(session);
    const { text, isError } = await session.load("x");
    expect(isError).toBe(false);
    expect(text).toContain("Do it.");
    expect(text).toMatch(
      /\[Its tools are not available: Toolset of skill 'x': toolsets\/index\.ts:1:7 cannot be imported: boom/,
    );
    expect(names(session)).toEqual(before);
  });

  it("[T-13] explains that the tools of a skill without a folder are missing", async () => {
    const catalog = await createCatalogOf({ x: { more: { toolsets: ["toolsets/index:Tools"] } } });
    const { text, isError } = await openSession(catalog).load("x");
    expect(isError).toBe(false);
    expect(text).toContain(
      "[Its tools are not available: Toolset of skill 'x': \"toolsets/index:Tools\" names a file that is not",
    );
  });

  it("[Q-04] loads the text of an untrusted skill without its tools", async () => {
    const own = Object.entries(ownSkill(one("1")));
    const { session } = await sessionIn(
      Object.fromEntries(own.map(([path, text]) => [path.replace("home/.agent/", ""), text])),
    );
    const { text: content, isError } = await session.load("x");
    expect([isError, content.includes("Do it."), content.includes("has not been trusted yet")]).toEqual([
      false,
      true,
      true,
    ]);
    expect(names(session)).not.toContain("x.one");
  });

  it("[Q-04] calls trusted tools until they change or trust is revoked", async () => {
    const own = Object.entries(ownSkill(one("1")));
    const files = Object.fromEntries(own.map(([path, text]) => [path.replace("home/.agent/", ""), text]));
    const { session, scene, edit } = await sessionIn(files);
    const trust = async () => scene.trust.grant([{ skill: scene.skill("x"), copy: await copySkill(scene.skill("x")) }]);
    await trust();
    await session.load("x");
    expect((await session.call("x.one", {})).text).toContain("1");
    edit(one("2")["toolsets/index.ts"], "project/skills/x/toolsets/index.ts");
    expect(await session.call("x.one", {})).toMatchObject({ isError: true, code: "changed" });
    await trust();
    await session.load("x", { again: true });
    expect((await session.call("x.one", {})).text).toContain("2");
    scene.trust.revoke([join(scene.root, "project/skills/x")]);
    expect(await session.call("x.one", {})).toMatchObject({ isError: true, code: "untrusted" });
  });

  it("[T-11] follows an edit at the next call, also one that adds a file and a tool", async () => {
    const { session, edit } = await sessionIn(ownSkill(one("first")));
    await session.load("x");
    expect((await session.call("x.one", {})).text).toContain("first");
    edit(toolsetOf({ one: 'return "second"' }));
    expect((await session.call("x.one", {})).text).toContain("second");
    edit("export const word = 'third';", INDEX.replace("index", "word"));
    expect((await session.call("x.one", {})).text, "an added file is an edit too").toContain("second");
    edit(toolsetOf({ one: "return word", two: 'return "2"' }, 'import { word } from "./word";'));
    expect((await session.call("x.one", {})).text).toContain("third");
    expect((await session.call("x.two", {})).text).toContain("2");
    expect(names(session).slice(-2)).toEqual(["x.one", "x.two"]);
  });

  it("[T-13] reports at the next call that an edit broke it, while others continue, and works once it is fixed", async () => {
    const { session, edit, scene } = await sessionIn({ ...MY_SKILL, ...ownSkill(one("1")) });
    await session.load("x");
    await session.load("my-skill");
    edit("export const Tools = ;");
    expect(await session.call("x.one", {})).toMatchObject({ isError: true, code: "toolset-broken" });
    expect(await session.call("my-skill.my-tool", { input: "it" })).toMatchObject({ isError: false });
    edit(one("mended")["toolsets/index.ts"]);
    expect((await session.call("x.one", {})).text).toContain("mended");
    rmSync(join(scene.root, "home/.agent/skills/x"), { recursive: true });
    expect(await session.call("x.one", {})).toMatchObject({ isError: true });
  });

  it("does not call a tool that an edit made destructive before it is approved", async () => {
    const { session, edit } = await sessionIn(ownSkill(one("1")));
    await session.load("x");
    const [listed] = session.tools.slice(-1);
    edit(one("sent")["toolsets/index.ts"].replace("execute:", 'effect: "outside", execute:'));
    expect(await listed?.execute({})).toMatchObject({ isError: true, code: "tool-changed" });
    expect(await session.call("x.one", {})).toMatchObject({ isError: true, code: "approval-needed" });
  });

  it("follows its SKILL.md too", async () => {
    const { session, edit } = await sessionIn(ownSkill({ ...one("1"), "other.ts": toolsetOf({ two: 'return "2"' }) }));
    await session.load("x");
    const changed = ownSkill({}, ["other:Tools"])["home/.agent/skills/x/SKILL.md"] ?? "";
    edit(changed, "home/.agent/skills/x/SKILL.md");
    expect((await session.call("x.two", {})).text).toContain("2");
    expect((await session.call("x.one", {})).code).toBe("tool-unknown");
  });

  it("starts a toolset again that ended itself, when the skill is loaded again", async () => {
    const { session } = await sessionIn(
      ownSkill({ "toolsets/index.ts": toolsetOf({ ends: "process.exit()", one: 'return "1"' }) }),
    );
    await session.load("x");
    expect((await session.call("x.ends", {})).code).toBe("toolset-exited");
    expect((await session.call("x.one", {})).code).toBe("toolset-exited");
    await session.load("x", { again: true });
    expect((await session.call("x.one", {})).isError).toBe(false);
  });

  it("has the tools of skills that an earlier session of the conversation loaded", async () => {
    const first = await sessionIn(ownSkill(one("1")));
    await first.session.load("x");
    const active = JSON.parse(JSON.stringify(first.session.active));
    const session = openSession(first.scene.catalog, first.scene, { active });
    onTestFinished(() => session.close());
    expect((await session.call("x.one", {})).text).toContain("1");
  });

  it("omits what the configuration disables", async () => {
    const { session } = await sessionIn({
      ...ownSkill(one("1")),
      "home/.skillet/config.toml": '[tools]\ndisabled = ["x.one"]\n',
    });
    await session.load("x");
    expect(names(session)).not.toContain("x.one");
    expect((await session.call("x.one", {})).code).toBe("tool-blocked");
  });

  it("gives them no values of variables, and ends them with the session", async () => {
    const body = "return JSON.stringify([Object.keys(ctx.env), Object.keys(process.env)])";
    const files = ownSkill({ "toolsets/index.ts": toolsetOf({ one: body }) });
    files["home/.agent/skills/x/SKILL.md"] = (files["home/.agent/skills/x/SKILL.md"] ?? "").replace(
      "toolsets:",
      "env: [A_TOKEN]\ntoolsets:",
    );
    const { session } = await sessionIn({
      ...files,
      "home/.skillet/config.toml": '[skills.x]\nA_TOKEN = "value-of-it"\n',
    });
    await session.load("x");
    expect((await session.call("x.one", {})).text).toContain('[[],["HOME"]]');
    const [tool] = session.tools.slice(-1);
    session.close();
    expect(names(session)).not.toContain("x.one");
    expect(await tool?.execute({})).toMatchObject({ isError: true });
  });
});

describe("a tool of a session that changes something", () => {
  const files = ownSkill({
    "toolsets/index.ts": toolsetOf({ send: 'return "sent"' }).replace(
      "execute:",
      'effect: { on: "outside", what: "send it" }, execute:',
    ),
  });
  const asking = (word: Approval) => {
    const asked: ApprovalRequest[] = [];
    return {
      asked,
      approve: async (effect: ApprovalRequest) => {
        asked.push(effect);
        return word;
      },
    };
  };

  it("is not called when no user can be asked", async () => {
    const { session } = await sessionIn(files);
    await session.load("x");
    expect(await session.call("x.send", {})).toMatchObject({ isError: true, code: "approval-needed" });
  });

  it("is called after approval, and asks again or not as the user chose", async () => {
    for (const [scope, times] of [
      ["once", 2],
      ["run", 1],
      ["always", 1],
    ] as const) {
      const { asked, approve } = asking({ isApproved: true, scope });
      const { session, scene } = await sessionIn(files, { approve });
      await session.load("x");
      for (let call = 0; call < 2; call++) expect((await session.call("x.send", {})).text).toContain("sent");
      expect(asked).toHaveLength(times);
      expect(asked[0]).toMatchObject({ skill: "x", tool: "x.send", on: "outside", what: "send it" });
      expect(await scene.approvals.list()).toHaveLength(scope === "always" ? 1 : 0);
    }
  });

  it("is not called when the user denies it, or the approval callback fails", async () => {
    const { approve } = asking({ isApproved: false, reason: "not now" });
    const { session } = await sessionIn(files, { approve });
    await session.load("x");
    expect(await session.call("x.send", {})).toMatchObject({
      code: "not-approved",
      text: expect.stringContaining("not now"),
    });
    const failing = await sessionIn(files, { approve: () => Promise.reject(new Error("gone")) });
    await failing.session.load("x");
    expect(await failing.session.call("x.send", {})).toMatchObject({ isError: true, code: "not-approved" });
  });
});
