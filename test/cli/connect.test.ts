import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MCP_CLIENT_NAMES } from "../../src/skill/clients.ts";

import { type RunOptions, skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { HAS_ORDINARY_USER, ORDINARY_USER } from "../support/ordinary-user.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

const BIN = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** Creates a home folder and a project with these files. */
function place(files: Record<string, string | Uint8Array> = {}) {
  const folder = temporaryFolder({ "home/x": "", "project/x": "", ...files });
  const [home, project] = [join(folder, "home"), join(folder, "project")];
  return {
    folder,
    home,
    project,
    text: (file: string) => readFileSync(join(folder, file), "utf8"),
    connect: (args: readonly string[], options: RunOptions = {}) =>
      skillet(["connect", ...args], { cwd: project, ...options, env: { HOME: home, ...options.env } }),
    /** Reads everything except skillet's own folder. */
    all: () => filesIn(folder),
  };
}

function filesIn(folder: string): Record<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => !path.includes(".skillet"));
  return Object.fromEntries(
    paths.sort().map((path) => {
      const stats = lstatSync(join(folder, path));
      const content = stats.isFile() ? readFileSync(join(folder, path), "latin1") : "";
      return [path, `${(stats.mode & 0o170777).toString(8)} ${content}`];
    }),
  );
}

/** True when a text has all characters of another, in their order. */
function remainsIn(text: string, longer: string): boolean {
  let at = 0;
  for (const character of longer) if (character === text[at]) at++;
  return at === text.length;
}

const NODE = JSON.stringify(process.execPath);

/** A configuration for each client that has other servers, other hooks, comments and odd formatting. */
const LIVED_IN: Record<string, Record<string, string>> = {
  claude: {
    "home/.claude.json": '{"numStartups": 12, "mcpServers": {"a": {"command": "a"}}, "oauth": {"token": "sesame"}}',
    "home/.claude/settings.json":
      '{\n  "model": "opus",\n  "hooks": {\n    "UserPromptSubmit": [\n      { "matcher": "", "hooks": [{ "type": "command", "command": "mine.sh" }] }\n    ],\n    "Stop": []\n  }\n}\n',
  },
  codex: {
    "home/.codex/config.toml":
      '# mine\nmodel = "gpt-6"\r\n\r\n[mcp_servers.other] # that one\r\ncommand = "x"\r\n\r\n[mcp_servers.other.env]\r\nKEY = "sesame"',
    "home/.codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"b"}]}]}}',
  },
  gemini: {
    "home/.gemini/settings.json":
      '\ufeff// mine\r\n{\r\n\t"theme": "x", // y\r\n\t"mcpServers": {\r\n\t\t"a": { "command": "a" }, /* a */\r\n\t},\r\n\t"hooks": {"BeforeAgent": [{"hooks": [{"type": "command", "command": "z", "name": "z"}]}]},\r\n}',
  },
  opencode: {
    "home/.config/opencode/opencode.jsonc": '{\n    // theme\n    "theme": "x",\n    "mcp": {},\n}',
    "home/.config/opencode/plugins/other.js": "export const Other = async () => ({});\n",
  },
  copilot: {
    "home/.copilot/mcp-config.json": '{\n\t"mcpServers": {}\n}\n',
    "home/.copilot/hooks/other.json": '{"version":1,"hooks":{}}',
  },
  vscode: { "home/.config/Code/User/mcp.json": '{ "inputs": [], "servers": { "a": { "command": "a" } } }\n' },
  cursor: {
    "home/.cursor/mcp.json": "{}",
    "home/.cursor/hooks.json": '{ "version": 1, "hooks": { "beforeSubmitPrompt": [{ "command": "./mine.sh" }] } }\n',
  },
};

