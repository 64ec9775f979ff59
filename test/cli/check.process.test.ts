import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import draft04 from "ajv-draft-04";
import formats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { MANIFEST_FIELDS } from "../../src/skill/manifest.ts";
import { PROFILES } from "../../src/skill/skill.ts";
import { checkPath, validateSkillFile } from "../../src/skill/source/check-skills.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

const good = skillText("good", { more: "metadata:\n  version: 1.0.0\n  tags: [a]\n" });
const codesOf = (path: string, profile: (typeof PROFILES)[number] = "load") =>
  checkPath(path, { profile }).files.flatMap((file) =>
    file.diagnostics.map(({ code, severity }) => `${severity} ${code}`),
  );

describe("skillet check", () => {
  it("[S-20] reports bare capability ids as errors, all of them, and the skill still loads", async () => {
    const text = skillText("inbox", { more: "capabilities: [email, calendar, gog.email]\n" });
    const home = temporaryFolder({ ".skillet/skills/inbox/SKILL.md": text });
    const path = join(home, ".skillet/skills/inbox");
    const { code, stdout } = await skillet(["skill", "validate", path], { env: { HOME: home } });
    expect(code).toBe(1);
    expect(stdout).toContain('"capabilities" lists "email", "calendar", which are not of the form namespace.name');
    const run = (...args: string[]) => skillet(args, { cwd: temporaryFolder(), env: { HOME: home } });
    expect((await run("list", "inbox")).stdout).toMatch(/^inbox /);
    const dry = await run("run", "inbox", "x", "--dry-run");
    expect(dry.stdout + dry.stderr).toContain("add a namespace in the skill, such as gog.email");
  });

  it("[T-01] reports a long description as a warning and one above 1024 characters as an error, and both load", async () => {
    const home = temporaryFolder({
      ".skillet/skills/long/SKILL.md": skillText("long", { description: `${"a".repeat(501)} Use when asked.` }),
      ".skillet/skills/longer/SKILL.md": skillText("longer", { description: `${"a".repeat(1025)} Use when asked.` }),
    });
    const run = (...args: string[]) => skillet(args, { cwd: temporaryFolder(), env: { HOME: home } });
    const { stdout, stderr } = await run("list", "--json", "--all");
    const { skills, diagnostics } = JSON.parse(stdout) as Record<"skills" | "diagnostics", Record<string, string>[]>;
    expect(skills.map(({ name }) => name)).toEqual(expect.arrayContaining(["long", "longer"]));
    expect(diagnostics.map(({ code, severity }) => [code, severity])).toEqual(
      expect.arrayContaining([
        ["description-long", "warning"],
        ["description-too-long", "error"],
      ]),
    );
    expect(stderr).toBe("");
    expect((await run("list")).stderr).not.toContain("not loaded");
  });

  it("[P-12] refuses a top-level author in the profile shipped", async () => {
    const more = "author: Ada\nmetadata:\n  version: 1.0.0\n  tags: [a]\n";
    const folder = temporaryFolder({ "skills/a/SKILL.md": skillText("a", { more }) });
    const run = (profile: string) => skillet(["check", join(folder, "skills/a"), "--profile", profile]);
    const shipped = await run("shipped");
    expect(shipped).toMatchObject({ code: 1, stdout: expect.stringContaining("key-author") });
    expect((await run("load")).code).toBe(0);
  });

  it("[S-28, S-29] reports whether a path is a valid skill, without loading it", async () => {
    const cwd = temporaryFolder({ "good/SKILL.md": good, "bad/SKILL.md": "---\nname: bad\n---\nx\n" });
    expect(await skillet(["skill", "validate", "good"], { cwd })).toMatchObject({ code: 0 });
    expect(await skillet(["skill", "validate", "bad"], { cwd })).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("description-missing"),
    });
    expect(validateSkillFile(join(cwd, "good"))).toEqual({ isValid: true });
    expect(validateSkillFile(join(cwd, "bad/SKILL.md"))).toMatchObject({
      isValid: false,
      error: expect.stringContaining("has no description"),
    });
    expect(validateSkillFile(join(cwd, "nothing"))).toMatchObject({
      isValid: false,
      error: expect.stringContaining("does not exist"),
    });
  });

  it.each([
    [
      "keywords",
      "triggers:\n  keywords: [write, find, where, write tests, invoice]\n",
      '"write", "find", "where": common words',
    ],
    ["verbs", "triggers:\n  verbs: [creating, deploy]\n", '"creating": common words'],
    [
      "patterns",
      'triggers:\n  patterns: ["\\\\bfind\\\\b", "invoices?"]\n',
      '"\\bfind\\b": patterns without a specific word',
    ],
    ["paths", 'paths: ["**/*.py", "*.md", "src/**", "docs/**", "Dockerfile"]\n', '"**/*.py", "*.md", "src/**": globs'],
  ])("[T-08] reports %s that are too broad, the consequence and the fix", (key, more, found) => {
    const cwd = temporaryFolder({ "it/SKILL.md": skillText("it", { more }) });
    for (const profile of PROFILES) {
      const { files } = checkPath(cwd, { profile });
      const broad = files.flatMap((file) => file.diagnostics).filter(({ code }) => code === "trigger-broad");
      expect(broad, profile).toMatchObject([
        {
          severity: "warning",
          line: 4,
          message: expect.stringContaining(`"${key}" has ${found}`),
          fix: expect.stringContaining("a phrase of two or more words"),
        },
      ]);
      expect(broad[0]?.message).toContain("alone never load the instructions");
    }
  });

  it("[T-08] reports each trigger that matches every query once, and nothing for specific ones", () => {
    const cwd = temporaryFolder({
      "all/SKILL.md": skillText("all", { more: 'triggers:\n  patterns: [".*"]\npaths: ["**/*"]\n' }),
      "none/SKILL.md": skillText("none", {
        more: 'triggers:\n  keywords: [invoice, code review, c++, 日本語]\n  patterns: ["issue #\\\\d+"]\npaths: ["**/*.tf"]\n',
      }),
    });
    expect(codesOf(join(cwd, "all"))).toEqual(["warning trigger-broad", "warning trigger-broad"]);
    expect(codesOf(join(cwd, "none"))).toEqual([]);
  });

  it("accepts folders, files, folders of skills and names", async () => {
    const cwd = temporaryFolder({
      "skills/good/SKILL.md": good,
      "skills/flat.md": skillText("flat"),
      "skills/y.yaml": "description: y\ninstructions: x\n",
    });
    for (const path of ["skills/good", "skills/good/SKILL.md", "skills/flat.md", "skills/y.yaml", "skills", "good"]) {
      expect(await skillet(["check", path], { cwd }), path).toMatchObject({ code: 0 });
    }
    expect((await skillet(["check"], { cwd })).stdout).toContain("3 skills: 0 errors");
    expect(await skillet(["check", "goood"], { cwd })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('did you mean the skill "good"?'),
    });
  });

  it("checks a folder once, however it is reached, and a shadowed copy by its path", async () => {
    const home = temporaryFolder({ ".claude/skills/good/SKILL.md": "---\nname: good\n---\nx\n" });
    const cwd = temporaryFolder({ "skills/good/SKILL.md": good });
    mkdirSync(join(cwd, ".claude"));
    symlinkSync("../skills", join(cwd, ".claude/skills"));
    expect((await skillet(["check"], { cwd })).stdout).toContain("1 skill: 0 errors");
    expect((await skillet(["check", "good", "skills/good"], { cwd })).stdout).toContain("1 skill: 0 errors");
    writeFiles(home, { ".claude/skills/good/SKILL.md": skillText("good", { description: "Far: away." }) });
    const far = await skillet(["check", "good@~/.claude/skills"], { cwd, env: { HOME: home } });
    expect(far).toMatchObject({ code: 0, stdout: expect.stringContaining("yaml-repaired") });
  });

  it("does not report a file as valid that the profile refuses for its name", () => {
    const cwd = temporaryFolder({ "lower/skill.md": skillText("lower") });
    const [file] = checkPath(join(cwd, "lower"), { profile: "agentskills" }).files;
    expect(file).toMatchObject({ isValid: false, diagnostics: [{ code: "file-case", severity: "error" }] });
  });

  it("[P-12] never suggests moving a key to a place without effect", () => {
    for (const { keys, place, name } of MANIFEST_FIELDS) {
      for (const key of keys) {
        const folder = temporaryFolder({ "x/SKILL.md": skillText("x", { more: `${key}: v1.0.0\n` }) });
        const { files } = checkPath(join(folder, "x"), { profile: "agentskills" });
        const moves = files.flatMap(({ diagnostics }) =>
          diagnostics.filter(({ fix }) => fix.includes("under metadata")),
        );
        if (moves.length > 0) expect(place === "metadata" || name === "other", key).toBe(true);
      }
    }
    const toolset = skillText("x", { more: "packages: [jq]\n" });
    const { files } = checkPath(join(temporaryFolder({ "x/SKILL.md": toolset }), "x"), { profile: "agentskills" });
    expect(files[0]?.diagnostics).toMatchObject([
      { code: "key-top-level", fix: expect.stringContaining("keep it for skillet") },
    ]);
  });

  it("[P-12] checks by profile: the standard's keys, each client's, and version and tags for shipped skills", () => {
    const cwd = temporaryFolder({
      "plain/SKILL.md": skillText("plain"),
      "extended/SKILL.md": skillText("extended", {
        more: "triggers:\n  keywords: [ferry]\nargument-hint: file\nodd-thing: 1\nmetadata:\n  version: 1.0.0\n  tags: [a]\n",
      }),
      "other/SKILL.md": skillText("another"),
      "markup/SKILL.md": skillText("markup", { description: "Makes <b>bold</b>. Use when bold." }),
    });
    const at = (name: string, profile: (typeof PROFILES)[number]) => codesOf(join(cwd, name), profile);
    expect(at("plain", "load")).toEqual([]);
    expect(at("plain", "agentskills")).toEqual([]);
    expect(at("plain", "shipped")).toEqual(["error version-missing", "error tags-missing"]);
    expect(at("extended", "load")).toEqual(["info key-unknown"]);
    expect(at("extended", "agentskills")).toEqual(["error key-extension", "error key-client", "error key-unknown"]);
    expect(at("extended", "shipped")).toEqual(["error key-unknown"]);
    expect(at("extended", "claude-upload")).toEqual(["error key-extension", "error key-client", "error key-unknown"]);
    expect(at("extended", "vscode")).toEqual(["warning key-extension", "warning key-unknown"]);
    expect(at("other", "load")).toEqual(["info name-mismatch"]);
    expect(at("other", "vscode")).toEqual(["error name-mismatch"]);
    expect(at("markup", "claude-upload")).toEqual(["error description-markup"]);
  });

  describe("links in the instructions", () => {
    /** Returns the findings of check for the links of a skill in `skills/a` of a repository, by line. */
    function linksOf(body: string, files: Record<string, string> = {}): string[] {
      const cwd = temporaryFolder({
        ".git/HEAD": "ref: refs/heads/main\n",
        "README.md": "x",
        "docs/my guide.md": "x",
        "skills/a/SKILL.md": skillText("a", { body }),
        "skills/a/references/there.md": "x",
        "skills/b/SKILL.md": skillText("b"),
        ...files,
      });
      const [file] = checkPath(join(cwd, "skills/a")).files;
      return (file?.diagnostics ?? []).map(({ code, severity, line = 0 }) => `${line - 5} ${severity} ${code}`);
    }
    const DEAD = ["1 warning dead-link"];
    const OUTSIDE = ["1 info link-outside-skill"];

    it.each<[string, string, string[]]>([
      ["a file of the skill", "[x](references/there.md)", []],
      ["a folder of the skill", "[x](./references/)", []],
      ["a sibling skill", "[x](../b/SKILL.md)", OUTSIDE],
      ["the folder of a sibling skill", "[x](../b)", OUTSIDE],
      ["a missing sibling skill", "[x](../c/SKILL.md)", DEAD],
      ["a file of the repository's root", "[x](../../README.md)", OUTSIDE],
      ["the same, relative to the root", "[x](README.md)", OUTSIDE],
      ["the same, with a slash before it", "[x](/README.md)", OUTSIDE],
      ["a page of a site", "[x](/pricing)", []],
      ["a missing file at the root", "[x](MISSING.md)", DEAD],
      ["a path above the repository", "[x](../../../other/README.md)", OUTSIDE],
      ["a file with an anchor", "[x](../b/SKILL.md#usage)", OUTSIDE],
      ["a missing file, with an anchor", "[x](references/gone.md#usage)", DEAD],
      ["an anchor alone", "[x](#usage)", []],
      ["a file with a query", "[x](references/there.md?plain=1)", []],
      ["a file with a title", '[x](../b/SKILL.md "The other one")', OUTSIDE],
      ["a missing file, with a title", "[x](references/gone.md 'Gone')", DEAD],
      ["a file in angle brackets", "[x](<../../docs/my guide.md>)", OUTSIDE],
      ["a missing file, in angle brackets", "[x](<my gone.md>)", DEAD],
      ["a file in angle brackets, with a title", '[x](<references/there.md> "T")', []],
      ["a file whose path is URL-encoded", "[x](../../docs/my%20guide.md)", OUTSIDE],
      ["the same from the root", "[x](docs/my%20guide.md)", OUTSIDE],
      ["dots that are URL-encoded", "[x](%2e%2e/b/SKILL.md)", OUTSIDE],
      ["nothing, URL-encoded", "[x](my%20gone.md)", DEAD],
      ["a badly encoded text", "[x](gone%zz.md)", DEAD],
      ["an image", "![x](references/gone.png)", DEAD],
      ["an address", "[x](https://example.com/gone.md)", []],
      ["an address without a scheme", "[x](//example.com/gone.md)", []],
      ["a mail address", "[x](mailto:a@example.com)", []],
    ])("[P-13] %s: %s", (_, body, expected) => {
      expect(linksOf(body)).toEqual(expected);
    });

    it.each([
      "```md\n[x](gone.md)\n```",
      "~~~\n[x](gone.md)\n```\n[x](gone.md)\n~~~",
      "1. Write:\n\n    ```md\n    [x](gone.md)\n    ```",
      "- ```md\n  [x](gone.md)\n  ```",
      "> ```\n> [x](gone.md)\n> ```",
      "````md\n```\n[x](gone.md)\n```\n[x](gone.md)\n````",
      "Write:\n\n    [x](gone.md)\n    [y](gone.md)",
      "`[x](gone.md)` and ``[x](gone.md)``",
    ])("[P-13] finds no link in code: %j", (body) => {
      expect(linksOf(body)).toEqual([]);
    });

    it.each([
      ["```md\nx\n```\n[x](gone.md)", 4],
      ["```x``` and\n[x](gone.md)", 2],
      ["- a\n\n    [x](gone.md)", 3],
      ["a\n    [x](gone.md)", 2],
    ])("[P-13] finds links after code, in lists and in paragraphs: %j", (body, line) => {
      expect(linksOf(body)).toEqual([`${line} warning dead-link`]);
    });

    it.each([
      ...[
        "{path}",
        "{{ file }}.md",
        "${FILE}",
        "$1",
        "<url>",
        "%7Bname%7D.md",
        "*.md",
        "url",
        "URL",
        "link",
        "LINK_TO_DOCS",
      ],
      ...["...", "…", "path/to/file.md", "./path/to/x.md", "docs/adr/ADR-NNN.md", "notes/YYYY-MM-DD.md", "XXXX.md"],
    ])("[P-13] ignores a placeholder: %s", (target) => {
      expect(linksOf(`[x](${target})`)).toEqual([]);
    });

    it("[P-13] names the link and the fix, and only warns for a shipped skill", () => {
      const cwd = temporaryFolder({
        "skills/a/SKILL.md": skillText("a", { body: "[x](../b/SKILL.md)\n[y](../../README.md)\n[z](../gone.md)" }),
        "skills/b/SKILL.md": skillText("b"),
        "README.md": "x",
      });
      const [file] = checkPath(join(cwd, "skills/a"), { profile: "shipped" }).files;
      expect(file?.diagnostics.filter(({ code }) => code.includes("link"))).toMatchObject([
        {
          code: "link-outside-skill",
          severity: "warning",
          message: 'the link to "../b/SKILL.md" leaves the skill\'s folder',
          fix: expect.stringContaining("copy the file"),
        },
        { code: "link-outside-skill", severity: "warning", line: 7 },
        { code: "dead-link", severity: "error", line: 8 },
      ]);
    });

    it("[Q-12] does not reveal files outside the repository", () => {
      const outside = temporaryFolder({ "secret.md": "x" });
      const root = temporaryFolder({ "repo/.git/HEAD": "x", "repo/skills/a/references/x.md": "x" });
      symlinkSync(outside, join(root, "repo/skills/a/out"));
      symlinkSync("/", join(root, "repo/root"));
      const there = `${"../".repeat(20)}${outside.slice(1)}`;
      const codes = (name: string) => {
        writeFiles(root, {
          "repo/skills/a/SKILL.md": skillText("a", {
            body: `[a](${there}/${name})\n[b](out/${name})\n[c](../../root${outside}/${name})\n[d](${outside}/${name})`,
          }),
        });
        const [file] = checkPath(join(root, "repo/skills/a")).files;
        return file?.diagnostics.map(({ code, line }) => `${line} ${code}`);
      };
      expect(codes("secret.md")).toEqual(codes("gone.md"));
    });
  });

  it.each([
    ["hidden-text-body", "a\u202eb", 1],
    ["dead-link", "See [x](references/missing.md) and [y](there.md#part), [z](https://example.com), [a](#b).", 1],
    ["tab", "- a\n\t- b", 2],
    ["long-line", "x".repeat(501), 1],
    ["todo-found", "TODO: write this", 1],
    ["todo-found", "- TODO write this", 1],
    ["todo-found", "Call it (TBD) for now", 1],
    ["template-unedited", "1. Describe what to look at first.", 1],
    ["body-long", "line\n".repeat(501), 0],
    ["absolute-path", "Run `/home/ann/bin/tool` now", 1],
  ])("[P-13] finds %s in the instructions, with its line and a fix", (code, body, line) => {
    const cwd = temporaryFolder({ "a/SKILL.md": skillText("a", { body }), "a/there.md": "x" });
    const [file] = checkPath(join(cwd, "a")).files;
    expect(file?.diagnostics).toMatchObject([{ code, line: line + 5, fix: expect.stringMatching(/\w/) }]);
  });

  it("[P-13] finds a missing cue, Windows line ends, and an unknown tool", () => {
    const cwd = temporaryFolder({
      "cue/SKILL.md": skillText("cue", { description: "Formats numbers." }),
      "crlf/SKILL.md": skillText("crlf").replaceAll("\n", "\r\n"),
      "tool/SKILL.md": skillText("tool", { more: "allowed-tools: Bash(git:*) Raed mcp__x__y\n" }),
    });
    expect(codesOf(join(cwd, "cue"))).toEqual(["info use-when-missing"]);
    expect(codesOf(join(cwd, "crlf"))).toEqual(["info line-endings"]);
    const [tool] = checkPath(join(cwd, "tool")).files;
    expect(tool?.diagnostics).toMatchObject([{ code: "tool-unknown", line: 4, fix: 'did you mean "Read"?' }]);
  });

  it("[P-13] ignores code", () => {
    const body =
      "```sh\nTODO: not ours\n\tmake\n[x](missing.md)\n```\n\nUse `[x](missing.md)` and `TODO:` there, and find all TODO comments.";
    expect(codesOf(join(temporaryFolder({ "a/SKILL.md": skillText("a", { body }) }), "a"))).toEqual([]);
  });

  it("checks a megabyte of brackets or backticks as fast as any other megabyte", () => {
    for (const body of ["[".repeat(900_000), "`".repeat(900_000), "[a](".repeat(225_000), "TODO ".repeat(180_000)]) {
      const cwd = temporaryFolder({ "a/SKILL.md": skillText("a", { body }) });
      const start = process.cpuUsage(); // CPU time, which does not depend on other processes.
      checkPath(join(cwd, "a"));
      const { user, system } = process.cpuUsage(start);
      expect((user + system) / 1000).toBeLessThan(4000);
    }
  });

  it("exits 1 on errors only, and on warnings with --strict", async () => {
    const cwd = temporaryFolder({ "a/SKILL.md": "---\nname: a\ndescription: Use: it\n---\nx\n" });
    expect((await skillet(["check", "a"], { cwd })).code).toBe(0);
    expect((await skillet(["check", "a", "--strict"], { cwd })).code).toBe(1);
    expect((await skillet(["check", "a", "--profile", "agentskills"], { cwd })).code).toBe(1);
  });
});

