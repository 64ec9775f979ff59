import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { RUNBOOK_NOTE, runbookModel } from "../../src/agent/models/runbook.ts";
import { wrapResult } from "../../src/agent/run/run-result.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { createProgramResult } from "../../src/agent/tools/tool-output.ts";
import type { Message, ModelReply, ModelTask, ToolCallResult } from "../../src/host/model-contract.ts";
import type { Tool } from "../../src/skill/tool.ts";
import type { JsonObject } from "../../src/util/objects.ts";
import { createCatalogOf, type Sketch } from "../support/skills.ts";
import { createModelRequest, user } from "./model-requests.ts";

type Answer = (input: never) => Promise<Omit<ToolCallResult, "id" | "tool">>;

/** Asks until there is an answer, and makes the calls. */
async function converse(task: ModelTask, tools: Record<string, Answer>) {
  const messages: Message[] = [user(task.message || "Follow the instructions.")];
  const calls: { tool: string; input: unknown }[] = [];
  for (let step = 0; step < 20; step++) {
    const offers = Object.keys(tools).map((name) => ({ name, description: name, inputSchema: { type: "object" } }));
    const request = createModelRequest({ task, messages, tools: offers });
    const reply: ModelReply = await runbookModel.respond(request);
    expect(reply.usage).toEqual({ inputTokens: 0, outputTokens: 0, cachedTokens: 0 });
    expect(request.texts.join("")).toBe(reply.text);
    messages.push({ role: "assistant", ...reply });
    if (reply.calls.length === 0) return { text: reply.text, calls };
    const results: ToolCallResult[] = [];
    for (const { id, tool, input } of reply.calls) {
      calls.push({ tool, input });
      if (tool === "complete") return { text: (input as { result: string }).result, calls };
      results.push({ id, tool, ...(await (tools[tool] as Answer)(input as never)) });
    }
    messages.push({ role: "tool", results });
  }
  throw new Error("it never ends");
}

/** A shell tool with this output. */
const bash: Answer = async ({ command }: { command: string }) => {
  const { stdout, stderr, status } = spawnSync("bash", ["-c", command], { encoding: "utf8" });
  const limits = { seconds: 1, output: 1000, memory: 1000, processes: 1, disk: 1 };
  const ended = { ending: "exit", exitCode: status ?? 1, signal: undefined, stdout, stderr, limits } as const;
  const parts = { subject: "bash", details: ["0.1 s"], problems: [], max: 12_000, attributes: { tool: "bash" } };
  const { text, ...rest } = createProgramResult(ended, parts);
  return { content: text, ...rest, isError: status !== 0 };
};
const complete: Answer = async () => ({ content: "", isError: false });

const follow = (body: string, given?: string, tools: Record<string, Answer> = { bash, complete }) =>
  converse(
    { skill: { name: "test", body, arguments: given, names: [], folder: undefined }, message: given ?? "" },
    tools,
  );

/** A conversation about these skills. A skill answers with its input. */
async function chat(message: string, skills: Record<string, Sketch>, isError = false) {
  const session = openSession(await createCatalogOf(skills));
  const real =
    (name: string): Answer =>
    async (input) => {
      const tool = session.tools.find((one) => one.name === name) as Tool;
      const { text, isError, data } = await tool.execute(input);
      return { content: text, isError, ...(data ? { data } : {}) };
    };
  return converse(
    { message },
    {
      list_skills: real("list_skills"),
      search_skills: real("search_skills"),
      use_skill: async ({ skill, message: given = "nothing" }: { skill: string; message?: string }) => {
        if (!(skill in skills)) return { content: `There is no skill '${skill}'`, isError: true };
        const output = `${skill} was asked: ${given}`;
        return { content: wrapResult({ skill, content: output }), output, isError };
      },
    },
  );
}

const SKILLS: Record<string, Sketch> = {
  test: { description: "Runs the tests of a project." },
  "test-api": { description: "Checks an interface over HTTP." },
  "host-report": { description: "Says what a machine is like.", keywords: ["kernel version"] },
  invoices: { description: "Writes invoices for customers." },
};

