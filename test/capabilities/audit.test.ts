import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createAuditLog, hashAuditLine, stringifyCanonical } from "../../src/capabilities/audit-log.ts";
import type { AuditEntry } from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { readAll } from "../support/read-all.ts";
import { countSteps } from "../support/steps.ts";

const entry: AuditEntry = { run: "r_1", skill: "notes", source: "user", method: "invoke", outcome: "ok" };

/** A log of five lines, and the text of its file. */
async function logOfFive() {
  const home = temporaryFolder();
  const audit = createAuditLog(home);
  for (let number = 1; number <= 5; number++) await audit.add({ ...entry, operation: `op${number}` });
  const lines = () => readFileSync(audit.file, "utf8").trimEnd().split("\n");
  const write = (changed: string[]) => writeFileSync(audit.file, `${changed.join("\n")}\n`);
  return { home, audit, lines, write };
}

describe("the audit log", () => {
  it("writes lines that are chained to each other, for the user alone", async () => {
    const { home, audit, lines } = await logOfFive();
    const parsed = lines().map((line) => JSON.parse(line));
    expect(parsed.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    expect(parsed[0].prev).toBe("0".repeat(64));
    for (const [index, line] of parsed.entries()) {
      expect(line.hash).toBe(hashAuditLine(line));
      if (index > 0) expect(line.prev).toBe(parsed[index - 1].hash);
    }
    expect(statSync(audit.file).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "audit.head")).mode & 0o777).toBe(0o600);
    expect(await audit.verify()).toEqual({ isWhole: true, lines: 5, head: parsed[4].hash });
    expect(await readAll(audit.read())).toEqual(parsed);
  });

  it("is valid when it is empty, and creates no file for that", async () => {
    const home = join(temporaryFolder(), "none");
    expect(await createAuditLog(home).verify()).toEqual({ isWhole: true, lines: 0, head: "0".repeat(64) });
    expect(await readAll(createAuditLog(home).read())).toEqual([]);
    expect(existsSync(home)).toBe(false);
  });

  const swapped = ([a = "", b = "", ...rest]: string[]) => [b, a, ...rest];
  it.each<[string, (lines: string[]) => string[], number, RegExp]>([
    ["edited", (lines) => lines.with(2, String(lines[2]).replace("op3", "op9")), 3, /line 3 was edited/],
    ["respelled", (lines) => lines.with(2, String(lines[2]).replace(",", ", ")), 3, /line 3 was edited/],
    [
      "with a duplicate key",
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
    [
      "longer than the limit",
      (lines) => lines.with(3, `{"at":"${"x".repeat(200_000)}`),
      4,
      /line 4 is not an audit entry/,
    ],
  ])("finds a line that was %s", async (_, change, line, message) => {
    const { audit, lines, write } = await logOfFive();
    write(change(lines()));
    expect(await audit.verify()).toMatchObject({ isWhole: false, line, message: expect.stringMatching(message) });
  });

  it("finds a line that was edited together with its own hash", async () => {
    const { audit, lines, write } = await logOfFive();
    const forge = (text: string | undefined) => {
      const line = { ...JSON.parse(text ?? ""), outcome: "denied" };
      return stringifyCanonical({ ...line, hash: hashAuditLine(line) });
    };
    write(lines().with(2, forge(lines()[2])));
    expect(await audit.verify()).toMatchObject({
      isWhole: false,
      line: 4,
      message: expect.stringMatching(/does not follow/),
    });
    const { audit: other, lines: others, write: writeOther } = await logOfFive();
    writeOther(others().with(4, forge(others()[4])));
    expect(await other.verify()).toMatchObject({
      isWhole: false,
      line: 5,
      message: expect.stringMatching(/was replaced/),
    });
  });

  it("finds that the log or its head is missing", async () => {
    const { home, audit } = await logOfFive();
    const head = readFileSync(join(home, "audit.head"));
    rmSync(join(home, "audit.head"));
    expect(await audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/audit\.head is missing/),
    });
    writeFileSync(join(home, "audit.head"), "{}");
    expect(await audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/audit\.head cannot be read/),
    });
    writeFileSync(join(home, "audit.head"), head);
    rmSync(audit.file);
    expect(await audit.verify()).toMatchObject({ isWhole: false, message: "the log is missing; it had 5 lines" });
  });

  it.each<[string, (lines: string[]) => string[], RegExp]>([
    ["cut off at the end", (lines) => lines.slice(0, 3), /line 4 is number 6 .*: 2 lines before it were removed/],
    ["emptied", () => [], /line 1 is number 6/],
  ])("still finds that it was %s when lines were added, by this process and by another", async (_, change, message) => {
    for (const isOther of [false, true]) {
      const { home, audit, lines } = await logOfFive();
      const kept = change(lines());
      writeFileSync(audit.file, kept.map((line) => `${line}\n`).join(""));
      await (isOther ? createAuditLog(home) : audit).add(entry);
      expect(await audit.verify()).toMatchObject({ isWhole: false, message: expect.stringMatching(message) });
    }
  });

  it("distinguishes a line whose writer was killed from one that was tampered with", async () => {
    const { home, audit, lines } = await logOfFive();
    const [torn = ""] = lines();
    appendFileSync(audit.file, torn.slice(0, 40));
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 5, torn: [6] });
    await createAuditLog(home).add(entry);
    await audit.add(entry);
    expect(lines()).toHaveLength(8);
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 7, torn: [6] });
    expect((await readAll(audit.read())).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it.each([{}, { account: "ada" }, { approval: "apr_1" }])(
    "recognizes such a line with any beginning: %j",
    async (more) => {
      const audit = createAuditLog(temporaryFolder());
      await audit.add({ ...entry, ...more });
      appendFileSync(audit.file, readFileSync(audit.file, "utf8").slice(0, 40));
      expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 1, torn: [2] });
    },
  );

  it("does not mistake a last line that was cut in half for one whose writer was killed", async () => {
    const { audit } = await logOfFive();
    writeFileSync(audit.file, readFileSync(audit.file, "utf8").slice(0, -50));
    expect(await audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/1 line at the end is missing/),
    });
  });

  it("continues after a writer that was killed between the line and the head", async () => {
    const { home, audit } = await logOfFive();
    const head = readFileSync(join(home, "audit.head"));
    await audit.add(entry);
    writeFileSync(join(home, "audit.head"), head);
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 6 });
    await createAuditLog(home).add(entry);
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 7 });
    writeFileSync(join(home, "audit.head"), head);
    expect(await audit.verify()).toMatchObject({
      isWhole: false,
      message: expect.stringMatching(/last 2 lines were not added by skillet/),
    });
  });

  it("[Q-23] keeps each entry on one short line of visible characters, without foreign text", async () => {
    const home = temporaryFolder();
    const audit = createAuditLog(home);
    const bad = `a\nb\r\u2028\x1b[2J\x7f\u009b\u202e${"x".repeat(1000)}`;
    const forged = { seq: 99, hash: "h", prev: "p", at: "never", secret: "hunter2", __proto__: { user: "u" } };
    await audit.add({ ...entry, ...forged, skill: bad, capability: bad, ms: Number.NaN } as AuditEntry);
    const text = readFileSync(audit.file, "utf8");
    expect(text).toMatch(/^[\x20-\x7e]+\n$/);
    expect(text).not.toContain("hunter2");
    const [line] = await readAll(audit.read());
    expect(line).toMatchObject({ seq: 1, prev: "0".repeat(64), skill: expect.stringMatching(/^a\nb/) });
    expect(line?.skill).toHaveLength(300);
    expect(line).not.toHaveProperty("ms");
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 1 });
  });

  it("accepts lines of several concurrent processes and loses none", async () => {
    const home = temporaryFolder();
    const program = `const { createAuditLog } = await import(${JSON.stringify(moduleOf("capabilities/audit-log"))});
      const audit = createAuditLog(process.argv[1]);
      for (let number = 0; number < 100; number++) await audit.add({ ...${JSON.stringify(entry)}, run: process.argv[2], count: number });`;
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
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 300 });
    for (const name of ["a", "b", "c"]) {
      const counts = (await readAll(audit.read())).filter(({ run }) => run === name).map(({ count }) => count);
      expect(counts).toEqual(Array.from({ length: 100 }, (_, number) => number));
    }
  });

  it("throws when a line cannot be written, so that nothing happens without one", async () => {
    const home = temporaryFolder({ "audit.jsonl/x": "" });
    await expect(async () => await createAuditLog(home).add(entry)).rejects.toThrow(
      expect.objectContaining({ code: "audit-unwritable" }),
    );
  });

  it("is private to the user again after its mode was opened to others", async () => {
    const { audit } = await logOfFive();
    chmodSync(audit.file, 0o644);
    await audit.add(entry);
    expect(statSync(audit.file).mode & 0o777).toBe(0o600);
  });

  it("takes the same few steps for a line, however many there are", async () => {
    const homes = await Promise.all(
      [50, 100, 200].map(async (lines) => {
        const home = temporaryFolder();
        const audit = createAuditLog(home);
        for (let line = 0; line < lines; line++) await audit.add(entry);
        return home;
      }),
    );
    const counts = await countSteps(
      ["src/capabilities/audit-log.ts"],
      async ({ createAuditLog }: typeof import("../../src/capabilities/audit-log.ts"), [home, entry]) => {
        const audit = createAuditLog(home);
        for (let line = 0; line < 10; line++) await audit.add(entry);
      },
      homes.map((home) => [home, entry] as const),
    );
    expect(Math.max(...counts)).toBeLessThan(10_000);
  });
});
