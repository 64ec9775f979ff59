import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { ApprovalRequest, Approve } from "../../src/host/approval.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { eventsOf, useScene } from "../support/use.ts";

const PROGRAM = join(import.meta.dirname, "../support/mcp-server.ts");
const server = (name: string, kind: string, more = "") =>
  `[tools.mcp.${name}]\ncommand = ${JSON.stringify([process.execPath, PROGRAM, kind])}\n${more}\n`;

afterEach(closeMcpServers);

describe.each(["openai", "anthropic"] as const)("a run with MCP tools, over %s", (protocol) => {
  it("calls them by names that the provider accepts, and keeps the original names", async () => {
    const { use, server: model } = await useScene({
      protocol,
      skills: { scout: { more: "allowed_tools: [look, web.send]\n" } },
      config: server("web", "usual"),
      turns: [
        () => [{ tool: "web__look", input: { text: "it" } }],
        () => [{ tool: "web__look", input: {} }],
        ({ results }) => results.map(({ content }) => content).join("\n"),
      ],
    });
    const { result, events } = await use({ skill: "scout", message: "Look." });
    expect(result.content).toContain('<skill_output tool="web.look">\nlooked at it\n</skill_output>');
    expect(result.content).toContain('Invalid input: "text" is missing');
    expect(Object.keys(model.requests[0]?.tools ?? {}).sort()).toEqual(["complete", "web__look", "web__send"]);
    expect(eventsOf(events, "tool-called").map(({ tool }) => tool)).toEqual(["web.look", "web.look"]);
  });
});

describe("a run with MCP tools", () => {
  it("asks for approval of a tool that changes something, but not of a read-only or listed one", async () => {
    const { use } = await useScene({
      skills: { scout: {} },
      config: server("web", "usual", 'auto_approve = ["add"]'),
      turns: [
        () => [
          { tool: "web__look", input: { text: "1" } },
          { tool: "web__add", input: { text: "2" } },
          { tool: "web__send", input: { text: "3" } },
        ],
        ({ results }) => results.map(({ content }) => content).join("\n"),
      ],
    });
    const asked: ApprovalRequest[] = [];
    const approve: Approve = async (effect) => {
      asked.push(effect);
      return { isApproved: false };
    };
    const { result } = await use({ skill: "scout", message: "Go." }, { approve });
    expect(result.content).toContain("looked at 1");
    expect(result.content).not.toContain("sent 3");
    expect(asked).toMatchObject([
      { tool: "web.send", on: "outside", what: "Send a text", where: "web", isReversible: false },
    ]);
  });

  it("continues without an unavailable server, and reports that", async () => {
    const { use } = await useScene({
      skills: { scout: {} },
      config: server("web", "dies"),
      turns: [({ tools }) => (Object.keys(tools).some((name) => name.startsWith("web")) ? "with" : "without")],
    });
    const { result } = await use({ skill: "scout", message: "Go." });
    expect(result.content).toBe("without");
    expect(result.warnings).toMatchObject([{ code: "mcp-failed", message: expect.stringContaining("'web'") }]);
  });

  it("is refused when no server has a tool that its skill requires", async () => {
    const { use } = await useScene({
      skills: { scout: { more: "required_tools: [teleport]\n" } },
      config: server("web", "usual"),
      turns: [],
    });
    const { result } = await use({ skill: "scout", message: "Go." });
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining("requires tool 'teleport'") });
  });

  it("starts no server that its skill cannot use", async () => {
    const { use } = await useScene({
      skills: { scout: { more: "allowed_tools: [bash]\n" } },
      config: server("web", "dies"),
      turns: [() => "done"],
    });
    const { result } = await use({ skill: "scout", message: "Go." });
    expect(result.warnings.map(({ code }) => code)).not.toContain("mcp-failed");
  });
});
