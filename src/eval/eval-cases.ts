import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { findSchemaIssues } from "../host/json-schema.ts";
import { readFullYaml } from "../skill/frontmatter.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";

/** Conditions on a text. All of them must hold. */
export interface TextConditions {
  contains?: readonly string[];
  notContains?: readonly string[];
  /** Regular expressions without lookarounds and backreferences. */
  matches?: readonly string[];
  notMatches?: readonly string[];
  equals?: string;
  /** The JSON Schema of the text, which is then JSON. */
  schema?: JsonObject;
}

/** A check of a finished trial. */
export type Grader = { name?: string } & (
  | { kind: "file"; path: string; exists: boolean; conditions: TextConditions }
  | { kind: "answer"; conditions: TextConditions }
  | { kind: "command"; run: string; exit: number; conditions: TextConditions }
  | { kind: "tool_used"; tool: string; min: number; max: number | undefined; input?: string }
  | { kind: "tool_order"; tools: readonly string[] }
  | { kind: "max_tokens"; tokens: number }
  | { kind: "max_cost"; dollars: number }
  | { kind: "rubric"; text: string }
);

/** One task with its graders. */
export interface EvalCase {
  name: string;
  prompt: string;
  context?: string;
  /** A shell command that prepares the workspace, in the sandbox and without network. */
  setup?: string;
  /** Files of the workspace, by path. */
  files: Readonly<Record<string, string>>;
  /** A folder whose content is copied into the workspace before `files`. Absolute. */
  folder?: string;
  /** Files on disk that are copied into the workspace: by path in the workspace, absolute. */
  copies: Readonly<Record<string, string>>;
  graders: readonly Grader[];
  trials?: number;
  limits: { seconds?: number; iterations?: number; tokens?: number };
}

/** The cases of one file, and what of it has no counterpart. */
export interface EvalSuite {
  file: string;
  format: string;
  /** The folder that graders can read as `$SKILLET_EVALS`. */
  folder: string;
  cases: readonly EvalCase[];
  /** One line for each part of a foreign format that is ignored or changed. */
  notes: readonly string[];
}

/** The own files of cases, relative to a skill's folder. */
export const CASE_FILES = ["evals/tasks.yaml", "evals/tasks.yml", "evals/tasks.json"] as const;

/** Reads a file of cases in the own format. Throws a SkillError if it is invalid. */
export async function readEvalCases(file: string): Promise<EvalSuite> {
  const data = readDataFile(file);
  const issues = await findSchemaIssues(createEvalSchema(), structuredClone(data));
  if (issues !== undefined) throw createEvalFileError(file, issues);
  const folder = dirname(file);
  const { trials, limits = {}, cases } = data as { trials?: number; limits?: JsonObject; cases: JsonObject[] };
  const names = cases.map(({ name }) => String(name));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw createEvalFileError(file, `two cases have the name "${twice}"`);
  return {
    file,
    format: "skillet",
    folder,
    notes: [],
    cases: cases.map((one): EvalCase => {
      const own = one["folder"] as string | undefined;
      return {
        name: String(one["name"]),
        prompt: String(one["prompt"]),
        files: (one["files"] as Record<string, string> | undefined) ?? {},
        copies: {},
        graders: (one["graders"] as JsonObject[]).map((grader) => readGrader(grader, file)),
        limits: { ...limits, ...(one["limits"] as object | undefined) },
        ...omitUndefined({
          context: one["context"] as string | undefined,
          setup: one["setup"] as string | undefined,
          trials: (one["trials"] as number | undefined) ?? trials,
          folder: own === undefined ? undefined : resolveCasePath(folder, own, file),
        }),
      };
    }),
  };
}

/** Reads YAML or JSON. Throws a SkillError if it is not a mapping. */
export function readDataFile(file: string): JsonObject {
  let text: string;
  try {
    text = readRegularText(file).replace(/^\ufeff/, "");
  } catch (error) {
    throw createEvalFileError(file, `cannot be read: ${getErrorMessage(error)}`);
  }
  if (/\.json$/.test(file)) {
    try {
      const data: unknown = JSON.parse(text);
      if (isJsonObject(data)) return data;
    } catch {
      throw createEvalFileError(file, "is not valid JSON");
    }
    throw createEvalFileError(file, "is not an object");
  }
  const { data, findings } = readFullYaml(text, 1);
  const [first] = findings;
  if (first)
    throw createEvalFileError(file, `${first.message}${first.line === undefined ? "" : ` (line ${first.line})`}`);
  return data;
}

