import { describe, expect, it } from "vitest";
import { checkProvider } from "../../src/capabilities/check-provider.ts";
import { defineProvider } from "../../src/capabilities/define-provider.ts";
import type { CapabilityProvider, ProviderCall } from "../../src/host/capability-contract.ts";
import { createProgramProvider } from "../support/provider.ts";

const OPERATION = { description: "Does it.", inputSchema: { type: "object" } };
const operation = (name: string, mutating: boolean, more = {}) => ({ ...OPERATION, name, mutating, ...more });

/** A provider by hand, which records its calls. */
function byHand(more: Partial<CapabilityProvider> = {}) {
  const calls: ProviderCall[] = [];
  const provider: CapabilityProvider = {
    namespace: "notes",
    from: "a test",
    seconds: 1,
    describe: async () => ({
      capabilities: [
        { id: "notes.notes", description: "Notes.", operations: [operation("list", false), operation("add", true)] },
      ],
    }),
    async invoke(call) {
      calls.push(call);
      return { output: calls.length };
    },
    health: async () => ({ isReady: true }),
    ...more,
  };
  return { provider, calls };
}

const failed = async (provider: CapabilityProvider, options = {}) =>
  (await checkProvider(provider, options))
    .filter(({ isOk }) => !isOk)
    .map(({ title, message }) => `${title}: ${message}`);

describe("the contract suite for providers", () => {
  it("[S-21] finds the errors of a broken provider", async () => {
    let described = 0;
    const { provider } = byHand({
      describe: async () => ({
        capabilities: [
          {
            id: "notes.notes",
            description: `Notes ${described++}.`,
            operations: [
              operation("list", false, { outputSchema: { type: "object", required: ["notes"] } }),
              operation("leak", false),
              operation("add", true),
            ],
          },
        ],
      }),
      invoke: async ({ operation: name }) => ({
        output: name === "leak" ? { deep: [{ access_token: "x" }] } : { at: performance.now() },
      }),
      health: () => new Promise(() => {}),
    });
    expect(await failed(provider, { invokes: { "notes.notes.add": {} } })).toEqual([
      "describes itself, the same each time: the second description differs",
      "reports its health in time: it failed: provider-timeout: it did not end within 3000 ms",
      "ends within a second when the caller aborts: it failed: provider-timeout: it did not end within 1000 ms",
      "refuses an unknown operation: notes.notes no-such-operation with the input {} succeeded instead of failing with not-found or input-invalid or denied",
      "refuses an unknown capability: notes.no-such-capability list with the input {} succeeded instead of failing with not-found or input-invalid or denied",
      'notes.notes.list refuses invalid input: notes.notes list with the input "not an object" succeeded instead of failing with input-invalid',
      'notes.notes.list returns output that matches its schema: its output does not fit its schema: "notes" is missing',
      'notes.notes.leak refuses invalid input: notes.notes leak with the input "not an object" succeeded instead of failing with input-invalid',
      "notes.notes.leak returns no credential: 1 value in its output would be redacted as credentials: do not return them",
      'notes.notes.add refuses invalid input: notes.notes add with the input "not an object" succeeded instead of failing with input-invalid',
      "notes.notes.add is done once per key: the second call returned a different output",
    ]);
  });

  it("never calls an operation with a change without an example for it", async () => {
    const { provider, calls } = byHand();
    await checkProvider(provider, { inputs: { "notes.notes.add": {} } });
    expect(calls.map(({ operation: name }) => name)).not.toContain("add");
    await checkProvider(provider, { invokes: { "notes.notes.add": { title: "x" } } });
    const added = calls.filter(({ operation: name }) => name === "add");
    expect(added.map(({ input }) => input)).toEqual(["not an object", { title: "x" }, { title: "x" }]);
    expect(added[1]?.key).toBe(added[2]?.key);
    expect(added[0]?.key).not.toBe(added[1]?.key);
  });

  it("reports descriptions outside the namespace, or with unusable schemas", async () => {
    const named = async (id: string, schema: object) => {
      const operations = [{ ...operation("list", false), inputSchema: { ...schema } }];
      const describe = async () => ({ capabilities: [{ id, description: "D.", operations }] });
      return (await failed(byHand({ describe }).provider)).join("\n");
    };
    expect(await named("gog.email", { type: "object" })).toContain("not in the namespace notes");
    expect(await named("notes.notes", { type: "string" })).toContain("is not an object");
    expect(await named("notes.notes", { type: "object", $ref: "https://example.com/" })).toContain("cannot be used");
  });

  it("reports a provider that throws another type of error, and skips checks that mean nothing then", async () => {
    const { provider } = byHand({
      describe() {
        throw new TypeError("broken");
      },
    });
    const findings = await checkProvider(provider);
    const message = "it failed: not a provider error code: broken";
    expect(findings).toEqual([{ isOk: false, title: "describes itself, the same each time", message }]);
  });

  it("shows the output of a failing program, cut to a readable length", async () => {
    const findings = await checkProvider(
      createProgramProvider(`for (let n = 0; n < 100; n++) console.error("line", n); process.exit(1)`),
    );
    expect(findings).toHaveLength(1);
    expect(findings[0]?.message).toContain("exit code 1: line 99");
    expect(findings[0]?.printed).toHaveLength(30);
    expect(findings[0]?.printed?.at(-1)).toBe("line 99");
  });

  it("[S-21] finds a program that answers nothing, and passes one of ten lines", async () => {
    const silent = await failed(createProgramProvider(""));
    expect(silent[0]).toContain("`answer` is empty");
    const whole = createProgramProvider(`
      const { method, params } = request;
      const input_schema = { type: "object", properties: { n: { type: "number" } }, additionalProperties: false };
      const operations = [{ name: "echo", description: "Gives it back.", mutating: false, input_schema }];
      if (method === "describe") answer({ capabilities: [{ id: "notes.notes", description: "Echo.", operations }] });
      else if (method === "health") answer({ is_ready: true });
      else if (params.capability !== "notes.notes" || params.operation !== "echo") refuse({ code: "not-found", message: "No." });
      else if (typeof params.input !== "object") refuse({ code: "input-invalid", message: "An object, please." });
      else answer({ output: params.input });
    `);
    expect(await failed(whole)).toEqual([]);
  });

  it("passes a provider in this program", async () => {
    const provider = defineProvider({
      namespace: "notes",
      capabilities: {
        notes: {
          description: "Notes.",
          operations: { list: { description: "Lists.", input: { type: "object" }, execute: () => [] } },
        },
      },
    });
    const findings = await checkProvider(provider);
    expect(findings.filter(({ isOk }) => !isOk)).toEqual([]);
    expect(findings.map(({ title }) => title)).toContain("notes.notes.list returns output that matches its schema");
  });
});
