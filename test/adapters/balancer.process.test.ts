import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startBalancer } from "../support/balancer.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createHomeWith } from "../support/mcp-process.ts";
import { payingSkill } from "../support/paying-skill.ts";
import { connectWith, startTeamServer } from "../support/team-server.ts";

const FILES = {
  "home/.skillet/skills/mail/SKILL.md": skillText("mail"),
  "home/.skillet/skills/mail/scripts/count.sh": "#!/bin/sh\necho counted $1\n",
};

async function twoServers(files: Record<string, string> = {}) {
  const place = createHomeWith({ ...FILES, ...files });
  const [one, two] = await Promise.all([startTeamServer(place), startTeamServer(place)]);
  const { token } = await one.createToken("ada");
  return { servers: [one.url, two.url], token, one };
}

describe("two servers of one home behind a proxy", { timeout: 120_000 }, () => {
  it("[E-30] answer clients of 2026-07-28 in turns", async () => {
    const { servers, token } = await twoServers();
    const { url, counts } = await startBalancer(servers);
    const client = await connectWith(url, token, "2026-07-28");
    for (let round = 0; round < 4; round++) {
      expect(await client.tools()).toContain("load_skill");
      expect((await client.call("load_skill", { skill: "mail" })).isError).toBe(false);
      const counted = await client.call("call_skill_tool", {
        skill: "mail",
        tool: "mail.count",
        input: { args: ["7"] },
      });
      expect(counted.text).toContain("counted 7");
      expect((await client.client.listResources()).resources.length).toBeGreaterThan(0);
    }
    for (const count of counts) expect(count).toBeGreaterThan(5);
  });

  it("[E-30] continue a call with an answer that arrives at the other server", async () => {
    const folder = temporaryFolder();
    const ledger = join(folder, "ledger");
    const { servers, token } = await twoServers(payingSkill("bank", ledger));
    const { url, counts } = await startBalancer(servers);
    const client = await connectWith(url, token, "2026-07-28", { capabilities: { elicitation: { form: {} } } });
    const asked: string[] = [];
    client.client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { decision: "yes, this once" } };
    });
    for (const to of ["Ada", "Eve"]) {
      const { text, isError } = await client.call("call_skill_tool", {
        skill: "bank",
        tool: "bank.pay",
        input: { to },
      });
      expect({ text, isError }).toMatchObject({ text: expect.stringContaining(`paid ${to}`), isError: false });
    }
    expect(readFileSync(ledger, "utf8")).toBe("Ada\nEve\n");
    expect(asked).toHaveLength(2);
    for (const count of counts) expect(count).toBeGreaterThan(1);
  });

  it("[E-30] answer clients of 2025-11-25 if the proxy keeps a session on one server", async () => {
    const { servers, token } = await twoServers();
    const { url, counts } = await startBalancer(servers, { isSticky: true });
    const clients = await Promise.all([0, 1, 2, 3].map(() => connectWith(url, token, "2025-11-25")));
    for (const client of clients) {
      expect((await client.call("load_skill", { skill: "mail" })).isError).toBe(false);
      expect((await client.call("mail__count", { args: ["3"] })).text).toContain("counted 3");
    }
    for (const count of counts) expect(count).toBeGreaterThan(0);
  });

  it("[E-30] answer a session of the other server with 404, so that its client starts a new one", async () => {
    const { servers, token } = await twoServers();
    const client = await connectWith(servers[0] as URL, token, "2025-11-25");
    const answer = await fetch(servers[1] as URL, {
      method: "DELETE",
      headers: { authorization: `Bearer ${token}`, "mcp-session-id": client.session() ?? "" },
    });
    expect(answer.status).toBe(404);
  });

  it("[E-33] both refuse a token within two seconds after it was revoked, and the command names both", async () => {
    const { servers, token, one } = await twoServers();
    const { running } = JSON.parse(await one.command("token", "revoke", "ada", "--json"));
    expect(running).toMatchObject([{ isApplied: true }, { isApplied: true }]);
    for (const server of servers)
      expect((await fetch(server, { method: "POST", headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
  });
});
