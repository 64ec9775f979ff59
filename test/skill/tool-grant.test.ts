import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tools } from "../../src/skill/manifest-fields.ts";
import {
  hasGrantFor,
  isToolCallForbidden,
  isToolCallGranted,
  parseSimpleCommands,
  parseToolGrant,
} from "../../src/skill/tool-grants.ts";
import { isKnownTool, resolveToolName } from "../../src/skill/tool-names.ts";
import { matchesGlob } from "../../src/util/glob.ts";
import { expectLinearSteps } from "../support/steps.ts";

const bash = (grants: string[], command: string) => isToolCallGranted(grants, "bash", { command });

describe("an entry of a list of tools", () => {
  it.each([
    ["bash", { tool: "bash" }],
    ["Bash", { tool: "bash" }],
    ["Bash(*)", { tool: "bash" }],
    ["Bash(:*)", { tool: "bash" }],
    ["Bash(git:*)", { tool: "bash", pattern: "git:*" }],
    ["Bash(git log:*)", { tool: "bash", pattern: "git log:*" }],
    ["Bash( npm run build )", { tool: "bash", pattern: "npm run build" }],
    ["Read(src/**)", { tool: "read_file", pattern: "src/**" }],
    ["Grep", { tool: "grep" }],
    ["search_files", { tool: "grep" }],
    ["use_skill(research)", { tool: "use_skill", pattern: "research" }],
    ["mcp__x__y", { tool: "mcp__x__y" }],
    ["*", { tool: "*" }],
    ["Bash(git:*", { tool: "bash", pattern: "" }],
    ["Bash(git:*)x", { tool: "bash", pattern: "" }],
    ["BashOutput", { tool: "BashOutput" }],
  ])("[X-04] %s is parsed into a tool and its restriction", (entry, grant) => {
    expect(parseToolGrant(entry)).toEqual(grant);
  });

  it("[X-04] for a tool that watches commands grants none", () => {
    expect(bash(["BashOutput", "KillShell", "Bash(git:*)"], "rm -rf x")).toBe(false);
    expect(["BashOutput", "KillShell"].every(isKnownTool)).toBe(true);
    expect(resolveToolName("GREP")).toBe("grep");
  });

  it.each([
    ["a list", ["Bash(git log:*)", "Read", "Bash(npm run build)"]],
    ["commas", "Bash(git log:*), Read,Bash(npm run build)"],
    ["blanks", "Bash(git log:*) Read Bash(npm run build)"],
  ])("[X-04] is separated from others in %s, including blanks", (_, written) => {
    expect(tools(written, () => {})).toEqual(["Bash(git log:*)", "Read", "Bash(npm run build)"]);
  });

  it.each([
    ["Bash (git:*), Read", ["Bash(git:*)", "Read"]],
    ["Bash(git (x):*) Read", ["Bash(git (x):*)", "Read"]],
    ["Bash(a, b) Read", ["Bash(a, b)", "Read"]],
    ["Read Bash(git:*", ["Read", "Bash(git:*"]],
    ["Bash(foo $(bar):*)", ["Bash(foo $(bar):*)"]],
    ["Bash(Read", ["Bash(Read"]],
    ["", []],
    [" , ,", []],
  ])("[X-04] never loses its parentheses: %j", (written, entries) => {
    const found = tools(written, () => {}) ?? [];
    expect(found).toEqual(entries);
    expect(bash([...found], "rm -rf x")).toBe(false);
  });
});

