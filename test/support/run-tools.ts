import { chmodSync } from "node:fs";
import { join } from "node:path";
import { resolveVariables } from "../../src/agent/run/run-inputs.ts";
import { createWorkspaceTools } from "../../src/agent/run/sub-agent.ts";
import { openRunSandbox, type RunSandbox } from "../../src/agent/workspace/run-sandbox.ts";
import type { Host } from "../../src/config/host.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import type { CallOptions, Tool, ToolResult } from "../../src/skill/tool.ts";
import { createRedactor } from "../../src/util/redact.ts";
import { discoverIn, type Scene } from "./discover.ts";
import { skillText } from "./folder.ts";

export interface Enclosed {
  found: Scene;
  enclosure: RunSandbox;
  tools: Tool[];
  tool(name: string): Tool;
  call(tool: string, input: object, options?: CallOptions): Promise<ToolResult>;
}

interface Parts {
  more?: string;
  config?: string;
  files?: Record<string, string | Uint8Array>;
  env?: Record<string, string>;
  /** True to leave the workspace writable only by its owner. By default other users may write to it, since code never runs as root. */
  closed?: boolean;
  signal?: AbortSignal;
  host?: Partial<Host>;
}

/** Returns the tools of a run of the user's skill `x`, in a workspace with these files. */
export async function createRunTools(parts: Parts = {}): Promise<Enclosed> {
  const { more = "", config = "", files = {}, env = {}, closed = false, signal = new AbortController().signal } = parts;
  const found = await discoverIn(
    {
      "home/.skillet/skills/x/SKILL.md": skillText("x", { more }),
      "home/.skillet/config.toml": config,
      "README.md": "# Project\n",
      ...files,
    },
    env,
  );
  chmodSync(found.root, 0o755);
  if (!closed) openFor(found, Object.keys(files));
  return openToolSandbox(found, { ...found, ...parts.host }, signal);
}

export async function openToolSandbox(
  found: Scene,
  host: Host,
  signal = new AbortController().signal,
): Promise<Enclosed> {
  const skill = found.skill("x");
  const secrets = resolveVariables(skill, host);
  const enclosure = await openRunSandbox(host, {
    ...{ skill, copy: await copySkill(skill), secrets, redactor: createRedactor(secrets), kind: "run", signal },
    onProgress: () => {},
  });
  const tools = await createWorkspaceTools(enclosure, { host, skill });
  const tool = (name: string) => {
    const found = tools.find((candidate) => candidate.name === name);
    if (!found) throw new Error(`no tool ${name} is offered`);
    return found;
  };
  const call = (name: string, input: object, options?: CallOptions) => tool(name).execute(input, options);
  return { found, enclosure, tools, tool, call };
}

/** Lets other users write to these files and their folders. */
function openFor({ workspace }: Scene, files: readonly string[]): void {
  chmodSync(workspace, 0o777);
  for (const file of [...files, "README.md"].filter((path) => !path.startsWith("home/"))) {
    const parts = file.split("/");
    for (let length = 1; length < parts.length; length++) chmodSync(join(workspace, ...parts.slice(0, length)), 0o777);
    chmodSync(join(workspace, file), 0o666);
  }
}
