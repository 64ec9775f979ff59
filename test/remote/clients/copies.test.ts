import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { resolveClientTarget } from "../../../src/remote/clients/native-clients.ts";
import { writeClientCopies } from "../../../src/remote/clients/skill-copies.ts";
import { discoverIn } from "../../support/discover.ts";
import { skillText, temporaryFolder } from "../../support/folder.ts";

it("[Q-12] nothing is written behind a link that replaced the folder after the check", async () => {
  const { root, skill, installs, around } = await discoverIn({ "skills/one/SKILL.md": skillText("one") });
  const target = resolveClientTarget("claude", { around, isProject: true });
  const elsewhere = temporaryFolder();
  const refuses = () => {
    mkdirSync(join(root, "project/.claude"));
    symlinkSync(elsewhere, join(root, "project/.claude/skills"));
    return undefined;
  };
  const install = () => writeClientCopies({ target, installs, skills: [skill("one")], findRefusal: refuses });
  await expect(install()).rejects.toThrow(/Skill "one" .*the folder was replaced by a link to/);
  expect(readdirSync(elsewhere)).toEqual([]);
});

it("[Q-12] a skill that changes between check and copy is not exported, nor its dependencies", async () => {
  const files = { "skills/one/SKILL.md": skillText("one"), "skills/one/run.sh": "echo looked at\n" };
  const { root, skill, installs, around } = await discoverIn({ ...files, "skills/two/SKILL.md": skillText("two") });
  const target = resolveClientTarget("claude", { around, isProject: true });
  const install = (onTwo: () => void) =>
    writeClientCopies({
      target,
      installs,
      skills: [skill("one"), skill("two")],
      findRefusal({ name }) {
        if (name === "two") onTwo();
        return undefined;
      },
    });
  const change = () => writeFileSync(join(root, "project/skills/one/run.sh"), "echo never looked at\n");
  await expect(install(change)).rejects.toThrow(/Skill "one" .*its files changed while they were copied/);
  expect(existsSync(target.folder)).toBe(false);
  expect(installs.entries()).toEqual({});
  expect((await install(() => {})).map(({ action }) => action)).toEqual(["install", "install"]);
  expect((await install(() => {})).map(({ action }) => action)).toEqual(["unchanged", "unchanged"]);
});
