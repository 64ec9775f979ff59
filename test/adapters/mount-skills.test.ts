import { Client } from "@modelcontextprotocol/client";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { describe, expect, it, onTestFinished } from "vitest";
import { createMcpServer, mountSkills } from "../../src/adapters/mcp-server/index.ts";
import { openSession, type Session } from "../../src/agent/session/session.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { connectClient, type Era, negotiation } from "../support/mcp-client.ts";
import { toolsetOf } from "../support/toolset.ts";
import { waitFor } from "../support/wait-for.ts";

const TOOLSET = 'toolsets:\n  - "toolsets/index:Tools"\n';
const SKILLS = {
  "home/.skillet/skills/mail/SKILL.md": skillText("mail", { more: `${TOOLSET}triggers:\n  keywords: ["inbox"]\n` }),
  "home/.skillet/skills/mail/toolsets/index.ts": toolsetOf({ send: 'return "sent " + args.input;' }),
};

async function openMail(): Promise<Session> {
  const found = await discoverIn(SKILLS);
  const session = openSession(found.catalog, found);
  onTestFinished(() => session.close());
  return session;
}

/** A connected client, and its number of notifications about tools. */
async function connect(server: () => McpServer, era: Era = "2025-11-25") {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const handle = serveStdio(server, { transport: theirs });
  let changes = 0;
  const onChanged = () => {
    changes++;
  };
  const client = new Client(
    { name: "test", version: "1.0.0" },
    { ...negotiation(era), listChanged: { tools: { onChanged, autoRefresh: false, debounceMs: 0 } } },
  );
  await client.connect(ours);
  const close = async () => {
    await client.close();
    await handle.close();
  };
  onTestFinished(close);
  return { ...connectClient(client), changes: () => changes, close };
}

function ownServer(): McpServer {
  const mcp = new McpServer({ name: "desk", version: "1.0.0" });
  mcp.registerTool("ping", {}, () => ({ content: [{ type: "text", text: "pong" }] }));
  return mcp;
}

const SERVERS = [
  ["createMcpServer", (session: Session) => createMcpServer(session)],
  [
    "mountSkills on a server of the program",
    (session: Session) => {
      const mcp = ownServer();
      mountSkills(mcp, session);
      return mcp;
    },
  ],
] as const;

describe.each(SERVERS)("mountSkills with %s", (_, serve) => {
  it.each(["2025-11-25", "2026-07-28"] as const)(
    "[P-27] adds the tools that the program loads and removes on the live server, and notifies a client of %s",
    async (era) => {
      const session = await openMail();
      const { tools, call, changes } = await connect(() => serve(session), era);
      expect(await tools()).not.toContain("mail__send");

      await session.load("mail");
      await waitFor(() => expect(changes()).toBe(1));
      expect(await tools()).toContain("mail__send");
      expect((await call("mail__send", { input: "x" })).text).toContain("sent x");

      session.unload("mail");
      await waitFor(() => expect(changes()).toBe(2));
      expect(await tools()).not.toContain("mail__send");

      expect((await session.activate("read my inbox")).skills).toEqual(["mail"]);
      await waitFor(() => expect(changes()).toBe(3));
      expect(await tools()).toContain("mail__send");
    },
  );
});

describe("mountSkills", () => {
  it("[P-27] adds to a connected server, keeps its tools, and removes only its own", async () => {
    const session = await openMail();
    const mcp = ownServer();
    const { tools, call, changes } = await connect(() => mcp);
    expect(await tools()).toEqual(["ping"]);
    const mount = mountSkills(mcp, session);
    await waitFor(() => expect(changes()).toBeGreaterThan(0));
    expect(await tools()).toEqual(expect.arrayContaining(["ping", "list_skills", "load_skill"]));
    expect(await tools()).not.toContain("advise");
    expect((await call("load_skill", { skill: "mail" })).isError).toBe(false);
    expect((await call("mail__send", { input: "y" })).text).toContain("sent y");
    mount.unmount();
    expect(await tools()).toEqual(["ping"]);
    await session.load("mail");
    expect(await tools()).toEqual(["ping"]);
    expect((await call("ping")).text).toBe("pong");
  });

  it("[P-27] leaves a tool of the same name to the program, and reports it once", async () => {
    const session = await openMail();
    const notices: string[] = [];
    const mcp = ownServer();
    mcp.registerTool("list_skills", {}, () => ({ content: [{ type: "text", text: "the program's" }] }));
    mountSkills(mcp, session, { onNotice: (text) => void notices.push(text) });
    const { call } = await connect(() => mcp);
    await session.load("mail");
    expect((await call("list_skills")).text).toBe("the program's");
    expect(notices).toEqual(["list_skills is not listed because the server has a tool with that name"]);
  });

  it("[P-27] refuses a connected server that declares no tools", async () => {
    const session = await openMail();
    const mcp = new McpServer({ name: "desk", version: "1.0.0" });
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await Promise.all([mcp.connect(theirs), new Client({ name: "test", version: "1.0.0" }).connect(ours)]);
    onTestFinished(() => mcp.close());
    expect(() => mountSkills(mcp, session)).toThrow(expect.objectContaining({ code: "server-connected" }));
  });
});
