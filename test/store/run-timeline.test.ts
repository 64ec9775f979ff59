import { describe, expect, it } from "vitest";
import { createTimeline } from "../../src/store/index.ts";
import type { JournalLine } from "../../src/store/journal.ts";
import { EFFECT } from "./run-scene.ts";

const ID = "20260102-030405-0a1b2c3d";
const at = "2026-01-02T03:04:05.000Z";
const usage = { inputTokens: 1, outputTokens: 2, cachedTokens: 0 };
const event = (type: string, more: object, run = ID) =>
  ({ type: "event", at, event: { type, run, skill: "mailer", at, ...more } }) as unknown as JournalLine;
const step = (name: string, text: string): JournalLine => ({ type: "step", at, name, value: { text } });
const called = (tool: string, run?: string) => event("tool-called", { step: 1, tool, input: {} }, run);
const ended = (tool: string, run?: string) => event("tool-ended", { step: 1, tool, isError: false, ms: 5 }, run);
const head = { type: "run", version: 1, id: ID, kind: "use", skill: "mailer", task: "", at } as JournalLine;

describe("the timeline of a run", () => {
  it("gives each model call its text and each tool call its output, also in a nested run", () => {
    const entries = createTimeline([
      head,
      event("run-started", { model: "m", depth: 1 }),
      event("step-ended", { step: 1, ms: 10, usage, calls: 2 }),
      step("model:1", "I read two files."),
      called("read_file"),
      called("use_skill"),
      ended("use_skill"),
      step("tool:1.2", "from the nested run"),
      ended("read_file"),
      step("tool:1.1", "from the file"),
      event("run-started", { model: "m", depth: 2, parent: ID }, `${ID}.1.2`),
      event("step-ended", { step: 1, ms: 10, usage, calls: 0 }, `${ID}.1.2`),
      step("1.2/model:1", "nested reply"),
      called("bash", `${ID}.1.2`),
      ended("bash", `${ID}.1.2`),
      step("1.2/tool:1.1", "nested output"),
    ]);
    const texts = entries.map((entry) =>
      entry.type === "step" ? entry.text : entry.type === "call" ? [entry.tool, entry.output] : entry.type,
    );
    expect(texts).toEqual([
      "started",
      "I read two files.",
      ["read_file", "from the file"],
      ["use_skill", "from the nested run"],
      "started",
      "nested reply",
      ["bash", "nested output"],
    ]);
    expect(entries.map(({ depth }) => depth)).toEqual([0, 0, 0, 0, 1, 1, 1]);
  });

  it("shows a request once, with the answer that came from another process", () => {
    const entries = createTimeline([
      head,
      event("approval-requested", { step: 1, tool: EFFECT.tool, approvalRequest: EFFECT }),
      { type: "ask", at, name: "approval:1.1", approvalRequest: EFFECT },
      { type: "answer", at, name: "approval:1.1", isApproved: true, scope: "once", approvalRequest: EFFECT },
    ]);
    expect(entries).toMatchObject([{ type: "approval", decision: { isApproved: true, scope: "once" } }]);
  });
});
