import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { createConversation, resumeChat } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import type { Approval, ApprovalRequest } from "../../src/host/approval.ts";
import { Tool } from "../../src/skill/tool.ts";
import { RUN_DRIVERS, readJournalText, scenesOver } from "../support/run-drivers.ts";
import { toolsetOf } from "../support/toolset.ts";
import { useScene } from "../support/use.ts";

const INPUT = { type: "object", properties: { to: { type: "string" } } };
const RETRIES = "retries = 0\n";

/** A tool with an external effect, and the inputs of its calls. */
function sending(effect: () => Partial<ApprovalRequest> & { on: "outside" | "workspace" } = () => ({ on: "outside" })) {
  const sent: string[] = [];
  const tool = Tool.define("send", {
    description: "Sends.",
    parameters: INPUT,
    effect,
    execute: ({ to }) => {
      sent.push(String(to));
      return "sent";
    },
  });
  return { tool, sent };
}

const send = (to: string) => ({ tool: "send", input: { to } });

describe.each(RUN_DRIVERS)("a resumed run, with runs in %s", (driver) => {
  const useScene = scenesOver(driver);

  it("keeps the refusal of an inner skill, whatever has changed since", async () => {
    const { found, use } = await useScene({
      skills: { outer: {}, inner: { more: "env: [SOME_KEY]\n" } },
      config: RETRIES,
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "Go." } }],
        () => ({ status: 500 }),
        ({ results }) => (results[0]?.content.includes("needs SOME_KEY") ? "It was refused." : "not"),
      ],
    });
    const { result } = await use({ skill: "outer" });
    expect(result.stop).toBe("error");
    appendFileSync(join(found.home, "config.toml"), '\n[skills.inner]\nSOME_KEY = "a value of it"\n');
    const again = await found.again();
    expect(await resumeRun(again.catalog, again, result.run)).toMatchObject({ content: "It was refused." });
  });

  it("counts the tokens that it has used", async () => {
    const scene = () =>
      useScene({
        skills: { outer: {}, inner: {} },
        config: RETRIES,
        turns: ({ results, prompt }) => {
          if (prompt.includes("Count.")) return "Counted.";
          return results.length < 5 ? [{ tool: "use_skill", input: { skill: "inner", message: "Count." } }] : "Done.";
        },
      });
    const whole = await scene();
    const uninterrupted = (await whole.use({ skill: "outer", tokens: 100 })).result;
    expect(uninterrupted.stop).toBe("budget");
    const cut = await scene();
    const controller = new AbortController();
    const run = useSkill(cut.found.catalog, cut.found, { skill: "outer", tokens: 100, signal: controller.signal });
    for await (const event of run) if (event.type === "run-ended" && event.skill === "inner") controller.abort();
    const { run: id } = await run;
    const resumed = await resumeRun(cut.found.catalog, cut.found, id);
    expect(resumed).toMatchObject({ stop: "budget", usage: uninterrupted.usage, iterations: uninterrupted.iterations });
  });

  it("keeps the limit of a run that 0.1.0 recorded, which called it `iterations`", async () => {
    const { found, use } = await useScene({
      skills: { x: {} },
      config: RETRIES,
      turns: [() => ({ status: 500 }), () => [{ tool: "list_skills", input: {} }]],
    });
    const { result } = await use({ skill: "x", ...{ iterations: 1 } });
    expect(result.stop).toBe("error");
    expect(await resumeRun(found.catalog, found, result.run)).toMatchObject({ stop: "max-iterations", iterations: 1 });
  });

  it("names an existing function when a host has no run store", async () => {
    const { found } = await useScene({ skills: { x: {} }, turns: () => "" });
    const { runs: _, ...host } = found;
    const [refusal] = (await resumeRun(found.catalog, host, "20260101-000000-00000000")).refusals;
    const [, name = ""] = /: (\w+)\(folder\)$/.exec(refusal?.fix ?? "") ?? [];
    expect(await import("../../src/store/index.ts")).toHaveProperty(name);
  });

  it("asks a model again that did not answer", async () => {
    const { found, use } = await useScene({ skills: { x: {} }, turns: [() => "", () => "Here I am."] });
    const { result } = await use({ skill: "x" });
    expect(result).toMatchObject({ stop: "error", error: { code: "model-empty" }, usage: { inputTokens: 10 } });
    expect(await resumeRun(found.catalog, found, result.run)).toMatchObject({ content: "Here I am.", stop: "answer" });
  });

  it("[W-27] keeps its caller and its folder when another user resumes it", async () => {
    const { tool, sent } = sending();
    const { found, use } = await useScene({ skills: { x: {} }, turns: [() => [send("Ada")] as never, () => "Done."] });
    const { result } = await use({ skill: "x" }, { tools: [tool], caller: { userId: "ada", chatType: "private" } });
    await found.runs.answer(result.run, { isApproved: true });
    const other = { ...found, tools: [tool], caller: { userId: "bob" } };
    const elsewhere = await resumeRun(found.catalog, { ...other, workspace: found.root }, result.run);
    expect(elsewhere).toMatchObject({ stop: "refused", refusals: [{ code: "run-other-workspace" }] });
    expect(sent).toEqual([]);
    const here = await resumeRun(found.catalog, other, result.run);
    expect(here).toMatchObject({ stop: "answer", caller: { userId: "ada" } });
    expect(sent).toEqual(["Ada"]);
  });

  it("[Q-22] has its original input, although the secret in it is not stored", async () => {
    const schema = "input_schema:\n  type: object\n  properties:\n    key: { type: string, pattern: '^hunter' }\n";
    const { tool } = sending();
    const { found, use } = await useScene({
      skills: { x: { more: `env: [SOME_KEY]\n${schema}`, body: "Use hunter2hunter2 now." } },
      config: '[skills.x]\nSOME_KEY = "hunter2hunter2"\n',
      turns: [() => [send("Ada")] as never, () => "Done."],
    });
    const { result } = await use({ skill: "x", input: { key: "hunter2hunter2" } }, { tools: [tool] });
    expect(result.stop).toBe("waiting");
    await found.runs.answer(result.run, { isApproved: false, reason: "no hunter2hunter2" });
    expect(await resumeRun(found.catalog, { ...found, tools: [tool] }, result.run)).toMatchObject({ content: "Done." });
    const kept = await readJournalText(driver, found, result.run);
    expect(kept.replace(/"type":"answer".*\n/, "")).not.toContain("hunter2");
  });

  it("asks again when the approved action has changed", async () => {
    let what = "write a note";
    const { tool, sent } = sending(() => ({ on: "outside", what }));
    const { found, use } = await useScene({ skills: { x: {} }, turns: [() => [send("Ada")] as never] });
    const { result } = await use({ skill: "x" }, { tools: [tool] });
    await found.runs.answer(result.run, { isApproved: true });
    what = "wipe the database";
    const more = await resumeRun(found.catalog, { ...found, tools: [tool] }, result.run);
    expect(more).toMatchObject({ stop: "waiting", approvalRequest: { what: "wipe the database" } });
    expect(sent).toEqual([]);
  });

  it("is refused permanently when it was refused after it had begun", async () => {
    const { found, use } = await useScene({
      skills: { x: { more: "required_tools: [bash]\ndisallowed-tools: Bash\n" } },
      turns: [],
    });
    const { result } = await use({ skill: "x" });
    expect(result.stop).toBe("refused");
    expect((await found.runs.list()).map(({ state, end }) => [state, end?.stop])).toEqual([["ended", "refused"]]);
  });
});

