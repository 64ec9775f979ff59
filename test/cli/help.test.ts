import { existsSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { buildWholeProgram, listCommandPaths } from "../../src/cli/program.ts";
import { ERROR_CODES } from "../../src/errors/error-codes.ts";
import { SCAN_RULES } from "../../src/scan/all-rules.ts";
import { skillet } from "../support/command.ts";

const COLUMNS = 80;
const LINES = 42;
const SILENT = { write: () => {} };
const PATHS = await listCommandPaths();
const program = await buildWholeProgram({ stdout: SILENT, stderr: SILENT, env: {}, cwd: "." });

function wordsOf(path: string): string[] {
  return path === "" ? [] : path.split(" ");
}

async function helpOf(path: string): Promise<string> {
  return (await skillet([...wordsOf(path), "--help"], { columns: COLUMNS })).stdout;
}

/** The examples at the end of a help text. */
function examplesIn(help: string): string[] {
  return Array.from(help.split("\nExamples:\n")[1]?.matchAll(/^ {2}\$ (.+)$/gm) ?? [], ([, line = ""]) => line);
}

describe("skillet --help", () => {
  it("fits one screen, and names every command once, with its purpose in one line", async () => {
    const lines = (await helpOf("")).trimEnd().split("\n");
    expect(lines.length).toBeLessThanOrEqual(LINES);
    const everyday = lines.slice(lines.indexOf("Commands:") + 1, lines.indexOf("More commands:") - 1);
    const rows = everyday.map((line) => /^ {2}([a-z]+) {2,}([A-Z]\S*.*)$/.exec(line) ?? [line]);
    expect(rows.filter((row) => row.length === 1)).toEqual([]);
    expect(rows).toHaveLength(12);
    const more = lines.slice(lines.indexOf("More commands:") + 1, lines.indexOf("Options:") - 1);
    const names = more.map((line) => /^ {2}[A-Z][a-z]+ +([a-z-]+(?:, [a-z-]+)*)$/.exec(line)?.[1] ?? line);
    const all = [...rows.map(([, name = ""]) => name), ...names.flatMap((list) => list.split(", "))];
    expect([...all].sort()).toEqual(PATHS.filter((path) => /^[a-z-]+$/.test(path)).sort());
  });

  it("has bold headings on a terminal only", async () => {
    expect((await skillet(["--help"], { columns: COLUMNS, isTTY: true })).stdout).toContain("\u001b[1mCommands:");
    expect((await skillet(["--help"], { columns: COLUMNS })).stdout).not.toContain("\u001b");
  });

  it("is also `skillet help`, at every level", async () => {
    for (const path of ["", "run", "config set"])
      expect((await skillet(["help", ...wordsOf(path)])).stdout).toBe(
        (await skillet([...wordsOf(path), "--help"])).stdout,
      );
  });
});

describe("the help of every command", () => {
  it.each(PATHS)("fits 80 columns and ends with examples: skillet %s", async (path) => {
    const help = await helpOf(path);
    expect(help.split("\n").filter((line) => line.length > COLUMNS)).toEqual([]);
    const examples = examplesIn(help);
    expect(examples).not.toEqual([]);
    expect(examples.some((line) => line.includes(`skillet ${path.replace("skill list", "list")}`.trim()))).toBe(true);
    expect(examples.flatMap(unknownIn)).toEqual([]);
  });
});

describe("the help in a narrow terminal", () => {
  const linesOf = async (path: string) => {
    const { stdout } = await skillet([...wordsOf(path), "--help"], { columns: 40 });
    return (stdout.split("\nExamples:\n")[0] ?? "").split("\n");
  };

  it("continues the description of a command in its column", async () => {
    const lines = await linesOf("");
    expect(lines).toContain("  list     List the skills that were");
    expect(lines[lines.indexOf("  list     List the skills that were") + 1]).toBe("           found");
  });

  it.each(["", "list", "run", "trust"])("puts the description of an option below it: skillet %s", async (path) => {
    const lines = await linesOf(path);
    const last = lines.indexOf("  -h, --help");
    expect(lines[last + 1]).toBe("      Show help for a command");
    const described = lines.slice(1, last).filter((line) => !line.startsWith("  -"));
    expect(described.filter((line) => line.length > 40)).toEqual([]);
  });
});

/** Commands and options in an example that do not exist. */
function unknownIn(example: string): string[] {
  const [, line = ""] = /skillet(?: ([^|<>)]*))?/.exec(example) ?? [];
  const words = line
    .replace(/"[^"]*"|'[^']*'/g, "…")
    .split(" ")
    .filter(Boolean);
  let command: Command = program;
  while (words.length > 0) {
    const inner = command.commands.find((other) => other.name() === words[0]);
    if (!inner) break;
    command = inner;
    words.shift();
  }
  if (command === program && words.length > 0) return [example];
  // What follows `--`, or a script's name, is for another program.
  const end = words.findIndex((word) => word === "--" || (command.name() === "script" && !word.startsWith("-")));
  const options = words.slice(0, end === -1 ? words.length : end).filter((word) => word.startsWith("-"));
  const known = command.createHelp().visibleOptions(command);
  return options.filter((word) => !known.some(({ long, short }) => word === long || word === short));
}

