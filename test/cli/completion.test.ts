import { spawnSync } from "node:child_process";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SHELLS } from "../../src/cli/commands/completion.ts";
import { listCommandPaths } from "../../src/cli/program.ts";
import { PROFILES } from "../../src/skill/skill.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { PROGRAM, RUN } from "../support/program.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";

/** Returns the completions, requested as a shell's script does. */
async function next(typed: readonly string[], cwd?: string): Promise<string[]> {
  const { code, stdout, stderr } = await skillet(
    ["completion", "fish", "--", "skillet", ...typed],
    cwd === undefined ? {} : { cwd },
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.split("\n").slice(0, -1);
}

async function nextWords(typed: readonly string[], cwd?: string): Promise<string[]> {
  return (await next(typed, cwd)).map((line) => line.split("\t")[0] ?? "");
}

const paths = await listCommandPaths();

describe("skillet completion", () => {
  it.each(paths)("completes the subcommands and every documented option: skillet %s", async (path) => {
    const words = path === "" ? [] : path.split(" ");
    const inner = paths.filter((other) => other !== "" && other.split(" ").slice(0, -1).join(" ") === path);
    const below = inner.map((other) => other.split(" ").at(-1));
    if (below.length > 0) expect(await nextWords([...words, ""])).toEqual(expect.arrayContaining(below));
    const { stdout } = await skillet([...words, "--help"]);
    const [, options = ""] = /\nOptions:\n((?: .*\n)*)/.exec(stdout) ?? [];
    const named = Array.from(options.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm), ([, name]) => name);
    expect(named).toContain("--help");
    expect(await nextWords([...words, "--"])).toEqual(named);
  });

  const cwd = () => temporaryFolder({ "skills/mine/SKILL.md": skillText("mine"), "notes.md": "" });

  it.each([
    [["check", "--profile", ""], [...PROFILES]],
    [["check", "-p", "cl"], ["claude-upload"]],
    [["check", "--format=sa"], ["--format=sarif"]],
    [["connect", "cod"], ["codex"]],
    [
      ["export", "--to", "claude,co"],
      ["claude,codex", "claude,copilot"],
    ],
    [["completion", ""], [...SHELLS]],
    [["schema", "work"], ["workspace-config"]],
    [["help", "config", "se"], ["set"]],
    [["config", "get", "limits.max"], ["limits.max_iterations"]],
    [["show", "mi"], ["mine"]],
    [["show", "mine@skills", ""], []],
    [["enable", "mine", "mi"], ["mine"]],
    [["serve", "--only", "gog", "mi"], ["mine"]],
    [["explain", "query", "--skill=mi"], ["--skill=mine"]],
    [
      ["check", "mi"],
      ["mine", ":files"],
    ],
    [
      ["check", "--strict", "--format", "json", "mi"],
      ["mine", ":files"],
    ],
    [["run", "--input", "{}", "mi"], ["mine"]],
    [["sign", "--key", ""], [":files"]],
    [["list", "-C", ""], [":folders"]],
    [["new", "mi"], []],
    [["list", "--js"], ["--json"]],
    [["list", "nothing", "--js"], ["--json"]],
    [["list", "--", "--js"], []],
    // Options after a script's name are the script's.
    [["script", "--st"], ["--stdin"]],
    [["script", "mine", "--st"], []],
  ])("completes %j", async (typed, words) => {
    expect(await nextWords(typed, cwd())).toEqual(words);
  });

  it("finds skills in the workspace that the line names, including disabled ones", async () => {
    const there = temporaryFolder({
      "skills/far/SKILL.md": skillText("far"),
      ".skillet/config.toml": "[skills.far]\nenabled = false\n",
    });
    expect(await nextWords(["show", "-C", there, "fa"], cwd())).toEqual(["far"]);
    expect(await nextWords([`--workspace=${there}`, "enable", "fa"], cwd())).toEqual(["far"]);
    expect(await nextWords(["show", "fa"], cwd())).toEqual([]);
  });

  it("describes each in one line", async () => {
    const description = '"Is\\tloud:\\n it shouts. Use when asked."';
    const folder = temporaryFolder({
      "skills/loud/SKILL.md": skillText("loud", { description }),
    });
    expect(await next(["show", "lou"], folder)).toEqual(["loud\tIs loud: it shouts."]);
    expect(await next(["lis"])).toEqual(["list\tList the skills that were found"]);
  });

  it("parses a line of bash as it was typed: quotes, backslashes, and breaks at = and :", async () => {
    const folder = temporaryFolder({ "skills/my/SKILL.md": skillText("my skill") });
    const answer = async (line: string, replaced: string) =>
      (await skillet(["completion", "bash", "--", line, replaced], { cwd: folder })).stdout.split("\n").slice(0, -1);
    expect(await answer("skillet show my", "my")).toEqual(["my\\ skill"]);
    expect(await answer("skillet show my\\ s", "my\\ s")).toEqual(["my\\ skill"]);
    expect(await answer('skillet show "my s', "my s")).toEqual(["my skill"]);
    expect(await answer("skillet  show 'my skill' --bo", "--bo")).toEqual(["--body"]);
    expect(await answer("skillet check --format=s", "s")).toEqual(["sarif"]);
    expect(await answer("skillet check --format=", "")).toEqual(["text", "json", "sarif", "github"]);
    expect(await answer("skillet show my@skills ", "")).toEqual([]);
    // In addition to files, bash adds the backslashes itself.
    expect(await answer("skillet check my", "my")).toEqual(["my skill", ":files"]);
  });
});

