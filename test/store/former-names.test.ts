import { describe, expect, it } from "vitest";
import { formatJournalLine, type JournalLine, parseJournal, parseJournalLine } from "../../src/store/journal.ts";

const at = "2026-11-18T12:00:00.000Z";
const read = (line: object) => parseJournalLine(formatJournalLine({ at, ...line } as JournalLine).trimEnd());
const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };

describe("a line of a journal of 0.1.0", () => {
  it("has the current stop reason when a run ended, in its result and in that of a skill that it called", () => {
    const end = { stop: "max-steps", isError: true, iterations: 1, ms: 1, usage };
    expect(read({ type: "end", ...end })).toMatchObject({ stop: "max-iterations" });
    expect(read({ type: "step", name: "tool:1/end", value: end })).toMatchObject({ value: { stop: "max-iterations" } });
    expect(read({ type: "result", result: { ...end, refusals: [{ code: "other-system" }] } })).toMatchObject({
      result: { stop: "max-iterations", refusals: [{ code: "unsupported-os" }] },
    });
  });

  it("has the current event types and codes", () => {
    const event = { run: "r", skill: "s", at };
    const types = { "text-said": "text-generated", "approval-given": "approval-decided" };
    for (const [type, name] of Object.entries(types))
      expect(read({ type: "event", event: { ...event, type, tool: "bash" } })).toMatchObject({ event: { type: name } });
    expect(
      read({ type: "event", event: { ...event, type: "tool-ended", tool: "x", ms: 1, code: "path-closed" } }),
    ).toMatchObject({ event: { code: "path-denied" } });
  });

  it("keeps text of a model or a tool, even if it is spelled like a former name", () => {
    const input = { type: "text-said", stop: "max-steps", code: "in-the-way" };
    const event = { type: "tool-called", run: "r", skill: "s", at, tool: "x", input };
    expect(read({ type: "event", event })).toMatchObject({ event: { input } });
    const value = { content: "max-steps", calls: [{ input }], message: { role: "assistant", ...input } };
    expect(read({ type: "step", name: "model:1", value })).toMatchObject({ value });
    expect(read({ type: "request", request: input })).toMatchObject({ request: input });
  });

  it("is valid, and one with a wrong checksum is not", () => {
    const text = formatJournalLine({ at, type: "step", name: "a", value: { stop: "max-steps" } });
    expect(parseJournal(Buffer.from(text)).corrupt).toEqual([]);
    expect(parseJournal(Buffer.from(text.replace("max-steps", "max-iterations"))).corrupt).toEqual([1]);
  });
});
