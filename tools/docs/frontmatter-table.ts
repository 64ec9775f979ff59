import { createFrontmatterSchema } from "../../src/cli/commands/schema.ts";
import { NATIVE_CLIENTS } from "../../src/remote/clients/native-clients.ts";
import { MANIFEST_FIELDS, STANDARD_KEYS } from "../../src/skill/manifest.ts";
import type { JsonObject } from "../../src/util/objects.ts";

/** Returns the page with the current table of keys. */
export function withFrontmatterTable(page: string): string {
  return page.replace(/(?<=<!-- made by npm run docs -->\n\n)[\s\S]*?(?=\n\n<!-- end -->)/, () => frontmatterTable());
}

/** Formats a row for every key: its spellings, value types, meaning, and the clients that know it. */
export function frontmatterTable(): string {
  const { properties } = createFrontmatterSchema() as { properties: Record<string, JsonObject> };
  const others = MANIFEST_FIELDS.find(({ name }) => name === "other")?.keys ?? [];
  const own = others.filter((key) => properties[key]?.["type"] !== undefined);
  const kept = others.filter((key) => !own.includes(key));
  const line = (keys: readonly string[], isAlsoBelow = false) => {
    const [first = ""] = keys;
    const { description, ...shape } = properties[first] ?? {};
    return row([`${spelled(keys)}${isAlsoBelow ? " *" : ""}`, takes(shape), String(description), knowing(keys)]);
  };
  return [
    row(["key", "takes", "meaning", "also known to"]),
    "|---|---|---|---|",
    ...own.map((key) => line([key])),
    ...MANIFEST_FIELDS.filter(({ name }) => name !== "other").map(({ keys, place }) =>
      line(keys, place === "metadata"),
    ),
    ...[...Map.groupBy(kept, (key) => knowing([key])).values()].map((keys) => line(keys)),
  ].join("\n");
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function spelled(keys: readonly string[]): string {
  return keys.map((key) => `\`${key}\``).join(", ");
}

/** Names of values by their types: the first match applies. */
const TYPES: readonly [types: readonly string[], word: string][] = [
  [["array", "number"], "a list, or one text"],
  [["object", "array"], "keys and values, or a list"],
  [["object"], "keys and values"],
  [["boolean"], "true or false"],
  [["integer"], "a number"],
  [["string"], "a text"],
  [[], "anything"],
];

function takes({ type, anyOf, maxLength }: JsonObject): string {
  if (anyOf) return "a list";
  const types = [type].flat();
  const word = TYPES.find(([all]) => all.every((one) => types.includes(one)))?.[1] ?? "";
  return typeof maxLength === "number" ? `${word}, at most ${maxLength} characters` : word;
}

function knowing(keys: readonly string[]): string {
  if (keys.some((key) => STANDARD_KEYS.includes(key))) return "every client";
  const clients = Object.values(NATIVE_CLIENTS).filter((client) => client.keys.some((key) => keys.includes(key)));
  return clients.map(({ title }) => title).join(", ");
}
