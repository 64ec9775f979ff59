import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { skillet } from "./support/command.ts";
import { temporaryFolder } from "./support/folder.ts";

const skills = join(import.meta.dirname, "..", "skills");

/** A workspace that the ordinary user of a sandbox can read, also if root runs the tests. */
function workspaceFolder(files: Record<string, string>): string {
  const folder = temporaryFolder(files);
  chmodSync(folder, 0o755);
  return folder;
}

/** Runs a script of a shipped skill in a folder, as its sandbox does. */
function run(script: string, cwd: string, args: readonly string[] = []) {
  const env = { PATH: process.env["PATH"] ?? "", HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(skills, script), ...args], {
    cwd,
    encoding: "utf8",
    env,
  });
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  return { code: status, stdout, stderr };
}

describe("the script of log-triage", () => {
  const triage = (cwd: string, ...args: string[]) => run("log-triage/scripts/triage.mjs", cwd, args);
  const LOG = `2026-11-19 08:00:01 INFO start, no error here
2026-11-19 08:01:02 ERROR connect ECONNREFUSED 10.0.0.1:5432 after 120 ms
2026-11-19 08:01:03 ERROR connect ECONNREFUSED 10.0.0.2:5432 after 80 ms
    at Socket.connect (net.js:12:3)
    at Error: nested
2026-11-19 08:02:00 WARN slow query of ada, password=hunter2
2026-11-19 08:03:09 ERROR connect ECONNREFUSED 10.0.0.2:5432 after 8 ms
`;

  it("groups equal problems, with the first and the last time, the most severe first", () => {
    const { code, stdout } = triage(temporaryFolder({ "app.log": LOG }));
    expect(code).toBe(0);
    expect(stdout).toBe(`Logs    app.log, 7 lines, 2026-11-19 08:00:01 to 2026-11-19 08:03:09
Found   3 errors, 1 warning

! 3 × error: connect ECONNREFUSED <address> after # ms
  2026-11-19 08:01:02 to 2026-11-19 08:03:09, first in app.log:2

· 1 × warning: slow query of ada, password=<secret>
  at 2026-11-19 08:02:00, first in app.log:6
`);
  });

  it.each([
    [
      "a Python traceback",
      "Traceback (most recent call last):\n  File 'x.py', line 3\nValueError: bad id 33\n",
      "ValueError: bad id #",
    ],
    [
      "JSON lines",
      '{"level":50,"time":1795075200000,"msg":"failed","err":{"message":"timeout 30"}}\n',
      "failed: timeout #",
    ],
    ["an access log", '::1 - - [19/Nov/2026:08:03:00 +0000] "GET /a/33?key=1 HTTP/1.1" 502 12\n', "HTTP 502 GET /a/#"],
    ["syslog", "Nov 19 08:01:00 host kernel: Killed process 33 (node)\n", "host kernel: Killed process # (node)"],
    [
      "an exception by its name",
      "java.lang.NullPointerException: x\n\tat a.B.c(B.java:1)\n",
      "java.lang.NullPointerException: x",
    ],
  ])("reads %s", (_, log, signature) => {
    const { stdout } = triage(temporaryFolder({ "x.log": log }));
    expect(stdout).toContain("Found   1 error\n");
    expect(stdout).toContain(`! 1 × error: ${signature}\n`);
  });

  it("ignores words within other words, and quiet levels", () => {
    const log = "status unpacked liberror-perl:all\nINFO no error\nlevel=info msg=failed\nGET /error-page 200\n";
    expect(triage(temporaryFolder({ "x.log": log })).stdout).toContain("No errors or warnings.");
  });

  it("reads the files that a sentence names, also compressed, and reports missing ones", () => {
    const folder = temporaryFolder({ "a.log": LOG, "old/b.log.1.gz": gzipSync(LOG), "other.log": "ERROR other\n" });
    expect(triage(folder, "What is wrong in `a.log`, please?").stdout).toContain("Logs    a.log, 7 lines");
    expect(triage(folder, "old").stdout).toContain("Logs    old/b.log.1.gz, 7 lines");
    expect(triage(folder).stdout).toContain("Logs    3 files, 15 lines");
    const { code, stdout, stderr } = triage(folder, "what happened in nope.log");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("Not found in the workspace: nope.log\nNo log files found.");
  });

  it("[Q-23] removes control characters of a log", () => {
    const { stdout } = triage(
      temporaryFolder({ "x.log": "\x1b[31mERROR\x1b[0m \x1b]52;c;aGk=\x07 \x9b2J \u202eevil\n" }),
    );
    expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });
});

