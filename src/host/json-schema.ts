import { type Context, createContext, Script } from "node:vm";
import type { ErrorObject } from "ajv";
import { getErrorMessage } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

const MAX_PROBLEMS = 10;

/** Validates a value. Returns the problems as text, or undefined if it is valid. Contract: defaults are added to the value. */
export async function findSchemaProblem(
  schema: JsonObject,
  value: unknown,
  strictness?: SchemaStrictness,
): Promise<string | undefined> {
  const issues = await findSchemaIssues(schema, value, strictness);
  return issues === undefined ? undefined : formatInvalidInput(issues).problem;
}

/** Like `findSchemaProblem`, without the label of invalid input. */
export async function findSchemaIssues(
  schema: JsonObject,
  value: unknown,
  strictness: SchemaStrictness = "strict",
): Promise<string | undefined> {
  let validate: Validate;
  try {
    validate = await compileSchema(schema, strictness);
    if (isCachedLinear(schema) ? validate(value) : runTimeLimited(() => validate(value))) return undefined;
  } catch (error) {
    return `the schema cannot be used: ${truncateLine(getErrorMessage(error), 300)}`;
  }
  const problems = (validate.errors ?? []).slice(0, MAX_PROBLEMS * 10).map(formatSchemaProblem);
  return [...new Set(problems)].slice(0, MAX_PROBLEMS).join("; ");
}

/**
 * Returns true if validation visits each part of the value once. It then takes no longer than parsing did, and a time limit would cost
 * more than the check.
 */
function isCachedLinear(schema: JsonObject): boolean {
  const known = LINEAR_SCHEMAS.get(schema);
  if (known !== undefined) return known;
  const isLinear = isLinearSchema(schema, 0);
  LINEAR_SCHEMAS.set(schema, isLinear);
  return isLinear;
}

const LINEAR_SCHEMAS = new WeakMap<JsonObject, boolean>();
const MAX_DEPTH = 10;
/** Keywords that constrain one value, or contain schemas for its parts. */
const LINEAR_KEYWORDS = new Set([
  ...["type", "description", "title", "default", "examples", "enum", "const", "format", "required", "$schema", "$id"],
  ...["minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  ...[
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "properties",
    "items",
    "additionalProperties",
  ],
]);

function isLinearSchema(schema: unknown, depth: number): boolean {
  if (typeof schema === "boolean" || schema === undefined) return true;
  if (
    !isJsonObject(schema) ||
    depth > MAX_DEPTH ||
    !Object.keys(schema).every((keyword) => LINEAR_KEYWORDS.has(keyword))
  )
    return false;
  const { properties = {}, items, additionalProperties } = schema;
  const parts = [...(isJsonObject(properties) ? Object.values(properties) : [properties]), items, additionalProperties];
  return parts.every((part) => isLinearSchema(part, depth + 1));
}

/** Returns the reason why a schema is unusable, or undefined if it is usable. */
export async function findSchemaError(schema: JsonObject): Promise<string | undefined> {
  try {
    await compileSchema(schema, "lenient");
    return undefined;
  } catch (error) {
    return truncateLine(getErrorMessage(error), 300);
  }
}

/** The time limit of a validation: some schemas take exponential time. */
const MAX_VALIDATION_MS = 1000;

/** Runs synchronous work with a time limit, since it blocks the event loop. */
function runTimeLimited<T>(work: () => T): T {
  timeLimited ??= { context: createContext({}), script: new Script("work()") };
  return timeLimited.script.runInContext(Object.assign(timeLimited.context, { work }), { timeout: MAX_VALIDATION_MS });
}

/** The context for limited work. Shared, because creating one costs more than most validations. */
let timeLimited: { context: Context; script: Script } | undefined;

type Validate = ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

/** Compiles a schema. Contract: no reference leaves the schema, and every pattern is matched in linear time. */
async function compileSchema(schema: JsonObject, strictness: SchemaStrictness): Promise<Validate> {
  const known = COMPILED_SCHEMAS[strictness].get(schema);
  if (known) return known;
  const [{ default: ajvModule }, { default: formats }, { compileLinearPattern }] = await Promise.all([
    import("ajv/dist/2020.js"),
    import("ajv-formats"),
    import("../catalog/search/pattern-index.ts"),
  ]);
  const open =
    strictness === "strict"
      ? compileLinearPattern
      : (pattern: string) => openPatternOrAny(compileLinearPattern, pattern);
  const regExp = Object.assign((pattern: string) => open(pattern), { code: "" });
  const ajv = new ajvModule.Ajv2020({
    allErrors: true,
    strict: false,
    useDefaults: true,
    logger: false,
    validateSchema: false,
    ownProperties: true,
    code: { regExp },
  });
  (formats as unknown as (ajv: unknown, options: object) => void)(ajv, { mode: "fast" });
  // The draft and the id of a schema do not matter here. An `$async` schema would return a promise.
  const plain = Object.fromEntries(Object.entries(schema).filter(([keyword]) => !IGNORED_KEYWORDS.has(keyword)));
  const validate = runTimeLimited(() => ajv.compile(plain)) as Validate;
  COMPILED_SCHEMAS[strictness].set(schema, validate);
  return validate;
}

const IGNORED_KEYWORDS = new Set(["$schema", "$id", "id", "$async"]);
const COMPILED_SCHEMAS = { strict: new WeakMap<JsonObject, Validate>(), lenient: new WeakMap<JsonObject, Validate>() };

/** `lenient`: a pattern that cannot be matched in linear time matches everything. The author of the schema validates again. */
type SchemaStrictness = "strict" | "lenient";

function openPatternOrAny<T extends { test(text: string): boolean }>(open: (pattern: string) => T, pattern: string) {
  try {
    return open(pattern);
  } catch {
    return { test: () => true };
  }
}

function formatSchemaProblem({ instancePath, keyword, params, message = "" }: ErrorObject): string {
  const path = sanitizeLine(instancePath.slice(1).replaceAll("/", "."), 120) || "it";
  const { allowedValues, missingProperty, additionalProperty } = params as Record<string, unknown>;
  const inside = (written: unknown) => {
    const name = sanitizeLine(String(written), 64);
    return path === "it" ? `"${name}"` : `"${path}.${name}"`;
  };
  if (keyword === "required") return `${inside(missingProperty)} is missing`;
  if (keyword === "additionalProperties") return `${inside(additionalProperty)} is unknown`;
  if (keyword === "enum" && Array.isArray(allowedValues))
    return `"${path}" must be one of ${truncateLine(allowedValues.map(String).join(", "), 200)}`;
  return `${path === "it" ? path : `"${path}"`} ${sanitizeLine(message, 200)}`;
}

/** Returns the common message for input that does not match a schema. */
export function formatInvalidInput(problem: string): { problem: string } {
  return { problem: `Invalid input: ${problem}` };
}