describe("output formats of check", () => {
  const cwd = () =>
    temporaryFolder({
      "skills/a/SKILL.md": "---\nname: a\ndescription: Use: it\n---\nx\n",
      "skills/b c/SKILL.md": "no",
      "skills/broken.md": "---\n",
    });

  it("include sarif, which validates against the schema and has paths relative to the workspace", async () => {
    const schema = JSON.parse(
      readFileSync(
        createRequire(import.meta.url).resolve("@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"),
        "utf8",
      ),
    );
    const ajv = new draft04.default({ strict: false, unicodeRegExp: false });
    formats.default(ajv as never);
    const validate = ajv.compile(schema);
    const { stdout, code } = await skillet(["check", "--format", "sarif"], { cwd: cwd() });
    expect(code).toBe(1);
    const sarif = JSON.parse(stdout);
    expect(validate(sarif), JSON.stringify(validate.errors)).toBe(true);
    const { results, tool } = sarif.runs[0];
    const uris = results.map(
      (result: { locations: { physicalLocation: { artifactLocation: { uri: string } } }[] }) =>
        result.locations[0]?.physicalLocation.artifactLocation.uri,
    );
    expect(uris).toEqual(expect.arrayContaining(["skills/a/SKILL.md", "skills/b%20c/SKILL.md", "skills/broken.md"]));
    for (const { ruleId, ruleIndex } of results) expect(tool.driver.rules[ruleIndex].id).toBe(ruleId);
    expect(
      validate(JSON.parse((await skillet(["check", "--format", "sarif"], { cwd: temporaryFolder() })).stdout)),
    ).toBe(true);
  });

  it("include github, which prints one escaped command per finding", async () => {
    const { stdout } = await skillet(["check", "--format", "github"], { cwd: cwd() });
    expect(stdout).toContain("::warning file=skills/a/SKILL.md,line=3,col=1,title=skillet yaml-repaired::");
    for (const line of stdout.trimEnd().split("\n"))
      expect(line).toMatch(
        /^::(?:error|warning|notice) file=[^,:]+,(?:line=\d+,)?(?:col=\d+,)?title=skillet [a-z0-9-]+::/,
      );
  });

  it("include json with profile, files and findings", async () => {
    const { stdout } = await skillet(["check", "--json"], { cwd: cwd() });
    expect(JSON.parse(stdout)).toMatchObject({
      profile: "load",
      diagnostics: expect.arrayContaining([expect.objectContaining({ code: "yaml-repaired", line: 3 })]),
    });
  });
});