describe("the script of log-triage with hostile files", () => {
  it("escapes control characters of JSON lines and file names, and limits a line", () => {
    const folder = temporaryFolder({
      "a\u001b]0;x\n! 9 × fatal: forged.log": `${JSON.stringify({ level: "error", msg: "\u001b[2Jboom\u0007" })}\n`,
      "b.log": `ERROR ${"x ".repeat(4_000_000)}\r\nERROR end\r\n`,
    });
    const { code, stdout } = run("log-triage/scripts/triage.mjs", folder);
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]|^! 9/m);
    expect(stdout).toContain("! 1 × error: boom·\n");
    expect(stdout).toContain("! 1 × error: end\n");
  });
});

describe("the script of repo-health", () => {
  const health = (cwd: string) => run("repo-health/scripts/health.mjs", cwd);

  it("reports work, branches, files, missing parts, and what needs attention", () => {
    const folder = temporaryFolder({
      "README.md": "# x\n\nTODO: more\n",
      ".env": "KEY=1\n",
      "a.txt": "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
      "new.txt": "",
    });
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], { cwd: folder });
    git("init", "-q", "-b", "main");
    git("add", "README.md", ".env", "a.txt");
    git("commit", "-qm", "first");
    git("branch", "done");
    git("checkout", "-qb", "old");
    git("commit", "-qm", "old", "--allow-empty", "--date=2020-01-01T00:00:00Z");
    execFileSync(
      "git",
      ["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--amend", "-qm", "old", "--allow-empty"],
      {
        cwd: folder,
        env: { ...process.env, GIT_COMMITTER_DATE: "2020-01-01T00:00:00Z" },
      },
    );
    git("checkout", "-q", "main");
    const { code, stdout } = health(folder);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Repository {2}main, 1 commit, the last today, 1 author in 90 days$/m);
    expect(stdout).toMatch(/^Work {8}1 untracked$/m);
    expect(stdout).toMatch(/^Branches {4}3 branches, 1 merged into main, 1 without commits for 90 days$/m);
    expect(stdout).toMatch(/^Notes {7}1 TODO or FIXME in the tracked files$/m);
    expect(stdout).toMatch(/^Missing {5}license, tests, CI, \.gitignore, changelog$/m);
    expect(stdout.split("\n\n")[1]?.trim().split("\n")).toEqual([
      "! merged branches can be deleted: done",
      "! old branches that are not merged: old",
      "! the repository has no remote: this is the only copy",
      "! tracked, may hold secrets: .env",
      "! conflict markers in a.txt",
    ]);
  });

  it("starts no program that the repository's configuration names", () => {
    const folder = temporaryFolder({ "README.md": "x\n" });
    execFileSync("git", ["init", "-q"], { cwd: folder });
    execFileSync("git", ["add", "README.md"], { cwd: folder });
    for (const key of ["core.fsmonitor", "filter.x=y.clean", "filter.x=y.process"])
      execFileSync("git", ["config", key, "touch started; false"], { cwd: folder });
    writeFileSync(join(folder, ".git/info/attributes"), "* filter=x=y\n");
    writeFileSync(join(folder, "README.md"), "y\n");
    expect(health(folder).stdout).toMatch(/^Work {8}1 changed$/m);
    expect(execFileSync("ls", { cwd: folder, encoding: "utf8" })).toBe("README.md\n");
  });

  it("explains why it cannot read a folder", () => {
    expect(health(temporaryFolder())).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^This workspace is not the top folder of a git repository\.\n.*start skillet in the top folder/,
      ),
    });
    expect(health(temporaryFolder({ ".git": "gitdir: /nowhere\n" }))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("start skillet in the main checkout"),
    });
  });
});

