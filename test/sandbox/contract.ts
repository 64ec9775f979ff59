import { afterEach, beforeAll, describe, it } from "vitest";
import type { IsolationLevel, Sandbox } from "../../src/host/sandbox-contract.ts";
import { findSystemProgram } from "../../src/util/system.ts";
import { checksFor } from "./checks.ts";
import { type Scene, sceneFor } from "./scene.ts";

/** The suite that every sandbox passes: all that its level claims (`checks.ts`). */
export function describeSandbox(name: string, level: IsolationLevel, open: () => Promise<Sandbox>): void {
  describe(name, () => {
    let scene: Scene;
    beforeAll(async () => {
      scene = sceneFor(await open());
    });
    afterEach(() => scene.end());

    for (const { title, check } of checksFor(level)) it(title, () => check(scene));
  });
}

/** True when there is a bubblewrap to test. Contract: in CI a missing one is a failure, and is not skipped. */
export const hasBubblewrap = process.platform === "linux" && findSystemProgram("bwrap") !== undefined;

export function describeWithBubblewrap(name: string, body: () => void): void {
  const isPassedOver = !hasBubblewrap && process.env["CI"] === undefined;
  describe.skipIf(isPassedOver)(isPassedOver ? `${name} (bubblewrap is not installed)` : name, () => {
    if (hasBubblewrap || isPassedOver) return body();
    it("has bubblewrap for its tests", () => {
      throw new Error("bubblewrap is not installed: the set-up of the CI has to `apt-get install bubblewrap`");
    });
  });
}
