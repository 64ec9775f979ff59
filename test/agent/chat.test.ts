import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials, findFirstDenial, findUnavailability } from "../../src/agent/policy/skill-policies.ts";
import { discover } from "../../src/config/discover.ts";
import { DEFAULT_SETTINGS, type Settings, type SkillSettings } from "../../src/config/settings.ts";
import type { Caller } from "../../src/host/approval.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { defineTestSkill } from "../support/skills.ts";

const codes = (more: Record<string, unknown>, caller?: Caller) =>
  findDenials(defineTestSkill("x", { more }), { settings: DEFAULT_SETTINGS, ...(caller ? { caller } : {}) }).map(
    ({ code }) => code,
  );

describe("the chat type", () => {
  it.each([
    ["[S-16] keeps sensitive skills in private chats", { sensitive: true }, ["private"], ["group", "channel", ""]],
    [
      "[S-16] keeps it to those that the skill lists instead",
      { sensitive: true, access: { chat_types: ["group"] } },
      ["group"],
      ["private"],
    ],
    [
      "[S-17] keeps any skill to those it lists",
      { access: { chat_types: ["private", "Group"] } },
      ["private", "group", "GROUP"],
      ["supergroup"],
    ],
    ["[S-17] takes one as a text", { access: { chat_types: "group" } }, ["group"], ["private"]],
    ["[S-17] takes a list that says nothing as private", { access: { chat_types: [] } }, ["private"], ["group"]],
    ["[S-17] takes what cannot be understood as private", { access: { chat_type: ["group"] } }, ["private"], ["group"]],
    ["[S-17] says nothing where the skill does", { access: null }, ["private", "group", ""], []],
  ] as [string, Record<string, unknown>, string[], string[]][])("[S-16, S-17] %s", (_, more, allowed, refused) => {
    for (const chatType of allowed) expect(codes(more, { chatType }), chatType).toEqual([]);
    for (const chatType of refused) expect(codes(more, { chatType }), chatType).toEqual(["chat-type"]);
  });

  it("[S-36] is undefined unless the caller states it: the skill is hidden and refused, with the fix", () => {
    for (const more of [{ sensitive: true }, { access: { chat_types: ["private", "group"] } }]) {
      const skill = defineTestSkill("x", { more });
      for (const caller of [undefined, {}, { chatId: "1" }]) {
        const host = { settings: DEFAULT_SETTINGS, ...(caller ? { caller } : {}) };
        expect(findFirstDenial(skill, host)).toMatchObject({
          code: "chat-type",
          kind: "access",
          fix: "set it with --chat-type, or `caller.chatType` of the host",
        });
        expect(findDenials(skill, host, "use")).toHaveLength(1);
        expect(findDenials(skill, host, "run")).toHaveLength(1);
      }
    }
    expect(codes({})).toEqual([]);
  });

  it("[S-36] is private at a terminal, with the id `terminal`", async () => {
    const HOME = temporaryFolder({
      ".skillet/skills/diary/SKILL.md": skillText("diary", { more: "sensitive: true\n" }),
      ".skillet/skills/crowd/SKILL.md": skillText("crowd", { more: "access:\n  chat_types: [group]\n" }),
      ".skillet/skills/mine/SKILL.md": skillText("mine"),
      ".skillet/config.toml":
        '[skills.mine]\nallow_chat_ids = ["terminal"]\n[skills.skillmaker]\nallow_chat_ids = ["9"]\n',
    });
    const { stdout } = await skillet(["list", "--all"], { env: { HOME } });
    const [available = "", rest] = stdout.split("Not available here");
    expect(available).toMatch(/^diary /m);
    expect(available).toMatch(/^mine /m);
    expect(available).not.toMatch(/^(?:crowd|skillmaker) /m);
    expect(rest).toContain(
      "crowd  Skill 'crowd' is for group chats only, and this one is private; use it in a group chat",
    );
    expect(rest).toContain(
      `Skill 'skillmaker' is not for the chat "terminal"; add "terminal" to allow_chat_ids of [skills.skillmaker] in config.toml`,
    );
  });

  it("[S-36] comes from the embedding program, also for skills in files", async () => {
    const workspace = temporaryFolder({ "skills/diary/SKILL.md": skillText("diary", { more: "sensitive: true\n" }) });
    const options = { workspace, env: { HOME: join(workspace, "home") }, index: false };
    const isThere = async (caller?: Caller) => {
      const found = await discover({ ...options, ...(caller ? { caller } : {}) });
      return found.catalog.available((skill) => findUnavailability(skill, found)).some(({ name }) => name === "diary");
    };
    expect(await isThere()).toBe(false);
    expect(await isThere({ chatType: "group" })).toBe(false);
    expect(await isThere({ chatType: "private" })).toBe(true);
  });
});

describe("the chat id", () => {
  const settings = (own?: readonly string[], defaults: readonly string[] = []): Settings => {
    const skill: SkillSettings = { variables: new Map(), ...(own ? { allowChatIds: own } : {}) };
    return { ...DEFAULT_SETTINGS, defaults: { allowChatIds: defaults }, skills: new Map([["x", skill]]) };
  };
  const denialFor = (chatId: string | undefined, ...lists: Parameters<typeof settings>) =>
    findFirstDenial(defineTestSkill("x"), {
      settings: settings(...lists),
      caller: chatId === undefined ? {} : { chatId },
    });

  it("[S-18] is checked against the skill's own list, or else that of the defaults", () => {
    expect(denialFor("1", ["1"])).toBeUndefined();
    expect(denialFor("2", ["1"])?.fix).toBe('add "2" to allow_chat_ids of [skills.x] in config.toml');
    expect(denialFor("2", ["1"], ["2"]), "its own overrides").toMatchObject({ code: "chat-id", kind: "access" });
    expect(denialFor("2", undefined, ["2"])).toBeUndefined();
    expect(denialFor("3", undefined, ["2"])?.fix).toBe('add "3" to allow_chat_ids of [skills.defaults] in config.toml');
  });

  it("[S-36] is not needed for an empty list, and refused when it is unknown", () => {
    expect(denialFor("3", [], ["2"])).toBeUndefined();
    expect(denialFor(undefined, [], ["2"])).toBeUndefined();
    expect(denialFor(undefined)).toBeUndefined();
    expect(denialFor(undefined, ["1"])).toMatchObject({
      code: "chat-id",
      fix: "set it with --chat-id, or `caller.chatId` of the host",
    });
  });

  it("[S-18] is read from the configuration", async () => {
    const { skill, settings } = await discoverIn({
      "home/.skillet/config.toml": '[skills.defaults]\nallow_chat_ids = ["1"]\n[skills.b]\nallow_chat_ids = []\n',
      "skills/a/SKILL.md": skillText("a"),
      "skills/b/SKILL.md": skillText("b"),
    });
    const host = { settings, caller: { chatId: "2" } };
    expect(findDenials(skill("a"), host).map(({ code }) => code)).toEqual(["chat-id"]);
    expect(findDenials(skill("b"), host)).toEqual([]);
  });
});