describe("the script of dependency-audit", () => {
  const audit = (cwd: string) => run("dependency-audit/scripts/audit.mjs", cwd);
  const warnings = (cwd: string) =>
    audit(cwd)
      .stdout.split("\n\n")[1]
      ?.replace(/\n {2}/g, " ")
      .split("\n");

  it("reports what npm has locked: scripts, sources, checksums, deprecation, missing entries", () => {
    const registry = (name: string) => `https://registry.example/${name}/-/${name}-1.0.0.tgz`;
    const folder = temporaryFolder({
      "package.json": JSON.stringify({ dependencies: { a: "^1", gone: "^1", any: "*", g: "github:x/y" } }),
      "package-lock.json": JSON.stringify({
        lockfileVersion: 3,
        packages: {
          "": {},
          "node_modules/a": {
            version: "1.0.0",
            resolved: registry("a"),
            integrity: "sha512-x",
            hasInstallScript: true,
          },
          "node_modules/any": { version: "1.0.0", resolved: registry("any"), integrity: "sha512-x", deprecated: "old" },
          "node_modules/g": { version: "1.0.0", resolved: "git+ssh://git@example.com/x/y.git#abc" },
          "node_modules/a/node_modules/u": { version: "2.0.0", resolved: registry("u") },
          "node_modules/u": { version: "1.0.0", resolved: registry("u"), integrity: "sha512-x" },
        },
      }),
    });
    expect(audit(folder).stdout).toContain("npm         package.json: 4 dependencies, 0 for development; 5 locked\n");
    expect(audit(folder).stdout).toContain("\n            1 package in more than one version: u\n");
    expect(warnings(folder)).toEqual([
      "! any version is accepted: any@*",
      "! not from a registry: g (github:x/y)",
      "! locked to a place that is not a registry: g@1.0.0",
      "! run a script when installed: a@1.0.0",
      "! locked without a checksum: u@2.0.0",
      "! in package.json but not in its lock file: gone",
      "! deprecated: any@1.0.0",
    ]);
  });

  it.each([
    [
      "requirements.txt",
      "flask\nrequests==2.1 # x\ngit+https://a.example/b\n",
      [
        "! requirements.txt: not pinned with ==: flask",
        "! requirements.txt: not from an index: git+https://a.example/b",
      ],
    ],
    [
      "Dockerfile",
      "FROM node:20 AS b\nRUN curl -s x | sh\nFROM b\nFROM alpine@sha256:aa\n",
      ["! Dockerfile: image not pinned to a digest: node:20", "! Dockerfile pipes a download into a shell"],
    ],
    [
      ".github/workflows/ci.yml",
      `steps:\n  - uses: a/b@v4\n  - uses: a/c@${"0".repeat(40)}\n  - uses: ./own\n`,
      ["! actions not pinned to a commit: a/b@v4"],
    ],
    [
      "Cargo.toml",
      '[dependencies]\na = { git = "https://x.example" }\n',
      [
        "! Cargo.toml has no lock file (Cargo.lock): each install may get other code",
        "! Cargo.toml takes a dependency from a git repository",
      ],
    ],
    [
      "go.mod",
      "module x\nrequire a v1.0.0\nreplace a => ../a\n",
      ["! go.mod has no lock file (go.sum): each install may get other code", "! go.mod replaces a module with ../a"],
    ],
    ["package.json", "{", ["! package.json is not valid JSON"]],
  ])("reads %s", (path, content, expected) => {
    const more = path === "package.json" ? { "go.mod": "module x\nrequire a v1\n", "go.sum": "" } : {};
    expect(warnings(temporaryFolder({ [path]: content, ...more }))).toEqual(expected);
  });

  it("reads values of any type, and long text, without an error", () => {
    const folder = temporaryFolder({
      "package.json": '{"dependencies":{"a":{"toString":1},"b":1}}',
      "package-lock.json": '{"packages":{"node_modules/a":{"resolved":5,"name":{"toString":1}},"node_modules/b":null}}',
      Gemfile: "\n".repeat(500_000),
      ".github/workflows/ci.yml": "\n".repeat(500_000),
      Dockerfile: `FROM ${" ".repeat(500_000)}x\nRUN ${"curl ".repeat(200_000)}`,
    });
    expect(audit(folder)).toMatchObject({ code: 0, stderr: "" });
    expect(audit(folder).stdout).toContain("! locked to a place that is not a registry: a@?\n");
  });

  it("reports that it found nothing", () => {
    expect(audit(temporaryFolder({ "node_modules/a/package.json": '{"dependencies":{"b":"*"}}' })).stdout).toMatch(
      /^No dependencies found/,
    );
  });
});

