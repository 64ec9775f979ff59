import { describe, expect, it } from "vitest";
import { readSkillCases } from "../../src/eval/case-formats.ts";
import { temporaryFolder } from "../support/folder.ts";

const read = (files: Record<string, string>) => readSkillCases(temporaryFolder(files));

describe("cases in other formats", () => {
  it("reads evals.json of Anthropic's skill-creator", async () => {
    const suite = await read({
      "evals/evals.json": JSON.stringify({
        skill_name: "pdf",
        evals: [
          {
            id: 1,
            prompt: "Extract the text of document.pdf",
            expected_output: "All pages",
            files: ["evals/files/document.pdf"],
            expectations: ["The text has every page", "It is saved to output.txt"],
          },
          {
            id: "b",
            name: "named",
            prompt: "Say done",
            assertions: [{ name: "says", type: "contains", value: "done" }],
          },
          { id: 3, prompt: "Only described", expected_output: "A polite answer" },
          { id: 4, prompt: "Odd", assertions: [{ type: "screenshot", value: "x" }] },
        ],
      }),
      "evals/files/document.pdf": "%PDF",
    });
    expect(suite?.format).toBe("evals.json of Anthropic's skill-creator");
    expect(suite?.cases).toMatchObject([
      {
        name: "1",
        prompt: "Extract the text of document.pdf",
        copies: { "document.pdf": expect.stringMatching(/evals\/files\/document\.pdf$/) },
        graders: [
          { kind: "rubric", text: "The text has every page" },
          { kind: "rubric", text: "It is saved to output.txt" },
        ],
      },
      { name: "named", graders: [{ kind: "answer", name: "says", conditions: { contains: ["done"] } }] },
      { name: "3", graders: [{ kind: "rubric", text: "A polite answer" }] },
    ]);
    expect(suite?.notes).toEqual([
      "evals.json: expected_output is not a grader if there are expectations",
      'evals.json: an assertion of the case 4 has the unknown type "screenshot" and is left out',
      "evals.json: the case 4 has no usable grader and is left out",
    ]);
  });

  it("reads cases of `claude plugin eval`, and lists what has no counterpart", async () => {
    const suite = await read({
      "evals/fix-range/case.yaml": [
        'schema_version: "1.0"',
        "name: fix-range",
        "execution:",
        "  prompt: Fix the range check.",
        "  max_turns: 20",
        "  timeout_seconds: 300",
        "  allowed_tools: [Bash, Write]",
        "graders:",
        "  - { name: says, type: regex, pattern: fixed, flags: i }",
        "  - { name: kept, type: regex, target: { source: file, path: a.mjs }, match: not_contains, pattern: TODO }",
        "  - { name: look, type: regex, pattern: '(?<!not )fixed' }",
        "  - { name: trace, type: regex, target: trace, pattern: x }",
        "  - { name: runs, type: tool_used, tool: Bash, input_match: npm, min: 1, max: 3 }",
        "  - { name: never, type: tool_used, tool: Edit, min: 0, max: 0 }",
        "  - { name: chosen, type: tool_used, tool: Skill }",
        "  - { name: made, type: file_exists, path: report.md }",
        "  - { name: any, type: file_exists, path: '*.md' }",
        "  - { name: as-good, type: baseline }",
      ].join("\n"),
      "evals/fix-range/scaffold.sh": "echo x > a.mjs\n",
      "evals/polite/prompt.md": "---\nruns: 3\ntags: [a]\n---\n\nBe polite.\n",
      "evals/polite/graders/tone.md": "---\ntype: llm\n---\nThe answer is polite.\n",
      "evals/empty/prompt.md": "Nothing to check.\n",
    });
    expect(suite?.cases).toMatchObject([
      {
        name: "fix-range",
        prompt: "Fix the range check.",
        setup: "sh \"$SKILLET_EVALS\"/'fix-range/scaffold.sh'",
        limits: { iterations: 20, seconds: 300 },
        graders: [
          { name: "says", kind: "answer", conditions: { matches: ["(?i)fixed"] } },
          { name: "kept", kind: "file", path: "a.mjs", conditions: { notMatches: ["TODO"] } },
          { name: "runs", kind: "tool_used", tool: "bash", input: "npm", min: 1, max: 3 },
          { name: "never", kind: "tool_used", tool: "edit_file", min: 0, max: 0 },
          { name: "made", kind: "file", path: "report.md", exists: true },
        ],
      },
      {
        name: "polite",
        prompt: "\nBe polite.\n",
        trials: 3,
        graders: [{ kind: "rubric", text: "The answer is polite." }],
      },
    ]);
    expect(suite?.notes).toEqual([
      "evals: the case empty has no usable grader and is left out",
      'evals: "allowed_tools" has no counterpart and is ignored',
      "evals: the grader look has a pattern with lookarounds or backreferences, which RE2 does not have and is left out",
      "evals: the grader trace looks at the trace, which has no counterpart, and is left out",
      "evals: the grader chosen checks that a skill is chosen, which `--level trigger` measures, and is left out",
      "evals: the grader any has a glob, which has no counterpart, and is left out",
      'evals: the grader as-good has the type "baseline", which has no counterpart, and is left out',
    ]);
  });

  it("reads eval.yaml of skillgrade", async () => {
    const suite = await read({
      "eval.yaml": [
        'version: "1"',
        "defaults: { agent: claude, provider: docker, trials: 4, timeout: 60, threshold: 0.9 }",
        "tasks:",
        "  - name: lint",
        "    instruction: instructions/lint.md",
        "    expected: { errors: 0 }",
        "    workspace:",
        "      - { src: fixtures/app.js, dest: app.js }",
        "      - { src: fixtures/app.js, dest: /usr/local/bin/lint, chmod: '+x' }",
        "    graders:",
        "      - { type: deterministic, run: bash graders/check.sh, weight: 0.7 }",
        "      - { type: llm_rubric, rubric: Followed the workflow., weight: 0.3 }",
        "    agent: codex",
      ].join("\n"),
      "instructions/lint.md": "Fix app.js.\n",
      "fixtures/app.js": "x",
      "graders/check.sh": "echo",
    });
    const [task] = suite?.cases ?? [];
    expect(task).toMatchObject({
      ...{ name: "lint", prompt: "Fix app.js.\n", trials: 4, limits: { seconds: 60 } },
      copies: { "app.js": expect.stringMatching(/fixtures\/app\.js$/) },
      graders: [
        { kind: "command", exit: 0, conditions: { schema: { properties: { score: { minimum: 0.9 } } } } },
        { kind: "rubric", text: "Followed the workflow." },
      ],
    });
    const [command] = task?.graders ?? [];
    expect(command?.kind === "command" ? command.run.split("\n") : []).toEqual([
      `export SKILLGRADE_INPUT='{"task":"lint","trial":1,"expected":{"errors":0}}'`,
      expect.stringContaining('cp -R "$SKILLET_EVALS"/'),
      "bash graders/check.sh",
    ]);
    expect(suite?.notes).toEqual([
      "eval.yaml: defaults.agent has no counterpart and is ignored",
      "eval.yaml: defaults.provider has no counterpart and is ignored",
      'eval.yaml: "agent" of a task has no counterpart and is ignored',
      "eval.yaml: a file of the case lint is outside the workspace and is left out",
      "eval.yaml: chmod has no counterpart: files keep their mode",
      "eval.yaml: weights have no counterpart: every grader must pass, with a score of at least 0.9",
    ]);
  });

  it("reads the own format first, refuses paths outside the skill, and finds nothing in an empty folder", async () => {
    const own = "version: 1\ncases: [{ name: a, prompt: p, graders: [{ file: x }] }]\n";
    const both = await read({ "evals/tasks.yaml": own, "evals/evals.json": '{"evals": []}' });
    expect(both?.format).toBe("skillet");
    expect(await read({ "SKILL.md": "x" })).toBeUndefined();
    const outside = { evals: [{ id: 1, prompt: "p", files: ["../../secret"], expectations: ["x"] }] };
    await expect(read({ "evals/evals.json": JSON.stringify(outside) })).rejects.toThrow(/outside|does not exist/);
    await expect(read({ "evals/evals.json": '{"evals": []}' })).rejects.toThrow("has no usable case");
  });
});
