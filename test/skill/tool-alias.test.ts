import { describe, expect, it } from "vitest";
import { selectMcpServers } from "../../src/agent/tools/skill-tools.ts";
import { DEFAULT_SETTINGS, type Settings } from "../../src/config/settings.ts";
import { expandToolNames } from "../../src/skill/tool-names.ts";

const NAMES = [
  "bash",
  "read_file",
  "brave.web_search",
  "brave.news",
  "github.search",
  "wiki.search",
  "notes.admin.list",
];

describe("entries of a list of tools", () => {
  it.each([
    ["an existing tool", "read_file", ["read_file"]],
    ["one in another client's spelling", "Read(src/**)", ["Read(src/**)"]],
    ["a bare name of a single server", "web_search", ["brave.web_search"]],
    ["the same in another client's spelling, with its restriction", "WebSearch(news:*)", ["brave.web_search(news:*)"]],
    ["the part after the last dot", "list", ["notes.admin.list"]],
    ["a whole name", "brave.news", ["brave.news"]],
    ["all tools of a server", "brave.*", ["brave.web_search", "brave.news"]],
    ["a server in another client's spelling", "mcp__brave", ["brave.web_search", "brave.news"]],
    ["a tool of it in another client's spelling", "mcp__github__search", ["github.search"]],
    ["a name of two servers", "search", ["search"]],
    ["an unknown tool", "teleport", ["teleport"]],
    ["an unknown server", "mail.*", ["mail.*"]],
    ["everything", "*", ["*"]],
  ])("%s", (_, entry, expected) => {
    expect(expandToolNames([entry], NAMES)).toEqual(expected);
  });

  it("mean all of several when they forbid", () => {
    expect(expandToolNames(["search"], NAMES, "all")).toEqual(["github.search", "wiki.search"]);
    expect(expandToolNames(["news", "bash"], [...NAMES, "news"], "all")).toEqual(["news", "brave.news", "bash"]);
    expect(expandToolNames(["brave.news"], NAMES, "all")).toEqual(["brave.news"]);
  });

  it("stay in order, each once", () => {
    expect(expandToolNames(["web_search", "bash", "brave.*"], NAMES)).toEqual([
      "brave.web_search",
      "bash",
      "brave.news",
    ]);
  });
});

describe("the servers that a run needs", () => {
  const env = new Map<string, string>();
  const settings: Settings = {
    ...DEFAULT_SETTINGS,
    mcp: new Map([
      ["brave", { env }],
      ["github", { env, tools: ["search", "issues"] }],
      ["off", { env, enabled: false }],
    ]),
  };
  it.each([
    ["all by default", [[]], ["brave", "github"]],
    ["one that is named", [["github.search"]], ["github"]],
    ["one with all its tools named", [["brave.*", "bash"]], ["brave"]],
    ["one in another client's spelling", [["mcp__github__search"]], ["github"]],
    ["those that can have a bare name", [["issues"]], ["brave", "github"]],
    ["those that do not exclude it", [["web_search"]], ["brave"]],
    ["none for built-in tools", [["Bash(git:*)", "Read"]], []],
    ["none for another client's name of a built-in tool", [["search"]], []],
    ["all for a star", [["*"]], ["brave", "github"]],
    ["those that a pattern can match", [["br*"]], ["brave"]],
    ["none that a caller forbids", [["brave.*"], ["github.search"]], []],
    ["none that is disabled", [["off.x"]], []],
    ["none for a tool of a skill", [["deploy.start"]], []],
  ])("%s", (_, allowed, expected) => {
    expect([...selectMcpServers(settings, allowed)]).toEqual(expected);
  });

  it("exclude web_search if a search engine is configured", () => {
    const configured = { ...settings, tools: { ...settings.tools, webSearch: { provider: "searxng" as const } } };
    expect([...selectMcpServers(configured, [["web_search"]])]).toEqual([]);
  });
});