describe("--fix", () => {
  const fix = async (text: string | Uint8Array, args: string[] = []) => {
    const cwd = temporaryFolder({ "right/SKILL.md": text });
    const { stdout } = await skillet(["check", "right", "--fix", ...args], { cwd });
    return { text: readFileSync(join(cwd, "right/SKILL.md"), "utf8"), stdout };
  };
  const strict = ["--profile", "agentskills"];

  it.each([
    [
      "adds missing quotes",
      "---\nname: right\ndescription: Use: it\n---\n\nx\n",
      [],
      '---\nname: right\ndescription: "Use: it"\n---\n\nx\n',
    ],
    [
      "removes a byte order mark",
      "\ufeff---\nname: right\ndescription: d\n---\nx\n",
      [],
      "---\nname: right\ndescription: d\n---\nx\n",
    ],
    [
      "removes blanks after delimiters",
      "--- \nname: right\ndescription: d\n---\t\nx\n",
      [],
      "---\nname: right\ndescription: d\n---\nx\n",
    ],
    [
      "removes blank lines before",
      "\n\n---\nname: right\ndescription: d\n---\nx\n",
      [],
      "---\nname: right\ndescription: d\n---\nx\n",
    ],
    [
      "plain line feeds",
      "---\r\nname: right\r\ndescription: d\r\n---\r\nx\r\n",
      [],
      "---\nname: right\ndescription: d\n---\nx\n",
    ],
    [
      "takes the name from the folder",
      "---\ndescription: d\n---\nx\n",
      strict,
      "---\nname: right\ndescription: d\n---\nx\n",
    ],
    [
      "sets a differing name where the profile refuses it",
      "---\nname: wrong # why\ndescription: d\n---\nx\n",
      strict,
      "---\nname: right # why\ndescription: d\n---\nx\n",
    ],
    [
      "renames a misspelled key on request",
      "---\nname: right\ndescription: d\nalowed_tools: [bash]\n---\nx\n",
      ["--rename", "alowed_tools"],
      "---\nname: right\ndescription: d\nallowed_tools: [bash]\n---\nx\n",
    ],
    [
      "keeps a differing name that loads",
      "---\nname: wrong\ndescription: d\n---\nx\n",
      [],
      "---\nname: wrong\ndescription: d\n---\nx\n",
    ],
    ["skips a file that is not a skill", "just text\r\n", [], "just text\r\n"],
    [
      "keeps comments and everything else",
      "---\n# mine\nname: right\ndescription: Use: it   # why\nextra: { a: 1 }\n---\nx\n",
      [],
      '---\n# mine\nname: right\ndescription: "Use: it" # why\nextra: { a: 1 }\n---\nx\n',
    ],
  ])("%s", async (_, before, args, after) => {
    const first = await fix(before, args);
    expect(first.text).toBe(after);
    expect((await fix(first.text, args)).text, "a second time changes nothing").toBe(after);
  });

  it("converts UTF-16", async () => {
    const text = "---\nname: right\ndescription: d\n---\nx\n";
    const { text: after, stdout } = await fix(Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]));
    expect(after).toBe(text);
    expect(stdout).toContain("fixed: not-utf8");
  });

  it("reports each file that cannot be written, and continues", async () => {
    const cwd = temporaryFolder({
      "skills/a/SKILL.md": "---\nname: a\ndescription: Use: it\n---\nx\n",
      "skills/b/SKILL.md": "---\nname: b\ndescription: Use: it\n---\nx\n",
    });
    // A folder where the temporary file would be: no user can write there, not even root.
    mkdirSync(join(cwd, `skills/a/SKILL.md.${process.pid}.tmp`));
    const { code, stdout } = await skillet(["check", "skills", "--fix"], { cwd });
    expect(code).toBe(1);
    expect(stdout).toContain("skills/a/SKILL.md could not be fixed");
    expect(readFileSync(join(cwd, "skills/b/SKILL.md"), "utf8")).toContain('"Use: it"');
    expect(existsSync(join(cwd, `skills/a/SKILL.md.${process.pid}.tmp`))).toBe(true);
  });

  it("keeps the file's mode, leaves no temporary files, and does not write through a link that leaves the folder", async () => {
    const before = "---\nname: a\ndescription: Use: it\n---\nx\n";
    const cwd = temporaryFolder({ "skills/a/SKILL.md": before, "elsewhere/b.md": before });
    chmodSync(join(cwd, "skills/a/SKILL.md"), 0o640);
    symlinkSync("../elsewhere/b.md", join(cwd, "skills/b.md"));
    await skillet(["check", "skills", "--fix"], { cwd });
    expect(statSync(join(cwd, "skills/a/SKILL.md")).mode & 0o777).toBe(0o640);
    expect(readFileSync(join(cwd, "skills/a/SKILL.md"), "utf8")).toContain('"Use: it"');
    expect(readFileSync(join(cwd, "elsewhere/b.md"), "utf8")).toBe(before);
  });
});

