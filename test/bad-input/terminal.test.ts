import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Ran, type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

/** Hides, clears, retitles, writes to the clipboard, and forges lines in every way a reader may split them. */
const EVIL =
  "\x1b[8m\x1b[2J\x1b]0;t\x07\x1b]52;c;ZXZpbA==\x07\x9b2J\b\x7f\u202e\u2066\u200b\r\nFORGED\nFORGED\rFORGED\u0085FORGED\u2028FORGED";
/** The same, as far as a file name can contain it. */
const EVIL_NAME = EVIL.replaceAll("/", "");
/** The same, as far as one line of a text can contain it. */
const EVIL_LINE = EVIL.replaceAll("\n", "");
/** A double-quoted YAML text with the same value. */
const ESCAPED =
  "\\e[8m\\e[2J\\e]0;t\\a\\x9b2J\\b\\x7f\\u202e\\u2066\\u200b\\r\\nFORGED\\nFORGED\\rFORGED\\NFORGED\\LFORGED";

/** Skills with an error in every quoted field, and one that loads. */
function evilSkills(): Record<string, string> {
  // A lone CR may be a line break of the instructions, so text after it is not a forgery there.
  const line = EVIL_LINE.replaceAll("\rFORGED", "\rreturned");
  const body = [`Do ${line}`, `[link](${line.replaceAll(/[\s()]/g, "")}.md)`, `TODO: ${line}`, `/home/${line}`];
  const quoted = (text: string) => JSON.stringify(text).replaceAll("\\u2028", "\\L");
  const files: Record<string, string> = {
    "fine/SKILL.md": skillText("fine", {
      description: quoted("Fine.\nFORGED\r\nFORGED"),
      body: body.join("\n"),
      more: `allowed_tools: ["b\\nFORGED"]\ncapabilities: ["c\\nFORGED"]\nversion: "1\\nFORGED"\n"k\\nFORGED": x\nauthor: "a\\rFORGED"\ntags: ["t\\nFORGED"]\nmodel: "m\\nFORGED"\n`,
    }),
    [`fine/file${EVIL_NAME}`]: `text ${EVIL_LINE} text\n`,
    [`${EVIL_NAME}/SKILL.md`]: "---\ndescription: Has no name. Use when tested.\n---\nDo it.\n",
    [`${EVIL_NAME}2/SKILL.md`]: "no frontmatter\n",
    [`${EVIL_NAME}.md`]: "---\nname: [\n---\n",
    [`named${EVIL_NAME}/SKILL.md`]: skillText("named"),
    "raw/SKILL.md": `---\nname: raw${EVIL}\ndescription: raw ${EVIL}\n${EVIL}: x\n---\nDo it.\n`,
    "links/SKILL.md": skillText("links"),
    "twice/SKILL.md": skillText("fine", { description: "Another copy. Use when tested." }),
  };
  for (const key of ["name", "description", "version", "tags", "allowed-tools", "capabilities", "model", "wibble"]) {
    files[`escaped-${key}/SKILL.md`] = `---\ndescription: Use when tested.\n${key}: "${ESCAPED}"\n---\nDo it.\n`;
    files[`lines-${key}/SKILL.md`] = `---\ndescription: Use when tested.\n${key}: "a\\nFORGED\\rFORGED"\n---\nDo it.\n`;
  }
  files["escaped-key/SKILL.md"] = `---\ndescription: Use when tested.\n"${ESCAPED}": x\n---\nDo it.\n`;
  files["lines-key/SKILL.md"] = `---\ndescription: Use when tested.\n"a\\nFORGED": x\n---\nDo it.\n`;
  return files;
}

// On a terminal the program's own colors are allowed: these and no other.
const COLOURS = /\x1b\[(?:0|1|2|31|32|33|36)m/g;

function expectHarmless(ran: Ran, { isTTY }: { isTTY: boolean }): void {
  for (const written of [ran.stdout, ran.stderr]) {
    const text = isTTY ? written.replaceAll(COLOURS, "") : written;
    expect(text.match(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b]/g)).toBeNull();
    expect(text.split(/[\n\r\u0085\u2028\u2029]/).filter((line) => line.trimStart().startsWith("FORGED"))).toEqual([]);
  }
}

