import { getErrorMessageWithPath, SkillError } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { defineTool } from "./define-tool.ts";

/** The token usage of language models. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  /** The number of input tokens from the provider's cache. */
  cachedTokens: number;
}

/** The result of a call. A refusal or failure is also a result, never an exception. */
export interface ToolResult {
  /** The text for the model. */
  text: string;
  /** The output alone, without the lines and tags that frame it for a model. Defaults to the text. */
  output?: string;
  isError: boolean;
  /** A code for the failure, for programs. */
  code?: string;
  /** True for the text of an untrusted remote skill: it is data, even where a loaded skill would be followed. */
  isUntrusted?: boolean;
  /** A short description of the action, for the user. */
  title?: string;
  /** Data for programs; not sent to the model. */
  data?: JsonObject;
  /** The number of model calls of a sub-agent, if one did the work. */
  iterations?: number;
  /** The token usage of its models, with the cost in US dollars if it is known. */
  usage?: Usage;
  cost?: number;
}

/** The context of a call. The caller sets the fields that it has. */
export interface CallOptions {
  signal?: AbortSignal;
  /** The same for a repeated call, even after the process was killed: an idempotency key for tools with effects. */
  key?: string;
  /** The id of the calling run. */
  run?: string;
  /** The skill that provides the tool, or else the active one. */
  skill?: ToolOwner;
  /** Values of the variables that this skill declares; empty if it is only loaded. Never the host's environment. */
  env?: Readonly<Record<string, string>>;
  /** The sandbox in which programs are started. */
  sandbox?: ToolSandbox;
  /** Reports progress to the caller. Contract: never throws. */
  onProgress?(text: string): void;
}

/** The skill that a tool belongs to, identified by its copy. */
export interface ToolOwner {
  name: string;
  source: string;
  /** The folder or file of the skill; empty for a skill defined in code. */
  location: string;
  /** The digest of the copy, `sha256:…`, if it is known. */
  digest?: string;
}

/** The sandbox of a run, for a tool: a new one for each program. */
export interface ToolSandbox {
  /** Rejects if no sandbox is available. A failed program is a result. */
  run(argv: readonly [string, ...string[]], options?: ToolProgram): Promise<ToolOutcome>;
}

export interface ToolProgram {
  stdin?: string;
  seconds?: number;
  signal?: AbortSignal;
}

export interface ToolOutcome {
  /** `exit`, or the reason why it was stopped: `timeout`, `output`, `abort`, … */
  ending: string;
  exitCode?: number;
  stdout: string;
  stderr: string;
}

/** The effect of a call, for its approval. */
export interface ToolEffect {
  /** `workspace`: files of the workspace. `outside`: anything else, such as sent mail. */
  on: "workspace" | "outside";
  /** Short descriptions. They default to the input. */
  what?: string;
  where?: string;
  amount?: string;
  isReversible?: boolean;
}

/** A tool that a model may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /**
   * `skills` for the tools of skills, `workspace` for tools that work on files and start programs; an embedder's tools have their
   * own.
   */
  readonly category: string;
  /** JSON Schema of its input. */
  readonly inputSchema: JsonObject;
  /** The skill that provides the tool, if any. */
  readonly owner?: ToolOwner;
  /** The kind of work that a call starts besides running its code: a program in a sandbox, or a sub-agent. */
  readonly starts?: "script" | "use";
  /**
   * Returns the effect of a call with this input. A tool without it only reads, and needs no approval. Contract: has no effect
   * itself.
   */
  effect?(input: unknown): ToolEffect | undefined | Promise<ToolEffect | undefined>;
  /** True if a call changes nothing. Such calls of one model turn are made at the same time. Defaults to false. */
  readonly isReadOnly?: boolean;
  /** Contract: never throws. Long work ends with the signal. */
  execute(input: unknown, options?: CallOptions): Promise<ToolResult>;
}

export const Tool = {
  /**
   * Defines your own tool: for a skill's toolset, or for the `tools` of a host. Throws a SkillError if the definition is invalid.
   */
  define: defineTool,
} as const;

interface ToolDeclaration<P extends ToolParameters>
  extends Pick<Tool, "name" | "description" | "category" | "isReadOnly"> {
  parameters: P;
  effect?(values: ParameterValues<P>): ToolEffect | undefined;
}

