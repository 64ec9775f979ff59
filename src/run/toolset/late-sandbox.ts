import type { Host } from "../../host/host.ts";
import type { Hiding, Secrets } from "../../shared/redact.ts";
import type { Skill } from "../../skill/skill.ts";
import type { ToolSandbox } from "../../skill/tool.ts";
import type { SkillCopy } from "../../source/digest.ts";

export interface LateRequest {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  hiding: Hiding;
  signal: AbortSignal;
}

/** The sandbox of a skill's tools where no run has one: opened when a tool first starts a program. */
export function lateSandbox(host: Host, request: LateRequest): ToolSandbox {
  let opened: Promise<ToolSandbox> | undefined;
  const open = async (): Promise<ToolSandbox> => {
    const [{ openEnclosure }, { sandboxFor }] = await Promise.all([
      import("../enclosure.ts"),
      import("../tool-sandbox.ts"),
    ]);
    return sandboxFor(await openEnclosure(host, { ...request, kind: "script", onProgress: () => {} }));
  };
  return {
    async run(argv, options) {
      opened ??= open();
      return (await opened).run(argv, options);
    },
  };
}
