import { describe, expect, it } from "vitest";
import { createEmbeddedMatcher, type Embedder } from "../../src/catalog/search/embedder.ts";
import { defineTestSkill } from "../support/skills.ts";

/** A small embedder with a number for each topic, with words of several languages. */
const TOPICS = [
  ["invoice", "bill", "rechnung", "factura", "請求書"],
  ["slides", "presentation", "deck", "folien", "diapositivas"],
  ["soup", "cook", "kochen", "cocinar"],
];
const calls: number[] = [];
const embedder: Embedder = {
  async embed(texts) {
    calls.push(texts.length);
    return texts.map((text) => TOPICS.map((words) => words.filter((word) => text.toLowerCase().includes(word)).length));
  },
};
const SKILLS = [
  defineTestSkill("invoices", { description: "Writes an invoice.", keywords: ["dunning letter"] }),
  defineTestSkill("decks", { description: "Makes slides for a presentation.", negative: ["no slides"] }),
  defineTestSkill("soups", { description: "Cooks soup." }),
];
const namesFor = async (query: string, options = {}) =>
  (await createEmbeddedMatcher(SKILLS, embedder).match(query, options)).matches.map(({ skill }) => skill.name);

describe("a matcher with an embedder", () => {
  it("finds by meaning what words do not find, and reports that", async () => {
    const { matches, problem } = await createEmbeddedMatcher(SKILLS, embedder).match("Folien bitte");
    expect(matches.map(({ skill, level, reasons }) => ({ name: skill.name, level, reasons }))).toEqual([
      { name: "decks", level: "words", reasons: [{ kind: "meaning", text: "its description" }] },
    ]);
    expect(problem).toBeUndefined();
    expect(await namesFor("請求書")).toEqual(["invoices"]);
  });

  it("ranks common results first, and triggers before both", async () => {
    expect((await namesFor("cook a soup, then send the factura"))[0]).toBe("soups");
    expect(await namesFor("a dunning letter about the soup")).toEqual(["invoices", "soups"]);
  });

  it("omits skills that are refused, hidden or beyond the limit", async () => {
    expect(await namesFor("no slides: Folien")).toEqual([]);
    expect(await namesFor("Folien", { isVisible: () => false })).toEqual([]);
    expect(await namesFor("rechnung, folien, kochen", { limit: 2 })).toHaveLength(2);
    expect(await namesFor("rechnung", { limit: 0 })).toEqual([]);
  });

  it("embeds the skills once, in batches", async () => {
    const many = Array.from({ length: 130 }, (_, at) => defineTestSkill(`s${at}`, { description: `Soup ${at}.` }));
    const matcher = createEmbeddedMatcher(many, embedder);
    calls.length = 0;
    await matcher.match("soup");
    expect(calls).toEqual([64, 64, 2, 1]);
    await matcher.match("soup");
    expect(calls).toEqual([64, 64, 2, 1, 1]);
  });

  it.each<[string, Embedder["embed"], RegExp]>([
    ["fails", async () => Promise.reject(new Error("no connection")), /no connection/],
    ["returns too few vectors", async () => [], /0 vectors for 3 texts/],
    ["returns another type", async (texts) => texts.map(() => [Number.NaN]), /contains a non-finite number/],
    [
      "returns vectors of several lengths",
      async (texts) => texts.map((text) => Array(text.length).fill(1)),
      /vectors of/,
    ],
  ])("ranks by words when the embedder %s, and reports why", async (_, embed, problem) => {
    const result = await createEmbeddedMatcher(SKILLS, { embed }).match("an invoice");
    expect(result.matches.map(({ skill }) => skill.name)).toEqual(["invoices"]);
    expect(result.problem).toMatch(problem);
  });

  it("tries again after a failure", async () => {
    let isDown = true;
    const matcher = createEmbeddedMatcher(SKILLS, {
      embed: async (texts) => (isDown ? Promise.reject(new Error("down")) : embedder.embed(texts)),
    });
    expect((await matcher.match("Folien")).problem).toBe("down");
    isDown = false;
    expect((await matcher.match("Folien")).matches).toHaveLength(1);
  });
});
