import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { SkillError } from "../../src/errors/problem.ts";
import type { ToolContext } from "../../src/skill/define-tool.ts";
import { Tool } from "../../src/skill/tool.ts";

const parameters = z.object({
  to: z.string().min(1),
  times: z.number().default(1),
  at: z.string().transform(Number).optional(),
});

describe("Tool.define", () => {
  it("[T-12] creates a tool from a zod schema, with typed arguments", async () => {
    const tool = Tool.define("greet", {
      description: "Greets",
      parameters,
      execute: async (args, ctx) => {
        expectTypeOf(args).toEqualTypeOf<{ to: string; times: number; at?: number | undefined }>();
        expectTypeOf(ctx).toEqualTypeOf<ToolContext>();
        // @ts-expect-error: unknown argument.
        void args.from;
        return { title: "Greeted", metadata: { times: args.times }, output: `Hello ${args.to}`.repeat(args.times) };
      },
    });
    expect(tool).toMatchObject({
      name: "greet",
      description: "Greets",
      inputSchema: { type: "object", required: ["to"], properties: { to: { type: "string", minLength: 1 } } },
    });
    expect(tool.effect).toBeUndefined();
    expect(await tool.execute({ to: "you" })).toEqual({
      text: "Hello you",
      isError: false,
      title: "Greeted",
      data: { times: 1 },
    });
  });

  it("[T-12] reports invalid input, and does not run", async () => {
    let runs = 0;
    const tool = Tool.define("greet", { description: "d", parameters, execute: () => `${++runs}` });
    expect(await tool.execute({ to: "" })).toMatchObject({
      isError: true,
      code: "input-invalid",
      text: expect.stringContaining('"to"'),
    });
    expect(await tool.execute(undefined)).toMatchObject({ isError: true, code: "input-invalid" });
    expect(runs).toBe(0);
  });

  it("[T-12] returns a result whatever happens", async () => {
    const throwing = z.object({
      a: z.unknown().refine(() => {
        throw new Error("in the schema");
      }),
    });
    const tools = {
      throws: Tool.define("t", {
        description: "d",
        parameters: z.object({}),
        execute: () => {
          throw new Error("boom");
        },
      }),
      refines: Tool.define("t", { description: "d", parameters: throwing, execute: () => "" }),
      nothing: Tool.define("t", { description: "d", parameters: z.object({}), execute: (() => undefined) as never }),
    };
    for (const tool of Object.values(tools)) {
      expect(await tool.execute({ a: 1 })).toMatchObject({ isError: true, code: "failed" });
    }
    const failing = Tool.define("t", {
      description: "d",
      parameters: z.object({}),
      execute: () => ({ output: "no", isError: true }),
    });
    expect(await failing.execute({})).toEqual({ text: "no", isError: true, code: "failed" });
  });

  describe("a tool with a message and a value", () => {
    const giving = (value: unknown, more: object = {}) =>
      Tool.define("t", {
        description: "d",
        parameters: z.object({}),
        execute: async () => ({ message: "Linted", value, ...more }),
      }).execute({});

    it("[N-27] lets a model read the rendered value, users the message, and programs the data", async () => {
      class Linted {
        issues = 5;
        render() {
          return `Found ${this.issues} issues`;
        }
      }
      expect(await giving(new Linted())).toEqual({
        text: "Found 5 issues",
        isError: false,
        title: "Linted",
        data: { issues: 5 },
      });
    });

    it.each<[string, unknown, string, object | undefined]>([
      ["no value", undefined, "Linted", undefined],
      ["null", null, "Linted", undefined],
      ["a text", "five issues", "five issues", undefined],
      ["a number", 5, "5", undefined],
      ["data", { issues: 5 }, '{"issues":5}', { issues: 5 }],
      ["a list", [1, 2], "[1,2]", undefined],
      ["a render that gives no text", { render: () => 5 }, "5", {}],
      ["a slow render", { render: async () => "5 issues" }, "5 issues", {}],
      ["a value that JSON lacks, which renders itself", { big: 5n, render: () => "5 issues" }, "5 issues", undefined],
    ])("[N-27] returns %s", async (_, value, content, metadata) => {
      expect(await giving(value)).toEqual({
        text: content,
        isError: false,
        title: "Linted",
        ...(metadata ? { data: metadata } : {}),
      });
    });

    it("[T-12, N-27] distinguishes output from errors, and an error from a missing result", async () => {
      const parts = { output: "Found 5", message: "Linted", metadata: { issues: 5 } };
      const plain = (given: unknown) =>
        Tool.define("t", { description: "d", parameters: z.object({}), execute: () => given as string }).execute({});
      expect(await plain(parts)).toEqual({ text: "Found 5", isError: false, data: { issues: 5 } });
      expect(await plain(new Error("no such file"))).toMatchObject({ isError: true, code: "failed" });
    });

    it("[N-27] is an error if the tool reports one, or if the value cannot be rendered", async () => {
      expect(await giving("no such file", { isError: true })).toMatchObject({ text: "no such file", isError: true });
      const failing = {
        render() {
          throw new Error("cannot");
        },
      };
      const circular: Record<string, unknown> = {};
      circular["self"] = circular;
      for (const value of [failing, circular, 5n, () => 5])
        expect(await giving(value)).toMatchObject({ isError: true, code: "failed" });
    });
  });

  it("accepts JSON Schema too, and a plain text as its result", async () => {
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const tool = Tool.define("t", { description: "d", parameters: schema, execute: ({ a }) => `${a}` });
    expect(tool.inputSchema).toEqual(schema);
    expect(await tool.execute({ a: 1 })).toEqual({ text: "1", isError: false });
  });

  it("reports the effect of a call, and needs approval if it cannot", async () => {
    const about = { description: "d", parameters, execute: () => "" };
    expect(await Tool.define("t", { ...about, effect: "workspace" }).effect?.({})).toEqual({ on: "workspace" });
    const byInput = Tool.define("t", {
      ...about,
      effect: ({ to, times }) => (to === "me" ? undefined : { on: "outside", what: `to ${to}`, amount: `${times}` }),
    });
    expect(await byInput.effect?.({ to: "me" })).toBeUndefined();
    expect(await byInput.effect?.({ to: "you" })).toEqual({ on: "outside", what: "to you", amount: "1" });
    expect(await byInput.effect?.({}), "it will not run").toBeUndefined();
    const broken = Tool.define("t", {
      ...about,
      effect: () => {
        throw new Error("?");
      },
    });
    expect(await broken.effect?.({ to: "you" })).toEqual({ on: "outside" });
  });

  it("gets a context, even if none was given", async () => {
    const seen: ToolContext[] = [];
    const tool = Tool.define("t", {
      description: "d",
      parameters: z.object({}),
      execute: (_, ctx) => {
        seen.push(ctx);
        ctx.progress("x");
        return "";
      },
    });
    await tool.execute({});
    const said: string[] = [];
    await tool.execute({}, { run: "r", key: "k", env: { A: "1" }, onProgress: (text) => said.push(text) });
    expect(seen).toMatchObject([{ env: {} }, { run: "r", key: "k", env: { A: "1" } }]);
    expect(said).toEqual(["x"]);
    await expect(seen[0]?.sandbox.run(["ls"])).rejects.toMatchObject({ code: "sandbox-missing" });
  });

  const good = { description: "d", parameters: z.object({}), execute: () => "" };
  const BAD: Record<string, [id: unknown, definition: unknown]> = {
    "no name": ["", good],
    "a name with blanks": ["a b", good],
    "a name that is too long": ["a".repeat(65), good],
    "a name that is not text": [Symbol("a"), good],
    "nothing else": ["a", undefined],
    "no description": ["a", { ...good, description: " " }],
    "no parameters": ["a", { ...good, parameters: undefined }],
    "parameters that are a text": ["a", { ...good, parameters: z.string() }],
    "parameters that JSON has not": ["a", { ...good, parameters: z.object({ at: z.date() }) }],
    "no function": ["a", { ...good, execute: "x" }],
    "an effect on nothing": ["a", { ...good, effect: "everything" }],
    "an effect that says nothing": ["a", { ...good, effect: { what: "x" } }],
  };
  for (const [what, [id, definition]] of Object.entries(BAD)) {
    it(`[T-12] throws at once for ${what}`, () => {
      expect(() => Tool.define(id as string, definition as never)).toThrow(SkillError);
    });
  }
});
