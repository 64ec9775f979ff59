import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  defineProvider,
  type OperationDefinition,
  type ProviderDefinition,
  serveProvider,
} from "../../src/capabilities/define-provider.ts";
import { SkillError } from "../../src/errors/problem.ts";
import type { CapabilityProvider } from "../../src/host/capability-contract.ts";
import type { JsonObject } from "../../src/util/objects.ts";
import { callOf, catchProviderError, createCallContext } from "../support/provider.ts";
import { waitFor } from "../support/wait-for.ts";

type Rest = Partial<OperationDefinition<JsonObject>> & Record<string, unknown>;

/** A provider with the single operation `list`. */
function providerWith(rest: Rest, more: Partial<ProviderDefinition> = {}): CapabilityProvider {
  const list = { description: "Lists.", input: { type: "object" }, execute: () => null, ...rest } as never;
  const capabilities = { notes: { description: "Notes.", operations: { list } } };
  return defineProvider({ namespace: "notes", capabilities, ...more });
}

const invoke = (execute: Rest["execute"], call = callOf("list"), more = {}) =>
  providerWith({ execute, ...more } as Rest).invoke(call, createCallContext());

describe("a provider in this program", () => {
  const typed = defineProvider({
    namespace: "notes",
    capabilities: {
      notes: {
        description: "Notes\nof the user.",
        operations: {
          count: {
            description: "Counts letters.",
            input: z.object({ text: z.string(), times: z.number().default(2) }),
            output: z.object({ count: z.number() }),
            scopes: ["read"],
            execute: ({ text, times }) => ({ count: text.length * times }),
          },
          keep: {
            description: "Keeps.",
            input: { type: "object", properties: { n: { type: "integer", default: 7 } }, additionalProperties: false },
            mutating: true,
            isReversible: false,
            execute: ({ n }, { key }) => ({ n, key }),
          },
        },
      },
    },
  });

  it("describes its definition in JSON Schema", async () => {
    expect(await typed.describe(createCallContext())).toEqual({
      capabilities: [
        {
          id: "notes.notes",
          description: "Notes of the user.",
          operations: [
            {
              ...{ name: "count", description: "Counts letters.", mutating: false, scopes: ["read"] },
              inputSchema: {
                type: "object",
                properties: { text: { type: "string" }, times: { type: "number", default: 2 } },
                required: ["text"],
              },
              outputSchema: { type: "object", properties: { count: { type: "number" } }, required: ["count"] },
            },
            {
              ...{ name: "keep", description: "Keeps.", mutating: true, isReversible: false },
              inputSchema: {
                type: "object",
                properties: { n: { type: "integer", default: 7 } },
                additionalProperties: false,
              },
            },
          ],
        },
      ],
      hasAuth: false,
    });
    expect(typed).toMatchObject({ namespace: "notes", from: "in this program", seconds: 30 });
    expect(await typed.health(createCallContext())).toEqual({ isReady: true });
  });

  it("[Q-19] validates input against its schema, by zod and by JSON Schema, and fills defaults into a copy", async () => {
    expect(await typed.invoke(callOf("count", { text: "abc" }), createCallContext())).toEqual({ output: { count: 6 } });
    const given = {};
    expect(await typed.invoke(callOf("keep", given), createCallContext())).toEqual({ output: { n: 7, key: "key_1" } });
    expect(given).toEqual({});
    for (const [operation, input] of [
      ["count", { text: 1 }],
      ["count", {}],
      ["keep", { n: "x" }],
      ["keep", { user_id: "root" }],
      ["keep", "text"],
    ] as const) {
      const error = await catchProviderError(typed.invoke(callOf(operation, input), createCallContext()));
      expect(error, `${operation} ${JSON.stringify(input)}`).toMatchObject({ code: "input-invalid" });
      expect(error.message).toMatch(/^Invalid input: /);
    }
  });

  it("lists existing operations for an unknown one", async () => {
    expect(await catchProviderError(typed.invoke(callOf("cuont"), createCallContext()))).toMatchObject({
      code: "not-found",
      fix: "did you mean count?",
    });
    const elsewhere = callOf("count", {}, { capability: "notes.zzz" });
    expect(await catchProviderError(typed.invoke(elsewhere, createCallContext()))).toMatchObject({
      code: "not-found",
      fix: "available: notes.notes",
    });
    const inherited = callOf("constructor");
    expect(await catchProviderError(typed.invoke(inherited, createCallContext()))).toMatchObject({ code: "not-found" });
  });

  it("[S-24] gets the caller and the credential from the host", async () => {
    const credential = { account: "ada", secret: { token: "old" } };
    const answer = await invoke(
      (_, { signal, renew, ...context }) => {
        renew({ account: "ada", secret: { token: "new" } });
        return { ...context, isAborted: signal.aborted };
      },
      callOf("list", {}, { credential }),
    );
    expect(answer).toEqual({
      output: {
        ...{ run: "run_1", skill: "note-taker", source: "user", user: "ada", chat: { id: "7", type: "private" } },
        ...{ key: "key_1", credential, isAborted: false },
      },
      credential: { account: "ada", secret: { token: "new" } },
    });
  });

  it("reports an error with its code, and any other as a failure, on one short line", async () => {
    const denied = await catchProviderError(
      invoke(() => {
        throw new SkillError("denied", { message: "Not\nyours", fix: "ask Ada" });
      }),
    );
    expect(denied).toMatchObject({ code: "denied", message: "Not yours", fix: "ask Ada" });
    const foreign = await catchProviderError(
      invoke(() => {
        throw new SkillError("sandbox-start-failed", { message: "x".repeat(5000) });
      }),
    );
    expect(foreign.code).toBe("provider-failed");
    expect(foreign.message.length).toBeLessThan(600);
    expect(await catchProviderError(invoke(() => Promise.reject(new Error("broken"))))).toMatchObject({
      code: "provider-failed",
      message: "The provider of notes failed: broken",
    });
  });

  it("returns plain data, as a program would", async () => {
    const own = { at: new Date(0), again() {}, list: [undefined] };
    expect((await invoke(() => own)).output).toEqual({ at: "1970-01-01T00:00:00.000Z", list: [null] });
    expect((await invoke(() => undefined)).output).toBeNull();
    expect(await catchProviderError(invoke(() => 1n))).toMatchObject({ code: "provider-failed" });
  });

  it("is not awaited when it hangs, or after an abort", async () => {
    let inner: AbortSignal | undefined;
    const hanging = providerWith(
      {
        execute(_: unknown, { signal }: { signal: AbortSignal }) {
          inner = signal;
          return new Promise(() => {});
        },
      } as Rest,
      { seconds: 1 },
    );
    expect(await catchProviderError(hanging.invoke(callOf("list"), createCallContext()))).toMatchObject({
      code: "provider-timeout",
    });
    expect(inner?.aborted).toBe(true);
    const controller = new AbortController();
    inner = undefined;
    const stopped = catchProviderError(hanging.invoke(callOf("list"), { signal: controller.signal }));
    await waitFor(() => inner !== undefined);
    controller.abort();
    expect(await stopped).toMatchObject({ code: "provider-failed" });
  });

  it("has a time limit for a sign-in, too", async () => {
    const auth = {
      begin: async () => ({ kind: "paste" as const, message: "Paste a token." }),
      complete: () => Promise.reject(new Error("no\nsuch code")),
    };
    const provider = providerWith({}, { auth });
    expect((await provider.describe(createCallContext())).hasAuth).toBe(true);
    expect(await provider.auth?.begin({ context: {} }, createCallContext())).toEqual({
      kind: "paste",
      message: "Paste a token.",
    });
    const error = await catchProviderError(
      provider.auth?.complete({ context: {} }, createCallContext()) ?? Promise.resolve(),
    );
    expect(error).toMatchObject({ code: "provider-failed", message: "The provider of notes failed: no such code" });
    expect(provider.auth?.poll).toBeUndefined();
  });

  it.each([
    ["nothing", undefined, /namespace/],
    ["no namespace", { capabilities: {} }, /namespace/],
    ["a namespace with a dot", { namespace: "a.b", capabilities: {} }, /namespace/],
    ["no capabilities", { namespace: "notes" }, /lacks `capabilities`/],
    [
      "no operations",
      { namespace: "notes", capabilities: { notes: { description: "N." } } },
      /notes.notes lacks `operations`/,
    ],
  ])("throws at once when it is defined with %s", (_, definition, message) => {
    expect(() => defineProvider(definition as never)).toThrow(expect.objectContaining({ code: "provider-invalid" }));
    expect(() => defineProvider(definition as never)).toThrow(message);
  });

  it.each([
    ["no function", { execute: undefined }, /notes.notes list lacks a function `execute`/],
    ["no description", { description: "" }, /notes.notes list has no description/],
    ["no schema", { input: undefined }, /its input is not a schema/],
    ["input that is not an object", { input: z.string() }, /the input of notes.notes list is not an object/],
    ["a value that JSON lacks", { input: z.object({ at: z.date() }) }, /cannot be converted to JSON Schema/],
    ["an invalid value of mutating", { mutating: "yes" }, /has no `mutating` flag/],
  ])("throws at once when an operation has %s", (_, rest, message) => {
    expect(() => providerWith(rest as Rest)).toThrow(expect.objectContaining({ code: "provider-invalid" }));
    expect(() => providerWith(rest as Rest)).toThrow(message);
  });

  it("does not describe itself by an unusable schema", async () => {
    const provider = providerWith({ input: { type: "object", $ref: "#/nowhere" } });
    const error = await catchProviderError(provider.describe(createCallContext()));
    expect(error.code).toBe("provider-answer-invalid");
    expect(error.message).toContain("the input schema of notes.notes list cannot be used");
  });
});

