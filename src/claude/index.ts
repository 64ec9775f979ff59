export { evaluateWithClaude } from "./evaluate.ts";
export type { ClaudeOptions, ClaudeResult, IsolationOptions } from "./options.ts";
export { createPromptHook, type PromptHook, type PromptHookOptions } from "./prompt-hook.ts";
export type { ClaudeSdk, SdkMessage } from "./sdk.ts";
