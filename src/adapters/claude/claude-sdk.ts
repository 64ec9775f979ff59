import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PromptSession, PromptSessionOptions } from "../../agent/prompts/prompt-session.ts";
import type { RunResult } from "../../agent/run/run-result.ts";
import type { Host } from "../../config/host.ts";
import { SkillError } from "../../errors/problem.ts";
import type { HermeticHomeOptions } from "../../remote/clients/hermetic-home.ts";
import type { JsonObject } from "../../util/objects.ts";

/** The part of `@anthropic-ai/claude-agent-sdk` used here. The package is optional: users of this adapter install it. */
export interface ClaudeSdk {
  query(request: { prompt: AsyncIterable<SdkUserMessage>; options?: ClaudeSdkOptions }): SdkQuery;
}

/** A message of the user. */
export interface SdkUserMessage {
  type: "user";
  message: { role: "user"; content: string };
  parent_tool_use_id: null;
}

export interface SdkQuery extends AsyncIterable<SdkMessage> {
  /** Interrupts the model. */
  interrupt?(): Promise<unknown>;
  /** Resolves when its process has ended. */
  return?(): Promise<unknown>;
}

/** A message of the SDK. Its `type` tells the shape. */
export interface SdkMessage {
  type: string;
}

/** Options for the SDK. */
// biome-ignore lint/suspicious/noExplicitAny: the SDK defines its options, and they change with its versions
export type ClaudeSdkOptions = any;

/** A tool call, as the hook receives it before it runs. */
export interface SdkCall {
  tool_name: string;
  tool_input: unknown;
  tool_use_id: string;
}

/** One end of an MCP transport. */
export interface SdkTransport {
  onmessage?: (message: unknown) => void;
  start?(): Promise<void>;
  send(message: JsonObject): Promise<void>;
}

const SDK_PACKAGE = "@anthropic-ai/claude-agent-sdk";

/** Loads the SDK from skillet's dependencies, or from the working directory. Throws a SkillError with the install command. */
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

// Bundlers that emit CommonJS leave `import.meta.url` undefined.
function resolveSdkFrom(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return createRequire(file).resolve(SDK_PACKAGE);
  } catch {
    return undefined;
  }
}

export interface ClaudeOptions extends Partial<Pick<Host, "onEvent" | "statistics" | "approve" | "approvals">> {
  /** A model name of Claude Code. Defaults to its own choice. */
  model?: string;
  /** The working directory. Defaults to that of the process. */
  cwd?: string;
  /** The system prompt: a text, or Claude Code's own with an optional addition. */
  systemPrompt?: string | { type: "preset"; preset: "claude_code"; append?: string };
  /** Maximum number of model turns. Defaults to 50. */
  maxTurns?: number;
  /** Time limit in seconds, without the time spent waiting for users. Defaults to 15 minutes. */
  seconds?: number;
  /** Uses an isolated home, in which skills can be installed, in place of the user's. Defaults to false: nothing is installed. */
  isolation?: boolean | IsolationOptions;
  /** Claude's own tools to enable. Defaults to those that read files. `Skill` is added if a skill is installed. */
  tools?: readonly string[];
  /** Calls that need no approval: `Edit`, `Bash(git log:*)`. Reading files below `cwd` and of skills never needs it. */
  allowedTools?: readonly string[];
  /** Environment variables for its process. They override the defaults; `undefined` removes one. The home cannot be changed. */
  env?: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal;
  /** The id reported in events. Defaults to a new one. */
  sessionId?: string;
  /** A session that outlives this evaluation: it provides the open sections and earlier messages, and receives the new ones. */
  session?: PromptSession;
  /** Dotted keys of sections opened earlier. */
  expanded?: NonNullable<PromptSessionOptions["expanded"]>;
  /** Called with every message of the SDK. Errors that it throws are ignored. */
  onMessage?(message: SdkMessage): void;
  /** Additional options for the SDK: `effort`, `maxBudgetUsd`, … Those set by skillet win. */
  sdkOptions?: Readonly<Record<string, unknown>>;
  /** The SDK module, if it cannot be found from here. */
  sdk?: ClaudeSdk;
}

export interface IsolationOptions extends HermeticHomeOptions {
  /** Installs skills. Defaults to true. Otherwise all skills are sections of the prompt. */
  installSkills?: boolean;
}

/** The result of an evaluation. */
export interface ClaudeResult extends RunResult {
  sessionId: string;
  /** Names of the installed skills. */
  installed: readonly string[];
  /** Dotted keys of the open sections. */
  expanded: readonly string[];
  /** The data requested with `sdkOptions.outputFormat`. It matches the schema. */
  structured?: unknown;
  /** The thrown error, if any: for example a SkillInstallationError. */
  cause?: unknown;
}
