import { describe, expect, it } from "vitest";
import {
  expectNoCrossTalk,
  inTurns,
  memoryOf,
  openPlainSession,
  type PlainSession,
  p95Of,
  serverOfPeople,
} from "../support/many-sessions.ts";

describe("1,000 sessions of 50 people on one server", { timeout: 600_000 }, () => {
  it("[E-35] see only what belongs to their person; memory is flat, and loading stays within 3 × of one session", async () => {
    const team = await serverOfPeople(50);
    const sessions: PlainSession[] = [await openPlainSession(team, 0)];
    await p95Of(sessions, 100); // Warms up both sides.
    const alone = await p95Of(sessions, 200);
    await inTurns([...Array(999).keys()], 10, async (index) => {
      sessions.push(await openPlainSession(team, index + 1));
    });
    await expectNoCrossTalk(sessions, 20);
    const before = await memoryOf(team.server);
    const among = await p95Of(sessions, 1000);
    for (let round = 0; round < 3; round++) await expectNoCrossTalk(sessions, 20);
    const after = await memoryOf(team.server);
    const mib = (bytes: number) => Math.round(bytes / 1024 / 1024);
    process.stdout.write(
      `load_skill p95: ${alone.toFixed(1)} ms alone, ${among.toFixed(1)} ms among 1000 sessions (${(among / alone).toFixed(2)} x); ` +
        `memory ${mib(before)} MiB, ${mib(after)} MiB after 9000 more calls\n`,
    );
    expect(among / alone).toBeLessThan(3);
    expect(after / before).toBeLessThan(1.3);
  });
});