describe("the tools of tables", () => {
  const files = {
    "orders.csv": '\uFEFFid;region;"Unit ""price""";zip\r\n1;North;12.5;01234\r\n2;South;7;99999\r\n3;"No; rth";;\r\n',
    "people.json": '{"people":[{"id":1,"who":"Ada"},{"id":2,"tags":["x"]}]}',
  };
  const ask = (command: string, input: unknown, cwd = temporaryFolder(files)) =>
    JSON.parse(
      execFileSync(process.execPath, ["--no-warnings", join(skills, "tables/scripts/tables.mjs"), command], {
        cwd,
        encoding: "utf8",
        input: JSON.stringify(input),
      }),
    );

  it("describe files, and keep what is not a number", () => {
    const { output, metadata } = ask("describe", { files: ["orders.csv", "people.json"] });
    expect(metadata.tables).toEqual([
      { name: "orders", columns: ["id", "region", 'Unit "price"', "zip"], rows: 3 },
      { name: "people", columns: ["id", "who", "tags"], rows: 2 },
    ]);
    expect(output).toContain('- "Unit ""price""": number, 2 distinct, 1 empty\n- "zip": text, 2 distinct, 1 empty');
    expect(output).toContain("| 1 | North | 12.5 | 01234 |");
  });

  it("query several files with one SELECT, and limit the rows", () => {
    const sql = "SELECT region, who FROM orders LEFT JOIN people USING (id) ORDER BY id";
    expect(ask("query", { files: ["orders.csv", "people.json"], sql }).output).toBe(
      "| region | who |\n|---|---|\n| North | Ada |\n| South |  |\n| No; rth |  |",
    );
    const many = ask("query", {
      files: ["orders.csv"],
      sql: "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) SELECT x FROM n",
    });
    expect(many.metadata.rows).toBe(500);
    expect(many.output.split("\n")).toHaveLength(104);
  });

  it.each([
    [
      { files: ["../x.csv"], sql: "SELECT 1" },
      "../x.csv does not exist in the workspace\nuse one of the workspace: bad.csv, list.json, orders.csv, people.json, wide.csv",
    ],
    [{ files: ["/etc/passwd"], sql: "SELECT 1" }, "/etc/passwd is outside of the workspace"],
    [{ files: ["."], sql: "SELECT 1" }, ". is not a file"],
    [{ files: ["orders.csv"], sql: "ATTACH 'x' AS y" }, "only a SELECT is possible"],
    [{ files: ["orders.csv"], sql: "WITH a AS (SELECT 1) DELETE FROM orders" }, "attempt to write a readonly database"],
    [
      { files: ["orders.csv"], sql: "SELECT foo FROM orders" },
      'no such column: foo. Tables: "orders" ("id", "region", ',
    ],
    [{ files: ["bad.csv"], sql: "SELECT 1" }, "cannot read bad.csv as a table: a quote in record 2 is not closed"],
    [
      { files: ["wide.csv"], sql: "SELECT 1" },
      "cannot read wide.csv as a table: record 2 has 3 fields, and the first 1",
    ],
    [{ files: ["list.json"], sql: "SELECT 1" }, "cannot read list.json as a table: it contains no array of objects"],
  ])("refuse %j", (input, error) => {
    const folder = temporaryFolder({ ...files, "bad.csv": 'a,b\n1,"x\n', "wide.csv": "a\n1,2,3\n", "list.json": "{}" });
    expect(ask("query", input, folder).error).toContain(error);
  });

  it("explain the fix in a folder without data files", () => {
    const { error } = ask("query", { files: ["orders.csv"], sql: "SELECT 1" }, temporaryFolder());
    expect(error).toMatch(/^orders\.csv does not exist in the workspace\nthe workspace has no data files .*-C FOLDER/);
  });

  it("are called in the sandbox, without a model", async () => {
    const folder = workspaceFolder(files);
    const input = JSON.stringify({ files: ["orders.csv"], sql: 'SELECT sum("Unit ""price""") AS total FROM orders' });
    const { code, stdout } = await skillet(["call", "tables.query", "--input", input, "-C", folder]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "| total |\n|---|\n| 19.5 |\n" });
  });
});

it("the runbooks explain why they see no workspace", async () => {
  const folder = temporaryFolder({ "a.log": "ERROR boom\n" });
  const home = temporaryFolder({ ".skillet/config.toml": '[sandbox]\nworkspace = "none"\n' });
  const { code, stdout } = await skillet(["run", "log-triage", "--model", "runbook", "-C", folder], {
    env: { HOME: home },
  });
  expect(code).toBe(1);
  expect(stdout).toContain(
    "The workspace is not visible in the sandbox. To see the reason, run: skillet run log-triage --dry-run",
  );
});

it.each([
  ["log-triage", "2 × error: boom"],
  ["repo-health", "! the repository has no remote"],
  ["dependency-audit", "! package.json has no lock file"],
])("%s reports on the workspace without a model", async (name, expected) => {
  const folder = workspaceFolder({
    "a.log": "ERROR boom\nERROR boom\n",
    "package.json": '{"dependencies":{"a":"1"}}',
  });
  execFileSync("git", ["init", "-q"], { cwd: folder });
  const { code, stdout } = await skillet(["run", name, "--model", "runbook", "-C", folder]);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining(expected) });
});
