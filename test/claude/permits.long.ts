import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { skill, skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { architecture, promptOf, task } from "./prompts.ts";
import { evaluated } from "./setting.ts";

/** A prompt with a skill on disk with this frontmatter. */
function promptWith(head: string) {
  const root = temporaryFolder({ "docs/SKILL.md": skillText("docs", { more: `${head}\n` }) });
  const skills = [skillRef(join(root, "docs")), architecture] as const;
  return promptOf(task, skillsSection({ skills }));
}
const CALL = { tool: "Skill", input: { skill: "docs" } };

describe("permissions of Claude", () => {
  it("restrict a skill to its allowed_tools, until another is called", async () => {
    const cwd = temporaryFolder({ "a.txt": "the auk" });
    const read = { tool: "Read", input: { file_path: join(cwd, "a.txt") } };
    const { requests, events } = await evaluated(
      promptWith("allowed_tools: [Grep]"),
      [
        () => read,
        () => CALL,
        () => read,
        () => ({ tool: "Grep", input: { pattern: "auk", path: cwd } }),
        () => ({ tool: "Skill", input: { skill: "architecture" } }),
        () => read,
        () => "Done.",
      ],
      { cwd },
    );
    const results = requests.at(-1)?.results ?? [];
    expect(results.map(({ isError }) => isError)).toEqual([false, false, true, false, false, false]);
    expect(results[2]?.content).toContain("Tool 'Read' is not allowed for skill 'docs' with this input");
    expect(results[2]?.content).toContain("it may use: Grep");
    expect(events.find(({ type }) => type === "tool-blocked")).toMatchObject({ tool: "Read", code: "tool-blocked" });
  });

  it("let a skill do what its allowed-tools say without approval, but never with missing tools", async () => {
    const cwd = temporaryFolder();
    const write = (name: string) => ({ tool: "Write", input: { file_path: join(cwd, name), content: "x" } });
    const { requests } = await evaluated(
      promptWith("allowed-tools: Write(docs/**) Bash"),
      [
        () => write("docs/a.md"),
        () => CALL,
        () => write("docs/a.md"),
        () => write("b.md"),
        () => ({ tool: "Bash", input: { command: "touch c.md" } }),
        () => "Done.",
      ],
      { cwd, tools: ["Read", "Write"] },
    );
    const results = requests.at(-1)?.results ?? [];
    expect(results.map(({ isError }) => isError)).toEqual([true, false, false, true, true]);
    expect(results[0]?.content).toContain("was not approved");
    expect(results[0]?.content).toContain("no approver is available");
    expect(readdirSync(cwd)).toEqual(["docs"]);
  });

  it("need approval for other calls, which then run", async () => {
    const cwd = temporaryFolder();
    const asked: ApprovalRequest[] = [];
    const write = (name: string) => ({ tool: "Write", input: { file_path: join(cwd, name), content: "x" } });
    const { requests, events } = await evaluated(
      promptOf(task),
      [
        () => write("a.md"),
        () => write("b.md"),
        () => ({ tool: "Read", input: { file_path: "/etc/hostname" } }),
        () => "Done.",
      ],
      {
        ...{ cwd, tools: ["Read", "Write"] },
        async approve(effect) {
          asked.push(effect);
          return { isApproved: effect.tool === "Write", reason: "not that one" };
        },
      },
    );
    // An approval of the folder holds for the run.
    expect(asked.map(({ tool, on, what }) => ({ tool, on, what }))).toEqual([
      { tool: "Write", on: "workspace", what: "a.md" },
      { tool: "Read", on: "outside", what: "/etc/hostname" },
    ]);
    const results = requests.at(-1)?.results ?? [];
    expect(results.map(({ isError }) => isError)).toEqual([false, false, true]);
    expect(results[2]?.content).toContain("Reason: not that one");
    expect(readdirSync(cwd).sort()).toEqual(["a.md", "b.md"]);
    expect(events.filter(({ type }) => type.startsWith("approval-"))).toHaveLength(4);
  });

  it("allow nothing that could not be checked", async () => {
    const cwd = temporaryFolder();
    const { requests } = await evaluated(
      promptOf(task),
      [
        () => ({ tool: "Write", input: { file_path: join(cwd, "a.md"), content: "x" } }),
        () => ({ tool: "Glob", input: { pattern: "../*" } }), // Claude Code itself would allow it.
        () => "Done.",
      ],
      {
        ...{ cwd, tools: ["Write", "Glob"], approve: async () => ({ isApproved: true }) },
        approvals: {
          async isAlwaysApproved() {
            throw new Error("the disk is gone");
          },
          ...{ async add() {}, list: async () => [], forget: async () => 0, problem: async () => undefined },
        },
      },
    );
    expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([true, true]);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("need approval for a destructive tool of the prompt, and for no other", async () => {
    const sent: string[] = [];
    const send = Tool.define("send", {
      description: "Sends mail",
      parameters: { type: "object", properties: { to: { type: "string" } } },
      effect: ({ to }) => ({ on: "outside", what: `mail to ${to}` }),
      execute: ({ to }: { to: string }) => {
        sent.push(to);
        return "sent";
      },
    });
    const mail = skill({
      name: "mail",
      description: "Mail.",
      title: "Mail",
      template: "Send it.",
      visibility: "FULL",
      tools: [send],
    });
    const { requests } = await evaluated(
      promptOf(skillsSection({ skills: [mail] })),
      [
        () => ({ tool: "mcp__skillet__send", input: { to: "ada" } }),
        () => ({ tool: "mcp__skillet__send", input: { to: "bob" } }),
        () => "Done.",
      ],
      { approve: async ({ what }) => ({ isApproved: what === "mail to ada" }) },
    );
    expect(sent).toEqual(["ada"]);
    expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([false, true]);
  });

  it("distinguish Claude's tools from the prompt's with the same name, and accept names that Claude cannot have", async () => {
    const cwd = temporaryFolder();
    const tools = ["Write", "Bash", "Skill", "web.search"].map((name) =>
      Tool.define(name, {
        description: "Of the prompt",
        parameters: { type: "object", properties: {} },
        execute: () => `the prompt's ${name}`,
      }),
    );
    const section = markdown({ title: "Tools", key: "tools", template: "Use them.", tools });
    const { requests, events } = await evaluated(
      promptOf(section),
      [
        () => ({ tool: "Write", input: { file_path: join(cwd, "a.md"), content: "x" } }),
        () => ({ tool: "mcp__skillet__Write", input: {} }),
        () => ({ tool: "mcp__skillet__web__search", input: {} }),
        () => ({ tool: "Bash", input: { command: `touch ${join(cwd, "b.md")}` } }), // Claude's own tool is missing.
        () => ({ tool: "mcp__skillet__Skill", input: {} }),
        () => "Done.",
      ],
      { cwd, tools: ["Write"] },
    );
    const results = requests.at(-1)?.results ?? [];
    expect(results[0]).toMatchObject({ isError: true, content: expect.stringContaining("was not approved") });
    expect(readdirSync(cwd)).toEqual([]);
    expect(results.slice(1).map(({ content }) => content)).toEqual(
      ["Write", "web.search", "Bash", "Skill"].map(
        (name) => `<skill_output tool="${name}">\nthe prompt's ${name}\n</skill_output>`,
      ),
    );
    const called = events.flatMap((event) => (event.type === "tool-called" ? [event.tool] : []));
    expect(called).toEqual(["Write", "Write", "web.search", "Bash", "Skill"]);
  });

  it("allow reading files below the folder, also through a link that stays below it", async () => {
    const outside = temporaryFolder({ "secret.txt": "the shrike" });
    const cwd = temporaryFolder({ "a.txt": "the auk" });
    symlinkSync(join(outside, "secret.txt"), join(cwd, "link.txt"));
    const { requests } = await evaluated(
      promptOf(task),
      [
        () => ({ tool: "Read", input: { file_path: join(cwd, "a.txt") } }),
        () => ({ tool: "Read", input: { file_path: join(cwd, "link.txt") } }),
        () => ({ tool: "Glob", input: { pattern: `${outside}/*.txt` } }),
        () => ({ tool: "Glob", input: { pattern: "../*/secret.txt" } }),
        () => ({ tool: "Grep", input: { pattern: "shrike", path: outside } }),
        () => ({ tool: "Grep", input: { pattern: "the", path: ` ${outside}`, output_mode: "content" } }),
        () => ({ tool: "Glob", input: { pattern: "*.txt", path: `\u00a0${outside}` } }),
        () => "Done.",
      ],
      { cwd },
    );
    expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([false, ...Array(6).fill(true)]);
    expect(requests.at(-1)?.body).not.toContain("the shrike");
  });

  it("[N-20] include only the named files, and let the agent read none of them", async () => {
    const from = temporaryFolder({ ".claude/token.json": "the bittern", ".claude/other.json": "the dunlin" });
    const parent = temporaryFolder();
    const at = (name: string) => join(parent, readdirSync(parent)[0] ?? "", "home/.claude", name);
    let files: string[] = [];
    const { requests } = await evaluated(
      promptOf(task),
      [
        () => {
          files = readdirSync(at("")).filter((name) => name.endsWith(".json"));
          expect(readFileSync(at("token.json"), "utf8")).toBe("the bittern");
          return { tool: "Read", input: { file_path: at("token.json") } };
        },
        ...(hasSandbox() ? [() => node(`console.log(require("fs").readFileSync("${at("token.json")}","utf8"))`)] : []),
        () => "Done.",
      ],
      {
        isolation: { parent, from, authFiles: [".claude/token.json"] },
        ...{ tools: hasSandbox() ? ["Read", "Bash"] : ["Read"], allowedTools: ["Read", "Bash"] },
      },
      parent,
    );
    expect(files).toEqual(expect.arrayContaining(["settings.json", "token.json"]));
    expect(files).not.toContain("other.json");
    expect(requests.at(-1)?.results[0]?.isError).toBe(true);
    expect(requests.at(-1)?.body).not.toContain("the bittern");
  });

  it("run no command from a skill's frontmatter or text", async () => {
    const marks = temporaryFolder();
    const hook = { matcher: "*", hooks: [{ type: "command", command: `touch ${marks}/hook` }] };
    const root = temporaryFolder({
      "docs/SKILL.md": skillText("docs", {
        more: `allowed-tools: Bash\nhooks: ${JSON.stringify({ PreToolUse: [hook], PostToolUse: [hook] })}\n`,
        body: `Now: !\`touch ${marks}/text\``,
      }),
    });
    const { requests } = await evaluated(promptOf(task, skillsSection({ skills: [skillRef(join(root, "docs"))] })), [
      () => CALL,
      () => ({ tool: "Glob", input: { pattern: "*" } }),
      () => "Done.",
    ]);
    expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([false, false]);
    expect(readdirSync(marks)).toEqual([]);
  });

  it("[N-28] keep installed skills unchanged, whatever the agent uses and the user approves", async () => {
    const cwd = temporaryFolder();
    const parent = temporaryFolder();
    const skillMd = () => join(parent, readdirSync(parent)[0] ?? "", "home/.claude/skills/architecture/SKILL.md");
    let text = "";
    const { result, requests } = await evaluated(
      promptOf(task, skillsSection({ skills: [architecture] })),
      [
        () => ({ tool: "Read", input: { file_path: skillMd() } }),
        () => {
          expect(statSync(skillMd()).mode & 0o222).toBe(0);
          chmodSync(skillMd(), 0o666); // Like root, which no mode stops.
          symlinkSync(join(skillMd(), ".."), join(cwd, "link"));
          return { tool: "Write", input: { file_path: skillMd(), content: "evil" } };
        },
        () => ({ tool: "Edit", input: { file_path: skillMd(), old_string: "kestrel", new_string: "evil" } }),
        () => ({ tool: "Write", input: { file_path: join(cwd, "link/evil.md"), content: "evil" } }),
        () => ({ tool: "Write", input: { file_path: join(skillMd(), "../../../settings.json"), content: "{}" } }),
        () => {
          text = readFileSync(skillMd(), "utf8");
          expect(existsSync(join(skillMd(), "../evil.md"))).toBe(false);
          return "Done.";
        },
      ],
      {
        ...{ cwd, tools: ["Read", "Write", "Edit"], allowedTools: ["Write", "Edit"] },
        approve: async () => ({ isApproved: true, scope: "always" }),
      },
      parent,
    );
    expect(text).toContain("Draw the kestrel first.");
    expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([false, true, true, true, true]);
    expect(result).toMatchObject({ isError: false, stop: "answer" });
  });

  it("[N-28] run commands only in a sandbox that cannot write there, and never without one", async () => {
    const parent = temporaryFolder();
    const cwd = parent; // The content of the folder could be written to otherwise.
    const home = () => readdirSync(parent).find((name) => name.startsWith("skillet-home-")) ?? "";
    const skillMd = () => join(parent, home(), "home/.claude/skills/architecture/SKILL.md");
    const program = () => `require("fs").appendFileSync(${JSON.stringify(skillMd())},"evil")`;
    const commands = [
      () => `echo evil >> ${skillMd()}`,
      () => node(program()).input.command,
      () => 'echo "fine$ANTHROPIC_API_KEY" > here.txt; cat here.txt',
    ];
    let text = "";
    const { result, requests } = await evaluated(
      promptOf(task, skillsSection({ skills: [architecture] })),
      ({ results }) => {
        text = readFileSync(skillMd(), "utf8");
        const command = commands[results.length]?.();
        return command === undefined ? "Done." : { tool: "Bash", input: { command } };
      },
      { cwd, tools: ["Bash"], allowedTools: ["Bash"] },
      parent,
    );
    if (hasSandbox()) {
      expect(requests.at(-1)?.results.map(({ isError }) => isError)).toEqual([true, true, false]);
      expect(requests.at(-1)?.results[1]?.content).toMatch(/EROFS|EACCES|read-only/);
      expect(requests.at(-1)?.results[2]?.content).toBe("fine"); // Without the key.
      expect(readdirSync(cwd)).toContain("here.txt");
      expect(text).toContain("Draw the kestrel first.");
      expect(text).not.toContain("evil");
      expect(result.stop).toBe("answer");
    } else {
      expect(requests).toEqual([]);
      expect(result).toMatchObject({ stop: "refused", refusals: [{ code: "claude-sandbox-missing" }] });
    }
  });

  it("[N-28] report changed skills when commands ran outside the sandbox", async () => {
    const parent = temporaryFolder();
    const skillMd = () => join(parent, readdirSync(parent)[0] ?? "", "home/.claude/skills/architecture/SKILL.md");
    const program = () =>
      `f=require("fs");p=${JSON.stringify(skillMd())};f.chmodSync(p,0o666);f.appendFileSync(p,"evil")`;
    const { result } = await evaluated(
      promptOf(task, skillsSection({ skills: [architecture] })),
      [() => node(program()), () => "Done."],
      { isolation: { parent, sandbox: { enabled: false } }, tools: ["Bash"], allowedTools: ["Bash"] },
      parent,
    );
    expect(result).toMatchObject({ isError: true, stop: "error", error: { code: "skills-changed" } });
    expect(readdirSync(parent)).toEqual([]);
  });
});

/** A command whose program is obscured. */
function node(program: string) {
  const encoded = Buffer.from(program).toString("base64");
  return { tool: "Bash", input: { command: `${process.execPath} -e "eval(Buffer.from('${encoded}','base64')+'')"` } };
}

/** True when Claude Code can use its sandbox here. */
function hasSandbox(): boolean {
  if (process.platform === "darwin") return true;
  return ["bwrap", "socat"].every((name) =>
    (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, name))),
  );
}
