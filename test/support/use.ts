import { chmodSync } from "node:fs";
import { join } from "node:path";
import type { RunResult } from "../../src/agent/run/run-result.ts";
import { type UseRequest, useSkill } from "../../src/agent/run/use-skill.ts";
import type { Host } from "../../src/config/host.ts";
import type { Approval, ApprovalRequest } from "../../src/host/approval.ts";
import type { RunEvent } from "../../src/host/events.ts";
import type { RunStore } from "../../src/store/runs.ts";
import { discoverIn, type Scene } from "./discover.ts";
import { skillText } from "./folder.ts";
import { API_KEY, MODEL, type ModelServer, type PROTOCOLS, startModelServer, type Turn } from "./model-server.ts";

export type ProtocolName = keyof typeof PROTOCOLS;

/** A skill of the user: its frontmatter in addition to name and description, and its instructions. */
export interface Written {
  more?: string;
  body?: string;
  files?: Record<string, string>;
}

export interface UseScene {
  found: Scene;
  server: ModelServer;
  use(request: UseRequest, host?: Partial<Host>): Promise<Used>;
}

export interface Used {
  result: RunResult;
  events: readonly RunEvent[];
}

export interface Parts {
  skills: Record<string, Written>;
  turns: readonly Turn[] | Turn;
  protocol?: ProtocolName;
  /** Further configuration. */
  config?: string;
  /** Files of the workspace, which every user may change. */
  workspace?: Record<string, string>;
  env?: Record<string, string>;
  /** Whether the configured values are bound to the skills. Defaults to true. */
  areGiven?: boolean;
  /** Opens the runs, each time as another process would. Defaults to those in the user's home. */
  openRuns?: () => RunStore;
}

/** Skills in a user's home, a workspace, and a model behind a provider's protocol that follows a script. */
export async function useScene({ skills, turns, config = "", workspace = {}, ...parts }: Parts): Promise<UseScene> {
  const protocol = parts.protocol ?? "openai";
  const server = await startModelServer(protocol, turns);
  const files = Object.entries(skills).flatMap(([name, { more = "", body = `Do ${name}.`, files: own = {} }]) => [
    [`home/.skillet/skills/${name}/SKILL.md`, skillText(name, { more, body })],
    ...Object.entries(own).map(([path, text]) => [`home/.skillet/skills/${name}/${path}`, text]),
  ]);
  const found = await discoverIn(
    {
      ...Object.fromEntries(files),
      "home/.skillet/config.toml": `${modelConfig(protocol, server)}\n${config}`,
      "README.md": "A project.\n",
      ...workspace,
    },
    parts.env,
    { areGiven: parts.areGiven ?? true, openRuns: parts.openRuns },
  );
  // Code never runs as root: if root runs the tests, other users need access.
  chmodSync(found.root, 0o755);
  chmodSync(join(found.root, "project"), 0o777);
  return {
    found,
    server,
    async use(request, host = {}) {
      const run = useSkill(found.catalog, { ...found, ...host }, request);
      const events: RunEvent[] = [];
      for await (const event of run) events.push(event);
      return { result: await run, events };
    },
  };
}

export function modelConfig(protocol: ProtocolName, { url }: Pick<ModelServer, "url">, alias = "default"): string {
  const provider = protocol === "openai" ? "openai-compatible" : protocol;
  return `[models.${alias}]\nprovider = "${provider}"\nmodel = "${MODEL}"\nbase_url = "${url}"\napi_key = "${API_KEY}"\n`;
}

/** A user who gives these answers to approval requests, and then declines. */
export function answerApprovals(...answers: Approval[]): {
  asked: ApprovalRequest[];
  approve: (effect: ApprovalRequest) => Promise<Approval>;
} {
  const asked: ApprovalRequest[] = [];
  const approve = async (effect: ApprovalRequest) => {
    asked.push(effect);
    return answers.shift() ?? { isApproved: false };
  };
  return { asked, approve };
}

/** The events of one kind. */
export function eventsOf<Type extends RunEvent["type"]>(
  events: readonly RunEvent[],
  type: Type,
): Extract<RunEvent, { type: Type }>[] {
  return events.filter((event): event is Extract<RunEvent, { type: Type }> => event.type === type);
}
