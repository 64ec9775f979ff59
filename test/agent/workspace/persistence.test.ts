import { beforeAll, describe, expect, it } from "vitest";
import { sampleRows } from "../../support/sample-steps.ts";
import { ATTEMPTS, type Came, makeAttempts } from "./attempts.ts";

const isRoot = process.getuid?.() === 0;

describe.each([
  ["root", false],
  ["an ordinary user", true],
])("a workspace that code may write to, for %s", (user, isOrdinary) => {
  // Root makes all of them.
  const attempts = isRoot && isOrdinary ? sampleRows(ATTEMPTS, 20) : ATTEMPTS;
  let came: Record<string, Came> = {};
  beforeAll(async () => {
    came = isRoot || isOrdinary ? await makeAttempts(attempts, { isOrdinary }) : {};
  }, 300_000);

  it.runIf(isRoot || isOrdinary).each(attempts.map((attempt) => [attempt.title, attempt] as const))(
    `[Q-27] has no unapproved change of a sensitive path: %s (${user})`,
    (title, { held = [] }) => {
      expect(came[title]).toMatchObject({ left: [], unnamed: [], isObeyed: false });
      if (held.length === 0) expect(came[title]?.warnings).toEqual([]);
    },
  );
});
