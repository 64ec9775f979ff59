import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { markdown } from "../../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../../src/agent/prompts/prompt-template.ts";
import { SkillRefError, skill, skillRef, skillsSection } from "../../../src/agent/prompts/skill-sections.ts";
import { installPromptSkills } from "../../../src/remote/clients/hermetic-home.ts";
import { Tool } from "../../../src/skill/tool.ts";
import { SkillInstallationError } from "../../../src/store/atomic-folder.ts";
import { skillText, temporaryFolder } from "../../support/folder.ts";

const naming = skill<{ language: string }>({
  name: "naming",
  description: "Naming conventions guide.",
  title: "Naming",
  template: "Name things as people who write $language do.",
});
const testing = skill({
  name: "testing",
  description: "Testing workflows with execution tools.",
  title: "Testing",
  template: "Run them.",
  tools: [
    Tool.define("run_tests", {
      description: "Runs the tests",
      parameters: { type: "object", properties: {} },
      execute: () => "ok",
    }),
  ],
});

const OTHER = { name: "other", description: "Another.", title: "Other", template: "Be another." };
const other = skill(OTHER);
const task = markdown({ title: "Task", key: "task", template: "Do it." });
const off = skill({ ...OTHER, enabled: () => false });

describe("installSkills", () => {
  it("[N-10] writes skills without tools as SKILL.md and omits those with tools", () => {
    const skillsDir = join(temporaryFolder(), "home", ".claude", "skills");
    const section = skillsSection({ skills: [testing, naming] });
    const paths = installPromptSkills(section, { skillsDir, params: { language: "Python" } });
    expect(paths).toEqual([join(skillsDir, "naming")]);
    expect(readdirSync(skillsDir).filter((name) => !name.startsWith("."))).toEqual(["naming"]);
    expect(readFileSync(join(skillsDir, "naming", "SKILL.md"), "utf8")).toBe(
      "---\nname: naming\ndescription: Naming conventions guide.\n---\n\nName things as people who write Python do.\n",
    );
  });

  it("[N-10] copies referenced folders entirely, with permissions, and links as files", () => {
    const root = temporaryFolder({
      "skills/review/SKILL.md": skillText("review"),
      "skills/review/scripts/scan.sh": "#!/bin/sh\n",
      "shared/patterns.json": "{}",
    });
    chmodSync(join(root, "skills/review/scripts/scan.sh"), 0o755);
    symlinkSync("../../shared/patterns.json", join(root, "skills/review/patterns.json"));
    const skillsDir = join(root, "to");
    const prompt = promptTemplate({
      ns: "n",
      key: "k",
      sections: [task, skillsSection({ skills: [skillRef({ path: "skills/review", basePath: root })] })],
    }).bind();
    expect(installPromptSkills(prompt, { skillsDir })).toEqual([join(skillsDir, "review")]);
    expect(statSync(join(skillsDir, "review/scripts/scan.sh")).mode & 0o111).toBe(0o111);
    expect(lstatSync(join(skillsDir, "review/patterns.json")).isFile()).toBe(true);
    expect(readFileSync(join(skillsDir, "review/patterns.json"), "utf8")).toBe("{}");
  });

  it("[N-10] takes the bound parameters of a prompt, and only the skills that they enable", () => {
    const skillsDir = temporaryFolder();
    const prompt = promptTemplate({
      ns: "n",
      key: "k",
      sections: [skillsSection({ skills: [naming, off] })],
    }).bind({ language: "Rust" });
    expect(installPromptSkills(prompt, { skillsDir })).toEqual([join(skillsDir, "naming")]);
    expect(readFileSync(join(skillsDir, "naming/SKILL.md"), "utf8")).toContain("who write Rust do");
  });

  it("[N-28] removes write permission on request", () => {
    const skillsDir = temporaryFolder();
    installPromptSkills(skillsSection({ skills: [other] }), { skillsDir, isReadOnly: true });
    expect(statSync(join(skillsDir, "other/SKILL.md")).mode & 0o222).toBe(0);
    expect(statSync(join(skillsDir, "other")).mode & 0o222).toBe(0);
    chmodSync(join(skillsDir, "other"), 0o755); // So that it can be removed.
  });

  it("[N-07] checks a folder again before the copy", () => {
    const root = temporaryFolder({ "review/SKILL.md": skillText("review") });
    const section = skillsSection({ skillRefs: [skillRef(join(root, "review"))] });
    rmSync(join(root, "review/SKILL.md"));
    const skillsDir = join(root, "to");
    expect(() => installPromptSkills(section, { skillsDir, params: {} })).toThrow(SkillRefError);
    expect(existsSync(skillsDir)).toBe(false);
  });

  it("[N-19] leaves nothing when one of them cannot be installed", () => {
    const skillsDir = temporaryFolder({ "other/mine.txt": "mine" });
    const section = skillsSection({ skills: [naming, other] });
    const install = () => installPromptSkills(section, { skillsDir, params: { language: "Go" } });
    expect(install).toThrow(SkillInstallationError);
    expect(install).toThrow(expect.objectContaining({ skillName: "other", skillsDir, source: "inline" }));
    expect(readdirSync(skillsDir).filter((name) => !name.startsWith("."))).toEqual(["other"]);
    expect(readdirSync(join(skillsDir, "other"))).toEqual(["mine.txt"]);
  });
});