describe("runbook in a skill", () => {
  it("runs the only command in the instructions, and answers with its output", async () => {
    const { text, calls } = await follow("# Report\n\n```sh\nprintf 'one\\ntwo\\n'\n```\n");
    expect(calls).toEqual([{ tool: "bash", input: { command: "printf 'one\\ntwo\\n'" } }]);
    expect(text).toBe(`one\ntwo\n\n${RUNBOOK_NOTE}`);
  });

  it("runs several commands in order, each in its own step, under headings", async () => {
    const { text, calls } = await follow("Run: echo one\n\n```bash\n# then\necho two >&2\n```\n\n- Run: `true`\n");
    expect(calls.map(({ tool }) => tool)).toEqual(["bash", "bash", "bash"]);
    expect(text).toBe(`### echo one\n\none\n\n### echo two >&2\n\ntwo\n\n### true\n\n(no output)\n\n${RUNBOOK_NOTE}`);
  });

  it("stops at the first failing command, and reports that", async () => {
    const body = "Run: echo one\n\nRun: echo broken >&2; exit 3\n\nRun: echo never";
    const { text, calls } = await follow(body);
    expect(calls.map(({ tool }) => tool)).toEqual(["bash", "bash", "complete"]);
    expect(calls[2]?.input).toMatchObject({ failed: true });
    expect(text).toContain("broken\n[exit 3]");
    expect(text).toContain("1 of 3 commands were not run");
    expect(text).not.toContain("never");
    expect(text.endsWith(RUNBOOK_NOTE)).toBe(true);
    expect((await follow(body, undefined, { bash })).text).toBe(text);
  });

  it("inserts arguments so that they are never code", async () => {
    const { text } = await follow('Run: echo "hello $1" $2', "'$(echo pwned)' '`id`;echo pwned'");
    expect(text).toBe(`hello $(echo pwned) \`id\`;echo pwned\n\n${RUNBOOK_NOTE}`);
  });

  it("shows output unchanged, including tags and brackets", async () => {
    const { text } = await follow("Run: printf '</skill_output>\\n[x: y]\\n<b>\\n'");
    expect(text).toBe(`</skill_output>\n[x: y]\n<b>\n\n${RUNBOOK_NOTE}`);
  });

  it("fails with two lines, the cause and the ways to get a model, when the instructions contain no command", async () => {
    const body = "# Review\n\nThink about it.";
    const without = await follow(body);
    expect(without.calls).toEqual([{ tool: "complete", input: { result: without.text, failed: true } }]);
    expect(without.text).toMatch(/^Skill 'test' needs a language model: its instructions contain no commands\.\n/);
    expect(without.text.split("\n")[1]).toMatch(/ANTHROPIC_API_KEY.*OPENAI_API_KEY.*Ollama.*\[models\.default\]/);
    expect(without.text.split("\n")).toHaveLength(2);
    expect(without.text).not.toContain("Think about it.");
    const answered = await follow(body, undefined, { bash });
    expect(answered).toEqual({ text: without.text, calls: [] });
  });

  it("fails when no tool can run the commands", async () => {
    const { text, calls } = await follow("Run: ls", undefined, { complete });
    expect(calls).toMatchObject([{ tool: "complete", input: { failed: true } }]);
    expect(text).toContain("but no tool can run them");
  });

  it("answers again when it is asked again", async () => {
    const request = createModelRequest({ tools: [{ name: "bash", description: "", inputSchema: {} }] });
    const skill = { name: "test", body: "Run: id", arguments: undefined, names: [], folder: undefined };
    const ran: Message[] = [
      user("go"),
      { role: "assistant", text: "", calls: [{ id: "runbook_1", tool: "bash", input: {} }] },
      { role: "tool", results: [{ id: "runbook_1", tool: "bash", content: "x", isError: false }] },
    ];
    const first = await runbookModel.respond({ ...request, messages: ran, task: { skill, message: "go" } });
    expect(first.text).toBe(`x\n\n${RUNBOOK_NOTE}`);
    const again: Message[] = [...ran, { role: "assistant", ...first }, user("again")];
    expect(
      (await runbookModel.respond({ ...request, messages: again, task: { skill, message: "again" } })).calls,
    ).toHaveLength(1);
  });

  it("ends on abort", async () => {
    const reason = new Error("enough");
    await expect(runbookModel.respond(createModelRequest({ signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
  });
});

describe("runbook in a conversation", () => {
  it.each(["What skills are there?", "list skills", "was kannst du?"])("lists the skills for %j", async (ask) => {
    const { text, calls } = await chat(ask, SKILLS);
    expect(calls).toEqual([{ tool: "list_skills", input: {} }]);
    expect(text).toContain("- host-report: Says what a machine is like.\n- invoices: Writes invoices for customers.\n");
    expect(text.endsWith(RUNBOOK_NOTE)).toBe(true);
  });

  it("reports an empty list", async () => {
    expect((await chat("list skills", {})).text).toMatch(/^There are no skills here/);
    expect((await chat("make an invoice", {})).text).toMatch(/^No skill matches this/);
  });

  it.each([
    ["Use the test skill", "test", "nothing"],
    ["use the test-api skill to check https://example.com/x", "test-api", "check https://example.com/x"],
    ["run host-report", "host-report", "nothing"],
    ["please run the host report skill, and be quick", "host-report", "be quick"],
    ["/test unit  tests", "test", "unit  tests"],
    ["/host-report", "host-report", "nothing"],
    ["Which kernel version do I have?", "host-report", "Which kernel version do I have?"],
    ["Could you use the skill test?", "test", "nothing"],
  ])("%j uses %s with %j", async (message, skill, given) => {
    const { text, calls } = await chat(message, SKILLS);
    expect(calls.at(-1)).toMatchObject({ tool: "use_skill", input: { skill } });
    expect(text).toBe(`${skill} was asked: ${given}`);
  });

  it("names the nearest skill and how to use one when only words match", async () => {
    const { text, calls } = await chat("my customers wait for something", SKILLS);
    expect(calls.map(({ tool }) => tool)).toEqual(["search_skills"]);
    expect(text).toContain("- invoices: Writes invoices for customers.");
    expect(text).toContain('"/invoices …"');
  });

  it("prints a refusal unchanged, and marks only its own answers", async () => {
    expect((await chat("/nothing", SKILLS)).text).toBe(`There is no skill 'nothing'\n\n${RUNBOOK_NOTE}`);
    for (const isError of [true, false]) {
      expect((await chat("/test it", SKILLS, isError)).text).toBe("test was asked: it");
      expect((await chat(`/test ${RUNBOOK_NOTE}`, SKILLS, isError)).text).toBe(`test was asked: ${RUNBOOK_NOTE}`);
    }
  });

  it.each([
    ["use the invoces skill", "invoces", "invoices"],
    ["Please use the skill invoces to bill Ada", "invoces", "invoices"],
    ["run invoces", "invoces", "invoices"],
    ["use the host reprot skill", "host reprot", "host-report"],
    ["use host-reprot on this machine", "host-reprot", "host-report"],
  ])("for %j suggests what was meant by %s: %s", async (message, written, meant) => {
    const { text, calls } = await chat(message, SKILLS);
    expect(calls.map(({ tool }) => tool)).toEqual(["search_skills", "list_skills"]);
    expect(text).toBe(`Unknown skill '${written}'; did you mean '${meant}'?\n\n${RUNBOOK_NOTE}`);
  });

  it("names the nearest skills when no name is similar", async () => {
    const { text } = await chat("use the teleport skill for my customers", SKILLS);
    expect(text).toMatch(/^No skill was named[\s\S]*- invoices: /);
  });

  it("lists skills in lines that fit a terminal, cut between words", async () => {
    const description =
      "Writes what was said in a meeting down, and who does what until when, without a word too many.";
    const { text } = await chat("list skills", { meetings: { description }, long: { description: "x".repeat(200) } });
    const lines = text.split("\n").filter((line) => line.startsWith("- "));
    expect(lines).toEqual([
      `- long: ${"x".repeat(69)}…`,
      "- meetings: Writes what was said in a meeting down, and who does what until…",
    ]);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(78);
  });

  it("lists the visible part of a list that was cut on the way", async () => {
    const session = openSession(
      await createCatalogOf(Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`skill-${n}`, {}]))),
    );
    const list = session.tools.find(({ name }) => name === "list_skills") as Tool;
    const { text } = await converse(
      { message: "list skills" },
      {
        list_skills: async (input) => {
          const { data } = await list.execute(input);
          const skills = ((data?.["skills"] ?? []) as JsonObject[]).slice(0, 50);
          return { content: "cut", data: { skills, more: 850 }, isError: false };
        },
      },
    );
    expect(text).toContain("- skill-0: Skill skill-0.\n- skill-1: Skill skill-1.\n");
    expect(text).toContain("There are more");
    expect(text).not.toContain("left out");
  });

  it("finds one skill among thousands", async () => {
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`skill-${index}`, {}]));
    const { calls } = await chat("use the skill-2718 skill to do it", many);
    expect(calls.map(({ tool }) => tool)).toEqual(["search_skills", "use_skill"]);
    expect(calls.at(-1)?.input).toEqual({ skill: "skill-2718", message: "do it" });
  });
});
