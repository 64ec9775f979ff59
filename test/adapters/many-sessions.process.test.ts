import { describe, expect, it } from "vitest";
import {
  expectNoCrossTalk,
  inTurns,
  openPlainSession,
  type PlainSession,
  serverOfPeople,
} from "../support/many-sessions.ts";

describe("many sessions of many people on one server", { timeout: 120_000 }, () => {
  it("[E-35] see only what belongs to their person, concurrently", async () => {
    const team = await serverOfPeople(10);
    const sessions: PlainSession[] = [];
    await inTurns([...Array(60).keys()], 10, async (index) => {
      sessions.push(await openPlainSession(team, index));
    });
    await expectNoCrossTalk(sessions, 20);
    const [one] = sessions;
    const stranger = sessions.find(({ person }) => person !== one?.person);
    const taken = await team.server.send("/mcp", {
      ...{ method: "DELETE", token: stranger?.token ?? "" },
      headers: { "mcp-session-id": one?.id ?? "" },
    });
    expect(taken.status).toBe(404);
    expect((await one?.call("list_skills"))?.isError).toBe(false);
    const metrics = await (await team.server.send("/metrics", { token: team.server.token })).text();
    expect(metrics).toContain("skillet_sessions 60\n");
  });
});
