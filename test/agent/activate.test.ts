import { describe, expect, it, onTestFinished } from "vitest";
import { openSession, type Session } from "../../src/agent/session/session.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { SkillError } from "../../src/errors/problem.ts";
import { createInlineSource } from "../../src/skill/skill.ts";
import { createCatalogOf, defineTestSkill, type Sketch } from "../support/skills.ts";
import { useScene } from "../support/use.ts";

async function sessionOf(skills: Record<string, Sketch>, host: Partial<Host> = {}): Promise<Session> {
  const session = openSession(await createCatalogOf(skills), host);
  onTestFinished(() => session.close());
  return session;
}

const atMost = (maxSkills: number) => ({ settings: { ...DEFAULT_SETTINGS, disclosure: { maxSkills } } });
const loaded = ({ active }: Session) => active.map(({ name }) => name);

describe("loading skills by topic", () => {
  it("[P-21] loads the skill that the topic triggers and returns its instructions", async () => {
    const session = await sessionOf({
      mail: { keywords: ["inbox"], body: "Read the mail." },
      chat: { keywords: ["channel"], body: "Read the chat." },
    });
    const { skills, result } = await session.activate("what is in my inbox");
    expect(skills).toEqual(["mail"]);
    expect(result).toMatchObject({ isError: false, text: expect.stringContaining("Read the mail.") });
    expect(result).not.toHaveProperty("code");
    expect(result.text).not.toContain("Read the chat.");
    expect(loaded(session)).toEqual(["mail"]);
  });

  it("[P-21] loads only triggered skills when a trigger matches, not those that match by words", async () => {
    const session = await sessionOf({
      report: { description: "Writes the quarterly sales report." },
      sales: { description: "Does something else.", keywords: ["quarterly sales report"] },
    });
    expect((await session.activate("quarterly sales report")).skills).toEqual(["sales"]);
    expect(loaded(session)).toEqual(["sales"]);
  });

  it("[P-21] loads the best matches by words when nothing is triggered, but none that scores less than half of the best", async () => {
    const session = await sessionOf({
      invoice: { description: "Writes invoices for customers in euros." },
      customer: {
        description: "Keeps an eye on the many people who call us on the telephone, some of whom owe euros.",
      },
      garden: { description: "Waters plants." },
    });
    expect((await session.activate("write an invoice for customers in euros")).skills).toEqual(["invoice"]);
    expect(loaded(session)).toEqual(["invoice"]);
  });

  it("[P-21] loads several skills that match equally well, in a stable order", async () => {
    const skills = { one: { description: "Paints fences." }, two: { description: "Paints fences." } };
    const [first, second] = [await sessionOf(skills), await sessionOf(skills)];
    const names = (await first.activate("paint the fences")).skills;
    expect([...names].sort()).toEqual(["one", "two"]);
    expect((await second.activate("paint the fences")).skills).toEqual(names);
  });

  it("[P-21] loads at most max_skills skills, the best first", async () => {
    const many = Object.fromEntries(
      Array.from({ length: 8 }, (_, index) => [`s${index}`, { keywords: ["inbox"], body: `Text ${index}.` }]),
    );
    for (const [most, host] of [
      [3, {}],
      [1, atMost(1)],
      [5, atMost(5)],
    ] as const) {
      const session = await sessionOf(many, host);
      const { skills, result } = await session.activate("my inbox");
      expect(skills).toHaveLength(most);
      expect(loaded(session)).toEqual(skills);
      expect(result.text.match(/Text \d\./g)).toHaveLength(most);
    }
    const plain = await sessionOf(
      Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`s${index}`, { description: "Paints fences." }])),
      atMost(2),
    );
    expect((await plain.activate("paint fences")).skills).toHaveLength(2);
  });

  it("[P-21] reports in one line that nothing matches, and loads nothing", async () => {
    const session = await sessionOf({ mail: { keywords: ["inbox"] } });
    const { skills, result } = await session.activate("zzz\nqqq\u202e");
    expect(skills).toEqual([]);
    expect(result).toEqual({
      text: 'No skill fits "zzz qqq\\u{202e}". Call list_skills to see all skills.',
      isError: false,
      code: "no-match",
    });
    expect((await session.activate("")).result.code).toBe("no-match");
    expect(loaded(session)).toEqual([]);
  });

  it("[P-21] finds no skill that a model may not use, even if the topic names it", async () => {
    const session = await sessionOf(
      {
        person: { keywords: ["inbox"], more: { "disable-model-invocation": true } },
        secret: { keywords: ["inbox"], more: { sensitive: true } },
        off: { keywords: ["inbox"] },
        machine: { keywords: ["inbox"], more: { "user-invocable": false } },
      },
      {
        caller: {},
        settings: { ...DEFAULT_SETTINGS, skills: new Map([["off", { enabled: false, variables: new Map() }]]) },
      },
    );
    for (const topic of ["my inbox", "use the person skill for my inbox", "/secret inbox", "/off inbox"]) {
      const { skills, result } = await session.activate(topic, { again: true });
      expect({ topic, skills }).toEqual({ topic, skills: ["machine"] });
      expect(result.text).not.toMatch(/person|secret|off/);
    }
  });

  it("[P-21] reports a skill that failed next to the loaded ones, and is an error only if all failed", async () => {
    const broken = (name: string) => ({
      ...defineTestSkill(name, { keywords: ["inbox", name] }),
      async body(): Promise<string> {
        throw new SkillError("unreadable", { message: `${name} cannot be read`, fix: "put it back" });
      },
    });
    const catalog = await loadCatalog([
      createInlineSource([broken("bad"), defineTestSkill("good", { keywords: ["inbox"] })]),
    ]);
    const session = openSession(catalog);
    const both = await session.activate("my inbox");
    expect(both.skills).toEqual(["good"]);
    expect(both.result).toMatchObject({ isError: false, text: expect.stringContaining("bad cannot be read") });
    expect(both.result).not.toHaveProperty("code");
    const alone = await session.activate("bad");
    expect(alone).toMatchObject({ skills: [], result: { isError: true, code: "unreadable" } });
    expect(loaded(session)).toEqual(["good"]);
  });

  it("reports a skill that is already loaded, or repeats its text on request", async () => {
    const session = await sessionOf({ mail: { keywords: ["inbox"], body: "Read the mail." } });
    await session.activate("my inbox");
    const second = await session.activate("my inbox");
    expect(second.skills).toEqual(["mail"]);
    expect(second.result.text).toContain("is already loaded");
    expect((await session.activate("my inbox", { again: true })).result.text).toContain("Read the mail.");
    expect(loaded(session)).toEqual(["mail"]);
  });

  it("finds a skill that was created a moment ago", async () => {
    const skills = [defineTestSkill("mail", { keywords: ["inbox"] })];
    const source = { ...createInlineSource([]), load: async () => ({ skills: [...skills], diagnostics: [] }) };
    const session = openSession(await loadCatalog([source]));
    skills.push(defineTestSkill("post", { keywords: ["letterbox"] }));
    expect((await session.activate("the letterbox")).skills).toEqual(["post"]);
  });

  it("passes the topic to a skill with a forked context and returns its result", async () => {
    const { found, server } = await useScene({
      skills: { alone: { more: 'context: fork\ntriggers:\n  keywords: ["inbox"]\n', body: "Work alone." } },
      turns: [({ said }) => `I was asked: ${said.join(" | ")}`],
    });
    const session = openSession(found.catalog, found);
    const { skills, result } = await session.activate("count what is in my inbox");
    expect(skills).toEqual(["alone"]);
    expect(result.isError).toBe(false);
    expect(result.text).toContain("I was asked: count what is in my inbox");
    expect(loaded(session)).toEqual([]);
    expect(server.requests).toHaveLength(1);
  });
});
