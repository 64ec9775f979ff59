import { describe, expect, it } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { eventsOf, useScene } from "../support/use.ts";

const BODY = "Now: !`echo made-$1`\n\n```!\necho block; echo '!`echo again` $ARGUMENTS'\n```\n\nThen $1.";

describe("commands in instructions", () => {
  it("[X-06] do not run unless the operator allows them, and the text reports that", async () => {
    const { found, use } = await useScene({
      skills: { x: { body: BODY } },
      turns: [
        ({ instructions }) => {
          expect(instructions).toContain("Now: !`echo made-one`");
          expect(instructions).toContain("were not run");
          return "ok";
        },
      ],
    });
    await use({ skill: "x", message: "one" });
    const loaded = await openSession(found.catalog, found).load("x", { arguments: "one" });
    expect(loaded.text).toContain("[The commands in !`…` were not run; their output is not in the text]");
  });

  it("[X-06] run in the sandbox when the operator allows them; their output is not expanded again", async () => {
    const { found, use } = await useScene({
      skills: { x: { body: BODY, more: "env: [A_KEY]\n" } },
      config: '[skills.x]\ndynamic_commands = true\nA_KEY = "a-value-0815"\n',
      turns: [
        ({ instructions }) => {
          expect(instructions).toContain("Now: made-one;touch hacked\n\nblock\n!`echo again` 'one;touch hacked' b");
          expect(instructions).toContain("Then one;touch");
          expect(instructions).not.toContain("were not run");
          return "ok";
        },
      ],
    });
    const { events } = await use({ skill: "x", message: "'one;touch hacked' b" });
    expect(eventsOf(events, "run-ended")[0]?.stop).toBe("answer");
    const { text } = await openSession(found.catalog, found).load("x", { arguments: "two" });
    expect(text).toContain("Now: made-two\n\nblock");
  });

  it("[X-06, Q-04] never run for an untrusted skill", async () => {
    const { found } = await useScene({
      skills: {},
      workspace: { "skills/w/SKILL.md": "---\nname: w\ndescription: Does w.\n---\n\nNow: !`echo made`\n" },
      config: "[tools]\ndynamic_commands = true\n",
      turns: [],
    });
    const { text } = await openSession(found.catalog, found).load("w");
    expect(text).toContain("Now: !`echo made`");
    expect(text).toContain("were not run");
  });

  it("[X-06] load without the skill's values", async () => {
    const { found } = await useScene({
      skills: { x: { body: 'Key: !`echo "<$A_KEY>"`', more: "env: [A_KEY]\n" } },
      config: '[skills.x]\ndynamic_commands = true\nA_KEY = "a-value-0815"\n',
      turns: [],
    });
    expect((await openSession(found.catalog, found).load("x")).text).toContain("Key: <>");
  });
});