/** Creates a tool from a table of its parameters. Invalid input and errors in `run` are results. */
export function createTool<P extends ToolParameters>(
  head: ToolDeclaration<P>,
  run: (values: ParameterValues<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  const { name, description, category, parameters, effect, isReadOnly } = head;
  return {
    name,
    description,
    category,
    inputSchema: createInputSchema(parameters),
    ...(isReadOnly ? { isReadOnly } : {}),
    ...(effect
      ? {
          effect(input: unknown) {
            const values = readToolInput(parameters, input);
            return "refusal" in values ? undefined : effect(values as ParameterValues<P>);
          },
        }
      : {}),
    async execute(input, options = {}) {
      const values = readToolInput(parameters, input);
      if ("refusal" in values) return values.refusal as ToolResult;
      try {
        return await run(values as ParameterValues<P>, options);
      } catch (error) {
        return createErrorResult(error);
      }
    },
  };
}

/** A parameter of a tool. */
interface ToolParameter {
  type: "string" | "number" | "boolean" | "strings" | "object";
  description: string;
  isRequired?: boolean;
  /** True if an empty text is valid, such as the content of an empty file. */
  mayBeEmpty?: boolean;
  /** Other accepted spellings. */
  aliases?: readonly string[];
  choices?: readonly string[];
}
export type ToolParameters = Readonly<Record<string, ToolParameter>>;
type ParameterTypes = { string: string; number: number; boolean: boolean; strings: string[]; object: JsonObject };
export type ParameterValues<P extends ToolParameters> = {
  [Name in keyof P]: P[Name]["isRequired"] extends true
    ? ParameterTypes[P[Name]["type"]]
    : ParameterTypes[P[Name]["type"]] | undefined;
};

export function createInputSchema(parameters: ToolParameters): JsonObject {
  const properties: JsonObject = {};
  for (const [name, { type, description: says, choices }] of Object.entries(parameters)) {
    const shape = type === "strings" ? { type: "array", items: { type: "string" } } : { type };
    properties[name] = { ...shape, description: says, ...(choices ? { enum: choices } : {}) };
  }
  const required = Object.keys(parameters).filter((name) => parameters[name]?.isRequired);
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
}

/** Reads the input of a model, or returns a refusal that describes the error and the parameters. */
export function readToolInput<P extends ToolParameters>(
  parameters: P,
  input: unknown,
): ParameterValues<P> | { refusal: ToolResult } {
  if (input !== undefined && input !== null && (typeof input !== "object" || Array.isArray(input)))
    return createInvalidInput(parameters, "it is not an object");
  const fields = { ...(input as Record<string, unknown> | null | undefined) };
  const values: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries(parameters)) {
    const spelling = [name, ...(parameter.aliases ?? [])].find(
      (key) => fields[key] !== undefined && fields[key] !== null,
    );
    const value = spelling === undefined ? undefined : parseObjectText(parameter.type, fields[spelling]);
    if (value === undefined || (value === "" && !parameter.isRequired)) {
      if (parameter.isRequired) return createInvalidInput(parameters, `"${name}" is missing`);
      continue;
    }
    const isEmpty = value === "" && !parameter.mayBeEmpty;
    if (!isOfType(parameter.type, value) || isEmpty || Number.isNaN(value))
      return createInvalidInput(
        parameters,
        `"${name}" must be a ${isEmpty ? "non-empty text" : formatParameterType(parameter)}`,
      );
    if (parameter.choices && !parameter.choices.includes(String(value)))
      return createInvalidInput(parameters, `"${name}" must be one of ${parameter.choices.join(", ")}`);
    values[name] = value;
  }
  return values as ParameterValues<P>;
}

/** Some models send an object as JSON text. */
function parseObjectText(type: ToolParameter["type"], value: unknown): unknown {
  if (type !== "object" || typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function isOfType(type: ToolParameter["type"], value: unknown): boolean {
  if (type === "strings") return Array.isArray(value) && value.every((item) => typeof item === "string");
  if (type === "object") return isJsonObject(value);
  return typeof value === type;
}

function formatParameterType({ type }: ToolParameter): string {
  return type === "strings" ? "list of texts" : type;
}

function createInvalidInput(parameters: ToolParameters, what: string): { refusal: ToolResult } {
  const takes = Object.entries(parameters).map(
    ([name, parameter]) => `${name} (${formatParameterType(parameter)}${parameter.isRequired ? "" : ", optional"})`,
  );
  const content = `Invalid input: ${what}. It takes ${takes.length === 0 ? "nothing" : takes.join(", ")}.`;
  return { refusal: { text: content, isError: true, code: "input-invalid" } };
}

/** Converts errors of a call to results, such as those of an unreadable skill or of the host. */
export async function catchToolErrors(work: () => ToolResult | Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    return createErrorResult(error);
  }
}

/** Creates the result of a call that threw. */
export function createErrorResult(error: unknown): ToolResult {
  if (!(error instanceof SkillError))
    return { text: `It failed: ${sanitizeLine(getErrorMessageWithPath(error))}`, isError: true, code: "failed" };
  return {
    text: sanitizeLine(error.message, 512) + (error.fix ? `: ${sanitizeLine(error.fix)}` : ""),
    isError: true,
    code: error.code,
  };
}
