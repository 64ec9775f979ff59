import { describe, expect, it } from "vitest";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { temporaryFolder } from "../support/folder.ts";
import { ended } from "../support/statistics-events.ts";
import { openToolset, ownSkill, toolsetOf } from "../support/toolset.ts";
import { eventsOf, useScene } from "../support/use.ts";
import { caller } from "./runs-scene.ts";

describe("a tool with odd messages", () => {
  it("cannot end the host program by messages from its thread", async () => {
    const send = `const { parentPort } = await import("node:worker_threads");
      for (const type of ["progress", "printed", "run", "stop", "ready"])
        for (let id = 0; id < 3; id++) parentPort.postMessage({ type, id, text: 5, argv: null, program: {}, offers: 7 });
      parentPort.postMessage(null);
      return "still there"`;
    const { call, printed } = await openToolset(ownSkill({ "toolsets/index.ts": toolsetOf({ odd: send }) }));
    const said: string[] = [];
    const onProgress = (text: string) => said.push(text.toUpperCase());
    expect(await call("odd", {}, { onProgress })).toMatchObject({ text: expect.stringContaining("still there") });
    expect([said, new Set(printed)]).toEqual([["5"], new Set(["5"])]);
  });

  it("[Q-24] is heard a thousand times per call", async () => {
    const { use } = await useScene({ skills: { x: {} }, turns: () => "" });
    const tool = {
      ...{ name: "talks", description: "d", category: "mine", inputSchema: { type: "object" } },
      async execute(_: unknown, { onProgress }: { onProgress?(text: string): void } = {}) {
        for (let times = 0; times < 20_000; times++) onProgress?.("on");
        return { text: "done", isError: false };
      },
    };
    const { events } = await use({ skill: "x" }, { tools: [tool], models: { default: caller({ tool: "talks" }) } });
    expect(eventsOf(events, "tool-progressed")).toHaveLength(1000);
  });
});

describe("statistics", () => {
  it("record later runs after a run with invalid numbers", async () => {
    const statistics = createStatisticsStore(temporaryFolder());
    const usage = { inputTokens: Number.NaN, outputTokens: 1e300, cachedTokens: 0 };
    await statistics.record(ended("odd", { usage, iterations: 1.5, ms: Number.POSITIVE_INFINITY }));
    await statistics.record(ended("next"));
    expect((await statistics.perSkill()).map(({ skill, runs }) => [skill, runs])).toEqual([
      ["next", 1],
      ["odd", 1],
    ]);
  });
});
