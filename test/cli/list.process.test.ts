import { spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { packageRoot } from "../../src/util/system.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { KEPT, PROGRAM, RUN } from "../support/program.ts";
import { waitFor } from "../support/wait-for.ts";

const odd: Record<string, string> = {
  "skills/fine/SKILL.md": skillText("fine"),
  "skills/broken/SKILL.md": "no frontmatter\n",
};

describe("skillet list", () => {
  it("lists name, description and source on stdout, and notices on stderr", async () => {
    const { code, stdout, stderr } = await skillet(["list"], { cwd: temporaryFolder(odd) });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^fine +Does fine\. Use when asked for fine\. {2}skills \(untrusted\)$/m);
    expect(stdout).toMatch(/^skillmaker .* bundled$/m);
    expect(stderr).toBe("! 1 file not loaded: `skillet list --all` shows why\n");
  });

  it("[S-28] is also `skillet skill list`", async () => {
    const cwd = temporaryFolder(odd);
    expect((await skillet(["skill", "list"], { cwd })).stdout).toBe((await skillet(["list"], { cwd })).stdout);
  });

  it("[S-44] shows all skills registered for a chat, each with its problems, and counts those of other chats", async () => {
    const home = temporaryFolder({
      ".skillet/skills/research/SKILL.md": skillText("research"),
      ".skillet/skills/diary/SKILL.md": skillText("diary", { more: "sensitive: true\n" }),
      ".skillet/skills/off/SKILL.md": skillText("off"),
      ".skillet/skills/needy/SKILL.md": skillText("needy", { more: "required_tools: [teleport]\n" }),
      ".skillet/config.toml": '[skills.defaults]\nallow_chat_ids = ["12345"]\n[skills.off]\nenabled = false\n',
    });
    const run = (...args: string[]) =>
      skillet(args, { cwd: temporaryFolder(), env: { HOME: home, SKILLS_DIR: join(home, "none") } });
    const own = await run("skill", "list", "--chat-id", "12345");
    expect(
      own.stdout
        .trim()
        .split("\n")
        .map((line) => [line.split(" ")[0], /\(([a-z-]+)\)$/.exec(line)?.[1]]),
    ).toEqual([
      ["diary", undefined],
      ["needy", "missing-tool"],
      ["off", "disabled"],
      ["research", undefined],
    ]);
    const group = await run("list", "--chat-type", "group", "--chat-id", "12345");
    expect(group.stdout).not.toContain("diary");
    expect(group.stderr).toBe("1 skill not for this chat\n");
    const other = await run("list", "--chat-id", "9", "--json");
    expect(JSON.parse(other.stdout)).toEqual({ skills: [] });
    const json = JSON.parse((await run("list", "--chat-id", "12345", "--json")).stdout);
    expect(json.skills.map(({ denial }: { denial?: { code: string } }) => denial?.code)).toEqual([
      ...[undefined, "missing-tool", "disabled", undefined],
    ]);
    const terminal = await run("skill", "list");
    expect(terminal.stdout).toBe("");
    expect(terminal.stderr).toContain("! 1 not available, 3 not for this chat: `skillet list --all` shows why");
    expect(await run("list", "--chat-id", "1", "--installed")).toMatchObject({ code: 2 });
  });

  it("--all shows shadowed, disabled and broken skills, with reason, path and fix", async () => {
    const home = temporaryFolder({
      ".skillet/skills/fine/SKILL.md": skillText("fine", { description: "Another one." }),
      ".skillet/skills/off/SKILL.md": skillText("off"),
      ".skillet/config.toml": "[skills.off]\nenabled = false\n",
    });
    const { stdout } = await skillet(["list", "--all"], { cwd: temporaryFolder(odd), env: { HOME: home } });
    expect(stdout).toContain("fine@~/.skillet/skills  by fine@skills");
    expect(stdout).toContain("off  Skill 'off' is disabled in the configuration; enable it: skillet enable off");
    expect(stdout).toContain("✗ skills/broken/SKILL.md:1:1 has no frontmatter");
    expect(stdout).toContain("    start it with ---");
    const named = await skillet(["list", "--all", "off"], { cwd: temporaryFolder(odd), env: { HOME: home } });
    expect(named.stdout).toContain("skillet enable off");
    expect(named.stdout).not.toMatch(/fine@|skillet enable (?!off)/);
  });

  it("lists the skills that contain all words in their name or description, and counts them", async () => {
    const home = temporaryFolder({
      ".skillet/skills/pdf/SKILL.md": skillText("pdf", { description: "Fills forms." }),
      ".skillet/skills/scan/SKILL.md": skillText("scan", { description: "Reads a PDF with forms." }),
      ".skillet/skills/table/SKILL.md": skillText("table", { description: "Reads timetables." }),
    });
    const run = (...args: string[]) => skillet(["list", ...args], { cwd: temporaryFolder(), env: { HOME: home } });
    const { stdout, stderr } = await run("Pdf", "form");
    expect(stdout.split("\n").map((line) => line.split(" ")[0])).toEqual(["pdf", "scan", ""]);
    expect(stderr).toMatch(/^2 of \d+ skills\n$/);
    expect(JSON.parse((await run("timetables", "--json")).stdout).skills).toMatchObject([{ name: "table" }]);
    expect(await run("x", "--by", "client")).toMatchObject({ code: 2 });
    const shown = await skillet(["list"], { cwd: temporaryFolder(), env: { HOME: home }, isTTY: true });
    expect(shown.stderr).toMatch(/^\d+ skills$/m);
  });

  it("[A-01] shows the paths of a skill that several folders contain", async () => {
    const home = temporaryFolder({
      ".skillet/skills/fine/SKILL.md": skillText("fine"),
      ".codex/skills/fine/SKILL.md": skillText("fine"),
      ".gemini/skills/fine/SKILL.md": skillText("fine", { description: "Another one." }),
    });
    const cwd = temporaryFolder();
    const run = async (...args: string[]) => (await skillet(args, { cwd, env: { HOME: home } })).stdout;
    const files = ["skillet", "codex"].map((name) => `~/.${name}/skills/fine/SKILL.md`);
    const all = await run("list", "--all");
    expect(all).toContain(`Identical copies in several places\n  fine  ${files.join(", ")}\n`);
    expect(all).toContain("Shadowed by a nearer copy");
    expect(await run("show", "fine")).toMatch(
      /path +~\/\.skillet\/\S+\n +also at +~\/\.codex\/skills\/fine\/SKILL\.md\n/,
    );
    const places = files.map((file) => expect.objectContaining({ scope: "user", file: file.replace("~", home) }));
    const { skills } = JSON.parse(await run("list", "--json"));
    expect(skills.find(({ name }: { name: string }) => name === "fine").locations).toEqual(places);
    expect(JSON.parse(await run("show", "fine", "--json")).locations).toEqual(places);
    expect(skills.find(({ name }: { name: string }) => name !== "fine").locations).toHaveLength(1);
  });

  it("does not report a copy that is identical to the byte", async () => {
    const home = temporaryFolder({
      ".skillet/skills/fine/SKILL.md": skillText("fine"),
      ".skillet/skills/fine/a.txt": "a",
    });
    const cwd = temporaryFolder({ "skills/fine/SKILL.md": skillText("fine"), "skills/fine/a.txt": "a" });
    const list = () => skillet(["list", "--all"], { cwd, env: { HOME: home } });
    expect((await list()).stdout).not.toContain("Shadowed");
    writeFileSync(join(home, ".skillet/skills/fine/a.txt"), "b");
    expect((await list()).stdout).toContain("Shadowed");
  });

  it("--json prints the same as data", async () => {
    const { stdout } = await skillet(["list", "--json", "--all"], { cwd: temporaryFolder(odd) });
    const data = JSON.parse(stdout);
    expect(data.skills).toContainEqual(
      expect.objectContaining({ name: "fine", scope: "workspace", source: "skills", form: "folder", tags: [] }),
    );
    expect(data.diagnostics).toMatchObject([{ code: "frontmatter-missing", severity: "error", line: 1 }]);
  });

  it("uses color only on a terminal, and never with NO_COLOR", async () => {
    const cwd = temporaryFolder(odd);
    expect((await skillet(["list"], { cwd })).stdout).not.toContain("\x1b");
    expect((await skillet(["list"], { cwd, isTTY: true })).stdout).toContain("\x1b[1m");
    expect((await skillet(["list"], { cwd, isTTY: true, env: { NO_COLOR: "1" } })).stdout).not.toContain("\x1b");
  });

  it("fits a line into the terminal's width", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": skillText("a", { description: "long words ".repeat(40) }) });
    const { stdout } = await skillet(["list"], { cwd, isTTY: true, columns: 60, env: { NO_COLOR: "1" } });
    for (const line of stdout.trimEnd().split("\n")) expect(line.length).toBeLessThanOrEqual(60);
  });

  it("continues with defaults when the configuration does not parse, names the line, and exits 2", async () => {
    const home = temporaryFolder({ ".skillet/config.toml": "[skills\n" });
    const { code, stdout, stderr } = await skillet(["list"], { env: { HOME: home } });
    expect(code).toBe(2);
    expect(stdout).toContain("skillmaker");
    expect(stderr).toMatch(/✗ .*\.skillet\/config\.toml:1:\d+ is not valid TOML/);
  });

  it.runIf(process.platform === "linux")("works with a home that cannot be created", () => {
    const source = `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n`;
    const start = KEPT === undefined ? "start.mjs" : join(packageRoot() ?? "", "bin/skillet.cjs");
    const { status, stdout } = spawnSync(process.execPath, [start, "list"], {
      cwd: temporaryFolder({ ...odd, "start.mjs": source }),
      env: { HOME: "/proc/none" },
      encoding: "utf8",
      timeout: 30_000,
      killSignal: "SIGKILL",
    });
    expect([status, stdout]).toEqual([0, expect.stringContaining("Does fine.")]);
  });

  it("explains how to start without any skill", async () => {
    const empty = temporaryFolder();
    const { stdout, stderr, code } = await skillet(["list"], { cwd: empty, env: { SKILLS_DIR: empty } });
    expect({ stdout, code }).toEqual({ stdout: "", code: 0 });
    expect(stderr).toContain("create one with `skillet new NAME`");
  });

  it("[W-18] --watch shows what is added, changed, broken and removed", async () => {
    const cwd = temporaryFolder({
      "skills/first/SKILL.md": skillText("first"),
      ".skillet/config.toml": "[skills.off]\nenabled = false\n",
    });
    let all = "";
    const abort = new AbortController();
    let output = "";
    const seen = async (text: string | RegExp) => {
      await waitFor(() => expect(output).toMatch(text));
      output = "";
    };
    let isWatching = false;
    const running = skillet(["list", "--watch"], {
      cwd,
      signal: abort.signal,
      onOutput: (text) => {
        output += text;
        all += text;
      },
      onStderr(text) {
        isWatching ||= text.startsWith("watching");
      },
    });
    await seen("skillmaker");
    await waitFor(() => isWatching);
    writeFiles(cwd, { "skills/off/SKILL.md": skillText("off") });
    writeFiles(cwd, { "skills/second/SKILL.md": skillText("second") });
    await seen("+ second");
    writeFiles(cwd, { "skills/first/SKILL.md": skillText("first", { description: "Now it does more." }) });
    await seen("~ first  Now it does more.");
    writeFiles(cwd, { ".agents/skills/third/SKILL.md": skillText("third") });
    await seen("+ third");
    writeFiles(cwd, { ".agents/skills/fourth/SKILL.md": skillText("fourth") });
    await seen("+ fourth");
    writeFileSync(join(cwd, "skills/second/SKILL.md"), "---\nname: sec");
    await seen(/- second[\s\S]*✗ skills\/second\/SKILL\.md:1:1 the frontmatter has no closing ---/);
    abort.abort();
    expect((await running).code).toBe(0);
    expect(all, "a disabled skill is not shown").not.toContain(" off ");
  });

  it("[S-10] --watch follows the configuration: disabled and enabled skills, and sources that change", async () => {
    const cwd = temporaryFolder({
      "skills/first/SKILL.md": skillText("first"),
      "home/.skillet/config.toml": "",
      "more/far/SKILL.md": skillText("far"),
    });
    const env = { HOME: join(cwd, "home") };
    const abort = new AbortController();
    const lines: { type: string; added?: { name: string }[]; removed?: string[]; skills?: { name: string }[] }[] = [];
    let rest = "";
    const onOutput = (text: string) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) if (part.startsWith("{")) lines.push(JSON.parse(part));
    };
    const running = skillet(["list", "--watch", "--json"], { cwd, env, signal: abort.signal, onOutput });
    const seen = (expected: object) =>
      vi.waitFor(() => expect(lines).toContainEqual(expect.objectContaining(expected)), { timeout: 45_000 });
    const command = async (...args: string[]) => expect((await skillet(args, { cwd, env })).code).toBe(0);
    await seen({ type: "listed" });
    await command("disable", "first");
    await seen({ type: "changed", removed: ["first"] });
    await command("enable", "first");
    const named = (name: string) => [expect.objectContaining({ name })];
    await seen({ type: "changed", added: named("first") });
    await command("config", "set", "sources.team.path", join(cwd, "more"));
    await seen({ type: "changed", added: named("far") });
    writeFiles(cwd, { "more/farther/SKILL.md": skillText("farther") });
    await seen({ type: "changed", added: named("farther") });
    await command("config", "unset", "sources.team.path");
    await seen({ type: "changed", removed: ["far", "farther"] });
    abort.abort();
    expect((await running).code).toBe(0);
  });
});

