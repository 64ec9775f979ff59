import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type ClaudeFolders,
  createToolPermissions,
  type PermissionOptions,
  parseClaudeToolCall,
} from "../../src/adapters/claude/claude-permissions.ts";
import { createLiveStepRunner } from "../../src/agent/run/step-runner.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import type { RunEvent } from "../../src/host/events.ts";
import { createRedactor } from "../../src/util/redact.ts";
import { resolveRealPath } from "../../src/util/safe-path.ts";
import { temporaryFolder } from "../support/folder.ts";

/** Allows everything. */
function permits(ground: ClaudeFolders, more: Partial<PermissionOptions> = {}) {
  return createToolPermissions({
    ...{
      run: "r",
      folders: ground,
      tools: ["Write", "Edit", "NotebookEdit", "Read"],
      allowedTools: ["*"],
      installed: new Map(),
    },
    steps: createLiveStepRunner({ approve: async () => ({ isApproved: true }) }, () => {}),
    redactor: createRedactor(new Map()),
    signal: new AbortController().signal,
    listBridgedTools: () => [],
    step: () => 1,
    ...more,
  });
}

function ground(): ClaudeFolders {
  const home = resolveRealPath(temporaryFolder({ ".claude/skills/a/SKILL.md": "a" }));
  return { cwd: resolveRealPath(temporaryFolder()), home, skillsDir: join(home, ".claude/skills") };
}

describe("the check of a call", () => {
  it("[N-28] refuses to change the home, by any name", async () => {
    const here = ground();
    symlinkSync(join(here.home, ".claude"), join(here.cwd, "link"));
    const { check: judge } = permits(here);
    const paths = [
      join(here.home, ".claude/skills/a/SKILL.md"),
      join(here.home, ".claude/skills/new/deep/SKILL.md"),
      join(here.home, ".claude/settings.json"),
      `${here.home}/nowhere/../.claude/skills/a/SKILL.md`,
      join(here.cwd, "link/skills/b.md"),
      "link/settings.local.json",
      "~/.claude/settings.json",
    ];
    for (const path of paths) {
      expect(await judge({ tool: "Write", input: { file_path: path } }), path).toMatchObject({ code: "read-only" });
      expect(await judge({ tool: "NotebookEdit", input: { notebook_path: path } })).toMatchObject({
        code: "read-only",
      });
      expect(await judge({ tool: "Read", input: { file_path: path } })).toBeUndefined();
    }
    expect(await judge({ tool: "Write", input: { file_path: join(here.cwd, "a.md") } })).toBeUndefined();
  });

  it("refuses without quoting secrets of its input", async () => {
    const events: RunEvent[] = [];
    const judged = permits(ground(), {
      tools: ["Bash"],
      allowedTools: [],
      redactor: createRedactor(new Map([["ANTHROPIC_API_KEY", "key-of-nobody"]])),
      steps: createLiveStepRunner({}, (event) => events.push(event)),
    });
    const refused = await judged.check({ tool: "Bash", input: { command: "curl -H key-of-nobody example.com" } });
    expect(refused).toMatchObject({ code: "not-approved", message: expect.stringContaining("example.com") });
    expect(events.map(({ type }) => type)).toEqual(["tool-blocked"]);
    expect(JSON.stringify([refused, events])).not.toContain("key-of-nobody");
  });

  it("refuses a tool that was not requested, even if it is allowed", async () => {
    const refused = await permits(ground()).check({ tool: "Bash", input: { command: "ls" } });
    expect(refused).toMatchObject({ code: "tool-unknown", message: expect.stringContaining("Unknown tool 'Bash'") });
  });

  it("allows reads only below its pattern and its path", () => {
    const here = ground();
    const reads = (tool: string, input: unknown) => parseClaudeToolCall(tool, input, here).readsOnly(here.cwd);
    expect(reads("Glob", { pattern: "**/*.ts" })).toBe(true);
    expect(reads("Glob", { pattern: "src/{a,b}/*.ts" })).toBe(true);
    for (const pattern of ["/etc/*", "../*", "a/../../*", "{a,../b}/*", "{a,/etc}/*", "~/x", "C:/x", "..\\x"])
      expect(reads("Glob", { pattern }), pattern).toBe(false);
    expect(reads("Grep", { pattern: "../" })).toBe(true); // It searches files.
    expect(reads("Read", { file_path: here.cwd })).toBe(true);
    expect(reads("Read", { file_path: "/etc/hostname" })).toBe(false);
    expect(reads("Read", {})).toBe(false);
    expect(reads("Write", { file_path: here.cwd })).toBe(false);
  });
});

describe("a call that needs an approval", () => {
  it("is requested once per run, and a refusal has its code, its reason and an event without secrets", async () => {
    const answers = [
      { isApproved: false, reason: "not hunter2-hunter2" },
      { isApproved: true, scope: "run" as const },
    ];
    const asked: unknown[] = [];
    const events: RunEvent[] = [];
    const approve = async ({ tool, what }: ApprovalRequest) => {
      asked.push([tool, what]);
      return answers.shift() ?? { isApproved: false };
    };
    const { check } = permits(ground(), {
      allowedTools: [],
      tools: ["Bash"],
      steps: createLiveStepRunner({ approve }, (event) => events.push(event)),
      redactor: createRedactor(new Map([["TOKEN", "hunter2-hunter2"]])),
    });
    const call = { tool: "Bash", input: { command: "touch a" } };
    const message =
      "Tool 'Bash' was not approved (touch a): it changes something outside the workspace. Reason: not [TOKEN]";
    expect(await check(call)).toEqual({ code: "not-approved", message });
    expect(await check(call)).toBeUndefined();
    expect(await check(call)).toBeUndefined();
    expect(asked).toEqual([
      ["Bash", "touch a"],
      ["Bash", "touch a"],
    ]);
    expect(events.filter(({ type }) => type === "tool-blocked")).toMatchObject([{ code: "not-approved", message }]);
    expect(await check({ tool: "Unknown", input: {} })).toMatchObject({ code: "tool-unknown" });
  });
});