describe("a run in a file", () => {
  it("ignores late writes", async () => {
    let late: ((text: string) => void) | undefined;
    const tool = Tool.define("go", {
      description: "Goes.",
      parameters: INPUT,
      execute: (_, { progress }) => {
        late = progress;
        return "gone";
      },
    });
    const { found, use } = await useScene({
      skills: { x: {} },
      turns: [() => [{ tool: "go", input: {} }], () => "Done."],
    });
    const { result } = await use({ skill: "x" }, { tools: [tool] });
    const file = join(found.home, "runs", `${result.run}.jsonl`);
    const { size } = statSync(file);
    const other = join(found.root, "other");
    writeFileSync(other, "mine");
    late?.("still here");
    expect([statSync(file).size, readFileSync(other, "utf8")]).toEqual([size, "mine"]);
  });
});

describe.each(RUN_DRIVERS)("a waiting turn of a conversation, with runs in %s", (driver) => {
  const useScene = scenesOver(driver);
  const toolsets = 'toolsets: ["toolsets/index:Tools"]\n';
  const paying = toolsetOf({ pay: 'return "paid " + args.input' }).replace("execute:", 'effect: "outside", execute:');

  it("[T-11] resumes with the tools of skills loaded before it, and counts each loading once", async () => {
    const { found } = await useScene({
      skills: { x: { more: toolsets, files: { "toolsets/index.ts": paying } } },
      turns: [
        () => [{ tool: "load_skill", input: { skill: "x" } }],
        () => "Loaded.",
        () => [{ tool: "x__pay", input: { input: "Ada" } }],
        ({ results }) => (results.at(-1)?.content.includes("paid Ada") ? "Paid." : "not"),
        () => "Anything else?",
      ],
    });
    const session = openSession(found.catalog, found);
    const conversation = createConversation(session, found);
    expect((await conversation.send("Load it.")).content).toBe("Loaded.");
    const waiting = await conversation.send("Pay Ada.");
    expect(waiting).toMatchObject({ stop: "waiting", approvalRequest: { tool: "x.pay", skill: "x" } });
    session.close();
    await found.runs.answer(waiting.run, { isApproved: true });
    expect(await resumeChat(found.catalog, found, waiting.run)).toMatchObject({ content: "Paid.", stop: "answer" });
    // The turn belongs to the other one by now: the next message follows whole turns.
    expect(conversation.messages.at(-1)).toMatchObject({ role: "assistant", text: "Loaded." });
    expect((await conversation.send("Thanks.")).content).toBe("Anything else?");
    expect(await found.statistics.perSkill()).toMatchObject([{ skill: "x", loads: 1 }]);
  });

  it("[T-08] has the tools of a skill that the message included in full", async () => {
    const { found } = await useScene({
      skills: {
        x: {
          more: `${toolsets}triggers:\n  keywords: [banana]\n`,
          files: { "toolsets/index.ts": toolsetOf({ peel: 'return "peeled " + args.input' }) },
        },
      },
      turns: [
        ({ context }) => {
          expect(context).toContain("x: [It provides these tools: x__peel]");
          expect(context).not.toContain("Not in force");
          return [{ tool: "x__peel", input: { input: "it" } }];
        },
        ({ results }) => (results[0]?.content.includes("peeled it") ? "Peeled." : "not"),
      ],
    });
    const session = openSession(found.catalog, found);
    expect((await session.disclose("a banana")).text).toContain("[load_skill adds its tools]");
    expect((await createConversation(session, found).send("a banana, please")).content).toBe("Peeled.");
    session.close();
  });
});