describe("a grant for commands", () => {
  it.each([
    ["Bash(git:*)", "git"],
    ["Bash(git:*)", "git status"],
    ["Bash(git *)", "git log --oneline | git shortlog"],
    ["Bash(git log:*)", "git log -5"],
    ["Bash(git log:*)", "git  log\t-5"],
    ["Bash(git log:*)", "git log --grep='a; b && c | d'"],
    ["Bash(git log:*)", 'git log --author="A. U. Thor <a@b.c>"'],
    ["Bash(git log:*)", 'git log "$BRANCH" ${OTHER}'],
    ["Bash(git log:*)", "git log -S '<<<<<<<'"],
    ["Bash(git log:*)", "git log 2>&1 >/dev/null"],
    ["Bash(git log:*)", "git log 2>/dev/null &"],
    ["Bash(git:*)", "(git status; git log)"],
    ["Bash(git:*)", "git status && git log || git diff; git show\ngit log"],
    ["Bash(npm run build)", "npm  run build"],
    ["Bash(git commit -m:*)", 'git commit -m "it\'s; done"'],
    ["Bash(git * main)", "git push origin main"],
    ["Bash(make && make test)", "make && make test"],
    ["Bash", "anything $(at all) > x"],
    ["Bash(*)", "X=1 y `z`"],
    ["*", "rm -rf x"],
    ["shell(ls:*)", "ls -la"],
    ["Bash(./run.sh:*)", "./run.sh a#b"],
    ["Bash([:*)", "[ -f x ]"],
  ])("[X-04] %s covers %j", (entry, command) => {
    expect(bash([entry], command)).toBe(true);
  });

  it.each([
    "rm -rf x",
    "gitx",
    "git-evil",
    "git/evil",
    "./git log",
    "/tmp/git log",
    "git log; rm x",
    "git log;rm x",
    "git log && rm x",
    "git log || rm x",
    "git log | sh",
    "git log |& sh",
    "git log & rm x",
    "git log\nrm x",
    "git log\r\nrm x",
    "git log\rrm x",
    "git log $(rm x)",
    'git log "$(rm x)"',
    "git log `rm x`",
    'git log "`rm x`"',
    "git log <(rm x)",
    "git log >(rm x)",
    "git log $((a[$(rm x)]))",
    "git log $[a[0]]",
    "git log > .bashrc",
    "git log >> x",
    "git log >| x",
    "git log <> x",
    "git log < x",
    "git log &> x",
    "git log > /dev/null/../../tmp/x",
    "git log >/dev/nullx",
    "git log >&x",
    "git log <<EOF\n$(rm x)\nEOF",
    "git log <<< x",
    "GIT_SSH_COMMAND=x git fetch",
    "PATH=. git log",
    "X=1",
    "$GIT log",
    "${GIT} log",
    "git log ${X@P}",
    "git log ${X:-$(rm x)}",
    "git log ${X:=y}",
    "g''it log",
    "'git' log",
    '"git" log',
    "\\git log",
    "gi\\t log",
    "git log \\\n; rm x",
    "git log $\\\n(rm x)",
    "git log '",
    'git log "',
    "git log 'a' \"b",
    "git log # '\nrm x\n# '",
    "#\nrm x",
    "git log \0; rm x",
    "git log \u0001 rm",
    "git log \x1b[0m",
    "if git log; then git log; fi",
    "for x in a; do git log; done",
    "while git log; do git log; done",
    "case x in x) git log;; esac",
    "function git { rm x; }",
    "git() { rm x; }; git",
    "git() (rm x); git",
    "{ git log; rm x; }",
    "{ git log; }",
    "! git log",
    "time git log",
    "coproc git log",
    "[[ -f x ]] && git log",
    "((x=1)); git log",
    "(git log; rm x)",
    "(git log",
    "git log)",
    "a=(git log)",
    "git log $'\\x27; rm x'",
    'git log $"x"',
    "{git,log}",
    "gi[t] log",
    "gi? log",
    "~/git log",
    "git log \ud800; rm x",
    "env git log",
    "eval git log",
    "command git log",
    "exec git log",
    "sudo git log",
    "xargs git",
    "sh -c 'git log'",
    "",
    "   ",
    ";",
    "\n",
  ])("[X-04] for git does not cover %j", (command) => {
    expect(bash(["Bash(git:*)", "Bash(git *)", "Bash(git log:*)", "Read", "Bash(echo:*)"], command)).toBe(false);
  });

  it.each([
    ["Bash(git log:*)", "git push"],
    ["Bash(git log:*)", "git logx"],
    ["Bash(git log:*)", 'git "log -5"'],
    ["Bash(git log:*)", "git -c core.pager=x log"],
    ["Bash(npm run build)", "npm run build --x"],
    ["Bash(npm run build)", "npm run"],
    ["Bash(git * main)", "git push origin other"],
    ["Bash(make && make test)", "make test && make"],
    ["Bash(make && make test)", "make"],
    ["Bash()", "ls"],
    ["Bash(", "ls"],
    ["Read", "ls"],
    ["Bash(ls:*), Read", "ls"],
  ])("[X-04] %s does not cover %j", (entry, command) => {
    expect(bash([entry], command)).toBe(false);
  });

  it("[X-04] covers only commands that are text", () => {
    for (const input of [undefined, null, {}, { command: 1 }, { command: ["git log"] }, "git log", ["git log"]])
      expect(isToolCallGranted(["Bash(git:*)"], "bash", input)).toBe(false);
    expect(isToolCallGranted(["Bash"], "bash", {})).toBe(true);
  });

  const granted = fc.constantFrom("git log", "git log -5 'a b'", 'git log "x $Y"', "git log --format=%H 2>&1", "git");
  const foreign = fc.constantFrom("rm -rf x", "curl x", "sh", "$X", "gitx", "a=1", "/bin/git log", "cat <x", "id>x");
  const joint = fc.constantFrom("; ", ";", " && ", " || ", " | ", "|", " |& ", " & ", "&", "\n", "\n\n", " ;\t");
  const around = fc.constantFrom(
    (text: string) => text,
    (text: string) => `(${text})`,
    (text: string) => `git log $(${text})`,
    (text: string) => `git log "$(${text})"`,
    (text: string) => `git log \`${text}\``,
    (text: string) => `git log <(${text})`,
    (text: string) => `{ ${text}; }`,
    (text: string) => `git log; ( ${text} )`,
    (text: string) => `git log 'x'; ${text} 'y'`,
    (text: string) => `git log 2>/dev/null;${text}`,
  );

  it("[X-04] cannot be extended by another command next to a granted one", () => {
    const line = fc.tuple(
      fc.array(granted, { maxLength: 3 }),
      foreign,
      fc.array(granted, { maxLength: 3 }),
      joint,
      around,
    );
    fc.assert(
      fc.property(line, ([before, evil, after, between, wrap]) => {
        expect(bash(["Bash(git:*)"], wrap([...before, evil, ...after].join(between)))).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });

  it("[X-04] covers granted commands that are joined", () => {
    fc.assert(
      fc.property(fc.array(granted, { minLength: 1, maxLength: 4 }), joint, (commands, between) => {
        expect(bash(["Bash(git:*)"], commands.join(between))).toBe(true);
      }),
    );
  });

  it("[X-04] takes linear steps for any text", async () => {
    const piece = fc.constantFrom(
      ..."'\"\\$(){}[];&|<>`#\n\t =ab*?!~".split(""),
      "git ",
      "<<",
      "$(",
      "2>&1",
      ">/dev/null",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const commands = parseSimpleCommands(pieces.join(""));
        for (const [name] of commands ?? []) expect(name).toMatch(/^(?:\[|[\w./+@%:,-]+)$/);
      }),
      { numRuns: 5000 },
    );
    const texts = ["'", '"', "(", "\\", "a ", "$", "*", "&", '\\"'];
    await expectLinearSteps(
      ["src/skill/tool-grants.ts"],
      ({ isToolCallGranted }: typeof import("../../src/skill/tool-grants.ts"), command: string) =>
        isToolCallGranted(["Bash(* * * * * * * b)", `Bash(${"a*".repeat(500)}b)`], "bash", { command }),
      texts.map((text) => [text, [4000, 8000, 16_000].map((times) => `git ${text.repeat(times)}`)]),
    );
  });
});

describe("a grant for files", () => {
  const path = (entry: string, tool: string, value: string | undefined) =>
    isToolCallGranted([entry], tool, value === undefined ? {} : { path: value });

  it.each([
    ["Read(src/**)", "read_file", "src/a.ts"],
    ["Read(src/**)", "read_file", "./src//deep/a.ts"],
    ["Read(src/**)", "read_file", "/workspace/src/a.ts"],
    ["Read(**/*.md)", "read_file", "README.md"],
    ["Read(**/*.md)", "read_file", "a/b/c.md"],
    ["Write(docs/*)", "write_file", "docs/a.md"],
    ["Edit({a,b}.txt)", "edit_file", "b.txt"],
    ["Read(/skill/**)", "read_file", "/skill/data.csv"],
    ["Read", "read_file", "../../x"],
    ["Grep(src/**)", "grep", "src"],
    ["Glob(**)", "list_files", undefined],
  ])("[X-04] %s covers %s of %s", (entry, tool, value) => {
    expect(path(entry, tool, value)).toBe(true);
  });

  it.each([
    ["Read(src/**)", "read_file", "src/../secret"],
    ["Read(src/**)", "read_file", "../src/a"],
    ["Read(src/**)", "read_file", "src/.."],
    ["Read(src/**)", "read_file", "src\\..\\secret"],
    ["Read(src/**)", "read_file", "src\\secret"],
    ["Read(src/**)", "read_file", "evil/src/a"],
    ["Read(src/**)", "read_file", "srcx/a"],
    ["Read(src/**)", "read_file", "/src/a"],
    ["Read(src/**)", "read_file", "/workspace/../src/a"],
    ["Read(src/**)", "read_file", "/workspacex/src/a"],
    ["Read(src/**)", "read_file", "~/src/a"],
    ["Read(src/**)", "read_file", "src/a\0"],
    ["Read(src/**)", "read_file", ""],
    ["Read(src/**)", "read_file", undefined],
    ["Read(src/**)", "write_file", "src/a"],
    ["Write(docs/*)", "write_file", "docs/a/b.md"],
    ["Grep(src/*)", "grep", "src"],
    ["Grep(src/*/*)", "grep", "src"],
    ["Grep(src/**)", "grep", undefined],
    ["Grep(src/**)", "grep", "."],
    ["Grep(src/**/*.ts)", "grep", "src"],
  ])("[X-04] %s does not cover %s of %j", (entry, tool, value) => {
    expect(path(entry, tool, value)).toBe(false);
  });

  it("matches globs in linear steps, however its stars can match", async () => {
    expect(matchesGlob(`${"*a".repeat(200)}b`, "a".repeat(4000))).toBe(false);
    expect(matchesGlob(`${"**/".repeat(200)}b`, "a/".repeat(2000))).toBe(false);
    const globs = [
      [`${"*a".repeat(200)}b`, "a"],
      [`${"**/".repeat(200)}b`, "a/"],
    ] as const;
    await expectLinearSteps(
      ["src/util/glob.ts"],
      ({ matchesGlob }: typeof import("../../src/util/glob.ts"), [glob, text]) => matchesGlob(glob, text),
      globs.map(([glob, text]) => [text, [1000, 2000, 4000].map((times) => [glob, text.repeat(times)] as const)]),
    );
    expect(matchesGlob("**/a/**/b", "a/x/b")).toBe(true);
    expect(matchesGlob("a/**/b", "a/b")).toBe(true);
    expect(matchesGlob("[!a-c]x", "dx")).toBe(true);
    expect(matchesGlob("[!a-c]x", "bx")).toBe(false);
    expect(matchesGlob("a?c", "a/c")).toBe(false);
  });
});

describe("a grant for other tools", () => {
  it.each([
    ["Skill(research)", "use_skill", { skill: "research" }, true],
    ["Skill(research *)", "use_skill", { skill: "research" }, true],
    ["Skill(db-*)", "use_skill", { skill: "db-query" }, true],
    ["Skill(research)", "use_skill", { skill: "research@elsewhere" }, false],
    ["Skill(research)", "use_skill", { skill_name: "research" }, false],
    ["WebFetch(domain:example.com)", "web_fetch", { url: "https://example.com/a" }, true],
    ["WebFetch(domain:example.com)", "web_fetch", { url: "https://example.com.evil.org/" }, false],
    ["WebFetch(domain:example.com)", "web_fetch", { url: "https://example.com@evil.org/" }, false],
    ["WebFetch(domain:example.com)", "web_fetch", { url: "file:///etc/passwd" }, false],
    ["mcp__x", "mcp__x__y", {}, true],
    ["mcp__x__*", "mcp__x__y", {}, true],
    ["mcp__x", "mcp__xx__y", {}, false],
    ["mcp__x__y(z)", "mcp__x__y", {}, false],
    ["*", "whatever", {}, true],
    ["*(x)", "whatever", {}, false],
  ])("[X-04] %s for %s with %j: %j", (entry, tool, input, isCovered) => {
    expect(isToolCallGranted([entry], tool, input)).toBe(isCovered);
  });

  it("[X-04] is what a tool is offered for, with a pattern or without", () => {
    expect(hasGrantFor(["Bash(git:*)"], "bash")).toBe(true);
    expect(hasGrantFor(["Read"], "bash")).toBe(false);
    expect(hasGrantFor([], "bash")).toBe(false);
    expect(hasGrantFor(["Grep"], "grep")).toBe(true);
  });
});

describe("a forbidden tool", () => {
  const forbids = (entry: string, command: string) => isToolCallForbidden([entry], "bash", { command });

  it.each([
    ["Bash", "ls"],
    ["Bash(", "ls"],
    ["Bash(rm:*)", "rm -rf x"],
    ["Bash(rm:*)", "ls; rm x"],
    ["Bash(rm:*)", "/bin/rm x"],
    ["Bash(rm:*)", "env rm x"],
    ["Bash(rm:*)", "find . -exec rm x ;"],
    ["Bash(rm:*)", "sh -c 'rm x'"],
    ["Bash(rm:*)", "sh -c 'r\"\"m x'"],
    ["Bash(rm:*)", "RM x"],
    ["Bash(rm:*)", "$(echo x)"],
    ["Bash(rm:*)", "X=1 ls"],
    ["Bash(rm:*)", "'r'm x"],
    ["Bash(git push:*)", "git -C x push"],
    ["Bash(git push)", "git push --force"],
  ])("[X-03] stays forbidden by %s in the form %j", (entry, command) => {
    expect(forbids(entry, command)).toBe(true);
  });

  it.each([
    ["Bash(rm:*)", "ls -la; git log"],
    ["Bash(git push:*)", "git log"],
    ["Read", "ls"],
  ])("[X-03] does not affect others with %s: %j", (entry, command) => {
    expect(forbids(entry, command)).toBe(false);
  });

  it("[X-03] is still offered if only a part is forbidden, and without input nothing is checked", () => {
    expect(isToolCallForbidden(["Bash(rm:*)"], "bash", undefined)).toBe(false);
    expect(isToolCallForbidden(["Bash"], "bash", undefined)).toBe(true);
    expect(isToolCallForbidden(["Bash(rm:*)"], "bash", {})).toBe(true);
  });

  it.each([
    ["Read(secrets/**)", "read_file", { path: "secrets/a" }, true],
    ["Read(secrets/**)", "read_file", { path: "SECRETS/a" }, true],
    ["Read(secrets/**)", "read_file", { path: "x/../secrets/a" }, true],
    ["Read(secrets/**)", "read_file", { path: "src/a" }, false],
    ["Read(secrets/**)", "read_file", { path: "/home/me/project/secrets/a" }, true],
    ["Read(secrets/**)", "read_file", { path: "/skill/a" }, false],
    ["Grep(secrets/**)", "grep", { path: "/home/me/project" }, true],
    ["Grep(secrets/**)", "grep", {}, true],
    ["Grep(a/secrets/**)", "grep", { path: "a" }, true],
    ["Grep(secrets/**)", "grep", { path: "src" }, false],
    ["Skill(deploy)", "use_skill", { skill: "deploy@elsewhere" }, true],
    ["Skill(deploy)", "use_skill", { skill: "other" }, false],
    ["WebFetch(domain:evil.org)", "web_fetch", { url: "https://a.evil.org/" }, true],
    ["mcp__x__y(z)", "mcp__x__y", {}, true],
  ])("[X-03] by %s for %s with %j: %j", (entry, tool, input, isTouched) => {
    expect(isToolCallForbidden([entry], tool, input)).toBe(isTouched);
  });
});
