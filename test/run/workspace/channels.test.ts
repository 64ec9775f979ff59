import { beforeAll, describe, expect, it } from "vitest";
import { type ChannelsCame, SOCKETS, tryChannelsAs } from "./channels.ts";

const isRoot = process.getuid?.() === 0;

describe.each([
  ["root", false],
  ["an ordinary user", true],
])("sockets and named pipes of a workspace, for %s", (user, isOrdinary) => {
  let came: ChannelsCame | undefined;
  beforeAll(async () => {
    came = isRoot || isOrdinary ? await tryChannelsAs({ isOrdinary }) : undefined;
  }, 60_000);

  it.runIf(isRoot || isOrdinary)(`[Q-14] are masked, however the workspace is mounted (${user})`, () => {
    for (const got of [came?.read, came?.written]) {
      expect(SOCKETS.map((path) => got?.[path])).toEqual(SOCKETS.map(() => "ECONNREFUSED"));
      expect(got?.["pipe"]).toBe("EACCES");
    }
    expect(came?.connections.ungranted).toBe(0);
  });

  it.runIf(isRoot || isOrdinary)(`[Q-14] are there where they are granted, and no others (${user})`, () => {
    const answers = SOCKETS.map((path) => came?.granted[path]);
    expect(answers).toEqual(["answer of the host", "ECONNREFUSED", "ECONNREFUSED", "answer of the host"]);
    expect(came?.connections.granted).toBe(2);
  });

  it.runIf(isRoot || isOrdinary)(`[Q-14] work for code that made them itself (${user})`, () => {
    expect(came?.written["own"]).toBe("own");
  });
});