describe("an approval", () => {
  async function scene(calls: readonly object[], more = "") {
    return useScene({
      skills: { x: { more } },
      turns: [() => calls as never, () => "done"],
    });
  }
  function answering(...answers: unknown[]) {
    const asked: ApprovalRequest[] = [];
    const approve = async (effect: ApprovalRequest) => {
      asked.push(effect);
      return (answers.shift() ?? { isApproved: false }) as Approval;
    };
    return { asked, approve };
  }
  const write = (path: string) => ({ tool: "write_file", input: { path, content: "x" } });

  it("for the workspace does not cover effects that the skill did not declare", async () => {
    const { use, found } = await scene(
      [write("a.txt"), { tool: "bash", input: { command: "id > b.txt", writes: true } }],
      "allowed-tools: Read\n",
    );
    const { asked, approve } = answering({ isApproved: true, scope: "run" });
    await use({ skill: "x" }, { approve });
    expect(asked.map(({ tool, on }) => `${tool} ${on}`)).toEqual(["write_file other", "bash other"]);
    expect(existsSync(join(found.workspace, "b.txt"))).toBe(false);
  });

  it("that a skill declares covers the tools that it lists, not its contributed tools or its callers", async () => {
    const { tool, sent } = sending(() => ({ on: "workspace" }));
    const { use, found } = await useScene({
      skills: { outer: { more: "allowed-tools: Write Skill send\n" }, inner: {} },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "Write." } }],
        () => [write("a.txt"), send("Ada")] as never,
        () => "inner",
        () => "outer",
      ],
    });
    const { asked, approve } = answering();
    await use({ skill: "outer" }, { approve, tools: [tool] });
    expect(asked.map(({ skill, tool: name }) => `${skill} ${name}`)).toEqual(["inner write_file", "inner send"]);
    expect([existsSync(join(found.workspace, "a.txt")), sent]).toEqual([false, []]);
  });

  it.each([{ isApproved: true, scope: "this call" }, { isApproved: true, scope: 1 }, { isApproved: true }])(
    "that is %j covers one call",
    async (word) => {
      const { tool, sent } = sending();
      const { use } = await scene([send("Ada"), send("Bob")]);
      const { asked, approve } = answering(word);
      await use({ skill: "x" }, { approve, tools: [tool] });
      expect([asked.length, sent]).toEqual([2, ["Ada"]]);
    },
  );

  it.each([{ isApproved: "yes" }, { isApproved: 1 }, {}, null, "yes", true])(
    "that is %j is not an approval",
    async (word) => {
      const { tool, sent } = sending();
      const { use } = await scene([send("Ada")]);
      await use({ skill: "x" }, { approve: async () => word as never, tools: [tool] });
      expect(sent).toEqual([]);
    },
  );

  it("for files is permanent in one workspace only", async () => {
    const { found, use } = await scene([write("a.txt")]);
    const { approve } = answering({ isApproved: true, scope: "always" });
    await use({ skill: "x" }, { approve });
    const [{ allowed = [] } = {}] = await found.approvals.list();
    expect(allowed).toEqual([`workspace:${found.workspace}`]);
  });

  it("that never comes ends with the run", async () => {
    const { tool } = sending();
    const { found } = await useScene({ skills: { x: {} }, turns: [() => [send("Ada")] as never] });
    const controller = new AbortController();
    const approve = () => {
      controller.abort();
      return new Promise<Approval>(() => {});
    };
    const host = { ...found, approve, tools: [tool] };
    const result = await useSkill(found.catalog, host, { skill: "x", signal: controller.signal });
    expect(result.stop).toBe("aborted");
  });

  it("is requested when a tool never reports its effect", async () => {
    const { tool } = sending();
    const { use } = await scene([send("Ada")]);
    const { asked, approve } = answering();
    await use({ skill: "x" }, { approve, tools: [{ ...tool, effect: () => new Promise(() => {}) }] });
    expect(asked).toMatchObject([{ on: "outside" }]);
  });

  it("is requested for any command without a sandbox", async () => {
    const { use, found } = await useScene({
      skills: { x: {} },
      config: '[sandbox]\nlevel = "none"\n',
      turns: [() => [{ tool: "bash", input: { command: "echo x > made.txt" } }], () => "done"],
    });
    const { asked, approve } = answering();
    await use({ skill: "x" }, { approve });
    expect(asked).toMatchObject([{ tool: "bash", on: "workspace" }]);
    expect(existsSync(join(found.workspace, "made.txt"))).toBe(false);
  });
});

