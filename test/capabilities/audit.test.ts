import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createAuditLog, hashAuditLine, stringifyCanonical } from "../../src/capabilities/audit-log.ts";
import type { AuditEntry } from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { countSteps } from "../support/steps.ts";

const entry: AuditEntry = { run: "r_1", skill: "notes", source: "user", method: "invoke", outcome: "ok" };

/** A log of five lines, and what its file says. */
function logOfFive() {
  const home = temporaryFolder();
  const audit = createAuditLog(home);
  for (let number = 1; number <= 5; number++) audit.add({ ...entry, operation: `op${number}` });
  const lines = () => readFileSync(audit.file, "utf8").trimEnd().split("\n");
  const write = (changed: string[]) => writeFileSync(audit.file, `${changed.join("\n")}\n`);
  return { home, audit, lines, write };
}

describe("the audit log", () => {
  it("writes lines that are tied to each other, for the user alone", () => {
    const { home, audit, lines } = logOfFive();
    const parsed = lines().map((line) => JSON.parse(line));
    expect(parsed.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    expect(parsed[0].prev).toBe("0".repeat(64));
    for (const [index, line] of parsed.entries()) {
      expect(line.hash).toBe(hashAuditLine(line));
      if (index > 0) expect(line.prev).toBe(parsed[index - 1].hash);
    }
    expect(statSync(audit.file).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "audit.head")).mode & 0o777).toBe(0o600);
    expect(audit.verify()).toEqual({ isWhole: true, lines: 5, head: parsed[4].hash });
    expect([...audit.read()]).toEqual(parsed);
  });

  it("is whole when nothing was ever asked, and makes nothing to say so", () => {
    const home = join(temporaryFolder(), "none");
    expect(createAuditLog(home).verify()).toEqual({ isWhole: true, lines: 0, head: "0".repeat(64) });
    expect([...createAuditLog(home).read()]).toEqual([]);
    expect(existsSync(home)).toBe(false);
  });

  const swapped = ([a = "", b = "", ...rest]: string[]) => [b, a, ...rest];
  it.each<[string, (lines: string[]) => string[], number, RegExp]>([
    ["edited", (lines) => lines.with(2, String(lines[2]).replace("op3", "op9")), 3, /line 3 was edited/],
    ["respelled", (lines) => lines.with(2, String(lines[2]).replace(",", ", ")), 3, /line 3 was edited/],
    [
      "given a key twice",
      (lines) => lines.with(2, `{"skill":"x",${String(lines[2]).slice(1)}`),
      3,
      /line 3 was edited/,
    ],
    ["removed", (lines) => lines.toSpliced(2, 1), 3, /line 3 is number 4 but follows number 2: 1 line before it was/],
    ["removed at the start", (lines) => lines.slice(2), 1, /line 1 is number 3 .*: 2 lines before it were removed/],
    ["inserted", (lines) => lines.toSpliced(2, 0, String(lines[0])), 3, /line 3 is number 1 .* repeated or moved/],
    ["moved", swapped, 1, /line 1 is number 2/],
    ["cut off at the end", (lines) => lines.slice(0, 3), 4, /2 lines at the end are missing: the last was number 5/],
    ["emptied", () => [], 1, /line 1 is not an audit entry/],
    ["no JSON", (lines) => lines.with(3, "nothing"), 4, /line 4 is not an audit entry/],
    ["an empty line", (lines) => lines.toSpliced(1, 0, ""), 2, /line 2 is not an audit entry/],
    ["of another shape", (lines) => lines.with(3, '{"seq":4}'), 4, /line 4 is not an audit entry/],
    ["longer than any", (lines) => lines.with(3, `{"at":"${"x".repeat(200_000)}`), 4, /line 4 is not an audit entry/],
  ])("finds a line that was %s", (_, change, line, message) => {
    const { audit, lines, write } = logOfFive();
    write(change(lines()));
    expect(audit.verify()).toMatchObject({ isWhole: false, line, message: expect.stringMatching(message) });
  });

  it("finds a line that was edited together with its own hash", () => {
    const { audit, lines, write } = logOfFive();
    const forge = (text: string | undefined) => {
      const line = { ...JSON.parse(text ?? ""), outcome: "denied" };
      return stringifyCanonical({ ...line, hash: hashAuditLine(line) });
    };
    write(lines().with(2, forge(lines()[2])));
    expect(audit.verify()).toMatchObject({
      isWhole: false,
      line: 4,
      message: expect.stringMatching(/does not follow/),
    });
    const { audit: other, lines: others, write: writeOther } = logOfFive();
    writeOther(others().with(4, forge(others()[4])));
    expect(other.verify()).toMatchObject({ isWhole: false, line: 5, message: expect.stringMatching(/was replaced/) });
  });

  it("finds that the log or its head is gone", () => {
    const { home, audit } = logOfFive();
    const head = readFileSync(join(home, "audit.head"));
    rmSync(join(home, "audit.head"));
    expect(audit.verify()).toMatchObject({ isWhole: false, message: expect.stringMatching(/audit\.head is missing/) });
    writeFileSync(join(home, "audit.head"), "{}");
    expect(audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/audit\.head cannot be read/),
    });
    writeFileSync(join(home, "audit.head"), head);
    rmSync(audit.file);
    expect(audit.verify()).toMatchObject({ isWhole: false, message: "the log is missing; it had 5 lines" });
  });

  it.each<[string, (lines: string[]) => string[], RegExp]>([
    ["cut its end off", (lines) => lines.slice(0, 3), /line 4 is number 6 .*: 2 lines before it were removed/],
    ["removed it", () => [], /line 1 is number 6/],
  ])("still finds that somebody %s when lines came after it, of this process and of another", (_, change, message) => {
    for (const isOther of [false, true]) {
      const { home, audit, lines } = logOfFive();
      const kept = change(lines());
      writeFileSync(audit.file, kept.map((line) => `${line}\n`).join(""));
      (isOther ? createAuditLog(home) : audit).add(entry);
      expect(audit.verify()).toMatchObject({ isWhole: false, message: expect.stringMatching(message) });
    }
  });

  it("tells a line whose writer was stopped from one that was tampered with", () => {
    const { home, audit, lines } = logOfFive();
    const [torn = ""] = lines();
    appendFileSync(audit.file, torn.slice(0, 40));
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 5, torn: [6] });
    createAuditLog(home).add(entry);
    audit.add(entry);
    expect(lines()).toHaveLength(8);
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 7, torn: [6] });
    expect([...audit.read()].map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it.each([{}, { account: "ada" }, { approval: "apr_1" }])("knows such a line, whatever it begins with: %j", (more) => {
    const audit = createAuditLog(temporaryFolder());
    audit.add({ ...entry, ...more });
    appendFileSync(audit.file, readFileSync(audit.file, "utf8").slice(0, 40));
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 1, torn: [2] });
  });

  it("does not take a last line that was cut in half for one whose writer was stopped", () => {
    const { audit } = logOfFive();
    writeFileSync(audit.file, readFileSync(audit.file, "utf8").slice(0, -50));
    expect(audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/1 line at the end is missing/),
    });
  });

  it("goes on after a writer that was killed between the line and the head", () => {
    const { home, audit } = logOfFive();
    const head = readFileSync(join(home, "audit.head"));
    audit.add(entry);
    writeFileSync(join(home, "audit.head"), head);
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 6 });
    createAuditLog(home).add(entry);
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 7 });
    writeFileSync(join(home, "audit.head"), head);
    expect(audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/last 2 lines were not added by skillet/),
    });
  });

  it("[Q-23] keeps each entry on one line of plain characters, short, and without what is no part of it", () => {
    const home = temporaryFolder();
    const audit = createAuditLog(home);
    const bad = `a\nb\r\u2028\x1b[2J\x7f\u009b\u202e${"x".repeat(1000)}`;
    const forged = { seq: 99, hash: "h", prev: "p", at: "never", secret: "hunter2", __proto__: { user: "u" } };
    audit.add({ ...entry, ...forged, skill: bad, capability: bad, ms: Number.NaN } as AuditEntry);
    const text = readFileSync(audit.file, "utf8");
    expect(text).toMatch(/^[\x20-\x7e]+\n$/);
    expect(text).not.toContain("hunter2");
    const [line] = audit.read();
    expect(line).toMatchObject({ seq: 1, prev: "0".repeat(64), skill: expect.stringMatching(/^a\nb/) });
    expect(line?.skill).toHaveLength(300);
    expect(line).not.toHaveProperty("ms");
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 1 });
  });

  it("takes lines of several processes at once and loses none", async () => {
    const home = temporaryFolder();
    const program = `const { createAuditLog } = await import(${JSON.stringify(moduleOf("capabilities/audit-log"))});
      const audit = createAuditLog(process.argv[1]);
      for (let number = 0; number < 100; number++) audit.add({ ...${JSON.stringify(entry)}, run: process.argv[2], count: number });`;
    const children = ["a", "b", "c"].map((name) => {
      const args = ["--no-warnings", "--input-type=module", "-e", program, home, name];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
      onTestFinished(() => void child.kill("SIGKILL"));
      return once(child, "exit");
    });
    expect(await Promise.all(children)).toEqual([
      [0, null],
      [0, null],
      [0, null],
    ]);
    const audit = createAuditLog(home);
    expect(audit.verify()).toMatchObject({ isWhole: true, lines: 300 });
    for (const name of ["a", "b", "c"]) {
      const counts = [...audit.read()].filter(({ run }) => run === name).map(({ count }) => count);
      expect(counts).toEqual(Array.from({ length: 100 }, (_, number) => number));
    }
  });

  it("throws when a line cannot be written, so that nothing is done without one", () => {
    const home = temporaryFolder({ "audit.jsonl/x": "" });
    expect(() => createAuditLog(home).add(entry)).toThrow(expect.objectContaining({ code: "audit-unwritable" }));
  });

  it("is for the user alone again when it was opened to others", () => {
    const { audit } = logOfFive();
    chmodSync(audit.file, 0o644);
    audit.add(entry);
    expect(statSync(audit.file).mode & 0o777).toBe(0o600);
  });

  it("takes the same few steps for a line, however many there are", async () => {
    const homes = [50, 100, 200].map((lines) => {
      const home = temporaryFolder();
      const audit = createAuditLog(home);
      for (let line = 0; line < lines; line++) audit.add(entry);
      return home;
    });
    const counts = await countSteps(
      ["src/capabilities/audit-log.ts"],
      ({ createAuditLog }: typeof import("../../src/capabilities/audit-log.ts"), [home, entry]) => {
        const audit = createAuditLog(home);
        for (let line = 0; line < 10; line++) audit.add(entry);
      },
      homes.map((home) => [home, entry] as const),
    );
    expect(Math.max(...counts)).toBeLessThan(10_000);
  });
});
