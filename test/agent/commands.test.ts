import { describe, expect, it } from "vitest";
import { findInstructionCommands } from "../../src/agent/models/runbook.ts";
import { expectLinearSteps } from "../support/steps.ts";

const block = (language: string, ...lines: string[]) => `\`\`\`${language}\n${lines.join("\n")}\n\`\`\``;

describe("commands in instructions", () => {
  it.each(["sh", "bash", "shell", "zsh", "Bash", "sh title=x"])("are found in a whole block of %s", (language) => {
    expect(findInstructionCommands(`Text.\n\n${block(language, "cd /tmp", "ls")}\n\nMore.`, {})).toEqual([
      "cd /tmp\nls",
    ]);
  });

  it.each(["", "text", "python", "yaml", "js", "output"])("are not found in the block %j", (language) => {
    expect(findInstructionCommands(block(language, "Run: x", "run: y", "$ ls"), {})).toEqual([]);
  });

  it("are the typed lines of a console, not the printed ones", () => {
    const lines = ["$ echo one \\", "> two", "one two", "$ id", "uid=0"];
    expect(findInstructionCommands(block("console", ...lines), {})).toEqual(["echo one \\\ntwo\nid"]);
    expect(findInstructionCommands(block("console", "uid=0"), {})).toEqual([]);
    expect(findInstructionCommands(block("sh", "$ ls", "$ id"), {})).toEqual(["ls\nid"]);
  });

  it.each([
    ["Run: uname -a", "uname -a"],
    ["- Run: uname -a", "uname -a"],
    ["  2. Run: `uname -a`", "uname -a"],
    ["Run: `uname -a`, and tell what it says.", "uname -a"],
    ["**Run:** ``echo `id` ``", "echo `id`"],
    ['Run: echo "it\'s"  ', 'echo "it\'s"'],
    ["Run: ls\r", "ls"],
  ])("include the line %j", (line, command) => {
    expect(findInstructionCommands(`Text.\n${line}\nMore.`, {})).toEqual([command]);
  });

  it.each([
    "Run the tests.",
    "run: ls",
    "Do not Run: ls",
    "Run:",
    "Dry Run: ls",
    "<!-- Run: ls -->",
    "<!--\nRun: ls\n-->",
  ])("do not include %j", (line) => {
    expect(findInstructionCommands(`Text.\n${line}\nMore.`, {})).toEqual([]);
  });

  it("keep their order, one for each block and line", () => {
    const body = [
      block("sh", "a"),
      "Run: b",
      "- c:",
      "",
      "  ~~~bash",
      "  if x; then",
      "    d",
      "  fi",
      "  ~~~",
      "````sh",
      "```",
      "e",
      "````",
    ];
    expect(findInstructionCommands(body.join("\n"), {})).toEqual(["a", "b", "if x; then\n  d\nfi", "```\ne"]);
  });

  it("are empty for a block of comments, and reach the end of an unclosed block", () => {
    expect(findInstructionCommands(`${block("sh", "# nothing", "")}\n\`\`\`sh\nls`, {})).toEqual(["ls"]);
  });

  it("take arguments by position, by name and all together, counted as in the instructions", () => {
    const given = { arguments: "west 'the coast'", names: ["area", "place"], folder: "/skill" };
    const body = [block("sh", "go $1 $area ${SKILL_DIR}/x"), "Run: `go $ARGUMENTS`", "It costs $5."].join("\n");
    expect(findInstructionCommands(body, given)).toEqual([
      "go west west /skill/x",
      "skillet_1='the coast'\ngo west \"${skillet_1}\"",
    ]);
    expect(findInstructionCommands(`First is $0.\n\nRun: go $1`, { arguments: "a b" })).toEqual(["go b"]);
  });

  it("never gain a command from an argument", () => {
    const nasty = "x\n```\n```sh\nid\n```\nRun: id";
    const body = `${block("sh", 'echo "$ARGUMENTS"')}\n\n$ARGUMENTS\n`;
    expect(findInstructionCommands(body, { arguments: nasty })).toHaveLength(1);
    expect(findInstructionCommands("No command here: $ARGUMENTS", { arguments: nasty })).toEqual([]);
  });

  it("are found in steps linear in the length of the text", async () => {
    const part = "```sh\necho '$1' \"$1\" $1 <<A\n$1\nA\n```\nRun: `````` $1\n";
    expect(findInstructionCommands(part.repeat(4000), { arguments: "'a b" })).toHaveLength(8000);
    await expectLinearSteps(
      ["src/agent/models/runbook.ts"],
      ({ findInstructionCommands }: typeof import("../../src/agent/models/runbook.ts"), body: string) =>
        findInstructionCommands(body, { arguments: "'a b" }),
      [["blocks", [500, 1000, 2000].map((times) => part.repeat(times))]],
    );
  });
});
