import { type Context, createContext, Script } from "node:vm";
import type { ErrorObject } from "ajv";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
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
  const read = given.input === undefined ? { value: undefined } : asData(given.input);
  if ("problem" in read) return read;
  let { value } = read;
  if (inputSchema === undefined) return { value };
  value ??= filled(inputSchema, given);
  const problem = await schemaProblem(inputSchema, value);
  if (problem !== undefined) return { problem };
  const hasTakenContext = given.input === undefined && given.message === undefined && given.context !== undefined;
  return { value, hasTakenContext: hasTakenContext && Object.values(value as object).includes(given.context) };
}

/** What of a value does not fit a schema, in words; nothing when all does. Contract: defaults are put into the value. */
export async function schemaProblem(schema: Data, value: unknown, care: Care = "strict"): Promise<string | undefined> {
  let validate: Validate;
  try {
    validate = await compile(schema, care);
    if (inTime(() => validate(value))) return undefined;
  } catch (error) {
    return invalid(`the schema cannot be used: ${oneLine(reason(error), 300)}`).problem;
  }
  const problems = (validate.errors ?? []).slice(0, MOST_PROBLEMS * 10).map(sayProblem);
  return invalid([...new Set(problems)].slice(0, MOST_PROBLEMS).join("; ")).problem;
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

/** What was given, as JSON has it. */
function asData(input: unknown): { value: unknown } | { problem: string } {
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (error) {
    return invalid(error instanceof RangeError ? TOO_DEEP : `it is no JSON: ${oneLine(reason(error), 100)}`);
  }
  if (text === undefined) return invalid("it is no JSON");
  if (text.length > LARGEST) return invalid("it is larger than 256 KiB");
  const value: unknown = JSON.parse(text);
  return isDeeper(value, DEEPEST) ? invalid(TOO_DEEP) : { value };
}

const DEEPEST = 100;
const TOO_DEEP = `it is nested more than ${DEEPEST} deep`;

function isDeeper(value: unknown, most: number): boolean {
  let level = [value];
  for (let depth = 0; depth <= most && level.length > 0; depth++) {
    level = level.flatMap((item) => (item !== null && typeof item === "object" ? Object.values(item) : []));
  }
  return level.length > 0;
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

function invalid(problem: string): { problem: string } {
  return { problem: `Invalid input: ${problem}` };
}
