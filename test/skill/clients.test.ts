import { describe, expect, it } from "vitest";
import { SENSITIVE_PATHS } from "../../src/agent/workspace/sensitive-paths.ts";
import { CLIENT_LISTINGS } from "../../src/catalog/client-listings.ts";
import { HOOK_FORMATS } from "../../src/remote/clients/prompt-hook-config.ts";
import { CLIENTS, MCP_CLIENT_NAMES } from "../../src/skill/clients.ts";
import { SKILL_CLIENTS } from "../../src/skill/source/locations.ts";

describe("the table of clients", () => {
  it("has the clients of every other table", () => {
    const others = [CLIENT_LISTINGS, HOOK_FORMATS, SKILL_CLIENTS].flatMap((table) => Object.keys(table));
    expect(others.length).toBeGreaterThan(15);
    expect(others.filter((name) => !Object.hasOwn(CLIENTS, name))).toEqual([]);
    expect([...MCP_CLIENT_NAMES, "agents"].toSorted()).toEqual(Object.keys(CLIENTS).toSorted());
  });

  it.each(Object.entries(CLIENTS))("protects the files that %s reads in a project", (_, row) => {
    const names = SENSITIVE_PATHS.flatMap((one) => one.names);
    const files = [...row.project, ...("mcp" in row ? [row.mcp.project] : [])].map((path) => path.split("/")[0] ?? "");
    expect(files.length).toBeGreaterThan(0);
    expect(files.filter((name) => !names.includes(name))).toEqual([]);
  });
});
