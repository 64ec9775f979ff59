import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { load } from "js-yaml";
import { describe, expect, it } from "vitest";
import { ACTION, ROOT } from "./support/action.ts";
import { skillet } from "./support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "./support/folder.ts";
import { codeBlocks } from "./support/markdown-code.ts";

const page = readFileSync(join(ROOT, "docs/ci.md"), "utf8");
const blocks = codeBlocks("docs/ci.md");
const yaml = blocks.filter(({ language }) => language === "yaml").map(({ code }) => load(code));

describe("the page about CI", () => {
  it("has every input and output of the action, as its file has them", () => {
    const inputs = Object.entries(ACTION.inputs).map(
      ([name, input]) => `| \`${name}\` | ${input.default && `\`${input.default}\``} | ${input.description} |`,
    );
    const outputs = Object.entries(ACTION.outputs).map(([name, { description }]) => `| \`${name}\` | ${description} |`);
    const tables = [...page.matchAll(/^\|(?:---\|)+\n((?:\|.*\n)+)/gm)].map(([, rows = ""]) =>
      rows.trimEnd().split("\n"),
    );
    expect(tables).toEqual([inputs, outputs]);
  });

  it("shows workflows and a configuration with existing inputs, outputs and hooks", () => {
    const [workflow, scan, configuration] = yaml as [
      { jobs: { skills: { steps: Step[] } } },
      Step[],
      { repos: { hooks: { id: string; args: string[] }[] }[] },
    ];
    const steps = [...workflow.jobs.skills.steps, ...scan].filter(({ uses }) => uses === "OWNER/skillet@REF");
    expect(steps).toHaveLength(2);
    for (const { with: given = {} } of steps)
      expect(Object.keys(ACTION.inputs)).toEqual(expect.arrayContaining(Object.keys(given)));
    for (const [, output = ""] of page.matchAll(/steps\.skills\.outputs\.(\w+)/g))
      expect(ACTION.outputs).toHaveProperty(output);
    const hooks = load(readFileSync(join(ROOT, ".pre-commit-hooks.yaml"), "utf8")) as { id: string }[];
    expect(configuration.repos[0]?.hooks.map(({ id }) => id)).toEqual(hooks.map(({ id }) => id));
  });

  it("lists commands that work", async () => {
    const queries = [
      { query: "tie a bowline", should_trigger: true, split: "test" },
      { query: "what is a knot in miles?", should_trigger: false, split: "test" },
    ];
    const cwd = temporaryFolder({
      "skills/knots/SKILL.md": skillText("knots", { description: "Ties knots. Use when a bowline is to be tied." }),
      "skills/knots/evals/triggers.json": JSON.stringify(queries),
    });
    const [block] = blocks.filter(({ language, marks }) => language === "sh" && marks.length === 0);
    const commands = block?.code.trimEnd().split("\n") ?? [];
    expect(commands).toHaveLength(6);
    for (const line of commands) {
      const [command = ""] = line.split(/ +[#>]/);
      const said = await skillet(command.split(" ").slice(1), { cwd });
      expect(said, `${command}\n${said.stderr}`).toMatchObject({ code: 0 });
      if (line.includes("sarif")) expect(JSON.parse(said.stdout)).toMatchObject({ version: "2.1.0" });
    }
  });

  it("has a line for git's own hook that stops a commit only for an error", () => {
    const cwd = temporaryFolder({ "skills/knots/SKILL.md": skillText("knots"), "README.md": "# Mine\n" });
    const programs = temporaryFolder();
    const skilletProgram = `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, "bin/skillet.cjs")}' "$@"\n`;
    writeFiles(programs, { skillet: skilletProgram });
    chmodSync(join(programs, "skillet"), 0o755);
    const env = { PATH: [programs, dirname(process.execPath), process.env["PATH"]].join(delimiter), HOME: programs };
    const git = (...args: string[]) => execFileSync("git", args, { cwd, env });
    const hook = blocks.find(({ marks }) => marks.includes("hook"))?.code ?? "";
    const run = () => spawnSync("/bin/sh", ["-c", hook], { cwd, env, encoding: "utf8" });
    git("init", "--quiet");
    git("add", "README.md");
    expect(run()).toMatchObject({ status: 0, stdout: "" });
    git("add", "--all");
    expect(run()).toMatchObject({ status: 0, stdout: expect.stringContaining("✓ skills/knots/SKILL.md") });
    writeFiles(cwd, { "skills/knots/SKILL.md": "no" });
    git("add", "--all");
    const { status, stdout } = run();
    expect(stdout).toContain("frontmatter-missing");
    expect(status).not.toBe(0);
  });
});

interface Step {
  uses: string;
  with?: Record<string, unknown>;
}
