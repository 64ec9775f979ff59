import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createSkillToolset } from "../src/adapters/ai-sdk/index.ts";
import { promptTemplate, skill, skillRef, skillsSection } from "../src/agent/prompts/index.ts";
import { disclose, openSession, parseSkillMd, Tool } from "../src/index.ts";
import { installPromptSkills } from "../src/remote/clients/index.ts";
import { discoverIn } from "./support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "./support/folder.ts";

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

/** The layout and the frontmatter that the document on disclosure shows. */
const SKILLMAKER = `---
name: skillmaker
description: Makes skills and keeps them good.
metadata:
  version: 1.0.0
  tags:
    - skills
    - quality
  author: ""
---

# Skillmaker

Fill the template, then go through the list.
`;
const FOLDERS = {
  "repo/skills/skillmaker/SKILL.md": SKILLMAKER,
  "repo/skills/skillmaker/skill-template.md": "A template.\n",
  "repo/skills/skillmaker/quality-checklist.md": "A list.\n",
  "workspace/skills/your-skill/SKILL.md": SKILLMAKER.replace("name: skillmaker", "name: your-skill"),
  "workspace/outside.md": "Not yours.\n",
};

describe("the blocks of the document on disclosure from folders", () => {
  it("[P-05] the frontmatter is read with all of its keys", () => {
    expect(parseSkillMd(SKILLMAKER)).toMatchObject({
      frontmatter: { name: "skillmaker", metadata: { version: "1.0.0", tags: ["skills", "quality"], author: "" } },
      body: "# Skillmaker\n\nFill the template, then go through the list.",
      findings: [],
    });
  });

  it("[P-08, P-29] the two folders give a toolset, whose tools take the document's arguments", async () => {
    const root = temporaryFolder(FOLDERS);
    const folders = [join(root, "repo/skills"), join(root, "workspace/skills"), join(root, "none")];
    const { tools, instructions, session } = await createSkillToolset(folders, { profile: "shipped", live: false });
    onTestFinished(() => session.close());
    expect(await instructions()).toMatch(/skillmaker[\s\S]*your-skill/);
    const call = (tool: string, input: Record<string, string>) => session.call(tool, input);
    const listed = (await call("list_skills", {})).text;
    for (const fact of ["skillmaker", "your-skill", "Makes skills", "1.0.0", "quality"]) expect(listed).toContain(fact);
    expect(Object.keys(tools)).toEqual(
      expect.arrayContaining(["list_skills", "load_skill", "read_skill_resource", "validate_skill", "lint_skill"]),
    );
    expect((await call("load_skill", { skill_name: "skillmaker" })).text).toContain("Fill the template");
    const read = (resource_name: string) => call("read_skill_resource", { skill_name: "skillmaker", resource_name });
    expect((await read("quality-checklist.md")).text).toContain("A list.");
    expect((await read("skill-template.md")).text).toContain("A template.");
    for (const path of ["../../../workspace/outside.md", join(root, "workspace/outside.md"), "none.md"])
      expect(await read(path), path).toMatchObject({ isError: true });
    for (const tool of ["validate_skill", "lint_skill"])
      expect(await call(tool, { skill_name: "skillmaker" }), tool).toMatchObject({ isError: false });
  });

  it("[P-03] a custom skill with the same name is the one that is loaded", async () => {
    const root = temporaryFolder(FOLDERS);
    writeFiles(root, { "workspace/skills/skillmaker/SKILL.md": SKILLMAKER.replace("Fill the", "Own the") });
    const { session } = await createSkillToolset([join(root, "repo/skills"), join(root, "workspace/skills")]);
    onTestFinished(() => session.close());
    expect((await session.call("load_skill", { skill_name: "skillmaker" })).text).toContain("Own the template");
  });
});

/** The manifest that the document on triggers shows, with a class as its toolset. */
const HELLO = {
  "SKILL.md": `---
name: hello-extended
description: Extended greeting capabilities
version: 1.0.0
toolsets:
  - "toolsets/index:HelloToolset"     # path:Class format
triggers:
  keywords: ["hello", "greet", "greeting"]
  verbs: ["say", "wave"]
  patterns: ["greet\\\\s+\\\\w+"]
default_enabled: true
---

# Hello Extended Skill

Greet by name.
`,
  "toolsets/index.ts": `import { z } from "zod";
import { Tool } from "@agent/tools";

export class HelloToolset {
  tools = [
    Tool.define("hello", {
      description: "Greets",
      parameters: z.object({ name: z.string() }),
      execute: async (args) => ({ title: "Greeted", metadata: {}, output: \`Hello, \${args.name}!\` }),
    }),
  ];
}
`,
};
const helloIn = (place: string) =>
  Object.fromEntries(Object.entries(HELLO).map(([path, text]) => [`${place}/hello-extended/${path}`, text]));

