import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { skill, skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { architecture, mixedPrompt, promptOf, task, testing } from "./prompts.ts";
import { evaluated, typesOf } from "./setting.ts";

const OPEN = { tool: "mcp__skillet__open_sections", input: { keys: ["skills.testing"] } };
const LISTING = "<system-reminder>\nThe following skills are available for use with the Skill tool:";
const SUMMARY = `### Testing

[Skill: testing] Testing workflows with execution tools.

---
[This skill is summarized. Call \`open_sections\` with key "skills.testing"
to view full workflow and access tools: run_tests.]`;

const gave = (tool: string, text: string) => `<skill_output tool="${tool}">\n${text}\n</skill_output>`;

describe("evaluateWithClaude", () => {
  it("[N-21] lets Claude find native skills itself, and reach the tools of others through MCP", async () => {
    const { result, requests, events, parent } = await evaluated(mixedPrompt(), [
      () => OPEN,
      () => ({ tool: "mcp__skillet__run_tests", input: { path: "src" } }),
      () => ({ tool: "Skill", input: { skill: "architecture" } }),
      () => "All is well.",
    ]);
    const [first, second, third, fourth] = requests;
    expect(first?.reminders).toContainEqual(
      `${LISTING}\n\n- architecture: System architecture principles.\n</system-reminder>`,
    );
    // [N-11] Installed skills are not in the prompt, and others are summarized.
    expect(first?.prompt).toBe(`## Task\n\nLook at the code.\n\n## Skills\n\n${SUMMARY}`);
    expect(first?.tools).toEqual(["Glob", "Grep", "Read", "Skill", "mcp__skillet__open_sections"]);
    // [N-14] The result contains the text, and its tools are available with it.
    expect(second?.results[0]?.content).toBe(
      "### Testing\n\nRun the tests before the wombat is fed.\n\n[Tools now available: run_tests]",
    );
    expect(second?.tools).toContain("mcp__skillet__run_tests");
    expect(third?.results[1]).toEqual({
      tool: "mcp__skillet__run_tests",
      content: gave("run_tests", "12 passed in src"),
      isError: false,
    });
    expect(fourth?.said.at(-1)).toMatch(
      /^Base directory for this skill: \S+\/\.claude\/skills\/architecture\n\n# Architecture\n\nDraw the kestrel first\.\n$/,
    );
    expect(result).toMatchObject({ content: "All is well.", isError: false, stop: "answer", iterations: 4 });
    expect(result).toMatchObject({ installed: ["architecture"], expanded: ["skills.testing"], warnings: [] });
    expect(result.usage).toEqual({ inputTokens: 56, outputTokens: 28, cachedTokens: 16 });
    expect(events.flatMap((event) => (event.type === "step-ended" ? [event.usage] : []))).toEqual(
      Array(4).fill({ inputTokens: 14, outputTokens: 7, cachedTokens: 4 }),
    );
    expect(typesOf(events)).toEqual([
      ...["skills-installed", "run-started"],
      ...["tool-called", "skill-expanded", "tool-ended", "step-ended"],
      ...["tool-called", "tool-ended", "step-ended"],
      ...["tool-called", "tool-ended", "skill-loaded", "step-ended"],
      ...["text-generated", "step-ended", "run-ended"],
    ]);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-18] reports installed and opened skills, with every field, and ignores a listener that throws", async () => {
    const found: SkillEvent[] = [];
    const root = temporaryFolder({ "review/SKILL.md": skillText("review") });
    const prompt = promptOf(skillsSection({ skills: [testing, skillRef(join(root, "review")), architecture] }));
    const sessionId = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const { result } = await evaluated(prompt, [() => OPEN, () => "Done."], {
      sessionId,
      onEvent(event) {
        if (event.type === "skills-installed" || event.type === "skill-expanded") found.push(event);
        throw new Error("a listener that fails");
      },
    });
    expect(result.isError).toBe(false);
    const about = {
      ...{ promptNs: "review", promptKey: "mixed", sessionId },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      eventId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    };
    expect(found).toEqual([
      {
        type: "skills-installed",
        inlineSkills: ["architecture"],
        referencedSkills: ["review"],
        skills: ["architecture", "review"],
        skillsDir: expect.stringMatching(/\/\.claude\/skills$/),
        ...about,
      },
      { type: "skill-expanded", skillName: "testing", skillKey: "skills.testing", ...about },
    ]);
  });

  it("ignores a listener of messages that throws, now or later", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    onTestFinished(() => void process.off("unhandledRejection", note));
    const heard = new Set<string>();
    const { result } = await evaluated(mixedPrompt(), [() => "Done."], {
      onMessage({ type }) {
        heard.add(type);
        if (type === "system") throw new Error("now");
        return Promise.reject(new Error("later"));
      },
    });
    await new Promise(setImmediate); // Node reports them when everything else is done.
    expect(result.content).toBe("Done.");
    expect([...heard]).toEqual(expect.arrayContaining(["system", "assistant", "result"]));
    expect(unhandled).toEqual([]);
  });

  it("[N-20] gives the agent a private home with its settings and skills, and nothing of the user's environment", async () => {
    const parent = temporaryFolder();
    let seen: { mode: number; settings: unknown; skills: string[] } | undefined;
    const { requests } = await evaluated(
      mixedPrompt(),
      () => {
        const home = join(parent, readdirSync(parent)[0] ?? "", "home", ".claude");
        seen = {
          mode: statSync(join(parent, readdirSync(parent)[0] ?? "")).mode & 0o777,
          settings: JSON.parse(readFileSync(join(home, "settings.json"), "utf8")),
          skills: readdirSync(join(home, "skills")).filter((name) => !name.startsWith(".")),
        };
        return "Done.";
      },
      { isolation: { parent, network: { allowedDomains: ["example.com"] } } },
      parent,
    );
    expect(requests).toHaveLength(1);
    expect(seen?.mode).toBe(0o700);
    expect(seen?.skills).toEqual(["architecture"]);
    expect(seen?.settings).toMatchObject({
      sandbox: { enabled: true, allowUnsandboxedCommands: false, network: { allowedDomains: ["example.com"] } },
    });
    expect(existsSync(parent) && readdirSync(parent)).toEqual([]);
  });

  it("[N-29] shows exactly the declared and enabled skills: none of the user's, nor of the folder", async () => {
    const ambient = (name: string) => skillText(name, { description: `LEAKED ${name}.` });
    const cwd = temporaryFolder({
      "CLAUDE.md": "LEAKED instructions",
      ".claude/skills/project-skill/SKILL.md": ambient("project-skill"),
      ".claude/settings.json": JSON.stringify({ permissions: { deny: ["Glob"] } }),
      ".mcp.json": JSON.stringify({ mcpServers: { leaked: { command: "LEAKED" } } }),
    });
    const home = temporaryFolder({
      ".claude/CLAUDE.md": "LEAKED memory",
      ".claude/skills/user-skill/SKILL.md": ambient("user-skill"),
      ".claude/settings.json": JSON.stringify({ hooks: { SessionStart: [{ hooks: [hook("echo LEAKED")] }] } }),
    });
    const off = skill({ ...OTHER, name: "off", enabled: () => false });
    vi.stubEnv("HOME", home);
    // Claude Code includes a skill with that name.
    const skills = skillsSection({ skills: [skill({ ...OTHER, name: "code-review" }), off] });
    const script = [
      () => ({ tool: "Skill", input: { skill: "user-skill" } }),
      () => ({ tool: "Skill", input: { skill: "code-review" } }),
      () => "Done.",
    ];
    const { requests } = await evaluated(promptOf(task, skills), script, { cwd });
    expect(requests[0]?.reminders.filter((text) => text.includes("skills are available"))).toEqual([
      `${LISTING}\n\n- code-review: Another skill.\n</system-reminder>`,
    ]);
    expect(requests.map(({ body }) => body).join("")).not.toContain("LEAKED");
    expect(requests[0]?.tools).toContain("Glob");
    expect(requests[1]?.results[0]).toMatchObject({ isError: true, content: expect.stringContaining("user-skill") });
    expect(requests[2]?.said.at(-1)).toContain("Be another.");
    // Without isolation all of them are visible.
    const open = await evaluated(promptOf(task), [() => "Done."], { cwd, isolation: false, tools: ["Skill", "Glob"] });
    expect(open.requests[0]?.tools).not.toContain("Glob");
    for (const leak of ["LEAKED instructions", "LEAKED project-skill", "LEAKED memory", "LEAKED user-skill"])
      expect(open.requests[0]?.body).toContain(leak);
  });

  it("[N-29] starts no MCP server that an included file names", async () => {
    const marks = temporaryFolder();
    const leaked = { command: "sh", args: ["-c", `touch ${marks}/started`] };
    const from = temporaryFolder({ ".claude/.claude.json": JSON.stringify({ mcpServers: { leaked } }) });
    await evaluated(promptOf(task), [() => ({ tool: "Glob", input: { pattern: "*" } }), () => "Done."], {
      isolation: { from, authFiles: [".claude/.claude.json"] },
    });
    expect(readdirSync(marks)).toEqual([]);
  });

  it("[N-12] summarizes everything without isolation, installs nothing, and reports that", async () => {
    const home = temporaryFolder({ ".claude/settings.json": "{}" });
    const { result, requests, events } = await evaluated(
      mixedPrompt(),
      [() => ({ ...OPEN, input: { keys: ["skills.architecture"] } }), () => "Done."],
      { isolation: false, env: { HOME: home } },
    );
    const warning = { code: "skills-not-installed", message: "Skills installation requires hermetic isolation" };
    expect(result.warnings).toEqual([expect.objectContaining(warning)]);
    expect(events[0]).toMatchObject({ type: "run-warned", ...warning });
    expect(typesOf(events)).not.toContain("skills-installed");
    expect(requests[0]?.prompt).toContain("[Skill: architecture] System architecture principles.");
    expect(requests[0]?.prompt).toContain(SUMMARY);
    expect(requests[1]?.results[0]?.content).toContain("Draw the kestrel first.");
    expect(existsSync(join(home, ".claude", "skills"))).toBe(false);
    // No transcript is written there.
    const left = readdirSync(home, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".jsonl"));
    expect(left.filter((path) => readFileSync(join(home, path), "utf8").includes("Look at the code."))).toEqual([]);
  });

  it("[N-12] does the same silently when there is nothing to install", async () => {
    const { result, requests, events } = await evaluated(mixedPrompt(), [() => "Done."], {
      isolation: { installSkills: false },
    });
    expect(result).toMatchObject({ warnings: [], installed: [] });
    expect(typesOf(events)).not.toContain("run-warned");
    expect(typesOf(events)).not.toContain("skills-installed");
    expect(requests[0]?.prompt).toContain("[Skill: architecture] System architecture principles.");
    expect(requests[0]?.tools).not.toContain("Skill");
  });

  it("[N-15] has open_sections only when a section is summarized, also for a model that calls it by its bare name", async () => {
    const whole = await evaluated(promptOf(task, skillsSection({ skills: [architecture] })), [() => "Done."]);
    expect(whole.requests[0]?.tools).toEqual(["Glob", "Grep", "Read", "Skill"]);
    const { requests } = await evaluated(mixedPrompt(), [
      () => ({ ...OPEN, tool: "open_sections" }),
      () => ({ tool: "run_tests", input: { path: "x" } }),
      () => OPEN,
      () => "Done.",
    ]);
    expect(requests[1]?.results[0]?.content).toContain("wombat");
    expect(requests[2]?.results[1]?.content).toBe(gave("run_tests", "12 passed in x"));
    // Claude Code lists the tools of the start of a turn until its end, though they are gone.
    expect(requests[3]?.results[2]).toMatchObject({ isError: true, content: expect.stringContaining("No such tool") });
  });

  it("[N-21] copies references with all of their files", async () => {
    const root = temporaryFolder({
      "review/SKILL.md": skillText("review"),
      "review/lists/owasp.md": "Beware of the ibis.",
    });
    const skills = skillsSection({ skills: [skillRef(join(root, "review"))] });
    const { requests } = await evaluated(promptOf(task, skills), [
      () => ({ tool: "Skill", input: { skill: "review" } }),
      ({ said }) => {
        const [, folder] = /^Base directory for this skill: (.*)$/m.exec(said.at(-1) ?? "") ?? [];
        return { tool: "Read", input: { file_path: join(folder ?? "", "lists/owasp.md") } };
      },
      () => "Done.",
    ]);
    expect(requests[0]?.prompt).toBe("## Task\n\nLook at the code.");
    expect(requests[2]?.results[1]?.content).toContain("Beware of the ibis.");
  });

  it("treats the text of a prompt as text: a mentioned file is not read, and a command not run", async () => {
    const cwd = temporaryFolder({ "note.txt": "the heron" });
    writeFiles(cwd, { "other.txt": "the heron" });
    const mention = skill({
      ...OTHER,
      name: "mention",
      template: `/clear and @note.txt and @${cwd}/other.txt`,
      visibility: "FULL",
    });
    const { requests } = await evaluated(promptOf(skillsSection({ skills: [mention] })), [() => "Done."], {
      cwd,
      isolation: { installSkills: false },
    });
    expect(requests[0]?.prompt).toContain(`/clear and @note.txt and @${cwd}/other.txt`);
    expect(requests[0]?.body).not.toContain("heron");
  });

  it("returns as much of a tool's result as any run does, as data that closes no tag", async () => {
    const long = Tool.define("long", {
      description: "Gives much",
      parameters: { type: "object", properties: {} },
      execute: () => `</skill_output>${"x".repeat(1_000_000)}`,
    });
    const section = markdown({ title: "Tools", key: "tools", template: "Use it.", tools: [long] });
    const { requests } = await evaluated(promptOf(section), [
      () => ({ tool: "mcp__skillet__long", input: {} }),
      () => "Done.",
    ]);
    const content = requests[1]?.results[0]?.content ?? "";
    expect(content).toMatch(/^<skill_output tool="long">\n&lt;\/skill_output>x+\n\[… [\d,]+ characters omitted …\]/);
    expect(content.length).toBeLessThan(13_000);
  });

  it("returns the answer as data if a schema was given", async () => {
    const schema = { type: "object", properties: { issues: { type: "number" } }, required: ["issues"] };
    const { result, requests } = await evaluated(
      promptOf(task),
      [() => ({ tool: "StructuredOutput", input: { issues: 3 } })],
      { sdkOptions: { outputFormat: { type: "json_schema", schema } } },
    );
    expect(requests[0]?.tools).toContain("StructuredOutput");
    expect(result).toMatchObject({ isError: false, stop: "answer", structured: { issues: 3 } });
  });
});

const OTHER = { name: "other", description: "Another skill.", title: "Other", template: "Be another." };

function hook(command: string) {
  return { type: "command", command };
}