describe("commands that users of other tools type", () => {
  it.each([
    ["install", "add"],
    ["i", "add"],
    ["ls", "list"],
    ["find", "list"],
    ["info", "show"],
    ["rm", "remove"],
    ["init", "new"],
    ["lint", "check"],
    ["validate", "check"],
    ["upgrade", "update"],
  ])("are aliases: %s is %s", async (alias, command) => {
    const help = (await skillet([command, "--help"], { columns: COLUMNS })).stdout;
    expect(help).toContain(`Usage: skillet ${command}`);
    expect((await skillet([alias, "--help"], { columns: COLUMNS })).stdout).toBe(help);
  });

  it("are aliases with arguments: logout, version and -v", async () => {
    expect((await skillet(["logout", "--help"])).stdout).toContain("Usage: skillet auth revoke");
    const { stdout } = await skillet(["--version"]);
    for (const alias of ["version", "-v"]) expect((await skillet([alias])).stdout).toBe(stdout);
  });

  it.each([
    ["search", "list"],
    ["delete", "remove"],
    ["login", "auth login"],
    ["help uninstall", "remove"],
    ["logs", "runs"],
    ["inspect", "show"],
    ["enable-all", "enable"],
    ["disable-all", "disable"],
    ["fix", "check --fix"],
  ])("are suggested by meaning: %s is %s", async (typed, command) => {
    const { code, stderr } = await skillet(typed.split(" "));
    expect(code).toBe(2);
    expect(stderr).toContain(`did you mean ${command}?`);
  });
});

describe("a typo", () => {
  it.each([
    ["lsit", "did you mean list?"],
    ["help lsit", "did you mean list?"],
    ["config ste a b", "did you mean set?"],
    ["signers ad x", "did you mean add?"],
    ["help config ste", "did you mean set?"],
    ["auth logn github", "did you mean login?"],
    ["skill vaildate x", "did you mean validate?"],
    ["runs shwo", "did you mean skillet runs show?"],
    ["audit verfy", "did you mean skillet audit verify?"],
    ["check --formt json", "did you mean --format?"],
  ])("is reported with the nearest command, and exits 2: skillet %s", async (line, meant) => {
    const { code, stderr } = await skillet(line.split(" "));
    expect(code).toBe(2);
    expect(stderr).toContain(meant);
    expect(stderr).toMatch(/^✗ \S.*\n {2}\S/);
  });

  it("is reported in lines that fit, with visible characters", async () => {
    const env = { NO_COLOR: "1" };
    const evil = "a\u001b[31m\u202eb";
    const { stderr } = await skillet(["check", "--profile", evil], { isTTY: true, columns: 60, env });
    expect(stderr).toMatch(/^✗ Option '-p, --profile <name>' argument\n {2}'a\\u\{1b\}\[31m\\u\{202e\}b' is invalid/);
    expect(stderr.split("\n").filter((line) => line.length > 60)).toEqual([]);
    expect(stderr.replace(/\s+/g, " ")).toMatch(
      / supported: load, agentskills, .*; see its help: skillet check --help $/,
    );
  });
});