describe("the blocks of the document on triggers and toolsets", () => {
  it("[T-01] the manifest is read with all of its keys", async () => {
    const { name, manifest } = (await discoverIn(helloIn("home/.agent/skills"))).skill("hello-extended");
    expect(name).toBe("hello-extended");
    expect(manifest).toMatchObject({
      version: "1.0.0",
      toolsets: ["toolsets/index:HelloToolset"],
      triggers: { keywords: ["hello", "greet", "greeting"], verbs: ["say", "wave"], patterns: ["greet\\s+\\w+"] },
      defaultEnabled: true,
    });
  });

  it.each([
    ["Compute a checksum.", "breadcrumb"],
    ["list skills", "registry"],
    ["what can you do?", "registry"],
    ["greet Ada", "full"],
  ])("[T-05, T-06, T-07, T-08] the tier for %j is %s", async (query, tier) => {
    const { catalog } = await discoverIn(helloIn("home/.agent/skills"), { SKILLS_DIR: "/none" });
    const told = await disclose(catalog, query);
    expect(told.tier).toBe(tier);
    expect(told.text.includes("Greet by name.")).toBe(tier === "full");
    if (tier === "breadcrumb") expect(told.text).toContain("[1 skills available]");
  });

  it("[T-05] no tier applies without a skill", async () => {
    expect((await disclose((await discoverIn({}, { SKILLS_DIR: "/none" })).catalog, "greet Ada")).tier).toBe("none");
  });

  it.each(["home/.agent/skills", ".agent/skills"])("[T-10] %s is a folder of skills", async (place) => {
    expect((await discoverIn(helloIn(place))).skill("hello-extended").name).toBe("hello-extended");
  });

  it("[T-11] the class of the toolset provides its tool", async () => {
    const found = await discoverIn(helloIn("home/.agent/skills"));
    const session = openSession(found.catalog, found);
    onTestFinished(() => session.close());
    await session.load("hello-extended");
    const { text } = await session.call("hello-extended.hello", { name: "Ada" });
    expect(text).toContain("Hello, Ada!");
  });
});

const tool = (name: string) =>
  Tool.define(name, { description: name, parameters: { type: "object" }, execute: () => ({ output: "done" }) });
const review = skill({
  name: "code-review",
  description: "Workflows for the review of Python.",
  title: "Code Review",
  key: "code-review",
  template: "# Steps\n\n1. Look for secrets",
});
const refactoring = skill({
  name: "refactoring",
  description: "Safe patterns.",
  title: "Refactoring",
  key: "refactoring",
  template: "# Patterns",
});
/** The folder that the document's fourth story refers to. */
const SECURITY = {
  "security-review/SKILL.md": skillText("security-review"),
  "security-review/scripts/scan-secrets.sh": "#!/bin/sh\n",
  "security-review/scripts/check-dependencies.py": "print(1)\n",
  "security-review/checklists/owasp-top-10.md": "Ten.\n",
  "security-review/patterns/vulnerable-patterns.json": "[]\n",
};

describe("the blocks of the document on sections of a prompt", () => {
  it("[N-05] a skill in code becomes the file that is shown", () => {
    expect(review.toSkillMd({})).toBe(
      "---\nname: code-review\ndescription: Workflows for the review of Python.\n---\n\n# Steps\n\n1. Look for secrets\n",
    );
  });

  it("[N-10] the layout of the installed folder is the one that is shown", async () => {
    const root = temporaryFolder(SECURITY);
    chmodSync(join(root, "security-review/scripts/scan-secrets.sh"), 0o755);
    const section = skillsSection({
      skills: [review, refactoring],
      skillRefs: [skillRef({ path: "security-review", basePath: root })],
    });
    const skillsDir = join(temporaryFolder(), ".claude/skills");
    mkdirSync(skillsDir, { recursive: true });
    const paths = await installPromptSkills(section, { skillsDir });
    expect(paths).toHaveLength(3);
    expect(filesIn(skillsDir)).toEqual(
      ["code-review/SKILL.md", "refactoring/SKILL.md", ...Object.keys(SECURITY)].sort(),
    );
    expect(statSync(join(skillsDir, "security-review/scripts/scan-secrets.sh")).mode & 0o111).not.toBe(0);
    expect(readFileSync(join(skillsDir, "code-review/SKILL.md"), "utf8")).toBe(review.toSkillMd({}));
  });

  it("[N-03, N-13] the summary and its suffix are the ones that are shown", () => {
    const withTools = skill({ ...LINTING, tools: [tool("lint_code"), tool("run_tests")] });
    const { text } = promptTemplate({ ns: "review", key: "x", sections: [skillsSection({ skills: [withTools] })] })
      .bind({})
      .render();
    expect(text).toContain("[Skill: linting] Finds faults.");
    expect(text).toContain(
      '---\n[This skill is summarized. Call `open_sections` with key "skills.linting"\nto view full workflow and access tools: lint_code, run_tests.]',
    );
  });

  it("[N-17, N-22] story 6: parameters and a predicate determine the active skills", () => {
    const root = temporaryFolder({ "security/SKILL.md": skillText("security") });
    let isOn = false;
    const of = (language: string) =>
      skill({
        name: `${language}-review`,
        description: `Guidance for ${language}.`,
        title: language,
        key: `${language}-review`,
        template: "Look.",
        enabled: (params: { language: string }) => params.language === language,
      });
    const section = skillsSection({
      skills: [of("python"), of("typescript")],
      skillRefs: [skillRef({ path: join(root, "security"), enabled: () => isOn })],
    });
    const active = (enabledSkills?: string[]) =>
      section.active({ language: "python", enabledSkills }).map(({ name }) => name);
    expect(active()).toEqual(["python-review"]);
    isOn = true;
    expect(active()).toEqual(["python-review", "security"]);
    expect(active(["security"])).toEqual(["security"]);
  });

  it.each([
    ["not_found", "none"],
    ["not_directory", "file"],
    ["missing_skill_md", "empty"],
    ["invalid_frontmatter", "bare"],
  ])("[N-25] a reference is refused with the reason %s", (reason, path) => {
    const root = temporaryFolder({ file: "", "empty/x": "", "bare/SKILL.md": "Text.\n" });
    expect(() => skillRef({ path, basePath: root })).toThrow(
      expect.objectContaining({ reason, path: join(root, path) }),
    );
  });
});

const LINTING = {
  name: "linting",
  description: "Finds faults.",
  title: "Linting",
  key: "linting",
  template: "Use the tool.",
};