export function createEvalFileError(file: string, what: string): SkillError {
  return new SkillError("eval-invalid", {
    message: `${file}: ${what}`,
    fix: "docs/eval.md describes the format; to see its JSON Schema",
    commands: ["skillet schema evals"],
  });
}

/** Returns the absolute path of a file next to a case. Throws a SkillError for a path outside its folder. */
export function resolveCasePath(folder: string, path: string, file: string): string {
  const whole = resolve(folder, path);
  if (isAbsolute(path) || relative(folder, whole).startsWith(".."))
    throw createEvalFileError(file, `the path "${path}" is outside ${folder}`);
  if (!existsSync(whole)) throw createEvalFileError(file, `"${path}" does not exist in ${folder}`);
  return whole;
}

/** Finds the file of cases of a skill in the own format. */
export function findCaseFile(skillFolder: string): string | undefined {
  return CASE_FILES.map((path) => join(skillFolder, path)).find((path) => existsSync(path));
}

interface GraderRow {
  means: string;
  schema: JsonObject;
  read(value: unknown): Grader;
}

const text = (description: string): JsonObject => ({ type: "string", minLength: 1, description });
const texts = (description: string): JsonObject => ({
  type: ["string", "array"],
  items: { type: "string" },
  description,
});

/** The conditions on a text, as written in a file. */
const CONDITION_SCHEMAS: Readonly<Record<string, JsonObject>> = {
  contains: texts("Texts that must occur."),
  not_contains: texts("Texts that must not occur."),
  matches: texts("Regular expressions (RE2) that must match somewhere in the text."),
  not_matches: texts("Regular expressions (RE2) that must not match."),
  equals: { type: "string", description: "The whole text. A line break at its end does not count." },
  schema: { type: "object", description: "A JSON Schema. The text must be JSON that it accepts." },
};

function readConditions(value: JsonObject): TextConditions {
  const list = (key: string) => {
    const input = value[key];
    return input === undefined ? undefined : ([input].flat() as string[]);
  };
  return omitUndefined({
    contains: list("contains"),
    notContains: list("not_contains"),
    matches: list("matches"),
    notMatches: list("not_matches"),
    equals: value["equals"] as string | undefined,
    schema: value["schema"] as JsonObject | undefined,
  });
}

function objectSchema(properties: Readonly<Record<string, JsonObject>>, required: readonly string[] = []): JsonObject {
  return { type: "object", properties, required, additionalProperties: false };
}

/** A value that is either one text or an object. */
function textOr(description: string, properties: Readonly<Record<string, JsonObject>>, required: string): JsonObject {
  return { anyOf: [text(description), objectSchema(properties, [required])] };
}

function asObject(value: unknown, key: string): JsonObject {
  return typeof value === "string" ? { [key]: value } : (value as JsonObject);
}

