import { readdirSync, readFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import { type ClaudeOptions, evaluateWithClaude } from "../../src/adapters/claude/index.ts";
import type { Prompt } from "../../src/agent/prompts/prompt-template.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { CLAUDE_MODEL, type ClaudeTurn, claudeSdk, startClaudeApi } from "../support/claude-api.ts";
import { temporaryFolder } from "../support/folder.ts";

/** Evaluates a prompt with a model that follows a script. `parent` is the folder for homes. */
export async function evaluated(
  prompt: Prompt,
  script: readonly ClaudeTurn[] | ClaudeTurn,
  options: ClaudeOptions = {},
  parent = temporaryFolder(),
) {
  const { requests, env } = await startClaudeApi(script);
  // Claude Code leaves the socat of its sandbox running.
  onTestFinished(() => processesIn(parent).forEach(end));
  const isolation = options.isolation === true ? { parent } : (options.isolation ?? { parent });
  const events: SkillEvent[] = [];
  const started = evaluateWithClaude(prompt, {
    ...{ model: CLAUDE_MODEL, sdk: await claudeSdk(), cwd: options.cwd ?? temporaryFolder() },
    ...options,
    isolation: typeof isolation === "object" ? { parent, ...isolation } : isolation,
    env: { ...env, ...options.env },
    onEvent(event) {
      events.push(event);
      options.onEvent?.(event);
    },
  });
  return { result: await started, events, requests, parent };
}

export function typesOf(events: readonly SkillEvent[]): string[] {
  return events.map(({ type }) => type);
}

/** Returns the processes whose environment names a folder: their home is in it. */
export function processesIn(folder: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, "utf8").includes(folder);
    } catch {
      return false; // It has ended.
    }
  });
}

function end(pid: string): void {
  try {
    process.kill(Number(pid), "SIGKILL");
  } catch {
    // It has ended.
  }
}
