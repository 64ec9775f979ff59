import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { chainAuditEntry, createAuditLog, GENESIS_HASH, stringifyCanonical } from "../../src/capabilities/audit-log.ts";
import type { AuditEntry } from "../../src/host/capability-contract.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";

const ASKED: AuditEntry = {
  ...{ run: "20261116-141500-3f2a91c0", skill: "note-taker", source: "user" },
  ...{ method: "invoke", capability: "notes.notes", operation: "list", outcome: "ok", ms: 12.4 },
};

/** A home whose log has these lines. */
async function logged(entries: readonly Partial<AuditEntry>[]) {
  const home = temporaryFolder({ ".skillet/readme": "" });
  const log = createAuditLog(join(home, ".skillet"));
  for (const entry of entries) await log.add({ ...ASKED, ...entry });
  const run = (...args: string[]) => skillet(["audit", ...args], { env: { HOME: home } });
  return { home, file: log.file, run };
}

/** 100,000 in `npm run test:long`. */
const LINES = IS_LONG ? 100_000 : 10_000;

describe("the audit log in the terminal", () => {
  it("is reported as empty, with what creates it", async () => {
    const { run } = await logged([]);
    expect(await run()).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringMatching(/^there is no audit log yet: it records every capability call/),
    });
    expect(await run("verify")).toMatchObject({ code: 0, stdout: expect.stringContaining("no audit log yet") });
  });

  it("shows each line, the newest last, with the approval and the duration", async () => {
    const { run } = await logged([
      {},
      { operation: "add", outcome: "quota" },
      { operation: "add", approval: "apr_7", removed: 2 },
      {
        run: "",
        skill: "",
        method: "auth.login",
        capability: "notes",
        operation: undefined as never,
        ms: undefined as never,
      },
    ]);
    const { stdout, stderr, code } = await run();
    const lines = stdout.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, "TIME").split("\n");
    expect(lines).toEqual([
      "TIME  note-taker  notes.notes.list  ok     run 3f2a91c0 · 12 ms",
      "TIME  note-taker  notes.notes.add   quota  run 3f2a91c0 · 12 ms",
      "TIME  note-taker  notes.notes.add   ok     approved apr_7 · 2 values redacted · run 3f2a91c0 · 12 ms",
      "TIME  you         auth.login notes  ok",
      "",
    ]);
    expect({ stderr, code }).toEqual({ stderr: "4 lines\n", code: 0 });
  });

  it("shows the newest lines when there are more, and reports the rest", async () => {
    const { run } = await logged(["a", "b", "c", "d", "e"].map((skill) => ({ skill })));
    const { stdout, stderr } = await run("--limit", "2");
    expect(stdout.match(/Z {2}(\w)/g)).toEqual(["Z  d", "Z  e"]);
    expect(stderr).toBe("2 of 5 lines: skillet audit --limit 5 shows all of them\n");
  });

  it.each<[string, string[], number[]]>([
    ["a skill", ["--skill", "other"], [2]],
    ["the end of a run's id", ["--run", "3f2a91c0"], [1, 2]],
    ["a namespace", ["--capability", "notes"], [1, 2]],
    ["a capability, not its prefix", ["--capability", "notes.note"], []],
    ["an operation", ["--capability", "notes.notes.add"], [2]],
    ["an outcome", ["--outcome", "quota"], [3]],
    ["a time", ["--since", "1h"], [1, 2, 3]],
    ["a future time", ["--since", "2999-01-01"], []],
  ])("filters by %s", async (_, args, expected) => {
    const { run } = await logged([
      {},
      { skill: "other", operation: "add" },
      { run: "20261116-141501-aaaaaaaa", capability: "gog.email", outcome: "quota" },
    ]);
    const { lines, total } = JSON.parse((await run(...args, "--json")).stdout);
    expect(lines.map(({ seq }: { seq: number }) => seq)).toEqual(expected);
    expect(total).toBe(expected.length);
  });

  it("is verified when it is complete, by its head", async () => {
    const { run, file } = await logged([{}, {}]);
    const { hash } = JSON.parse(readFileSync(file, "utf8").trim().split("\n")[1] ?? "");
    expect(await run("verify")).toEqual({ code: 0, stdout: `✓ 2 lines, intact; head sha256:${hash}\n`, stderr: "" });
  });

  it("reports an edited line: exit 1, with its number and the fix", async () => {
    const { run, file } = await logged([{}, { outcome: "quota" }, {}]);
    writeFileSync(file, readFileSync(file, "utf8").replace("quota", "ok"));
    const { code, stdout } = await run("verify");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ line 2 was edited.*\n {2}1 line is intact; the log is .*audit\.jsonl\n {2}keep a copy/);
    expect(JSON.parse((await run("verify", "--json")).stdout)).toMatchObject({ isWhole: false, line: 2, total: 1 });
  });

  it("is shown after an edit only with a warning: exit 1, also in JSON", async () => {
    const { run, file } = await logged([{}, { outcome: "quota" }, {}]);
    expect(JSON.parse((await run("--json")).stdout).isWhole).toBe(true);
    writeFileSync(file, readFileSync(file, "utf8").replace("quota", "ok"));
    const { code, stdout, stderr } = await run("--skill", "note-taker");
    expect([code, stdout.trim().split("\n")]).toEqual([1, expect.objectContaining({ length: 3 })]);
    expect(stderr).toMatch(/✗ line 2 was edited/);
    const asJson = await run("--json");
    expect([asJson.code, JSON.parse(asJson.stdout).isWhole]).toEqual([1, false]);
  });

  it("fits a terminal of 80 columns, with every approval", async () => {
    const { home } = await logged([
      {},
      { operation: "add", approval: "apr_7f3a91c0aa7be310", removed: 2 },
      { skill: "a-skill-with-quite-a-long-name", capability: "calendar.of_the_office", operation: "list_all_of_them" },
    ]);
    const { stdout } = await skillet(["audit"], { env: { HOME: home, NO_COLOR: "1" }, isTTY: true, columns: 80 });
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout.replace(/\s+/g, " ")).toContain(
      "approved apr_7f3a91c0aa7be310 · 2 values redacted · run 3f2a91c0 · 12 ms",
    );
  });

  it("distinguishes a removed log from one that never existed", async () => {
    const { run, file } = await logged([{}, {}]);
    rmSync(file);
    expect(await run()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the log is missing; it had 2 lines"),
    });
    expect((await run("verify")).code).toBe(1);
  });

  it("escapes control sequences", async () => {
    const { run } = await logged([{ skill: "\x1b[2Jevil\nx", outcome: "o\u202ek" }]);
    const { stdout } = await run();
    expect(stdout).not.toMatch(/[\x1b\u202e]/);
    expect(stdout.split("\n")).toHaveLength(2);
  });

  it("suggests the nearest command for an unknown one", async () => {
    const { run } = await logged([]);
    expect(await run("verfy")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("did you mean skillet audit verify?"),
    });
    expect((await run("--since", "soon")).code).toBe(2);
    expect((await run("--limit", "many")).code).toBe(2);
  });

  it("searches all lines, and prints the last matches", async () => {
    const home = temporaryFolder();
    const file = join(home, ".skillet/audit.jsonl");
    mkdirSync(join(home, ".skillet"));
    const at = new Date().toISOString();
    const lines: string[] = [];
    let last = { seq: 0, hash: GENESIS_HASH };
    for (let index = 0; index < LINES; index++) {
      const line = chainAuditEntry(ASKED, at, last);
      lines.push(stringifyCanonical(line));
      last = line;
    }
    writeFileSync(file, `${lines.join("\n")}\n`);
    writeFileSync(join(home, ".skillet/audit.head"), stringifyCanonical({ hash: last.hash, seq: last.seq }));
    expect(statSync(file).size).toBeGreaterThan(300 * LINES);
    expect((await skillet(["audit"], { env: { HOME: home } })).stderr).toContain(
      `50 of ${LINES.toLocaleString("en-US")} lines`,
    );
  });
});
