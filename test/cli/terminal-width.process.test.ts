import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/folder.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { openTerminal } from "../support/terminal.ts";

const PROSE =
  "Read the whole report first, then compare each number with the one of the month before and name what differs.";
const COMMAND = 'grep -E "^(error|warning): [a-z ]+ in line [0-9]+$" report.txt';
const CODE = `echo ${"long ".repeat(20).trim()}`;
const BODY = `${PROSE}\n\nSearch with \`${COMMAND}\` in it.\n\n~~~sh\n${CODE}\n~~~\n`;

describe.each(sampleRows([80, 60], 1))("a terminal of %d columns", (columns) => {
  it("wraps the text of `trust` between words", async () => {
    const cwd = temporaryFolder({ "skills/report/SKILL.md": `---\ndescription: Compares reports.\n---\n\n${BODY}` });
    const home = temporaryFolder();
    const shown = openTerminal(["trust", "report", "--yes"], { cwd, home, columns });
    expect(await shown.ended).toBe(0);
    const lines = shown.screen().split("\n");
    expect(lines.filter((line) => line.length > columns)).toEqual([]);
    const text = lines.map((line) => line.trim()).join(" ");
    expect(text).toContain(PROSE);
    expect(lines.some((line) => line.includes("between"))).toBe(false);
    if (COMMAND.length < columns - 12) expect(lines.some((line) => line.includes(COMMAND))).toBe(true);
    const listed = openTerminal(["trust", "--list"], { cwd, home, columns });
    expect(await listed.ended).toBe(0);
    expect(listed.screen()).toContain("report");
    expect(
      listed
        .screen()
        .split("\n")
        .filter((line) => line.length > columns),
    ).toEqual([]);
  });

  it.each([
    ["run", "report"],
    ["chat", "'use the report skill'"],
  ])("wraps the answer of %s, but no code", async (...args) => {
    const script = `---\ndescription: Prints a report.\n---\n\n\`\`\`sh\ncat <<'END'\n${BODY}END\n\`\`\`\n`;
    const cwd = temporaryFolder({ "skills/report/SKILL.md": script });
    const home = temporaryFolder();
    expect(await openTerminal(["trust", "report", "--yes"], { cwd, home }).ended).toBe(0);
    const run = openTerminal(args, { cwd, home, columns });
    await run.ended;
    const lines = run.screen().split("\n");
    expect(lines.join(" ")).toContain(PROSE);
    if (COMMAND.length < columns) expect(lines.some((line) => line.includes(COMMAND))).toBe(true);
    const wide = lines.filter((line) => line.length > columns);
    const whole = [...(COMMAND.length < columns ? [] : [`\`${COMMAND}\``]), CODE];
    expect(wide).toEqual(whole);
  });

  it("shows the patterns of a skill in full, in show and in explain", async () => {
    const pattern = "^(?:please )?(?:compare|diff) (?:the )?(?:monthly|yearly) reports? (?:of|for) [A-Z]{2,5}-[0-9]+";
    const triggers = `triggers:\n  patterns: ['${pattern}', 'every single report']\n`;
    const head = "---\nname: report\ndescription: Compares reports. Use when two reports differ.\n";
    const cwd = temporaryFolder({ "skills/report/SKILL.md": `${head}${triggers}---\n\nDo it.\n` });
    const home = temporaryFolder();
    const screen = async (...args: string[]) => {
      const shown = openTerminal(args, { cwd, home, columns });
      expect(await shown.ended).toBe(0);
      return shown.screen().split("\n");
    };
    const wide = (lines: readonly string[]) =>
      lines.filter((line) => line.length > columns && !line.includes(pattern) && !line.trim().startsWith("skillet "));
    const shown = await screen("show", "report");
    expect(shown.filter((line) => line.endsWith(` ${pattern}`))).toHaveLength(1);
    expect(shown.filter((line) => line.endsWith(" every single report"))).toHaveLength(1);
    const matched = "'please compare the monthly reports for AB-12'";
    for (const args of [
      ["explain", matched],
      ["explain", matched, "--skill", "report"],
      ["explain", "'good morning'", "--skill", "report"],
    ]) {
      const lines = await screen(...args);
      expect([lines.some((line) => line.includes(pattern)), wide(lines)]).toEqual([true, []]);
    }
    expect(wide(shown)).toEqual([]);
  });
});
