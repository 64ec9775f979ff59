import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { adaptSkill } from "../../../src/remote/clients/adapt-skill.ts";
import { NATIVE_CLIENTS, type NativeClient } from "../../../src/remote/clients/native-clients.ts";
import { parseMarkdownDocument } from "../../../src/skill/document.ts";
import { readYaml, trimBody } from "../../../src/skill/frontmatter.ts";
import { readManifest } from "../../../src/skill/manifest.ts";
import { findNameProblem, type Profile, type Skill, STANDARD_NAME } from "../../../src/skill/skill.ts";
import { checkPath, checkText } from "../../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../../src/skill/source/directory-source.ts";
import { findInvisible } from "../../../src/util/untrusted-text.ts";
import { discoverIn } from "../../support/discover.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { defineTestSkill } from "../../support/skills.ts";

const CLIENTS = Object.entries(NATIVE_CLIENTS);
const client = (name: string) => NATIVE_CLIENTS[name] as NativeClient;
const profileOf = (name: string): Profile =>
  name === "claude" ? "claude-upload" : name === "vscode" ? "vscode" : "agentskills";
const dataOf = async (skill: Skill, name: string) =>
  parseMarkdownDocument((await adaptSkill(skill, client(name))).skillMd).data;
const notesOf = async (skill: Skill, name: string) => (await adaptSkill(skill, client(name))).notes.join("\n");

/** Returns the findings of a profile for a text. */
function against(text: string, name: string): string[] {
  return checkText(text, { profile: profileOf(name) })
    .diagnostics.filter(({ severity }) => severity === "error")
    .map(({ code, message }) => `${code}: ${message}`);
}

/** A skill in a file of a project. */
async function written(frontmatter: string, body = "Do it.", file = "skills/notes/SKILL.md"): Promise<Skill> {
  const scene = await discoverIn({ [file]: `---\n${frontmatter}\n---\n\n${body}\n` });
  return scene.catalog.skills.find(({ origin }) => origin.scope === "workspace") as Skill;
}