describe("skillet new", () => {
  it.each([
    ["first"],
    ["first", "--toolset"],
    ["first", "--description", "Deploys: the app # now. Use when asked to ship."],
  ])("creates a skill that passes every profile once its template is edited: %s %s", async (...args) => {
    const cwd = temporaryFolder();
    const isDescribed = args.includes("--description");
    expect(await skillet(["new", ...args], { cwd })).toMatchObject({
      code: 0,
      stdout: expect.not.stringContaining("template"),
    });
    const path = join(cwd, "skills/first/SKILL.md");
    // The open standard has no key for toolsets.
    const found = (profile: (typeof PROFILES)[number]) =>
      codesOf(join(cwd, "skills/first"), profile).filter((code) => !code.endsWith("key-top-level"));
    for (const profile of PROFILES) {
      const code = `${profile === "shipped" ? "error" : "warning"} template-unedited`;
      expect(found(profile), profile).toEqual(isDescribed ? [code] : [code, code]);
    }
    const { code, stdout } = await skillet(["check", "skills/first"], { cwd });
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/the instructions still have text .*\[template-unedited\]/),
    ]);
    const template = readFileSync(path, "utf8");
    const described = template.replace("describe here in one sentence what it does", "deploys the app");
    writeFileSync(path, described);
    expect(found("load")).toEqual(["warning template-unedited"]);
    writeFileSync(path, described.replace(/^# First\n[\s\S]*/m, "# First\n\nRun the release script.\n"));
    for (const profile of PROFILES) expect(found(profile), profile).toEqual([]);
    if (isDescribed) expect((await skillet(["list"], { cwd })).stdout).toContain("Deploys: the app # now.");
  });

  it("reports what the given text breaks, and prints a path relative to the current folder", async () => {
    const workspace = temporaryFolder();
    const { code, stdout } = await skillet(["new", "my-claude", "-C", workspace, "-d", "Does it."]);
    expect(code).toBe(0);
    expect(stdout).toContain("contains a vendor's name (profile claude-upload)");
    expect(stdout).toContain("does not say when to use the skill (profile load)");
    const [, path = ""] = /skillet check (\S+)/.exec(stdout) ?? [];
    expect((await skillet(["check", path])).code).toBe(0);
  });

  it("creates it in the given folder", async () => {
    const home = temporaryFolder();
    const cwd = temporaryFolder();
    await skillet(["new", "mine", "--user"], { cwd, env: { HOME: home } });
    await skillet(["new", "there", "--in", ".agents/skills"], { cwd });
    await skillet(["new", "custom"], { cwd, env: { CUSTOM_SKILLS_DIR: "own" } });
    expect(existsSync(join(home, ".skillet/skills/mine/SKILL.md"))).toBe(true);
    expect(existsSync(join(cwd, ".agents/skills/there/SKILL.md"))).toBe(true);
    expect(existsSync(join(cwd, "own/custom/SKILL.md"))).toBe(true);
  });

  it.each(["Bad Name", "../escape", "-rf", "a".repeat(65), "defaults", "a--b"])(
    "refuses the name %j and proposes one",
    async (name) => {
      const cwd = temporaryFolder();
      const { code, stderr } = await skillet(["new", "--", name], { cwd });
      expect(code).toBe(1);
      expect(stderr).toContain("for example");
      expect(existsSync(join(cwd, "skills"))).toBe(false);
    },
  );

  it("overwrites nothing, and writes nothing for an invalid description", async () => {
    const cwd = temporaryFolder({ "skills/there/SKILL.md": "mine" });
    expect(await skillet(["new", "there"], { cwd })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("already exists"),
    });
    expect(readFileSync(join(cwd, "skills/there/SKILL.md"), "utf8")).toBe("mine");
    expect(await skillet(["new", "other", "-d", "has <b>tags</b>"], { cwd })).toMatchObject({ code: 1 });
    expect(existsSync(join(cwd, "skills/other"))).toBe(false);
  });
});
