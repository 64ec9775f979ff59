import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NATIVE_CLIENTS, type NativeClient } from "../../src/install/clients.ts";
import { conform } from "../../src/install/conform.ts";
import { findHidden } from "../../src/shared/hidden.ts";
import type { Profile } from "../../src/skill/diagnostic.ts";
import { parseMarkdown } from "../../src/skill/document.ts";
import { trimBody } from "../../src/skill/frame.ts";
import { readManifest } from "../../src/skill/manifest.ts";
import { STANDARD_NAME, unusableName } from "../../src/skill/name.ts";
import type { Skill } from "../../src/skill/skill.ts";
import { checkPath, checkText } from "../../src/source/check.ts";
import { directorySource } from "../../src/source/directory.ts";
import { discoverIn } from "../support/discover.ts";
import { temporaryFolder } from "../support/folder.ts";
import { sketch } from "../support/skills.ts";

const CLIENTS = Object.entries(NATIVE_CLIENTS);
const client = (name: string) => NATIVE_CLIENTS[name] as NativeClient;
const profileOf = (name: string): Profile =>
  name === "claude" ? "claude-upload" : name === "vscode" ? "vscode" : "agentskills";
const dataOf = (skill: Skill, name: string) => parseMarkdown(conform(skill, client(name)).skillMd).data;
const notesOf = (skill: Skill, name: string) => conform(skill, client(name)).notes.join("\n");

/** What a profile has against a text. */
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

