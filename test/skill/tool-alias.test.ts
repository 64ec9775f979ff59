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
    ["a tool that there is", "read_file", ["read_file"]],
    ["one as another client spells it", "Read(src/**)", ["Read(src/**)"]],
    ["a bare name that one server has", "web_search", ["brave.web_search"]],
    ["the same as another client spells it, with what it may do", "WebSearch(news:*)", ["brave.web_search(news:*)"]],
    ["what stands behind the last dot", "list", ["notes.admin.list"]],
    ["a whole name", "brave.news", ["brave.news"]],
    ["all that a server has", "brave.*", ["brave.web_search", "brave.news"]],
    ["a server as other clients spell it", "mcp__brave", ["brave.web_search", "brave.news"]],
    ["a tool of it as other clients spell it", "mcp__github__search", ["github.search"]],
    ["what two servers have", "search", ["search"]],
    ["what nobody has", "teleport", ["teleport"]],
    ["a server that is not there", "mail.*", ["mail.*"]],
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
    ["all where nothing is said", [[]], ["brave", "github"]],
    ["one that is named", [["github.search"]], ["github"]],
    ["one all of whose tools are named", [["brave.*", "bash"]], ["brave"]],
    ["one as other clients spell it", [["mcp__github__search"]], ["github"]],
    ["those that may have a bare name", [["issues"]], ["brave", "github"]],
    ["those that do not say they have it not", [["web_search"]], ["brave"]],
    ["none for what is built in", [["Bash(git:*)", "Read"]], []],
    ["none for another client's name for that", [["search"]], []],
    ["all for a star", [["*"]], ["brave", "github"]],
    ["those that a pattern can mean", [["br*"]], ["brave"]],
    ["none that a caller forbids", [["brave.*"], ["github.search"]], []],
    ["none that is switched off", [["off.x"]], []],
    ["none for a tool of a skill", [["deploy.start"]], []],
  ])("%s", (_, allowed, expected) => {
    expect([...selectMcpServers(settings, allowed)]).toEqual(expected);
  });

  it("exclude web_search if a search engine is configured", () => {
    const configured = { ...settings, tools: { ...settings.tools, webSearch: { provider: "searxng" as const } } };
    expect([...selectMcpServers(configured, [["web_search"]])]).toEqual([]);
  });
});
