import type { Data } from "./data.ts";
import { defineTool } from "./define-tool.ts";
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
  /** True for the text of a remote skill that is not trusted: it is data, also where a loaded skill would be followed. */
  isUntrusted?: boolean;
  /** What was done, in a few words, for whoever looks on. */
  title?: string;
  /** What the tool adds for programs; no model reads it. */
  metadata?: Data;
  /** How many times a sub-agent asked its model, where one did the work. */
  iterations?: number;
  /** And what its models used, with the cost in US dollars where that is known. */
  usage?: Usage;
  cost?: number;
}

/** What a call comes with. Whoever calls gives what there is of it. */
export interface CallOptions {
  signal?: AbortSignal;
  /** The same for the same call, also when it is made again after the program was killed: for tools with effects. */
  key?: string;
  /** The run that calls. */
  run?: string;
  /** The skill that brought the tool, or else that is followed. */
  skill?: ToolOwner;
  /** Values of the variables that this skill declares; none when it is only loaded. Never the host's environment. */
  env?: Readonly<Record<string, string>>;
  /** Where programs can be started. */
  sandbox?: ToolSandbox;
  /** Says how far it is, for whoever waits. Contract: never throws. */
  onProgress?(text: string): void;
}

/** The skill that a tool belongs to: which copy of it. */
export interface ToolOwner {
  name: string;
  source: string;
  /** Its folder or file; empty for one in code. */
  place: string;
}

/** The sandbox of a run, as a tool sees it: a new one for each program. */
export interface ToolSandbox {
  /** Rejects where none can be had. What the program did is a result. */
  run(argv: readonly [string, ...string[]], options?: ToolProgram): Promise<ToolOutcome>;
}

export interface ToolProgram {
  stdin?: string;
  seconds?: number;
  signal?: AbortSignal;
}

export interface ToolOutcome {
  /** `exit`, or what ended it before: `timeout`, `output`, `abort`, … */
  ending: string;
  exitCode?: number;
  stdout: string;
  stderr: string;
}

/** What a call changes, for whoever is to agree to it. */
export interface ToolEffect {
  /** `workspace`: files of the workspace. `outside`: anything else, such as mail that is sent. */
  on: "workspace" | "outside";
  /** In a few words each; what the input says, where they are left out. */
  what?: string;
  where?: string;
  amount?: string;
  isReversible?: boolean;
}

/** What a model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** `skills` for the tools of skills, `workspace` for those that work on files and start programs; an embedder's own has its own. */
  readonly category: string;
  /** JSON Schema of its input. */
  readonly inputSchema: Data;
  /** The skill that brought it, where one did. */
  readonly owner?: ToolOwner;
  /** What a call starts, where that is more than code of its own: a program in a sandbox, or a sub-agent. */
  readonly starts?: "script" | "use";
  /** What a call with this input changes. A tool without it only reads, and nobody is asked. Contract: changes nothing itself. */
  effect?(input: unknown): ToolEffect | undefined | Promise<ToolEffect | undefined>;
  /** Contract: never throws. What takes long ends with the signal. */
  execute(input: unknown, options?: CallOptions): Promise<ToolResult>;
}

export const Tool = {
  /** A tool of your own: for a skill's toolset, or for `tools` of a host. Throws a SkillError when it cannot be one. */
  define: defineTool,
} as const;

interface Head<P extends Parameters> extends Pick<Tool, "name" | "description" | "category"> {
  parameters: P;
  effect?(values: Values<P>): ToolEffect | undefined;
}

/** A tool from a table of its parameters. Wrong input and what goes wrong in `run` are results. */
export function makeTool<P extends Parameters>(
  head: Head<P>,
  run: (values: Values<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  const { name, description, category, parameters, effect } = head;
  return {
    name,
    description,
    category,
    inputSchema: schemaOf(parameters),
    ...(effect
      ? {
          effect(input: unknown) {
            const values = readInput(parameters, input);
            return "refusal" in values ? undefined : effect(values as Values<P>);
          },
        }
      : {}),
    async execute(input, options = {}) {
      const values = readInput(parameters, input);
      return "refusal" in values ? (values.refusal as ToolResult) : safely(() => run(values as Values<P>, options));
    },
  };
}