describe("skillet help CODE", () => {
  it("explains every error code: its meaning, its fix and an existing page", { timeout: 60_000 }, async () => {
    for (const [code, { meaning, fix }] of Object.entries(ERROR_CODES)) {
      const { code: exit, stdout } = await skillet(["help", code, "--json"]);
      if (PATHS.includes(code)) continue;
      const [explained] = JSON.parse(stdout).codes;
      expect([exit, explained]).toMatchObject([0, { code, meaning, fix }]);
      expect(explained.pages[0]).toMatch(new RegExp(`/docs/errors\\.md#${code}$`));
      for (const page of explained.pages) expect(existsSync(page.replace(/#.*/, "")), page).toBe(true);
    }
  });

  it("prints the meaning first, in lines that fit", async () => {
    const { code, stdout } = await skillet(["help", "symlink-outside"], {
      columns: 60,
      isTTY: true,
      env: { NO_COLOR: "1" },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^symlink-outside\n {2}A symlink points outside .*\n {2}.*\n {2}Fix: copy the file .*\n {2}See: \//,
    );
    expect(stdout).toContain(
      "  Severity: warning (load, agentskills, claude-upload);\n            error (shipped, vscode)\n",
    );
    const prose = stdout.split("\n").filter((line) => !line.includes("/docs/"));
    expect(prose.filter((line) => line.length > 60)).toEqual([]);
  });

  it.each(["[not-utf8]", "NOT-UTF8", "`not-utf8`", "(not-utf8)."])(
    "accepts a code as it is copied: %s",
    async (typed) => {
      expect((await skillet(["help", typed])).stdout).toMatch(/^not-utf8\n/);
    },
  );

  it("explains a rule of the scanner", async () => {
    const [rule] = SCAN_RULES;
    const { codes } = JSON.parse((await skillet(["help", rule?.id ?? "", "--json"])).stdout);
    expect(codes.at(-1)).toMatchObject({
      code: rule?.id,
      fix: rule?.fix,
    });
  });

  it.each([
    ["not-utf", "did you mean not-utf8?"],
    ["utf8", "did you mean not-utf8?"],
    ["__proto__", "see the commands: skillet --help"],
    ["constructor", "see the commands: skillet --help"],
    ["", "see the commands: skillet --help"],
    ["a\u001b[2J", "see the commands: skillet --help"],
  ])("suggests the nearest codes for %j, and exits 2", async (typed, fix) => {
    const { code, stdout, stderr } = await skillet(["help", typed]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^✗ Unknown command or error code ".*" {2}\[usage\]\n/);
    expect(stderr).toContain(fix);
    expect(stderr).not.toContain("\u001b");
  });

  it("explains a code by its name in 0.1.0", async () => {
    expect((await skillet(["help", "link-outside"])).stdout).toMatch(
      /^symlink-outside {2}formerly link-outside\n {2}A symlink/,
    );
  });

  it("explains a code that is also a command below the help of the command", async () => {
    const both = Object.keys(ERROR_CODES).filter((code) => PATHS.includes(code));
    expect(both).toEqual(["outdated"]);
    const { stdout } = await skillet(["help", "outdated"]);
    expect(stdout).toMatch(/^Usage: skillet outdated .*\noutdated\n {2}\S.*\n {2}Fix: /s);
  });
});
