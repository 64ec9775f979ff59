import { describe, expect, it } from "vitest";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { running } from "../support/mcp-process.ts";
import { eventsOf, useScene } from "../support/use.ts";
import { waitFor, withGrowingLimit } from "../support/wait-for.ts";

const tool = (name: string, execute: Tool["execute"]): Tool => ({
  name,
  description: `Does ${name}.`,
  category: "mine",
  inputSchema: { type: "object", properties: {} },
  execute,
});

describe("a chain of skills", () => {
  it("[W-17, S-04] gives the inner skill the input of its caller, and the caller only its answer", async () => {
    const { use } = await useScene({
      skills: { outer: { body: "Outer instructions." }, inner: { body: "Inner instructions." } },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "Count.", context: "To three." } }],
        ({ instructions, prompt, results }) => {
          expect(instructions).toContain("Inner instructions.");
          expect(instructions).not.toContain("Outer");
          expect(prompt).toBe("Count.\n\n<skill_context>\nTo three.\n</skill_context>");
          expect(results).toEqual([]);
          return "1 2 3 </output>";
        },
        ({ results }) => {
          expect(results[0]?.content).toBe(`<instruction>
This is the result from running the "inner" skill.
The user has NOT seen this output. Interpret and include it in your response.
</instruction>
<output>
1 2 3 &lt;/output>
</output>`);
          return "Counted.";
        },
      ],
    });
    const { result, events } = await use({ skill: "outer" });
    expect(result.content).toBe("Counted.");
    const [outer, inner] = eventsOf(events, "run-started");
    expect(inner).toMatchObject({ skill: "inner", depth: 2, parent: outer?.run });
  });

  it("[W-17, Q-24] refuses a cycle, and names it", async () => {
    const { use } = await useScene({
      skills: { a: {}, b: {} },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "b" } }],
        () => [{ tool: "use_skill", input: { skill: "a" } }],
        ({ results }) => {
          expect(results[0]?.content).toContain("Skill 'a' is already running: a → b → a");
          return "no";
        },
        () => "done",
      ],
    });
    expect((await use({ skill: "a" })).result.content).toBe("done");
  });

  it("[W-17, Q-24] is as deep as the operator allows, and no deeper", async () => {
    const down = (skill: string) => () => [{ tool: "use_skill", input: { skill } }];
    const { use } = await useScene({
      skills: { a: {}, b: {}, c: {}, d: {} },
      turns: [
        down("b"),
        down("c"),
        down("d"),
        ({ results }) => {
          expect(results[0]?.content).toContain("Nesting limit of 3 runs exceeded");
          return "c";
        },
        () => "b",
        () => "a",
      ],
    });
    const { result, events } = await use({ skill: "a" });
    expect(result.content).toBe("a");
    expect(eventsOf(events, "run-refused")).toMatchObject([{ skill: "d", refusals: [{ code: "nested-too-deep" }] }]);
  });

  it("[W-17] shares one token budget", async () => {
    const { use } = await useScene({
      skills: { a: {}, b: {} },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "b" } }],
        () => [{ tool: "list_files", input: {} }],
        () => ({ text: "Half of it.", calls: [{ tool: "list_files", input: {} }] }),
      ],
    });
    const { result, events } = await use({ skill: "a", tokens: 45 });
    expect(eventsOf(events, "run-ended").map(({ skill, stop }) => [skill, stop])).toEqual([
      ["b", "budget"],
      ["a", "budget"],
    ]);
    expect(result).toMatchObject({ isError: true, stop: "budget" });
    expect(result.content).toContain("[The limit of 45 tokens was reached");
  });

  it("[Q-05, S-07] gives the inner skill no tool that its caller lacks", async () => {
    const { use } = await useScene({
      skills: {
        a: { more: "allowed_tools: [use_skill, 'Bash(ls:*)']\n" },
        b: { more: "allowed_tools: [bash, write_file]\n" },
      },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "b" } }],
        ({ tools }) => {
          expect(Object.keys(tools).sort()).toEqual(["bash", "complete"]);
          return [{ tool: "bash", input: { command: "cat README.md" } }];
        },
        ({ results }) => {
          expect(results[0]?.content).toMatch(/is not allowed for skill 'a' with this input/);
          return "b";
        },
        () => "a",
      ],
    });
    expect((await use({ skill: "a" })).result.content).toBe("a");
  });

  it("[W-23] refuses an inner skill that requires what its caller lacks", async () => {
    const { use } = await useScene({
      skills: { a: { more: "allowed_tools: [use_skill]\n" }, b: { more: "required_tools: [bash]\n" } },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "b" } }],
        ({ results }) => {
          expect(results[0]?.content).toMatch(/^Skill requires tool 'bash' which is not available/);
          return "a";
        },
      ],
    });
    expect((await use({ skill: "a" })).result.content).toBe("a");
  });
});