describe("skillet connect", () => {
  it("[A-07] writes the server and the hook of each client, once, and removes both without a trace", async () => {
    for (const client of MCP_CLIENT_NAMES) {
      const at = place();
      const before = at.all();
      const first = await at.connect([client, "--yes"]);
      expect([first.code, first.stderr.includes("✗")], first.stderr).toEqual([0, false]);
      const after = at.all();
      expect(Object.keys(after).length).toBeGreaterThan(Object.keys(before).length);
      const second = await at.connect([client, "--yes"]);
      expect(second.stdout).toMatch(/^✓ .+ is already connected: nothing to change\n$/);
      expect(at.all(), client).toEqual(after);
      const removed = await at.connect([client, "--remove", "--yes"]);
      expect([removed.code, removed.stdout]).toEqual([0, expect.stringMatching(/✓ .+ is disconnected\n$/)]);
      expect(at.all(), client).toEqual(before);
      expect((await at.connect([client, "--remove", "--yes"])).stdout).toMatch(/is not connected: nothing to remove/);
      expect(JSON.parse(at.text("home/.skillet/connections.json")).skills).toEqual({});
    }
  });

  it("[A-07] keeps other servers, other hooks, comments, line ends and modes, and restores files to the byte", async () => {
    for (const client of MCP_CLIENT_NAMES) {
      const at = place(LIVED_IN[client]);
      for (const file of Object.keys(LIVED_IN[client] ?? {})) chmodSync(join(at.folder, file), 0o640);
      const before = at.all();
      expect((await at.connect([client, "--yes"])).code, client).toBe(0);
      for (const [file, text] of Object.entries(LIVED_IN[client] ?? {})) {
        expect(statSync(join(at.folder, file)).mode & 0o777, file).toBe(0o640);
        expect(remainsIn(text, at.text(file)), file).toBe(true);
      }
      expect((await at.connect([client, "--remove", "--yes"])).code).toBe(0);
      expect(at.all(), client).toEqual(before);
    }
  });

  it("names the supported clients for an unknown one", async () => {
    const { code, stderr } = await place().connect(["foo"]);
    expect([code, stderr.replace(/\s+/g, " ")]).toEqual([
      2,
      expect.stringMatching(
        /^✗ Unknown client "foo" \[usage\] supported: claude, codex, gemini, opencode, copilot, vscode, cursor; /,
      ),
    ]);
  });

  it("names the skills whose code waits for trust, and the command that shows them", async () => {
    const { connect } = place({
      "home/.claude/skills/text/SKILL.md": "---\nname: text\ndescription: Text. Use when asked.\n---\nDo it.\n",
      "home/.claude/skills/code/SKILL.md": "---\nname: code\ndescription: Code. Use when asked.\n---\nDo it.\n",
      "home/.claude/skills/code/scripts/go.sh": "true\n",
    });
    const { stderr } = await connect(["claude", "--yes"]);
    expect(stderr).toContain("The code of 1 skill is not trusted yet: Claude Code gets the instructions");
    expect(stderr).toContain("skillet trust ~/.claude/skills");
  });

  it("[A-08] counts the text-only skills that the client reads itself, and names the command to list them again", async () => {
    const skill = "---\nname: own\ndescription: Does it. Use when asked.\n---\n\nDo it.\n";
    const at = place({ "home/.claude/skills/own/SKILL.md": skill });
    const said = async (...args: string[]) =>
      (await at.connect(["claude", "--yes", ...args])).stderr.replace(/\s+/g, " ");
    expect(await said()).toContain(
      "Claude Code reads 1 text-only skill from its own folders: the server does not list it again",
    );
    expect(await said("--", "--all")).not.toContain("text-only");
    const { stdout } = await skillet(["explain", "x", "--as", "claude"], { cwd: at.project, env: { HOME: at.home } });
    expect(stdout).toContain("skillet's server does not list 1 skill of these again: own");
  });

  it("[A-07] writes the hooks that the clients read", async () => {
    const at = place();
    for (const client of MCP_CLIENT_NAMES) await at.connect([client, "--yes"]);
    const json = (file: string) => JSON.parse(at.text(`home/${file}`));
    const tool = {
      type: "mcp_tool",
      server: "skillet",
      tool: "advise",
      input: { prompt: `$` + `{prompt}`, session_id: `$` + `{session_id}` },
      timeout: 10,
    };
    const { prompt: _, ...conversation } = tool.input;
    const prompts = { ...tool, input: { ...tool.input, source: `$` + `{source}` } };
    const summary = { ...tool, input: { hook_event_name: "PreCompact", ...conversation } };
    expect(json(".claude/settings.json")).toEqual({
      hooks: { UserPromptSubmit: [{ hooks: [prompts] }], PreCompact: [{ hooks: [summary] }] },
    });
    const limited = { ...tool, additionalContextLimit: 10_000 };
    expect(json(".codex/hooks.json")).toEqual({ hooks: { UserPromptSubmit: [{ hooks: [limited] }] } });
    const line = (client: string) => `${process.execPath} ${BIN} hook ${client}`;
    const gemini = { name: "skillet", type: "command", command: line("gemini"), timeout: 10_000 };
    expect(json(".gemini/settings.json").hooks).toEqual({
      BeforeAgent: [{ hooks: [gemini] }],
      PreCompress: [{ hooks: [gemini] }],
    });
    expect(json(".copilot/hooks/skillet.json")).toEqual({
      version: 1,
      hooks: { userPromptSubmitted: [{ type: "command", bash: line("copilot"), timeoutSec: 10 }] },
    });
    expect(json(".cursor/hooks.json")).toEqual({
      version: 1,
      hooks: { beforeSubmitPrompt: [{ command: line("cursor") }] },
    });
    expect(at.text("home/.config/opencode/plugins/skillet.js")).toContain(
      `const [PROGRAM, ...ARGUMENTS] = [${NODE},"${BIN}","hook","opencode"];`,
    );
    const moved = {
      CLAUDE_CONFIG_DIR: join(at.home, "c"),
      CODEX_HOME: join(at.home, "o"),
      GEMINI_CLI_HOME: join(at.home, "g"),
    };
    for (const client of ["claude", "codex", "gemini"]) await at.connect([client, "--yes"], { env: moved });
    for (const file of ["c/settings.json", "o/hooks.json", "g/.gemini/settings.json"])
      expect(at.text(`home/${file}`)).toContain("skillet");
  });

  it("[A-07] writes project files for --project, and a process per prompt for --hook-command", async () => {
    const at = place();
    for (const client of MCP_CLIENT_NAMES) {
      expect((await at.connect([client, "--project", "--hook-command", "--yes"])).code, client).toBe(0);
    }
    expect(readdirSync(at.home).sort()).toEqual([".skillet", "x"]);
    const files = Object.keys(at.all()).filter((path) => /\.\w+$/.test(path) && !path.endsWith("/x"));
    expect(files.filter((path) => statSync(join(at.folder, path)).isFile())).toEqual([
      "project/.claude/settings.json",
      "project/.codex/config.toml",
      "project/.codex/hooks.json",
      "project/.cursor/hooks.json",
      "project/.cursor/mcp.json",
      "project/.gemini/settings.json",
      "project/.github/hooks/skillet.json",
      "project/.mcp.json",
      "project/.opencode/plugins/skillet.js",
      "project/.vscode/mcp.json",
      "project/opencode.json",
    ]);
    const { hooks } = JSON.parse(at.text("project/.claude/settings.json"));
    expect(hooks.UserPromptSubmit[0].hooks[0]).toMatchObject({
      type: "command",
      command: expect.stringMatching(/ hook claude$/),
    });
    // The file that Claude Code and Copilot CLI share stays while one of them is connected.
    const shared = await at.connect(["copilot", "--project", "--remove", "--yes"]);
    expect(shared.stdout).toContain("was not changed: claude uses it too");
    expect(at.text("project/.mcp.json")).toContain("skillet");
    for (const client of MCP_CLIENT_NAMES) await at.connect([client, "--project", "--remove", "--yes"]);
    expect(Object.keys(at.all())).toEqual(["home", "home/x", "project", "project/x"]);
  });

  it("[A-07] removes what it added, and nothing else, from a file that was changed since", async () => {
    const at = place({ "home/.gemini/settings.json": '{\n  "theme": "x"\n}\n' });
    await at.connect(["gemini", "--yes"]);
    const file = join(at.home, ".gemini/settings.json");
    const changed = JSON.parse(readFileSync(file, "utf8"));
    changed.mcpServers.mine = { command: "m" };
    changed.mcpServers.skillet.env = { KEY: "sesame" };
    changed.hooks.BeforeAgent[0].hooks.unshift({ type: "command", command: "mine" });
    changed.later = [1];
    writeFileSync(file, JSON.stringify(changed, null, 4));
    const { stdout } = await at.connect(["gemini", "--remove", "--yes"]);
    expect(stdout).not.toContain("sesame");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
      theme: "x",
      mcpServers: { mine: { command: "m" } },
      hooks: { BeforeAgent: [{ hooks: [{ type: "command", command: "mine" }] }] },
      later: [1],
    });
    const other = place({ "home/.gemini/settings.json": '{\n  "theme": "x"\n}\n' });
    await other.connect(["gemini", "--yes"]);
    writeFileSync(
      join(other.home, ".gemini/settings.json"),
      other.text("home/.gemini/settings.json").replace('"x"', '"y"'),
    );
    await other.connect(["gemini", "--remove", "--yes"]);
    expect(other.text("home/.gemini/settings.json")).toBe('{\n  "theme": "y"\n}\n');
    const codex = place({ "home/.codex/config.toml": 'model = "a"\n' });
    await codex.connect(["codex", "--approve-tools", "--yes"]);
    const toml = join(codex.home, ".codex/config.toml");
    expect(readFileSync(toml, "utf8")).toContain('default_tools_approval_mode = "approve"\n');
    writeFileSync(
      toml,
      `${readFileSync(toml, "utf8")}\n[mcp_servers.skillet.env]\nKEY = "sesame"\n\n[tui]\ntheme = "b"\n`,
    );
    expect((await codex.connect(["codex", "--remove", "--yes"])).stdout).not.toContain("sesame");
    expect(readFileSync(toml, "utf8").replace(/\n+/g, "\n")).toBe('model = "a"\n[tui]\ntheme = "b"\n');
  });

  it("updates an entry in place, and keeps what the user changed in it", async () => {
    const at = place();
    await at.connect(["gemini", "--yes"]);
    const file = join(at.home, ".gemini/settings.json");
    const old = readFileSync(file, "utf8").replaceAll(process.execPath, "/old/node").replace("10000", "500");
    writeFileSync(file, old);
    const { stdout } = await at.connect(["gemini", "--yes"]);
    expect(stdout).toContain("- ");
    expect(readFileSync(file, "utf8")).toBe(old.replaceAll("/old/node", process.execPath));
    await at.connect(["claude", "--yes"]);
    await at.connect(["claude", "--hook-command", "--yes"]);
    const { hooks } = JSON.parse(at.text("home/.claude/settings.json"));
    // What calls the server is gone: both would advise.
    expect(hooks.UserPromptSubmit.flatMap((group: { hooks: unknown[] }) => group.hooks)).toHaveLength(1);
  });

  it("[A-07] writes through symlinks", async () => {
    const at = place({ "home/dotfiles/claude.json": '{"a": 1}\n', "home/dotfiles/settings.json": "{}\n" });
    mkdirSync(join(at.home, ".claude"));
    symlinkSync("dotfiles/claude.json", join(at.home, ".claude.json"));
    symlinkSync("../dotfiles/settings.json", join(at.home, ".claude/settings.json"));
    const before = at.all();
    await at.connect(["claude", "--yes"]);
    for (const link of [".claude.json", ".claude/settings.json"])
      expect(lstatSync(join(at.home, link)).isSymbolicLink()).toBe(true);
    expect(at.text("home/dotfiles/claude.json")).toContain("skillet");
    expect(at.text("home/dotfiles/settings.json")).toContain("advise");
    await at.connect(["claude", "--remove", "--yes"]);
    expect(at.all()).toEqual(before);
  });

  it.each(["dotfiles/own.json", "dotfiles/absent.json"])(
    "[A-07] writes nothing through a project's symlink to %s of the user",
    async (target) => {
      const at = place({ "home/dotfiles/own.json": "{}\n" });
      symlinkSync(join(at.home, target), join(at.project, ".mcp.json"));
      const before = at.all();
      const { code, stderr } = await at.connect(["claude", "--project", "--yes"]);
      expect(code).not.toBe(0);
      expect(stderr).toContain(".mcp.json is a symlink that leaves the project");
      const removed = await at.connect(["claude", "--project", "--remove", "--yes"]);
      expect(removed.stderr).toContain(".mcp.json is a symlink that leaves the project");
      expect(at.all()).toEqual(before);
    },
  );

  it("[A-07] writes nothing at all when one of the files cannot be changed, and names it", async () => {
    const settings = "home/.claude/settings.json";
    for (const [text, says] of [
      ['{"hooks": ', "is not valid JSON"],
      ['{"hooks": []}', "has hooks, which is not an object"],
      ['{"hooks": {"UserPromptSubmit": {}}}', "has hooks.UserPromptSubmit, which is not a list"],
      ["[]", "is not a JSON object"],
      [new Uint8Array([0x7b, 0xff, 0x7d]), "is not UTF-8"],
    ] as const) {
      const at = place({ [settings]: text });
      const before = at.all();
      const { code, stderr } = await at.connect(["claude", "--yes"]);
      expect(code, stderr).toBe(1);
      expect(stderr).toContain(join(at.folder, settings));
      expect(stderr).toContain(says);
      expect(stderr).toContain("nothing was written");
      expect(at.all()).toEqual(before);
    }
    const toml = place({ "home/.codex/config.toml": "a = \n" });
    expect((await toml.connect(["codex", "--yes"])).stderr).toContain("config.toml is not valid TOML: line 1");
    expect(existsSync(join(toml.home, ".codex/hooks.json"))).toBe(false);
    const folder = place({ [`${settings}/x`]: "" });
    const said = await folder.connect(["claude", "--yes"]);
    expect([said.code, said.stderr]).toEqual([1, expect.stringContaining("settings.json is not a file")]);
    expect(existsSync(join(folder.home, ".claude.json"))).toBe(false);
    const locked = place({ [settings]: "{}\n" });
    chmodSync(join(locked.folder, settings), 0o444);
    const readOnly = await locked.connect(["claude", "--yes"]);
    expect([readOnly.code, readOnly.stderr]).toEqual([1, expect.stringContaining("settings.json is read-only")]);
    expect(existsSync(join(locked.home, ".claude.json"))).toBe(false);
    const plugin = place({ "home/.config/opencode/plugins/skillet.js": "export const Mine = 1;\n" });
    const another = await plugin.connect(["opencode", "--yes"]);
    expect([another.code, another.stderr]).toEqual([3, expect.stringContaining("was not written by skillet")]);
  });

  it.runIf(HAS_ORDINARY_USER)(
    "[A-07] restores the first file when the folder of the second cannot be written",
    async () => {
      for (const isLink of [false, true]) {
        const at = place({ "home/.claude/x": "", "home/shared/settings.json": "{}\n" });
        // The lock is next to the link, so that only the second write fails.
        if (isLink) symlinkSync("../shared/settings.json", join(at.home, ".claude/settings.json"));
        for (const path of process.getuid?.() !== 0
          ? []
          : ["", ...readdirSync(at.folder, { recursive: true, encoding: "utf8" })])
          lchownSync(join(at.folder, path), ORDINARY_USER, ORDINARY_USER);
        const locked = join(at.home, isLink ? "shared" : ".claude");
        chmodSync(locked, 0o555);
        const before = at.all();
        const options = { cwd: at.project, env: { HOME: at.home }, isOrdinary: true };
        const { code, stderr } = await runSkilletProcess(["connect", "claude", "--yes"], options);
        expect([code, stderr]).toEqual([1, expect.stringContaining("cannot be written")]);
        expect(at.all()).toEqual(before);
        chmodSync(locked, 0o755);
      }
    },
  );

  it("[A-07] can be repeated and removed after it was killed at any point", async () => {
    const files = LIVED_IN["claude"] ?? {};
    const kills = await Promise.all(
      [1, 2, 3].map(async (killBeforeRename) => {
        const at = place(files);
        const options = { cwd: at.project, env: { HOME: at.home }, killBeforeRename };
        const { signal } = await runSkilletProcess(["connect", "claude", "--yes"], options);
        return { at, signal, killBeforeRename };
      }),
    );
    for (const { at, signal, killBeforeRename } of kills) {
      expect(signal).toBe("SIGKILL");
      if (killBeforeRename === 3) expect(at.text("home/.claude.json"), "one of two files").toContain("skillet.cjs");
      if (killBeforeRename < 3) expect((await at.connect(["claude", "--yes"])).code).toBe(0);
      expect((await at.connect(["claude", "--remove", "--yes"])).code).toBe(0);
      for (const file of Object.keys(files)) expect(at.text(file), `${killBeforeRename}`).toBe(files[file]);
    }
  });

  it("shows the change and asks, and writes nothing without a yes", async () => {
    const at = place({ "home/.claude.json": '{"key": "sesame"}' });
    const before = at.all();
    const questions: string[] = [];
    const ask = (answer: string) => async (question: string) => {
      questions.push(question);
      return answer;
    };
    const no = await at.connect(["claude"], { ask: ask("n") });
    expect([no.code, questions]).toEqual([3, ["Write these changes? [y/N] "]]);
    expect(no.stdout).toContain('"skillet": { "type": "stdio"');
    expect(no.stdout).toContain("~/.claude/settings.json (new file)");
    expect(no.stdout + no.stderr).not.toContain("sesame");
    const nobody = await at.connect(["claude"]);
    expect(nobody.stderr).toContain("run it at a terminal, or add --yes");
    const dry = await at.connect(["claude", "--dry-run"]);
    expect([dry.code, dry.stdout]).toEqual([0, expect.stringContaining('"tool": "advise"')]);
    expect(at.all()).toEqual(before);
    expect((await at.connect(["claude"], { ask: ask("y") })).code).toBe(0);
    expect(at.text("home/.claude.json")).toContain('"key": "sesame", "mcpServers"');
    expect((await at.connect(["claude", "--remove"], { ask: ask("n") })).code).toBe(3);
    expect(at.text("home/.claude.json")).toContain("skillet");
  });

  it("prints JSON with every edit", async () => {
    const at = place();
    const { stdout } = await at.connect(["cursor", "--json", "--yes"]);
    expect(JSON.parse(stdout)).toEqual({
      client: "cursor",
      scope: "user",
      isWritten: true,
      isDryRun: false,
      hook: "command",
      files: [
        {
          file: join(at.home, ".cursor/mcp.json"),
          change: "create",
          edits: [{ removed: "", inserted: expect.any(String) }],
        },
        {
          file: join(at.home, ".cursor/hooks.json"),
          change: "create",
          edits: [{ removed: "", inserted: expect.any(String) }],
        },
      ],
    });
  });

  it("refuses an option of another client", async () => {
    const at = place();
    for (const args of [
      ["claude", "--approve-tools"],
      ["codex", "--use-client-key"],
    ]) {
      const { code, stderr } = await at.connect([...args, "--yes"]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${args[1]} has no effect on`)]);
    }
    expect((await at.connect(["emacs", "--yes"])).code).toBe(2);
    expect(readdirSync(at.home)).toEqual(["x"]);
  });

  it("omits the hook with --no-hook, and if the client has none", async () => {
    const at = place();
    await at.connect(["claude", "--no-hook", "--yes"]);
    expect(existsSync(join(at.home, ".claude"))).toBe(false);
    expect((await at.connect(["vscode", "--yes"])).stderr).toContain("VS Code has no prompt hook");
    const far = await at.connect(["gemini", "--url", "https://skills.example/mcp", "--yes"]);
    expect(far.stderr).toContain("The hook was omitted");
    expect(at.text("home/.gemini/settings.json")).not.toContain("hooks");
    await at.connect(["gemini", "--remove", "--yes"]);
    expect(existsSync(join(at.home, ".gemini"))).toBe(false);
  });

  it("never replaces the server of another program", async () => {
    const at = place({ "home/.claude.json": '{"mcpServers": {"skillet": {"command": "theirs"}}}' });
    const { code, stderr } = await at.connect(["claude", "--yes"]);
    expect([code, stderr]).toEqual([3, expect.stringContaining("already has mcpServers.skillet")]);
    expect(existsSync(join(at.home, ".claude"))).toBe(false);
    await at.connect(["claude", "--name", "mine", "--yes"]);
    expect(at.text("home/.claude/settings.json")).toContain('"server": "mine"');
    const { clients } = JSON.parse((await at.connect(["--json"])).stdout);
    expect(clients[0]).toMatchObject({ server: { isConnected: true }, hook: { isConnected: true } });
    await at.connect(["claude", "--name", "mine", "--remove", "--yes"]);
    expect(at.text("home/.claude.json")).toBe('{"mcpServers": {"skillet": {"command": "theirs"}}}');
  });

  it("explains the trust of hooks in Codex, and offers the approval mode", async () => {
    const at = place();
    const { stderr } = await at.connect(["codex", "--yes"]);
    expect(stderr).toContain("run /hooks and trust the hook of skillet");
    expect(stderr).toContain("Run: skillet connect codex --approve-tools");
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return "y";
    };
    const asked = await at.connect(["codex"], { ask });
    expect(questions).toEqual(["Let Codex call skillet's tools without asking? [y/N] ", "Write these changes? [y/N] "]);
    expect(asked.stderr).not.toContain("--approve-tools");
    expect(at.text("home/.codex/config.toml")).toContain('default_tools_approval_mode = "approve"');
    expect((await at.connect(["codex", "--yes"])).stdout).toContain("is already connected");
    await at.connect(["codex", "--remove", "--yes"]);
    expect(existsSync(join(at.home, ".codex"))).toBe(false);
  });

  it("asks once whether use_skill may spend the key of Claude Code, and records the answer", async () => {
    const questions: string[] = [];
    const answering = (answer: string) => async (question: string) => {
      questions.push(question);
      return question.startsWith("May") ? answer : "y";
    };
    const at = place();
    expect((await at.connect(["claude", "--yes"])).stderr).toContain("skillet config set mcp.use_client_key true");
    expect(existsSync(join(at.home, ".skillet/config.toml"))).toBe(false);
    await at.connect(["claude"], { ask: answering("n") });
    expect(at.text("home/.skillet/config.toml")).toBe("[mcp]\nuse_client_key = false\n");
    await at.connect(["claude"], { ask: answering("y") });
    expect(questions).toEqual(["May use_skill spend that key? (recorded in ~/.skillet/config.toml) [y/N] "]);
    await at.connect(["claude", "--use-client-key", "--yes"]);
    expect(at.text("home/.skillet/config.toml")).toBe("[mcp]\nuse_client_key = true\n");
    const configured = place({ "home/.skillet/config.toml": '[models.default]\nmodel = "runbook"\n' });
    await configured.connect(["claude"], { ask: answering("y") });
    expect(questions.filter((question) => question.startsWith("May"))).toHaveLength(1);
  });

  it("names the command for copies if they work better", async () => {
    const at = place();
    const { stderr } = await at.connect(["gemini", "--yes"]);
    expect(stderr).toMatch(/\d+ skills are text only and work better as a copy: Gemini CLI treats/);
    expect((await at.connect(["codex", "--yes"])).stderr).not.toContain("text only");
  });

  it("lists the clients on this machine, and which are connected", async () => {
    const at = place({ "home/.codex/x": "", "home/bin/gemini": "#!/bin/sh\n" });
    chmodSync(join(at.home, "bin/gemini"), 0o755);
    const env = { PATH: join(at.home, "bin") };
    expect((await place().connect([])).stdout).toMatch(/^No supported client was found on this machine/);
    await at.connect(["codex", "--yes"]);
    const { stdout, code } = await at.connect([], { env });
    expect([code, stdout]).toEqual([
      0,
      "✓ Codex       server and prompt hook\n· Gemini CLI  not connected: skillet connect gemini\n" +
        "Not found on this machine: Claude Code, OpenCode, GitHub Copilot CLI, VS Code, Cursor\n",
    ]);
    writeFileSync(join(at.home, ".codex/hooks.json"), "{");
    expect((await at.connect([], { env })).stdout).toContain("✗ Codex       ");
    const { clients } = JSON.parse((await at.connect(["--json"], { env })).stdout);
    expect(clients.find((one: { client: string }) => one.client === "codex")).toMatchObject({
      isFound: true,
      server: { isConnected: true },
      hook: { isConnected: false },
      problem: { code: "config-syntax" },
    });
  });
});
