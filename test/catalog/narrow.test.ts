import { describe, expect, it } from "vitest";
import { type Catalog, filterCatalog, loadCatalog } from "../../src/catalog/catalog.ts";
import { createInlineSource, type Skill, type SkillScope, type Source } from "../../src/skill/skill.ts";
import { defineTestSkill } from "../support/skills.ts";

/** As sources provide them: with their origin. */
function place(name: string, scope: SkillScope, skills: readonly Skill[]): Source {
  const placed = skills.map((skill) => ({ ...skill, origin: { ...skill.origin, source: name, scope } }));
  return { ...createInlineSource(placed), name, scope, load: async () => ({ skills: placed, diagnostics: [] }) };
}

/** `mail` and `chat` are in two folders each; the workspace is nearer. */
async function twoPlaces(): Promise<Catalog> {
  return loadCatalog([
    place("own", "user", [defineTestSkill("mail"), defineTestSkill("chat"), defineTestSkill("note")]),
    place("near", "workspace", [defineTestSkill("mail"), defineTestSkill("chat")]),
  ]);
}

const ids = (skills: readonly Skill[]) => skills.map(({ name, origin }) => `${name}@${origin.source}`);

describe("a narrowed catalog", () => {
  it("has exactly the kept skills in every query", async () => {
    const whole = await twoPlaces();
    const catalog = filterCatalog(whole, ({ name }) => name !== "chat");
    expect(catalog.names()).toEqual(["mail", "note"]);
    expect(ids(catalog.skills)).toEqual(["mail@near", "note@own"]);
    expect(ids(catalog.shadowed)).toEqual(["mail@own"]);
    expect(["mail", "chat", "mail@own", "chat@own", "chat@near"].map((name) => catalog.has(name))).toEqual([
      true,
      false,
      true,
      false,
      false,
    ]);
    expect(catalog.find("chat")).toBeUndefined();
    expect(catalog.get("note")).toBe(whole.get("note"));
    expect(ids(catalog.copies("mail"))).toEqual(["mail@near", "mail@own"]);
    expect(catalog.copies("chat")).toEqual([]);
    expect(catalog.available().map(({ name }) => name)).toEqual(["mail", "note"]);
    expect(catalog.definitions().map(({ name }) => name)).toEqual(["mail", "note"]);
  });

  it("finds a kept copy by its path", async () => {
    const catalog = filterCatalog(await twoPlaces(), ({ name, origin }) => name !== "mail" || origin.source === "near");
    expect(catalog.get("mail@near").origin.source).toBe("near");
    expect(catalog.get("mail@workspace").origin.source).toBe("near");
    expect(catalog.find("mail@own")).toBeUndefined();
    expect(ids(catalog.copies("mail"))).toEqual(["mail@near"]);
    expect(ids(catalog.shadowed)).toEqual(["chat@own"]);
  });

  it("reveals no copy that an omitted one shadows", async () => {
    const catalog = filterCatalog(await twoPlaces(), ({ origin }) => origin.source === "own");
    expect(catalog.names()).toEqual(["note"]);
    for (const name of ["mail", "mail@own", "mail@user", "mail@near"]) expect(catalog.find(name), name).toBeUndefined();
    expect(catalog.copies("mail")).toEqual([]);
    expect(catalog.shadowed).toEqual([]);
  });

  it("does not suggest omitted names", async () => {
    const catalog = filterCatalog(await twoPlaces(), ({ name }) => name === "mail");
    const missing = (fields: object) => expect.objectContaining({ code: "not-found", ...fields });
    expect(() => catalog.get("mial")).toThrow(missing({ fix: expect.stringContaining('did you mean "mail"?') }));
    expect(() => catalog.get("chatt")).toThrow(missing({ fix: "list all skills", commands: ["skillet list"] }));
    expect(() => catalog.get("chat")).toThrow("Skill 'chat' not found");
  });

  it("stays narrow after a reload, for new skills too", async () => {
    const skills = [defineTestSkill("mail"), defineTestSkill("chat")];
    const source: Source = { name: "own", scope: "user", load: async () => ({ skills: [...skills], diagnostics: [] }) };
    const catalog = filterCatalog(await loadCatalog([source]), ({ name }) => name.startsWith("m"));
    skills.push(defineTestSkill("memo"), defineTestSkill("chess"));
    const again = await (await catalog.reload()).reload();
    expect(again.names()).toEqual(["mail", "memo"]);
    expect(again.has("chess")).toBe(false);
    expect(catalog.names(), "a snapshot stays what it was").toEqual(["mail"]);
  });

  it("checks again at each request: a skill that is no longer kept is not found", async () => {
    let isKept = true;
    const catalog = filterCatalog(await twoPlaces(), () => isKept);
    expect(catalog.has("mail")).toBe(true);
    isKept = false;
    expect(catalog.has("mail")).toBe(false);
    expect(catalog.copies("mail")).toEqual([]);
    expect(() => catalog.get("mail")).toThrow("not found");
  });

  it("reports availability like the whole catalog", async () => {
    const catalog = filterCatalog(await twoPlaces(), ({ name }) => name !== "chat");
    const isDenied = ({ name }: Skill) => (name === "mail" ? [{ code: "no" }] : []);
    expect(catalog.available(isDenied).map(({ name }) => name)).toEqual(["note"]);
    expect(catalog.definitions(isDenied)).toEqual([{ name: "note", description: "Skill note." }]);
  });

  it("keeps the definition of a skill whose name is escaped in a line", async () => {
    const spaced = { ...defineTestSkill("notes"), name: "my  notes" };
    const whole = await loadCatalog([place("own", "user", [spaced, defineTestSkill("chat")])]);
    const catalog = filterCatalog(whole, ({ name }) => name !== "chat");
    expect(catalog.available().map(({ name }) => name)).toEqual(["my  notes"]);
    expect(catalog.definitions().map(({ name }) => name)).toEqual(["my notes"]);
  });
});