/** A folder with names that are code to a careless shell. */
function place() {
  const bin = temporaryFolder({
    "start.mjs": `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n`,
    skillet: `#!/bin/sh\nexec '${process.execPath}' "$(dirname "$0")/start.mjs" "$@"\n`,
  });
  chmodSync(join(bin, "skillet"), 0o755);
  const cwd = temporaryFolder({
    "skills/my/SKILL.md": skillText("my skill", { description: '"Runs $(touch told) `touch told`; touch told."' }),
    "my notes.md": "",
    "$(touch file).md": "",
    "zoo/`touch file`.md": "",
  });
  const isRun = () => ["told", "file", "line"].filter((name) => existsSync(join(cwd, name)));
  return { bin, cwd, isRun, home: temporaryFolder() };
}

function has(shell: string): boolean {
  return spawnSync(shell, ["-c", "exit 0"]).status === 0;
}

/** Each TAB starts the program, as soon as other tests leave it a processor. */
const PATIENCE_MS = 60_000;

/** Types lines and TAB, and waits for the output. */
async function tab({ type, sees }: Terminal, cases: Readonly<Record<string, string>>): Promise<void> {
  for (const [typed, shown] of Object.entries(cases)) {
    type(`${typed}\t`);
    await sees(shown);
    type("\u0015");
  }
}

describe("TAB completion", { timeout: PATIENCE_MS }, () => {
  it("in bash completes choices, skills, files and options, and runs nothing that it lists", async () => {
    const { bin, cwd, home, isRun } = place();
    const bash = openTerminal(["--norc", "--noprofile", "-i"], { bin: "bash", home, cwd });
    bash.type(`PATH='${bin}':$PATH; PS1='> '; source <(skillet completion bash); echo rea''dy\r`);
    await bash.sees("ready");
    await tab(bash, {
      "skillet check --format=sa": "skillet check --format=sarif ",
      'skillet show "my': 'skillet show "my skill" ',
      "skillet check zoo/": "skillet check zoo/\\`touch\\ file\\`.md ",
      "skillet show $(touch line) --bo": "skillet show $(touch line) --body ",
      "skillet check my\t\t": "my notes.md  my skill", // Skills and files in one list.
    });
    bash.type("exit\r"); // Otherwise it writes its history into the home while that is removed.
    await bash.ended;
    expect(isRun()).toEqual([]);
  });

  // If the shell is missing, the gate counts the test as skipped.
  it.skipIf(!has("zsh"))("in zsh completes commands, skills and files, and runs nothing that it lists", async () => {
    const { bin, cwd, home, isRun } = place();
    const zsh = openTerminal(["-f", "-i"], { bin: "zsh", home, cwd });
    zsh.type(`PATH='${bin}':$PATH; PS1='> '; autoload -U compinit; compinit -D; `);
    zsh.type("source <(skillet completion zsh); echo rea''dy\r");
    await zsh.sees("ready");
    // It writes only what is new.
    await tab(zsh, { "skillet sch": "ema", "skillet show my": "\\ skill", "skillet check z": "oo" });
    expect(isRun()).toEqual([]);
  });

  it.skipIf(!has("fish"))("in fish completes choices, skills and files, and runs nothing that it lists", () => {
    const { bin, cwd, home, isRun } = place();
    const asked = ["skillet check --format=sa", "skillet show 'my s", "skillet check zo", "skillet check \\\\\\$"];
    const script = ["skillet completion fish | source", ...asked.map((line) => `complete -C "${line}"`)].join("\n");
    const { stdout, stderr } = spawnSync("fish", ["-N", "-c", script], {
      cwd,
      encoding: "utf8",
      env: { HOME: home, PATH: `${bin}:${process.env["PATH"]}` },
    });
    expect(stderr).toBe("");
    const words = Array.from(stdout.matchAll(/^[^\t\n]+/gm), ([word]) => word);
    expect(words).toEqual(["--format=sarif", "my skill", "zoo/", "$(touch file).md"]);
    expect(isRun()).toEqual([]);
  });
});
