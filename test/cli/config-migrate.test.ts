import { chmodSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { applyConfigMigration, planConfigMigration } from "../../src/config/config-edit.ts";
import { CONFIG_KEYS } from "../../src/config/config-keys.ts";
import { resolveEnvironment } from "../../src/config/discover.ts";
import { loadSettings } from "../../src/config/settings.ts";
import { RENAMED_NAMES } from "../../src/errors/renamed-names.ts";
import { skillet } from "../support/command.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";

const OLD = `# mine\r
[limits] # run limits\r
most_iterations = 80 # not 50\r
\r
[tools.mcp.web]\r
url = "http://127.0.0.1:9/mcp"\r
token = "sesame-1"\r
"without_asking" = [\r
  "without_asking", # a tool of this name\r
]\r
\r
[disclosure]\r
asks = ["zeig alles"]`;
const NEW = OLD.replace("most_iterations", "iteration_cap")
  .replace('"without_asking" =', '"auto_approve" =')
  .replace("asks = [", "list_intents = [");

function openHome(user: string, workspace?: string) {
  const root = temporaryFolder({ "project/readme": "", "home/readme": "" });
  writeFiles(root, { "home/.skillet/config.toml": user });
  chmodSync(join(root, "home/.skillet/config.toml"), 0o600);
  if (workspace !== undefined) writeFiles(root, { "project/.skillet/config.toml": workspace });
  const env = { HOME: join(root, "home") };
  const cwd = join(root, "project");
  const fileOf = (owner: "home" | "project") => join(root, owner, ".skillet/config.toml");
  return {
    fileOf,
    textOf: (owner: "home" | "project") => readFileSync(fileOf(owner), "utf8"),
    load: () => loadSettings(resolveEnvironment({ env, workspace: cwd })),
    run: (...args: string[]) => skillet(["config", ...args], { cwd, env }),
  };
}

describe("a configuration with keys of an earlier version", () => {
  it("has the same effect, and a diagnostic for each with the current key and the line", async () => {
    const { settings, diagnostics, entries } = await openHome(OLD).load();
    expect(settings.limits.iterationCap).toBe(80);
    expect(settings.disclosure.listIntents).toEqual(["zeig alles"]);
    expect(settings.mcp.get("web")?.autoApprove).toEqual(["without_asking"]);
    expect(diagnostics).toMatchObject([
      { code: "config-renamed", severity: "warning", line: 3, meant: "limits.iteration_cap" },
      { code: "config-renamed", line: 8, meant: "tools.mcp.web.auto_approve" },
      { code: "config-renamed", line: 13, meant: "disclosure.list_intents", fix: "run: skillet config migrate" },
    ]);
    expect(entries.find(({ parts }) => parts[0] === "limits")).toMatchObject({ parts: ["limits", "iteration_cap"] });
  });

  it("[Q-26] of a workspace has no more rights than the current key", async () => {
    const { settings, diagnostics } = await openHome(
      "[limits]\niteration_cap = 5\n",
      '[limits]\nmost_iterations = 40\n[tools.mcp.web]\nwithout_asking = ["all"]\n',
    ).load();
    expect(settings.limits.iterationCap).toBe(5);
    expect(settings.mcp.size).toBe(0);
    expect(diagnostics.map(({ code }) => code)).toEqual(["config-renamed", "config-renamed", "config-refused"]);
  });

  it("is ignored for a key that the file has in both forms", async () => {
    const { settings, diagnostics } = await openHome("[limits]\niteration_cap = 5\nmost_iterations = 40\n").load();
    expect(settings.limits.iterationCap).toBe(5);
    expect(diagnostics).toMatchObject([
      { code: "config-renamed", line: 3, message: expect.stringContaining("the old key is ignored") },
    ]);
  });

  it("is read and edited by either key", async () => {
    const { run, textOf } = openHome("[limits]\nmost_iterations = 40\n");
    expect(await run("get", "limits.iteration_cap")).toMatchObject({ code: 0, stdout: "40\n" });
    expect(await run("get", "limits.most_iterations")).toMatchObject({ code: 0, stdout: "40\n" });
    expect(await run("set", "limits.most_iterations", "30")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("limits.iteration_cap set"),
    });
    expect(textOf("home")).toBe("[limits]\niteration_cap = 30\n");
    const other = openHome("[limits]\nmost_iterations = 40\n");
    expect((await other.run("unset", "limits.iteration_cap")).code).toBe(0);
    expect(other.textOf("home")).toBe("");
  });

  it("is not needed without a file, which config migrate reports", async () => {
    const { code, stdout } = await skillet(["config", "migrate"], { env: { HOME: temporaryFolder({ a: "" }) } });
    expect([code, stdout]).toEqual([0, "No configuration file found\n"]);
  });
});

