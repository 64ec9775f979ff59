import { describe, expect, it } from "vitest";
import { toSkillMd } from "../../src/skill/frontmatter.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";

describe("a skill as a SKILL.md", () => {
  it.each([
    ["plain keys", "license: MIT\n"],
    ["mappings in one line", "triggers: { keywords: [a, b] }\nmetadata: { x: { y: 1, z: [{ w: 2 }] } }\n"],
    ["mappings over lines", "metadata:\n  x:\n    y: 1\n"],
  ])("[Q-25] has everything that was read from its file: %s", async (_, more) => {
    const found = await discoverIn({ "home/.skillet/skills/a/SKILL.md": skillText("a", { more }) });
    const text = await toSkillMd(found.skill("a"));
    const again = await discoverIn({ "home/.skillet/skills/a/SKILL.md": text });
    expect(again.skill("a").manifest.data).toEqual(found.skill("a").manifest.data);
    expect(await again.skill("a").body()).toBe(await found.skill("a").body());
  });
});
