import { describe, expect, it } from "vitest";
import { resumeRun } from "../../src/agent/run/resume-run.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import type { HostOptions } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import type { Model, ModelReply } from "../../src/host/model-contract.ts";
import { NO_USAGE } from "../../src/host/model-contract.ts";
import { Tool } from "../../src/skill/tool.ts";
import { createMemoryRunStore } from "../../src/testing/memory-stores.ts";
import { createCatalogOf } from "../support/skills.ts";

const SECRET = "hunter2-hunter2";
const REPLY: ModelReply = { text: "", calls: [], usage: NO_USAGE, finish: "stop" };

/** A run in which the secret reaches each sink by its own way. */
async function leakyRun({ isRecorded = true } = {}) {
  const settings = { ...DEFAULT_SETTINGS, skills: new Map([["other", { variables: new Map([["TOKEN", SECRET]]) }]]) };
  const catalog = await createCatalogOf({ x: { more: { allowed_tools: ["leak", SECRET] } } });
  const results: unknown[] = [];
  const model: Model = {
    name: "test",
    async respond({ messages }) {
      results.push(...messages.flatMap((message) => (message.role === "tool" ? message.results : [])));
      if (messages.length > 1) return { ...REPLY, text: "Done." };
      return { ...REPLY, calls: [{ id: "1", tool: "leak", input: {} }], finish: "calls" };
    },
  };
  const leak = Tool.define("leak", {
    description: "Leaks.",
    parameters: { type: "object" },
    execute: () => ({ output: "data", metadata: { token: SECRET } }),
  });
  const events: SkillEvent[] = [];
  const runs = createMemoryRunStore();
  const host: HostOptions = {
    ...{ settings, models: { default: model }, tools: [leak], hasBuiltInTools: false },
    ...(isRecorded ? { runs } : {}),
    onEvent: (event) => events.push(event),
  };
  const result = await useSkill(catalog, host, { skill: "x", message: `Use ${SECRET}.` });
  const lines = isRecorded ? (await runs.read(result.run)).lines : [];
  return { catalog, host, results, events, result, lines };
}

/** Each fails when the call of its sink in `src/agent/run/redaction.ts` is removed. */
describe("a secret at each sink", () => {
  it("[Q-22] is removed from tool results", async () => {
    const { results } = await leakyRun({ isRecorded: false }); // A journal would redact it too.
    expect(results).toMatchObject([{ data: { token: "[TOKEN]" } }]);
  });

  it("[Q-22] is removed from events", async () => {
    const { events } = await leakyRun();
    expect(events.find(({ type }) => type === "run-warned")).toMatchObject({
      message: expect.stringContaining("[TOKEN]"),
    });
    expect(JSON.stringify(events)).not.toContain(SECRET);
  });

  it("[Q-22] is removed from the journal: the request, and everything after it", async () => {
    const { lines } = await leakyRun();
    const request = lines.filter(({ type }) => type === "run" || type === "request");
    expect(JSON.stringify(request)).toContain("Use [TOKEN].");
    expect(JSON.stringify(request)).not.toContain(SECRET);
    const warned = lines.flatMap((line) =>
      line.type === "event" && line.event.type === "run-warned" ? line.event : [],
    );
    expect(warned).toMatchObject([{ message: expect.stringContaining("[TOKEN]") }]);
    expect(JSON.stringify(lines)).not.toContain(SECRET);
  });

  it("[Q-22] is removed from the result, and from a refusal", async () => {
    const { catalog, host, result } = await leakyRun();
    expect(result).toMatchObject({ content: "Done.", warnings: [{ message: expect.stringContaining("[TOKEN]") }] });
    expect(JSON.stringify(result)).not.toContain(SECRET);
    const refused = await useSkill(catalog, host, { skill: SECRET });
    expect(refused).toMatchObject({ stop: "refused", refusals: [{ message: "Skill '[TOKEN]' not found" }] });
    expect(JSON.stringify(refused)).not.toContain(SECRET);
  });

  it("keeps what programs compare, also if a secret has such a value", async () => {
    const { catalog, host } = await leakyRun();
    const skills = new Map([
      [
        "other",
        {
          variables: new Map([
            ["WORD", "answer"],
            ["KEY", "text"],
            ["ROLE", "role"],
          ]),
        },
      ],
    ]);
    const run = useSkill(catalog, { ...host, settings: { ...DEFAULT_SETTINGS, skills } }, { skill: "x" });
    expect(await run).toMatchObject({ stop: "answer", content: "Done." });
    const again = await resumeRun(catalog, host, (await run).run);
    expect(again).toMatchObject({ stop: "refused", refusals: [{ code: "run-ended" }] });
  });
});
