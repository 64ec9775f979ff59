import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSpendingStore } from "../../src/store/spending.ts";
import { temporaryFolder } from "../support/folder.ts";
import { MODEL, type Turn } from "../support/model-server.ts";
import { useScene } from "../support/use.ts";

/** Each model call has 10 input and 5 output tokens: 25 dollars at these prices. */
const PRICES = `[prices.${MODEL}]\ninput = 1000000\noutput = 3000000\n`;
const COST = 25;

const SKILLS = { worker: {}, other: {} };

/** A model that calls a tool forever. */
const ENDLESS: Turn = () => [{ tool: "list_skills", input: {} }];

async function scene(config: string, turn: Turn = ENDLESS) {
  let asked = 0;
  const { found, use } = await useScene({
    skills: SKILLS,
    config: `${PRICES}${config}`,
    turns: (request) => {
      asked++;
      return turn(request);
    },
  });
  return {
    found,
    use: async (skill: string, host = {}) => (await use({ skill, message: "Work." }, host)).result,
    asked: () => asked,
  };
}

describe("cost ceilings", () => {
  it("end a run before the model call that would exceed the ceiling, with the partial result", async () => {
    const { use, asked } = await scene("[limits.cost]\nrun = 60\n");
    const result = await use("worker");
    expect({ stop: result.stop, isError: result.isError, cost: result.cost }).toEqual({
      ...{ stop: "budget", isError: true, cost: 3 * COST },
    });
    expect(result.error?.code).toBe("cost-limit");
    expect(result.content).toContain("$60 or more, the limit of limits.cost.run");
    expect(asked()).toBe(3);
  });

  it.each(["day", "month"])("of a %s count all runs, including those of other processes", async (period) => {
    const { use, asked, found } = await scene(`[limits.cost]\n${period} = 100\n`, () => "Done.");
    await createSpendingStore(found.home).add({ dollars: 70, skill: "elsewhere" });
    expect((await use("worker")).stop).toBe("answer");
    expect((await use("other")).stop).toBe("answer");
    const refused = await use("worker");
    expect([refused.stop, refused.error?.code]).toEqual(["budget", "cost-limit"]);
    expect(refused.content).toContain(`limits.cost.${period}`);
    expect(asked()).toBe(2);
  });

  it("of a skill, a person and a tenant count only their own runs", async () => {
    const config = `
[skills.worker.limits.cost]
day = 20
[server.people.ada.limits.cost]
day = 40
[server.tenants.red.limits.cost]
month = 60
`;
    const { use } = await scene(config, () => "Done.");
    const stopOf = async (skill: string, userId: string, tenant: string) =>
      (await use(skill, { caller: { userId, tenant } })).stop;
    expect(await stopOf("worker", "bob", "blue")).toBe("answer");
    expect(await stopOf("worker", "bob", "blue")).toBe("budget");
    expect(await stopOf("other", "ada", "red")).toBe("answer");
    expect(await stopOf("other", "ada", "red")).toBe("answer");
    expect(await stopOf("other", "ada", "red")).toBe("budget");
    expect(await stopOf("other", "eve", "red")).toBe("answer");
    expect(await stopOf("other", "eve", "red")).toBe("budget");
    expect(await stopOf("other", "bob", "blue")).toBe("answer");
  });

  it("refuse a model whose price is unknown, and name the keys to set", async () => {
    const unpriced = await useScene({ skills: SKILLS, config: "[limits.cost]\nrun = 60\n", turns: () => "x" });
    const { result } = await unpriced.use({ skill: "worker", message: "Work." });
    expect([result.stop, result.error?.code]).toEqual(["error", "price-missing"]);
    expect(result.content).toContain(`skillet config set prices."${MODEL}".input`);
  });
});

describe("the record of costs", () => {
  it("counts by day and month in UTC, and starts over with the next", async () => {
    let now = new Date("2026-11-30T23:30:00Z");
    const store = createSpendingStore(temporaryFolder(), { now: () => now });
    await store.add({ dollars: 1, skill: "a", user: "ada" });
    await store.add({ dollars: 2, skill: "b" });
    expect([await store.total("day"), await store.total("month"), await store.total("day", { user: "ada" })]).toEqual([
      3, 3, 1,
    ]);
    now = new Date("2026-12-01T00:30:00Z");
    expect([await store.total("day"), await store.total("month")]).toEqual([0, 0]);
    await store.add({ dollars: 4, skill: "a" });
    now = new Date("2026-12-02T00:30:00Z");
    expect([await store.total("day"), await store.total("month", { skill: "a" })]).toEqual([0, 4]);
  });

  it("sees what other processes append, and skips a line that a killed process left", async () => {
    const home = temporaryFolder();
    const [one, two] = [createSpendingStore(home), createSpendingStore(home)];
    await one.add({ dollars: 1, skill: "ä" });
    expect(await two.total("day", { skill: "ä" })).toBe(1);
    const folder = join(home, "spending");
    const file = join(folder, readdirSync(folder)[0] ?? "");
    appendFileSync(file, '{"version":1,"at":"20');
    expect(await two.total("day")).toBe(1);
    appendFileSync(file, "\n");
    await one.add({ dollars: 2, skill: "b" });
    expect(await two.total("day")).toBe(3);
    expect(readFileSync(file, "utf8")).not.toContain("undefined");
  });
});
