import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import { NO_USAGE } from "../../src/host/model-contract.ts";
import type { NewRun } from "../../src/store/run-rules.ts";
import { moduleOf } from "../support/program.ts";

export const ID = "20260102-030405-0a1b2c3d";

export function createTestRun(id = ID, more: Partial<NewRun["head"]> = {}): NewRun {
  return {
    head: { id, kind: "use", skill: "mailer", task: "Send it", ...more },
    request: { skill: "mailer", message: "Send it" },
  };
}

export const EFFECT: ApprovalRequest = {
  run: ID,
  skill: "mailer",
  source: "user",
  location: "/home/u/.skillet/skills/mailer",
  tool: "mailer.send",
  input: { to: "ann@example.com" },
  on: "outside",
  what: "send a mail",
  reason: "it changes something outside",
};

export const TAIL = { stop: "answer", isError: false, iterations: 2, ms: 1200, usage: NO_USAGE } as const;

/** Another process that has `runs` of this home. It reports with `say`. */
export async function startOtherProcess(
  home: string,
  program: string,
  before: readonly string[] = [],
): Promise<unknown> {
  const script = `
    import { createRunStore } from ${JSON.stringify(moduleOf("store/runs"))};
    const runs = createRunStore(${JSON.stringify(home)});
    const say = (value) => process.stdout.write(JSON.stringify(value));
    ${program}`;
  const [file = "", ...args] = [...before, process.execPath, "--input-type=module", "-e", script];
  const { stdout } = await promisify(execFile)(file, args, { env: { PATH: "/usr/bin:/bin" } });
  return stdout === "" ? undefined : JSON.parse(stdout);
}
