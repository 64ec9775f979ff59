import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSandboxProblem, listScriptGrants, planScripts } from "../../src/adapters/claude/claude-home.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { isToolCallGranted } from "../../src/skill/tool-grants.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const root = () =>
  temporaryFolder({
    "scan/SKILL.md": skillText("scan"),
    "scan/scripts/scan.sh": "#!/bin/sh\necho scanned\n",
    "plain/SKILL.md": skillText("plain"),
  });
const promptOf = (...paths: string[]) =>
  promptTemplate({
    ns: "a",
    key: "b",
    sections: [skillsSection({ skillRefs: paths.map((path) => skillRef(path)) })],
  }).bind();

describe("scripts of referenced skills", () => {
  it("[N-32] can run by default if a sandbox isolates them, and no other command can", async () => {
    const folder = root();
    expect((await planScripts(promptOf(join(folder, "scan")), true, undefined)).tools).toEqual(
      findSandboxProblem() ? ["Read", "Glob", "Grep"] : ["Read", "Glob", "Grep", "Bash"],
    );
    expect((await planScripts(promptOf(join(folder, "plain")), true, undefined)).tools).toEqual([
      "Read",
      "Glob",
      "Grep",
    ]);
    expect((await planScripts(promptOf(join(folder, "scan")), false, undefined)).tools).toEqual([
      "Read",
      "Glob",
      "Grep",
    ]);
    const skill = skillRef(join(folder, "scan")).toSkill();
    const grants = await listScriptGrants(new Map([["scan", skill]]), "/home/x/.claude/skills");
    const may = (command: string) => grants.some((grant) => isToolCallGranted([grant], "bash", { command }));
    expect(may("/home/x/.claude/skills/scan/scripts/scan.sh src")).toBe(true);
    expect(may("bash /home/x/.claude/skills/scan/scripts/scan.sh")).toBe(true);
    for (const other of ["ls", "/home/x/.claude/skills/scan/scripts/scan.sh; rm -rf x", "bash -c ls"])
      expect(may(other), other).toBe(false);
  });

  it("[N-32] need programs, and a missing one is a problem that names its package", async () => {
    expect(findSandboxProblem("linux", () => "/usr/bin/x")).toBeUndefined();
    expect(findSandboxProblem("darwin", () => undefined)).toBeUndefined();
    const problem = findSandboxProblem("linux", (program) => (program === "bwrap" ? "/usr/bin/bwrap" : undefined));
    expect(problem).toMatchObject({
      code: "claude-sandbox-missing",
      message: expect.stringContaining("socat is not installed"),
      fix: "install the package: apt-get install socat",
    });
    const planned = await planScripts(promptOf(join(root(), "scan")), true, problem);
    expect(planned).toEqual({ tools: ["Read", "Glob", "Grep"], problem });
  });
});
