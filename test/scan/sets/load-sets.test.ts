import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { HALVES, type Half, type Label, loadSecondSet, loadSets, parseSamples, splitByHash } from "./load-sets.ts";

const samples = loadSets();
const count = (label: Label, half: Half, isHard?: boolean) =>
  samples.filter(
    (sample) => sample.label === label && sample.half === half && (isHard === undefined || sample.isHard === isHard),
  ).length;
const digest = (lines: readonly string[]) => createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 16);

describe("the evaluation set of the scanner", () => {
  it("has as many malicious and ordinary skills in each half as its README says", () => {
    expect(HALVES.map((half) => [half, count("malicious", half), count("ordinary", half)])).toEqual([
      ["tuning", 88, 204],
      ["held-out", 88, 203],
    ]);
    expect(HALVES.map((half) => count("ordinary", half, true))).toEqual([91, 93]);
  });

  it("has each class, with its labels, in both halves", () => {
    const groups = (half: Half) =>
      [...new Set(samples.filter((sample) => sample.half === half).map((s) => `${s.class} ${s.label}`))].sort();
    expect(groups("tuning")).toEqual(groups("held-out"));
    expect(new Set(samples.map((sample) => sample.class)).size).toBe(41);
    const malicious = samples.filter((sample) => sample.label === "malicious");
    const sizes = Map.groupBy(malicious, (sample) => `${sample.class} ${sample.half}`);
    expect(sizes.size).toBe(2 * 22);
    expect([...sizes.values()].every((group) => group.length === 4)).toBe(true);
  });

  it("has unique names, and a frontmatter with the name and a description in each SKILL.md", () => {
    expect(new Set(samples.map((sample) => sample.name)).size).toBe(samples.length);
    for (const { name, files } of samples) {
      expect(files[0]?.path, name).toBe("SKILL.md");
      expect(files[0]?.text, name).toMatch(/^---\nname: (\S+)\ndescription: \S.{20,}\n[\s\S]*?^---\n\n?\S/m);
      expect(files[0]?.text, name).toContain(`\nname: ${name}\n`);
      expect(new Set(files.map((file) => file.path)).size, name).toBe(files.length);
      expect(files.filter((file) => file.text.trim() === "")).toEqual([]);
    }
  });

  it("is split by the hash of the names, and neither the split nor a text has changed since", () => {
    const halves = splitByHash(samples);
    expect(samples.filter((sample) => halves.get(sample.name) !== sample.half)).toEqual([]);
    const lines = (half: Half) =>
      samples
        .filter((sample) => sample.half === half)
        .map((sample) => JSON.stringify([sample.name, sample.label, sample.class, sample.isHard, sample.files]))
        .sort();
    expect(HALVES.map((half) => digest(lines(half)))).toEqual(["feb230d5c8fb7775", "ecc113e97e70099e"]);
  });

  it.each([
    { half: "tuning", malicious: 81, ordinary: 167, pinned: "cdaec7e2ef7b6970", parity: 0 },
    { half: "held-out", malicious: 81, ordinary: 156, pinned: "a252444b29ee58dc", parity: 1 },
  ] as const)(
    "has a second set, of whose $half half no text has changed",
    ({ half, malicious, ordinary, pinned, parity }) => {
      const second = loadSecondSet(half);
      expect(second.filter(({ label }) => label === "malicious").length).toBe(malicious);
      expect(second.filter(({ label }) => label === "ordinary").length).toBe(ordinary);
      const paths = new Set(second.map(({ name, label }) => `${label}/${name}`));
      expect(paths.size).toBe(malicious + ordinary);
      for (const path of paths)
        expect((createHash("sha256").update(path).digest()[0] as number) % 2, path).toBe(parity);
      for (const { name, files } of second) {
        expect(files[0]?.path, name).toBe("SKILL.md");
        expect(files[0]?.text, name).toMatch(/^---\nname: \S+\n/);
      }
      const lines = second
        .map((sample) => JSON.stringify([sample.name, sample.label, sample.class, sample.files]))
        .sort();
      expect(digest(lines)).toBe(pinned);
    },
  );

  it("expands the notations for invisible and encoded text, and refuses a bad header", () => {
    const [sample] = parseSamples(
      "=== ordinary a-b (hard)\nx{{U+200B}}y {{base64:echo}} {{hex:ab}} {{charcodes:ab}} {{tags:A}}|{{spaces:3}}|{{name}}\n--- scripts/a.sh\necho\n",
      "c",
      "tuning",
    );
    expect(sample).toEqual({
      name: "a-b",
      label: "ordinary",
      class: "c",
      isHard: true,
      half: "tuning",
      files: [
        { path: "SKILL.md", text: "x\u200by ZWNobw== 6162 97, 98 \u{e0041}|   |{{name}}\n" },
        { path: "scripts/a.sh", text: "echo\n" },
      ],
    });
    expect(() => parseSamples("text\n=== ordinary a\n", "c", "tuning")).toThrow("bad header: text");
    expect(() => parseSamples("=== harmless a\n", "c", "tuning")).toThrow("bad header");
  });
});
