import { execFile } from "node:child_process";
import { readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { CLAUDE_MODEL, type ClaudeTurn, startClaudeApi } from "../support/claude-api.ts";
import { temporaryFolder } from "../support/folder.ts";

/** Starts an example as a user does, with the SDK installed and its own home. */
async function start(file: string, turns: readonly ClaudeTurn[], ...args: string[]) {
  const { requests, env } = await startClaudeApi(turns);
  const [home, temporary] = [temporaryFolder({ ".claude/skills/ambient/SKILL.md": AMBIENT }), temporaryFolder()];
  const cwd = temporaryFolder();
  symlinkSync(join(import.meta.dirname, "node_modules"), join(cwd, "node_modules"));
  const given = Object.entries({ ...env, PATH: process.env["PATH"], HOME: home, TMPDIR: temporary });
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--no-warnings", join(import.meta.dirname, "..", "..", "examples", file), ...args],
    {
      cwd,
      env: { ...Object.fromEntries(given.filter(([, value]) => value !== undefined)), MODEL_NAME: CLAUDE_MODEL },
    },
  );
  for (const { body } of requests) expect(body).not.toContain("ambient");
  expect(readdirSync(temporary), "the home is gone").toEqual([]);
  return { stdout, stderr, requests };
}

const AMBIENT = "---\nname: ambient\ndescription: A skill of the user, which no prompt declares.\n---\n\nLeak.\n";
const open = (key: string): ClaudeTurn => {
  return () => ({ tool: "mcp__skillet__open_sections", input: { keys: [key] } });
};
const listed = (reminders: readonly string[] = []) =>
  [...reminders.join("\n").matchAll(/^- ([a-z-]+):/gm)].map(([, name]) => name);

describe("the examples with Claude", () => {
  it("[N-22, N-29] installs skills without tools, which Claude finds itself: story 1", async () => {
    const { stdout, stderr, requests } = await start("05-native-skills.ts", [
      () => ({ tool: "Skill", input: { skill: "house-review" } }),
      ({ said }) => (said.some((text) => text.includes("Critical: security, loss of data.")) ? "Reviewed." : "?"),
    ]);
    expect(stdout).toBe("Reviewed.\n");
    expect(stderr).toBe("· installed house-review, refactoring\n");
    expect(listed(requests[0]?.reminders).sort()).toEqual(["house-review", "refactoring"]);
    expect(requests[0]?.prompt).toBe("## Task\n\nReview the code in this folder.");
  });

  it("[N-22, N-27] keeps a skill with tools in the prompt, and its tool is available once it is open: story 2", async () => {
    const file = join(temporaryFolder({ "x.txt": "one \ntwo\n" }), "x.txt");
    const { stdout, stderr, requests } = await start(
      "06-skill-with-tools.ts",
      [
        open("skills.linting"),
        () => ({ tool: "mcp__skillet__lint_code", input: { paths: [file] } }),
        ({ results }) => results[1]?.content ?? "?",
      ],
      file,
    );
    expect(stdout).toBe(`<skill_output tool="lint_code">\nFound 1 issues\n${file}:1\n</skill_output>\n`);
    expect(stderr).toBe("· opened skills.linting\n");
    expect(requests[0]?.tools).toContain("mcp__skillet__open_sections");
    expect(requests[0]?.tools).not.toContain("mcp__skillet__lint_code");
  });

  it("[N-22, N-11, N-13, N-18, N-21] has one skill installed and one in the prompt: story 3", async () => {
    const folder = temporaryFolder({ "a.test.ts": "", "b.ts": "" });
    const { stdout, stderr, requests } = await start(
      "07-mixed-skills.ts",
      [
        open("skills.testing"),
        () => ({ tool: "mcp__skillet__find_tests", input: { folder } }),
        ({ results }) => `Tests: ${/\n(.*)\n/.exec(results[1]?.content ?? "")?.[1]}`,
      ],
      folder,
    );
    expect(stdout).toBe("Tests: a.test.ts\n");
    expect(stderr).toMatch(/^· installed architecture\n[\s\S]*· opened skills\.testing\n[\s\S]*find_tests\n/);
    expect(listed(requests[0]?.reminders)).toEqual(["architecture"]);
    expect(requests[0]?.prompt).not.toContain("architecture");
    expect(requests[0]?.prompt).toContain(
      '---\n[This skill is summarized. Call `open_sections` with key "skills.testing"\nto view full workflow and access tools: find_tests.]',
    );
    expect(requests[1]?.results[0]?.content).toContain("then compare with its sources.");
  });

  it("[N-22, N-10] copies skills of folders completely, and not disabled ones: story 4", async () => {
    const { stdout, stderr, requests } = await start("08-skills-on-disk.ts", [
      () => ({ tool: "Skill", input: { skill: "travel-expenses" } }),
      ({ said }) => {
        const [, folder] = /Base directory for this skill: (\S+)/.exec(said.join("\n")) ?? [];
        return { tool: "Read", input: { file_path: `${folder}/rates.md` } };
      },
      ({ results }) => `It is ${/Oslo \| (\d+ EUR)/.exec(results[1]?.content ?? "")?.[1]}.`,
    ]);
    expect(stdout).toBe("It is 187 EUR.\n");
    expect(stderr).toBe("· installed travel-expenses\n");
    expect(listed(requests[0]?.reminders)).toEqual(["travel-expenses"]);
  });
});
