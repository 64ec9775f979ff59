import { describe, expect, it } from "vitest";
import { type Answered, openInspector } from "../support/inspector.ts";
import { textOf } from "../support/open.ts";
import { home, skilletServe } from "../support/served.ts";

const MOUNTED = "my-skill__my-tool";

/** The result of a successful answer. */
function result({ code, said }: Answered): object {
  if (code !== 0) throw new Error(said);
  const { result, ...rest } = JSON.parse(said);
  return result ?? rest;
}

function names(answered: Answered): string[] {
  const { tools } = result(answered) as { tools: { name: string }[] };
  return tools.map(({ name }) => name);
}

const text = (answered: Answered) => textOf(result(answered));

describe("the MCP Inspector", () => {
  it("[P-18, P-19] lists, loads, calls a mounted tool, unloads, and the tool is gone", async () => {
    const { mcpdo } = openInspector(skilletServe(home()));
    const call = (...args: string[]) => mcpdo("@skillet", ...args);
    expect(result(await mcpdo("connect", "skillet"))).toMatchObject({ name: "skillet" });

    expect(names(await call("tools/list"))).not.toContain(MOUNTED);
    expect(text(await call("tools/call", "load_skill", "skill:=my-skill"))).toContain("call_skill_tool");
    expect(names(await call("tools/list"))).toContain(MOUNTED);
    expect(text(await call("tools/call", MOUNTED, "input:=hello"))).toContain("Processed: hello");
    expect(text(await call("tools/call", "unload_skill", "skill:=my-skill"))).toContain("is unloaded");
    expect(names(await call("tools/list"))).not.toContain(MOUNTED);
    const gone = await call("tools/call", MOUNTED, "input:=hello");
    expect(gone.code).not.toBe(0);
    expect(gone.said).toContain("tool_not_found");
  });

  it("finds no error in the schemas of the tools, and loads a skill", async () => {
    const { cli } = openInspector(skilletServe(home()));
    const listed = await cli("--method", "tools/list", "--strict");
    expect(names(listed)).toEqual(expect.arrayContaining(["list_skills", "load_skill", "call_skill_tool"]));
    const loaded = await cli("--method", "tools/call", "--tool-name", "load_skill", "--tool-arg", "skill=my-skill");
    expect(text(loaded)).toContain("Instructions for the LLM");
  });

  it("calls a tool in its first request, of a skill that is loaded from the start", async () => {
    const { cli } = openInspector(skilletServe(home(), ["--load", "my-skill"]));
    const called = await cli("--method", "tools/call", "--tool-name", MOUNTED, "--tool-arg", "input=hello");
    expect(text(called)).toContain("Processed: hello");
  });

  it.each(["legacy", "modern"])("verifies every skill and the digests of its files, in the %s era", async (era) => {
    const { cli } = openInspector(skilletServe(home()));
    const verify = ["--method", "skills/list", "--verify", "--require-digests"];
    const { code, said } = await cli("--protocol-era", era, ...verify);
    expect({ code, said }).toMatchObject({ code: 0 });
    const reports = said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(reports.map(({ name }) => name)).toEqual(expect.arrayContaining(["my-skill", "notes", "other"]));
    expect(reports.filter(({ outcome }) => outcome !== "verified")).toEqual([]);
  });
});
