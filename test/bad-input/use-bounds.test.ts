import { readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { createCatalogOf } from "../support/skills.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";
import { hostWith, oddModel, toolOf } from "./use-scene.ts";

const usage = { inputTokens: 60, outputTokens: 0, cachedTokens: 0 };
const forever = () => oddModel({ text: "so far", calls: [{ id: "1", tool: "list_skills", input: {} }], usage });
const limits = { ...DEFAULT_SETTINGS.limits, tokens: 100, seconds: 20 };
const settings = { ...DEFAULT_SETTINGS, limits };

describe("a limit", () => {
  it.each([Number.NaN, Number.POSITIVE_INFINITY, 1e12, 100])(
    "[Q-24] of %d tokens that a caller requests does not raise the operator's",
    async (tokens) => {
      const catalog = await createCatalogOf({ x: {} });
      const host = hostWith(forever(), { settings });
      expect(await useSkill(catalog, host, { skill: "x", tokens })).toMatchObject({ stop: "budget", iterations: 2 });
      const conversation = createConversation(openSession(catalog, host), hostWith(forever(), { settings }), {
        tokens,
      });
      expect(await conversation.send("go on")).toMatchObject({ stop: "budget", iterations: 2 });
    },
  );

  it.each([Number.NaN, -5, 0, 0.5, 1e9, Number.POSITIVE_INFINITY])(
    "[Q-24] of %d iterations or seconds is a number that the operator allows",
    async (most) => {
      const catalog = await createCatalogOf({ x: { more: { max_iterations: 4 } } });
      const free = { ...DEFAULT_SETTINGS, limits: { ...DEFAULT_SETTINGS.limits, seconds: 20 } };
      const { iterations, stop } = await useSkill(catalog, hostWith(forever(), { settings: free }), {
        skill: "x",
        maxIterations: most,
      });
      expect(stop).toBe("max-iterations");
      expect(iterations).toBeGreaterThanOrEqual(1);
      expect(iterations).toBeLessThanOrEqual(4);
      const timed = await useSkill(catalog, hostWith(forever(), { settings: free }), { skill: "x", seconds: most });
      expect(["max-iterations", "timeout"]).toContain(timed.stop);
      expect(timed.content).not.toContain("NaN");
    },
  );

  it.each(["0", "-1", "1e9", ".inf", ".nan", '"10"', "[1]"])(
    "[Q-24] of %s that a skill requests is capped by the operator's",
    async (written) => {
      const { use } = await useScene({
        skills: { x: { more: `max_iterations: ${written}\n` } },
        config: "[limits]\niteration_cap = 2\nmax_iterations = 1\n",
        turns: [() => "done"],
      });
      expect((await use({ skill: "x" })).result).toMatchObject({ stop: "answer", iterations: 1 });
    },
  );
});

describe("skills that use skills", () => {
  it.each(["x", "x@~/.skillet/skills", "X", "./x", "x ", "x@"])(
    "[W-17, Q-24] cannot call an active one again by calling it %j",
    async (name) => {
      const { use } = await useScene({
        skills: { x: {} },
        turns: [
          () => [{ tool: "use_skill", input: { skill: name } }],
          ({ results }) => {
            expect(results[0]?.content).toMatch(/is already running|not found/);
            return "end";
          },
        ],
      });
      const { result } = await use({ skill: "x" });
      expect(result.content).toBe("end");
    },
  );
});

/** Counts processes whose command line contains the text. */
function running(mark: string): string[] {
  return readdirSync("/proc").filter((entry) => {
    try {
      return /^\d+$/.test(entry) && readFileSync(`/proc/${entry}/cmdline`, "utf8").includes(mark);
    } catch {
      return false;
    }
  });
}

const leftIn = () => readdirSync(tmpdir()).filter((name) => /^skillet-(?!test-)/.test(name));

describe.runIf(process.platform === "linux")("an ended run", () => {
  it.each<[string, { seconds?: number; abortAt?: "once" | "begun" | "running" }]>([
    ["by its time limit", { seconds: 1.5 }],
    ["from outside", { abortAt: "running" }],
    ["from outside at its start", { abortAt: "begun" }],
    ["before its start", { abortAt: "once" }],
  ])("[Q-15] %s leaves no process and no folder", async (_, { seconds, abortAt }) => {
    const mark = `86${Math.floor(Math.random() * 1e9)}`;
    const before = leftIn();
    const model = oddModel({
      calls: [{ id: "1", tool: "bash", input: { command: `(setsid sleep ${mark} &) ; trap '' TERM; sleep ${mark}` } }],
    });
    const { found } = await useScene({ skills: { x: {} }, turns: [] });
    const controller = new AbortController();
    if (abortAt === "once") controller.abort();
    const run = useSkill(
      found.catalog,
      { ...found, models: { default: model } },
      { skill: "x", signal: controller.signal, ...(seconds === undefined ? {} : { seconds }) },
    );
    if (abortAt === "begun") setImmediate(() => controller.abort());
    if (abortAt === "running") void waitFor(() => running(mark).length > 0).then(() => controller.abort());
    const { stop } = await run;
    run.abort();
    run.abort();
    expect(stop).toBe(seconds === undefined ? "aborted" : "timeout");
    await expect.poll(() => running(mark)).toEqual([]);
    // Other tests have theirs, for a while.
    const fresh = leftIn().filter((name) => !before.includes(name));
    await expect.poll(() => leftIn().filter((name) => fresh.includes(name))).toEqual([]);
  });

  it("[Q-24] does not wait for a host tool that never ends, or ends too late", async () => {
    const { promise, resolve } = Promise.withResolvers();
    for (const execute of [() => new Promise(() => {}), () => promise]) {
      const model = oddModel({ calls: [{ id: "1", tool: "t", input: {} }] });
      const result = await useSkill(
        await createCatalogOf({ x: {} }),
        hostWith(model, { tools: [toolOf("t", execute)] }),
        {
          skill: "x",
          seconds: 0.5,
        },
      );
      expect(result.stop).toBe("timeout");
    }
    resolve("too late");
  });
});

describe("a skill whose file disappears", () => {
  it("during a use ends with a result", async () => {
    const { found } = await useScene({ skills: { x: { files: { "a.md": "a" } } }, turns: [] });
    const model = oddModel(
      () => {
        rmSync(join(found.root, "home/.skillet/skills/x"), { recursive: true });
        return {
          calls: [
            { id: "1", tool: "read_skill_resource", input: { resource: "a.md" } },
            { id: "2", tool: "bash", input: { command: 'ls "$SKILL_DIR"' } },
            { id: "3", tool: "use_skill", input: { skill: "x" } },
          ],
        };
      },
      { text: "end" },
    );
    const host = { ...found, models: { default: model } };
    expect((await useSkill(found.catalog, host, { skill: "x" })).content).toBe("end");
    const again = await useSkill(found.catalog, host, { skill: "x" });
    expect(again).toMatchObject({ isError: true });
  });
});
