import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { TrustStatus } from "../../src/store/trust.ts";
import { discoverIn } from "../support/discover.ts";
import { openToolset, openToolsetIn, ownSkill, toolsetOf } from "../support/toolset.ts";

async function sessionWith(index: string, host: Partial<Host> = {}) {
  const scene = await discoverIn(ownSkill({ "toolsets/index.ts": index }));
  const session = openSession(scene.catalog, { ...scene, ...host });
  onTestFinished(() => session.close());
  await session.load("x");
  return { session, scene };
}

const withSchema = (parameters: string) =>
  `import { z } from "zod";\nimport { Tool } from "@agent/tools";
   export const Tools = [Tool.define("one", { description: "One.", parameters: ${parameters}, execute: ({ a }) => "got " + a })];`;

describe("a tool of a skill", () => {
  it("[Q-24] that hangs is ended at its time limit, also outside a run", async () => {
    const limits = { ...DEFAULT_SETTINGS.limits, toolSeconds: 1.5 };
    const index = toolsetOf({ hang: "await new Promise(() => {})", quick: 'return "here"' });
    const { session } = await sessionWith(index, { settings: { ...DEFAULT_SETTINGS, limits } });
    expect(await session.call("x.hang", {})).toMatchObject({ isError: true, code: "tool-timeout" });
    await expect.poll(async () => (await session.call("x.quick", {})).text).toContain("here");
  });

  it("works again when its skill is loaded again after its code ended the thread", async () => {
    const { session } = await sessionWith(
      toolsetOf({ end: 'setTimeout(() => { throw new Error("later") }); return "soon"', quick: 'return "here"' }),
    );
    await session.call("x.end", {});
    await expect.poll(async () => (await session.call("x.quick", {})).code).toBe("toolset-exited");
    expect((await session.call("x.quick", {})).text).toContain("Load the skill again to restart them");
    expect((await session.call("load_skill", { skill: "x" })).code).toBe("already-loaded");
    expect((await session.call("x.quick", {})).text).toContain("here");
  });

  it("[Q-04] is not even asked for its effect once its skill is untrusted", async () => {
    const scene = await discoverIn(
      ownSkill({
        "toolsets/index.ts": `import { z } from "zod";\nimport { Tool } from "@agent/tools";\nimport { writeFileSync } from "node:fs";
          export const Tools = [Tool.define("mark", { description: "Marks.", parameters: z.object({ file: z.string() }),
            effect: ({ file }) => { writeFileSync(file, "ran"); return { on: "outside" }; }, execute: () => "marked" })];`,
      }),
    );
    let standing: TrustStatus = "trusted";
    const trust = { ...scene.trust, getStatus: () => standing, findChanges: () => [] };
    const session = openSession(scene.catalog, { ...scene, trust, approve: async () => ({ isApproved: true }) });
    onTestFinished(() => session.close());
    await session.load("x");
    const [before, after] = [join(scene.root, "before"), join(scene.root, "after")];
    expect((await session.call("x.mark", { file: before })).text).toContain("marked");
    standing = "untrusted";
    expect(await session.call("x.mark", { file: after })).toMatchObject({ isError: true, code: "untrusted" });
    expect([existsSync(before), existsSync(after)]).toEqual([true, false]);
  });

  it.each(["z.iso.duration()", "z.emoji()", "z.hostname()", "z.string().regex(/^(?=P)/)"])(
    "[T-12] can have a parameter that is %s: zod itself validates it",
    async (type) => {
      const { call, problems } = await openToolset(
        ownSkill({ "toolsets/index.ts": withSchema(`z.object({ a: ${type} })`) }),
      );
      expect(problems).toEqual([]);
      const good = { "z.emoji()": "🎉", "z.hostname()": "example.com" }[type] ?? "P1D";
      expect((await call("one", { a: good })).text).toContain(`got ${good}`);
      expect(await call("one", { a: "no such thing!" })).toMatchObject({ isError: true, code: "input-invalid" });
    },
  );

  it.each([
    'z.object({ a: z.enum(["b\\u{E0042}"]) })',
    'z.object({ "a\\u{202E}": z.string() })',
    'z.object({ a: z.string().default("x\\u200b") })',
  ])("[Q-08] hides nothing in the schema of its input: %s", async (schema) => {
    const { problems } = await openToolset(ownSkill({ "toolsets/index.ts": withSchema(schema) }));
    expect(problems).toMatchObject([{ code: "toolset-broken", message: expect.stringContaining("hidden characters") }]);
  });

  it.each([
    ["two.parts", "has an invalid name"],
    ["", "has no tools"],
  ])("[T-13] has a name without a dot, and a toolset can have one: %j", async (name, said) => {
    const { problems } = await openToolset(
      ownSkill({ "toolsets/index.ts": name === "" ? "export const Tools = [];" : toolsetOf({ [name]: 'return ""' }) }),
    );
    expect(problems[0]?.message).toContain(said);
  });

  it("[Q-04] is imported as it was checked, whatever its code did to its folder before", async () => {
    const index = toolsetOf(
      { spoil: 'writeFileSync(import.meta.filename, "export const Tools = 7;"); return import.meta.filename' },
      'import { writeFileSync } from "node:fs";',
    );
    const first = await openToolset(ownSkill({ "toolsets/index.ts": index }));
    const [file = ""] = /\/\S+index\.ts/.exec((await first.call("spoil")).text) ?? [];
    expect(readFileSync(file, "utf8")).toBe("export const Tools = 7;");
    const second = await openToolsetIn(first.scene);
    expect(second.problems).toEqual([]);
    expect((await second.call("spoil")).isError).toBe(false);
  });
});
