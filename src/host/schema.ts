import { type Context, createContext, Script } from "node:vm";
import type { ErrorObject } from "ajv";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";

const MOST_PROBLEMS = 10;

/** What of a value does not fit a schema, in words; nothing when all does. Contract: defaults are put into the value. */
export async function schemaProblem(schema: Data, value: unknown, care: Care = "strict"): Promise<string | undefined> {
  let validate: Validate;
  try {
    validate = await compile(schema, care);
    if (isLinear(schema) ? validate(value) : inTime(() => validate(value))) return undefined;
  } catch (error) {
    return invalid(`the schema cannot be used: ${oneLine(reason(error), 300)}`).problem;
  }
  const problems = (validate.errors ?? []).slice(0, MOST_PROBLEMS * 10).map(sayProblem);
  return invalid([...new Set(problems)].slice(0, MOST_PROBLEMS).join("; ")).problem;
}

/**
 * Whether a value is looked at once, part by part: then it takes no longer than reading it did, and to watch the time would take longer than
 * the check.
 */
function isLinear(schema: Data): boolean {
  const known = LINEAR.get(schema);
  if (known !== undefined) return known;
  const is = isPlain(schema, 0);
  LINEAR.set(schema, is);
  return is;
}

const LINEAR = new WeakMap<Data, boolean>();
const MOST_DEEP = 10;
/** Keywords that say something about one value, or hold schemas for parts of it. */
const PLAIN = new Set([
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

function isPlain(schema: unknown, depth: number): boolean {
  if (typeof schema === "boolean" || schema === undefined) return true;
  if (!isData(schema) || depth > MOST_DEEP || !Object.keys(schema).every((keyword) => PLAIN.has(keyword))) return false;
  const { properties = {}, items, additionalProperties } = schema;
  const parts = [...(isData(properties) ? Object.values(properties) : [properties]), items, additionalProperties];
  return parts.every((part) => isPlain(part, depth + 1));
}

/** Why a schema cannot be used at all. */
export async function unusableSchema(schema: Data): Promise<string | undefined> {
  try {
    await compile(schema, "lenient");
    return undefined;
  } catch (error) {
    return oneLine(reason(error), 300);
  }
}

/** What all of a schema may take: one can ask for more than anybody lives to see. */
const LONGEST_MS = 1000;

/** Nothing else can happen meanwhile, so it must end. */
function inTime<T>(work: () => T): T {
  timed ??= { context: createContext({}), script: new Script("work()") };
  return timed.script.runInContext(Object.assign(timed.context, { work }), { timeout: LONGEST_MS });
}

/** What can be stopped: a context costs more than most of what is done in it. */
let timed: { context: Context; script: Script } | undefined;

type Validate = ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

/** Contract: no reference leads out of the schema, and every pattern is tried in linear time. */
async function compile(schema: Data, care: Care): Promise<Validate> {
  const known = COMPILED[care].get(schema);
  if (known) return known;
  const [{ Ajv2020 }, { default: formats }, { openPattern }] = await Promise.all([
    import("ajv/dist/2020.js"),
    import("ajv-formats"),
    import("../catalog/patterns.ts"),
  ]);
  const open = care === "strict" ? openPattern : (pattern: string) => openedOrAny(openPattern, pattern);
  const regExp = Object.assign((pattern: string) => open(pattern), { code: "" });
  const ajv = new Ajv2020({
    allErrors: true,
    strict: false,
    useDefaults: true,
    logger: false,
    validateSchema: false,
    ownProperties: true,
    code: { regExp },
  });
  (formats as unknown as (ajv: unknown, options: object) => void)(ajv, { mode: "fast" });
  // Which draft it says it is of, and what it is called there, changes nothing that matters here. One that is `$async` would answer later.
  const plain = Object.fromEntries(Object.entries(schema).filter(([keyword]) => !UNHEEDED.has(keyword)));
  const validate = inTime(() => ajv.compile(plain)) as Validate;
  COMPILED[care].set(schema, validate);
  return validate;
}

const UNHEEDED = new Set(["$schema", "$id", "id", "$async"]);
const COMPILED = { strict: new WeakMap<Data, Validate>(), lenient: new WeakMap<Data, Validate>() };

/** `lenient`: a pattern that cannot be tried in linear time fits everything. Whoever wrote the schema checks by it again. */
type Care = "strict" | "lenient";

function openedOrAny<T extends { test(text: string): boolean }>(open: (pattern: string) => T, pattern: string) {
  try {
    return open(pattern);
  } catch {
    return { test: () => true };
  }
}

function sayProblem({ instancePath, keyword, params, message = "" }: ErrorObject): string {
  const place = inLine(instancePath.slice(1).replaceAll("/", "."), 120) || "it";
  const { allowedValues, missingProperty, additionalProperty } = params as Record<string, unknown>;
  const inside = (written: unknown) => {
    const name = inLine(String(written), 64);
    return place === "it" ? `"${name}"` : `"${place}.${name}"`;
  };
  if (keyword === "required") return `${inside(missingProperty)} is missing`;
  if (keyword === "additionalProperties") return `${inside(additionalProperty)} is not known`;
  if (keyword === "enum" && Array.isArray(allowedValues))
    return `"${place}" must be one of ${oneLine(allowedValues.map(String).join(", "), 200)}`;
  return `${place === "it" ? place : `"${place}"`} ${inLine(message, 200)}`;
}

/** As everybody says it who was given something that does not fit. */
export function invalid(problem: string): { problem: string } {
  return { problem: `Invalid input: ${problem}` };
}
