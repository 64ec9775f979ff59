import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { Tool } from "../../src/skill/tool.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { toolsetOf } from "../support/toolset.ts";
import { eventsOf, useScene } from "../support/use.ts";

afterEach(closeMcpServers);

const server = join(import.meta.dirname, "../support/mcp-server.ts");
const config = `[tools.mcp.web]\ncommand = ${JSON.stringify([process.execPath, server, "usual"])}\n`;
const toolsets = 'toolsets: ["toolsets/index:Tools"]\n';
const files = { "toolsets/index.ts": toolsetOf({ double: "return args.input + args.input" }) };

describe("contributed tools of a run", () => {
  it("[T-11] include those of the skill's own toolset, called by the name that providers accept", async () => {
    const { use } = await useScene({
      skills: { x: { more: toolsets, files } },
      turns: [
        ({ tools }) => {
          expect(Object.keys(tools)).toContain("x__double");
          return [{ tool: "x__double", input: { input: "ab" } }];
        },
        ({ results }) => (results[0]?.content.includes("abab") ? "doubled" : "not"),
      ],
    });
    const { result, events } = await use({ skill: "x" });
    expect(result).toMatchObject({ content: "doubled", warnings: [] });
    expect(eventsOf(events, "tool-called")).toMatchObject([{ tool: "x.double", input: { input: "ab" } }]);
  });

  it("[T-13] are missing when the toolset is broken: the run reports that and continues", async () => {
    const { use } = await useScene({
      skills: { x: { more: toolsets, files: { "toolsets/index.ts": "throw new Error('no');" } } },
      turns: [
        ({ tools }) => {
          expect(Object.keys(tools).filter((name) => name.startsWith("x__"))).toEqual([]);
          return "all the same";
        },
      ],
    });
    const { result } = await use({ skill: "x" });
    expect(result).toMatchObject({ content: "all the same", isError: false });
    expect(result.warnings).toMatchObject([{ message: expect.stringContaining("Toolset of skill 'x'") }]);
  });

  it("can be required and allowed by short names, and are always the skill's own", async () => {
    const { use } = await useScene({
      config,
      skills: {
        x: { more: `${toolsets}required_tools: [double, look]\nallowed_tools: [look]\n`, files },
      },
      turns: [
        ({ tools }) => {
          expect(Object.keys(tools).sort()).toEqual(["complete", "web__look", "x__double"]);
          return [{ tool: "web__look", input: { text: "here" } }];
        },
        ({ results }) => (results[0]?.content.includes("here") ? "seen" : "not"),
      ],
    });
    expect((await use({ skill: "x" })).result).toMatchObject({ content: "seen" });
  });

  it("[T-11] give way to a tool of the host with the same name, with a warning", async () => {
    const mine = Tool.define("x.double", {
      description: "Mine.",
      parameters: { type: "object" },
      execute: () => "mine",
    });
    const { use } = await useScene({
      skills: { x: { more: toolsets, files } },
      turns: [
        () => [{ tool: "x__double", input: { input: "ab" } }],
        ({ results }) => (results[0]?.content.includes("mine") ? "mine" : "not"),
      ],
    });
    const { result } = await use({ skill: "x" }, { tools: [mine] });
    expect(result).toMatchObject({ content: "mine", warnings: [{ code: "tool-collision" }] });
  });

  it("are reported missing when a skill lists an unknown or ambiguous name", async () => {
    const { use } = await useScene({
      config: `${config}\n${config.replace("mcp.web", "mcp.net")}`,
      skills: { x: { more: "allowed_tools: [read_file, look, web_serch, TodoWrite]\n" } },
      turns: [() => "ok"],
    });
    expect((await use({ skill: "x" })).result.warnings).toMatchObject([
      {
        code: "tool-ambiguous",
        message: expect.stringContaining("it matches web.look and net.look, and neither is offered"),
      },
      { code: "tool-unmatched", message: "Skill 'x' lists web_serch, which is not available" },
    ]);
  });

  it("return a tool error when their server loses them, and the run continues", async () => {
    const { use } = await useScene({
      config: `${config}auto_approve = ["exit"]\n`,
      skills: { x: { more: "allowed_tools: [web.exit]\n" } },
      turns: [
        () => [{ tool: "web__exit", input: {} }],
        ({ results }) => (/web/.test(results[0]?.content ?? "") && results[0]?.isError !== false ? "gone" : "not"),
      ],
    });
    const { result, events } = await use({ skill: "x" });
    expect(result).toMatchObject({ content: "gone", stop: "answer" });
    expect(eventsOf(events, "tool-ended")).toMatchObject([{ isError: true, code: "mcp-failed" }]);
  });

  it("are not requested from a server whose tools the skill cannot use", async () => {
    const { use } = await useScene({
      config: '[tools.mcp.web]\ncommand = ["/bin/false"]\n',
      skills: { x: { more: "allowed_tools: [read_file]\n" } },
      turns: [() => "ok"],
    });
    expect((await use({ skill: "x" })).result.warnings).toEqual([]);
  });

  it("belong to an inner skill whatever its caller may use", async () => {
    const { use } = await useScene({
      skills: { outer: { more: "allowed_tools: [use_skill]\n" }, x: { more: toolsets, files } },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "x", message: "Double." } }],
        ({ tools }) => {
          expect(Object.keys(tools).sort()).toEqual(["complete", "use_skill", "x__double"]);
          return [{ tool: "x__double", input: { input: "z" } }];
        },
        ({ results }) => results[0]?.content ?? "",
        ({ results }) => (results[0]?.content.includes("zz") ? "done" : "not"),
      ],
    });
    expect((await use({ skill: "outer" })).result.content).toBe("done");
  });

  it("[Q-04] are not imported for an untrusted workspace", async () => {
    const { use, found } = await useScene({
      skills: {},
      workspace: {
        "skills/y/SKILL.md": `---\nname: y\ndescription: A skill of the workspace.\n${toolsets}---\nDo it.\n`,
        "skills/y/toolsets/index.ts": "process.exit(7);",
      },
      turns: [],
    });
    expect(found.skill("y").manifest.toolsets).toHaveLength(1);
    const { result } = await use({ skill: "y" });
    expect(result).toMatchObject({ stop: "refused", refusals: [{ code: "untrusted" }] });
  });
});
