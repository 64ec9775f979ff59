import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseJsonc } from "../../src/remote/clients/jsonc.ts";
import { MCP_CLIENTS } from "../../src/remote/clients/mcp-clients.ts";
import { type RunOptions, skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";

const root = join(import.meta.dirname, "..", "..");
const BIN = join(root, "bin", "skillet.cjs");
const NAMES = Object.keys(MCP_CLIENTS);

/** A home and a project, and a function that reads their files. */
function place(files: Record<string, string | Uint8Array> = {}) {
  const folder = temporaryFolder({ "home/x": "", "project/x": "", ...files });
  const home = join(folder, "home");
  const project = join(folder, "project");
  return {
    home,
    project,
    text: (file: string) => readFileSync(join(folder, file), "utf8"),
    run: (name: string, args: readonly string[] = [], options: RunOptions = {}) =>
      skillet(["mcp-config", "--for", name, ...args], {
        cwd: project,
        ...options,
        env: { HOME: home, ...options.env },
      }),
  };
}

const fileOf = (name: string, { home, project }: { home: string; project: string }, scope: "user" | "project") =>
  MCP_CLIENTS[name]?.[scope]({ home, workspace: project, env: {}, platform: process.platform }) ?? "";

describe("skillet mcp-config", () => {
  it("prints only the snippet on stdout, and its place and the next step on stderr", async () => {
    const { run, home } = place();
    const { stdout, stderr, code } = await run("claude");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      mcpServers: { skillet: { type: "stdio", command: process.execPath, args: [BIN, "serve"] } },
    });
    expect(stderr).toContain("it belongs in ~/.claude.json: --write adds it there\n");
    expect(stderr).toContain(
      `or let Claude Code do it: claude mcp add --scope user skillet -- ${process.execPath} ${BIN} serve\n`,
    );
    expect(stderr).toContain("then start Claude Code again; /mcp shows the server\n");
    expect(readdirSync(home), "nothing is written").toEqual(["x"]);
  });

  it("prints TOML for Codex", async () => {
    const { stdout } = await place().run("codex", ["--name", "mine", "--", "--only", 'a"b', "c"]);
    expect(stdout).toBe(
      `[mcp_servers.mine]\ncommand = "${process.execPath}"\nargs = ["${BIN}", "serve", "--only", "a\\"b", "c"]\n`,
    );
  });

  it("prints the same for programs as for users", async () => {
    const { run, home } = place();
    const { stdout, stderr } = await run("codex", ["--json"]);
    const snippet = { mcp_servers: { skillet: { command: process.execPath, args: [BIN, "serve"] } } };
    expect(JSON.parse(stdout)).toEqual({
      client: "codex",
      file: join(home, ".codex/config.toml"),
      format: "toml",
      snippet,
      isWritten: false,
      replaced: null,
      command: ["codex", "mcp", "add", "skillet", "--", process.execPath, BIN, "serve"],
    });
    expect(stderr).toBe("");
    const written = async (...args: string[]) =>
      JSON.parse((await run("codex", ["--json", "--write", ...args])).stdout);
    expect(await written()).toMatchObject({ isWritten: true, replaced: null });
    expect(await written()).toMatchObject({ isWritten: false, replaced: null });
    const replaced = { was: "serve", is: "serve --only a", keys: ["args"] };
    expect(await written("--", "--only", "a")).toMatchObject({ isWritten: true, replaced });
    expect(JSON.parse((await run("cursor", ["--json"])).stdout)).toMatchObject({ command: null });
  });

  it("names the workspace if it was given, and if the client fills it in", async () => {
    const { run, project } = place();
    const argsOf = async (name: string, ...args: string[]) => {
      const { snippet } = JSON.parse((await run(name, ["--json", ...args])).stdout);
      return JSON.stringify(snippet);
    };
    expect(await argsOf("claude", "--workspace", ".")).toContain(`"serve","--workspace","${project}"]`);
    expect(await argsOf("claude", "--project")).toContain('"serve"]');
    for (const name of ["vscode", "cursor"]) {
      expect(await argsOf(name)).toContain('"serve"]');
      expect(await argsOf(name, "--project")).toContain(`"serve","--workspace","$` + `{workspaceFolder}"]`);
      expect(await argsOf(name, "--project", "-C", project)).toContain(`"serve","--workspace","${project}"]`);
    }
  });

  it("writes the remote form, with a reference to the token and never the token", async () => {
    const { run } = place();
    for (const name of NAMES) {
      const far = await run(name, ["--url", "https://skills.example/mcp"], { env: { SKILLET_TOKEN: "sesame" } });
      expect(far.code).toBe(0);
      expect(far.stdout).toContain("https://skills.example/mcp");
      expect(far.stdout).toMatch(/SKILLET_TOKEN/);
      expect(far.stdout + far.stderr).not.toContain("sesame");
      expect(far.stderr).toMatch(/start .+ with SKILLET_TOKEN set to the token/);
      for (const here of ["http://127.0.0.1:7400/mcp", "http://localhost:1/mcp", "http://[::1]:1/mcp"]) {
        const own = await run(name, ["--url", here]);
        const isFile = ["claude", "opencode"].includes(name);
        expect(own.stdout, name).toMatch(isFile ? /\/\.skillet\/serve-token/ : /SKILLET_TOKEN/);
        expect(own.stderr.includes("SKILLET_TOKEN"), name).toBe(!isFile);
        const { stdout } = await run(name, ["--url", here], { env: { SKILLET_TOKEN: "sesame" } });
        expect(stdout).toContain("SKILLET_TOKEN");
      }
    }
    expect((await run("codex", ["--url", "http://localhost.example/mcp"])).stdout).toContain("SKILLET_TOKEN");
  });

  it("adds the path to an address without one, and reports that", async () => {
    const { run } = place();
    for (const url of ["http://127.0.0.1:7400", "http://127.0.0.1:7400/", "HTTP://127.0.0.1:7400/mcp"]) {
      const { stdout, stderr } = await run("cursor", ["--url", url]);
      expect(JSON.parse(stdout).mcpServers.skillet.url).toBe("http://127.0.0.1:7400/mcp");
      const says = "  /mcp was added to the address: http://127.0.0.1:7400/mcp\n";
      expect(stderr.includes(says), url).toBe(!url.endsWith("/mcp"));
    }
    const { stdout } = await run("cursor", ["--url", "https://a.example/skills/"]);
    expect(JSON.parse(stdout).mcpServers.skillet.url).toBe("https://a.example/skills/");
  });

  it("explains where a client gets the token of a server on this machine", async () => {
    const { run, home } = place();
    const says = `  of your own server: export SKILLET_TOKEN="$(cat ${join(home, ".skillet/serve-token")})"\n`;
    const here = ["--url", "http://127.0.0.1:7400/mcp"];
    expect((await run("codex", here)).stderr).toContain(says);
    expect((await run("codex", ["--write", ...here])).stderr).toContain(says);
    expect((await run("codex", ["--url", "https://a.example/mcp"])).stderr).not.toContain(says);
    expect((await run("codex")).stderr).not.toContain(says);
  });

  it("[Q-30] gives Claude Code a command that prints the header from the token file", async () => {
    const { run, home } = place({ "home/.skillet/serve-token": "abcdefghijklmnop-QRST\n" });
    const { stdout } = await run("claude", ["--url", "http://127.0.0.1:7400/mcp"]);
    const { headersHelper } = JSON.parse(stdout).mcpServers.skillet;
    expect(headersHelper).toContain(join(home, ".skillet/serve-token"));
    expect(JSON.parse(execFileSync("sh", ["-c", headersHelper], { encoding: "utf8" }))).toEqual({
      Authorization: "Bearer abcdefghijklmnop-QRST",
    });
  });

  it("refuses contradicting options as a usage error", async () => {
    const { run, home } = place();
    for (const [args, says] of [
      [["--name", "a b"], "is not a valid server name"],
      [["--name", ""], "is not a valid server name"],
      [["--name", "__proto__"], "is not a valid server name"],
      [["--name", "a".repeat(65)], "is not a valid server name"],
      [["--url", "127.0.0.1:7400"], "needs an address with http:// or https://"],
      [["--url", "ftp://a/b"], "needs an address with http:// or https://"],
      [["--url", "localhost:7400/mcp"], "needs an address with http:// or https://"],
      [["--url", "http://"], "needs an address with http:// or https://"],
      [["--url", ""], "needs an address with http:// or https://"],
      [["--url", "https://ann:sesame@a.example/mcp"], "without a password"],
      [["--url", "https://a.example/mcp", "--", "--only", "a"], "connects to a running server"],
      [["--", "--onyl", "a"], '"--onyl" is not an option of `skillet serve`'],
      [["--", "extra"], '"extra" is not an option of `skillet serve`'],
      [["--", "--only"], "argument missing"],
      [["--", "--http"], "pass its address with --url"],
      [["--workspace", "missing"], "does not exist"],
    ] as const) {
      const { code, stdout, stderr } = await run("claude", ["--write", ...args]);
      expect([code, stdout], args.join(" ")).toEqual([2, ""]);
      expect(stderr).toContain(says);
      expect(stderr).not.toContain("sesame");
    }
    expect((await run("emacs")).code).toBe(2);
    expect(readdirSync(home)).toEqual(["x"]);
  });

  it("creates a missing file, with nothing else in it", async () => {
    for (const name of NAMES) {
      const at = place();
      const { code, stdout, stderr } = await at.run(name, ["--write"]);
      expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/^✓ skillet added to ~\/.+\n$/)]);
      expect(stderr).toMatch(/^ {2}then /);
      const file = fileOf(name, at, "user");
      expect(readFileSync(file, "utf8")).toBe((await at.run(name)).stdout);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(readdirSync(dirname(file)).filter((one) => /lock|[0-9a-f-]{36}/.test(one))).toEqual([]);
    }
  });

  it("writes only into the project on request", async () => {
    for (const name of NAMES) {
      const at = place();
      const { code, stderr } = await at.run(name, ["--write", "--project"]);
      expect(code).toBe(0);
      expect(stderr).toContain("it contains paths of this machine");
      expect(readFileSync(fileOf(name, at, "project"), "utf8")).toBe((await at.run(name, ["--project"])).stdout);
      expect(readdirSync(at.home)).toEqual(["x"]);
      expect(statSync(fileOf(name, at, "project")).mode & 0o777).toBe(0o644);
    }
  });

  it("reports an existing entry, and writes nothing", async () => {
    for (const name of NAMES) {
      const at = place();
      await at.run(name, ["--write"]);
      const file = fileOf(name, at, "user");
      const { ino, mtimeMs } = statSync(file);
      const { code, stdout, stderr } = await at.run(name, ["--write"]);
      expect([code, stdout]).toEqual([0, expect.stringContaining("skillet was already in ~/")]);
      expect(stderr, "nothing has to restart").toBe("");
      expect(statSync(file)).toMatchObject({ ino, mtimeMs });
    }
  });

  it("shows a replaced entry before and after", async () => {
    for (const name of NAMES) {
      const { run } = place();
      await run(name, ["--write", "--", "--load", "code-review", "--token", "sesame"]);
      const less = await run(name, ["--write"]);
      expect([less.code, less.stdout]).toEqual([0, expect.stringMatching(/^✓ skillet changed in ~\/.+\n$/)]);
      expect(less.stderr).toMatch(/^ {2}before: {2}serve --load code-review --token …\n {2}now: {5}serve\n/);
      expect(less.stderr).toContain("  options for the server are not kept: repeat them after --\n  then ");
      const more = await run(name, ["--write", "--", "--read-only"]);
      expect(more.stderr).toMatch(/^ {2}before: {2}serve\n {2}now: {5}serve --read-only\n {2}then /);
      const called = await run(name, ["--write", "--url", "http://127.0.0.1:7400"]);
      expect(called.stderr).toMatch(
        /^ {2}before: {2}.+--read-only\n {2}now: {5}http:\/\/127.0.0.1:7400\/mcp\n {2}then /,
      );
      const back = await run(name, ["--write"]);
      expect([back.code, back.stderr]).toEqual([
        0,
        expect.stringMatching(/^ {2}before: {2}http:\/\/127.0.0.1:7400\/mcp\n {2}now: {5}serve\n {2}then /),
      ]);
    }
  });

  it("names the changed keys when the entry reads the same", async () => {
    const { run } = place();
    const here = ["--write", "--url", "http://127.0.0.1:7400/mcp"];
    await run("claude", here);
    const { stderr } = await run("claude", here, { env: { SKILLET_TOKEN: "sesame" } });
    expect(stderr).toMatch(/^ {2}changed keys: headers\n {2}then /);
  });

  it("keeps all of the user's keys of a replaced server", async () => {
    const at = place();
    await at.run("codex", ["--write"]);
    const file = fileOf("codex", at, "user");
    appendFileSync(file, '\n[mcp_servers.skillet.env]\nKEY = "sesame"\n');
    const text = readFileSync(file, "utf8");
    const { code, stdout, stderr } = await at.run("codex", ["--write", "--url", "http://127.0.0.1:7400/mcp"]);
    expect([code, stdout]).toEqual([
      3,
      '[mcp_servers.skillet]\nurl = "http://127.0.0.1:7400/mcp"\nbearer_token_env_var = "SKILLET_TOKEN"\n',
    ]);
    expect(stderr).toContain(
      "starts `skillet serve` and has your own keys that the new entry cannot keep: env  [unmanaged-keys]\n",
    );
    expect(stderr).toContain("remove these keys first, or choose another name with --name: nothing was written\n");
    expect(stderr).not.toContain("sesame");
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("leaves a read-only file unchanged, also for root", async () => {
    const at = place({ "home/.claude.json": '{"a": 1}\n' });
    const file = fileOf("claude", at, "user");
    chmodSync(file, 0o444);
    const { code, stdout, stderr } = await at.run("claude", ["--write"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`${file} is read-only  [unreadable]\n`)]);
    expect(stderr).toContain("nothing was written");
    expect(stdout).toContain("skillet.cjs");
    expect([at.text("home/.claude.json"), statSync(file).mode & 0o777]).toEqual(['{"a": 1}\n', 0o444]);
    chmodSync(file, 0o644);
    await at.run("claude", ["--write"]);
    chmodSync(file, 0o444);
    expect((await at.run("claude", ["--write"])).stdout).toContain("was already in");
  });

  it("keeps comments, trailing commas, tabs, line ends, the byte order mark and a missing last line end", async () => {
    const text =
      '\ufeff// mine\r\n{\r\n\t"theme": "x", // y\r\n\t"mcpServers": {\r\n\t\t"a": { "command": "a" }, /* a */\r\n\t},\r\n}';
    const { run, text: read } = place({ "home/.gemini/settings.json": text });
    expect((await run("gemini", ["--write"])).code).toBe(0);
    const next = read("home/.gemini/settings.json");
    const ours = `\r\n\t\t"skillet": {\r\n\t\t\t"command": ${JSON.stringify(process.execPath)},\r\n\t\t\t"args": [\r\n\t\t\t\t${JSON.stringify(BIN)},\r\n\t\t\t\t"serve"\r\n\t\t\t]\r\n\t\t},`;
    expect(next).toBe(text.replace("/* a */", `/* a */${ours}`));
  });

  it("keeps all other content in a file of Codex", async () => {
    const text = '\ufeffmodel = "x" # mine\r\n\r\n[mcp_servers.a]\r\ncommand = "a"';
    const { run, text: read } = place({ "home/.codex/config.toml": text });
    expect((await run("codex", ["--write"])).code).toBe(0);
    expect(read("home/.codex/config.toml")).toBe(
      `${text}\r\n\r\n[mcp_servers.skillet]\r\ncommand = "${process.execPath}"\r\nargs = ["${BIN}", "serve"]\r\n`,
    );
  });

  it("keeps the mode of a file, and a symlink", async () => {
    const { run, home, text } = place({ "dotfiles/claude.json": '{"a": 1}\n' });
    const target = join(home, "..", "dotfiles", "claude.json");
    chmodSync(target, 0o640);
    symlinkSync("../dotfiles/claude.json", join(home, ".claude.json"));
    expect((await run("claude", ["--write"])).code).toBe(0);
    expect(lstatSync(join(home, ".claude.json")).isSymbolicLink()).toBe(true);
    expect(statSync(target).mode & 0o777).toBe(0o640);
    expect(JSON.parse(text("dotfiles/claude.json"))).toMatchObject({ a: 1, mcpServers: { skillet: {} } });
  });

  it("creates the file that a link leads to", async () => {
    const { run, home, text } = place({ "dotfiles/x": "" });
    mkdirSync(join(home, ".codex"));
    symlinkSync("../../dotfiles/codex.toml", join(home, ".codex/config.toml"));
    expect((await run("codex", ["--write"])).code).toBe(0);
    expect(text("dotfiles/codex.toml")).toContain("[mcp_servers.skillet]");
  });

  it("writes below `servers` in a file of OpenCode 2, and shows that too", async () => {
    const text = '{\n  // two\n  "mcp": { "servers": { "a": { "type": "local", "command": ["a"] } } }\n}\n';
    const at = place({ "home/.config/opencode/opencode.jsonc": text });
    expect(JSON.parse((await at.run("opencode")).stdout).mcp.servers.skillet.type).toBe("local");
    expect((await at.run("opencode", ["--write"])).code).toBe(0);
    const next = at.text("home/.config/opencode/opencode.jsonc");
    expect(next).toContain("// two");
    expect(parseJsonc(next)).toEqual({
      mcp: {
        servers: {
          a: { type: "local", command: ["a"] },
          skillet: { type: "local", command: [process.execPath, BIN, "serve"] },
        },
      },
    });
  });

  it("keeps a foreign server, shows the snippet, and explains the next step", async () => {
    const text = JSON.stringify({ mcpServers: { skillet: { command: "npx", args: ["sesame"] } } });
    const { run, text: read } = place({ "home/.cursor/mcp.json": text });
    const { code, stdout, stderr } = await run("cursor", ["--write"]);
    expect(code).toBe(3);
    expect(JSON.parse(stdout).mcpServers.skillet.command).toBe(process.execPath);
    expect(stderr).toContain('mcp.json already has mcpServers.skillet, which starts "npx"  [server-name-taken]\n');
    expect(stderr).toContain("choose another name with --name");
    expect(stderr).not.toContain("sesame");
    expect(read("home/.cursor/mcp.json")).toBe(text);
    expect((await run("cursor", ["--write", "--name", "skillet-2"])).code).toBe(0);
    expect(Object.keys(JSON.parse(read("home/.cursor/mcp.json")).mcpServers)).toEqual(["skillet", "skillet-2"]);
  });

  it("changes nothing in a file that it cannot read or change, and shows the snippet", async () => {
    const broken: [name: string, file: string, content: string | Uint8Array, says: string][] = [
      ["claude", ".claude.json", '{ "a": 1\n', "is not valid JSON"],
      ["claude", ".claude.json", '{"mcpServers": []}', "has mcpServers, which is not an object"],
      ["claude", ".claude.json", "[]", "is not a JSON object"],
      ["claude", ".claude.json", new Uint8Array([0x7b, 0xff, 0x7d]), "is not UTF-8"],
      ["claude", ".claude.json", `{"a": "${"x".repeat(10_000_000)}"}`, "is larger than 8 MiB"],
      ["claude", ".claude.json", `{"a": ${"[".repeat(50_000)}${"]".repeat(50_000)}}`, "is nested too deeply"],
      ["codex", ".codex/config.toml", "a = \n", "is not valid TOML: line 1"],
      ["codex", ".codex/config.toml", "a = 9007199254740993\n", "has a number that is too large to be kept"],
      ["codex", ".codex/config.toml", "mcp_servers = {}\n", "in a form that can only be edited by hand"],
    ];
    for (const [name, file, content, says] of broken) {
      const { run, home } = place({ [`home/${file}`]: content });
      const { code, stdout, stderr } = await run(name, ["--write"]);
      expect(code, says).toBe(1);
      expect(stderr).toContain(`${join(home, file)} ${says.startsWith("in a form") ? "has mcp_servers " : ""}${says}`);
      expect(stderr).toContain("nothing was written");
      expect(stdout).toContain("skillet.cjs");
      expect(readFileSync(join(home, file)).equals(Buffer.from(content))).toBe(true);
      const json = await run(name, ["--write", "--json"]);
      expect([json.code, JSON.parse(json.stdout).isWritten]).toEqual([1, false]);
    }
  });

  it("changes nothing when there is a folder in place of the file, or a file in place of its folder", async () => {
    const { run, home } = place({ "home/.cursor/mcp.json/x": "", "home/.gemini": "mine" });
    const folder = await run("cursor", ["--write"]);
    expect([folder.code, folder.stderr]).toEqual([1, expect.stringContaining("mcp.json is not a file")]);
    expect(readdirSync(join(home, ".cursor"))).toEqual(["mcp.json"]);
    const file = await run("gemini", ["--write"]);
    expect([file.code, file.stderr]).toEqual([1, expect.stringContaining("settings.json cannot be read")]);
    expect(readFileSync(join(home, ".gemini"), "utf8")).toBe("mine");
  });

  it("loses nothing with several concurrent writers", async () => {
    const at = place({ "home/.claude.json": '{\n  "mine": 1\n}\n' });
    const names = Array.from({ length: 8 }, (_, index) => `s${index}`);
    await Promise.all(names.map((name) => at.run("claude", ["--write", "--name", name])));
    const document = JSON.parse(at.text("home/.claude.json"));
    expect(document.mine).toBe(1);
    expect(Object.keys(document.mcpServers).sort()).toEqual(names);
  });

  it("explains where options of the server go", async () => {
    const { code, stderr } = await place().run("claude", ["--only", "x"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("options for the server go after --"),
    });
  });

  it.runIf(existsSync(join(root, "dist/cli/bin.cjs")))(
    "names its own program, as it was built and wherever it is installed",
    () => {
      const folder = temporaryFolder({ "home/x": "" });
      const installed = join(folder, "node_modules", "skillet");
      for (const part of ["bin", "package.json"]) cpSync(join(root, part), join(installed, part), { recursive: true });
      cpSync(join(root, "dist/cli"), join(installed, "dist/cli"), { recursive: true });
      const bin = join(installed, "bin", "skillet.cjs");
      mkdirSync(join(folder, "node_modules", ".bin"));
      symlinkSync("../skillet/bin/skillet.cjs", join(folder, "node_modules", ".bin", "skillet"));
      for (const started of [bin, join(folder, "node_modules", ".bin", "skillet")]) {
        const { status, stdout, stderr } = spawnSync(process.execPath, [started, "mcp-config", "--for", "cursor"], {
          cwd: folder,
          env: { HOME: join(folder, "home") },
          encoding: "utf8",
        });
        expect(status, stderr).toBe(0);
        expect(JSON.parse(stdout).mcpServers.skillet).toMatchObject({
          command: process.execPath,
          args: [bin, "serve"],
        });
      }
    },
  );
});
