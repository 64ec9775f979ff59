import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { defineTool } from "./define-tool.ts";

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
  metadata?: JsonObject;
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
  readonly inputSchema: JsonObject;
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

interface ToolDeclaration<P extends ToolParameters> extends Pick<Tool, "name" | "description" | "category"> {
  parameters: P;
  effect?(values: ParameterValues<P>): ToolEffect | undefined;
}

/** A tool from a table of its parameters. Wrong input and what goes wrong in `run` are results. */
export function createTool<P extends ToolParameters>(
  head: ToolDeclaration<P>,
  run: (values: ParameterValues<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  const { name, description, category, parameters, effect } = head;
  return {
    name,
    description,
    category,
    inputSchema: createInputSchema(parameters),
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
      return "refusal" in values
        ? (values.refusal as ToolResult)
        : catchToolErrors(() => run(values as ParameterValues<P>, options));
    },
  };
}

/** One parameter of a tool. */
interface ToolParameter {
  type: "string" | "number" | "boolean" | "strings" | "object";
  says: string;
  isRequired?: boolean;
  /** Whether a text without a character is one: the content of an empty file. */
  mayBeEmpty?: boolean;
  /** Other spellings that are taken too. */
  also?: readonly string[];
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
  for (const [name, { type, says, choices }] of Object.entries(parameters)) {
    const shape = type === "strings" ? { type: "array", items: { type: "string" } } : { type };
    properties[name] = { ...shape, description: says, ...(choices ? { enum: choices } : {}) };
  }
  const required = Object.keys(parameters).filter((name) => parameters[name]?.isRequired);
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
}

/** Reads what a model sent, or says what is wrong with it and what there is to send. */
export function readToolInput<P extends ToolParameters>(
  parameters: P,
  input: unknown,
): ParameterValues<P> | { refusal: ToolResult } {
  if (input !== undefined && input !== null && (typeof input !== "object" || Array.isArray(input)))
    return createInvalidInput(parameters, "it is no object");
  const given = { ...(input as Record<string, unknown> | null | undefined) };
  const values: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries(parameters)) {
    const spelling = [name, ...(parameter.also ?? [])].find((key) => given[key] !== undefined && given[key] !== null);
    const value = spelling === undefined ? undefined : parseObjectText(parameter.type, given[spelling]);
    if (value === undefined || (value === "" && !parameter.isRequired)) {
      if (parameter.isRequired) return createInvalidInput(parameters, `"${name}" is missing`);
      continue;
    }
    const isEmpty = value === "" && !parameter.mayBeEmpty;
    if (!isOfType(parameter.type, value) || isEmpty || Number.isNaN(value))
      return createInvalidInput(
        parameters,
        `"${name}" must be a ${isEmpty ? "text that is not empty" : formatParameterType(parameter)}`,
      );
    if (parameter.choices && !parameter.choices.includes(String(value)))
      return createInvalidInput(parameters, `"${name}" must be one of ${parameter.choices.join(", ")}`);
    values[name] = value;
  }
  return values as ParameterValues<P>;
}

/** Some models write an object as a text that holds one. */
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
  return { refusal: { content, isError: true, code: "input-invalid" } };
}

/** What goes wrong while a call is answered is a result like any other: what a skill throws when it cannot be read, or a host. */
export async function catchToolErrors(work: () => ToolResult | Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError))
      return { content: `It failed: ${sanitizeLine(getErrorMessage(error))}`, isError: true, code: "failed" };
    return {
      content: sanitizeLine(error.message, 512) + (error.fix ? `: ${sanitizeLine(error.fix)}` : ""),
      isError: true,
      code: error.code,
    };
  }
}