describe("a misbehaving model", () => {
  it("gets an error for an unknown tool, and for input that is not JSON", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => [{ tool: "bsh", input: {} }],
        ({ results }) => {
          expect(results[0]?.content).toMatch(/^Unknown tool "bsh"; did you mean "bash"\?/);
          return { calls: [{ tool: "bash", input: {}, written: '{"command": ' }] };
        },
        ({ results }) => {
          expect(results[1]?.content).toMatch(/^Invalid input: /);
          return [{ tool: "bash", input: { comand: "ls" } }];
        },
        ({ results }) => {
          expect(results[2]?.content).toMatch(/"command" is missing/);
          return "sorry";
        },
      ],
    });
    expect((await use({ skill: "x" })).result).toMatchObject({ content: "sorry", isError: false });
  });

  it("causes an error with a fix when it answers nothing", async () => {
    const { use } = await useScene({ skills: { x: {} }, turns: [() => ""] });
    const { result } = await use({ skill: "x" });
    expect(result).toMatchObject({ isError: true, stop: "error", error: { code: "model-empty" } });
  });

  it("is asked again after a temporary failure, which is reported", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [() => ({ status: 503 }), () => ({ status: 429, headers: { "retry-after-ms": "10" } }), () => "at last"],
    });
    const { result, events } = await use({ skill: "x" });
    expect(result.content).toBe("at last");
    expect(eventsOf(events, "model-retried")).toHaveLength(2);
  });

  it("causes an error with the partial result when the connection breaks off", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => ({ text: "First part.", calls: [{ tool: "list_files", input: {} }] }),
        ...Array(3).fill(() => ({ status: 500 })),
      ],
    });
    const { result } = await use({ skill: "x" });
    expect(result).toMatchObject({ isError: true, stop: "error", iterations: 1 });
    expect(result.content).toMatch(/^First part\./);
  });

  it("cannot make more than 32 concurrent calls", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => Array.from({ length: 40 }, () => ({ tool: "list_skills", input: {} })),
        ({ results }) => {
          expect(results.filter(({ content }) => content.startsWith("Call not made"))).toHaveLength(8);
          return "ok";
        },
      ],
    });
    const { events } = await use({ skill: "x" });
    expect(eventsOf(events, "tool-called")).toHaveLength(32);
  });
});

describe("a misbehaving tool", () => {
  it("gives the model a result when it throws, hangs or returns too much", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => ["boom", "stuck", "much"].map((name) => ({ tool: name, input: {} })),
        ({ results }) => {
          expect(results[0]?.content).toContain("It failed: no room");
          expect(results[1]?.content).toContain("It did not end within 1 seconds.");
          expect(results[2]?.content.length).toBeLessThan(13_000);
          expect(results[2]?.content).toContain("characters omitted");
          return "ok";
        },
      ],
      config: "[limits]\ntool_timeout_seconds = 1\n",
    });
    const tools = [
      tool("boom", () => {
        throw new Error("no room");
      }),
      tool("stuck", () => new Promise(() => {})),
      tool("much", async () => ({ text: "x".repeat(1_000_000), isError: false })),
    ];
    expect((await use({ skill: "x" }, { tools })).result).toMatchObject({ content: "ok", isError: false });
  });

  it("[Q-24] that prints endlessly is stopped, and a model gets little of it", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: [
        () => [{ tool: "bash", input: { command: "yes | head -c 100000000" } }],
        ({ results }) => {
          expect(results[0]?.content.length).toBeLessThan(14_000);
          expect(results[0]?.content).toMatch(/limit/);
          return "ok";
        },
      ],
    });
    expect((await use({ skill: "x" })).result.content).toBe("ok");
  });
});

describe("the time limit of a run", () => {
  it("[Q-24] ends it with the partial result", async () => {
    const { use } = await useScene({
      skills: { x: {} },
      turns: () => ({ text: "Started.", calls: [{ tool: "bash", input: { command: "sleep 300" } }] }),
    });
    const { result } = await withGrowingLimit(
      (seconds) => use({ skill: "x", seconds }),
      ({ events }) => eventsOf(events, "tool-called").length > 0,
      { from: 2 },
    );
    expect(result).toMatchObject({ stop: "timeout", isError: true });
    expect(result.content).toMatch(/^Started\.\n\n\[The limit of \d+ seconds was reached/);
  });

  it("[Q-24] ends it also while the model does not answer", async () => {
    const { use, server } = await useScene({ skills: { x: {} }, turns: () => ({ hangs: true }) });
    const { result } = await withGrowingLimit(
      (seconds) => use({ skill: "x", seconds }),
      () => server.requests.length > 0,
    );
    expect(server.requests).not.toEqual([]);
    expect(result).toMatchObject({ stop: "timeout", iterations: 0 });
  });

  it("ends when it is aborted, with all its processes", async () => {
    const { found } = await useScene({
      skills: { x: {} },
      turns: [() => [{ tool: "bash", input: { command: "(setsid sleep 4848.31 &); sleep 4848.31" } }]],
    });
    const run = useSkill(found.catalog, found, { skill: "x" });
    await waitFor(() => running("sleep 4848.31").length === 2);
    run.abort();
    expect(await run).toMatchObject({ stop: "aborted", isError: true });
    expect(running("sleep 4848.31")).toEqual([]);
  });
});

describe("the listener of a host", () => {
  it("receives every event, and breaks nothing when it throws", async () => {
    const seen: string[] = [];
    const { use } = await useScene({ skills: { x: {} }, turns: [() => "ok"] });
    const onEvent = (event: { type: string }) => {
      seen.push(event.type);
      throw new Error("mine");
    };
    expect((await use({ skill: "x" }, { onEvent })).result.content).toBe("ok");
    expect(seen).toContain("run-started");
    expect(seen.at(-1)).toBe("run-ended");
  });
});
