import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { redactInput, shortenInput } from "../../src/agent/run/redaction.ts";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import { Tool } from "../../src/skill/tool.ts";
import { createRedactor } from "../../src/util/redact.ts";
import { useScene } from "../support/use.ts";
import { caller } from "./runs-scene.ts";

const ANYTHING = { type: "object" };

describe("an approval", () => {
  it("covers the shown call: a changed one needs approval again", async () => {
    const { use, found } = await useScene({ skills: { x: {} }, turns: () => "" });
    let price = 5;
    const paid: number[] = [];
    const pay = Tool.define("pay", {
      description: "Pays.",
      parameters: ANYTHING,
      effect: () => ({ on: "outside", what: `pay ${price}` }),
      execute: () => String(paid.push(price)),
    });
    const host = { ...found, tools: [pay], models: { default: caller({ tool: "pay" }) } };
    const { result } = await use({ skill: "x" }, host);
    await found.runs.answer(result.run, { isApproved: true });
    price = 500;
    const more = await resumeRun(found.catalog, host, result.run);
    expect([more.stop, more.approvalRequest?.what, paid]).toEqual(["waiting", "pay 500", []]);
    expect(await found.runs.find(result.run)).toMatchObject({ state: "waiting", approvalRequest: { what: "pay 500" } });
    price = 700;
    expect((await resumeRun(found.catalog, host, result.run)).approvalRequest?.what).toBe("pay 700");
    expect((await found.runs.find(result.run)).approvalRequest?.what).toBe("pay 700");
    await found.runs.answer(result.run, { isApproved: true });
    expect((await resumeRun(found.catalog, host, result.run)).stop).toBe("answer");
    expect(paid).toEqual([700]);
  });

  it("for the whole run covers the present effect of the tool, and nothing else", async () => {
    const { use, found } = await useScene({ skills: { x: {} }, turns: () => "" });
    let on: "workspace" | "outside" = "workspace";
    const tool = Tool.define("do", {
      description: "Does.",
      parameters: ANYTHING,
      effect: () => ({ on, what: "it" }),
      execute: () => "done",
    });
    const host = { ...found, tools: [tool], models: { default: caller({ tool: "do" }) } };
    const { result } = await use({ skill: "x" }, host);
    await found.runs.answer(result.run, { isApproved: true, scope: "run" });
    on = "outside";
    expect((await resumeRun(found.catalog, host, result.run)).stop).toBe("waiting");
  });

  it("shows the whole call, or how much is omitted", () => {
    const input = { ...Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`k${at}`, at])) };
    const hiding = createRedactor(new Map());
    expect(shortenInput(input, hiding)).toMatchObject({ k99: 99, "…": "1 more" });
    expect(shortenInput(Array(103).fill(1), hiding)).toMatchObject({ 100: "3 more", length: 101 });
    expect(shortenInput("x".repeat(3000), hiding)).toMatch(/^x{2000}… \(1,000 more characters\)$/);
  });

  it("is requested when a tool declares its effect in odd words", async () => {
    const { use } = await useScene({ skills: { x: {} }, turns: () => "" });
    const tool = {
      ...Tool.define("odd", { description: "d", parameters: ANYTHING, execute: () => "done" }),
      effect: () => ({ on: "everything", what: { a: 1 }, where: 5 }) as never,
    };
    const asked: ApprovalRequest[] = [];
    const approve = async (effect: ApprovalRequest) => {
      asked.push(effect);
      return { isApproved: true };
    };
    const { result } = await use(
      { skill: "x" },
      { tools: [tool], approve, models: { default: caller({ tool: "odd" }) } },
    );
    expect([result.stop, asked]).toMatchObject(["answer", [{ on: "outside", where: "5" }]]);
  });

  it("is requested before any command when nothing prevents it from writing", async () => {
    const { use, found } = await useScene({
      skills: { x: {} },
      config: '[sandbox]\nlevel = "none"\n',
      turns: () => "",
    });
    const model = caller({ tool: "bash", input: { command: "echo a > planted.txt" } });
    const approve = async () => ({ isApproved: false });
    await use({ skill: "x" }, { approve, models: { default: model } });
    expect(existsSync(join(found.workspace, "planted.txt"))).toBe(false);
  });
});

describe("the complete input of a call", () => {
  it("[Q-28] has every key, also when two look the same once a secret is redacted", () => {
    const hiding = createRedactor(new Map([["KEY", "sk-a-secret-value"]]));
    const input = { "[KEY]": "eve@evil.example", "sk-a-secret-value": "harmless" };
    expect(redactInput(input, hiding)).toEqual({ "[KEY]": "eve@evil.example", "[KEY] (2)": "harmless" });
  });
});