describe("a provider as a program", () => {
  /** Its output for this input, and its logs. */
  async function served(provider: CapabilityProvider, input: unknown) {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    stdin.end(typeof input === "string" ? input : JSON.stringify(input));
    await serveProvider(provider, { stdin, stdout, stderr });
    return { stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? ""), stream: stdout };
  }
  const request = (more: object = {}) => ({
    ...{ version: 1, id: "req_1", method: "invoke", namespace: "notes", context: {}, deadline_ms: 5000 },
    params: { capability: "notes.notes", operation: "list", input: {}, idempotency_key: "k" },
    ...more,
  });

  it("writes one answer, and sends logs of its code to stderr", async () => {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const provider = providerWith({
      execute() {
        stdout.write("a debugging line\n");
        return { n: 1 };
      },
    });
    stdin.end(JSON.stringify(request()));
    await serveProvider(provider, { stdin, stdout, stderr });
    stdout.write("one more\n");
    expect(String(stdout.read())).toBe('{"version":1,"id":"req_1","ok":true,"result":{"output":{"n":1}}}\n');
    expect(String(stderr.read())).toBe("a debugging line\none more\n");
  });

  it.each([
    ["no JSON", "hello", "none", /`request` is not JSON/],
    ["nothing", "", "none", /`request` is empty/],
    ["another version", request({ version: 9 }), "none", /`request.version`/],
    ["an unknown key", request({ user_id: "root" }), "none", /`request` has an unknown key/],
    ["an unknown method", request({ method: "eval" }), "none", /`request.method` is not one of/],
    [
      "params of another method",
      request({ params: { operation: "list" } }),
      "none",
      /`request.params.capability` is missing/,
    ],
    ["another namespace", request({ namespace: "gog" }), "req_1", /not the requested namespace/],
  ])("answers %s with an error", async (_, input, id, message) => {
    const answer = JSON.parse((await served(providerWith({}), input)).stdout);
    expect(answer).toMatchObject({ version: 1, id, ok: false });
    expect(answer.error.message).toMatch(message);
  });

  it("serves a skill from a folder at any depth", async () => {
    const context = { run: "run_1", skill: "x", source: `~/${"folder/".repeat(60)}skills` };
    const { stdout } = await served(providerWith({ execute: (_, { source }) => ({ source }) }), request({ context }));
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, result: { output: { source: context.source } } });
  });

  it("answers with the error, and that it has no sign-in", async () => {
    const failing = providerWith({
      execute() {
        throw new SkillError("conflict", { message: "Twice", fix: "once" });
      },
    });
    const { stdout } = await served(failing, request());
    expect(JSON.parse(stdout).error).toEqual({ code: "conflict", message: "Twice", fix: "once" });
    const begun = await served(failing, request({ method: "auth.begin", params: {} }));
    expect(JSON.parse(begun.stdout).error.code).toBe("unsupported");
  });
});
