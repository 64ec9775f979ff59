import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { type EvaluatePromptOptions, evaluatePrompt } from "../../src/agent/prompts/prompt-session.ts";
import { type Prompt, promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skill, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { Tool } from "../../src/skill/tool.ts";
import type { Turn } from "../support/model-server.ts";
import { type ProtocolName, useScene } from "../support/use.ts";

class LintResult {
  readonly issues: number;
  readonly fixed: number;
  constructor(issues: number, fixed: number) {
    this.issues = issues;
    this.fixed = fixed;
  }
  render(): string {
    return `Found ${this.issues} issues, fixed ${this.fixed}`;
  }
}

const lint = Tool.define("lint_code", {
  description: "Runs the linter on these paths.",
  parameters: z.object({ paths: z.array(z.string()) }),
  execute: ({ paths }, context) => {
    expectTypeOf(paths).toEqualTypeOf<string[]>();
    expect(context.signal).toBeInstanceOf(AbortSignal);
    return { message: "Linting complete", value: new LintResult(paths.length, 1) };
  },
});

const promptWith = (...parts: Parameters<typeof skill>[0][]) =>
  promptTemplate({
    ns: "review",
    key: "python",
    sections: [
      markdown({ title: "Task", key: "task", template: "Review the code." }),
      skillsSection({ skills: parts.map((part) => skill(part)) }),
    ],
  }).bind();

const linting = {
  name: "linting",
  description: "Linting workflows.",
  title: "Linting",
  template: "Use `lint_code` on changed files first.",
  tools: [lint],
};

async function evaluate(
  prompt: Prompt,
  turns: readonly Turn[],
  options: EvaluatePromptOptions & {
    protocol?: ProtocolName;
    onEvent?: (event: SkillEvent) => unknown;
    config?: string;
  } = {},
) {
  const { protocol = "openai", onEvent, config = "", ...rest } = options;
  const { found, server } = await useScene({ skills: {}, turns, protocol, config });
  const heard: SkillEvent[] = [];
  const listen = (event: SkillEvent) => {
    heard.push(event);
    return onEvent?.(event) as never;
  };
  const run = evaluatePrompt(prompt, { settings: found.settings, onEvent: listen }, rest);
  const events: SkillEvent[] = [];
  for await (const event of run) events.push(event);
  return { result: await run, events, heard, requests: server.requests };
}

const OPENING: readonly Turn[] = [
  () => [{ tool: "open_sections", input: { keys: ["skills.linting"], reason: "to lint" } }],
  () => [{ tool: "lint_code", input: { paths: ["a.py", "b.py"] } }],
  ({ results }) => `Done: ${/Found .*/.exec(results.at(-1)?.content ?? "")?.[0]}`,
];

describe("evaluating a prompt", () => {
  it.each(["openai", "anthropic"] as const)(
    "[N-14, N-15, N-27] opens a skill, calls its tool and answers over the protocol of %s",
    async (protocol) => {
      const { result, requests } = await evaluate(promptWith(linting), OPENING, { protocol, sessionId: "s1" });
      expect(result).toMatchObject({
        content: "Done: Found 2 issues, fixed 1",
        stop: "answer",
        isError: false,
        iterations: 3,
        sessionId: "s1",
        expanded: ["skills.linting"],
        skill: "",
      });
      expect(requests[0]?.prompt).toBe(`## Task

Review the code.

## Skills

### Linting

[Skill: linting] Linting workflows.

---
[This skill is summarized. Call \`open_sections\` with key "skills.linting"
to view full workflow and access tools: lint_code.]`);
      expect(requests.map(({ tools }) => Object.keys(tools))).toEqual([
        ["open_sections"],
        ["lint_code"],
        ["lint_code"],
      ]);
      expect(requests[1]?.results[0]?.content).toBe(
        "### Linting\n\nUse `lint_code` on changed files first.\n\n[Tools now available: lint_code]",
      );
      expect(requests[2]?.results[1]?.content).toBe(
        '<skill_output tool="lint_code">\nFound 2 issues, fixed 1\n</skill_output>',
      );
    },
  );

  it("[N-18] reports events in order, to the iterator and to listeners", async () => {
    const { events, heard } = await evaluate(promptWith(linting), OPENING, { sessionId: "s1" });
    const said = events.map((event) => ("tool" in event ? `${event.type} ${event.tool}` : event.type));
    expect(said.filter((one) => !/^(?:text-generated|step-ended)/.test(one))).toEqual([
      "run-started",
      "tool-called open_sections",
      "skill-expanded",
      "tool-ended open_sections",
      "tool-called lint_code",
      "tool-ended lint_code",
      "run-ended",
    ]);
    expect(heard).toEqual(events);
    expect(events.find(({ type }) => type === "skill-expanded")).toMatchObject({
      skillName: "linting",
      skillKey: "skills.linting",
      promptNs: "review",
      promptKey: "python",
      sessionId: "s1",
    });
    expect(events.find((event) => event.type === "tool-ended" && event.tool === "lint_code")).toMatchObject({
      title: "Linting complete",
    });
  });

  it("[N-18] survives a listener that throws", async () => {
    const { result } = await evaluate(promptWith(linting), OPENING, {
      onEvent: () => {
        throw new Error("listener");
      },
    });
    expect(result).toMatchObject({ stop: "answer", isError: false });
  });

  it("[N-14] shows a skill of 30,000 characters whole, although tool output has a smaller limit", async () => {
    const template = Array.from({ length: 3000 }, (_, index) => `Line ${String(index).padStart(4, "0")}`).join("\n");
    expect(template.length).toBeGreaterThan(29_000);
    const long = Tool.define("long", { description: "d", parameters: z.object({}), execute: () => "x".repeat(30_000) });
    const { requests } = await evaluate(
      promptWith({ ...linting, template, tools: [long] }),
      [
        () => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }],
        () => [{ tool: "long", input: {} }],
        () => "Done.",
      ],
      { config: "[limits]\ntool_output = 1000\n" },
    );
    expect(requests[1]?.results[0]?.content).toContain(template);
    expect(requests[2]?.results[1]?.content.length).toBeLessThan(1500);
  });

  it("[N-27] validates a model's input against the schema, including JSON Schema", async () => {
    const calls: unknown[] = [];
    const plain = Tool.define("plain", {
      description: "d",
      parameters: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
      execute: (args) => {
        calls.push(args);
        return "ran";
      },
    });
    const prompt = promptTemplate({
      ns: "n",
      key: "k",
      sections: [markdown({ title: "A", key: "a", template: "x", tools: [plain] })],
    }).bind();
    const { requests } = await evaluate(prompt, [
      () => [{ tool: "plain", input: { n: "two" } }],
      () => [{ tool: "plain", input: { n: 2 } }],
      () => "Done.",
    ]);
    expect(calls).toEqual([{ n: 2 }]);
    expect(requests[1]?.results[0]?.content).toContain("n");
    expect(requests[2]?.results[1]?.content).toContain("ran");
  });

  it("[N-14, Q-07] opens a section without approval, and requests approval for what a tool returned", async () => {
    const paths: string[][] = [];
    const check = Tool.define("check", {
      description: "d",
      parameters: z.object({ paths: z.array(z.string()) }),
      execute: (args) => {
        paths.push(args.paths);
        return "see /etc/other.conf";
      },
    });
    const template = "Call `check` on /srv/app/main.py.";
    const { result } = await evaluate(promptWith({ ...linting, template, tools: [check] }), [
      () => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }],
      () => [{ tool: "check", input: { paths: ["/srv/app/main.py"] } }],
      () => [{ tool: "check", input: { paths: ["/etc/other.conf"] } }],
      ({ results }) => String(results.at(-1)?.content),
    ]);
    expect(paths).toEqual([["/srv/app/main.py"]]);
    expect(result.content).toContain("its input comes from: tool check");
  });

  it("continues after a section that cannot be opened, and after a tool that is not available yet", async () => {
    const { result, requests } = await evaluate(promptWith(linting), [
      () => [{ tool: "lint_code", input: { paths: [] } }],
      () => [{ tool: "open_sections", input: { keys: ["linting"] } }],
      () => "I give up.",
    ]);
    expect(result).toMatchObject({ stop: "answer", expanded: [] });
    expect(requests[1]?.results[0]?.content).toContain('Unknown tool "lint_code"');
    expect(requests[2]?.results[1]?.content).toContain('Did you mean "skills.linting"?');
  });

  it("[N-14, N-15] tells a model that opens a section twice, in one answer or later, that it is open", async () => {
    const open = { tool: "open_sections", input: { keys: ["skills.linting"] } };
    const { requests, events } = await evaluate(promptWith(linting), [() => [open, open], () => [open], () => "Done."]);
    expect(requests[1]?.results[0]?.content).toContain("Use `lint_code`");
    for (const results of [requests[1]?.results, requests[2]?.results])
      expect(results?.at(-1)?.content).toBe("Already shown in full: skills.linting.");
    expect(Object.keys(requests[1]?.tools ?? {})).toEqual(["lint_code"]);
    expect(events.filter(({ type }) => type === "skill-expanded")).toHaveLength(1);
  });

  it("resumes with opened sections, and accepts tools in addition to those of the prompt", async () => {
    const beside = (name: string) =>
      Tool.define(name, { description: `Beside: ${name}.`, parameters: z.object({}), execute: () => "beside" });
    const { requests, result } = await evaluate(promptWith(linting), [() => "Done."], {
      expanded: ["skills.linting"],
      tools: [beside("extra"), beside("lint_code"), beside("open_sections")],
    });
    expect(requests[0]?.prompt).toContain("Use `lint_code` on changed files first.");
    expect(Object.keys(requests[0]?.tools ?? {})).toEqual(["lint_code", "extra"]);
    expect(requests[0]?.tools["lint_code"]?.description).toBe("Runs the linter on these paths.");
    expect(result.expanded).toEqual(["skills.linting"]);
  });

  it("[N-26] refuses a prompt with unbound parameters, and names the section", async () => {
    const unbound = skill<unknown>({ ...linting, template: "Lint $language." });
    const prompt = promptTemplate({ ns: "n", key: "k", sections: [skillsSection({ skills: [unbound] })] }).bind();
    const { result, events } = await evaluate(prompt, []);
    expect(result).toMatchObject({ stop: "refused", isError: true, iterations: 0, expanded: [] });
    expect(result.refusals).toEqual([
      {
        code: "section-unbound",
        message: 'Section "skills.linting" is not bound: it uses language',
        fix: "pass values: bind({ language: … })",
      },
    ]);
    expect(events.map(({ type }) => type)).toEqual(["run-refused"]);
    const template = promptTemplate({ ns: "n", key: "k", sections: [] });
    expect((await evaluatePrompt(template as never)).content).toContain("bind it first");
  });

  it("refuses a prompt that shows nothing", async () => {
    const prompt = promptTemplate({ ns: "n", key: "k", sections: [skillsSection()] }).bind();
    const { result } = await evaluate(prompt, []);
    expect(result).toMatchObject({ stop: "refused", refusals: [{ message: 'Prompt "k": it shows nothing' }] });
  });

  it("has no tool that the configuration disables", async () => {
    const { requests } = await evaluate(promptWith(linting), [() => "Done."], {
      expanded: ["skills.linting"],
      config: '[tools]\ndisabled = ["lint_code"]\n',
    });
    expect(requests[0]?.tools).toEqual({});
    const closed = await evaluate(
      promptWith(linting),
      [() => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }], () => "Done."],
      { config: '[tools]\ndisabled = ["open_sections"]\n' },
    );
    expect(closed.requests[1]?.results[0]?.content).toContain('Unknown tool "open_sections"');
  });

  it("shows no configured secret in the prompt, an opened section or a refusal", async () => {
    const config = '[skills.x]\nTOKEN = "a-very-secret-value"\n';
    const telling = { ...linting, description: "With a-very-secret-value.", template: "Use a-very-secret-value." };
    const { requests, result, events } = await evaluate(
      promptWith(telling),
      [() => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }], () => "It is a-very-secret-value."],
      { config },
    );
    expect(requests).toHaveLength(2);
    const failing = promptWith({
      ...linting,
      enabled: () => {
        throw new Error("a-very-secret-value");
      },
    });
    const refused = await evaluate(failing, [], { config });
    expect(refused.result).toMatchObject({ stop: "refused", refusals: [{ code: "definition-invalid" }] });
    const told = requests.map(({ prompt, results }) => ({ prompt, results }));
    expect(JSON.stringify([told, result, events, refused.result])).not.toContain("a-very-secret-value");
  });

  it("refuses an unknown model", async () => {
    const { result } = await evaluate(promptWith(linting), [], { model: "nobody" });
    expect(result).toMatchObject({ stop: "refused", refusals: [{ code: "model-unknown" }] });
  });

  it.each(["before it begins", "while it waits"])("ends when it is aborted, %s", async (when) => {
    const { found } = await useScene({ skills: {}, turns: () => ({ hangs: true }) });
    const controller = new AbortController();
    if (when === "before it begins") controller.abort();
    const run = evaluatePrompt(promptWith(linting), { settings: found.settings }, { signal: controller.signal });
    if (when === "while it waits") {
      for await (const event of run) {
        if (event.type === "run-started") break;
      }
      run.abort();
    }
    expect(await run).toMatchObject({ stop: "aborted", isError: true, expanded: [] });
  });

  it("stops at its limits with the partial result", async () => {
    const again: Turn = () => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }];
    const { result } = await evaluate(promptWith(linting, { ...linting, name: "other", tools: [] }), [again, again], {
      maxIterations: 2,
    });
    expect(result).toMatchObject({
      stop: "max-iterations",
      isError: true,
      iterations: 2,
      expanded: ["skills.linting"],
    });
    const poor = await evaluate(promptWith(linting), [again], { tokens: 1 });
    expect(poor.result).toMatchObject({ stop: "budget", isError: true, iterations: 1 });
  });

  it("calls an AI SDK model that the host provides", async () => {
    const opening = {
      type: "tool-call",
      toolCallId: "1",
      toolName: "open_sections",
      input: '{"keys":["skills.linting"]}',
    };
    const text = ["text-start", "text-delta", "text-end"].map((type) => ({ type, id: "t", delta: "Done." }));
    const replies = [
      [opening, finish("tool-calls")],
      [...text, finish("stop")],
    ];
    const model = new MockLanguageModelV4({
      doStream: replies.map((chunks) => ({ stream: simulateReadableStream({ chunks: chunks as never[] }) })),
    });
    const result = await evaluatePrompt(promptWith(linting), { models: { default: model } });
    expect(result).toMatchObject({ content: "Done.", stop: "answer", iterations: 2, expanded: ["skills.linting"] });
    const [first, second] = model.doStreamCalls;
    expect(JSON.stringify(first?.prompt)).toContain("[This skill is summarized.");
    expect(first?.tools?.map(({ name }) => name)).toEqual(["open_sections"]);
    expect(JSON.stringify(second?.prompt)).toContain("on changed files first");
    expect(second?.tools?.map(({ name }) => name)).toEqual(["lint_code"]);
  });
});

function finish(unified: string): object {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  return { type: "finish", usage, finishReason: { unified, raw: undefined } };
}
