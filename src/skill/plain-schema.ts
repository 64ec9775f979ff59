import { spellHidden } from "../shared/hidden.ts";
import { inLine } from "../shared/prompt.ts";
import { type Data, isData } from "./data.ts";

/** What is said in a schema for whoever reads it, and means nothing to who checks by it. */
const WORDS = new Set(["description", "title", "$comment"]);
const LONGEST_WORDS = 1024;

/** A schema as a model may read it: nothing in it is hidden. Nothing, when something is in what is checked by: that cannot be spelled. */
export function plainSchema(schema: Data): Data | undefined {
  const read = plain(schema);
  return isData(read) ? read : undefined;
}

function plain(value: unknown): unknown {
  if (typeof value === "string") return isHidden(value) ? undefined : value;
  if (Array.isArray(value)) {
    const items = value.map(plain);
    return items.includes(undefined) ? undefined : items;
  }
  if (!isData(value)) return value;
  const entries: [string, unknown][] = [];
  for (const [key, item] of Object.entries(value)) {
    const isWords = WORDS.has(key) && typeof item === "string";
    const read = isWords ? inLine(item, LONGEST_WORDS) : plain(item);
    if (isHidden(key) || (read === undefined && item !== undefined)) return undefined;
    entries.push([key, read]);
  }
  return Object.fromEntries(entries);
}

function isHidden(text: string): boolean {
  return spellHidden(text).count > 0;
}
