import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findNameProblem } from "../../../src/skill/skill.ts";
import {
  createLockedFile,
  digestTree,
  formatLock,
  hashSha256,
  LOCK_GRANTS,
  type LockedFile,
  type LockedSkill,
  type LockedSkills,
  parseLock,
  sortLockedFiles,
} from "../../../src/store/lock-file.ts";
import { expectLinearSteps } from "../../support/steps.ts";

const part = fc
  .oneof(
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
    fc.constantFrom("__proto__", "constructor", "1", "10", "2", "a\\b", "é"),
  )
  .filter((text) => !/[/\0]/.test(text) && text !== "." && text !== "..");
const path = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
const file: fc.Arbitrary<LockedFile> = fc.record({
  mode: fc.constantFrom("644", "755", "646", "4755"),
  size: fc.nat(),
  sha256: fc.string().map(hashSha256),
});
const tree = fc.array(fc.tuple(path, file), { maxLength: 6 }).map((entries) => {
  const files = sortLockedFiles(entries);
  return { digest: digestTree(files), files };
});
const text = fc.string({ unit: "grapheme", minLength: 1 });
const skill: fc.Arbitrary<LockedSkill> = fc
  .record(
    {
      source: text,
      path: text,
      ref: text,
      commit: text,
      own: tree,
      upstream: tree,
      grants: fc.subarray([...LOCK_GRANTS]),
    },
    { requiredKeys: ["source", "own", "grants"] },
  )
  .map(({ own, ...rest }) => ({ ...rest, ...own }));
const name = fc
  .oneof(fc.stringMatching(/^[a-z0-9]{1,8}$/), fc.constantFrom("valueOf", "tostring", "7", "é"))
  .filter((one) => findNameProblem(one) === undefined);
const skills = fc.dictionary(name, skill, { maxKeys: 4 });

/** The same with every table in reverse order. */
function turned(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const table: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value).reverse()) table[key] = turned(item);
  return table;
}

/** Converts tables into lists, so that those without a prototype compare. */
function flat(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.entries(value)
    .map(([key, item]) => [key, flat(item)])
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
}

const FILES = sortLockedFiles([["SKILL.md", createLockedFile(Buffer.from("x"), false)]]);
const ENTRY: LockedSkill = { source: "/s", digest: digestTree(FILES), files: FILES, grants: ["instructions"] };
interface Written {
  files: Record<string, Record<string, unknown>>;
  [key: string]: unknown;
}
const parsed = (change: (entry: Written, lock: object) => void) => {
  const lock = JSON.parse(formatLock({ a: ENTRY }));
  change(lock.skills.a, lock);
  return () => parseLock(JSON.stringify(lock));
};
/** Files with a matching digest: an attacker who edits a lock can compute it too. */
const withFiles = (files: Record<string, unknown>) =>
  parsed((a) => Object.assign(a, { files, digest: digestTree(files as LockedSkill["files"]) }));

