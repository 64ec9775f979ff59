import { invalid, schemaProblem } from "../host/schema.ts";
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
