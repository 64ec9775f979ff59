import type { ErrorObject } from "ajv";
import { reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";

export interface GivenInput {
  input?: unknown;
  message?: string | undefined;
  context?: string | undefined;
}

const LARGEST = 256 * 1024;
const MOST_PROBLEMS = 10;

/** The input as the skill's schema wants it, with its defaults put in; or what is wrong with it. */
export async function readUseInput(
  { manifest: { inputSchema } }: Skill,
  given: GivenInput,
): Promise<{ value: unknown; hasTakenContext?: boolean } | { problem: string }> {
  let value: unknown;
  try {
    // As it will be written down: what JSON does not know is not in it.
    const text = given.input === undefined ? undefined : JSON.stringify(given.input);
    if (text !== undefined && text.length > LARGEST) return invalid("it is larger than 256 KiB");
    value = text === undefined ? undefined : JSON.parse(text);
  } catch (error) {
    return invalid(`it is no JSON: ${oneLine(reason(error), 200)}`);
  }
  if (inputSchema === undefined) return { value };
  value ??= filled(inputSchema, given);
  const problem = await schemaProblem(inputSchema, value);
  if (problem !== undefined) return { problem };
  const hasTakenContext = given.input === undefined && given.message === undefined && given.context !== undefined;
  return { value, hasTakenContext: hasTakenContext && Object.values(value as object).includes(given.context) };
}

/** What of a value does not fit a schema, in words; nothing when all does. Contract: defaults are put into the value. */
export async function schemaProblem(schema: Data, value: unknown): Promise<string | undefined> {
  let validate: Validate;
  try {
    validate = await compile(schema);
    if (validate(value)) return undefined;
  } catch (error) {
    return invalid(`the schema cannot be used: ${oneLine(reason(error), 300)}`).problem;
  }
  const problems = (validate.errors ?? []).map(sayProblem);
  return invalid([...new Set(problems)].slice(0, MOST_PROBLEMS).join("; ")).problem;
}

/** Nothing but a text is asked for, and nothing but a text was given: that is the one. */
function filled(schema: Data, { message, context }: GivenInput): Data {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isData(schema["properties"]) ? schema["properties"] : {};
  const [only] = required;
  const text = message ?? context;
  const wanted = typeof only === "string" && Object.hasOwn(properties, only) ? properties[only] : undefined;
  if (required.length !== 1 || text === undefined || !isData(wanted) || wanted["type"] !== "string") return {};
  return { [only]: text };
}

type Validate = ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

/** Contract: no reference leads out of the schema, and every pattern is tried in linear time. */
async function compile(schema: Data): Promise<Validate> {
  const known = COMPILED.get(schema);
  if (known) return known;
  const [{ Ajv2020 }, { default: formats }, { openPattern }] = await Promise.all([
    import("ajv/dist/2020.js"),
    import("ajv-formats"),
    import("../catalog/patterns.ts"),
  ]);
  const regExp = Object.assign((pattern: string) => openPattern(pattern), { code: "" });
  const ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    useDefaults: true,
    logger: false,
    validateSchema: false,
    code: { regExp },
  });
  (formats as unknown as (ajv: unknown, options: object) => void)(ajv, { mode: "fast" });
  // Which draft it says it is of changes nothing that matters here.
  const { $schema: _, $id: __, ...plain } = schema as Data;
  const validate = ajv.compile({ ...plain }) as Validate;
  COMPILED.set(schema, validate);
  return validate;
}

const COMPILED = new WeakMap<Data, Validate>();

function sayProblem({ instancePath, keyword, params, message = "" }: ErrorObject): string {
  const place = instancePath.slice(1).replaceAll("/", ".") || "it";
  const { allowedValues, missingProperty, additionalProperty } = params as Record<string, unknown>;
  const inside = (name: unknown) => (place === "it" ? `"${name}"` : `"${place}.${name}"`);
  if (keyword === "required") return `${inside(missingProperty)} is missing`;
  if (keyword === "additionalProperties") return `${inside(oneLine(String(additionalProperty), 64))} is not known`;
  if (keyword === "enum" && Array.isArray(allowedValues))
    return `"${place}" must be one of ${oneLine(allowedValues.map(String).join(", "), 200)}`;
  return `${place === "it" ? place : `"${oneLine(place, 120)}"`} ${oneLine(message, 200)}`;
}

function invalid(problem: string): { problem: string } {
  return { problem: `Invalid input: ${problem}` };
}