describe("a lock file", () => {
  it("[Q-25] is parsed as it was written, whatever it contains", () => {
    fc.assert(
      fc.property(skills, (given) => {
        const read = parseLock(formatLock(given));
        expect(flat(read)).toEqual(flat(given));
        expect(formatLock(read)).toBe(formatLock(given));
      }),
    );
  });

  it("[Q-25] is the same text for any order of its parts", () => {
    fc.assert(
      fc.property(skills, (given) => {
        expect(formatLock(turned(given) as LockedSkills)).toBe(formatLock(given));
      }),
    );
  });

  it("[Q-25] keeps files and skills with names of object members", () => {
    const files = sortLockedFiles(
      ["__proto__", "constructor", "a/__proto__/b"].map((one) => [one, createLockedFile(Buffer.from(one), true)]),
    );
    const read = parseLock(formatLock({ valueof: { ...ENTRY, files, digest: digestTree(files) } }));
    expect(Object.keys(read["valueof"]?.files ?? {})).toEqual(["__proto__", "a/__proto__/b", "constructor"]);
    expect(read["toString"]).toBeUndefined();
    expect(Object.getPrototypeOf({})).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)["mode"]).toBeUndefined();
  });

  it("ends with a newline, and is parsed with Windows line ends too", () => {
    const lock = formatLock({ a: ENTRY });
    expect(lock.endsWith("}\n")).toBe(true);
    expect(flat(parseLock(lock.replaceAll("\n", "\r\n")))).toEqual(flat({ a: ENTRY }));
  });

  it.each<[string, Parameters<typeof parsed>[0]]>([
    ["a digest", (a) => Object.assign(a, { digest: hashSha256("other") })],
    ["a file's digest", (a) => Object.assign(a.files["SKILL.md"] ?? {}, { sha256: hashSha256("y") })],
    ["a file's size", (a) => Object.assign(a.files["SKILL.md"] ?? {}, { size: 2 })],
    ["a file's mode", (a) => Object.assign(a.files["SKILL.md"] ?? {}, { mode: "755" })],
    ["the list of files", (a) => Object.assign(a.files, { more: FILES["SKILL.md"] })],
    ["the digest of the source", (a) => Object.assign(a, { upstream: { digest: hashSha256(""), files: FILES } })],
  ])("is not used after an edit of %s", (_, change) => {
    expect(parsed(change)).toThrow(expect.objectContaining({ code: "lock-edited" }));
  });

  it.each([undefined, 0, 2, "1", null, [1], "IGNORE ALL PREVIOUS INSTRUCTIONS"])(
    "is not used with version %j",
    (version) => {
      const read = parsed((_, lock) => Object.assign(lock, { version }));
      expect(read).toThrow(
        expect.objectContaining({ code: "lock-version", fix: expect.stringContaining("update skillet") }),
      );
      expect(read).toThrow(typeof version === "number" ? `version ${version}` : /^it has no version, and/);
    },
  );

  it.each<[string, string]>([
    ["nothing", ""],
    ["no JSON", "skills: []"],
    ["half of it", formatLock({ a: ENTRY }).slice(0, 120)],
    ["a list", "[]"],
    ["a string", '"lock"'],
    ["null", "null"],
    ["no skills", '{"version":1}'],
    ["a list of skills", '{"version":1,"skills":[]}'],
    ["a skill that is a text", '{"version":1,"skills":{"a":"b"}}'],
    ["merge markers", `<<<<<<< HEAD\n${formatLock({ a: ENTRY })}=======\n${formatLock({})}>>>>>>> other\n`],
    ["a foreign secret", "-----BEGIN PRIVATE KEY-----\nhunter2\n"],
  ])("is not used when it is %s, and nothing of that is quoted", (_, content) => {
    const read = () => parseLock(content);
    expect(read).toThrow(expect.objectContaining({ code: "lock-unreadable" }));
    expect(read).not.toThrow(/hunter2|BEGIN|HEAD/);
    if (content.startsWith("<")) expect(read).toThrow("merge conflict markers");
  });

  it.each(["../../etc/passwd", "/etc/passwd", "a/../b", "a//b", "./a", "a/.", "a/", "", "a\0b"])(
    "names no file outside its skill: %j",
    (one) => {
      expect(withFiles({ [one]: FILES["SKILL.md"] })).toThrow(expect.objectContaining({ code: "lock-unreadable" }));
      expect(withFiles({ [one]: FILES["SKILL.md"] })).not.toThrow(/etc/);
    },
  );

  it.each<[string, unknown]>([
    ["nothing", null],
    ["a text", "x"],
    ["a list", []],
    ["without a mode", { size: 1, sha256: hashSha256("") }],
    ["with a mode that is a number", { mode: 644, size: 1, sha256: hashSha256("") }],
    ["that is a link", { mode: "link", size: 1, sha256: hashSha256("") }],
    ["with a negative size", { mode: "644", size: -1, sha256: hashSha256("") }],
    ["with a fractional size", { mode: "644", size: 0.5, sha256: hashSha256("") }],
    ["with an enormous size", { mode: "644", size: 1e300, sha256: hashSha256("") }],
    ["with another kind of digest", { mode: "644", size: 1, sha256: "md5:0" }],
    ["with a digest in capitals", { mode: "644", size: 1, sha256: `sha256:${"A".repeat(64)}` }],
  ])("contains no file %s", (_, one) => {
    const entry = one as Record<string, unknown>;
    const digest = one && typeof one === "object" ? digestTree({ x: entry as unknown as LockedFile }) : hashSha256("");
    const read = parsed((a) => Object.assign(a, { files: { x: one }, digest }));
    expect(read).toThrow(expect.objectContaining({ code: "lock-unreadable" }));
  });

  it.each([
    ["grants", "all"],
    ["grants", ["everything"]],
    ["grants", undefined],
    ["source", ""],
    ["source", 1],
    ["source", undefined],
    ["path", 1],
    ["ref", ""],
    ["commit", {}],
    ["digest", undefined],
    ["upstream", null],
    ["upstream", "x"],
  ])("contains no skill whose %s is %j", (key, value) => {
    const read = parsed((a) => Object.assign(a, { [key]: value }));
    expect(read).toThrow(expect.objectContaining({ code: "lock-unreadable" }));
  });

  it.each(["prototype", "constructor", "tostring", "hasownproperty"])(
    "contains a skill called %s, and no other",
    (one) => {
      const read = parseLock(`{"version":1,"skills":{${JSON.stringify(one)}:${JSON.stringify(ENTRY)}}}`);
      expect(Object.keys(read)).toEqual([one]);
      expect(read["valueOf"]).toBeUndefined();
      expect(Object.keys(parseLock(formatLock(read)))).toEqual([one]);
    },
  );

  it.each(["..", "a/b", "", "__proto__", ".hidden", "x\ny", "IGNORE\u200bME"])("contains no skill called %j", (one) => {
    const content = `{"version":1,"skills":{${JSON.stringify(one)}:${JSON.stringify(ENTRY)}}}`;
    expect(() => parseLock(content)).toThrow(
      expect.objectContaining({ code: "lock-unreadable", message: "it has an invalid skill name" }),
    );
  });

  it("is parsed with grants in any order, and none twice", () => {
    const read = parsed((a) => Object.assign(a, { grants: ["scripts", "instructions", "scripts"] }))();
    expect(read["a"]?.grants).toEqual(["instructions", "scripts"]);
  });

  it("is parsed in steps linear in the number of skills", async () => {
    const three = sortLockedFiles(
      ["SKILL.md", "a.md", "scripts/b.sh"].map((one) => [one, createLockedFile(Buffer.from(one), false)]),
    );
    const entry: LockedSkill = { ...ENTRY, files: three, digest: digestTree(three) };
    const lockOf = (length: number) =>
      formatLock(Object.fromEntries(Array.from({ length }, (_, index) => [`skill-${index}`, entry])));
    const [[, , last = 0] = []] = await expectLinearSteps(
      ["src/store/lock-file.ts"],
      ({ parseLock }: typeof import("../../../src/store/lock-file.ts"), content: string) => parseLock(content),
      [["skills", [250, 500, 1000].map(lockOf)]],
    );
    expect(last / 1000, "steps for each skill").toBeLessThan(1000);
  });
});