describe("conform", () => {
  const shipped = join(import.meta.dirname, "..", "..", "skills");

  it.each(CLIENTS)("[Q-25] writes every shipped skill so that %s takes it", async (name) => {
    const source = directorySource({ path: shipped, name: "bundled", scope: "bundled" });
    const { skills } = await source.load();
    expect(skills.length).toBeGreaterThan(5);
    for (const skill of skills) {
      const { skillMd } = conform(skill, client(name));
      expect(against(skillMd, name), skill.name).toEqual([]);
      const read = parseMarkdown(skillMd);
      const folder = client(name).skillDir ?? "$SKILL_DIR";
      expect(trimBody(read.body)).toBe(skill.body().replaceAll("$SKILL_DIR", () => folder));
      expect(read.data["name"]).toBe(skill.name);
      expect(read.data["description"]).toBe(skill.description);
      const { tags, version, triggers, whenToUse, authors } = skill.manifest;
      expect(readManifest(read.data), "what skillet reads under metadata it reads still").toMatchObject(
        JSON.parse(JSON.stringify({ tags, version, triggers, whenToUse, authors })),
      );
    }
  });

  it("passes `check --profile claude-upload` where it is put", async () => {
    const skill = await written(
      "name: notes\ndescription: Takes notes. Use when asked.\nenv: [KEY]\ncapabilities: [a.b]",
    );
    const folder = join(temporaryFolder(), "notes");
    mkdirSync(folder);
    writeFileSync(join(folder, "SKILL.md"), conform(skill, client("claude")).skillMd);
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
        findHidden(value).length === 0 &&
        !/[<>\r\u2028\u2029\u0085]/.test(value),
    );
  const name = fc.stringMatching(/^[a-z0-9]{1,12}(-[a-z0-9]{1,12}){0,3}$/).filter((value) => !unusableName(value));

  it("[Q-25] is read back as it was: names, descriptions, instructions and what went under metadata", () => {
    fc.assert(
      fc.property(name, text, text, text, fc.constantFrom(...CLIENTS), (own, description, body, value, [, taker]) => {
        const skill = sketch(own, { description, body, more: { homepage: value, rationale: `${value}: x` } });
        fc.pre(!taker.reserved.includes(own) && !/^(?:con|prn|aux|nul|com\d|lpt\d)$/.test(own));
        const read = parseMarkdown(conform(skill, taker).skillMd);
        expect(read.findings).toEqual([]);
        expect(read.data).toEqual({
          name: own,
          description: skill.description,
          metadata: { homepage: value, rationale: `${value}: x` },
        });
        expect(trimBody(read.body)).toBe(skill.body());
      }),
      { numRuns: 300 },
    );
  });

  it("[Q-25] reads a description with a line of --- in it as one", async () => {
    const description = "One.\n---\nname: other\n---\nTwo: 'three' \"four\" # five";
    const skill = sketch("notes", { description });
    for (const [one] of CLIENTS) expect(dataOf(skill, one)).toEqual({ name: "notes", description });
  });

  it("keeps the client's own keys where they are, in its spelling, and puts all others under metadata", async () => {
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
    expect(dataOf(skill, "claude")).toEqual({
      ...standard,
      "disable-model-invocation": true,
      "argument-hint": "[file]",
      metadata: { ...before, ...moved, model: "opus" },
    });
    expect(dataOf(skill, "vscode")).toEqual({
      ...standard,
      "disable-model-invocation": true,
      "argument-hint": "[file]",
      metadata: { ...before, ...moved, model: "opus" },
    });
    expect(dataOf(skill, "codex")).toEqual({
      ...standard,
      metadata: { ...before, ...moved, model: "opus", disable_model_invocation: true, "argument-hint": "[file]" },
    });
    expect(Object.keys(dataOf(skill, "codex")).slice(0, 2)).toEqual(["name", "description"]);
    expect(readManifest(dataOf(skill, "codex")).triggers.keywords).toEqual(["note"]);
  });

  it("lets what stood at the top count before what stood under metadata, as it did", async () => {
    const skill = await written("name: notes\ndescription: d\nversion: 2.0.0\nmetadata: { version: 1.0.0 }");
    expect(skill.manifest.version).toBe("2.0.0");
    expect(dataOf(skill, "codex")["metadata"]).toEqual({ version: "2.0.0" });
  });

  it("keeps the model of sub-agents away from a conversation", async () => {
    const skill = await written("name: notes\ndescription: d\nmodel: openai/gpt-5");
    expect(dataOf(skill, "claude")).toEqual({ name: "notes", description: "d", metadata: { model: "openai/gpt-5" } });
    expect(notesOf(skill, "claude")).toContain('its model, "openai/gpt-5", is for sub-agents of skillet');
  });

  it("keeps keys that reach for a prototype as data", async () => {
    const skill = await written("name: notes\ndescription: d\n__proto__: { polluted: yes }\nconstructor: x");
    const { skillMd } = conform(skill, client("codex"));
    const metadata = parseMarkdown(skillMd).data["metadata"] as object;
    expect(Object.keys(metadata)).toEqual(["__proto__", "constructor"]);
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
  });

  it.each([
    ["skills/notes.md", "---\nname: notes\ndescription: d\n---\n\nDo it.\n"],
    ["skills/notes.yaml", "name: notes\ndescription: d\ninstructions: Do it.\n"],
  ])("makes one SKILL.md of %s", async (file, content) => {
    const scene = await discoverIn({ [file]: content });
    expect(conform(scene.skill("notes"), client("codex")).skillMd).toBe(
      "---\nname: notes\ndescription: d\n---\n\nDo it.\n",
    );
  });

  it("writes the name that the skill has, also where its file says none", async () => {
    const skill = await written("description: d", "Do it.", "skills/diary/SKILL.md");
    expect(dataOf(skill, "codex")).toEqual({ name: "diary", description: "d" });
  });

  it("refuses a name that a client cannot take, and says what to do", async () => {
    for (const [own, code] of [
      ["My Notes", "name-format"],
      ["notes_2", "name-format"],
      ["con", "name-format"],
    ]) {
      const skill = await written(`name: ${own}\ndescription: d`);
      expect(STANDARD_NAME.test(own ?? "") && own !== "con").toBe(false);
      expect(() => conform(skill, client("codex")), own).toThrow(
        expect.objectContaining({ code, fix: expect.stringContaining("rename it") }),
      );
    }
  });

  it("refuses a name that the client has for something of its own", () => {
    const refused = expect.objectContaining({
      code: "name-reserved",
      message: 'Skill "login" has a name that Claude Code has for something of its own',
      fix: expect.stringContaining("my-login"),
    });
    expect(() => conform(sketch("login"), client("claude"))).toThrow(refused);
    expect(conform(sketch("login"), client("gemini")).notes).toEqual([]);
    expect(notesOf(sketch("code-review"), "claude")).toContain('Claude Code comes with "code-review" of its own');
  });

  it("refuses a description that is too long, and no shorter one", async () => {
    const skill = await written(`name: notes\ndescription: ${"x".repeat(1025)}`);
    expect(() => conform(skill, client("gemini"))).toThrow(
      expect.objectContaining({ code: "description-too-long", message: expect.stringContaining("1025 characters") }),
    );
    expect(
      against(
        conform(await written(`name: notes\ndescription: ${"x".repeat(1024)}`), client("gemini")).skillMd,
        "gemini",
      ),
    ).toEqual([]);
  });

  it("writes a description without angle brackets where uploads refuse them, and says so", async () => {
    const skill = await written('name: notes\ndescription: "Fills <name> in, if a < b -> c. Use when asked."');
    expect(dataOf(skill, "claude")["description"]).toBe("Fills name in, if a ‹ b -› c. Use when asked.");
    expect(against(conform(skill, client("claude")).skillMd, "claude")).toEqual([]);
    expect(notesOf(skill, "claude")).toContain("angle brackets");
    expect(dataOf(skill, "codex")["description"]).toBe(skill.description);
    expect(notesOf(skill, "codex")).toBe("");
  });

  it("moves what is longer than the standard lets it be", async () => {
    const skill = await written(`name: notes\ndescription: d\ncompatibility: ${"y".repeat(501)}`);
    expect(dataOf(skill, "codex")).toEqual({
      name: "notes",
      description: "d",
      metadata: { compatibility: "y".repeat(501) },
    });
    expect(against(conform(skill, client("codex")).skillMd, "codex")).toEqual([]);
    expect(notesOf(skill, "codex")).toContain("compatibility is longer than 500 characters");
  });

  it.each([
    ["env: [KEY]", "its variables (KEY) work through `skillet serve`"],
    ["toolsets: ['toolsets/index:Tools']", "its tools work through `skillet serve`"],
    ["capabilities: [a.b, c.d]", "its capabilities (a.b, c.d) work through"],
    ["packages: [jq]", "its packages (jq) work through"],
    ["allowed_tools: [bash]", "Codex does not heed allowed_tools"],
    ["disallowed-tools: [Bash]", "Codex does not heed disallowed-tools"],
    ["allowed-tools: Bash(git:*)", "may be called there without asking"],
    ["disable-model-invocation: true", "a model may choose it there by itself"],
    ["sensitive: true", "Codex gives it to everybody"],
    ["default_enabled: false", "in Codex it is on"],
  ])("says what %s means there", async (line, said) => {
    const skill = await written(`name: notes\ndescription: d\n${line}`);
    expect(notesOf(skill, "codex")).toContain(said);
    expect(notesOf(await written("name: notes\ndescription: d"), "codex")).toBe("");
  });

  it("says what in the instructions means something else there, and leaves it as it is", async () => {
    const body = 'Now: !`date`\n\nRun "$SKILL_DIR/x.sh" for $ARGUMENTS.';
    const skill = await written("name: notes\ndescription: d\nhooks: { Stop: [] }", body);
    const { skillMd, notes } = conform(skill, client("codex"));
    expect(skillMd.endsWith(`\n\n${body}\n`)).toBe(true);
    expect(notes).toEqual([
      expect.stringContaining("the commands in !`…` stand as they are"),
      expect.stringContaining("$SKILL_DIR"),
    ]);
    expect(notesOf(skill, "claude")).toContain("its hooks are commands that Claude Code runs by itself");
  });

  it("names the skill's folder as the client fills it in, where it does", async () => {
    const body = 'Run "$SKILL_DIR/x.sh", then ${SKILL_DIR}/y.sh; $SKILL_DIRECTORY is another.';
    const skill = await written("name: notes\ndescription: d", body);
    const { skillMd, notes } = conform(skill, client("claude"));
    expect(skillMd).toContain(
      'Run "${CLAUDE_SKILL_DIR}/x.sh", then ${CLAUDE_SKILL_DIR}/y.sh; $SKILL_DIRECTORY is another.',
    );
    expect(notes).toEqual([]);
  });
});