describe("skillet config migrate", () => {
  it("renames the keys in the user's file and the workspace's, and keeps every other byte and the mode", async () => {
    const { run, textOf, fileOf, load } = openHome(OLD, "[limits]\nmost_iterations = 9");
    const planned = await run("migrate", "--dry-run");
    expect(planned).toMatchObject({ code: 0, stdout: expect.stringContaining("3 keys to rename in ~/.skillet/") });
    expect([textOf("home"), textOf("project")]).toEqual([OLD, "[limits]\nmost_iterations = 9"]);
    const { code, stdout } = await run("migrate");
    expect(code).toBe(0);
    expect(stdout).toContain(
      "    @@ line 3 @@\n    -most_iterations = 80 # not 50\n    +iteration_cap = 80 # not 50\n",
    );
    expect(stdout).toContain("1 key renamed in .skillet/config.toml");
    expect(stdout).not.toContain("sesame");
    expect([textOf("home"), textOf("project")]).toEqual([NEW, "[limits]\niteration_cap = 9"]);
    expect(statSync(fileOf("home")).mode & 0o777).toBe(0o600);
    expect((await load()).diagnostics).toEqual([]);
  });

  it("changes nothing when it runs again, nor without a file", async () => {
    const { run, textOf } = openHome(NEW);
    expect(await run("migrate")).toMatchObject({ code: 0, stdout: "✓ no keys renamed in ~/.skillet/config.toml\n" });
    expect(textOf("home")).toBe(NEW);
    const empty = await skillet(["config", "migrate", "--json"], {
      cwd: temporaryFolder(),
      env: { HOME: temporaryFolder() },
    });
    expect(JSON.parse(empty.stdout)).toEqual({ isDryRun: false, files: [] });
  });

  it("renames keys in inline tables and dotted keys, and prints none of the other values there", async () => {
    const text = `tools.mcp = { "a.b" = { command = ["x"], env = { KEY = "sesame-2" }, without_asking = ["without_asking"] } }\nlimits.'most_iterations' = 7\n`;
    const { run, textOf } = openHome(text);
    const { code, stdout } = await run("migrate");
    expect(code).toBe(0);
    expect(stdout).toContain('-tools.mcp."a.b".without_asking\n');
    expect(stdout).not.toContain("sesame");
    expect(textOf("home")).toBe(
      text.replace("without_asking =", "auto_approve =").replace("most_iterations", "iteration_cap"),
    );
  });

  it("leaves a key that is set by both names to the user, and exits 1", async () => {
    const text = "[limits]\niteration_cap = 5\nmost_iterations = 40\n";
    const { run, textOf } = openHome(text);
    const { code, stdout } = await run("migrate", "--json");
    expect(code).toBe(1);
    expect(JSON.parse(stdout).files).toMatchObject([
      { renames: [], diff: [], problems: [{ code: "config-renamed", fix: expect.stringContaining("remove limits.") }] },
    ]);
    expect(textOf("home")).toBe(text);
  });

  it("writes nothing to a file that is not TOML, or that changed after it was shown", async () => {
    const { run, textOf } = openHome("[limits\nmost_iterations = 1\n");
    expect(await run("migrate")).toMatchObject({ code: 1, stderr: expect.stringContaining("is not valid TOML") });
    expect(textOf("home")).toBe("[limits\nmost_iterations = 1\n");
    const other = openHome("[limits]\nmost_iterations = 1\n");
    const plan = await planConfigMigration(other.fileOf("home"));
    await other.run("set", "limits.nesting", "2");
    const edited = other.textOf("home");
    expect(() => applyConfigMigration(plan)).toThrow(expect.objectContaining({ code: "concurrent-change" }));
    expect(other.textOf("home")).toBe(edited);
  });
});

it("lists every renamed key in the table by its current name alone, in the same section", () => {
  const paths = CONFIG_KEYS.map(({ path }) => path);
  const above = (path: string) => path.slice(0, path.lastIndexOf("."));
  for (const [old, name] of Object.entries(RENAMED_NAMES.config)) {
    expect(paths).toContain(name);
    expect(paths).not.toContain(old);
    expect(above(name)).toBe(above(old));
  }
});
