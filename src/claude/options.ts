import type { Host } from "../host/host.ts";
import type { HermeticHomeOptions } from "../install/home.ts";
import type { PromptSession, PromptSessionOptions } from "../prompt/session.ts";
import type { RunResult } from "../run/result.ts";
import type { ClaudeSdk, SdkMessage } from "./sdk.ts";

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
