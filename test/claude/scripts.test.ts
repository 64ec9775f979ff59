import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { planScripts, sandboxProblem, scriptGrants } from "../../src/claude/scripts.ts";
import { promptTemplate } from "../../src/prompt/prompt.ts";
import { skillRef } from "../../src/prompt/skill-ref.ts";
import { skillsSection } from "../../src/prompt/skills-section.ts";
import { isGranted } from "../../src/skill/tool-grant.ts";
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
  it("[N-32] can be run by default where a sandbox holds them, and no other command", () => {
    const folder = root();
    expect(planScripts(promptOf(join(folder, "scan")), true, undefined).tools).toEqual(
      sandboxProblem() ? ["Read", "Glob", "Grep"] : ["Read", "Glob", "Grep", "Bash"],
    );
    expect(planScripts(promptOf(join(folder, "plain")), true, undefined).tools).toEqual(["Read", "Glob", "Grep"]);
    expect(planScripts(promptOf(join(folder, "scan")), false, undefined).tools).toEqual(["Read", "Glob", "Grep"]);
    const skill = skillRef(join(folder, "scan")).toSkill();
    const grants = scriptGrants(new Map([["scan", skill]]), "/home/x/.claude/skills");
    const may = (command: string) => grants.some((grant) => isGranted([grant], "bash", { command }));
    expect(may("/home/x/.claude/skills/scan/scripts/scan.sh src")).toBe(true);
    expect(may("bash /home/x/.claude/skills/scan/scripts/scan.sh")).toBe(true);
    for (const other of ["ls", "/home/x/.claude/skills/scan/scripts/scan.sh; rm -rf x", "bash -c ls"])
      expect(may(other), other).toBe(false);
  });

  it("[N-32] need programs, and a missing one is a problem that names its package", () => {
    expect(sandboxProblem("linux", () => "/usr/bin/x")).toBeUndefined();
    expect(sandboxProblem("darwin", () => undefined)).toBeUndefined();
    const problem = sandboxProblem("linux", (program) => (program === "bwrap" ? "/usr/bin/bwrap" : undefined));
    expect(problem).toMatchObject({
      code: "claude-sandbox-missing",
      message: expect.stringContaining("socat is not installed"),
      fix: "install the package: apt-get install socat",
    });
    const planned = planScripts(promptOf(join(root(), "scan")), true, problem);
    expect(planned).toEqual({ tools: ["Read", "Glob", "Grep"], problem });
  });
});
