import { describe, expect, it } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { createSharedCatalog } from "../../src/agent/session/session-disclosure.ts";
import { type Catalog, loadCatalog } from "../../src/catalog/catalog.ts";
import type { Skill, Source } from "../../src/skill/skill.ts";
import { defineTestSkill } from "../support/skills.ts";

interface Changing {
  catalog: Catalog;
  /** How often it was read. */
  reads(): number;
  /** The result of the next reading. */
  set(skills: readonly Skill[] | Error): void;
  /** The clock, in milliseconds. Only a reading advances it. */
  now(): number;
  wait(ms: number): void;
}

/** A catalog over a source that a test changes. */
async function changing(skills: readonly Skill[], takes = 0): Promise<Changing> {
  let [now, reads]: [readonly Skill[] | Error, number] = [skills, 0];
  let time = 1000;
  const source: Source = {
    name: "changing",
    scope: "user",
    async load() {
      reads++;
      const read = now;
      await new Promise((resolve) => setImmediate(resolve));
      time += takes;
      if (read instanceof Error) throw read;
      return { skills: read, diagnostics: [] };
    },
  };
  const catalog = await loadCatalog([source]);
  reads = 0;
  return {
    catalog,
    reads: () => reads,
    set(next) {
      now = next;
    },
    now: () => time,
    wait(ms) {
      time += ms;
    },
  };
}

describe("a catalog for many conversations", () => {
  it("is read once for all concurrent requests, and again for later ones", async () => {
    const { catalog, reads, now } = await changing([defineTestSkill("a")]);
    const { catalog: shared } = createSharedCatalog(catalog, now);
    const all = await Promise.all(Array.from({ length: 50 }, () => shared.reload()));
    expect(reads()).toBe(1);
    expect(new Set(all)).toEqual(new Set([shared]));
    await shared.reload();
    expect(reads()).toBe(2);
  });

  it("stays the same object while it is unchanged, and is the same new one for all after a change", async () => {
    const { catalog, set, now } = await changing([defineTestSkill("a")]);
    const { catalog: shared } = createSharedCatalog(catalog, now);
    set([defineTestSkill("a")]);
    expect(await shared.reload()).toBe(shared);
    set([defineTestSkill("a"), defineTestSkill("b")]);
    const [one, two] = [await shared.reload(), await shared.reload()];
    expect(one).not.toBe(shared);
    expect(two).toBe(one);
    expect(await one.reload(), "from the new one too").toBe(one);
    expect(one.names()).toEqual(["a", "b"]);
    expect(shared.names(), "a snapshot stays what it was").toEqual(["a"]);
    set([defineTestSkill("a", { description: "Another." }), defineTestSkill("b")]);
    expect((await shared.reload()).get("a").description).toBe("Another.");
  });

  it("continues after a source that failed", async () => {
    const { catalog, set, now } = await changing([defineTestSkill("a")]);
    const { catalog: shared } = createSharedCatalog(catalog, now);
    set(new Error("gone"));
    expect((await shared.reload()).diagnostics).toMatchObject([{ code: "source-failed" }]);
    set([defineTestSkill("a"), defineTestSkill("c")]);
    expect((await shared.reload()).names()).toEqual(["a", "c"]);
  });

  it("continues after a reading that threw, and all waiting callers get the error", async () => {
    const { catalog, now } = await changing([defineTestSkill("a")]);
    let isBroken = true;
    const failing: Catalog = {
      ...catalog,
      reload: () => (isBroken ? Promise.reject(new Error("broken")) : catalog.reload()),
    };
    const { catalog: shared } = createSharedCatalog(failing, now);
    const both = await Promise.allSettled([shared.reload(), shared.reload()]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    isBroken = false;
    expect((await shared.reload()).names()).toEqual(["a"]);
  });

  it("is one object in all sessions over it, even after each has refreshed", async () => {
    const { catalog, set, now } = await changing([defineTestSkill("a")]);
    const { catalog: shared } = createSharedCatalog(catalog, now);
    const sessions = Array.from({ length: 5 }, () => openSession(shared));
    set([defineTestSkill("b")]);
    for (const session of sessions) await session.call("list_skills", {});
    expect(new Set(sessions.map((session) => session.catalog)).size).toBe(1);
    expect(sessions[4]?.catalog.names()).toEqual(["b"]);
  });
});

describe("a catalog for many conversations that takes long to read", () => {
  it.each([
    [20, 0],
    [21, 189],
    [100, 900],
    [222, 1998],
    [223, 2000],
    [5000, 2000],
  ])("that took %i ms is not read again for %i ms by any caller", async (takes, rests) => {
    const { catalog, reads, set, now, wait } = await changing([defineTestSkill("a")], takes);
    const { catalog: shared } = createSharedCatalog(catalog, now);
    const before = await shared.reload();
    expect(reads()).toBe(1);
    set([defineTestSkill("b")]);
    if (rests > 0) {
      for (let times = 0; times < 10; times++) expect(await shared.reload()).toBe(before);
      wait(rests - 1);
      expect(await shared.reload()).toBe(before);
      expect(reads()).toBe(1);
      wait(1);
    }
    expect((await shared.reload()).names()).toEqual(["b"]);
    expect(reads()).toBe(2);
  });

  it("is read at once after a change, which all see from then on", async () => {
    const { catalog, reads, set, now } = await changing([defineTestSkill("a")], 100);
    const { catalog: shared, reloadNow: renew } = createSharedCatalog(catalog, now);
    await shared.reload();
    set([defineTestSkill("b")]);
    const renewed = await renew();
    expect(renewed.names()).toEqual(["b"]);
    expect(await shared.reload()).toBe(renewed);
    expect(await renewed.reload()).toBe(renewed);
    expect(reads()).toBe(2);
  });

  it("is read once more after changes during a reading, once for all of them", async () => {
    const { catalog, reads, set, now } = await changing([defineTestSkill("a")], 100);
    const { catalog: shared, reloadNow: renew } = createSharedCatalog(catalog, now);
    const early = shared.reload();
    set([defineTestSkill("b")]);
    const both = [renew(), renew()];
    expect((await early).names()).toEqual(["a"]);
    expect((await Promise.all(both)).map((each) => each.names())).toEqual([["b"], ["b"]]);
    expect(reads()).toBe(2);
    expect((await shared.reload()).names()).toEqual(["b"]);
  });

  it("returns the same failure to all during the pause, and continues afterwards", async () => {
    const { catalog, now, wait } = await changing([defineTestSkill("a")]);
    let tries = 0;
    const failing: Catalog = {
      ...catalog,
      async reload() {
        wait(100);
        if (tries++ === 0) throw new Error("broken");
        return catalog.reload();
      },
    };
    const { catalog: shared, reloadNow: renew } = createSharedCatalog(failing, now);
    await expect(shared.reload()).rejects.toThrow("broken");
    await expect(shared.reload()).rejects.toThrow("broken");
    expect(tries).toBe(1);
    expect((await renew()).names()).toEqual(["a"]);
    expect((await shared.reload()).names()).toEqual(["a"]);
    expect(tries).toBe(2);
  });

  it("is not read again for every unknown name", async () => {
    const { catalog, reads, now } = await changing([defineTestSkill("a")], 300);
    const session = openSession(createSharedCatalog(catalog, now).catalog);
    for (let times = 0; times < 10; times++) await session.call("load_skill", { skill: `unknown-${times}` });
    expect(reads()).toBe(1);
  });
});
