import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createWireNames, formatWireName } from "../../src/skill/tool-names.ts";

const LEGAL = /^[a-zA-Z0-9_-]{1,64}$/;

// Few characters, so that names collide; then any characters.
const CLOSE = fc.string({ unit: fc.constantFrom("a", "b", ".", "_", "-", "é"), maxLength: 8 });
const ANY = fc.oneof(CLOSE, fc.string({ unit: "binary", maxLength: 90 }), fc.string({ maxLength: 90 }));

describe("a tool's name on the wire", () => {
  it.each([
    ["read_file", "read_file"],
    ["web.search", "web__search"],
    ["a.b.c", "a__b__c"],
    ["mcp__web__search", "mcp__web__search"],
  ])("%s is %s", (id, wire) => {
    expect(formatWireName(id)).toBe(wire);
  });

  it.each(["", "süß", "two words", "a/b", "a.b\n", "a_.b", "a._b", "a__b.c", `a.${"b".repeat(62)}`, "x".repeat(65)])(
    "%j has a hash, and the same prefix",
    (id) => {
      expect(formatWireName(id)).toMatch(/^[\w-]*_[a-z0-9]{2,14}$/);
      expect(formatWireName(id)).toMatch(LEGAL);
      expect(formatWireName(id).slice(0, 1)).toBe(id === "" ? "_" : id.slice(0, 1));
    },
  );

  it("is legal, deterministic, and unchanged when it is converted again", () => {
    fc.assert(
      fc.property(ANY, (id) => {
        expect(formatWireName(id)).toMatch(LEGAL);
        expect(formatWireName(id)).toBe(formatWireName(id));
        expect(formatWireName(formatWireName(id))).toBe(formatWireName(id));
      }),
    );
  });

  it("is unique among names with a dot", () => {
    const dotted = CLOSE.filter((id) => id.includes("."));
    fc.assert(
      fc.property(dotted, dotted, (one, other) => {
        fc.pre(one !== other);
        expect(formatWireName(one)).not.toBe(formatWireName(other));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("the names of a list of tools", () => {
  it("are legal, unique, and reversible", () => {
    fc.assert(
      fc.property(fc.uniqueArray(ANY, { maxLength: 40 }), (ids) => {
        const names = createWireNames(ids);
        const wires = ids.map(names.toWire);
        for (const wire of wires) expect(wire).toMatch(LEGAL);
        expect(new Set(wires).size).toBe(ids.length);
        expect(wires.map(names.toId)).toEqual(ids);
      }),
    );
  });

  it("do not depend on their order, nor on other tools", () => {
    fc.assert(
      fc.property(fc.uniqueArray(ANY, { maxLength: 20 }), (ids) => {
        const names = createWireNames(ids);
        const turned = createWireNames(ids.toReversed());
        for (const id of ids) expect(turned.toWire(id)).toBe(names.toWire(id));
        for (const id of ids.filter(
          (one) => !ids.some((other) => other !== one && formatWireName(other) === formatWireName(one)),
        ))
          expect(names.toWire(id)).toBe(formatWireName(id));
      }),
    );
  });

  it("give the hash to the one with a dot, and keep the legal one", () => {
    const names = createWireNames(["a.b", "a__b"]);
    expect(names.toWire("a__b")).toBe("a__b");
    expect(names.toWire("a.b")).toMatch(/^a_b_[a-z0-9]+$/);
    expect(names.toId("a__b")).toBe("a__b");
  });

  it("use another hash when a tool has the first one's name", () => {
    const taken = formatWireName("a b");
    const names = createWireNames(["a b", taken]);
    expect(names.toWire(taken)).toBe(taken);
    expect(names.toWire("a b")).not.toBe(taken);
    expect(names.toId(names.toWire("a b"))).toBe("a b");
  });

  it("do not resolve names of another list, and still create one for another's tool", () => {
    const names = createWireNames(["a.b"]);
    expect(names.toId("c__d")).toBeUndefined();
    expect(names.toWire("c.d")).toBe("c__d");
  });
});