/** THE table of graders: each key of a grader in a file. */
export const GRADER_ROWS: Readonly<Record<Grader["kind"], GraderRow>> = {
  file: {
    means: "A file of the workspace exists, and its content meets the conditions.",
    schema: textOr(
      "The path of a file that must exist.",
      {
        path: text("The path in the workspace."),
        exists: { type: "boolean", description: "False: the file must not exist. Defaults to true." },
        ...CONDITION_SCHEMAS,
      },
      "path",
    ),
    read(value) {
      const fields = asObject(value, "path");
      const { path, exists = true } = fields as { path?: unknown; exists?: unknown };
      return { kind: "file", path: String(path), exists: exists === true, conditions: readConditions(fields) };
    },
  },
  answer: {
    means: "The answer meets the conditions.",
    schema: objectSchema(CONDITION_SCHEMAS),
    read: (value) => ({ kind: "answer", conditions: readConditions(value as JsonObject) }),
  },
  command: {
    means:
      "A shell command in the workspace, in the sandbox and without network, ends with this exit status. `$SKILLET_EVALS` is the folder of the case file.",
    schema: textOr(
      "The command.",
      {
        run: text("The command."),
        exit: { type: "integer", description: "The expected exit status. Defaults to 0." },
        ...CONDITION_SCHEMAS,
      },
      "run",
    ),
    read(value) {
      const fields = asObject(value, "run");
      return {
        kind: "command",
        run: String(fields["run"]),
        exit: (fields["exit"] as number | undefined) ?? 0,
        conditions: readConditions(fields),
      };
    },
  },
  tool_used: {
    means: "A tool was called at least `min` (default 1) and at most `max` times.",
    schema: textOr(
      "The name of a tool.",
      {
        tool: text("The name of a tool."),
        input: text("A regular expression (RE2) that the input of a counted call matches, as JSON."),
        min: { type: "integer", minimum: 0 },
        max: { type: "integer", minimum: 0 },
      },
      "tool",
    ),
    read(value) {
      const fields = asObject(value, "tool");
      const { min, max, input } = fields as { min?: number; max?: number; input?: string };
      const tool = String(fields["tool"]);
      return { kind: "tool_used", tool, min: min ?? (max === 0 ? 0 : 1), max, ...omitUndefined({ input }) };
    },
  },
  tool_order: {
    means: "These tools were called in this order; other calls may be between them.",
    schema: { type: "array", items: { type: "string" }, minItems: 2 },
    read: (value) => ({ kind: "tool_order", tools: value as string[] }),
  },
  max_tokens: {
    means: "The trial used at most so many tokens, input and output.",
    schema: { type: "integer", minimum: 1 },
    read: (value) => ({ kind: "max_tokens", tokens: value as number }),
  },
  max_cost: {
    means: "The trial cost at most so many dollars. Needs the price of the model.",
    schema: { type: "number", exclusiveMinimum: 0 },
    read: (value) => ({ kind: "max_cost", dollars: value as number }),
  },
  rubric: {
    means: "A model finds that the answer meets this description, asked twice with the order swapped.",
    schema: text("What a good answer is like."),
    read: (value) => ({ kind: "rubric", text: value as string }),
  },
};

function readGrader(fields: JsonObject, file: string): Grader {
  const [kind, ...others] = Object.keys(fields).filter((key) => key in GRADER_ROWS) as Grader["kind"][];
  if (kind === undefined || others.length > 0)
    throw createEvalFileError(file, `a grader needs exactly one of ${Object.keys(GRADER_ROWS).join(", ")}`);
  const { name } = fields as { name?: string };
  return { ...GRADER_ROWS[kind].read(fields[kind]), ...omitUndefined({ name }) };
}

/** Creates the JSON Schema of a file of cases. */
export function createEvalSchema(): JsonObject {
  const limits = objectSchema({
    seconds: { type: "number", exclusiveMinimum: 0, description: "The time limit of a trial." },
    iterations: { type: "integer", minimum: 1, description: "The number of model calls of a trial." },
    tokens: { type: "integer", minimum: 1, description: "The tokens of a trial." },
  });
  const kinds = Object.entries(GRADER_ROWS).map(([kind, { schema, means }]) => [
    kind,
    { ...schema, description: means },
  ]);
  const grader: JsonObject = {
    ...objectSchema({ ...Object.fromEntries(kinds), name: text("A name for reports.") }),
    description: `Exactly one of ${Object.keys(GRADER_ROWS).join(", ")}.`,
    minProperties: 1,
    maxProperties: 2,
  };
  const trials: JsonObject = { type: "integer", minimum: 1, maximum: 10_000, description: "Trials of each arm." };
  const one = objectSchema(
    {
      name: { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$", description: "Unique in the file." },
      prompt: text("The task, as a user would write it."),
      context: text("The part of a conversation that the task needs."),
      setup: text(
        "A shell command that prepares the workspace, in the sandbox. `$SKILLET_EVALS` is the folder of this file.",
      ),
      folder: text("A folder next to this file; its content is copied into the workspace."),
      files: {
        type: "object",
        additionalProperties: { type: "string" },
        description: "Files of the workspace: path to content.",
      },
      graders: { type: "array", minItems: 1, items: grader },
      trials,
      limits,
    },
    ["name", "prompt", "graders"],
  );
  const schema = objectSchema(
    {
      version: { const: 1, description: "The version of this format." },
      trials,
      limits,
      cases: { type: "array", minItems: 1, items: one },
    },
    ["version", "cases"],
  );
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "skillet: cases of `skillet eval --level task` (evals/tasks.yaml of a skill)",
    ...schema,
  };
}
