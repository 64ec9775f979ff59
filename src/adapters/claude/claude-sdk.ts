import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PromptSession, PromptSessionOptions } from "../../agent/prompts/prompt-session.ts";
import type { RunResult } from "../../agent/run/run-result.ts";
import type { HermeticHomeOptions } from "../../clients/hermetic-home.ts";
import type { Host } from "../../config/host.ts";
import { SkillError } from "../../errors/problem.ts";
import type { JsonObject } from "../../util/objects.ts";

/** As much of `@anthropic-ai/claude-agent-sdk` as is used here. It is a package of its own, which whoever evaluates with it installs. */
export interface ClaudeSdk {
  query(request: { prompt: AsyncIterable<SdkUserMessage>; options?: ClaudeSdkOptions }): SdkQuery;
}

/** What the user says. */
export interface SdkUserMessage {
  type: "user";
  message: { role: "user"; content: string };
  parent_tool_use_id: null;
}

export interface SdkQuery extends AsyncIterable<SdkMessage> {
  /** Ends what the model does. */
  interrupt?(): Promise<unknown>;
  /** Resolves when its process has ended. */
  return?(): Promise<unknown>;
}

/** One of many; read by its `type`. */
export interface SdkMessage {
  type: string;
}

/** What skillet tells it. */
// biome-ignore lint/suspicious/noExplicitAny: what the SDK takes is for it to say, and changes with its versions
export type ClaudeSdkOptions = any;

/** A call that is about to be made, as its hook hears of it. */
export interface SdkCall {
  tool_name: string;
  tool_input: unknown;
  tool_use_id: string;
}

/** One end of what MCP's messages go through. */
export interface SdkTransport {
  onmessage?: (message: unknown) => void;
  start?(): Promise<void>;
  send(message: JsonObject): Promise<void>;
}

const SDK_PACKAGE = "@anthropic-ai/claude-agent-sdk";

/** Loads it from beside skillet, or else from beside the working folder. Throws a SkillError that says how to install it. */
export async function loadClaudeSdk(cwd: string): Promise<ClaudeSdk> {
  const from = [import.meta.url, join(cwd, "package.json")];
  const found = from.map(resolveSdkFrom).find((path) => path !== undefined);
  if (found === undefined) {
    throw new SkillError("claude-sdk-missing", {
      message: `${SDK_PACKAGE} is not installed`,
      fix: `run: npm install ${SDK_PACKAGE}`,
    });
  }
  try {
    return (await import(/* webpackIgnore: true */ /* @vite-ignore */ pathToFileURL(found).href)) as ClaudeSdk;
  } catch (cause) {
    throw new SkillError("claude-sdk-broken", {
      message: `${SDK_PACKAGE} in ${found} cannot be loaded`,
      fix: `install it again: npm install ${SDK_PACKAGE}`,
      cause,
    });
  }
}

// Bundlers that write CommonJS leave `import.meta.url` undefined.
function resolveSdkFrom(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return createRequire(file).resolve(SDK_PACKAGE);
  } catch {
    return undefined;
  }
}

export interface ClaudeOptions extends Partial<Pick<Host, "onEvent" | "statistics" | "approve" | "approvals">> {
  /** As Claude Code names models; its own choice when left out. */
  model?: string;
  /** The folder that it works in; the process's when left out. */
  cwd?: string;
  /** What is said before the prompt: a text, or Claude Code's own, which may be added to. */
  systemPrompt?: string | { type: "preset"; preset: "claude_code"; append?: string };
  /** How often the model is asked at most; 50 when left out. */
  maxTurns?: number;
  /** How long it takes at most, in seconds, without the time that people are waited for; 15 minutes when left out. */
  seconds?: number;
  /** A home of its own, in which skills can be installed, in place of the user's. None when left out, and then nothing is installed. */
  isolation?: boolean | IsolationOptions;
  /** Claude's own tools that there are; those that read files when left out. `Skill` is there when a skill is installed. */
  tools?: readonly string[];
  /** What of them needs nobody's word: `Edit`, `Bash(git log:*)`. Reading files below `cwd` and of skills never does. */
  allowedTools?: readonly string[];
  /** Variables for its process, before those that it is given anyway. `undefined` takes one away. What leads to its home stays. */
  env?: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal;
  /** What events say of it; a new one when left out. */
  sessionId?: string;
  /** A session that outlives this evaluation: what it opened is open, what was said before is known, and both are kept in it. */
  session?: PromptSession;
  /** Dotted keys of sections that were opened before. */
  expanded?: NonNullable<PromptSessionOptions["expanded"]>;
  /** Called with every message of the SDK. What it throws is nobody's problem but its own. */
  onMessage?(message: SdkMessage): void;
  /** What else the SDK is told: `effort`, `maxBudgetUsd`, … What skillet tells it goes before. */
  sdkOptions?: Readonly<Record<string, unknown>>;
  /** The SDK itself, where it cannot be found from here. */
  sdk?: ClaudeSdk;
}

export interface IsolationOptions extends HermeticHomeOptions {
  /** Whether skills are installed; true when left out. All are sections of the prompt otherwise. */
  installSkills?: boolean;
}

/** What an evaluation came to. */
export interface ClaudeResult extends RunResult {
  sessionId: string;
  /** Names of the skills that were installed. */
  installed: readonly string[];
  /** Dotted keys of the sections that were opened. */
  expanded: readonly string[];
  /** What `sdkOptions.outputFormat` asked for: data that fits its schema. */
  structured?: unknown;
  /** What was thrown, where something was: a SkillInstallationError, for one. */
  cause?: unknown;
}