describe("adapting a skill to a client", () => {
  const shipped = join(import.meta.dirname, "../../../skills");

  it.each(CLIENTS)("[Q-25] writes every shipped skill so that %s accepts it", async (name) => {
    const source = createDirectorySource({ path: shipped, name: "bundled", scope: "bundled" });
    const { skills } = await source.load();
    expect(skills.length).toBeGreaterThan(5);
    for (const skill of skills) {
      const { skillMd } = await adaptSkill(skill, client(name));
      expect(against(skillMd, name), skill.name).toEqual([]);
      const read = parseMarkdownDocument(skillMd);
      const folder = client(name).skillDir ?? "$SKILL_DIR";
      const explained = client(name).skillDir === undefined && (await skill.body()).includes("$SKILL_DIR");
      const body = explained ? trimBody(read.body).replace(/^.*\n\n/, "") : trimBody(read.body);
      expect(read.body.includes("stands for the folder of this SKILL.md")).toBe(explained);
      expect(body).toBe((await skill.body()).replaceAll("$SKILL_DIR", () => folder));
      expect(read.data["name"]).toBe(skill.name);
      expect(read.data["description"]).toBe(skill.description);
      const { tags, version, triggers, whenToUse, authors } = skill.manifest;
      expect(readManifest(read.data), "keys under metadata still have their effect in skillet").toMatchObject(
        JSON.parse(JSON.stringify({ tags, version, triggers, whenToUse, authors })),
      );
    }
  });

  it("passes `check --profile claude-upload` at its target", async () => {
    const skill = await written(
      "name: notes\ndescription: Takes notes. Use when asked.\nenv: [KEY]\ncapabilities: [a.b]",
    );
    const folder = join(temporaryFolder(), "notes");
    mkdirSync(folder);
    writeFileSync(join(folder, "SKILL.md"), (await adaptSkill(skill, client("claude"))).skillMd);
    const { files } = checkPath(folder, { profile: "claude-upload" });
    expect(files).toMatchObject([{ name: "notes", isValid: true }]);
  });

  const text = fc
    .array(
      fc.oneof(
        fc.string({ unit: "binary", maxLength: 12 }),
        fc.constantFrom(
          "\n---\n",
          "---",
          '"',
          "'",
          ": ",
          " #",
          "\n",
          "- ",
          "| ",
          "\t",
          "…",
          "世界",
          "null",
          "1.0",
          "@",
          "`",
          "%",
          "{",
          "[",
        ),
      ),
      { minLength: 1, maxLength: 12 },
    )
    .map((parts) => parts.join("").trim())
    .filter(
      (value) =>
        value !== "" &&
        value.isWellFormed() &&
        findInvisible(value).length === 0 &&
        !/[<>\r\u2028\u2029\u0085]/.test(value),
    );
  const name = fc.stringMatching(/^[a-z0-9]{1,12}(-[a-z0-9]{1,12}){0,3}$/).filter((value) => !findNameProblem(value));

  it("[Q-25] parses back to the same names, descriptions, instructions and metadata", async () => {
    await fc.assert(
      fc.asyncProperty(
        name,
        text,
        text,
        text,
        fc.constantFrom(...CLIENTS),
        async (own, description, body, value, [, taker]) => {
          const skill = defineTestSkill(own, {
            description,
            body,
            more: { homepage: value, rationale: `${value}: x` },
          });
          fc.pre(!taker.reserved.includes(own) && !/^(?:con|prn|aux|nul|com\d|lpt\d)$/.test(own));
          const read = parseMarkdownDocument((await adaptSkill(skill, taker)).skillMd);
          expect(read.findings).toEqual([]);
          expect(read.data).toEqual({
            name: own,
            description: skill.description,
            metadata: { homepage: value, rationale: `${value}: x` },
          });
          expect(trimBody(read.body)).toBe(await skill.body());
        },
      ),
      { numRuns: 300 },
    );
  });

  it("[Q-25] parses a description with a line of --- in it as one", async () => {
    const description = "One.\n---\nname: other\n---\nTwo: 'three' \"four\" # five";
    const skill = defineTestSkill("notes", { description });
    for (const [one] of CLIENTS) expect(await dataOf(skill, one)).toEqual({ name: "notes", description });
  });

  it("keeps the client's own keys in place, in its spelling, and moves all others under metadata", async () => {
    const skill = await written(
      [
        "name: notes",
        "description: Takes notes. Use when asked.",
        "license: MIT",
        "compatibility: Needs git.",
        "allowed-tools: Read Grep",
        "disable_model_invocation: true",
        "argument-hint: '[file]'",
        "model: opus",
        "env: [KEY]",
        "allowed_tools: [bash]",
        "triggers: { keywords: [note] }",
        "colour: blue",
        "metadata: { version: 1.0.0, tags: [a] }",
      ].join("\n"),
    );
    const standard = {
      name: "notes",
      description: "Takes notes. Use when asked.",
      license: "MIT",
      compatibility: "Needs git.",
      "allowed-tools": "Read Grep",
    };
    const moved = { env: ["KEY"], allowed_tools: ["bash"], triggers: { keywords: ["note"] }, colour: "blue" };
    const before = { version: "1.0.0", tags: ["a"] };
    expect(await dataOf(skill, "claude")).toEqual({
      ...standard,
      "disable-model-invocation": true,
      "argument-hint": "[file]",
      metadata: { ...before, ...moved, model: "opus" },
    });
    expect(await dataOf(skill, "vscode")).toEqual({
      ...standard,
      "disable-model-invocation": true,
      "argument-hint": "[file]",
      metadata: { ...before, ...moved, model: "opus" },
    });
    expect(await dataOf(skill, "codex")).toEqual({
      ...standard,
      metadata: { ...before, ...moved, model: "opus", disable_model_invocation: true, "argument-hint": "[file]" },
    });
    expect(Object.keys(await dataOf(skill, "codex")).slice(0, 2)).toEqual(["name", "description"]);
    expect(readManifest(await dataOf(skill, "codex")).triggers.keywords).toEqual(["note"]);
  });

  it("prefers top-level keys to keys under metadata, as before", async () => {
    const skill = await written("name: notes\ndescription: d\nversion: 2.0.0\nmetadata: { version: 1.0.0 }");
    expect(skill.manifest.version).toBe("2.0.0");
    expect((await dataOf(skill, "codex"))["metadata"]).toEqual({ version: "2.0.0" });
  });

  it("does not apply the model of sub-agents to a conversation", async () => {
    const skill = await written("name: notes\ndescription: d\nmodel: openai/gpt-5");
    expect(await dataOf(skill, "claude")).toEqual({
      name: "notes",
      description: "d",
      metadata: { model: "openai/gpt-5" },
    });
    expect(await notesOf(skill, "claude")).toContain('its model, "openai/gpt-5", is for sub-agents of skillet');
  });

  it("keeps keys named like prototype properties as data", async () => {
    const skill = await written("name: notes\ndescription: d\n__proto__: { polluted: yes }\nconstructor: x");
    const { skillMd } = await adaptSkill(skill, client("codex"));
    const metadata = parseMarkdownDocument(skillMd).data["metadata"] as object;
    expect(Object.keys(metadata)).toEqual(["__proto__", "constructor"]);
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
  });

  it.each([
    ["skills/notes.md", "---\nname: notes\ndescription: d\n---\n\nDo it.\n"],
    ["skills/notes.yaml", "name: notes\ndescription: d\ninstructions: Do it.\n"],
  ])("writes one SKILL.md from %s", async (file, content) => {
    const scene = await discoverIn({ [file]: content });
    expect((await adaptSkill(scene.skill("notes"), client("codex"))).skillMd).toBe(
      "---\nname: notes\ndescription: d\n---\n\nDo it.\n",
    );
  });

  it("writes the skill's name, also if its file has none", async () => {
    const skill = await written("description: d", "Do it.", "skills/diary/SKILL.md");
    expect(await dataOf(skill, "codex")).toEqual({ name: "diary", description: "d" });
  });

  it("refuses only names that cannot be listed or written, with the fix", async () => {
    const refused = expect.objectContaining({ code: "name-format", fix: expect.stringContaining("rename it") });
    await expect(async () => await adaptSkill(defineTestSkill("con"), client("codex"))).rejects.toThrow(refused);
    const skill = await written("name: übersicht\ndescription: d");
    for (const one of ["copilot", "vscode", "agents"])
      await expect(async () => await adaptSkill(skill, client(one)), one).rejects.toThrow(refused);
    for (const one of ["claude", "codex", "gemini", "opencode", "cursor"])
      expect((await dataOf(skill, one))["name"], one).toBe("übersicht");
  });

  it("warns of a name outside the standard, which every client lists", async () => {
    for (const own of ["Upper_Case", "My Notes", "notes.v2", "two--hyphens"]) {
      const skill = await written(`name: ${own}\ndescription: d`);
      expect(STANDARD_NAME.test(own)).toBe(false);
      for (const [one] of CLIENTS) {
        expect((await dataOf(skill, one))["name"]).toBe(own);
        expect(await notesOf(skill, one)).toContain("its name does not follow the standard");
      }
    }
  });

  it("refuses a name that the client reserves", async () => {
    const refused = expect.objectContaining({
      code: "name-reserved",
      message: 'Skill "login" has a name that Claude Code reserves for itself',
      fix: expect.stringContaining("my-login"),
    });
    await expect(async () => await adaptSkill(defineTestSkill("login"), client("claude"))).rejects.toThrow(refused);
    expect((await adaptSkill(defineTestSkill("login"), client("gemini"))).notes).toEqual([]);
    expect(await notesOf(defineTestSkill("code-review"), "claude")).toContain(
      'Claude Code has a built-in skill or command "code-review"',
    );
  });

  /** A description of this many characters that cannot be shortened, or one that can, with a cue at its end. */
  const solid = (length: number) => "x".repeat(length);
  const CUE = "Use when the quarterly report has to be checked.";
  const wordy = (length: number) => {
    const filler = "Reads the tables of a report and compares their sums with the ledger. ";
    return `${filler.repeat(length).slice(0, length - CUE.length - 2)}. ${CUE}`;
  };

  it("accepts descriptions of any length for clients without a limit", async () => {
    const skill = await written(`name: notes\ndescription: ${solid(3000)}`);
    for (const one of ["gemini", "opencode", "cursor"]) {
      expect((await dataOf(skill, one))["description"]).toBe(skill.description);
      expect(await notesOf(skill, one)).toBe("");
    }
  });

  it("refuses a description only for a client that would omit the skill, and only if it cannot be shortened", async () => {
    const skill = await written(`name: notes\ndescription: ${solid(1025)}`);
    for (const [one, title] of [
      ["copilot", "GitHub Copilot CLI"],
      ["vscode", "VS Code"],
    ] as const)
      await expect(async () => await adaptSkill(skill, client(one))).rejects.toThrow(
        expect.objectContaining({
          code: "description-too-long",
          message: `Skill "notes" has a description of 1025 characters; ${title} takes 1024`,
        }),
      );
    expect(
      (await dataOf(await written(`name: notes\ndescription: ${solid(1024)}`), "copilot"))["description"],
    ).toHaveLength(1024);
    expect((await dataOf(skill, "codex"))["description"]).toBe(skill.description);
    expect(await notesOf(skill, "codex")).toBe(
      "it has a description of 1025 characters; Codex takes 1024, and cuts the rest",
    );
  });

  it.each([
    ["copilot", 1024],
    ["agents", 1024],
    ["codex", 1024],
    ["claude", 1536],
  ])("shortens a description for %s to its limit of %i, keeps the cue, and reports that", async (one, limit) => {
    const fits = await written(`name: notes\ndescription: ${wordy(limit)}`);
    expect((await dataOf(fits, one))["description"]).toBe(fits.description);
    expect(await notesOf(fits, one)).toBe("");
    const long = await written(`name: notes\ndescription: ${wordy(limit + 1)}`);
    const text = String((await dataOf(long, one))["description"]);
    expect(text.length).toBeLessThanOrEqual(limit);
    expect(text.length, "only as many sentences as necessary are removed").toBeGreaterThan(limit - 150);
    expect(text).toContain(CUE);
    expect(await notesOf(long, one)).toContain(`a description of ${limit + 1} characters`);
    expect(await notesOf(long, one)).toContain(`it is shortened to ${text.length}`);
  });

  it("appends when_to_use to the description for clients that do not read it, within their limit", async () => {
    const skill = await written(`name: notes\ndescription: Takes notes\nwhen_to_use: ${CUE}`);
    expect(await dataOf(skill, "claude")).toEqual({ name: "notes", description: "Takes notes", when_to_use: CUE });
    expect(await notesOf(skill, "claude")).toBe("");
    for (const [one, { title }] of CLIENTS.filter(([id]) => id !== "claude")) {
      expect(await dataOf(skill, one)).toEqual({ name: "notes", description: `Takes notes. ${CUE}` });
      expect(await notesOf(skill, one)).toBe(
        `${title} ignores when_to_use: it is written at the end of the description`,
      );
    }
    const long = await written(`name: notes\ndescription: ${wordy(1000).replace(CUE, "Done.")}\nwhen-to-use: ${CUE}`);
    const text = String((await dataOf(long, "copilot"))["description"]);
    expect(text.length).toBeLessThanOrEqual(1024);
    expect(text).toContain(CUE);
    expect((await dataOf(long, "gemini"))["description"]).toBe(`${long.description} ${CUE}`);
  });

  it("counts when_to_use for Claude Code, which cuts both together", async () => {
    const skill = await written(`name: notes\ndescription: ${wordy(1500)}\nwhen_to_use: ${solid(40)}`);
    const { description, when_to_use } = await dataOf(skill, "claude");
    expect(`${description} - ${when_to_use}`.length).toBeLessThanOrEqual(1536);
    expect(await notesOf(skill, "claude")).toContain("a description of 1543 characters; Claude Code takes 1536");
  });

  it("lists every key that the client does not read", async () => {
    const skill = await written(
      "name: notes\ndescription: d\npaths: [a]\nuser_invocable: false\nversion: 1.0.0\nwhen_to_use: Use when asked.\ndisable-model-invocation: true",
    );
    expect((await adaptSkill(skill, client("codex"))).lost).toEqual(["paths", "user_invocable", "version"]);
    expect((await adaptSkill(skill, client("cursor"))).lost).toEqual(["user_invocable", "version"]);
    expect((await adaptSkill(skill, client("claude"))).lost).toEqual(["version"]);
    expect(await notesOf(skill, "gemini")).toContain(
      "Gemini CLI ignores disable-model-invocation: a model may choose it there by itself",
    );
    const allowed = await written("name: notes\ndescription: d\nuser-invocable: true\ndisable-model-invocation: false");
    expect(await notesOf(allowed, "codex")).toBe("");
  });

  it("declares in agents/openai.yaml that a model may not select the skill, and keeps the rest of the file", async () => {
    const text = "---\nname: notes\ndescription: d\ndisable-model-invocation: true\n---\n\nDo it.\n";
    const conformed = async (yaml?: string) => {
      const scene = await discoverIn({
        "skills/notes/SKILL.md": text,
        ...(yaml === undefined ? {} : { "skills/notes/agents/openai.yaml": yaml }),
      });
      return await adaptSkill(scene.skill("notes"), client("codex"));
    };
    expect((await conformed()).files).toEqual({
      "agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n",
    });
    const { files } = await conformed(
      "interface:\n  display_name: Notes\npolicy:\n  allow_implicit_invocation: true\n  more: 1\n",
    );
    expect(readYaml(files["agents/openai.yaml"] ?? "", 1).data).toEqual({
      interface: { display_name: "Notes" },
      policy: { allow_implicit_invocation: false, more: 1 },
    });
    expect((await conformed("policy:\n  allow_implicit_invocation: false\n")).files).toEqual({});
    const broken = await conformed("policy: [");
    expect(broken.files).toEqual({});
    expect(broken.notes.join("\n")).toContain("its own agents/openai.yaml cannot be parsed");
    expect((await adaptSkill(defineTestSkill("notes"), client("codex"))).files).toEqual({});
  });

  it("writes a description without angle brackets if uploads refuse them, and reports that", async () => {
    const skill = await written('name: notes\ndescription: "Fills <name> in, if a < b -> c. Use when asked."');
    expect((await dataOf(skill, "claude"))["description"]).toBe("Fills name in, if a ‹ b -› c. Use when asked.");
    expect(against((await adaptSkill(skill, client("claude"))).skillMd, "claude")).toEqual([]);
    expect(await notesOf(skill, "claude")).toContain("angle brackets");
    expect((await dataOf(skill, "codex"))["description"]).toBe(skill.description);
    expect(await notesOf(skill, "codex")).toBe("");
  });

  it("moves values that exceed the standard's limit", async () => {
    const skill = await written(`name: notes\ndescription: d\ncompatibility: ${"y".repeat(501)}`);
    expect(await dataOf(skill, "codex")).toEqual({
      name: "notes",
      description: "d",
      metadata: { compatibility: "y".repeat(501) },
    });
    expect(against((await adaptSkill(skill, client("codex"))).skillMd, "codex")).toEqual([]);
    expect(await notesOf(skill, "codex")).toContain("compatibility is longer than 500 characters");
  });

  it.each([
    ["env: [KEY]", "its variables (KEY) work through `skillet serve`"],
    ["toolsets: ['toolsets/index:Tools']", "its tools work through `skillet serve`"],
    ["capabilities: [a.b, c.d]", "its capabilities (a.b, c.d) work through"],
    ["packages: [jq]", "its packages (jq) work through"],
    ["allowed_tools: [bash]", "Codex ignores allowed_tools"],
    ["disallowed-tools: [Bash]", "Codex ignores disallowed-tools: these tools stay available"],
    ["paths: [src/**]", "Codex ignores paths: it is offered for all files"],
    ["user-invocable: false", "Codex ignores user-invocable: users can call it by its name"],
    ["context: fork", "Codex ignores context: it runs in the conversation itself"],
    ["hooks: { Stop: [] }", "Codex ignores hooks: its hooks do not run"],
    ["allowed-tools: Bash(git:*)", "may call its allowed-tools without asking"],
    ["disable-model-invocation: true", "Codex reads agents/openai.yaml in place of disable-model-invocation"],
    ["sensitive: true", "Codex makes it available to every user"],
    ["default_enabled: false", "in Codex it is enabled"],
  ])("explains the meaning of %s in the client", async (line, said) => {
    const skill = await written(`name: notes\ndescription: d\n${line}`);
    expect(await notesOf(skill, "codex")).toContain(said);
    expect(await notesOf(await written("name: notes\ndescription: d"), "codex")).toBe("");
  });

  it("reports parts of the instructions with another meaning in the client", async () => {
    const body = 'Now: !`date`\n\nRun "$SKILL_DIR/x.sh" for $ARGUMENTS.';
    const skill = await written("name: notes\ndescription: d\nhooks: { Stop: [] }", body);
    const { skillMd, notes } = await adaptSkill(skill, client("codex"));
    expect(skillMd.endsWith(`\n\n${body}\n`)).toBe(true);
    expect(notes).toEqual([
      "Codex ignores hooks: its hooks do not run",
      expect.stringContaining("the commands in !`…` are kept"),
      expect.stringContaining("$SKILL_DIR"),
    ]);
    expect(await notesOf(skill, "claude")).toContain("its hooks are commands that Claude Code runs itself");
  });

  it("uses the client's own variable for the skill's folder if there is one", async () => {
    const body = 'Run "$SKILL_DIR/x.sh", then ${SKILL_DIR}/y.sh; $SKILL_DIRECTORY is another.';
    const skill = await written("name: notes\ndescription: d", body);
    const { skillMd, notes } = await adaptSkill(skill, client("claude"));
    expect(skillMd).toContain(
      'Run "${CLAUDE_SKILL_DIR}/x.sh", then ${CLAUDE_SKILL_DIR}/y.sh; $SKILL_DIRECTORY is another.',
    );
    expect(notes).toEqual([]);
  });

  it("explains $SKILL_DIR if the client sets nothing, in either spelling", async () => {
    const body = 'Run "${CLAUDE_SKILL_DIR}/x.sh", then $SKILL_DIR/y.sh; $CLAUDE_SKILL_DIRECTORY is another.';
    const skill = await written("name: notes\ndescription: d", body);
    for (const [one, { title }] of CLIENTS.filter(([id]) => id !== "claude")) {
      const { skillMd, notes } = await adaptSkill(skill, client(one));
      expect(skillMd).toContain("---\n\nIn these instructions `$SKILL_DIR` stands for the folder of this SKILL.md.");
      expect(skillMd).toContain('Run "$SKILL_DIR/x.sh", then $SKILL_DIR/y.sh; $CLAUDE_SKILL_DIRECTORY is another.');
      expect(notes).toEqual([expect.stringContaining(`${title} sets no variable for the skill's folder`)]);
    }
    expect((await adaptSkill(skill, client("claude"))).skillMd).toContain(
      'Run "${CLAUDE_SKILL_DIR}/x.sh", then ${CLAUDE_SKILL_DIR}/y.sh',
    );
  });
});