describe("skillet", () => {
  it("without arguments prints a summary and the next steps", async () => {
    const { stdout, code } = await skillet([], { cwd: temporaryFolder(odd) });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^skillet: 10 skills for .* \(9 bundled, 1 workspace\)$/m);
    expect(stdout).toMatch(/skillet list --all +show why 1 file did not load/);
    expect(stdout).toContain("  skillet new my-skill");
    const throughNpm = await skillet([], { env: { npm_command: "start" } });
    expect(throughNpm.stdout).toContain("  npx skillet new my-skill");
  });

  it("takes the workspace from --workspace", async () => {
    const workspace = temporaryFolder(odd);
    for (const args of [
      ["-C", workspace],
      ["-C", workspace, "list"],
      ["list", "-C", workspace],
      ["list", "--workspace", workspace],
    ]) {
      expect((await skillet(args)).stdout).toContain("fine");
    }
  });

  it("takes --json before or after the command", async () => {
    for (const args of [
      ["list", "--json"],
      ["--json", "list"],
    ])
      expect(JSON.parse((await skillet(args)).stdout)).toHaveProperty("skills");
  });

  it("refuses two options that contradict each other", async () => {
    for (const args of [
      ["list", "--watch", "--all"],
      ["check", "--json", "--format", "sarif"],
      ["new", "a", "--user", "--in", "b"],
    ]) {
      expect(await skillet(args), args.join(" ")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("cannot be used with"),
      });
    }
    expect((await skillet(["check", "--json"])).code).toBe(0);
  });

  it("refuses a workspace that does not exist", async () => {
    expect(await skillet(["list", "-C", "/not/there"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("does not exist"),
    });
    const env = { AGENT_WORKSPACE_ROOT: "/not/there" };
    expect(await skillet(["list"], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("AGENT_WORKSPACE_ROOT"),
    });
  });

  it("suggests a command for a typo and exits 2", async () => {
    const { code, stderr } = await skillet(["lsit"]);
    expect(code).toBe(2);
    expect(stderr).toContain("did you mean list?");
    expect((await skillet(["list", "--al"])).stderr).toContain("did you mean --all?");
    expect((await skillet(["check", "--profile", "strict"])).code).toBe(2);
  });

  it.each([
    [["run"], "run"],
    [["config", "get"], "config get"],
    [["packages", "build", "--nope"], "packages build"],
  ])("points from a mistake in %j to the help of that command", async (args, command) => {
    const { code, stderr } = await skillet(args);
    expect(code).toBe(2);
    expect(stderr).toContain(`  see its help: skillet ${command} --help\n`);
    expect((await skillet(["nope"])).stderr).toContain("see the commands: skillet --help");
  });

  it("states in one line that it also uses skills", async () => {
    expect((await skillet(["--help"])).stdout).toMatch(/^The toolkit for Agent Skills: .*run them safely\.$/m);
  });

  it("fits the next steps into 80 columns, also through npx and with long names", async () => {
    const name = "a-name-that-is-as-long-as-the-open-standard-lets-a-name-be-made";
    const cwd = temporaryFolder({ [`skills/${name}/SKILL.md`]: skillText(name), "skills/bad/SKILL.md": "x" });
    const env = { npm_command: "exec", SKILLS_DIR: temporaryFolder() };
    for (const at of [cwd, temporaryFolder()]) {
      const [, next = ""] = (await skillet([], { cwd: at, env })).stdout.split("\nNext\n");
      expect(next).toContain("npx skillet doctor --sandbox  ");
      expect(next.split("\n").filter((line) => line.length > 80)).toEqual([]);
    }
    expect((await skillet([], { cwd, env })).stdout).toContain("npx skillet show NAME ");
  });

  it("prints its version", async () => {
    expect((await skillet(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.each([[], ["list"], ["show"], ["check"], ["new"], ["doctor"], ["skill"], ["skill", "validate"]])(
    "shows help for %s",
    async (...command: string[]) => {
      const { code, stdout } = await skillet([...command, "--help"]);
      expect(code).toBe(0);
      expect(stdout).toContain("Usage: skillet");
    },
  );
});

describe("skillet show", () => {
  it("shows the tiers of a skill, its origin, its files and findings", async () => {
    const home = temporaryFolder({ ".skillet/skills/a/SKILL.md": skillText("a", { description: "Far." }) });
    const cwd = temporaryFolder({
      "skills/a/SKILL.md": "---\nname: a\ndescription: Use: this\nversion: 1.2.3\ntags: [x]\n---\n\nBody text.\n",
      "skills/a/scripts/run.sh": "#!/bin/sh\n",
    });
    const { stdout, code } = await skillet(["show", "a"], { cwd, env: { HOME: home } });
    expect(code).toBe(0);
    for (const part of [
      "Use: this",
      "1.2.3",
      "~4 tokens in a list, ~3 tokens in full (1 line)",
      "a@skills",
      "a@~/.skillet/skills",
      "scripts/run.sh",
      "yaml-repaired",
    ]) {
      expect(stdout).toContain(part);
    }
    expect((await skillet(["show", "a@user"], { cwd, env: { HOME: home } })).stdout).toContain("Far.");
    expect((await skillet(["show", "a", "--body"], { cwd })).stdout).toBe("Body text.\n");
    expect((await skillet(["show", "a", "scripts/run.sh"], { cwd })).stdout).toBe("#!/bin/sh\n");
    expect(JSON.parse((await skillet(["show", "a", "scripts/run.sh", "--json"], { cwd })).stdout)).toEqual({
      name: "a",
      path: "scripts/run.sh",
      text: "#!/bin/sh\n",
    });
    expect(JSON.parse((await skillet(["show", "a", "--json"], { cwd })).stdout)).toMatchObject({
      name: "a",
      tokens: { full: 3 },
      files: [{ path: "scripts/run.sh" }],
    });
  });

  it("reports why a skill did not load, rather than that it is missing", async () => {
    const cwd = temporaryFolder({ "skills/deploy/SKILL.md": "---\nname: deploy\n---\nx\n" });
    const { code, stderr } = await skillet(["show", "deploy"], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain("Skill 'deploy' did not load");
    expect(stderr).toContain("description-missing");
  });

  it("names the error in a folder that exists but is not a skill", async () => {
    const cwd = temporaryFolder({ "skills/text/SKILL.txt": skillText("text"), "skills/empty/notes.txt": "x" });
    expect((await skillet(["show", "text"], { cwd })).stderr).toContain("[file-name]");
    expect((await skillet(["show", "empty"], { cwd })).stderr).toContain(
      "skills/empty is not a skill: it has no SKILL.md",
    );
    expect((await skillet(["show", "../skills"], { cwd })).stderr).toContain("not found");
  });

  it("addresses two copies in one source by their paths", async () => {
    const cwd = temporaryFolder({
      "skills/a/SKILL.md": skillText("a", { description: "The folder." }),
      "skills/a.md": skillText("a", { description: "The flat one." }),
    });
    expect((await skillet(["list", "--all"], { cwd })).stdout).toContain("a@skills/a.md  by a@skills/a/SKILL.md");
    expect((await skillet(["show", "a@skills/a.md"], { cwd })).stdout).toContain("The flat one.");
  });

  it("names the nearest skill, and the existing files", async () => {
    const cwd = temporaryFolder({
      "skills/deploy/SKILL.md": skillText("deploy"),
      "skills/deploy/a.bin": Uint8Array.of(0, 1, 255),
    });
    const missing = await skillet(["show", "deplay"], { cwd });
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('did you mean "deploy"?') });
    expect((await skillet(["show", "deploy", "../deploy/a.bin"], { cwd })).stderr).toContain("available files: a.bin");
    expect((await skillet(["show", "deploy", "a.bin"], { cwd })).stderr).toContain("is not text (3 bytes)");
  });
});

describe("skillet doctor", () => {
  it("reports as many skills as `skillet` and `skillet list`", async () => {
    const files = {
      "skills/one/SKILL.md": skillText("one"),
      "skills/off/SKILL.md": skillText("off", { more: "enabled: false\n" }),
    };
    const cwd = temporaryFolder(files);
    const total = async (args: string[], pattern: RegExp) => pattern.exec((await skillet(args, { cwd })).stdout)?.[1];
    const overview = await total([], /^skillet: (\d+ skills?) /);
    const { skills } = JSON.parse((await skillet(["list", "--json"], { cwd })).stdout);
    expect(overview).toBe(`${skills.length} skills`);
    expect(await total(["doctor"], /^ {2}(\d+ skills?) in use, \d+ not available: /m)).toBe(overview);
  });

  it("tests a configured model as a chat does: one without a key fails, one with a key passes", async () => {
    const table =
      '[models.default]\nprovider = "anthropic"\nmodel = "claude-x"\nbase_url = "http://127.0.0.1:9999/v1"\n';
    const at = async (config: string, args: string[] = []) => {
      const home = temporaryFolder({ ".skillet/config.toml": config });
      chmodSync(join(home, ".skillet/config.toml"), 0o600);
      const cwd = temporaryFolder();
      const env = { HOME: home, ANTHROPIC_API_KEY: "sk-of-the-environment" };
      return skillet(["doctor", ...args], { cwd, env });
    };
    const without = await at(table);
    expect(without.code).toBe(1);
    expect(without.stdout).toMatch(
      /✗ anthropic\/claude-x {2}default\n {4}The model 'default' \(anthropic\) has no usable key/,
    );
    expect(without.stdout).not.toContain("✓ anthropic");
    const { models } = JSON.parse((await at(table, ["--json"])).stdout);
    expect(models[0]).toMatchObject({ alias: "default", problem: { code: "model-key-missing" } });
    const having = await at(`${table}api_key = "sk-mine-12345678"\n`);
    expect(having.stdout).toContain("✓ anthropic/claude-x");
    expect(having.code).toBe(0);
  });

  it("[S-33] shows every folder with its count, the configuration, and problems", async () => {
    const home = temporaryFolder({
      ".skillet/config.toml": '[sources.team]\npath = "~/team"\n[skills.fine]\nKEY = "secret-value"\n',
      "team/x/SKILL.md": skillText("x"),
      ".skillet/installed/y/SKILL.md": skillText("y"),
    });
    const { stdout, code } = await skillet(["doctor"], { cwd: temporaryFolder(odd), env: { HOME: home } });
    expect(code).toBe(1);
    expect(stdout).toMatch(/bundled +bundled +12 skills/);
    expect(stdout).toMatch(/installed +installed +1 skill/);
    expect(stdout).toMatch(/user +team +1 skill/);
    expect(stdout).toMatch(/workspace +skills +1 skill/);
    expect(stdout).toMatch(/^ {2}\d+ other client folders not found: skillet doctor --json lists them$/m);
    expect(stdout).toContain("config.toml  read");
    expect(stdout).toContain("[skills.fine] sets KEY, which the skill does not declare");
    expect(stdout).toContain("frontmatter-missing");
    expect(stdout).toContain(`Node ${process.version}`);
    expect(stdout).not.toContain("secret-value");
  });

  it("fits into 80 columns, with the home folder as ~", async () => {
    const home = temporaryFolder({
      ".claude/skills/y/SKILL.md": skillText("y"),
      ".claude/skills/y/scripts/a.sh": "true\n",
      ".claude/skills/text/SKILL.md": skillText("text"),
    });
    const { stdout } = await skillet(["doctor"], { env: { HOME: home }, cwd: join(home, ".claude") });
    const rest = stdout.split("\n").filter((line) => !line.includes(packageRoot() ?? ""));
    expect(rest.filter((line) => line.length > 80)).toEqual([]);
    expect(stdout).not.toContain(home);
    expect(stdout).toContain("  the code of 1 skill is not trusted yet: skillet trust ~/.claude/skills\n");
    expect(stdout).toContain("or add [models.default] to ~/.skillet/config.toml\n");
  });

  it("exits 0 without problems, and 2 when the configuration does not parse", async () => {
    expect(await skillet(["doctor"])).toMatchObject({ code: 0, stdout: expect.stringContaining("no problems found") });
    const home = temporaryFolder({ ".skillet/config.toml": "=" });
    expect((await skillet(["doctor", "--json"], { env: { HOME: home } })).code).toBe(2);
  });
});
