export { evaluateWithClaude } from "./evaluate.ts";
export type { ClaudeOptions, ClaudeResult, IsolationOptions } from "./options.ts";
export type { ClaudeSdk, SdkMessage } from "./sdk.ts";
