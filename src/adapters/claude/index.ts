export { createPromptHook, type PromptHook, type PromptHookOptions } from "./claude-prompt-hook.ts";
export type { ClaudeOptions, ClaudeResult, ClaudeSdk, IsolationOptions, SdkMessage } from "./claude-sdk.ts";
export { evaluateWithClaude } from "./evaluate-with-claude.ts";
