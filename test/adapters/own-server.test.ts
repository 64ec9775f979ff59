import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { describe, expect, it } from "vitest";
import { createMcpServer } from "../../src/adapters/mcp-server/mcp-server.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { createClientOf, negotiation } from "../support/mcp-client.ts";
import { createCatalogOf } from "../support/skills.ts";
import { useScene } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

describe("a server in a program", () => {
  it("[S-36] returns only what each caller may see, even with a shared catalog", async () => {
    const catalog = await createCatalogOf({ diary: { more: { sensitive: true } }, weather: {} });
    const told = async (chatType: string) => {
      const { client } = await createClientOf(createMcpServer(openSession(catalog, { caller: { chatType } })));
      return client.getInstructions();
    };
    expect(await told("private")).toContain("diary");
    expect(await told("group")).not.toContain("diary");
    expect(await told("private")).toContain("diary");
  });

  it("continues when a skill's tool has the name of a program's tool, and reports that once", async () => {
    const scene = await discoverIn({
      "home/.skillet/skills/bank/SKILL.md": skillText("bank"),
      "home/.skillet/skills/bank/scripts/pay.sh": "#!/bin/sh\necho paid\n",
    });
    const notices: string[] = [];
    const session = openSession(scene.catalog, scene, { provides: "all" });
    const mcp = createMcpServer(session, { onNotice: (text) => void notices.push(text) });
    mcp.registerTool("bank__pay", {}, () => ({ content: [{ type: "text", text: "the program's" }] }));
    const { call, tools } = await createClientOf(mcp);
    expect(await call("load_skill", { skill: "bank" })).toMatchObject({ isError: false });
    expect(await call("list_skills")).toMatchObject({ isError: false });
    expect((await call("bank__pay")).text).toBe("the program's");
    expect((await call("call_skill_tool", { tool: "bank__pay" })).text).toContain("paid");
    expect((await tools()).filter((name) => name === "bank__pay")).toHaveLength(1);
    expect(notices).toEqual([expect.stringContaining("bank.pay is not listed")]);
    await call("unload_skill", { skill: "bank" });
    expect(await tools()).toContain("bank__pay");
  });

  it.each([false, true])("ends a pending approval with its client (stateless: %s)", async (isStateless) => {
    const { found } = await useScene({
      skills: { writer: {} },
      turns: () => [{ tool: "write_file", input: { path: "notes.txt", content: "x" } }],
    });
    const events: string[] = [];
    const onEvent = ({ type }: { type: string }) => void events.push(type);
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    const serve = () => createMcpServer(openSession(found.catalog, { ...found, onEvent }), { isStateless });
    const handle = serveStdio(serve, { transport: theirs });
    const client = new Client(
      { name: "test", version: "1.0.0" },
      {
        ...negotiation("2026-07-28"),
        capabilities: { elicitation: { form: {} } },
        inputRequired: { autoFulfill: false },
      },
    );
    await client.connect(ours);
    const params = { name: "use_skill", arguments: { skill: "writer", message: "Write." } };
    const result = await client.callTool(params, { allowInputRequired: true } as never);
    expect("inputRequests" in result).toBe(!isStateless);
    await client.close();
    await handle.close();
    await waitFor(() => expect(events.at(-1)).toMatch(/^run-(ended|waiting)$/));
  });
});
