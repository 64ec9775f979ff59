import { reveal } from "../shared/hidden.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";

/** What a tool takes, in a line: `input: string, count?: number`. Empty when it takes nothing, or its schema does not say. */
export function takesOf(schema: Data): string {
  const properties = isData(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties)
    .map(([name, shape]) => `${reveal(name)}${required.includes(name) ? "" : "?"}: ${typeOf(shape)}`)
    .join(", ");
}

const MOST_CHOICES = 8;

function typeOf(shape: unknown): string {
  if (!isData(shape)) return "any";
  const { type, enum: choices, const: only, items, anyOf, oneOf } = shape;
  const several = [anyOf, oneOf].find(Array.isArray);
  if (only !== undefined) return said(only);
  if (Array.isArray(choices))
    return `${choices.slice(0, MOST_CHOICES).map(said).join(" | ")}${choices.length > MOST_CHOICES ? " | …" : ""}`;
  if (several) return [...new Set(several.map(typeOf))].join(" | ");
  if (type === "array") return items === undefined ? "any[]" : listOf(typeOf(items));
  if (Array.isArray(type)) return type.join(" | ");
  return typeof type === "string" ? oneLine(type, 20) : "any";
}

function listOf(type: string): string {
  return type.includes(" ") ? `(${type})[]` : `${type}[]`;
}

function said(value: unknown): string {
  return oneLine(JSON.stringify(value) ?? "", 40);
}
