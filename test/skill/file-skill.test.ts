import { describe, expect, it } from "vitest";
import { isInvocableBy } from "../../src/skill/skill.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";

describe("a skill without restrictions of its invocation", () => {
  const SPELLINGS = [
    ...["disable-model-invocation", "disable_model_invocation"].map((key) => [key, "true", "model"] as const),
    ...["user-invocable", "user-invokable", "user_invocable"].map((key) => [key, "false", "user"] as const),
  ];
  it.each(SPELLINGS)("is distinguished from one with %s: %s without parsing its manifest", async (key, value, whom) => {
    const found = await discoverIn({
      "home/.skillet/skills/limits/SKILL.md": skillText("limits", { more: `${key}: ${value}\n` }),
      "home/.skillet/skills/plain/SKILL.md": skillText("plain", { body: `"${key}": ${value}` }),
    });
    expect(found.skill("limits").restrictsInvocation?.()).toBe(true);
    expect(isInvocableBy(whom, found.skill("limits"))).toBe(false);
    expect(found.skill("plain").restrictsInvocation?.()).toBe(false);
    expect(isInvocableBy(whom, found.skill("plain"))).toBe(true);
  });
});
