import { schemaProblem } from "../host/schema.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";
import type { StandardSchema } from "../skill/define-tool.ts";

/** A schema of zod, or of any other library of its kind, or JSON Schema. */
export type ProviderSchema = StandardSchema | Data;

export type ValueOf<Schema> = Schema extends { "~standard": { types?: { output: infer Value } | undefined } }
  ? Value
  : Data;

/** As JSON Schema. Throws `provider-invalid`; `where` says whose it is. */
export function jsonSchemaOf(given: ProviderSchema, where: string): Data {
  const standard = standardOf(given);
  if (!standard) {
    if (isData(given)) return given;
    throw new SkillError("provider-invalid", {
      message: `${where} is no schema`,
      fix: "give one of zod, z.object({ … }), or JSON Schema",
    });
  }
  if (!standard.jsonSchema) {
    throw new SkillError("provider-invalid", {
      message: `${where} (${oneLine(String(standard.vendor), 40)}) cannot say itself as JSON Schema`,
      fix: "use zod 4.2 or newer, or give JSON Schema",
    });
  }
  try {
    const { $schema: _, ...rest } = standard.jsonSchema.input({ target: "draft-2020-12" });
    return rest;
  } catch (error) {
    throw new SkillError("provider-invalid", {
      message: `${where} cannot be said as JSON Schema: ${reason(error)}`,
      fix: "leave out what JSON has not: dates, maps, functions",
      cause: error,
    });
  }
}

/** The input as the operation is to get it, with defaults in it. Throws `input-invalid`. */
export async function readInput(given: ProviderSchema, schema: Data, input: unknown): Promise<unknown> {
  const value = structuredClone(input ?? {});
  // Of what was described, and then what only its own library knows.
  const problem = await schemaProblem(schema, value, "lenient");
  if (problem !== undefined) throw invalid(problem);
  const standard = standardOf(given);
  if (!standard) return value;
  const { value: read, issues } = await standard.validate(value);
  if (!issues) return read;
  throw invalid(
    `Invalid input: ${issues
      .slice(0, 10)
      .map(({ message }) => oneLine(message, 200))
      .join("; ")}`,
  );
}

function standardOf(given: ProviderSchema): StandardSchema["~standard"] | undefined {
  return Object(given) === given ? (given as Partial<StandardSchema>)["~standard"] : undefined;
}

function invalid(message: string): SkillError {
  return new SkillError("input-invalid", { message, fix: "`skillet-sb capability list` says what it takes" });
}
