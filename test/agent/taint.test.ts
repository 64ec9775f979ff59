import { describe, expect, it } from "vitest";
import {
  collectLeaves,
  findPrivilegedInput,
  formatResultOrigin,
  listNamedSkills,
  type TaintCheckCall,
} from "../../src/agent/policy/taint-tracker.ts";

function judged(name: string, input: unknown, more: Partial<TaintCheckCall> = {}): string[] {
  const tool = { name, inputSchema: {} };
  const call = { tool, input, isMutating: false, ownSkill: "x", allowedFolders: ["/home/ada/project"], ...more };
  return findPrivilegedInput(call)
    .leaves.filter(({ isKey }) => !isKey)
    .map(({ text }) => text);
}

describe("decisions that untrusted text may not make", () => {
  it("[Q-07] includes all input of an external change, but not that of a read-only tool", () => {
    const input = { to: ["ada", { also: "bob" }], amount: 1200, isUrgent: true, nothing: null };
    expect(judged("pay", input, { isMutating: true })).toEqual(["ada", "bob", "1200"]);
    expect(judged("find", input)).toEqual([]);
    expect(judged("write_file", { path: "a", content: "b" })).toEqual([]);
  });

  it("[Q-07] includes which other skill is used or loaded, or has its code run", () => {
    expect(judged("use_skill", { skill: "deploy", message: "Go" })).toEqual(["deploy"]);
    expect(judged("load_skill", { skill_name: "deploy@team" })).toEqual(["deploy@team", "deploy"]);
    expect(judged("run_skill_script", { skill: "deploy", script: "go" })).toEqual(["deploy"]);
    expect(judged("run_skill_script", { script: "go" })).toEqual([]);
    expect(judged("use_skill", { skill: "x" })).toEqual([]);
    expect(judged("read_skill_resource", { skill: "deploy", resource: "a.md" })).toEqual([]);
    const owner = { name: "deploy", source: "", location: "" };
    const tool = { name: "deploy.run", inputSchema: {}, owner };
    expect(listNamedSkills({ tool: { ...tool, starts: "use" }, input: {} })).toEqual(["deploy"]);
    expect(listNamedSkills({ tool: { ...tool, starts: "use" }, input: {}, ownSkill: "deploy" })).toEqual([]);
    expect(listNamedSkills({ tool, input: {} })).toEqual([]);
    for (const odd of [undefined, null, 7, "deploy", { skill: 7 }, { skill: " " }])
      expect(judged("use_skill", odd)).toEqual([]);
  });

  it("[Q-07] includes a path outside, for tools that are not built in", () => {
    const outside = [
      "/etc/passwd",
      "~/.ssh/id",
      "~",
      "../x",
      "a/../../b",
      "file:///etc/x",
      "C:\\x",
      "/home/ada/projects",
    ];
    for (const path of outside) expect(judged("fs.read", { path }), path).toEqual([path]);
    const inside = [
      "/home/ada/project",
      "/home/ada/project/a.md",
      "a/b.md",
      "~100 of them",
      "a..b",
      "1/2",
      "https://a.example/",
    ];
    for (const path of inside) expect(judged("fs.read", { path }), path).toEqual([]);
    expect(judged("read_file", { path: "/etc/passwd" }), "it refuses that itself").toEqual([]);
    expect(judged("bash", { command: "/etc/passwd" }), "it sees a sandbox").toEqual([]);
  });

  it("excludes a choice from the tool's own enum, and names of its fields", () => {
    const schema = {
      properties: { state: { enum: ["open", "closed"] }, labels: { items: { enum: ["bug"] } }, more: {} },
    };
    const { leaves } = collectLeaves({ state: "open", labels: ["bug", "evil"], more: { key: "v" } }, schema);
    expect(leaves).toEqual([
      { text: "evil", isKey: false },
      { text: "key", isKey: true },
      { text: "v", isKey: false },
    ]);
    expect(collectLeaves({ state: "opened" }, schema).leaves).toEqual([{ text: "opened", isKey: false }]);
  });

  it("reports that input is larger or deeper than what is checked", () => {
    let deep: unknown = "x";
    for (let depth = 0; depth < 60; depth++) deep = [deep];
    expect(collectLeaves(deep)).toEqual({ leaves: [], isCut: true });
    expect(collectLeaves(Array(300).fill("a")).isCut).toBe(false);
    expect(collectLeaves(Array(301).fill("a")).isCut).toBe(true);
  });
});

describe("the origin of a text", () => {
  it.each([
    ["read_skill_resource", { resource: "a.md" }, "file a.md of skill x"],
    ["run_skill_script", { skill: "y", script: "go" }, "output of go of skill y"],
    ["bash", { command: "gh issue list" }, "output of `gh issue list`"],
    ["web_fetch", { url: "https://a.example/" }, "page https://a.example/"],
    ["use_skill", { skill: "y" }, "answer of skill y"],
    ["github.issues", {}, "tool github.issues"],
    ["toString", {}, "tool toString"],
    ["list_skills", {}, undefined],
    ["complete", { result: "done" }, undefined],
  ])("is reported for %s", (name, input, label) => {
    expect(formatResultOrigin({ tool: { name, inputSchema: {} }, input, ownSkill: "x" })).toBe(label);
  });
});