describe("a turn of a conversation with a skill from an earlier message", () => {
  it("[T-11] has its tools after it is resumed, and counts as a use", async () => {
    const { found } = await useScene({
      skills: {
        payer: {
          more: 'toolsets: ["toolsets/index:Tools"]\ntriggers:\n  keywords: [payday]\n',
          files: {
            "toolsets/index.ts": toolsetOf({ pay: 'return "paid " + args.input' }).replace(
              "execute:",
              'effect: "outside", execute:',
            ),
          },
        },
      },
      turns: [
        () => "It is payday.",
        () => [{ tool: "payer__pay", input: { input: "Ada" } }],
        ({ results }) => (results.at(-1)?.content.includes("paid Ada") ? "Paid." : "not"),
      ],
    });
    const session = openSession(found.catalog, found);
    const conversation = createConversation(session, found);
    await conversation.send("payday");
    const waiting = await conversation.send("Pay Ada.");
    expect(waiting.stop).toBe("waiting");
    session.close();
    await found.runs.answer(waiting.run, { isApproved: true });
    expect(await resumeChat(found.catalog, found, waiting.run)).toMatchObject({ content: "Paid." });
    expect(await found.statistics.perSkill()).toMatchObject([{ skill: "payer", loads: 1 }]);
  });
});
