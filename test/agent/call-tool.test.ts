import { describe, expect, it } from "vitest";
import { type CallToolContext, callTool, type ToolApproval } from "../../src/agent/run/call-tool.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { createRedactor } from "../../src/util/redact.ts";

const SECRET = "hunter2-hunter2";
const redactor = createRedactor(new Map([["TOKEN", SECRET]]));
const CONTEXT: CallToolContext = { createOptions: () => ({}), redactor };

const leaky: Tool = {
  name: "leaky",
  description: "Returns the secret in every field.",
  category: "tools",
  inputSchema: { type: "object" },
  effect: () => ({ on: "outside" }),
  execute: async () => ({
    text: `text ${SECRET}`,
    output: `output ${SECRET}`,
    data: { deep: [{ [SECRET]: SECRET }] },
    isError: true,
    code: SECRET,
    title: `title ${SECRET}`,
  }),
};

function approvalWith(ask: ToolApproval["ask"]): ToolApproval {
  const context = {
    run: "r",
    skill: "",
    toolPolicies: [],
    approvedKeys: new Set<string>(),
    redactor,
    workspace: undefined,
  };
  return { context, ask, unaskedFix: "no user can be asked here" };
}

describe("the pipeline of a tool call", () => {
  it("[Q-22] removes secrets from every field of a result", async () => {
    const result = await callTool(leaky, {}, CONTEXT);
    expect(result).toMatchObject({ text: "text [TOKEN]", output: "output [TOKEN]", title: "title [TOKEN]" });
    expect(JSON.stringify(result)).not.toContain(SECRET);
  });

  it("[Q-22] removes secrets from the reason of a denial, and makes no call", async () => {
    let calls = 0;
    const tool = { ...leaky, execute: async () => ({ text: String(++calls), isError: false }) };
    const approval = approvalWith(async (request) => ({
      request,
      approval: { isApproved: false, reason: `not with ${SECRET}` },
    }));
    const result = await callTool(tool, {}, { ...CONTEXT, approval });
    expect(result).toEqual({
      text: "Tool 'leaky' was not approved: it changes something outside the workspace. Reason: not with [TOKEN]",
      isError: true,
      code: "not-approved",
    });
    expect(calls).toBe(0);
  });

  it("asks for no approval of a call that its policy refuses", async () => {
    const asked: string[] = [];
    const approval = approvalWith(async (request) => {
      asked.push(request.tool);
      return undefined;
    });
    const refusal = { text: "Not here.", isError: true, code: "tool-blocked" };
    expect(await callTool(leaky, {}, { ...CONTEXT, approval, findRefusal: () => refusal })).toEqual(refusal);
    expect(asked).toEqual([]);
    const unasked = await callTool(leaky, {}, { ...CONTEXT, approval });
    expect(unasked).toMatchObject({ isError: true, code: "approval-needed" });
    expect(unasked.text).toContain("no user can be asked here");
    expect(asked).toEqual(["leaky"]);
  });

  it("creates the options only after the approval, and ends a call that hangs", async () => {
    const order: string[] = [];
    const hanging: Tool = { ...leaky, execute: () => new Promise(() => {}) };
    const approval = approvalWith(async (request) => {
      order.push("asked");
      return { request, approval: { isApproved: true, scope: "run" } };
    });
    const createOptions = () => {
      order.push("options");
      return {};
    };
    const result = await callTool(hanging, {}, { ...CONTEXT, approval, createOptions, seconds: 0.05 });
    expect([order, result.code]).toEqual([["asked", "options"], "tool-timeout"]);
    expect(approval.context.approvedKeys.size).toBe(1);
  });
});
