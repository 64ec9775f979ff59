import { describe, expect, it } from "vitest";
import { planUse } from "../../src/agent/run/plan-use.ts";
import { createLiveStepRunner } from "../../src/agent/run/step-runner.ts";
import { ROOT_CONTEXT, runUse, useSkill } from "../../src/agent/run/use-skill.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import type { RunEvent } from "../../src/host/events.ts";
import { type Model, NO_USAGE } from "../../src/host/model-contract.ts";
import { eventsOf, useScene } from "../support/use.ts";
import { withGrowingLimit } from "../support/wait-for.ts";

const SECRET = "sk-very-secret-value-1";
const done = { calls: [], usage: NO_USAGE, finish: "stop" } as const;

describe("the partial text of a run", () => {
  const half: Model = {
    name: "half",
    async respond({ onText, signal }) {
      onText("Half of the answer");
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      return { text: "", ...done };
    },
  };

  it("[W-21] is returned at a time limit", async () => {
    const { use } = await useScene({ skills: { x: {} }, turns: [] });
    const { result, events } = await withGrowingLimit(
      (seconds) => use({ skill: "x", seconds }, { models: { default: half } }),
      (used) => eventsOf(used.events, "text-generated").length > 0,
    );
    expect(result).toMatchObject({ stop: "timeout" });
    expect(result.content).toMatch(/^Half of the answer\n\n\[The limit of [\d.]+ seconds? was reached/);
    expect(
      eventsOf(events, "text-generated")
        .map(({ text }) => text)
        .join(""),
    ).toBe("Half of the answer");
  });

  it("is returned when the model fails, without a character cut in two", async () => {
    const breaking: Model = {
      name: "breaking",
      async respond({ onText }) {
        for (const piece of ["Half \ud83d", "\ude00 done"]) onText(piece);
        throw new Error("boom");
      },
    };
    const { use } = await useScene({ skills: { x: {} }, turns: [] });
    const { result, events } = await use({ skill: "x" }, { models: { default: breaking } });
    expect(result.content).toMatch(/^Half 😀 done\n\n\[The model failed: boom/);
    expect(
      eventsOf(events, "text-generated")
        .map(({ text }) => text)
        .join(""),
    ).toBe("Half 😀 done");
  });

  it("names the limit that ended it, even if it is one of a parent run", async () => {
    const { found } = await useScene({ skills: { x: {} }, turns: [] });
    const asking: Model = {
      name: "asking",
      async respond(request) {
        if (request.task.skill) return half.respond(request);
        return { text: "", ...done, calls: [{ id: "1", tool: "use_skill", input: { skill: "x" } }], finish: "calls" };
      },
    };
    const host = { ...found, models: { default: asking } };
    const { content } = await createConversation(openSession(found.catalog, host), host, { seconds: 0.3 }).send("go");
    expect(content).not.toContain("900");
    expect(content).not.toContain("<instruction>");
    expect(content).toContain("The limit of 0.3 seconds was reached");
  });
});

describe("disabled tools", () => {
  it("[S-07] stay disabled in a conversation", async () => {
    const { found } = await useScene({
      skills: { x: {} },
      config: '[tools]\ndisabled = ["Skill", "run_skill_script"]\n',
      turns: [
        ({ tools }) => {
          expect(Object.keys(tools)).not.toContain("use_skill");
          expect(Object.keys(tools)).not.toContain("run_skill_script");
          return [{ tool: "use_skill", input: { skill: "x" } }];
        },
        ({ results }) => results[0]?.content ?? "",
      ],
    });
    const session = openSession(found.catalog, found);
    expect((await createConversation(session, found).send("go")).content).toContain(
      "Tool 'use_skill' is disabled in the configuration",
    );
    expect(await session.call("use_skill", { skill: "x" })).toMatchObject({ code: "tool-blocked" });
  });

  it("the time limit of tools", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      config: "[limits]\ntool_timeout_seconds = 3000000\n",
      turns: [
        () => [{ tool: "bash", input: { command: "sleep 0.3; echo slept" } }],
        ({ results }) => (results[0]?.content.includes("slept") ? "ok" : "cut"),
      ],
    });
    expect((await use({ skill: "x" })).result.content).toBe("ok");
  });
});

describe("commands in loaded instructions", () => {
  it("[Q-22, X-06] show no configured secret", async () => {
    const { found } = await useScene({
      skills: { x: { body: "Env: !`cat .env`\n" }, y: { more: "env: [SOME_KEY]\n" } },
      config: `[tools]\ndynamic_commands = true\n[skills.y]\nSOME_KEY = "${SECRET}"\n`,
      workspace: { ".env": `SOME_KEY=${SECRET}\n` },
      turns: [],
    });
    const { text } = await openSession(found.catalog, found).call("load_skill", { skill: "x" });
    expect(text).toContain("Env: SOME_KEY=[SOME_KEY]");
  });

  it("[Q-03] do not run for a copy that was not granted the configuration of its name", async () => {
    const { found } = await useScene({
      skills: { x: { body: "Now: !`echo ran-$((1 + 1))`\n" } },
      config: '[skills.x]\ndynamic_commands = true\nnetwork = ["127.0.0.1:9"]\n',
      turns: [],
      areGiven: false,
    });
    const load = async () => (await openSession(found.catalog, found).call("load_skill", { skill: "x" })).text;
    expect(await load()).not.toContain("ran-2");
    expect(found.grants.getOwner("x")).toBeUndefined();
    found.grants.grant(found.skill("x"));
    expect(await load()).toContain("ran-2");
  });
});

