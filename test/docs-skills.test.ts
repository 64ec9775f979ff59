import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { NATIVE_CLIENTS } from "../src/remote/clients/native-clients.ts";
import { MANIFEST_FIELDS } from "../src/skill/manifest.ts";
import { PROFILES } from "../src/skill/skill.ts";
import { checkPath, checkText } from "../src/skill/source/check-skills.ts";
import { frontmatterTable } from "../tools/docs/frontmatter-table.ts";
import { skillet } from "./support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "./support/folder.ts";
import { codeBlocks, ROOT } from "./support/markdown-code.ts";

const page = readFileSync(join(ROOT, "docs/skills.md"), "utf8");
const blocks = codeBlocks("docs/skills.md");
const block = (language: string, mark?: string) =>
  blocks.find((one) => one.language === language && one.marks[0] === mark)?.code ?? "";

/** The skill of the page, and its input. */
const SKILL = {
  "skills/expenses/SKILL.md": block("markdown"),
  "skills/expenses/scripts/totals.sh": block("sh", "file=scripts/totals.sh"),
  "skills/expenses/references/limits.md": "# Limits\n\nA night: 187.\n",
  "skills/expenses/evals/triggers.json": block("json"),
};
const TRIP =
  "date,category,amount\n2026-03-01,food,12.50\n2026-03-02,hotel,187\n2026-03-02,food,30\n2026-03-03,taxi,?\n";

describe("the page about writing skills", () => {
  it("has every key of the table of spellings, as the program has it: `npm run docs` writes it", () => {
    expect(page).toContain(`\n${frontmatterTable()}\n`);
    for (const { keys } of MANIFEST_FIELDS)
      for (const key of keys) expect(page, key).toMatch(new RegExp(`^\\| .*\`${key}\``, "m"));
  });

  it("shows a skill that every profile accepts, and forms that load", () => {
    const cwd = temporaryFolder(SKILL);
    for (const profile of PROFILES) {
      const { files, diagnostics } = checkPath(join(cwd, "skills"), { profile });
      expect([...diagnostics, ...files.flatMap((file) => file.diagnostics)], profile).toEqual([]);
      expect(files).toHaveLength(1);
    }
    expect(checkText(block("yaml"), { file: "standup.yaml" })).toMatchObject({ isValid: true, diagnostics: [] });
  });

  it("lists commands that work in this order", async () => {
    const [home, cwd] = [temporaryFolder(), temporaryFolder({ "trip.csv": TRIP })];
    chmodSync(cwd, 0o755); // Code never runs as root, and needs to read it.
    const commands = block("sh")
      .split("\n")
      .flatMap((line) => /^skillet (.*?)(?: {2,}#.*)?$/.exec(line)?.[1] ?? []);
    expect(commands).toEqual(EXPECTED.map(([command]) => command));
    for (const [command, expected] of EXPECTED) {
      const args = Array.from(command.matchAll(/"([^"]*)"|\S+/g), ([word, quoted]) => quoted ?? word);
      const isTTY = command.startsWith("trust");
      const said = await skillet(args, { cwd, env: { HOME: home, NO_COLOR: "1" }, isTTY, ask: async () => "y" });
      expect(said, `${command}\n${said.stdout}${said.stderr}`).toMatchObject({ code: 0 });
      expect(said.stdout, command).toMatch(expected);
      if (command === "new expenses") writeFiles(cwd, SKILL);
    }
    expect(existsSync(join(cwd, "expenses.zip"))).toBe(true);
  });

  it("names the code of every common mistake", () => {
    const mistakes = [...page.matchAll(/^\| `(.+)` \| \[`([a-z-]+)`\]\(errors\.md#\2\) \|/gm)];
    expect(mistakes.length).toBeGreaterThan(12);
    for (const [, written = "", code] of mistakes) {
      const cwd = temporaryFolder({ "expenses/SKILL.md": withMistake(written) });
      const found = checkPath(join(cwd, "expenses")).files.flatMap((file) => file.diagnostics.map((one) => one.code));
      expect(found, written).toContain(code);
    }
  });

  it("links to codes that the page of findings has, and names every client", () => {
    const errors = readFileSync(join(ROOT, "docs/errors.md"), "utf8");
    for (const [, code] of page.matchAll(/errors\.md#([\w-]+)/g)) expect(errors).toContain(`<a id="${code}"></a>`);
    const { agents, ...clients } = NATIVE_CLIENTS;
    const [, section = ""] = page.split("\n## One skill, every client\n");
    for (const { title } of Object.values(clients)) expect(section).toContain(title);
  });
});

/** Each command of the page, with its output. */
const EXPECTED: readonly [command: string, said: RegExp][] = [
  ["new expenses", /✓ skills\/expenses\/SKILL\.md/],
  ["check skills/expenses --profile agentskills", /1 skill: 0 errors, 0 warnings, 0 hints/],
  ["show expenses", /scripts\/totals\.sh/],
  ['explain "what did the trip cost?"', /expenses/],
  ["eval skills/expenses --misses", /^expenses /m],
  ["scan skills/expenses", /0 high, 0 medium, 0 low/],
  ["trust skills/expenses", /✓ trusted: expenses/],
  ["run expenses trip.csv --dry-run", /✓ sandbox/],
  ["run expenses trip.csv --model runbook", /food 42\.50\nhotel 187\.00\nline 5 has no amount/],
  ["export expenses --to claude --dry-run", /\+ expenses/],
  ["sign --new-key", /signing-key\.pem/],
  ["sign skills/expenses", /SKILL\.sig/],
  ["export expenses --to zip", /expenses\.zip/],
];

/** A line of frontmatter replaces the same key; any other line belongs to the instructions. */
function withMistake(written: string): string {
  const [, key] = /^([a-z_-]+): /.exec(written) ?? [];
  if (key === undefined) return skillText("expenses", { body: written });
  const lines = skillText("expenses").split("\n");
  const at = lines.findIndex((line) => line.startsWith(`${key}:`));
  return lines.toSpliced(at === -1 ? 1 : at, at === -1 ? 0 : 1, written).join("\n");
}
