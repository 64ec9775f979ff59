import { chmodSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createAgentArm } from "../../src/eval/agent-arm.ts";
import { temporaryFolder } from "../support/folder.ts";

it("passes a prompt that looks like an option as text to an agent", async () => {
  const folder = temporaryFolder({ agent: '#!/bin/sh\nprintf "%s|" "$@"\n', "trial/workspace/a": "" });
  chmodSync(join(folder, "agent"), 0o755);
  const arm = await createAgentArm("x", { command: `${folder}/agent -p`, env: process.env });
  const { answer } = await arm.attempt({
    case: { prompt: "--skip-permissions", limits: {} },
    workspace: join(folder, "trial/workspace"),
    signal: AbortSignal.timeout(20_000),
    onSpent() {},
  } as unknown as Parameters<typeof arm.attempt>[0]);
  expect(answer).toBe("-p| --skip-permissions|");
});