describe("the requested model", () => {
  it("[S-08] stays runbook for all inner skills when runbook was requested, by any name", async () => {
    const { found } = await useScene({
      skills: { inner: { more: "model: default\n", body: "```sh\necho spelled out\n```" } },
      config: '[models.nobody]\nmodel = "runbook"\n',
      turns: [],
    });
    const { content } = await createConversation(openSession(found.catalog, found), found, { model: "nobody" }).send(
      "/inner go",
    );
    expect(content).toContain("spelled out");
  });

  it("[S-39] is that of the caller for a skill with inherit", async () => {
    const { use } = await useScene({
      skills: { outer: { more: "model: special\n" }, inner: { more: "model: inherit\n" } },
      turns: [],
    });
    const special: Model = {
      name: "special",
      async respond({ task, messages }) {
        const call = { id: "1", tool: "use_skill", input: { skill: "inner" } };
        const isFirst = task.skill?.name === "outer" && messages.length === 1;
        return isFirst ? { text: "", ...done, calls: [call], finish: "calls" } : { text: "ok", ...done };
      },
    };
    const { events } = await use({ skill: "outer" }, { models: { special } });
    expect(eventsOf(events, "run-started").map(({ model }) => model)).toEqual(["special", "special"]);
  });

  it("[S-39] is quoted in full when it does not exist", async () => {
    const { use } = await useScene({ skills: { x: {} }, turns: [] });
    const { result } = await use({ skill: "x", model: "qwen3:4b" });
    expect(result.refusals[0]?.message).toBe("Unknown model 'qwen3:4b'");
  });

  it("[S-32] is among all reasons against a use when its key is missing", async () => {
    const { use } = await useScene({
      skills: { x: { more: "env: [SOME_KEY]\nmodel: paid\n" } },
      config: '[models.paid]\nprovider = "anthropic"\nmodel = "m"\n',
      turns: [],
    });
    const { result } = await use({ skill: "x" });
    expect(result.refusals.map(({ code }) => code)).toEqual(["missing-variable", "model-key-missing"]);
  });
});

describe("a use that does not begin", () => {
  it("[W-28] returns a result, whatever the input", async () => {
    const { found } = await useScene({ skills: { x: {} }, turns: [] });
    for (const skill of [undefined, 42, null] as unknown as string[]) {
      expect(await useSkill(found.catalog, found, { skill })).toMatchObject({ stop: "refused", isError: true });
      expect(await planUse(found.catalog, found, { skill })).toMatchObject({ checks: [{ name: "skill" }] });
    }
  });

  it("[Q-03] is refused when its values were granted to no copy, and no use grants them", async () => {
    const { found } = await useScene({
      skills: { x: { more: "env: [SOME_KEY]\n" } },
      config: `[skills.x]\nSOME_KEY = "${SECRET}"\n`,
      turns: [],
      areGiven: false,
    });
    const result = await useSkill(found.catalog, found, { skill: "x" });
    expect(result).toMatchObject({ stop: "refused", refusals: [{ code: "secret-not-approved" }] });
    expect(JSON.stringify(result)).not.toContain(SECRET);
    expect(found.grants.getOwner("x")).toBeUndefined();
  });

  it("is reported in a step, and therefore once", async () => {
    const { found } = await useScene({ skills: { x: { more: "required_tools: [teleport]\n" } }, turns: [] });
    const events: RunEvent[] = [];
    const steps = new Map<string, unknown>();
    const port = createLiveStepRunner({}, (event) => events.push(event));
    const remembering = {
      ...port,
      async step<T>(name: string, work: () => Promise<T>): Promise<T> {
        if (!steps.has(name)) steps.set(name, await work());
        return steps.get(name) as T;
      },
    };
    const { signal } = new AbortController();
    const use = { catalog: found.catalog, host: found, request: { skill: "x" }, chain: ROOT_CONTEXT, signal, id: "r" };
    for (let life = 0; life < 2; life++) expect((await runUse({ ...use, steps: remembering })).stop).toBe("refused");
    expect(events.map(({ type }) => type)).toEqual(["run-refused"]);
  });
});

describe("the stored conversation", () => {
  it("[Q-22] has no secret in the property names of a model's output either", async () => {
    const { found } = await useScene({ skills: { x: {} }, config: `[skills.y]\nSOME_KEY = "${SECRET}"\n`, turns: [] });
    const naming: Model = {
      name: "naming",
      async respond({ messages }) {
        if (messages.length > 1) return { text: "ok", ...done };
        return {
          text: "",
          ...done,
          calls: [{ id: "1", tool: "list_skills", input: { [SECRET]: 1 } }],
          finish: "calls",
        };
      },
    };
    const host = { ...found, models: { default: naming } };
    const conversation = createConversation(openSession(found.catalog, host), host);
    await conversation.send("go");
    expect(JSON.stringify(conversation.messages)).not.toContain(SECRET);
  });
});

describe("a token limit", () => {
  it("[Q-24] holds also for a server that does not report usage", async () => {
    const silent: Model = {
      name: "silent",
      respond: async () => ({
        text: "word ".repeat(100),
        ...done,
        calls: [{ id: "1", tool: "list_skills", input: {} }],
        finish: "calls",
      }),
    };
    const { use } = await useScene({ skills: { x: {} }, turns: [] });
    const { result } = await use({ skill: "x", tokens: 500 }, { models: { default: silent } });
    expect(result.stop).toBe("budget");
    expect(result.iterations).toBeLessThan(4);
  });
});
