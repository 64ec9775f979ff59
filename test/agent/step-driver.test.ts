import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/agent/run/run-result.ts";
import type { StepRunner } from "../../src/agent/run/step-runner.ts";
import { ROOT_CONTEXT, runUse } from "../../src/agent/run/use-skill.ts";
import type { Host } from "../../src/config/host.ts";
import type { RunEvent } from "../../src/host/events.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { createWaitTracker } from "../../src/util/async.ts";
import { useScene } from "../support/use.ts";

/** State that survives a program: steps by name, and emitted events. */
interface Record {
  steps: Map<string, string>;
  events: RunEvent[];
}

/** A program that dies after so many new steps. */
interface Life {
  left: number;
  onDeath(): void;
}

/** A driver of steps with a memory, in a program that dies. */
function rememberingPort({ steps, events }: Record, life: Life, prefix = ""): StepRunner {
  return {
    async step<T>(name: string, work: () => Promise<T>): Promise<T> {
      const key = prefix + name;
      const known = steps.get(key);
      if (known !== undefined) return JSON.parse(known);
      if (life.left-- <= 0) {
        life.onDeath();
        return new Promise<T>(() => {});
      }
      const value = await work();
      steps.set(key, JSON.stringify(value));
      return JSON.parse(JSON.stringify(value));
    },
    findStep: <T>(name: string) => {
      const known = steps.get(prefix + name);
      return known === undefined ? undefined : { value: JSON.parse(known) as T };
    },
    requestApproval: async (_, { request: effect }) => ({ approval: { isApproved: false }, request: effect }),
    ask: async () => undefined,
    waited: () => 0,
    underLease: (work) => work(),
    emit: (event) => void events.push(event),
    createChild: (name) => rememberingPort({ steps, events }, life, `${prefix}${name}/`),
  };
}

describe("a run over a memoizing step driver", () => {
  it("resumes after the program was killed at any step, and repeats no finished step", async () => {
    const { found } = await useScene({
      skills: { outer: {}, inner: {} },
      turns: [
        () => [
          { tool: "pay", input: { to: "Ada" } },
          { tool: "use_skill", input: { skill: "inner", message: "Count." } },
          { tool: "nothing", input: {} },
        ],
        () => [{ tool: "pay", input: { to: "Bob" } }],
        () => "Counted.",
        () => "Done.",
      ],
    });
    const paid: string[] = [];
    const pay: Tool = {
      name: "pay",
      description: "Pays somebody.",
      category: "mine",
      inputSchema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
      async execute(input, options) {
        paid.push(`${(input as { to: string }).to} ${options?.key}`);
        return { text: "paid", isError: false };
      },
    };
    const host: Host = { ...found, tools: [pay], hasBuiltInTools: false };
    const record: Record = { steps: new Map(), events: [] };
    let result: RunResult | undefined;
    let lives = 0;
    while (!result && lives < 50) {
      lives++;
      const { signal } = new AbortController();
      const use = {
        catalog: found.catalog,
        host,
        request: { skill: "outer" },
        chain: ROOT_CONTEXT,
        signal,
        id: "run-1",
      };
      const { promise: dead, resolve } = Promise.withResolvers<undefined>();
      const life = { left: 1, onDeath: () => resolve(undefined) };
      result = await Promise.race([runUse({ ...use, steps: rememberingPort(record, life) }), dead]);
    }
    expect(result).toMatchObject({ run: "run-1", content: "Done.", stop: "answer", usage: { inputTokens: 40 } });
    expect(lives).toBeGreaterThan(8);
    expect(paid).toEqual(["Ada run-1:1.1", expect.stringMatching(/^Bob .*:1\.1$/)]);
    expect(
      record.events.map(({ skill, type }) => `${skill} ${type}`).filter((line) => !line.endsWith("text-generated")),
    ).toEqual([
      "outer run-started",
      "outer step-ended",
      "outer tool-called",
      "outer tool-ended",
      "outer tool-called",
      "inner run-started",
      "inner step-ended",
      "inner tool-called",
      "inner tool-ended",
      "inner step-ended",
      "inner run-ended",
      "outer tool-ended",
      "outer tool-blocked",
      "outer step-ended",
      "outer run-ended",
    ]);
  });
});

describe("the time that users take to answer", () => {
  it("[Q-24] counts once, however many questions are open, until the last one is answered", async () => {
    let time = 1000;
    const { during, waited } = createWaitTracker(() => time);
    const [word, others] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const last = during(() => word.promise);
    const ten = Array.from({ length: 10 }, () => during(() => others.promise));
    time += 100;
    others.resolve();
    await Promise.all(ten);
    expect(waited()).toBe(100);
    time += 50;
    expect(waited(), "a question is still open").toBe(150);
    word.resolve();
    await last;
    time += 10;
    expect(waited(), "no question is open").toBe(150);
  });
});
