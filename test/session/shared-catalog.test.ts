import { describe, expect, it } from "vitest";
import { type Catalog, openCatalog } from "../../src/catalog/catalog.ts";
import { openSession } from "../../src/session/session.ts";
import { shareCatalog } from "../../src/session/shared-catalog.ts";
import type { Skill } from "../../src/skill/skill.ts";
import type { Source } from "../../src/source/source.ts";
import { sketch } from "../support/skills.ts";

interface Changing {
  catalog: Catalog;
  /** How often it was read. */
  reads(): number;
  /** What the next reading gives. */
  set(skills: readonly Skill[] | Error): void;
}

/** A catalog over a source that a test changes. */
async function changing(skills: readonly Skill[]): Promise<Changing> {
  let [now, reads]: [readonly Skill[] | Error, number] = [skills, 0];
  const source: Source = {
    name: "changing",
    scope: "user",
    async load() {
      reads++;
      await new Promise((resolve) => setImmediate(resolve));
      if (now instanceof Error) throw now;
      return { skills: now, diagnostics: [] };
    },
  };
  const catalog = await openCatalog([source]);
  reads = 0;
  return {
    catalog,
    reads: () => reads,
    set(next) {
      now = next;
    },
  };
}

describe("a catalog for many conversations", () => {
  it("is read once for all who ask at once, and again for who asks later", async () => {
    const { catalog, reads } = await changing([sketch("a")]);
    const shared = shareCatalog(catalog);
    const all = await Promise.all(Array.from({ length: 50 }, () => shared.reload()));
    expect(reads()).toBe(1);
    expect(new Set(all)).toEqual(new Set([shared]));
    await shared.reload();
    expect(reads()).toBe(2);
  });

  it("stays the same object as long as it says the same, and is the same new one for all when it does not", async () => {
    const { catalog, set } = await changing([sketch("a")]);
    const shared = shareCatalog(catalog);
    set([sketch("a")]);
    expect(await shared.reload()).toBe(shared);
    set([sketch("a"), sketch("b")]);
    const [one, two] = [await shared.reload(), await shared.reload()];
    expect(one).not.toBe(shared);
    expect(two).toBe(one);
    expect(await one.reload(), "from the new one too").toBe(one);
    expect(one.names()).toEqual(["a", "b"]);
    expect(shared.names(), "a snapshot stays what it was").toEqual(["a"]);
    set([sketch("a", { description: "Another." }), sketch("b")]);
    expect((await shared.reload()).get("a").description).toBe("Another.");
  });

  it("goes on after a source that failed", async () => {
    const { catalog, set } = await changing([sketch("a")]);
    const shared = shareCatalog(catalog);
    set(new Error("gone"));
    expect((await shared.reload()).diagnostics).toMatchObject([{ code: "source-failed" }]);
    set([sketch("a"), sketch("c")]);
    expect((await shared.reload()).names()).toEqual(["a", "c"]);
  });

  it("goes on after a reading that threw, which all who waited for it learn", async () => {
    const { catalog } = await changing([sketch("a")]);
    let isBroken = true;
    const failing: Catalog = {
      ...catalog,
      reload: () => (isBroken ? Promise.reject(new Error("broken")) : catalog.reload()),
    };
    const shared = shareCatalog(failing);
    const both = await Promise.allSettled([shared.reload(), shared.reload()]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    isBroken = false;
    expect((await shared.reload()).names()).toEqual(["a"]);
  });

  it("is one object in all sessions over it, also after each has looked again", async () => {
    const { catalog, set } = await changing([sketch("a")]);
    const shared = shareCatalog(catalog);
    const sessions = Array.from({ length: 5 }, () => openSession(shared));
    set([sketch("b")]);
    for (const session of sessions) await session.call("list_skills", {});
    expect(new Set(sessions.map((session) => session.catalog)).size).toBe(1);
    expect(sessions[4]?.catalog.names()).toEqual(["b"]);
  });
});
