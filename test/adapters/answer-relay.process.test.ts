import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { serveHttp } from "../../src/adapters/mcp-server/http-server.ts";
import { createSkillServer } from "../../src/adapters/mcp-server/skill-server.ts";
import { createFileMailbox } from "../../src/store/mailbox.ts";
import { startBalancer } from "../support/balancer.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { negotiation } from "../support/mcp-client.ts";
import { payingSkill } from "../support/paying-skill.ts";
import { useScene } from "../support/use.ts";

const YES = { action: "accept" as const, content: { decision: "yes, this once" } };
const ERA = "2026-07-28";

/** Servers that share a mailbox. A use of their skill pays two people, each of which needs an approval. */
async function openServers() {
  const { found } = await useScene({
    skills: { bank: {} },
    turns: ({ results }) => {
      const to = results.length === 0 ? "Ada" : "Mallory";
      return results.length < 2 ? [{ tool: "bank__pay", input: { to } }] : "Both are paid.";
    },
  });
  const ledger = join(found.root, "ledger");
  writeFiles(found.root, payingSkill("bank", ledger));
  const scene = await found.again();
  const home = temporaryFolder();
  const open = async (key = "person ada") => {
    const serving = createSkillServer(scene.catalog, scene, { mailbox: createFileMailbox(home) });
    const caller = { key, scopes: new Set(["list", "load", "run", "use", "approve"] as const), host: {} };
    const server = await serveHttp(() => serving.open({ isStateless: true, caller }), { token: false });
    onTestFinished(() => server.close());
    return new URL(server.url);
  };
  const paid = () => (existsSync(ledger) ? readFileSync(ledger, "utf8").trim().split("\n") : []);
  return { open, paid, messages: () => readdirSync(join(home, "mailbox")) };
}

async function connect(url: URL, answers?: { asked: string[] }) {
  const client = new Client(
    { name: "test", version: "1.0.0" },
    {
      ...negotiation(ERA),
      capabilities: { elicitation: { form: {} } },
      ...(answers ? {} : { inputRequired: { autoFulfill: false } }),
    },
  );
  client.setRequestHandler("elicitation/create", ({ params }) => {
    answers?.asked.push(params.message);
    return YES;
  });
  await client.connect(new StreamableHTTPClientTransport(url));
  onTestFinished(() => client.close());
  const send = async (more: object = {}) =>
    (await client.callTool(
      { name: "use_skill", arguments: { skill: "bank", message: "Pay." }, ...more },
      (answers ? {} : { allowInputRequired: true }) as never,
    )) as Record<string, unknown>;
  return { send };
}

describe("servers that share a mailbox", { timeout: 120_000 }, () => {
  it("[E-30] pass each answer to the call that waits for it, at whichever server it arrives", async () => {
    const { open, paid, messages } = await openServers();
    const { url, counts } = await startBalancer([await open(), await open()]);
    const asked: string[] = [];
    const { send } = await connect(url, { asked });
    expect(JSON.stringify(await send())).toContain("Both are paid.");
    expect(paid()).toEqual(["Ada", "Mallory"]);
    expect(asked.map((message) => message.includes("Ada"))).toEqual([true, false]);
    for (const count of counts) expect(count).toBeGreaterThan(1);
    expect(messages()).toEqual([]);
  });

  it("[E-30] take one answer to a question, from its caller alone", async () => {
    const { open, paid } = await openServers();
    const [asking, other, foreign] = [await open(), await open(), await open("person eve")];
    const { requestState } = await (await connect(asking)).send();
    const answer = { requestState, inputResponses: { word: YES } };
    const gone = { isError: true, _meta: { "skillet/code": "call-gone" } };
    expect(await (await connect(foreign)).send(answer)).toMatchObject(gone);
    const { send } = await connect(other);
    expect(JSON.stringify(await send(answer))).toContain("Mallory");
    expect(await send(answer)).toMatchObject(gone);
    expect(await (await connect(asking)).send(answer)).toMatchObject(gone);
    expect(paid()).toEqual(["Ada"]);
  });
});
