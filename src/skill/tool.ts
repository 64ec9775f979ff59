import type { Data } from "./data.ts";
import { type Parameters, readInput, schemaOf, type Values } from "./parameters.ts";
import { safely } from "./safely.ts";

/** What language models read and wrote. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  /** How many of the input tokens the provider had kept. */
  cachedTokens: number;
}

/** What a call came to. A refusal or failure is such a result, never an exception. */
export interface ToolResult {
  /** What the model reads. */
  content: string;
  isError: boolean;
  /** Why not, to branch on. */
  code?: string;
  /** How many times a sub-agent asked its model, where one did the work. */
  iterations?: number;
  /** And what its models used, with the cost in US dollars where that is known. */
  usage?: Usage;
  cost?: number;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** The same for the same call, also when it is made again after the program was killed: for tools with effects. */
  key?: string;
}

/** What a model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** `skills` for the tools of skills, `workspace` for those that work on files and start programs; an embedder's own has its own. */
  readonly category: string;
  /** JSON Schema of its input. */
  readonly inputSchema: Data;
  /** Contract: never throws. What takes long ends with the signal. */
  execute(input: unknown, options?: CallOptions): Promise<ToolResult>;
}

/** A tool from a table of its parameters. Wrong input and what goes wrong in `run` are results. */
export function makeTool<P extends Parameters>(
  head: { name: string; description: string; category: string; parameters: P },
  run: (values: Values<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  const { name, description, category, parameters } = head;
  return {
    name,
    description,
    category,
    inputSchema: schemaOf(parameters),
    async execute(input, options = {}) {
      const values = readInput(parameters, input);
      return "refusal" in values ? (values.refusal as ToolResult) : safely(() => run(values as Values<P>, options));
    },
  };
}