describe.each([
  { where: "on a terminal", isTTY: true },
  { where: "through a pipe", isTTY: false },
])("$where", ({ isTTY }) => {
  let workspace = "";
  const run = async (args: readonly string[], more: RunOptions = {}) => {
    const ran = await skillet(args, { cwd: workspace, isTTY, columns: 120, ...more });
    expectHarmless(ran, { isTTY });
    return ran;
  };

  beforeAll(() => {
    // Created once for all commands, which only read it.
    const folder = execFileSync("mktemp", ["-d"], { encoding: "utf8" }).trim();
    workspace = `${folder}/work${EVIL_NAME}`;
    writeFiles(`${workspace}/skills`, evilSkills());
    mkdirSync(`${workspace}/.skillet`);
    writeFiles(workspace, { ".skillet/config.toml": `["\\u001b[8m\\nFORGED"]\n"k\\nFORGED" = 1\nbroken = "\n` });
    symlinkSync("/etc/hostname", `${workspace}/skills/links/out${EVIL_NAME}`);
    symlinkSync(`nowhere${EVIL_NAME}`, `${workspace}/skills/links/broken${EVIL_NAME}`);
    symlinkSync(`nowhere${EVIL_NAME}`, `${workspace}/skills/broken${EVIL_NAME}`);
    execFileSync("mkfifo", [`${workspace}/skills/links/pipe${EVIL_NAME}`]);
    return () => void execFileSync("rm", ["-rf", folder]);
  });

  test.for([
    [[], /fine/],
    [["list"], /fine/],
    [["list", "--json"], /"fine"/],
    [["list", "--all"], /no-valid-name/],
    [["list", "--all", "--json"], /"no-valid-name"/],
    [["show", "fine"], /Findings/],
    [["show", "fine", "--json"], /"frontmatter"/],
    [["show", "fine", "--body"], /Do \\u\{1b\}\[8m/],
    [["show", "fine", "--body", "--json"], /"body"/],
    [["show", "links"], /symlink-outside/],
    [["show", "named"], /named/],
    [["show", `fine@skills${EVIL}`], /not found/],
    [["show", EVIL], /did not load/],
    [["show", "fine", EVIL], /has no file/],
    [["show", "fine", `file${EVIL_NAME}`], /text \\u\{1b\}\[8m/],
    [["check"], /profile load/],
    [["check", "--json"], /"diagnostics"/],
    [["check", "--format", "sarif"], /"runs"/],
    [["check", "--format", "github"], /^::/],
    [["check", "--profile", "shipped"], /profile shipped/],
    [["check", "--profile", "shipped", "--format", "github"], /^::/],
    [["check", `skills/${EVIL_NAME}`], /no-valid-name/],
    [["check", `nothing${EVIL}`], /neither a path nor the name of a skill/],
    [["doctor"], /Findings/],
    [["doctor", "--json"], /"folders"/],
    [["skill", "list"], /fine/],
    [["skill", "validate", `skills/named${EVIL_NAME}`], /profile load/],
    [["new", EVIL], /is not a valid skill name/],
  ] as const)("[Q-23] skillet %j prints no control sequence", async ([args, expected]) => {
    const { stdout, stderr } = await run(args);
    expect((stdout + stderr).replaceAll("\n  ", " ")).toMatch(expected);
  });

  // A shell that expands `*` passes file names as options.
  test.for([
    ["an option", ["check", `--${EVIL_NAME}`]],
    ["an option's value", ["check", `--format=${EVIL_NAME}`]],
    ["a command", [EVIL_NAME]],
    ["an option of the program", [`-${EVIL_NAME}`]],
  ] as const)("[Q-23] a file name taken for %s is escaped", async ([, args]) => {
    expect((await run(args)).code).toBe(2);
  });

  test("[Q-23] every line of the github format is a single command", async () => {
    const { stdout } = await run(["check", "--format", "github"]);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(20);
    expect(
      lines.filter((line) => !/^::(?:error|warning|notice) file=[^,]+,.*title=skillet [a-z0-9-]+::/.test(line)),
    ).toEqual([]);
  });

  test("[Q-23] JSON contains exactly the names", async () => {
    const { stdout } = await run(["show", "fine", "--json"]);
    const shown = JSON.parse(stdout) as { files: { path: string }[]; description: string };
    expect(shown.files.map(({ path }) => path)).toEqual([`file${EVIL_NAME}`]);
    expect(shown.description).toBe("Fine.\nFORGED\r\nFORGED");
  });

  test("[Q-23] --watch prints no more than a list does", async () => {
    const cwd = temporaryFolder({ "skills/fine/SKILL.md": skillText("fine") });
    const abort = new AbortController();
    let round = 0;
    // More than once: the watcher does not report when it has started.
    const changes = setInterval(() => {
      const body = `Do it ${round++} times.`;
      writeFiles(`${cwd}/skills`, {
        [`x${EVIL_NAME}/SKILL.md`]: body,
        "new-one/SKILL.md": skillText("new-one", { description: '"New.\\nFORGED\\rFORGED"', body }),
      });
    }, 400);
    onTestFinished(() => clearInterval(changes));
    let seen = "";
    const { stdout } = await run(["list", "--watch"], {
      cwd,
      signal: abort.signal,
      onOutput: (text) => {
        seen += text;
        if (seen.includes("new-one") && seen.includes("frontmatter-missing")) abort.abort();
      },
    });
    expect(stdout).toMatch(/new-one/);
  });
});
