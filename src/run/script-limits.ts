import type { Host } from "../host/host.ts";
import type { Limits } from "../host/sandbox.ts";

/** What one command or script may use. */
export type CommandLimits = Limits & { arguments: number; argumentBytes: number };

export function limitsOf({ settings: { scripts, sandbox } }: Host): CommandLimits {
  const { memory, processes, disk } = sandbox;
  return { ...scripts, memory, processes, disk };
}
