import { type Data, isData } from "./data.ts";
import type { ToolResult } from "./tool.ts";

/** One parameter of a tool. */
export interface Parameter {
  type: "string" | "number" | "boolean" | "strings" | "object";
  says: string;
  isRequired?: boolean;
  /** Whether a text without a character is one: the content of an empty file. */
  mayBeEmpty?: boolean;
  /** Other spellings that are taken too. */
  also?: readonly string[];
  choices?: readonly string[];
}
export type Parameters = Readonly<Record<string, Parameter>>;
type Types = { string: string; number: number; boolean: boolean; strings: string[]; object: Data };
export type Values<P extends Parameters> = {
  [Name in keyof P]: P[Name]["isRequired"] extends true ? Types[P[Name]["type"]] : Types[P[Name]["type"]] | undefined;
};

export function schemaOf(parameters: Parameters): Data {
  const properties: Data = {};
  for (const [name, { type, says, choices }] of Object.entries(parameters)) {
    const shape = type === "strings" ? { type: "array", items: { type: "string" } } : { type };
    properties[name] = { ...shape, description: says, ...(choices ? { enum: choices } : {}) };
  }
  const required = Object.keys(parameters).filter((name) => parameters[name]?.isRequired);
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
}

/** Reads what a model sent, or says what is wrong with it and what there is to send. */
export function readInput<P extends Parameters>(parameters: P, input: unknown): Values<P> | { refusal: ToolResult } {
  if (input !== undefined && input !== null && (typeof input !== "object" || Array.isArray(input)))
    return invalid(parameters, "it is no object");
  const given = { ...(input as Record<string, unknown> | null | undefined) };
  const values: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries(parameters)) {
    const spelling = [name, ...(parameter.also ?? [])].find((key) => given[key] !== undefined && given[key] !== null);
    const value = spelling === undefined ? undefined : parsed(parameter.type, given[spelling]);
    if (value === undefined || (value === "" && !parameter.isRequired)) {
      if (parameter.isRequired) return invalid(parameters, `"${name}" is missing`);
      continue;
    }
    const isEmpty = value === "" && !parameter.mayBeEmpty;
    if (!isOf(parameter.type, value) || isEmpty || Number.isNaN(value))
      return invalid(parameters, `"${name}" must be a ${isEmpty ? "text that is not empty" : sayType(parameter)}`);
    if (parameter.choices && !parameter.choices.includes(String(value)))
      return invalid(parameters, `"${name}" must be one of ${parameter.choices.join(", ")}`);
    values[name] = value;
  }
  return values as Values<P>;
}

/** Some models write an object as a text that holds one. */
function parsed(type: Parameter["type"], value: unknown): unknown {
  if (type !== "object" || typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function isOf(type: Parameter["type"], value: unknown): boolean {
  if (type === "strings") return Array.isArray(value) && value.every((item) => typeof item === "string");
  if (type === "object") return isData(value);
  return typeof value === type;
}

function sayType({ type }: Parameter): string {
  return type === "strings" ? "list of texts" : type;
}

function invalid(parameters: Parameters, what: string): { refusal: ToolResult } {
  const takes = Object.entries(parameters).map(
    ([name, parameter]) => `${name} (${sayType(parameter)}${parameter.isRequired ? "" : ", optional"})`,
  );
  const content = `Invalid input: ${what}. It takes ${takes.length === 0 ? "nothing" : takes.join(", ")}.`;
  return { refusal: { content, isError: true, code: "input-invalid" } };
}
