import { execFile } from "node:child_process";
import { chmodSync, existsSync, lstatSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { PROGRAM, RUN } from "../support/program.ts";

interface Place {
  file: string;
  text(): string;
  run(args: readonly string[], options?: RunOptions): ReturnType<typeof skillet>;
}

/** A home with this configuration, and a workspace with that one. */
function place(user?: string, workspace?: string, files: Record<string, string> = {}): Place {
  const root = temporaryFolder({ "project/readme": "", ...files });
  if (user !== undefined) {
    writeFiles(root, { "home/.skillet/config.toml": "" });
    writeFileSync(join(root, "home/.skillet/config.toml"), user);
  }
  if (workspace !== undefined) writeFiles(root, { "project/.skillet/config.toml": workspace });
  const file = join(root, "home/.skillet/config.toml");
  const env = { HOME: join(root, "home"), SKILLS_DIR: join(root, "shipped") };
  return {
    file,
    text: () => readFileSync(file, "utf8"),
    run: (args, options = {}) =>
      skillet(["config", ...args], { cwd: join(root, "project"), ...options, env: { ...env, ...options.env } }),
  };
}

const SECRETS = `# mine
[skills.research]
KEY = "sesame-1"
FROM_ENV = "env:REAL"
GONE = "env:NOT_THERE"
[models.fast]
api_key = "sesame-2"
`;

describe("skillet config", () => {
  it("[S-19] shows each value and its source: the default, your file or the workspace's", async () => {
    const { run } = place(
      "[limits]\nnesting = 2\ntokens = 50\n",
      '[skills.a]\nmodel = "fast"\n[limits]\nnesting = 9\n',
    );
    const { stdout, code } = await run([]);
    expect(code).toBe(0);
    expect(stdout).toContain("  limits.nesting = 2  ~/.skillet/config.toml:2\n");
    expect(stdout).toContain('  skills.a.model = "fast"  .skillet/config.toml:2\n');
    expect(stdout).toMatch(/but overruled.*\n {2}limits\.nesting = 9 {2}\.skillet\/config\.toml:4\n/);
    const [, defaults = ""] = stdout.split("Defaults\n");
    expect(defaults).toContain("  limits.max_iterations = 10\n");
    expect(defaults).not.toContain("limits.nesting");
  });

  it("[S-38] reports refused, unknown and undeclared keys, and unknown skills", async () => {
    const { run } = place(
      '[skills.a]\nOTHER = "x"\nenabeld = true\n[skills.b]\nenabled = true\n',
      '[models.x]\nbase_url = "http://evil"\n',
      { "project/skills/a/SKILL.md": skillText("a", { more: "env: [KEY]\n" }) },
    );
    const { stdout, code } = await run([]);
    expect(code, "something was refused").toBe(1);
    expect(stdout).toContain('.skillet/config.toml:2:1 "models.x.base_url" may not be set by a workspace');
    expect(stdout).toContain("[skills.a] sets OTHER, which the skill does not declare; the skill does not get it");
    expect(stdout).toContain('did you mean "skills.a.enabled"?');
    expect(stdout).toContain("[skills.b] names a skill that is not found");
  });

  it("[Q-22] shows no secret, in text or JSON, and reports whether a reference resolves", async () => {
    const { run } = place(SECRETS);
    for (const args of [[], ["--json"]]) {
      const { stdout, stderr } = await run(args, { env: { REAL: "sesame-3" } });
      expect(stdout + stderr).not.toContain("sesame");
      expect(stdout).toContain("[KEY]");
      expect(stdout).toContain("(set)");
    }
    const { stdout } = await run([], { env: { REAL: "sesame-3" } });
    expect(stdout).toContain('  skills.research.FROM_ENV = "env:REAL"  resolves  ');
    expect(stdout).toContain('its value, "env:NOT_THERE", is empty or not set');
    const shown = await run(["--show-secrets"], { env: { REAL: "sesame-3" } });
    expect(shown.stdout).toContain('KEY = "sesame-1"');
    expect(shown.stdout).toContain('api_key = "sesame-2"');
    expect(shown.stdout, "references are not resolved for display").not.toContain("sesame-3");
  });

  it("[S-19] shows the effective values without any file", async () => {
    const { run } = place();
    const isMac = process.platform === "darwin";
    const [level, engine] = isMac ? ["partial", "seatbelt"] : ["strong", "bubblewrap"];
    const { stdout } = await run([]);
    expect(stdout).not.toContain("not set");
    expect(stdout).toContain(`  sandbox.level = "${level}"\n  sandbox.engine = "${engine}"\n`);
    expect(stdout).toContain("  sandbox.workspace = none; tools of runs: read-write in your own workspace\n");
    expect(stdout).toContain("  limits.tokens = no limit\n");
    expect((await run(["get", "sandbox.level"])).stdout).toBe(`${level}\n`);
  });

  it("[Q-22] warns of values that others can read, not of references to them", async () => {
    const references = '[models.fast]\napi_key = "env:NAME"\n[skills.a]\nKEY = "file:key.txt"\n';
    const { run, file } = place(references);
    chmodSync(file, 0o644);
    expect((await run([])).stdout).not.toContain("is readable by other users");
    writeFileSync(file, `${references}OTHER = "sesame"\n`);
    expect((await run([])).stdout).toContain("is readable by other users");
  });

  it("names the line when a file does not parse", async () => {
    const { run } = place("[skills.a\n");
    for (const args of [[], ["get", "limits.nesting"]]) {
      const { code, stdout, stderr } = await run(args);
      expect(code).toBe(2);
      expect(stdout + stderr).toContain("config.toml:1:");
    }
  });

  it("prints the file's path, also when SKILLET_HOME moves it", async () => {
    const { run, file } = place();
    expect((await run(["path"])).stdout).toBe(`${file}\n`);
    const SKILLET_HOME = temporaryFolder();
    expect((await run(["path"], { env: { SKILLET_HOME } })).stdout).toBe(`${SKILLET_HOME}/config.toml\n`);
    await run(["set", "limits.nesting", "1"], { env: { SKILLET_HOME } });
    expect(readFileSync(join(SKILLET_HOME, "config.toml"), "utf8")).toBe("[limits]\nnesting = 1\n");
    expect(existsSync(file)).toBe(false);
  });
});

describe("skillet config get", () => {
  it("prints one value, or its default", async () => {
    const { run } = place('[skills.a]\nmodel = "x"\n[tools]\ndisabled = ["bash"]\n[prices."gpt-5.1"]\ninput = 1.5\n');
    expect((await run(["get", "skills.a.model"])).stdout).toBe("x\n");
    expect((await run(["get", "tools.disabled"])).stdout).toBe('["bash"]\n');
    expect((await run(["get", "limits.max_iterations"])).stdout).toBe("10\n");
    for (const key of ['prices."gpt-5.1".input', "prices.gpt-5.1.input"])
      expect((await run(["get", key])).stdout).toBe("1.5\n");
    expect(JSON.parse((await run(["get", "skills.a.model", "--json"])).stdout)).toMatchObject({
      key: "skills.a.model",
      value: "x",
      from: "user",
      line: 2,
    });
    const { code, stderr } = await run(["get", "skills.b.model"]);
    expect(code).toBe(1);
    expect(stderr).toContain("skills.b.model is not set");
  });

  it("prints everything below a table, with defaults, and no secret by default", async () => {
    const { run } = place(`${SECRETS}model = "x"\n[limits]\nnesting = 2\n`);
    const research = 'skills.research.KEY = [KEY]\nskills.research.FROM_ENV = "env:REAL"  resolves\n';
    expect((await run(["get", "skills.research"], { env: { REAL: "y" } })).stdout).toContain(research);
    expect((await run(["get", "models"])).stdout).toBe('models.fast.api_key = (set)\nmodels.fast.model = "x"\n');
    expect((await run(["get", "skills.research", "--show-secrets"])).stdout).toContain('KEY = "sesame-1"\n');
    const limits = (await run(["get", "limits"])).stdout;
    expect(limits).toMatch(/^limits\.nesting = 2\nlimits\.max_iterations = 10\n/);
    expect(limits).not.toContain("sandbox");
    expect(JSON.parse((await run(["get", "models.fast", "--json"])).stdout)).toMatchObject({
      key: "models.fast",
      values: [
        { key: "models.fast.api_key", value: "(set)", isHidden: true },
        { value: "x", from: "user" },
      ],
    });
    expect(await run(["get", "skills.other"])).toMatchObject({ code: 1, stdout: "" });
    expect(await run(["get", "skils"])).toMatchObject({ code: 2, stdout: "" });
  });

  it("[Q-22] prints a secret only on request", async () => {
    const { run } = place(SECRETS);
    for (const key of ["skills.research.KEY", "models.fast.api_key"]) {
      for (const more of [[], ["--json"]]) {
        const { code, stdout, stderr } = await run(["get", key, ...more]);
        expect(code).toBe(3);
        expect(stdout + stderr).not.toContain("sesame");
        expect(stderr).toContain(`skillet config get ${key} --show-secrets`);
      }
    }
    expect((await run(["get", "skills.research.KEY", "--show-secrets"])).stdout).toBe("sesame-1\n");
    expect((await run(["get", "skills.research.FROM_ENV"])).stdout, "a reference is not a secret").toBe("env:REAL\n");
  });
});

describe("skillet config set", () => {
  it("creates the file, readable for its owner alone", async () => {
    const { run, file, text } = place();
    const { code, stdout } = await run(["set", "skills.deploy.enabled", "true"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "✓ skills.deploy.enabled set in ~/.skillet/config.toml\n" });
    expect(text()).toBe("[skills.deploy]\nenabled = true\n");
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("keeps comments, order and everything else", async () => {
    const before = `# the top

[skills.a] # head
enabled = true   # tail
# between
model = """
[skills.b]
# no comment"""

[skills.c]
enabled = false

# the end
`;
    const { run, text } = place(before);
    await run(["set", "skills.a.enabled", "false"]);
    expect(text()).toBe(before.replace("enabled = true ", "enabled = false "));
    await run(["set", "skills.a.workspace", "read"]);
    expect(text()).toContain('# no comment"""\nworkspace = "read"\n\n[skills.c]');
    await run(["set", "skills.a.model", "fast"]);
    expect(text()).toContain('# between\nmodel = "fast"\nworkspace');
    await run(["set", "limits.nesting", "2"]);
    expect(text()).toMatch(/# the end\n\n\[limits\]\nnesting = 2\n$/);
    for (const key of ["skills.a.workspace", "limits.nesting"]) expect((await run(["unset", key])).code).toBe(0);
    expect(text()).not.toMatch(/workspace|nesting/);
    expect(text()).toContain("# between\n");
  });

  it.each([
    ["dotted keys at the top", "skills.a.enabled = true\n", 'skills.a.enabled = true\nskills.a.model = "x"\n'],
    ["dotted keys in a table", "[skills]\na.enabled = true\n", '[skills]\na.enabled = true\na.model = "x"\n'],
    ["quoted names", '["skills"."a"]\nenabled = true\n', '["skills"."a"]\nenabled = true\nmodel = "x"\n'],
    ["no line end", "[skills.a]\nenabled = true", '[skills.a]\nenabled = true\nmodel = "x"\n'],
    ["Windows line ends", "[skills.a]\r\nenabled = true\r\n", '[skills.a]\r\nenabled = true\r\nmodel = "x"\r\n'],
    ["a table of its table", "[skills.a.capability_provider]\nenabled = true\n", undefined],
  ])("finds the right place among %s", async (_, before, after) => {
    const { run, text } = place(before);
    expect((await run(["set", "skills.a.model", "x"])).stderr).toBe("");
    if (after !== undefined) expect(text()).toBe(after);
    expect((await run(["get", "skills.a.model"])).stdout).toBe("x\n");
  });

  it("changes nothing when the user must edit by hand, and names the line", async () => {
    const before = '[tools]\ndisabled = []\n[skills]\na = { enabled = true, model = "x" }\n';
    const { run, text } = place(before);
    for (const args of [
      ["set", "skills.a.model", "y"],
      ["set", "skills.a.workspace", "read"],
      ["unset", "skills.a.model"],
    ]) {
      const { code, stderr } = await run(args);
      expect(code).toBe(1);
      expect(stderr).toContain("config.toml:4 writes");
    }
    expect(text()).toBe(before);
    const broken = place("[skills.a\n");
    const { code, stderr } = await broken.run(["set", "skills.a.model", "x"]);
    expect(code).toBe(1);
    expect(stderr).toContain("fix the line first: nothing was written");
    expect(broken.text()).toBe("[skills.a\n");
  });

  it.each(['a"b', "a\\b", "two\nlines", "'''", '"""', "#no [comment]", "tab\tbell\u0007del\u007f", "ü 🎉 = x", " x "])(
    "[Q-25] writes %j so that it reads back the same",
    async (value) => {
      const { run } = place("[skills.a]\nenabled = true # so\n");
      expect((await run(["set", "skills.a.model", value])).code).toBe(0);
      expect((await run(["get", "skills.a.model"])).stdout).toBe(`${value}\n`);
      expect((await run(["set", "skills.a.KEY"], { stdin: `${value}\n` })).code).toBe(0);
      expect((await run(["get", "skills.a.KEY", "--show-secrets"])).stdout).toBe(`${value}\n`);
      expect((await run(["set", "skills.a.model", "plain"])).code).toBe(0);
      expect((await run(["get", "skills.a.KEY", "--show-secrets"])).stdout, "it is unchanged").toBe(`${value}\n`);
    },
  );

  it("quotes a name if necessary", async () => {
    const { run, text } = place();
    await run(["set", "prices.claude/x.5.output", "15"]);
    await run(["set", 'skills."my skill".enabled', "true"]);
    expect(text()).toBe('[prices."claude/x.5"]\noutput = 15\n\n[skills."my skill"]\nenabled = true\n');
  });

  it("accepts lists with commas or as JSON, and parses numbers and booleans", async () => {
    const { run, text } = place();
    await run(["set", "tools.disabled", "bash, grep"]);
    await run(["set", "disclosure.list_intents", '["a, b", "c"]']);
    await run(["set", "prices.x.input", "0.25"]);
    await run(["set", "skills.a.network", ""]);
    expect(text()).toBe(
      '[tools]\ndisabled = ["bash", "grep"]\n\n[disclosure]\nlist_intents = ["a, b", "c"]\n\n[prices.x]\ninput = 0.25\n\n[skills.a]\nnetwork = []\n',
    );
  });

  it.each([
    [["skills.a.enabeld", "true"], 'did you mean "skills.a.enabled"?'],
    [["skils.a.enabled", "true"], 'did you mean "skills.a.enabled"?'],
    [["nothing.like.this", "1"], '"nothing.like.this" is not a known key'],
    [["skills.defaults.enabled", "false"], '"skills.defaults.enabled" is not a known key'],
    [["skills.a.enabled", "yes"], "must be true or false"],
    [["limits.nesting", "0"], "must be a whole number above 0"],
    [["limits.nesting", "2.5"], "must be a whole number above 0"],
    [
      ["limits.max_iterations", "twenty"],
      "above 0  [usage]\n  for example: skillet config set limits.max_iterations 20\n",
    ],
    [["disclosure.list_intents", "[1]"], "must be a list of strings"],
    [["disclosure.list_intents", "[oops"], "must be a list of strings"],
    [["models.x.provider", "acme"], 'must be "anthropic", "openai", "ollama" or "openai-compatible"  [usage]'],
    [["models.x.base_url", "nowhere"], "must be a web address"],
    [["docs.url", "nowhere"], "for example: skillet config set docs.url https://skills.example.com\n"],
    [["limits.nesting"], "limits.nesting needs a value"],
    [["", "x"], "is not a known key"],
  ])("refuses %j with a fix, and writes nothing", async (args, said) => {
    const { run, file } = place();
    const { code, stderr } = await run(["set", ...args]);
    expect(code).toBe(2);
    expect(stderr).toContain(said);
    expect(existsSync(file)).toBe(false);
  });

  it("[Q-22] takes a secret from a pipe or a question, never from the command line", async () => {
    const { run, text, file } = place("[limits]\nnesting = 2\n");
    for (const key of ["skills.a.KEY", "models.x.api_key"]) {
      const refused = await run(["set", key, "sesame"]);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain(`pipe it in: skillet config set ${key} < FILE`);
      expect(refused.stdout + refused.stderr + text()).not.toContain("sesame");
    }
    const piped = await run(["set", "skills.a.KEY"], { stdin: "sesame-1\n" });
    const asked = await run(["set", "models.x.api_key", "--json"], { ask: async () => "sesame-2" });
    expect([piped.code, asked.code]).toEqual([0, 0]);
    expect(piped.stdout + piped.stderr + asked.stdout + asked.stderr).not.toContain("sesame");
    expect(text()).toContain('KEY = "sesame-1"');
    expect(text()).toContain('api_key = "sesame-2"');
    expect(statSync(file).mode & 0o077, "no other user can read it now").toBe(0);
    expect((await run(["set", "skills.a.KEY", "env:MY_KEY"])).code, "a reference is not a secret").toBe(0);
    expect(text()).toContain('KEY = "env:MY_KEY"');
    for (const options of [{}, { stdin: "" }, { stdin: "\n" }])
      expect((await run(["set", "skills.a.KEY"], options)).code).toBe(2);
  });

  it("keeps a link to the file", async () => {
    const { run, file } = place();
    const real = join(temporaryFolder({ "dotfiles.toml": "# dots\n" }), "dotfiles.toml");
    writeFiles(join(file, ".."), { x: "" });
    symlinkSync(real, file);
    await run(["set", "limits.nesting", "1"]);
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(readFileSync(real, "utf8")).toBe("# dots\n\n[limits]\nnesting = 1\n");
  });

  it("keeps a link to a file that does not exist yet", async () => {
    const { run, file } = place("");
    rmSync(file);
    symlinkSync("dots/config.toml", file);
    expect((await run(["set", "limits.nesting", "1"])).code).toBe(0);
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(file, "../dots/config.toml"), "utf8")).toBe("[limits]\nnesting = 1\n");
  });

  it("reports a file in place of its folder", async () => {
    const { run, file } = place(undefined, undefined, { "home/.skillet": "" });
    const { code, stderr } = await run(["set", "limits.nesting", "1"]);
    expect(code).toBe(1);
    expect(stderr).toContain(
      `The folder ${join(file, "..")} cannot be created: file already exists  [unwritable]\n  move the file`,
    );
  });

  it("loses nothing with many concurrent processes", async () => {
    const { file, text } = place("");
    const program = `import { run } from ${JSON.stringify(PROGRAM)}; ${RUN}`;
    const start = (index: number) =>
      promisify(execFile)(
        process.execPath,
        ["--input-type=module", "-e", program, "skillet", "config", "set", `skills.s${index}.model`, `m${index}`],
        { env: { HOME: join(file, "../.."), PATH: process.env["PATH"] } },
      );
    await Promise.all(Array.from({ length: 8 }, (_, index) => start(index)));
    for (let index = 0; index < 8; index++) expect(text()).toContain(`[skills.s${index}]\nmodel = "m${index}"\n`);
    expect(existsSync(`${file}.lock`)).toBe(false);
  });
});

describe("skillet config unset", () => {
  it("removes one value, and reports a missing one", async () => {
    const { run, text } = place(SECRETS);
    expect((await run(["unset", "skills.research.KEY"])).code).toBe(0);
    expect(text()).toBe(SECRETS.replace('KEY = "sesame-1"\n', ""));
    const again = await run(["unset", "skills.research.KEY"]);
    expect(again.code).toBe(1);
    expect(again.stderr).toContain("skills.research.KEY is not set in ~/.skillet/config.toml");
  });

  it("removes an unknown key too, such as a misspelling", async () => {
    const { run, text } = place("[skills.a]\nenabeld = true\n");
    expect((await run(["unset", "skills.a.enabeld"])).code).toBe(0);
    expect(text()).toBe("");
  });

  it.each([
    ["between others", '[a]\nx = 1\n\n[skills.a]\nmodel = "x"\n\n# b\n[b]\ny = 1\n', "[a]\nx = 1\n\n# b\n[b]\ny = 1\n"],
    ["at the end", '[a]\nx = 1\n\n[skills.a]\nmodel = "x"', "[a]\nx = 1\n"],
    ["with Windows line ends", '[a]\r\nx = 1\r\n\r\n[skills.a]\r\nmodel = "x"\r\n', "[a]\r\nx = 1\r\n"],
    ["right before another", '[skills.a]\nmodel = "x"\n[b]\ny = 1\n', "[b]\ny = 1\n"],
  ])("removes the table that it emptied, %s", async (_, before, after) => {
    const { run, text } = place(before);
    expect((await run(["unset", "skills.a.model"])).code).toBe(0);
    expect(text()).toBe(after);
  });

  it.each([
    '[skills.a]\nmodel = "x"\nenabled = true\n',
    '[skills.a]\nenabled = true\n\nmodel = "x"\n',
    '[skills.a] # mine\nmodel = "x"\n',
    '[skills.a]\n# why\nmodel = "x"\n',
    '[skills.a]\nmodel = "x"\n# enabled = false\n',
    'skills.a.model = "x"\nskills.a.enabled = true\n',
  ])("keeps a table with anything else in it: %j", async (before) => {
    const { run, text } = place(before);
    await run(["unset", "skills.a.model"]);
    expect(text()).toBe(before.replace(/.*model = "x"\n/, ""));
  });
});
