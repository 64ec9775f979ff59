import type { Data } from "./data.ts";

/** What a call came to. A refusal or failure is such a result, never an exception. */
export interface ToolResult {
  /** What the model reads. */
  content: string;
  isError: boolean;
  /** Why not, to branch on. */
  code?: string;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** What a model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly category: "skills";
  /** JSON Schema of its input. */
  readonly inputSchema: Data;
  /** Contract: never throws. What takes long ends with the signal. */
  execute(input: unknown, options?: CallOptions): Promise<ToolResult>;
}
